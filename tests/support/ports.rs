//! Ports that answer only when a test wants them to.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

/// A port of 127.0.0.1 that nobody else gets: connects are refused until somebody listens there.
#[derive(Debug)]
pub(crate) struct Port {
    _reserved: Socket,
    pub(crate) address: SocketAddr,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let reserved = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let address = reserved.local_addr().unwrap().as_socket().unwrap();
        Self { _reserved: reserved, address }
    }

    /// Listens there, until what is returned is dropped.
    pub(crate) fn listen(&self) -> TcpListener {
        let socket = bound(self.address);
        socket.listen(1024).unwrap();
        socket.into()
    }
}

/// An address at which connects neither succeed nor fail: the backlog is full.
#[derive(Debug)]
pub(crate) struct BlackHole {
    _listener: Socket,
    _filling: Vec<TcpStream>,
    pub(crate) address: SocketAddr,
}

impl BlackHole {
    pub(crate) fn new() -> Self {
        let listener = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut filling = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            filling.push(stream);
        }
        assert!(!filling.is_empty(), "the first connect fills the backlog");
        Self { _listener: listener, _filling: filling, address }
    }
}

fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SockAddr::from(address)).unwrap();
    socket
}
