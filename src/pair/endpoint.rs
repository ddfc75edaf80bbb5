//! One end of a pair: a stream, and what is known about its readiness.
//!
//! Readiness is edge-triggered: the kernel tells of a change once. A bit is therefore cleared only
//! when the kernel said would-block, or showed it (a read or write that came back short has emptied
//! the receive queue or filled the send queue, and the next change is a new edge). The one
//! exception is urgent data, at whose mark a read stops short with more behind it; such an endpoint
//! is read until would-block (man 7 tcp; seen on Linux 6.x, 2026-11).

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

/// A byte stream that never blocks.
///
/// `read` and `write` follow the kernel's contract for stream sockets: a short count means that
/// nothing more can be had, or taken, before the next readiness event.
pub trait Stream: Read + Write {
    /// What carries bytes past user space: a kernel pipe, or what stands for one.
    type Pipe: fmt::Debug;

    /// Makes an empty pipe.
    ///
    /// # Errors
    /// When there can be none, or only one too small to be of use.
    fn make_pipe() -> io::Result<Self::Pipe>;

    /// Moves received bytes into an empty pipe; 0 is the end of the stream. Unlike a read, a short
    /// count says nothing about what is left.
    ///
    /// # Errors
    /// `InvalidInput` when this stream cannot do that; otherwise like a read.
    fn fill(&mut self, pipe: &mut Self::Pipe) -> io::Result<usize>;

    /// Moves at most `count` bytes from a pipe that holds them to the peer. Unlike a write, a short
    /// count says nothing about what would still be taken: a signal also ends it early.
    ///
    /// # Errors
    /// Like a write.
    fn drain(&mut self, pipe: &mut Self::Pipe, count: usize) -> io::Result<usize>;

    /// Whether a read that came back short has emptied the stream. A unix socket also stops short
    /// behind a message that carries descriptors, and must be read until would-block.
    fn empties_when_short(&self) -> bool {
        true
    }

    /// Whether nothing is left to read but an end, or the stream is broken. Asked without reading,
    /// when an event has told of an end.
    fn is_finished_unsaid(&self) -> bool {
        false
    }

    /// What became of the connect. Asked when an event said that something went wrong.
    ///
    /// # Errors
    /// The reason why the stream could not be established.
    fn establish(&mut self) -> io::Result<()>;

    /// Finishes sending: the peer will see the end of the stream after all that was written.
    ///
    /// # Errors
    /// When the stream is no longer connected.
    fn finish(&mut self) -> io::Result<()>;
}

/// A stream with its readiness.
#[derive(Debug)]
pub struct Endpoint<S> {
    stream: S,
    ready: Ready,
    /// The kernel has told an error. It does so once, after which an end of stream looks clean.
    reset: bool,
}

impl<S> Endpoint<S> {
    /// An endpoint of which nothing is known but `ready`.
    pub fn new(stream: S, ready: Ready) -> Self {
        Self { stream, ready, reset: false }
    }

    /// Adds what an event told.
    pub fn mark(&mut self, ready: Ready) {
        self.ready = self.ready.with(ready);
    }

    /// What is known to be possible now.
    pub fn ready(&self) -> Ready {
        self.ready
    }

    /// Whether an operation or an event has shown that the stream is broken.
    pub fn is_broken(&self) -> bool {
        self.reset || self.ready.has(Ready::ERROR)
    }

    /// The stream itself.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream itself, to be changed.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Gives the stream away.
    pub fn into_stream(self) -> S {
        self.stream
    }
}

