//! One direction of a pair: bytes from a source endpoint to a sink endpoint.
//!
//! `Open`, then `Ending` (the source has ended, bytes may still wait for the sink), then `Done`.
//! Both directions are this one machine, so half-close needs no further rule: a flow that reaches
//! the end of its source finishes its sink's write side and leaves the other flow alone.
//! A source is read only when the sink is believed to take bytes and the flow holds none, which
//! bounds memory to one buffer or pipe per flow and pushes back on the source through the kernel.
//!
//! There are two ways to move bytes. Copying reads into a scratch buffer shared by all flows and
//! writes at once: two calls for a small message. Splicing moves pages through a pipe, which costs
//! a call more and saves both copies. A flow starts copying, changes over when reads keep coming
//! back full, and changes back when they don't.

use super::buffer::{Buffer, BufferPool};
use super::endpoint::{Endpoint, Filled, Ready, Received, Stream};
use super::pipe::{Loaded, PipeStock};

/// Moves bytes one way.
#[derive(Debug)]
pub struct Flow<P> {
    state: State,
    way: Way,
    waiting: Waiting<P>,
    bytes: u64,
}

impl<P> Default for Flow<P> {
    fn default() -> Self {
        Self { state: State::Open, way: COPY, waiting: Waiting::Nothing, bytes: 0 }
    }
}

impl<P> Flow<P> {
    /// Moves what can be moved, at most about `pump.budget` bytes.
    pub fn pump<S: Stream<Pipe = P>>(
        &mut self,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        pump: &mut Pump<'_, P>,
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
        match self.waiting {
            Waiting::Nothing => false,
            Waiting::Buffer(_) | Waiting::Pipe(_) => true,
        }
    }

    /// Whether nothing was delivered yet, so that the flow can start again with another end.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.bytes == 0
    }

    /// Starts again, keeping what was read. The end of the source, if it was seen, is looked for
    /// again by reading.
    pub fn rewind(&mut self) {
        assert!(self.bytes == 0, "what was delivered cannot be delivered again");
        self.state = State::Open;
    }

    /// Holds bytes that were read from the source by somebody else, the first of all.
    pub fn preload(&mut self, bytes: &[u8], buffers: &mut BufferPool) {
        assert!(self.bytes == 0 && !self.holds_bytes(), "bytes are put in front of others");
        if !bytes.is_empty() {
            self.waiting = Waiting::Buffer(buffers.hold(bytes));
        }
    }

    /// Somebody else has found the sink broken before it was given anything.
    pub fn abandon(&mut self) {
        assert!(self.bytes == 0, "a sink that broke later is found out here");
        self.state = State::Done(End::SinkReset);
    }

    /// Ends the flow: its buffer goes back, a pipe with bytes in it is thrown away.
    pub fn release(&mut self, stores: &mut Stores<P>) {
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => {}
            Waiting::Buffer(buffer) => stores.buffers.give_back(buffer),
            Waiting::Pipe(_) => stores.pipes.throw_away(),
        }
    }

    /// True when the budget ran out with more to do.
    fn run<S: Stream<Pipe = P>>(
        &mut self,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        pump: &mut Pump<'_, P>,
    ) -> bool {
        let mut budget = pump.budget;
        loop {
            if !self.flush(sink, pump.stores) {
                return false;
            }
            match self.state {
                // A reset is passed on at once, not when the source next has something to say.
                State::Open if sink.is_broken() => {
                    self.state = State::Done(End::SinkReset);
                    return false;
                }
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
            let taken = self.move_once(source, sink, pump);
            budget = budget.saturating_sub(taken);
        }
    }

    /// Takes from the source once and offers to the sink once; returns the bytes taken.
    fn move_once<S: Stream<Pipe = P>>(
        &mut self,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        pump: &mut Pump<'_, P>,
    ) -> usize {
        // A pipe would carry bytes past the urgent mark unseen; such a source is read.
        if let Way::Splice { .. } = self.way
            && !source.ready().has(Ready::URGENT)
        {
            match pump.stores.pipes.borrow(S::make_pipe) {
                Some(pipe) => return self.splice(pipe, source, sink, pump.stores),
                None => self.way = COPY,
            }
        }
        self.copy(source, sink, pump)
    }

    fn copy<S: Stream<Pipe = P>>(
        &mut self,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        pump: &mut Pump<'_, P>,
    ) -> usize {
        let received = source.receive(&mut pump.stores.scratch);
        let Received::Bytes { count, last } = received else {
            match received {
                Received::End => self.state = State::Ending(End::Finished),
                Received::Reset => self.state = State::Ending(End::SourceReset),
                Received::Nothing | Received::Bytes { .. } => {}
            }
            return 0;
        };
        if last {
            self.state = State::Ending(End::Finished);
        }
        self.way = self.way.after_copy(count == pump.stores.scratch.len(), pump.splice_after);
        let bytes = &pump.stores.scratch[..count];
        match sink.send(bytes) {
            Ok(taken) => {
                self.bytes += taken as u64;
                if taken < count {
                    self.waiting = Waiting::Buffer(pump.stores.buffers.hold(&bytes[taken..]));
                }
            }
            Err(_) => {
                if self.is_untouched() {
                    self.waiting = Waiting::Buffer(pump.stores.buffers.hold(bytes));
                }
                self.state = State::Done(End::SinkReset);
            }
        }
        count
    }

    fn splice<S: Stream<Pipe = P>>(
        &mut self,
        mut pipe: P,
        source: &mut Endpoint<S>,
        sink: &mut Endpoint<S>,
        stores: &mut Stores<P>,
    ) -> usize {
        let filled = source.fill(&mut pipe);
        let Filled::Bytes(count) = filled else {
            stores.pipes.give_back(pipe);
            match filled {
                // Behind an urgent mark that no event has told of yet, a splice sees an end too
                // early (Linux, tcp_splice_read). A read does not: let it tell.
                Filled::End | Filled::Reset => self.way = COPY,
                Filled::Unable => self.way = Way::CopyOnly,
                Filled::Nothing | Filled::Bytes(_) => {}
            }
            return 0;
        };
        self.way = self.way.after_splice(count);
        self.waiting = Waiting::Pipe(Box::new(Loaded { pipe, count }));
        self.flush(sink, stores);
        count
    }

    /// Passes on what waits; true when nothing waits any more.
    fn flush<S: Stream<Pipe = P>>(
        &mut self,
        sink: &mut Endpoint<S>,
        stores: &mut Stores<P>,
    ) -> bool {
        let outcome = match &mut self.waiting {
            Waiting::Nothing => return true,
            Waiting::Buffer(_) | Waiting::Pipe(_) if self.state.is_done() => return true,
            Waiting::Buffer(_) | Waiting::Pipe(_) if !sink.ready().has(Ready::WRITABLE) => {
                return false;
            }
            Waiting::Buffer(buffer) => {
                sink.send(buffer.waiting()).map(|count| (count, buffer.take(count)))
            }
            Waiting::Pipe(loaded) => sink.drain(&mut loaded.pipe, loaded.count).map(|count| {
                loaded.count -= count;
                (count, loaded.count == 0)
            }),
        };
        match outcome {
            Ok((count, emptied)) => {
                self.bytes += count as u64;
                if !emptied {
                    return false;
                }
                match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
                    Waiting::Nothing => {}
                    Waiting::Buffer(buffer) => stores.buffers.give_back(buffer),
                    Waiting::Pipe(loaded) => stores.pipes.give_back(loaded.pipe),
                }
            }
            Err(_) => {
                if !self.is_untouched() {
                    self.release(stores);
                }
                self.state = State::Done(End::SinkReset);
            }
        }
        true
    }
}

