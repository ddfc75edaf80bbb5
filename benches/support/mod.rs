//! What the benches of the whole daemon share: processes that always end, backends in this
//! process, readiness, and the one place that reads the clock and waits.

pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod sink;

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

/// Asks until there is an answer.
///
/// # Errors
/// What `ask` says, or that there was no answer within [`PATIENCE`].
pub(crate) fn until<T>(
    what: &str,
    mut ask: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<T> {
    let latest = clock() + PATIENCE;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if clock() > latest {
            return Err(io::Error::other(format!("waited {PATIENCE:?} in vain: {what}")));
        }
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock of the benches")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the one helper that asks for a fact again")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Takes what was received, at most as much as `space` holds, and has the kernel throw it away
/// (man 7 tcp: `MSG_TRUNC`), so that a receiver costs less than what it measures.
pub(crate) fn discard(stream: &TcpStream, space: &mut [u8]) -> io::Result<usize> {
    Ok(recv(stream, space, RecvFlags::TRUNC).map(|(_, count)| count)?)
}

/// The first byte of a connection says what the backend is to do with it.
pub(crate) const ECHO: u8 = b'E';
/// Throw away what comes.
pub(crate) const DISCARD: u8 = b'D';
/// Send without end.
pub(crate) const SOURCE: u8 = b'S';
/// Bytes of a request and of its answer.
pub(crate) const MESSAGE: usize = 64;
/// Bytes offered to, or asked of, a bulk stream at one time.
pub(crate) const CHUNK: usize = 256 * 1024;

const PATIENCE: Duration = Duration::from_secs(20);