impl<S: Stream> Endpoint<S> {
    /// Reads once into `space`.
    pub fn receive(&mut self, space: &mut [u8]) -> Received {
        match retry(|| self.stream.read(space)) {
            Ok(0) if self.reset => Received::Reset,
            Ok(0) => Received::End,
            Ok(count) => Received::Bytes { count, last: self.emptied(count < space.len()) },
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.ready = self.ready.without(Ready::READABLE).without(Ready::URGENT);
                Received::Nothing
            }
            Err(_) => {
                self.reset = true;
                Received::Reset
            }
        }
    }

    /// Moves what was received into an empty pipe, once.
    pub fn fill(&mut self, pipe: &mut S::Pipe) -> Filled {
        match retry(|| self.stream.fill(pipe)) {
            Ok(0) if self.reset => Filled::Reset,
            Ok(0) => Filled::End,
            Ok(count) => Filled::Bytes(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.ready = self.ready.without(Ready::READABLE);
                Filled::Nothing
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => Filled::Unable,
            Err(_) => {
                self.reset = true;
                Filled::Reset
            }
        }
    }

    /// Empties a pipe that holds `count` bytes as far as the stream takes them.
    ///
    /// # Errors
    /// When the stream is broken.
    pub fn drain(&mut self, pipe: &mut S::Pipe, count: usize) -> io::Result<usize> {
        let mut moved = 0;
        while moved < count {
            match retry(|| self.stream.drain(pipe, count - moved)) {
                Ok(more) if more > 0 => moved += more,
                // An error that comes after bytes is told again by the next call.
                Err(error) if moved > 0 && error.kind() != ErrorKind::WouldBlock => {
                    self.reset |= error.kind() != ErrorKind::BrokenPipe;
                    break;
                }
                outcome => return self.sent(outcome, count - moved).map(|more| moved + more),
            }
        }
        Ok(moved)
    }

    /// Writes once; the count of bytes the stream took may be zero.
    ///
    /// # Errors
    /// When the stream is broken. What it received before can still be read.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = retry(|| self.stream.write(bytes));
        self.sent(outcome, bytes.len())
    }

    /// Finishes sending.
    pub fn finish(&mut self) {
        if self.stream.finish().is_err() {
            self.look_again();
        }
    }

    fn sent(&mut self, outcome: io::Result<usize>, wanted: usize) -> io::Result<usize> {
        let outcome = match outcome {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            outcome => outcome,
        };
        match &outcome {
            Ok(count) if *count < wanted => self.ready = self.ready.without(Ready::WRITABLE),
            Ok(_) => {}
            Err(error) => {
                // A broken pipe does not tell a reset from a peer that closed after it had
                // finished; reading does, as no call has taken the error from it.
                self.reset |= error.kind() != ErrorKind::BrokenPipe;
                self.look_again();
            }
        }
        outcome
    }

    /// Asks what became of the connect. An error that turns out to be none is forgotten.
    ///
    /// # Errors
    /// The reason why the stream could not be established.
    pub fn establish(&mut self) -> io::Result<()> {
        self.stream.establish()?;
        self.ready = self.ready.without(Ready::ERROR);
        Ok(())
    }

    /// Sending is over: have the read side look for what is left.
    fn look_again(&mut self) {
        self.ready = self.ready.with(Ready::READABLE);
    }

    /// After a read: whether the end of the stream was reached with it.
    fn emptied(&mut self, short: bool) -> bool {
        let doubtful = self.ready.has(Ready::URGENT) || self.ready.has(Ready::ERROR) || self.reset;
        if !short || doubtful || !self.stream.empties_when_short() {
            return false;
        }
        self.ready = self.ready.without(Ready::READABLE);
        self.ready.has(Ready::READ_CLOSED)
    }
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// `count` bytes; with `last`, the peer has finished and these were its last.
    Bytes {
        /// How many bytes were put into the space given.
        count: usize,
        /// Whether the end of the stream follows at once.
        last: bool,
    },
    /// The peer has finished sending.
    End,
    /// Nothing for now.
    Nothing,
    /// The stream is broken; nothing more will come.
    Reset,
}

/// What filling a pipe brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// So many bytes are in the pipe.
    Bytes(usize),
    /// The peer has finished sending.
    End,
    /// Nothing for now.
    Nothing,
    /// The stream is broken; nothing more will come.
    Reset,
    /// This stream cannot be moved through a pipe.
    Unable,
}

/// A set of readiness facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready(u8);

impl Ready {
    /// Nothing is known to be possible.
    pub const NONE: Self = Self(0);
    /// A read may bring something.
    pub const READABLE: Self = Self(1);
    /// A write may be taken.
    pub const WRITABLE: Self = Self(1 << 1);
    /// The peer has finished: after what is queued, the end follows.
    pub const READ_CLOSED: Self = Self(1 << 2);
    /// The stream has an error waiting to be read.
    pub const ERROR: Self = Self(1 << 3);
    /// Urgent data is or was in the queue.
    pub const URGENT: Self = Self(1 << 4);

    /// Whether all of `other` is known.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This and `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This without `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

fn retry<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads give each scripted result in turn; writes take at most `room` bytes.
    #[derive(Debug, Default)]
    struct Script {
        reads: Vec<io::Result<usize>>,
        room: usize,
        broken: Option<ErrorKind>,
    }

