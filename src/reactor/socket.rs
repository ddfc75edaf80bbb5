//! The real streams: TCP and unix sockets, and what the kernel wants said to them.

use std::fmt;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::event::{Event, Source};
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{SockRef, TcpKeepalive};

use super::pipe::KernelPipe;
use super::source::is_source_missing;
use crate::pair::endpoint::{Ready, Stream};
use crate::pool::backend::Target;
use crate::pool::picker::PickKey;

/// A connected or connecting socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream, Nagle),
    Unix(UnixStream),
}

/// What the kernel does with small writes. The first one on a socket is sent at once in any case,
/// for nothing is in flight that it could wait for; so a connection of one small request is spared
/// the call that switches the waiting off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nagle {
    /// Nothing was written yet.
    Untouched,
    /// One small write was made.
    Started,
    /// Small writes are sent at once.
    Off,
}

impl Socket {
    /// Begins to connect.
    pub(super) fn connect(target: &Target) -> io::Result<Self> {
        match target {
            Target::Inet(address) => Ok(Self::Tcp(TcpStream::connect(*address)?, Nagle::Untouched)),
            Target::Unix(path) => Ok(Self::Unix(UnixStream::connect(path)?)),
        }
    }

    /// Whether this is a connection to itself: a connect to a port of this machine that nobody
    /// listens on can meet its own source port, and then succeeds (RFC 9293, simultaneous open).
    /// Only asked for ports that the kernel may choose as a source.
    pub(super) fn is_connected_to_itself(
        &self,
        target: &Target,
        source_ports: &SourcePorts,
    ) -> bool {
        let (Self::Tcp(stream, _), Target::Inet(address)) = (self, target) else { return false };
        source_ports.contains(&address.port())
            && stream.local_addr().is_ok_and(|local| local == *address)
    }

    /// The address of our end, if it has one.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream, _) => stream.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Asks for all events of this socket, once and for its whole life.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE.add(Interest::WRITABLE).add(Interest::PRIORITY);
        self.source().register(registry, token, interest)
    }

    /// Asks again, which makes the kernel report what is possible now.
    pub(super) fn reregister(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().reregister(registry, token, Interest::READABLE.add(Interest::WRITABLE))
    }

    /// Notices a peer that vanished without a word, and keeps middleboxes from forgetting us.
    pub(super) fn keep_alive(&self) {
        if let Self::Tcp(stream, _) = self {
            set_keepalive(&SockRef::from(stream));
        }
    }

    /// Makes the coming close a reset, throwing away what is not sent yet.
    pub(super) fn reset_on_close(&self) {
        if let Self::Tcp(stream, _) = self {
            // It fails only on a socket that is already dead, which then needs no reset.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Asks the kernel to call this socket writable only once everything was sent; says whether
    /// that is so already. A unix socket's bytes are with the peer as soon as they are written.
    pub(super) fn report_when_sent(&self) -> bool {
        let Self::Tcp(stream, _) = self else { return true };
        if SockRef::from(stream).set_tcp_notsent_lowat(1).is_err() {
            return true;
        }
        let mut fds = [PollFd::new(stream, PollFlags::OUT)];
        let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_err() || !fds[0].revents().is_empty()
    }

    /// Closes so that the peer sees an orderly end even if it has sent something: a close with
    /// unread input would be a reset.
    pub(super) fn close_politely(mut self, scratch: &mut [u8]) {
        let _ = self.finish();
        while let Ok(count) = self.read(scratch)
            && count == scratch.len()
        {}
    }

    /// Before a write of `count` bytes: small pieces are not to wait for what is in flight.
    fn hasten(&mut self, count: usize) {
        if let Self::Tcp(stream, nagle) = self {
            *nagle = match *nagle {
                Nagle::Off => return,
                Nagle::Untouched if count <= ONE_SEGMENT => Nagle::Started,
                Nagle::Untouched | Nagle::Started => {
                    // On a broken socket the write itself will tell.
                    let _ = stream.set_nodelay(true);
                    Nagle::Off
                }
            };
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream, _) => stream,
            Self::Unix(stream) => stream,
        }
    }
}

impl Stream for Socket {
    type Pipe = KernelPipe;

    fn make_pipe() -> io::Result<KernelPipe> {
        KernelPipe::new()
    }

    fn fill(&mut self, pipe: &mut KernelPipe) -> io::Result<usize> {
        pipe.fill_from(self)
    }

    fn drain(&mut self, pipe: &mut KernelPipe, count: usize) -> io::Result<usize> {
        self.hasten(count);
        pipe.drain_to(self, count)
    }

