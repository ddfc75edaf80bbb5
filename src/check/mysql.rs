//! A login to a MySQL or MariaDB server without a password, and a QUIT.
//!
//! Nothing less leaves such a server in peace. It counts every connection that ends before a login
//! as an error of the client's host, logs it, and locks the host out after `max_connect_errors` of
//! them. A login that is denied does not lock out, but is logged too. So the server passes either
//! way, and is silent where the user exists:
//! `CREATE USER evenkeel@'%'`, which may do nothing but log in. (MariaDB 10.11, November 2026.)

use super::{Conversation, Heard, Next, quote};

#[derive(Debug)]
pub(super) struct Mysql {
    user: String,
    stage: Stage,
    packet: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Greeting,
    Login,
    /// The login was done in the way that the server asked for.
    Switched,
}

impl Mysql {
    pub(super) fn new(user: &str) -> Self {
        Self { user: user.to_owned(), stage: Stage::Greeting, packet: Vec::new() }
    }

    /// How long the packet is, as far as that is known.
    fn length(&self) -> usize {
        match self.packet[..] {
            [a, b, c, _, ..] => HEADER + u32::from_le_bytes([a, b, c, 0]) as usize,
            _ => HEADER,
        }
    }

    /// A whole packet has come: its number and its payload.
    fn packet(&mut self, number: u8, payload: &[u8]) -> Heard {
        match (self.stage, payload) {
            (_, [ERROR, low, high, text @ ..]) => {
                let code = u16::from_le_bytes([*low, *high]);
                if self.stage != Stage::Greeting && REFUSED.contains(&code) {
                    let user = &self.user;
                    return Ok(Next::passed(format!("alive, {user} may not log in,")));
                }
                // An error before the login has no SQL state.
                let text = text.strip_prefix(b"#").and_then(|text| text.get(5..)).unwrap_or(text);
                Err(format!("the server says {}", quote(text)))
            }
            (Stage::Greeting, [PROTOCOL_10, ..]) => {
                self.stage = Stage::Login;
                Ok(Next::Say(login(&self.user, payload)))
            }
            (Stage::Login | Stage::Switched, [OK, ..]) => {
                let farewell = framed(0, &[COM_QUIT]);
                Ok(Next::Passed { found: "logged in".into(), farewell })
            }
            // Another way to log in: without a password they all want nothing.
            (Stage::Login, [SWITCH, ..]) => {
                self.stage = Stage::Switched;
                Ok(Next::Say(framed(number.wrapping_add(1), &[])))
            }
            (Stage::Login | Stage::Switched, [MORE, ..]) => {
                Ok(Next::passed("alive, wants a password,"))
            }
            (Stage::Greeting | Stage::Login | Stage::Switched, _) => Err(not_mysql(payload)),
        }
    }
}

impl Conversation for Mysql {
    fn begin(&mut self) -> Heard {
        Ok(Next::Listen)
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        let missing = self.length() - self.packet.len();
        let (part, rest) = input.split_at(input.len().min(missing));
        self.packet.extend_from_slice(part);
        *input = rest;
        if self.length() > MOST_OF_PACKET {
            return Err(not_mysql(&self.packet));
        }
        if self.packet.len() < HEADER || self.packet.len() < self.length() {
            return Ok(Next::Listen);
        }
        let packet = std::mem::take(&mut self.packet);
        self.packet(packet[3], &packet[HEADER..])
    }

    fn awaited(&self) -> &'static str {
        match self.stage {
            Stage::Greeting => "the greeting",
            Stage::Login | Stage::Switched => "the answer to the login",
        }
    }
}

/// The answer to a greeting: who we are, with an empty password in the server's own way.
fn login(user: &str, greeting: &[u8]) -> Vec<u8> {
    let names_plugins = capabilities(greeting) & PLUGIN_AUTH != 0;
    let mut flags = LONG_PASSWORD | PROTOCOL_41 | SECURE_CONNECTION;
    if names_plugins {
        flags |= PLUGIN_AUTH;
    }
    let mut payload = Vec::with_capacity(64);
    payload.extend_from_slice(&flags.to_le_bytes());
    payload.extend_from_slice(&MOST_PAYLOAD.to_le_bytes());
    payload.push(UTF8);
    payload.extend_from_slice(&[0; 23]);
    payload.extend_from_slice(user.as_bytes());
    // The end of the name, and a password of no bytes.
    payload.extend_from_slice(&[0, 0]);
    if names_plugins {
        payload.extend_from_slice(b"mysql_native_password\0");
    }
    framed(1, &payload)
}

/// What the server can do, as its greeting says: after the version, a number, 8 bytes of challenge
/// and a zero come the lower half, 3 other bytes, and the upper half.
fn capabilities(greeting: &[u8]) -> u32 {
    let version_end = greeting.iter().position(|&byte| byte == 0).unwrap_or(greeting.len());
    let field = |at: usize| {
        let bytes = greeting.get(version_end + at..version_end + at + 2);
        bytes.map_or(0, |bytes| u32::from(bytes[0]) | u32::from(bytes[1]) << 8)
    };
    field(14) | field(19) << 16
}

#[expect(clippy::cast_possible_truncation, reason = "our packets are short: a name is bounded")]
fn framed(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    packet.push(number);
    packet.extend_from_slice(payload);
    packet
}

fn not_mysql(bytes: &[u8]) -> String {
    format!("{} is not what a MySQL server says", quote(bytes))
}

const HEADER: usize = 4;
/// Greetings and errors have some hundred bytes.
const MOST_OF_PACKET: usize = 4096;
const MOST_PAYLOAD: u32 = 1 << 24;
const UTF8: u8 = 33;

const PROTOCOL_10: u8 = 10;
const OK: u8 = 0;
const MORE: u8 = 1;
const SWITCH: u8 = 0xfe;
const ERROR: u8 = 0xff;
const COM_QUIT: u8 = 1;

const LONG_PASSWORD: u32 = 1;
const PROTOCOL_41: u32 = 1 << 9;
const SECURE_CONNECTION: u32 = 1 << 15;
const PLUGIN_AUTH: u32 = 1 << 19;

/// Errors that concern this user and not the server: access denied (1045, 1698), another kind of
/// login wanted (1251, 1862), the account locked (3118, 4151), encryption wanted (3159).
const REFUSED: [u16; 7] = [1045, 1251, 1698, 1862, 3118, 3159, 4151];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_names_a_plugin_only_to_servers_that_know_them() {
        let greeting = |upper: u8| {
            let mut bytes = b"\x0a5.5.5-10.11\0".to_vec();
            bytes.extend_from_slice(&[1, 0, 0, 0]);
            bytes.extend_from_slice(b"12345678\0\xff\xf7\x21\x02\0");
            bytes.extend_from_slice(&[upper, 0, 21]);
            bytes
        };
        assert_eq!(capabilities(&greeting(8)), 0x0008_f7ff);
        let plain = login("me", &greeting(0));
        assert_eq!(plain[..8], [36, 0, 0, 1, 0x01, 0x82, 0, 0]);
        assert!(plain.ends_with(b"me\0\0"));
        assert!(login("me", &greeting(8)).ends_with(b"me\0\0mysql_native_password\0"));
        assert!(login("me", b"\x0a4.1").ends_with(b"me\0\0"), "a short greeting");
    }
}
