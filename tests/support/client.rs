//! Clients that do not wait for ever, and words for how a stream ended.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use super::PATIENCE;

/// Connects; no operation takes longer than [`PATIENCE`].
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)
        .unwrap_or_else(|error| panic!("connect to {address}: {error}"));
    patient(&stream);
    stream
}

pub(crate) fn patient(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
}

/// Sends `text`, finishes sending, and returns the whole answer; it must end in order.
pub(crate) fn ask(address: SocketAddr, text: &str) -> String {
    try_ask(address, text).unwrap_or_else(|error| panic!("asking {address} failed: {error}"))
}

/// The same, for those that may fail.
pub(crate) fn try_ask(address: SocketAddr, text: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    patient(&stream);
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Exactly `count` bytes, as text.
pub(crate) fn read_text(stream: &mut impl Read, count: usize) -> String {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Reads to the end: what came, and how it ended.
pub(crate) fn read_end(stream: &mut impl Read) -> (Vec<u8>, Ending) {
    let mut all = Vec::new();
    let mut space = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut space) {
            Ok(0) => return (all, Ending::Orderly),
            Ok(count) => all.extend_from_slice(&space[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return (all, Ending::Reset);
            }
            Err(error) => panic!("neither an end nor a reset after {}: {error}", all.len()),
        }
    }
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Orderly,
    Reset,
}

/// Closes with a reset.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Whether a connect is refused now.
pub(crate) fn is_refused(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, PATIENCE)
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}
