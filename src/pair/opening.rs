//! What goes before the bytes that are relayed: a header that the client must send, and one that
//! every backend is told.
//!
//! Rare, and so in a box of its own that most pairs do not have. What comes in one read with the
//! header but belongs to the client is held by its flow, as if it had been read for it. Neither
//! header counts as the client's bytes.

use std::time::Instant;

use super::endpoint::{Ready, Received, Stream};
use super::flow::{Progress, State, Stores};
use super::{CloseReason, Pair, Phase, Step};
use crate::edge::proxy::read::{Header, LONGEST, Reading, read};

/// Both headers, as far as they have come and gone.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// What the client has sent of its header, while that is not whole.
    heard: Vec<u8>,
    /// What a backend is told before the client's first byte.
    told: Vec<u8>,
    /// How much of it the present backend has taken.
    sent: usize,
}

impl Opening {
    /// Another backend knows nothing yet.
    pub(super) fn start_again(&mut self) {
        self.sent = 0;
    }

    /// Whether the present backend has not taken all of it.
    pub(super) fn is_untold(&self) -> bool {
        self.sent < self.told.len()
    }

    /// What all bytes say that came so far, `chunk` being the last of them.
    fn hear(&mut self, chunk: &[u8]) -> Reading {
        // Nearly always it comes in one piece.
        if self.heard.is_empty() {
            let reading = read(chunk);
            if reading == Reading::Partial {
                self.heard.extend_from_slice(chunk);
            }
            return reading;
        }
        self.heard.extend_from_slice(chunk);
        read(&self.heard)
    }
}

impl<S: Stream> Pair<S> {
    /// A pair for a client that was just accepted and must begin with a PROXY header, which is to
    /// be there by `until`.
    pub fn greeting(client: S, ready: Ready, until: Instant) -> Self {
        let mut pair = Self::new(client, ready);
        pair.phase = Phase::Greeting;
        pair.deadline = Some(until);
        pair.opening = Some(Box::default());
        pair
    }

    /// Has every backend told `header` before the client's first byte.
    ///
    /// # Panics
    /// If a backend is there already.
    pub fn precede(&mut self, header: Vec<u8>) {
        assert!(self.phase == Phase::Choosing, "what goes before comes too late");
        self.opening.get_or_insert_default().told = header;
    }

    /// Listens to the client's header, as far as it has come.
    pub(super) fn greet_step(&mut self, stores: &mut Stores<S::Pipe>) -> Step {
        let mut opening = self.opening.take().unwrap_or_default();
        while self.client.ready().has(Ready::READABLE) {
            let most = stores.scratch.len().min(LONGEST);
            let (count, last) = match self.client.receive(&mut stores.scratch[..most]) {
                Received::Bytes { count, last } => (count, last),
                Received::Nothing => break,
                // One that only looks whether we are here.
                Received::End if opening.heard.is_empty() => {
                    return Step::Done(CloseReason::ClientGone);
                }
                Received::End => return Step::Done(CloseReason::HeaderMissing),
                Received::Reset => return Step::Done(CloseReason::ClientGone),
            };
            if last {
                // Whoever reads next is to find the end by itself.
                self.client.mark(Ready::READABLE);
            }
            let chunk = &stores.scratch[..count];
            let before = opening.heard.len();
            match opening.hear(chunk) {
                Reading::Partial => {}
                Reading::Wrong(fault) => return Step::Done(fault.into()),
                Reading::Whole { length, header } => {
                    self.to_backend.preload(&chunk[length - before..], &mut stores.buffers);
                    self.phase = Phase::Choosing;
                    self.deadline = None;
                    return Step::Greeted(match header {
                        Header::Local => None,
                        Header::Proxied(ends) => Some(Box::new(ends)),
                    });
                }
            }
        }
        self.opening = Some(opening);
        Step::Waiting
    }

    /// Tells the backend what goes before the client's bytes; `None` when nothing of it is in their
    /// way any more.
    pub(super) fn tell_backend(&mut self) -> Option<Progress> {
        let (opening, backend) = (self.opening.as_mut()?, self.backend.as_mut()?);
        if let State::Done(_) = self.to_backend.state() {
            return None;
        }
        let rest = &opening.told[opening.sent..];
        if rest.is_empty() {
            // Once a byte has gone either way, no other backend will follow.
            if !self.to_backend.is_untouched() || !self.to_client.is_untouched() {
                self.opening = None;
            }
            return None;
        }
        if !backend.ready().has(Ready::WRITABLE) {
            return Some(Progress::default());
        }
        match backend.send(rest) {
            Ok(count) => {
                opening.sent += count;
                // Nothing of the client's has moved: the backend has not been asked anything.
                Some(Progress { moved: 0, changed: count > 0, spent: false })
            }
            Err(_) => {
                self.to_backend.abandon();
                Some(Progress { moved: 0, changed: true, spent: false })
            }
        }
    }
}
