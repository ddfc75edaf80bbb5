//! Some bytes are sent, others must be in the answer, wherever it is cut.
//!
//! Only the first 16 KiB of the answer are looked at. Where nothing is expected, the backend has
//! passed when the bytes are on their way.

use super::{Conversation, Found, Heard, MOST_SEARCHED, Next, contains, quote};

#[derive(Debug)]
pub(super) struct Exchange {
    send: Vec<u8>,
    expect: Vec<u8>,
    heard: Vec<u8>,
}

impl Exchange {
    pub(super) fn new(send: Vec<u8>, expect: Vec<u8>) -> Self {
        Self { send, expect, heard: Vec::new() }
    }
}

impl Conversation for Exchange {
    fn begin(&mut self) -> Heard {
        let send = std::mem::take(&mut self.send);
        if self.expect.is_empty() {
            return Ok(Next::Passed { found: "connected and sent".into(), farewell: send });
        }
        Ok(Next::Say(send))
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        let known = self.heard.len();
        let (part, rest) = input.split_at(input.len().min(MOST_SEARCHED - known));
        self.heard.extend_from_slice(part);
        *input = rest;
        if contains(&self.heard, known, &self.expect) {
            return Ok(Next::passed("answered as expected"));
        }
        if self.heard.len() == MOST_SEARCHED {
            return Err("the expected answer is not in the first 16 KiB".into());
        }
        Ok(Next::Listen)
    }

    fn end(&mut self) -> Result<Found, String> {
        if self.heard.is_empty() {
            return Err("closed without an answer".into());
        }
        Err(format!("the answer was {}, not the expected one", quote(&self.heard)))
    }

    fn awaited(&self) -> &'static str {
        if self.heard.is_empty() { "an answer" } else { "the expected answer" }
    }
}
