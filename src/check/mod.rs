//! What is asked of a backend to learn how it fares, and what its answers mean.
//!
//! A [`Question`] is a plain value; two that are equal need to be asked only once. Asking opens a
//! [`Conversation`]: a state machine that is fed with bytes and answers with bytes to send, with
//! nothing yet, or with a verdict. It has no socket and no clock. Whoever has them connects, gives
//! the whole conversation one deadline, and says so when it has passed.
//!
//! Invariants: a verdict never depends on how the bytes were cut on their way; every conversation
//! comes to one within a bounded number of bytes, whatever it is fed; every failure names in one
//! short sentence what was expected or what came instead.

mod agent;
mod connect;
mod exchange;
mod http;
mod line;
mod mysql;
mod postgres;
mod redis;
mod smtp;

use std::fmt;

pub use agent::MAX_LINE;
pub use http::HttpQuestion;

/// What is asked. Equal questions to one place have one answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// Whether somebody accepts the connection.
    Connect,
    /// An HTTP GET.
    Http(HttpQuestion),
    /// Bytes are sent, others waited for. Either may be empty.
    Exchange {
        /// Sent when the connection stands.
        send: Vec<u8>,
        /// What must be in the answer.
        expect: Vec<u8>,
    },
    /// A Redis PING.
    Redis,
    /// A login to a MySQL or MariaDB server, without a password.
    Mysql {
        /// Who logs in.
        user: String,
    },
    /// A question before or, with a user, at the login to a PostgreSQL server.
    Postgres {
        /// Who begins to log in.
        user: Option<String>,
    },
    /// The greeting of a mail server and its answer to EHLO.
    Smtp,
    /// The one line of an agent, which is what was found then.
    Agent,
}

impl Question {
    /// Begins to ask.
    #[must_use]
    pub fn open(&self) -> Box<dyn Conversation> {
        match self {
            Self::Connect => Box::new(connect::Connect),
            Self::Http(question) => Box::new(http::Http::new(question.clone())),
            Self::Exchange { send, expect } => {
                Box::new(exchange::Exchange::new(send.clone(), expect.clone()))
            }
            Self::Redis => Box::new(redis::Redis::default()),
            Self::Mysql { user } => Box::new(mysql::Mysql::new(user)),
            Self::Postgres { user } => Box::new(postgres::Postgres::new(user.as_deref())),
            Self::Smtp => Box::new(smtp::Smtp::default()),
            Self::Agent => Box::new(agent::Agent::default()),
        }
    }
}

/// One question being asked over one connection.
pub trait Conversation: fmt::Debug {
    /// The connection stands.
    ///
    /// # Errors
    /// Never by a kind that is here, but a verdict is a verdict.
    fn begin(&mut self) -> Heard;

    /// Takes bytes from the front of `input`; to be called again while some are left and there is
    /// no verdict.
    ///
    /// # Errors
    /// The reason, when the backend has failed.
    fn hear(&mut self, input: &mut &[u8]) -> Heard;

    /// The backend has finished, and there is no verdict yet: now there is one.
    ///
    /// # Errors
    /// The reason, when the backend has failed.
    fn end(&mut self) -> Result<Found, String> {
        Err(format!("closed while waiting for {}", self.awaited()))
    }

    /// What is to come next, in words that go on with "waiting for".
    fn awaited(&self) -> &'static str;

    /// Whether the backend is to close first, since it may still be sending and would take our end
    /// for a broken connection.
    fn waits_for_the_end(&self) -> bool {
        false
    }
}

/// What some bytes have led to, or the reason of a failure.
pub type Heard = Result<Next, String>;

/// How it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// More is awaited.
    Listen,
    /// This is to be sent, and an answer awaited.
    Say(Vec<u8>),
    /// The backend has passed.
    Passed {
        /// What was found out.
        found: Found,
        /// To be sent before the connection ends.
        farewell: Vec<u8>,
    },
}

/// What was found out, in a few words that go on with "in so many milliseconds".
pub type Found = String;

impl Next {
    fn passed(found: impl Into<Found>) -> Self {
        Self::Passed { found: found.into(), farewell: Vec::new() }
    }
}

/// The beginning of what a server said, fit for a log line.
fn quote(bytes: &[u8]) -> String {
    let cut = bytes.len() > MOST_QUOTED;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_QUOTED)]);
    let mut quoted = String::from("\"");
    for letter in text.trim_ascii().chars() {
        // What is not text takes several letters each.
        if quoted.len() > MOST_QUOTED {
            return quoted + "...\"";
        }
        quoted.extend(letter.escape_debug());
    }
    quoted + if cut { "...\"" } else { "\"" }
}

/// Whether `wanted` is in `bytes`, of which those before `known` were searched already.
fn contains(bytes: &[u8], known: usize, wanted: &[u8]) -> bool {
    let from = known.saturating_sub(wanted.len().saturating_sub(1));
    wanted.is_empty() || bytes[from..].windows(wanted.len()).any(|window| window == wanted)
}

/// Most bytes of an answer that are searched for an expected text.
const MOST_SEARCHED: usize = 16 * 1024;
/// Most bytes of an answer that are quoted in a reason, which is not much longer then.
const MOST_QUOTED: usize = 80;

#[cfg(test)]
mod tests;
