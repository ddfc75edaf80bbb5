//! From which of this machine's addresses backends are connected.
//!
//! A socket is bound to the address alone, and its port is chosen when it connects
//! (`IP_BIND_ADDRESS_NO_PORT`): only then does the kernel know the destination, and can use one
//! port for several. Bound in the ordinary way, a port would be taken for all destinations.

use std::io;
use std::net::{IpAddr, SocketAddr};

use mio::net::TcpStream;
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use rustix::io::Errno;
use socket2::{Domain, Type};

use super::socket::{Nagle, Socket, is_out_of_ports};
use crate::pool::backend::Target;

/// The addresses for the connections of a pool, taken in turn.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sources {
    v4: Turns,
    v6: Turns,
}

/// Addresses of one family.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
struct Turns {
    addresses: Vec<IpAddr>,
    next: usize,
}

impl Sources {
    /// None: the kernel chooses.
    pub(super) fn new(addresses: &[IpAddr]) -> Self {
        let (v4, v6) = addresses.iter().partition(|address| address.is_ipv4());
        Self { v4: Turns { addresses: v4, next: 0 }, v6: Turns { addresses: v6, next: 0 } }
    }

    /// The same addresses, with the first one's turn.
    pub(super) fn afresh(&self) -> Self {
        let begin = |turns: &Turns| Turns { addresses: turns.addresses.clone(), next: 0 };
        Self { v4: begin(&self.v4), v6: begin(&self.v6) }
    }

    /// Begins to connect from the address whose turn it is, or from another one if that has no
    /// port left.
    ///
    /// # Errors
    /// Like a connect. It is out of ports when that is so for all addresses.
    pub(super) fn connect(&mut self, target: &Target) -> io::Result<Socket> {
        let turns = if is_ipv6(target) { &mut self.v6 } else { &mut self.v4 };
        let first = turns.next;
        turns.next = (first + 1) % turns.addresses.len().max(1);
        self.connect_from(first, target)
    }

    /// The same for a probe, which takes no turn from the others.
    ///
    /// # Errors
    /// Like a connect.
    pub(super) fn probe(&self, target: &Target) -> io::Result<Socket> {
        self.connect_from(0, target)
    }

    /// Addresses that this machine does not have, or not yet.
    pub(super) fn missing(&self) -> Vec<IpAddr> {
        let is_missing = |address: &&IpAddr| {
            let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
            let socket = socket2::Socket::new(domain, Type::DGRAM, None);
            socket.and_then(|socket| socket.bind(&SocketAddr::new(**address, 0).into())).is_err()
        };
        let all = self.v4.addresses.iter().chain(&self.v6.addresses);
        all.filter(is_missing).copied().collect()
    }

    /// How many addresses there are for a destination; 1 where the kernel chooses.
    pub(super) fn count_for(&self, target: &Target) -> usize {
        if self.is_free() { 1 } else { self.fitting(target).len() }
    }

    fn is_free(&self) -> bool {
        self.v4.addresses.is_empty() && self.v6.addresses.is_empty()
    }

    fn fitting(&self, target: &Target) -> &[IpAddr] {
        if is_ipv6(target) { &self.v6.addresses } else { &self.v4.addresses }
    }

    fn connect_from(&self, first: usize, target: &Target) -> io::Result<Socket> {
        let to = match target {
            Target::Inet(to) if !self.is_free() => *to,
            Target::Inet(_) | Target::Unix(_) => return Socket::connect(target),
        };
        let (before, after) = self.fitting(target).split_at(first);
        let mut failed = no_source(format!("no address in `source` is of the family of {to}"));
        for from in after.iter().chain(before) {
            match connect(*from, to) {
                Err(error) if is_source_missing(&error) => failed = error,
                Err(error) if is_out_of_ports(&error, target) => failed = error,
                outcome => return outcome,
            }
        }
        Err(failed)
    }
}

fn is_ipv6(target: &Target) -> bool {
    matches!(target, Target::Inet(SocketAddr::V6(_)))
}

/// Whether a connect failed because of what stands in `source`: no backend is to blame.
pub(super) fn is_source_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable && error.raw_os_error().is_none()
}

/// The kernel would say the same of an address that is not here and of a lack of ports, so the
/// first is told in words of our own.
fn no_source(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::AddrNotAvailable, words)
}

fn connect(from: IpAddr, to: SocketAddr) -> io::Result<Socket> {
    let socket = socket2::Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), None)?;
    setsockopt(&socket, IpBindAddressNoPort, &true).map_err(io::Error::from)?;
    socket.bind(&SocketAddr::new(from, 0).into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrNotAvailable => {
            no_source(format!("{from} in `source` is no address of this machine"))
        }
        _ => error,
    })?;
    let under_way = Some(Errno::INPROGRESS.raw_os_error());
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != under_way => return Err(error),
        Err(_) | Ok(()) => {}
    }
    Ok(Socket::Tcp(TcpStream::from_std(socket.into()), Nagle::Untouched))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn sources(list: &[&str]) -> Sources {
        let addresses: Vec<IpAddr> = list.iter().map(|text| text.parse().unwrap()).collect();
        Sources::new(&addresses)
    }

    /// Where a connection comes from.
    fn origin(socket: &io::Result<Socket>, listener: &TcpListener) -> IpAddr {
        assert!(socket.is_ok(), "{socket:?}");
        listener.accept().unwrap().1.ip()
    }

    #[test]
    fn the_addresses_take_turns_and_probes_take_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Inet(listener.local_addr().unwrap());
        let mut sources = sources(&["127.0.0.2", "::1", "127.0.0.3"]);
        assert_eq!(sources.count_for(&target), 2);
        for turn in ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"] {
            assert_eq!(origin(&sources.connect(&target), &listener).to_string(), turn);
            assert_eq!(origin(&sources.probe(&target), &listener).to_string(), "127.0.0.2");
        }
    }

    #[test]
    fn an_address_that_is_not_here_is_passed_over_and_told_when_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Inet(listener.local_addr().unwrap());
        let mut some = sources(&["192.0.2.77", "127.0.0.4"]);
        for _ in 0..2 {
            assert_eq!(origin(&some.connect(&target), &listener).to_string(), "127.0.0.4");
        }
        let error = sources(&["192.0.2.77"]).connect(&target).unwrap_err();
        assert!(is_source_missing(&error) && !is_out_of_ports(&error, &target), "{error}");
        assert_eq!(some.missing(), ["192.0.2.77".parse::<IpAddr>().unwrap()]);
        let error = sources(&["::1"]).connect(&target).unwrap_err();
        assert!(is_source_missing(&error), "{error}");
        assert!(error.to_string().contains("family"), "{error}");
    }
}
