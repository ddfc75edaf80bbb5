//! The connection alone: whoever accepts it has passed.

use super::{Conversation, Heard, Next};

#[derive(Debug)]
pub(super) struct Connect;

impl Conversation for Connect {
    fn begin(&mut self) -> Heard {
        Ok(Next::passed("connected"))
    }

    fn hear(&mut self, input: &mut &[u8]) -> Heard {
        *input = &[];
        self.begin()
    }

    fn awaited(&self) -> &'static str {
        "the connection"
    }
}
