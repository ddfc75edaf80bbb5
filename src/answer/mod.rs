//! What the test backends say, without sockets and without a clock.
//!
//! A responder is fed what a peer sends and appends what the peer is to be sent. It is driven by a
//! loop that owns the socket and the output buffer:
//!
//! 1. read, at most some 16 KiB, and call [`Answer::receive`];
//! 2. write the output, all of it, before anything else;
//! 3. do what [`Next`] said: read on, call [`Answer::receive`] without input, or close;
//! 4. at the end of the stream, once [`Next::Continue`] was said, call [`Answer::end`] once.
//!
//! Obeying that order bounds the memory of a connection, whatever the peer does: one call appends
//! less than [`OUTPUT_MARK`] and one answer (each responder documents how long its longest is),
//! and what was not answered by then, at most one read, is kept inside until the next call. How
//! the input is cut into reads never changes the bytes that are sent.

mod http;
mod line;
mod page;

pub use http::HttpAnswer;
pub use line::LineAnswer;

use std::borrow::Cow;
use std::fmt;

/// One side of a conversation, fed with what the other side sends.
pub trait Answer: fmt::Debug {
    /// Consumes all of `input`, which may be empty, and appends what is to be sent to `output`.
    ///
    /// Appends less than [`OUTPUT_MARK`] and one answer. After [`Next::Close`] input is ignored.
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Next;

    /// The peer has finished sending: appends the last words.
    ///
    /// Called while [`Next::Again`] is outstanding, it first appends everything that is still owed,
    /// however much that is.
    fn end(&mut self, output: &mut Vec<u8>) -> Next;
}

/// What the driver does once it has written the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Read on.
    Continue,
    /// Do not read, but call [`Answer::receive`] again with no input: more is owed for what was
    /// received already. No event will announce this.
    Again,
    /// Do not read: a question stands that is answered by whoever owns what is asked for. Only
    /// answerers that say so ask.
    Ask,
    /// Shut down writing, then read and drop what the peer still sends, for a limited time, and
    /// close. Closing with unread input resets the connection, and the peer may lose the answer.
    Close,
}

/// Either kind of test backend, so that one slab holds both. A listener keeps one and clones it for
/// every connection.
#[derive(Debug, Clone)]
pub enum Answerer {
    /// Echoes labelled lines.
    Line(LineAnswer),
    /// Answers HTTP requests with a page.
    Http(HttpAnswer),
}

impl Answer for Answerer {
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Next {
        match self {
            Self::Line(answer) => answer.receive(input, output),
            Self::Http(answer) => answer.receive(input, output),
        }
    }

    fn end(&mut self, output: &mut Vec<u8>) -> Next {
        match self {
            Self::Line(answer) => answer.end(output),
            Self::Http(answer) => answer.end(output),
        }
    }
}

/// Input that waits until the output before it has been written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backlog(Vec<u8>);

impl Backlog {
    /// What is to be answered now: that which waited, then `input`. Nothing waits afterwards.
    pub(crate) fn join<'a>(&mut self, input: &'a [u8]) -> Cow<'a, [u8]> {
        if self.0.is_empty() {
            return Cow::Borrowed(input);
        }
        let mut waited = std::mem::take(&mut self.0);
        waited.extend_from_slice(input);
        Cow::Owned(waited)
    }

    /// Keeps what could not be answered yet, and says so.
    pub(crate) fn keep(&mut self, rest: &[u8]) -> Next {
        self.0.extend_from_slice(rest);
        if self.0.is_empty() { Next::Continue } else { Next::Again }
    }
}

/// A call that has appended this many bytes begins no further answer. A usual page is far smaller,
/// so that pipelined requests share a write.
pub const OUTPUT_MARK: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Does what the module's contract asks of a driver, up to the end of the stream, and checks
    /// the bound: `longest` is the longest answer that is acceptable. Returns what was sent and
    /// the last word.
    pub(super) fn converse<A: Answer>(
        answer: &mut A,
        pieces: &[&[u8]],
        longest: usize,
    ) -> (Vec<u8>, Next) {
        let mut sent = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            loop {
                let mut output = Vec::new();
                let next = answer.receive(input, &mut output);
                assert!(output.len() < OUTPUT_MARK + longest, "{} bytes at once", output.len());
                sent.append(&mut output);
                match next {
                    Next::Continue => break,
                    Next::Again => input = &[],
                    Next::Ask => panic!("nobody answers"),
                    Next::Close => return (sent, Next::Close),
                }
            }
        }
        (sent, Next::Continue)
    }

    /// `input` in pieces that end at `cuts`, which need not be in order.
    pub(super) fn cut_at(input: &[u8], cuts: impl IntoIterator<Item = usize>) -> Vec<&[u8]> {
        let mut cuts: Vec<usize> = cuts.into_iter().chain([0, input.len()]).collect();
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]).collect()
    }

    #[test]
    fn an_answerer_is_the_responder_it_holds() {
        let mut sent = Vec::new();
        let mut line = Answerer::Line(LineAnswer::new("a"));
        assert_eq!(line.clone().receive(b"x\ny", &mut sent), Next::Continue);
        assert_eq!(line.receive(b"z", &mut sent), Next::Continue);
        assert_eq!(line.end(&mut sent), Next::Close);
        assert_eq!(sent, b"[a] x\n[a] y[a] z\n");

        sent.clear();
        let mut http = Answerer::Http(HttpAnswer::new("5001", Some(5001)));
        assert_eq!(http.receive(b"GET / HTTP/1.0\r\n\r\n", &mut sent), Next::Close);
        assert!(sent.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert_eq!(http.end(&mut sent), Next::Close);
    }
}