    fn empties_when_short(&self) -> bool {
        match self {
            Self::Tcp(..) => true,
            Self::Unix(_) => false,
        }
    }

    fn is_finished_unsaid(&self) -> bool {
        let mut space = [MaybeUninit::uninit()];
        match SockRef::from(self).peek(&mut space) {
            Ok(count) => count == 0,
            // It tells an error once, so whoever hears it must draw the conclusion.
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    fn establish(&mut self) -> io::Result<()> {
        let error = match self {
            Self::Tcp(stream, _) => stream.take_error()?,
            Self::Unix(stream) => stream.take_error()?,
        };
        error.map_or(Ok(()), Err)
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream, _) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream, _) => stream.read(space),
            Self::Unix(stream) => stream.read(space),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasten(bytes.len());
        match self {
            Self::Tcp(stream, _) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream, _) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// What fits into one segment on any path (RFC 9293, section 3.7.1).
const ONE_SEGMENT: usize = 536;

/// The ports from which the kernel chooses that of an outgoing connection.
pub(super) type SourcePorts = RangeInclusive<u16>;

/// Who is at the other end of an accepted socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Inet(SocketAddr),
    Unix,
}

impl Peer {
    /// What a choice of a backend may depend on.
    pub(super) fn key(self) -> PickKey {
        match self {
            Self::Inet(address) => PickKey::of(address.ip()),
            Self::Unix => PickKey::LOCAL,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => {
                SocketAddr::new(address.ip().to_canonical(), address.port()).fmt(f)
            }
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// What an event says of a stream. An error or a hang-up makes both operations worth trying:
/// they tell what happened.
pub(super) fn readiness(event: &Event) -> Ready {
    let mut ready = Ready::NONE;
    let mut add = |fact: bool, bits: Ready| {
        if fact {
            ready = ready.with(bits);
        }
    };
    let error = event.is_error();
    add(event.is_readable() || event.is_read_closed(), Ready::READABLE);
    add(event.is_writable(), Ready::WRITABLE);
    add(event.is_read_closed(), Ready::READ_CLOSED);
    add(event.is_priority(), Ready::URGENT.with(Ready::READABLE));
    add(error, Ready::ERROR.with(Ready::READABLE).with(Ready::WRITABLE));
    ready
}

/// Keepalive as set on listeners (accepted sockets inherit it) and on backend sockets that have
/// lived for a while. A dead peer is noticed after about two minutes.
pub(super) fn set_keepalive(socket: &SockRef<'_>) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(60))
        .with_interval(Duration::from_secs(15))
        .with_retries(4);
    // Best effort: a stack without these knobs still carries the traffic.
    let _ = socket.set_tcp_keepalive(&keepalive);
}

/// Whether an error says that this process or machine is out of something, so that no peer is to
/// blame.
pub(super) fn is_our_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether a connect failed for want of something on our side: descriptors, memory, local ports.
pub(super) fn is_our_fault(error: &io::Error, target: &Target) -> bool {
    is_our_shortage(error) || is_source_missing(error) || is_out_of_ports(error, target)
}

/// Whether a connect failed because all local ports towards that address are in use. The kernel
/// says the same when this machine has no address from which to get there, such as one without
/// IPv6; then not even a datagram socket, which needs no port of its own, can be connected.
pub(super) fn is_out_of_ports(error: &io::Error, target: &Target) -> bool {
    let Target::Inet(address) = target else { return false };
    let by_kernel = error.raw_os_error() == Some(rustix::io::Errno::ADDRNOTAVAIL.raw_os_error());
    let reach = || {
        let domain = socket2::Domain::for_address(*address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
        socket.connect(&(*address).into())
    };
    by_kernel && reach().is_ok()
}

/// The short words for an I/O error, without the number.
pub(super) fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "timed out".into(),
        io::ErrorKind::WouldBlock => "the backlog of the socket is full".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or_default().to_lowercase()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_connection_to_itself_is_told_from_one_to_somebody() {
        let any = socket2::SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&any).unwrap();
        let own = socket.local_addr().unwrap().as_socket().unwrap();
        socket.connect(&own.into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let itself = Socket::Tcp(TcpStream::from_std(socket.into()), Nagle::Untouched);
        assert!(itself.is_connected_to_itself(&Target::Inet(own), &(1..=u16::MAX)));
        assert!(!itself.is_connected_to_itself(&Target::Inet(own), &(1..=1)), "not asked for");

        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = Target::Inet(listener.local_addr().unwrap());
        let other = Socket::connect(&target).unwrap();
        assert!(!other.is_connected_to_itself(&target, &(1..=u16::MAX)));
    }
}
