//! Listening sockets: binding them, and accepting in bounded batches.
//!
//! An accept loop that is left early gets no further event, so an acceptor keeps a `ready` bit
//! until the kernel says would-block, and is driven again by the turn. When descriptors run out it
//! pauses, 100 ms doubling to a second; clients wait in the kernel's queue meanwhile.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockRef, Type};

use super::resolver::look_up;
use super::socket::{Nagle, Peer, Socket, is_our_shortage, set_keepalive};
use crate::config::BindAddress;

/// One bound socket, and when it may be asked for clients.
#[derive(Debug)]
pub(super) struct Acceptor {
    socket: Listening,
    ready: bool,
    pause: Option<Pause>,
    local: Option<SocketAddr>,
}

impl Acceptor {
    pub(super) fn new(socket: Listening) -> Self {
        let local = socket.local().filter(|address| !address.ip().is_unspecified());
        Self { socket, ready: false, pause: None, local }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match &mut self.socket {
            Listening::Tcp(socket) => registry.register(socket, token, Interest::READABLE),
            Listening::Unix { socket, .. } => registry.register(socket, token, Interest::READABLE),
        }
    }

    /// An event said that clients are waiting.
    pub(super) fn mark(&mut self) {
        self.ready = true;
    }

    /// Whether clients may be waiting.
    pub(super) fn has_clients(&self) -> bool {
        self.ready
    }

    /// The kernel holds so many clients from now on.
    pub(super) fn set_backlog(&self, backlog: u32) -> io::Result<()> {
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        match &self.socket {
            Listening::Tcp(socket) => SockRef::from(socket).listen(backlog),
            Listening::Unix { socket, .. } => SockRef::from(socket).listen(backlog),
        }
    }

    /// Whether asking for a client may bring one now.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.ready && self.pause.as_ref().is_none_or(|pause| pause.until <= now)
    }

    /// When a pause ends; one that is over holds nobody up.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.pause.as_ref().map(|pause| pause.until).filter(|&until| self.ready && until > now)
    }

    /// The next waiting client, if there is one.
    pub(super) fn accept(&mut self, now: Instant) -> Accepted {
        match self.socket.accept() {
            Ok((socket, peer)) => {
                self.pause = None;
                Accepted::Client(socket, peer)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.ready = false;
                Accepted::Nobody
            }
            Err(error) if is_our_shortage(&error) => {
                let last = self.pause.as_ref().map(|pause| pause.length);
                let length = last.map_or(FIRST_PAUSE, |length| (length * 2).min(LONGEST_PAUSE));
                self.pause = Some(Pause { until: now + length, length });
                Accepted::Exhausted(error)
            }
            Err(_) => Accepted::Failed,
        }
    }

    /// Our end of every connection that it accepts, where that is one and the same.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// The address it is bound to, as the contract writes it.
    pub(super) fn address(&self) -> String {
        self.socket.address()
    }
}

/// What asking for a client brought.
#[derive(Debug)]
pub(super) enum Accepted {
    Client(Socket, Peer),
    Nobody,
    /// The client left while it waited, or the like: ask again.
    Failed,
    /// We are out of descriptors or memory; the acceptor pauses.
    Exhausted(io::Error),
}

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Listening {
    /// On a TCP address.
    Tcp(TcpListener),
    /// On a path, which is removed when the socket is closed.
    Unix {
        /// The socket.
        socket: UnixListener,
        /// Where it is bound.
        path: PathBuf,
        /// The file it made there, by device and number.
        file: Option<(u64, u64)>,
    },
}

impl Listening {
    /// Binds every socket that an address stands for.
    ///
    /// # Errors
    /// When the name does not resolve, or an address cannot be bound.
    pub(super) fn bind(
        address: &BindAddress,
        backlog: u32,
        reuse_port: bool,
    ) -> io::Result<Vec<Self>> {
        let options = Options { backlog, reuse_port, both_families: false };
        match address {
            BindAddress::Inet(address) => Ok(vec![bind_inet(*address, options)?]),
            BindAddress::Any(port) => Ok(vec![bind_any(*port, options)?]),
            BindAddress::Name { host, port } => bind_all(look_up(host, *port)?, options),
            BindAddress::Unix(path) => Ok(vec![bind_unix(path, |path| UnixListener::bind(path))?]),
        }
    }

    /// The same for an address that tells secrets: a unix socket is for its user and group only.
    ///
    /// # Errors
    /// When the name does not resolve, or an address cannot be bound.
    pub(super) fn bind_for_admin(address: &BindAddress, backlog: u32) -> io::Result<Vec<Self>> {
        match address {
            BindAddress::Unix(path) => Ok(vec![bind_unix(path, listen_for_group)?]),
            BindAddress::Inet(_) | BindAddress::Any(_) | BindAddress::Name { .. } => {
                Self::bind(address, backlog, false)
            }
        }
    }

