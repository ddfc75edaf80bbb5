//! Why a request cannot be answered, in words for its sender, and the status that goes with it.
//!
//! After any of these the end of the request is not known for certain, so the connection must be
//! closed: reading on would let one peer pass off part of a request as another one (smuggling).

use super::reply::Status;
use std::fmt;

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The head does not follow the grammar.
    Malformed(httparse::Error),
    /// The head is longer than [`MAX_HEAD`](super::head::MAX_HEAD).
    HeadTooLarge,
    /// The head has more fields than [`MAX_FIELDS`](super::head::MAX_FIELDS).
    TooManyFields,
    /// The version is well-formed, but neither 1.0 nor 1.1.
    Version,
    /// A 1.1 request has no Host, or any request has several or an impossible one.
    Host,
    /// A Content-Length is not a number, or two of them differ.
    Length,
    /// Content-Length and Transfer-Encoding contradict each other.
    LengthAndCoding,
    /// A 1.0 request has a Transfer-Encoding, which that version does not know.
    CodingTooEarly,
    /// Transfer-Encoding is empty, or something follows `chunked` in it.
    CodingOrder,
    /// A transfer coding other than `chunked`.
    UnknownCoding,
    /// A chunk size, a line end or a trailer is not where or what it must be.
    Chunk,
    /// Chunk extensions and trailer are longer than
    /// [`MAX_CHUNK_EXTRAS`](super::body::MAX_CHUNK_EXTRAS) together.
    ChunkExtras,
    /// The body is longer than its reader takes.
    BodyTooLarge,
    /// `CONNECT`, which asks for a tunnel, from something that is not a proxy.
    Tunnel,
}

impl Refusal {
    /// The status that tells the sender.
    pub fn status(self) -> Status {
        match self {
            Self::Malformed(_)
            | Self::Host
            | Self::Length
            | Self::LengthAndCoding
            | Self::CodingTooEarly
            | Self::CodingOrder
            | Self::Chunk
            | Self::ChunkExtras => Status::BAD_REQUEST,
            Self::BodyTooLarge => Status::CONTENT_TOO_LARGE,
            Self::HeadTooLarge | Self::TooManyFields => Status::HEAD_TOO_LARGE,
            Self::UnknownCoding | Self::Tunnel => Status::NOT_IMPLEMENTED,
            Self::Version => Status::VERSION_NOT_SUPPORTED,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Malformed(error) => return write!(out, "the request head is malformed: {error}"),
            Self::HeadTooLarge => "the request head is longer than 16 KiB; send fewer cookies",
            Self::TooManyFields => "the request head has more than 100 header fields",
            Self::Version => "only HTTP/1.0 and HTTP/1.1 are spoken here",
            Self::Host => "an HTTP/1.1 request needs exactly one valid Host field",
            Self::Length => "Content-Length must be one decimal number; repeats must agree",
            Self::LengthAndCoding => "send Content-Length or Transfer-Encoding, not both",
            Self::CodingTooEarly => "Transfer-Encoding needs HTTP/1.1; send Content-Length",
            Self::CodingOrder => "Transfer-Encoding must name chunked, once and last",
            Self::UnknownCoding => "the only transfer coding known here is chunked",
            Self::Chunk => "the chunked body is malformed: SIZE CRLF DATA CRLF was expected",
            Self::ChunkExtras => "chunk extensions and trailer are longer than 16 KiB together",
            Self::BodyTooLarge => "the request body is longer than is taken here",
            Self::Tunnel => "this is not a proxy: CONNECT is not available",
        })
    }
}

impl std::error::Error for Refusal {}
