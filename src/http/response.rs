//! A response head: gathered from pieces, checked once, and turned into facts.
//!
//! The counterpart of [`head`](super::head) for what a server says. It is looked at as soon as its
//! first bytes cannot be HTTP/1 any more, so that a server of another kind is told apart at once,
//! and again at its blank line; the verdict does not depend on how the bytes were cut.

use std::fmt;

use super::body::Framing;
use super::head::{MAX_FIELDS, MAX_HEAD};
use super::refusal::Refusal;

/// What a complete response head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The three digits.
    pub status: u16,
    /// Where the body ends, for the answer to a GET.
    pub end: BodyEnd,
}

/// How the end of a response's body is found (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// As the head says.
    Framed(Framing),
    /// With the connection.
    AtClose,
    /// The head can be read in two ways.
    Unclear(Refusal),
}

impl Response {
    /// Whether another head follows this one.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        // After 101 the connection speaks something else.
        (100..200).contains(&self.status) && self.status != 101
    }

    /// `bytes` is a head with its blank line.
    fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut fields);
        match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(taken)) if taken == bytes.len() => {}
            Ok(_) => return Err(Fault::Malformed(httparse::Error::NewLine)),
            Err(error) => return Err(Fault::Malformed(error)),
        }
        let status = parsed.code.unwrap_or_default();
        let values = |name: &'static str| {
            let named = parsed.headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name));
            named.map(|header| header.value)
        };
        let codings = values("transfer-encoding");
        let is_silent = (100..200).contains(&status) || status == 204 || status == 304;
        let is_counted = values("content-length").chain(codings.clone()).next().is_some();
        let end = match Framing::declared(values("content-length"), codings) {
            _ if is_silent => BodyEnd::Framed(Framing::Length(0)),
            Ok(_) if !is_counted => BodyEnd::AtClose,
            Ok(framing) => BodyEnd::Framed(framing),
            Err(refusal) => BodyEnd::Unclear(refusal),
        };
        Ok(Self { status, end })
    }
}

/// A response head on its way. Holds at most [`MAX_HEAD`] bytes.
#[derive(Debug, Clone, Default)]
pub struct ResponseReader {
    bytes: Vec<u8>,
}

impl ResponseReader {
    /// Takes bytes from the front of `input`: all of it, or up to the end of the head. The reader
    /// then stands before the next one.
    ///
    /// # Errors
    ///
    /// As soon as it is certain that this is no acceptable head.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Response>, Fault> {
        while !input.is_empty() {
            let line = input.iter().position(|&b| b == b'\n').map_or(input.len(), |at| at + 1);
            let (part, rest) = input.split_at(line.min(MAX_HEAD - self.bytes.len()));
            self.bytes.extend_from_slice(part);
            *input = rest;
            if !may_be_http(&self.bytes) {
                return Err(Fault::NotHttp);
            }
            if ends_head(&self.bytes) {
                let response = Response::parse(&self.bytes)?;
                self.bytes.clear();
                return Ok(Some(response));
            }
            if self.bytes.len() == MAX_HEAD {
                return Err(Fault::TooLong);
            }
        }
        Ok(None)
    }

    /// Whether no byte of a head has come yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Why something is not an acceptable response head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin as HTTP/1 does.
    NotHttp,
    /// It is longer than [`MAX_HEAD`].
    TooLong,
    /// It does not follow the grammar.
    Malformed(httparse::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHttp => out.write_str("the answer is not HTTP/1"),
            Self::TooLong => out.write_str("the response head is longer than 16 KiB"),
            Self::Malformed(error) => write!(out, "the response head is malformed: {error}"),
        }
    }
}

impl std::error::Error for Fault {}

fn may_be_http(bytes: &[u8]) -> bool {
    let known = BEGINNING.len().min(bytes.len());
    bytes[..known] == BEGINNING[..known]
}

/// Whether the last line is the blank one. The first line never is: it does not begin so.
fn ends_head(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n")
}

const BEGINNING: &[u8] = b"HTTP/1.";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first verdict, with `input` cut at `cut`, and what was not taken.
    fn read(input: &[u8], cut: usize) -> (Result<Option<Response>, Fault>, Vec<u8>) {
        let (mut reader, cut) = (ResponseReader::default(), cut.min(input.len()));
        let (mut first, mut second) = input.split_at(cut);
        let mut result = reader.read(&mut first);
        if matches!(result, Ok(None)) {
            result = reader.read(&mut second);
        }
        (result, [first, second].concat())
    }

    fn response(head: &str) -> Result<Option<Response>, Fault> {
        read(head.as_bytes(), 0).0
    }

    #[test]
    fn a_head_ends_at_its_blank_line_wherever_it_is_cut() {
        for head in ["HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.0 200\nA: b\n\n"] {
            let input = format!("{head}\r\nbody");
            for cut in 0..input.len() {
                let (found, rest) = read(input.as_bytes(), cut);
                assert_eq!(found, Ok(Some(Response { status: 200, end: BodyEnd::AtClose })));
                assert_eq!(rest, b"\r\nbody", "{cut}");
            }
        }
    }

    #[test]
    fn the_end_of_the_body() {
        let end = |status: u16, fields: &str| {
            response(&format!("HTTP/1.1 {status} x\r\n{fields}\r\n")).unwrap().unwrap().end
        };
        assert_eq!(end(200, ""), BodyEnd::AtClose);
        assert_eq!(end(200, "Content-Length: 5\r\n"), BodyEnd::Framed(Framing::Length(5)));
        assert_eq!(end(200, "transfer-encoding: Chunked\r\n"), BodyEnd::Framed(Framing::Chunked));
        for status in [100, 204, 304] {
            assert_eq!(
                end(status, "Content-Length: 5\r\n"),
                BodyEnd::Framed(Framing::Length(0)),
                "{status}"
            );
        }
        assert_eq!(end(200, "Content-Length: x\r\n"), BodyEnd::Unclear(Refusal::Length));
    }

    #[test]
    fn what_is_no_head_is_refused_at_the_first_byte_that_shows_it() {
        for (input, at) in [("SSH-2.0", 1), ("HTTP/2 200", 6), ("HTTP/1,1 200 OK\r\n\r\n", 7)] {
            let (before, from) = (&input[..at - 1], &input[..at]);
            assert_eq!(response(before), Ok(None), "{before}");
            assert_eq!(response(from), Err(Fault::NotHttp), "{from}");
        }
        let bad = ["HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nA b\r\n\r\n", "HTTP/1.1\r\n\r\n"];
        for bad in bad {
            assert!(matches!(response(bad), Err(Fault::Malformed(_))), "{bad}");
        }
    }

    #[test]
    fn a_head_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
        let with = |spare: usize| {
            let padding = "x".repeat(MAX_HEAD - 24 + spare);
            response(&format!("HTTP/1.1 200 OK\r\nA: {padding}\r\n\r\n"))
        };
        assert!(matches!(with(0), Ok(Some(_))));
        assert_eq!(with(1), Err(Fault::TooLong));
    }

    #[test]
    fn only_what_comes_before_the_answer_is_interim() {
        let interim = |status: u16| Response { status, end: BodyEnd::AtClose }.is_interim();
        assert!(interim(100) && interim(103) && !interim(101) && !interim(200));
    }

    proptest! {
        #[test]
        fn any_bytes_give_the_same_verdict_however_they_are_cut(
            tail in "[01 2a:\r\n\u{0}]{0,40}", cut in 0usize..60,
        ) {
            let input = format!("HTTP/1.{tail}");
            prop_assert_eq!(read(input.as_bytes(), cut), read(input.as_bytes(), 0));
        }
    }
}
