//! Asking a running balancer, as the client commands do: one request on a connection of its own.
//!
//! This blocks, each step for [`PATIENCE`] at most. It has nothing to do with the loop, and stands
//! here because it opens sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::resolver::look_up;
use super::socket::words;
use crate::config::{BackendAddress, Token};
use crate::http::body::Framing;
use crate::http::response::{BodyEnd, ResponseReader};

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
    let mut bytes = Vec::new();
    socket.take(LARGEST).read_to_end(&mut bytes)?;
    understand(&bytes)
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

/// Takes an answer apart, which ends with the connection and must be as long as it says.
fn understand(bytes: &[u8]) -> io::Result<Answered> {
    let strange = |why: String| io::Error::new(ErrorKind::InvalidData, why);
    let mut body = bytes;
    let head = ResponseReader::default().read(&mut body);
    let head = head.map_err(|fault| strange(fault.to_string()))?;
    let head = head.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
    match head.end {
        BodyEnd::Framed(Framing::Length(length)) if length == body.len() as u64 => {
            Ok(Answered { status: head.status, body: body.to_vec() })
        }
        BodyEnd::Framed(Framing::Length(_)) => Err(ErrorKind::UnexpectedEof.into()),
        BodyEnd::Framed(Framing::Chunked) | BodyEnd::AtClose | BodyEnd::Unclear(_) => {
            Err(strange("the answer does not say how long it is".to_owned()))
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
/// In bytes; a hundred times what ten thousand backends take.
const LARGEST: u64 = 512 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_must_be_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        let expected = Answered { status: 200, body: b"hi".to_vec() };
        assert_eq!(understand(whole).unwrap(), expected);
        for (bytes, kind) in [
            (&b""[..], ErrorKind::UnexpectedEof),
            (&whole[..20], ErrorKind::UnexpectedEof),
            (&whole[..whole.len() - 1], ErrorKind::UnexpectedEof),
            (b"HTTP/1.1 200 OK\r\n\r\nhi", ErrorKind::InvalidData),
            (b"SSH-2.0-OpenSSH\r\n", ErrorKind::InvalidData),
        ] {
            assert_eq!(understand(bytes).unwrap_err().kind(), kind, "{bytes:?}");
        }
    }
}
