//! The one line of an agent, which reports how loaded or willing its backend is.
//!
//! The agent speaks first, in one line, and closes. What the words mean is not decided here: the
//! line is what was found.

use super::line::LineReader;
use super::{Conversation, Found, Heard, Next};

#[derive(Debug, Default)]
pub(super) struct Agent {
    line: LineReader,
}

impl Conversation for Agent {
    fn begin(&mut self) -> Heard {
        Ok(Next::Listen)
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        match self.line.read(input, MAX_LINE) {
            Ok(Some(line)) => Ok(Next::passed(String::from_utf8_lossy(&line))),
            Ok(None) => Ok(Next::Listen),
            Err(()) => Err(format!("the agent's line is longer than {MAX_LINE} bytes")),
        }
    }

    /// An agent may leave out the end of its line.
    fn end(&mut self) -> Result<Found, String> {
        match self.line.begun() {
            [] => Err("the agent closed without a word".into()),
            line => Ok(String::from_utf8_lossy(line).into_owned()),
        }
    }

    fn awaited(&self) -> &'static str {
        "the agent's line"
    }
}

/// The longest line of an agent that is read, in bytes.
pub const MAX_LINE: usize = 512;
