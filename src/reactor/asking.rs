//! Asking a running balancer, as the client commands do: one request on a connection of its own.
//!
//! This blocks, each step for [`PATIENCE`] at most, all of them for [`LONGEST`]. It has nothing to
//! do with the loop, and stands here because it opens sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::clock;
use super::resolver::look_up;
use super::socket::words;
use crate::config::{BackendAddress, Token};
use crate::http::body::Framing;
use crate::http::response::{BodyEnd, Response, ResponseReader};

/// What a balancer is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question<'a> {
    /// What is at this path.
    Get(&'a str),
    /// To change what is at this path, as this JSON says.
    Patch(&'a str, &'a str),
    /// To do what this path stands for, with this JSON.
    Post(&'a str, &'a str),
    /// To remove what is at this path.
    Delete(&'a str),
}

/// What a balancer answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The status code.
    pub status: u16,
    /// The whole body.
    pub body: Vec<u8>,
}

/// Asks at an admin address.
///
/// # Errors
/// Why there is no answer, or none as a balancer gives it.
pub fn ask(
    address: &BackendAddress,
    question: Question<'_>,
    token: Option<&Token>,
) -> Result<Answered, String> {
    exchange(address, question, token).map_err(|error| match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "timed out".to_owned(),
        ErrorKind::UnexpectedEof => "the answer ends too early".to_owned(),
        ErrorKind::InvalidData => error.to_string(),
        _ => words(&error),
    })
}

fn exchange(
    address: &BackendAddress,
    question: Question<'_>,
    token: Option<&Token>,
) -> io::Result<Answered> {
    let mut socket = connect(address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let authorization = match token {
        Some(token) => format!("Authorization: Bearer {}\r\n", token.reveal()),
        None => String::new(),
    };
    let fields = format!("Host: localhost\r\nConnection: close\r\n{authorization}");
    let with_json = |method: &str, path: &str, json: &str| {
        let length = json.len();
        format!(
            "{method} {path} HTTP/1.1\r\n{fields}Content-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{json}"
        )
    };
    let request = match question {
        Question::Get(path) => format!("GET {path} HTTP/1.1\r\n{fields}\r\n"),
        Question::Patch(path, json) => with_json("PATCH", path, json),
        Question::Post(path, json) => with_json("POST", path, json),
        Question::Delete(path) => with_json("DELETE", path, ""),
    };
    socket.write_all(request.as_bytes())?;
    let end = clock() + LONGEST;
    understand(&mut socket, || clock() > end)
}

/// Connects to the first of its addresses that takes it, each in the time of `patience`.
pub(super) fn connect(address: &BackendAddress, patience: Duration) -> io::Result<Socket> {
    let addresses = match address {
        BackendAddress::Inet(address) => vec![*address],
        BackendAddress::Name { host, port } => look_up(host, *port)?,
        BackendAddress::Unix(path) => return connect_unix(path, patience),
    };
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in addresses {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        match socket.connect_timeout(&address.into(), patience) {
            Ok(()) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_unix(path: &Path, patience: Duration) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Linux bounds the wait for a place in the queue of a unix socket by this (man 7 socket).
    socket.set_write_timeout(Some(patience))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket)
}

/// Reads an answer, which must say how long it is, until there is all of it.
fn understand(from: &mut impl Read, is_late: impl Fn() -> bool) -> io::Result<Answered> {
    let strange = |why: String| io::Error::new(ErrorKind::InvalidData, why);
    let (mut reader, mut head, mut body) = (ResponseReader::default(), None, Vec::new());
    let mut space = vec![0; READ];
    loop {
        let count = match from.read(&mut space) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        let mut new = &space[..count];
        if head.is_none() {
            head = reader.read(&mut new).map_err(|fault| strange(fault.to_string()))?;
        }
        body.extend_from_slice(new);
        if let Some(Response { status, end }) = head {
            let BodyEnd::Framed(Framing::Length(length)) = end else {
                return Err(strange("the answer does not say how long it is".to_owned()));
            };
            if length > LARGEST || body.len() as u64 > length {
                return Err(strange("the answer is too long".to_owned()));
            }
            if body.len() as u64 == length {
                return Ok(Answered { status, body });
            }
        }
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if is_late() {
            return Err(ErrorKind::TimedOut.into());
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
/// Until the whole answer is there, however it comes.
const LONGEST: Duration = Duration::from_secs(60);
/// In bytes, at once.
const READ: usize = 64 * 1024;
/// In bytes; a hundred times what ten thousand backends take.
const LARGEST: u64 = 512 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_answer_must_be_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        let expected = Answered { status: 200, body: b"hi".to_vec() };
        assert_eq!(understand(&mut &whole[..], || false).unwrap(), expected);
        for (bytes, kind) in [
            (&b""[..], ErrorKind::UnexpectedEof),
            (&whole[..20], ErrorKind::UnexpectedEof),
            (&whole[..whole.len() - 1], ErrorKind::UnexpectedEof),
            (b"HTTP/1.1 200 OK\r\n\r\nhi", ErrorKind::InvalidData),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhi", ErrorKind::InvalidData),
            (b"SSH-2.0-OpenSSH\r\n", ErrorKind::InvalidData),
        ] {
            let error = understand(&mut &bytes[..], || false).unwrap_err();
            assert_eq!(error.kind(), kind, "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_does_not_come_for_ever() {
        let drops = Cell::new(0);
        let late = || drops.replace(drops.get() + 1) == 3;
        let mut drip = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi".chunks(1);
        struct Drip<'a>(&'a mut dyn Iterator<Item = &'a [u8]>);
        impl Read for Drip<'_> {
            fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
                self.0.next().map_or(Ok(0), |mut drop| drop.read(space))
            }
        }
        let error = understand(&mut Drip(&mut drip), late).unwrap_err();
        assert_eq!((error.kind(), drops.get()), (ErrorKind::TimedOut, 4));
    }
}
