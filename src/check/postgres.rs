//! What a PostgreSQL server answers before a login, or to the beginning of one.
//!
//! Without a user the question is whether the server encrypts by GSSAPI. Every server since 12
//! answers it, yes or no, and never logs that the client then leaves; of the same question about
//! TLS, a server that says yes logs an error when no handshake follows. It shows that the server
//! takes clients, not that it serves them: one that is starting up or shutting down answers too.
//!
//! With a user, a login is begun: the server asks for a password, which is enough, and nothing is
//! logged; or it says why it serves nobody. A server that denies this user is alive, but logs it.
//! (PostgreSQL 15, November 2026.)

use super::{Conversation, Heard, Next, contains, quote};

#[derive(Debug)]
pub(super) struct Postgres {
    user: Option<String>,
    message: Vec<u8>,
}

impl Postgres {
    pub(super) fn new(user: Option<&str>) -> Self {
        Self { user: user.map(str::to_owned), message: Vec::new() }
    }

    /// How long the message is, as far as that is known: its length counts all but its kind.
    fn length(&self) -> usize {
        match self.message[..] {
            [_, a, b, c, d, ..] => 1 + u32::from_be_bytes([a, b, c, d]) as usize,
            _ => HEADER,
        }
    }

    /// A whole message has come.
    fn message(&self, kind: u8, body: &[u8]) -> Heard {
        let is_login = self.user.is_some();
        match kind {
            AUTHENTICATION if is_login && body == [0; 4] => {
                // No password: the server would go on to serve us.
                Ok(Next::Passed { found: "logged in".into(), farewell: b"X\0\0\0\x04".to_vec() })
            }
            AUTHENTICATION if is_login => Ok(Next::passed("asked for a password")),
            ERROR => {
                let state = field(body, b'C').unwrap_or_default();
                let text = field(body, b'M').unwrap_or(body);
                let denies = is_login && (state.starts_with(b"28") || state == b"3D000");
                let is_old = !is_login && contains(text, 0, b"unsupported frontend protocol");
                if denies || is_old {
                    return Ok(Next::passed(format!("alive, says {},", quote(text))));
                }
                Err(format!("the server says {}", quote(text)))
            }
            _ => Err(not_postgres(&self.message)),
        }
    }
}

impl Conversation for Postgres {
    fn begin(&mut self) -> Heard {
        let Some(user) = &self.user else {
            return Ok(Next::Say([8u32.to_be_bytes(), GSS_REQUEST.to_be_bytes()].concat()));
        };
        let fields = format!("user\0{user}\0database\0postgres\0\0");
        #[expect(clippy::cast_possible_truncation, reason = "a name is bounded")]
        let length = fields.len() as u32 + 8;
        let head = [length.to_be_bytes(), PROTOCOL_3.to_be_bytes()].concat();
        Ok(Next::Say([&head, fields.as_bytes()].concat()))
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        if let ([b'G' | b'N', rest @ ..], None, []) = (*input, &self.user, &self.message[..]) {
            *input = rest;
            return Ok(Next::passed("answered"));
        }
        let missing = self.length().saturating_sub(self.message.len());
        let (part, rest) = input.split_at(input.len().min(missing));
        self.message.extend_from_slice(part);
        *input = rest;
        if self.message.len() < HEADER {
            return Ok(Next::Listen);
        }
        let kind = self.message[0];
        let is_known = kind == ERROR || kind == AUTHENTICATION;
        if !is_known || !(HEADER..=MOST_OF_MESSAGE).contains(&self.length()) {
            return Err(not_postgres(&self.message));
        }
        if self.message.len() < self.length() {
            return Ok(Next::Listen);
        }
        self.message(kind, &self.message[HEADER..])
    }

    fn awaited(&self) -> &'static str {
        if self.user.is_some() { "the answer to the login" } else { "an answer" }
    }
}

/// A field of an error message: each is a letter, a text and a zero.
fn field(body: &[u8], letter: u8) -> Option<&[u8]> {
    body.split(|&byte| byte == 0).find(|field| field.first() == Some(&letter)).map(|f| &f[1..])
}

fn not_postgres(bytes: &[u8]) -> String {
    format!("{} is not what a PostgreSQL server says", quote(bytes))
}

const HEADER: usize = 5;
/// Questions for a password and errors have some hundred bytes.
const MOST_OF_MESSAGE: usize = 4096;
const GSS_REQUEST: u32 = 80_877_104;
const PROTOCOL_3: u32 = 3 << 16;
const AUTHENTICATION: u8 = b'R';
const ERROR: u8 = b'E';
