//! The sockets that listen, each leading to a listener.
//!
//! A doorway keeps its number while it is open; the number of one that was closed is given out
//! again. An event that comes too late for the one it was meant for makes the other one look in
//! vain. One that is to be closed lets those in first who are connected already, or the kernel
//! would reset them.

use std::io;
use std::time::{Duration, Instant};

use mio::Registry;

use super::listener::{Acceptor, Listening};
use super::token::Source;
use crate::config::BindAddress;

/// All doorways, by number.
#[derive(Debug, Default)]
pub(super) struct Doorways(Vec<Option<Doorway>>);

/// One socket that listens.
#[derive(Debug)]
pub(super) struct Doorway {
    pub(super) acceptor: Acceptor,
    pub(super) listener: usize,
    /// What it was bound to; `None` if that was somebody else's doing.
    pub(super) place: Option<Place>,
    /// It is closed when nobody waits any more, or at this time.
    pub(super) closing: Option<Instant>,
}

/// An address as configured, and the how manieth of the like it is among its listener's: with port
/// 0, several are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) address: BindAddress,
    pub(super) ordinal: usize,
}

impl Place {
    /// The places of a listener.
    pub(super) fn all(addresses: &[BindAddress]) -> impl Iterator<Item = Self> + '_ {
        addresses.iter().enumerate().map(|(at, address)| {
            let ordinal = addresses[..at].iter().filter(|&other| other == address).count();
            Self { address: address.clone(), ordinal }
        })
    }

    /// Whether the kernel chooses the port, so that another listener's is another one.
    pub(super) fn is_any_port(&self) -> bool {
        match &self.address {
            BindAddress::Inet(address) => address.port() == 0,
            BindAddress::Any(port) | BindAddress::Name { port, .. } => *port == 0,
            BindAddress::Unix(_) => false,
        }
    }
}

impl Doorways {
    /// Opens a doorway; its number is returned.
    pub(super) fn open(
        &mut self,
        listener: usize,
        place: Option<Place>,
        socket: Listening,
        registry: &Registry,
    ) -> io::Result<usize> {
        let vacant = self.0.iter().position(Option::is_none);
        let number = vacant.unwrap_or(self.0.len());
        let mut acceptor = Acceptor::new(socket);
        acceptor.register(registry, Source::Acceptor(number).into())?;
        let doorway = Doorway { acceptor, listener, place, closing: None };
        match vacant {
            Some(number) => self.0[number] = Some(doorway),
            None => self.0.push(Some(doorway)),
        }
        Ok(number)
    }

    /// One more than the largest number.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Doorway> {
        self.0.get(number)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Doorway> {
        self.0.get_mut(number)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Doorway> {
        self.0.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Doorway> {
        self.0.iter_mut().flatten()
    }

    /// Closes those that are to be closed and have let everybody in, or whose time is over; their
    /// addresses are returned.
    pub(super) fn close(&mut self, now: Instant) -> Vec<String> {
        let mut closed = Vec::new();
        for place in &mut self.0 {
            if let Some(doorway) = place
                && doorway.is_over(now)
            {
                closed.push(doorway.acceptor.address());
                *place = None;
            }
        }
        closed
    }

    /// When [`Self::close`] has something to do at the latest.
    pub(super) fn next(&self) -> Option<Instant> {
        self.iter().filter_map(|doorway| doorway.closing).min()
    }

    /// Closes all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Doorway {
    /// Lets those in who are connected already, and then nobody.
    pub(super) fn begin_to_close(&mut self, now: Instant) {
        self.acceptor.mark();
        self.closing.get_or_insert(now + LAST_CALL);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.closing.is_some_and(|until| until <= now || !self.acceptor.has_clients())
    }
}

/// How long a doorway that is to be closed waits for places for those who wait there.
const LAST_CALL: Duration = Duration::from_secs(5);