    impl Read for Script {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.reads.remove(0)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(kind) = self.broken {
                return Err(kind.into());
            }
            match self.room {
                0 => Err(ErrorKind::WouldBlock.into()),
                room => Ok(room.min(bytes.len())),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Stream for Script {
        type Pipe = ();
        fn make_pipe() -> io::Result<()> {
            Ok(())
        }
        fn fill(&mut self, (): &mut ()) -> io::Result<usize> {
            self.reads.remove(0)
        }
        fn drain(&mut self, (): &mut (), count: usize) -> io::Result<usize> {
            self.write(&vec![0; count])
        }
        fn establish(&mut self) -> io::Result<()> {
            Ok(())
        }
        fn finish(&mut self) -> io::Result<()> {
            Err(ErrorKind::NotConnected.into())
        }
    }

    fn reading(ready: Ready, reads: Vec<io::Result<usize>>) -> Endpoint<Script> {
        Endpoint::new(Script { reads, ..Script::default() }, ready.with(Ready::READABLE))
    }

    #[test]
    fn a_full_read_leaves_the_bit_and_a_short_one_clears_it() {
        let mut end = reading(Ready::NONE, vec![Ok(4), Ok(3)]);
        assert_eq!(end.receive(&mut [0; 4]), Received::Bytes { count: 4, last: false });
        assert!(end.ready().has(Ready::READABLE));
        assert_eq!(end.receive(&mut [0; 4]), Received::Bytes { count: 3, last: false });
        assert!(!end.ready().has(Ready::READABLE));
    }

    #[test]
    fn a_short_read_after_read_closed_is_the_last() {
        let mut end = reading(Ready::READ_CLOSED, vec![Ok(4), Ok(3)]);
        assert_eq!(end.receive(&mut [0; 4]), Received::Bytes { count: 4, last: false });
        assert_eq!(end.receive(&mut [0; 4]), Received::Bytes { count: 3, last: true });
    }

    #[test]
    fn a_short_read_with_an_error_waiting_is_not_the_last() {
        let ready = Ready::READ_CLOSED.with(Ready::ERROR);
        let mut end = reading(ready, vec![Ok(3), Err(ErrorKind::ConnectionReset.into())]);
        assert_eq!(end.receive(&mut [0; 4]), Received::Bytes { count: 3, last: false });
        assert!(end.ready().has(Ready::READABLE), "the error is still to be read");
        assert_eq!(end.receive(&mut [0; 4]), Received::Reset);
    }

    #[test]
    fn urgent_data_is_read_until_would_block() {
        let would_block = Err(ErrorKind::WouldBlock.into());
        let mut end = reading(Ready::URGENT, vec![Ok(1), Ok(2), would_block]);
        assert_eq!(end.receive(&mut [0; 4]), Received::Bytes { count: 1, last: false });
        assert!(end.ready().has(Ready::READABLE), "a read stops short at the urgent mark");
        assert_eq!(end.receive(&mut [0; 4]), Received::Bytes { count: 2, last: false });
        assert_eq!(end.receive(&mut [0; 4]), Received::Nothing);
        assert_eq!(end.ready(), Ready::NONE);
    }

    #[test]
    fn an_interrupted_call_is_made_again() {
        let mut end = reading(Ready::NONE, vec![Err(ErrorKind::Interrupted.into()), Ok(0)]);
        assert_eq!(end.receive(&mut [0; 4]), Received::End);
    }

    #[test]
    fn a_short_write_clears_the_bit_and_a_whole_one_does_not() {
        let script = Script { room: 3, ..Script::default() };
        let mut end = Endpoint::new(script, Ready::WRITABLE);
        assert_eq!(end.send(b"abc").unwrap(), 3);
        assert!(end.ready().has(Ready::WRITABLE));
        assert_eq!(end.send(b"abcd").unwrap(), 3);
        assert!(!end.ready().has(Ready::WRITABLE));
    }

    #[test]
    fn a_short_fill_leaves_the_bit_and_would_block_clears_it() {
        let mut end = reading(Ready::NONE, vec![Ok(1), Err(ErrorKind::WouldBlock.into())]);
        assert_eq!(end.fill(&mut ()), Filled::Bytes(1));
        assert!(end.ready().has(Ready::READABLE), "a pipe may be full of small pieces");
        assert_eq!(end.fill(&mut ()), Filled::Nothing);
        assert!(!end.ready().has(Ready::READABLE));
    }

    #[test]
    fn after_a_write_that_told_a_reset_an_end_of_stream_is_one() {
        let mut end = reading(Ready::NONE, vec![Ok(4), Ok(0)]);
        end.stream_mut().broken = Some(ErrorKind::ConnectionReset);
        end.send(b"x").unwrap_err();
        assert_eq!(end.receive(&mut [0; 8]), Received::Bytes { count: 4, last: false });
        assert_eq!(end.receive(&mut [0; 8]), Received::Reset);
    }

    #[test]
    fn a_peer_that_finished_and_then_closed_has_finished() {
        let mut end = reading(Ready::NONE, vec![Ok(8), Ok(0)]);
        end.stream_mut().broken = Some(ErrorKind::BrokenPipe);
        end.send(b"x").unwrap_err();
        end.finish();
        assert_eq!(end.receive(&mut [0; 8]), Received::Bytes { count: 8, last: false });
        assert_eq!(end.receive(&mut [0; 8]), Received::End);
    }
}