    /// A listening TCP socket that was given to this process.
    ///
    /// # Errors
    /// When the descriptor is no listening socket.
    pub(super) fn inherit(descriptor: OwnedFd) -> io::Result<Self> {
        let socket = socket2::Socket::from(descriptor);
        if !socket.is_listener()? {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the descriptor does not listen"));
        }
        socket.set_nonblocking(true)?;
        Ok(Self::Tcp(TcpListener::from_std(socket.into())))
    }

    /// The address it is bound to.
    #[must_use]
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(socket) => {
                socket.local_addr().map_or_else(|error| error.to_string(), |a| a.to_string())
            }
            Self::Unix { path, .. } => format!("unix:{}", path.display()),
        }
    }

    /// Its port, if it has one.
    pub(super) fn port(&self) -> Option<u16> {
        self.local().map(|address| address.port())
    }

    fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr().ok(),
            Self::Unix { .. } => None,
        }
    }

    fn accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            Self::Tcp(socket) => socket
                .accept()
                .map(|(stream, peer)| (Socket::Tcp(stream, Nagle::Off), Peer::Inet(peer))),
            Self::Unix { socket, .. } => {
                socket.accept().map(|(stream, _)| (Socket::Unix(stream), Peer::Unix))
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Another process may have put its own socket there meanwhile.
        if let Self::Unix { path, file, .. } = self
            && file.is_some()
            && *file == identity(path)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket that listens on `address`, to be handed to another process.
///
/// # Errors
/// When the address cannot be bound.
pub fn listening_descriptor(address: SocketAddr) -> io::Result<OwnedFd> {
    let options = Options { backlog: HANDED_BACKLOG, reuse_port: false, both_families: false };
    listening_socket(address, options).map(OwnedFd::from)
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    length: Duration,
}

/// How a TCP socket listens.
#[derive(Debug, Clone, Copy)]
struct Options {
    backlog: u32,
    reuse_port: bool,
    both_families: bool,
}

/// All interfaces, IPv4 and IPv6 through one socket; IPv4 alone on a machine without IPv6.
fn bind_any(port: u16, options: Options) -> io::Result<Listening> {
    let both = Options { both_families: true, ..options };
    match bind_inet(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), both) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            bind_inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), options)
        }
        outcome => outcome,
    }
}

/// All addresses of a name that this machine has; it may know of IPv6 only by name.
fn bind_all(addresses: Vec<SocketAddr>, options: Options) -> io::Result<Vec<Listening>> {
    let mut bound = Vec::new();
    let mut missing = None;
    for address in addresses {
        match bind_inet(address, options) {
            Ok(socket) => bound.push(socket),
            Err(error) if is_not_here(&error) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    match missing {
        Some(error) if bound.is_empty() => Err(error),
        Some(_) | None => Ok(bound),
    }
}

fn is_not_here(error: &io::Error) -> bool {
    error.kind() == ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}

fn bind_inet(address: SocketAddr, options: Options) -> io::Result<Listening> {
    let socket = listening_socket(address, options)?;
    Ok(Listening::Tcp(TcpListener::from_std(socket.into())))
}

/// Options are set here, once: accepted sockets inherit them.
fn listening_socket(address: SocketAddr, options: Options) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(options.reuse_port)?;
    if address.is_ipv6() {
        socket.set_only_v6(!options.both_families)?;
    }
    socket.set_tcp_nodelay(true)?;
    set_keepalive(&SockRef::from(&socket));
    socket.bind(&SockAddr::from(address))?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    Ok(socket)
}

/// A socket file that nobody listens on is left from a process that did not end well: replace it.
/// Anything else that has the name is left alone.
fn bind_unix(
    path: &Path,
    listen: impl Fn(&Path) -> io::Result<UnixListener>,
) -> io::Result<Listening> {
    let listening = |socket| {
        let file = identity(path);
        Listening::Unix { socket, path: path.to_owned(), file }
    };
    match listen(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                let text = "there is a file of that name that is no socket; remove it, or choose \
                            another path";
                return Err(io::Error::new(ErrorKind::AlreadyExists, text));
            }
            // A full queue would make this wait, if it could.
            let refused = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if !refused {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            listen(path).map(listening)
        }
        outcome => outcome.map(listening),
    }
}

/// The file never has another mode, not even for a moment: Linux gives it that of the socket, less
/// the umask.
fn listen_for_group(path: &Path) -> io::Result<UnixListener> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(GROUP_ONLY))?;
    socket.bind(&SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(GROUP_ONLY))?;
    socket.listen(i32::from(u8::MAX))?;
    Ok(UnixListener::from_std(socket.into()))
}

/// Which file a path leads to: its device and number.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

const GROUP_ONLY: u32 = 0o660;
const HANDED_BACKLOG: u32 = 4096;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