/// What flows share to move bytes with.
#[derive(Debug)]
pub struct Stores<P> {
    /// Space to read into; no longer than a buffer of `buffers`.
    pub scratch: Box<[u8]>,
    /// Where buffers for untaken bytes come from.
    pub buffers: BufferPool,
    /// Where pipes for bulk data come from.
    pub pipes: PipeStock<P>,
}

/// What a flow needs from its surroundings for one step.
#[derive(Debug)]
pub struct Pump<'a, P> {
    /// What is shared.
    pub stores: &'a mut Stores<P>,
    /// How many bytes one flow may move before others have their turn.
    pub budget: usize,
    /// Whether the other direction is done, so that closing the sink will finish it.
    pub closing: bool,
    /// Full reads in a row after which bytes go through a pipe; `None` for never.
    pub splice_after: Option<u8>,
}

/// What one call to [`Flow::pump`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

impl State {
    fn is_done(self) -> bool {
        match self {
            Self::Open | Self::Ending(_) => false,
            Self::Done(_) => true,
        }
    }
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

#[derive(Debug)]
enum Waiting<P> {
    Nothing,
    Buffer(Box<Buffer>),
    Pipe(Box<Loaded<P>>),
}

/// How bytes are moved now, and how long that has been doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With so many full reads in a row.
    Copy { full: u8 },
    /// With so many thin fills in a row.
    Splice { thin: u8 },
    /// For good: the streams cannot do anything else.
    CopyOnly,
}

impl Way {
    fn after_copy(self, was_full: bool, splice_after: Option<u8>) -> Self {
        match (self, splice_after) {
            (Self::Copy { full }, Some(most)) if was_full && full + 1 >= most => SPLICE,
            (Self::Copy { full }, Some(_)) if was_full => Self::Copy { full: full + 1 },
            (Self::Copy { .. }, _) => COPY,
            // A spliced source with urgent data is read for now.
            (Self::Splice { .. } | Self::CopyOnly, _) => self,
        }
    }

    fn after_splice(self, count: usize) -> Self {
        match self {
            Self::Splice { thin } if count < THIN && thin + 1 >= MOST_THIN => COPY,
            Self::Splice { thin } if count < THIN => Self::Splice { thin: thin + 1 },
            Self::Splice { .. } => SPLICE,
            Self::Copy { .. } | Self::CopyOnly => self,
        }
    }
}

const COPY: Way = Way::Copy { full: 0 };
const SPLICE: Way = Way::Splice { thin: 0 };
/// A fill of fewer bytes costs more calls than its copy would.
const THIN: usize = 16 * 1024;
/// Thin fills in a row after which a flow copies again.
const MOST_THIN: u8 = 4;
