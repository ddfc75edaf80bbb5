//! One direction of a pair: bytes from a source endpoint to a sink endpoint.
//!
//! `Open`, then `Ending` (the source has ended, bytes may still wait for the sink), then `Done`.
//! Both directions are this one machine, so half-close needs no further rule: a flow that reaches
//! the end of its source finishes its sink's write side and leaves the other flow alone.
//! A source is read only when the sink is believed to take bytes and the flow holds none, which
//! bounds memory to one buffer per flow and pushes back on the source through the kernel.

use super::buffer::{Buffer, BufferPool};
use super::endpoint::{Endpoint, Ready, Received, Stream};

/// Moves bytes one way.
#[derive(Debug, Default)]
pub struct Flow {
    state: State,
    waiting: Option<Box<Buffer>>,
    bytes: u64,
}

impl Flow {
    /// Moves what can be moved, at most about `pump.budget` bytes.
    pub fn pump<S: Stream>(
        &mut self,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        pump: &mut Pump<'_>,
    ) -> Progress {
        let before = (self.bytes, self.state);
        let spent = self.run(source, sink, pump);
        Progress { moved: self.bytes - before.0, changed: self.state != before.1, spent }
    }

    /// Where the flow stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Bytes the sink has taken so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether bytes wait for the sink.
    #[must_use]
    pub fn holds_bytes(&self) -> bool {
        self.waiting.is_some()
    }

    /// Ends the flow, giving its buffer back.
    pub fn release(&mut self, buffers: &mut BufferPool) {
        if let Some(buffer) = self.waiting.take() {
            buffers.give_back(buffer);
        }
    }

    /// True when the budget ran out with more to do.
    fn run<S: Stream>(
        &mut self,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        pump: &mut Pump<'_>,
    ) -> bool {
        let mut budget = pump.budget;
        loop {
            if !self.flush(sink, pump.buffers) {
                return false;
            }
            match self.state {
                State::Open => {}
                State::Ending(End::Finished) => {
                    if !pump.closing {
                        sink.finish();
                    }
                    self.state = State::Done(End::Finished);
                    return false;
                }
                State::Ending(end) => {
                    self.state = State::Done(end);
                    return false;
                }
                State::Done(_) => return false,
            }
            if !source.ready().has(Ready::READABLE) || !sink.ready().has(Ready::WRITABLE) {
                return false;
            }
            if budget == 0 {
                return true;
            }
            let taken = self.relay_once(source, sink, pump);
            budget = budget.saturating_sub(taken);
        }
    }

    /// Reads once and writes at once; returns the bytes read.
    fn relay_once<S: Stream>(
        &mut self,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        pump: &mut Pump<'_>,
    ) -> usize {
        match source.receive(pump.scratch) {
            Received::Bytes { count, last } => {
                if last {
                    self.state = State::Ending(End::Finished);
                }
                self.deliver(&pump.scratch[..count], sink, pump.buffers);
                count
            }
            Received::End => {
                self.state = State::Ending(End::Finished);
                0
            }
            Received::Reset => {
                self.state = State::Ending(End::SourceReset);
                0
            }
            Received::Nothing => 0,
        }
    }

    fn deliver<S: Stream>(&mut self, bytes: &[u8], sink: &mut Endpoint<S>, pool: &mut BufferPool) {
        let Ok(count) = sink.send(bytes) else {
            self.state = State::Done(End::SinkReset);
            return;
        };
        self.bytes += count as u64;
        if count < bytes.len() {
            self.waiting = Some(pool.hold(&bytes[count..]));
        }
    }

    /// Writes what waits; true when nothing waits any more.
    fn flush<S: Stream>(&mut self, sink: &mut Endpoint<S>, pool: &mut BufferPool) -> bool {
        let Some(mut buffer) = self.waiting.take() else { return true };
        if !sink.ready().has(Ready::WRITABLE) {
            self.waiting = Some(buffer);
            return false;
        }
        let outcome = sink.send(buffer.waiting());
        let emptied = outcome.as_ref().is_ok_and(|&count| buffer.take(count));
        match outcome {
            Ok(count) => self.bytes += count as u64,
            Err(_) => self.state = State::Done(End::SinkReset),
        }
        if emptied || outcome.is_err() {
            pool.give_back(buffer);
            return true;
        }
        self.waiting = Some(buffer);
        false
    }
}

/// What a flow needs from its surroundings to move bytes.
#[derive(Debug)]
pub struct Pump<'a> {
    /// Space to read into, shared by all flows; no longer than a buffer of `buffers`.
    pub scratch: &'a mut [u8],
    /// Where buffers for untaken bytes come from.
    pub buffers: &'a mut BufferPool,
    /// How many bytes one flow may move in one step before others have their turn.
    pub budget: usize,
    /// Whether the other direction is done, so that closing the sink will finish it.
    pub closing: bool,
}

/// What one call to [`Flow::pump`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes the sink took.
    pub moved: u64,
    /// Whether the state changed.
    pub changed: bool,
    /// Whether the budget ran out with more to do.
    pub spent: bool,
}

/// Where a flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Bytes may still come.
    #[default]
    Open,
    /// The source has ended; what waits is still being delivered.
    Ending(End),
    /// Nothing more moves.
    Done(End),
}

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The source finished, and the sink was finished after its last byte.
    Finished,
    /// The source broke after the bytes delivered.
    SourceReset,
    /// The sink broke; bytes may be lost.
    SinkReset,
}
