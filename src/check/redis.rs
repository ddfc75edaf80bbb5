//! A PING, as a Redis server understands it.
//!
//! Alive is a server that answers PONG, and one that wants a password first or does not let this
//! user ping: it would serve those who know it. Any other error is a failure, for Redis answers a
//! PING with one exactly when clients fare no better: while it loads its data (LOADING), while a
//! script blocks it (BUSY), when its disk fails (MISCONF), when it talks only to its own machine
//! (DENIED), or when it has too many clients.

use super::line::LineReader;
use super::{Conversation, Heard, Next, quote};

#[derive(Debug, Default)]
pub(super) struct Redis {
    line: LineReader,
}

impl Conversation for Redis {
    fn begin(&mut self) -> Heard {
        Ok(Next::Say(b"*1\r\n$4\r\nPING\r\n".to_vec()))
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        let line = match self.line.read(input, MOST_OF_LINE) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(Next::Listen),
            Err(()) => self.line.begun().to_vec(),
        };
        match line.as_slice() {
            b"+PONG" => Ok(Next::passed("PONG")),
            line if wants_login(line) => Ok(Next::passed("alive, wants a login,")),
            [b'-', error @ ..] => Err(format!("the server says {}", quote(error))),
            line => Err(format!("{} is no answer to a Redis PING", quote(line))),
        }
    }

    fn awaited(&self) -> &'static str {
        "PONG"
    }
}

fn wants_login(line: &[u8]) -> bool {
    line.starts_with(b"-NOAUTH ") || line.starts_with(b"-NOPERM ")
}

const MOST_OF_LINE: usize = 1024;
