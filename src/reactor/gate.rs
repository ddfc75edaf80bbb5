//! Clients at the gate of their listener: let in, heard out, or turned away.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use log::Level;

use super::pairs::Entry;
use super::report::Sparing;
use super::socket::{Peer, Socket};
use super::token::Source;
use super::{Doorway, Listener, Reactor, Service};
use crate::config::{self, Network, ProxyVersion};
use crate::decisions::Over;
use crate::edge::gate::{Rules, Verdict};
use crate::edge::networks::Networks;
use crate::edge::proxy::write::write;
use crate::edge::proxy::{Ends, Version};
use crate::pair::endpoint::Ready;
use crate::pair::{CloseReason, Pair, Side};

impl Reactor {
    /// What becomes of a client that was just accepted.
    pub(super) fn admit(&mut self, doorway: usize, mut socket: Socket, peer: Peer) {
        let Some(Doorway { acceptor, listener: number, .. }) = self.doorways.get(doorway) else {
            return;
        };
        let (local, number) = (acceptor.local(), *number);
        let listener = &mut self.listeners[number];
        listener.counts.accepted += 1;
        let pool = match &listener.service {
            Service::Balance(passage) => passage.pool,
            Service::Answer { answer, delay } => {
                self.guests.admit(socket, answer.clone(), *delay, (self.now, self.poll.registry()));
                return;
            }
        };
        let verdict = listener.gate.admit(peer.ip(), self.now);
        if let Verdict::Refused(refusal) = verdict {
            // No state of the connection is left in the kernel, and the client knows at once.
            socket.reset_on_close();
            self.stats.count_end(refusal.into());
            self.tell_refusal(number, peer, refusal.into());
            return;
        }
        let token = Source::Client(self.pairs.vacant_slot()).into();
        if let Err(error) = socket.register(self.poll.registry(), token) {
            if verdict == Verdict::Enters {
                self.listeners[number].gate.leave(peer.ip());
            }
            self.tell_shortage(&error);
            return;
        }
        let pair = match verdict {
            Verdict::Greets => {
                Pair::greeting(socket, Ready::WRITABLE, self.now + GREETING_PATIENCE)
            }
            Verdict::Enters | Verdict::Refused(_) => self.preceded(local, socket, peer, pool),
        };
        let id = self.next_id;
        self.next_id += 1;
        let over = Over { listener: &self.listeners[number].name, pool: self.pools[pool].name() };
        self.decisions.begin(id, peer.inet(), over, self.now);
        let since = (self.now, self.tick);
        self.pairs.insert(Entry::new(pair, id, peer, since).through(number, pool));
        self.listeners[number].active += 1;
        self.manners[pool].live += 1;
    }

    /// A pair whose backend is told whose connection it gets, if its pool wants that. `local`: our
    /// end of all connections that come through its door, if that is one and the same.
    fn preceded(
        &self,
        local: Option<SocketAddr>,
        socket: Socket,
        peer: Peer,
        pool: usize,
    ) -> Pair<Socket> {
        let header = self.manners[pool].header.map(|version| {
            let local = local.or_else(|| socket.local());
            write(version, peer.ends(local))
        });
        let mut pair = Pair::new(socket, Ready::WRITABLE);
        if let Some(header) = header {
            pair.precede(header);
        }
        pair
    }

    /// A client's header is there: from now on it is the one that the header names. False if it was
    /// turned away for that.
    pub(super) fn greeted(&mut self, slot: usize, ends: Option<Box<Ends>>) -> bool {
        let route = self.route(slot);
        let entry = self.pairs.get_mut(slot);
        if let Some(ends) = &ends {
            entry.client = Peer::Inet(ends.source);
            self.decisions.speaks_for(entry.id, ends.source);
        }
        if !self.listeners[entry.listener()].gate.enter(entry.client.ip()) {
            self.finish(slot, CloseReason::SourceFull);
            return false;
        }
        if let Some(version) = route.header {
            let own = || entry.client.ends(entry.pair.stream(Side::Client).and_then(Socket::local));
            let ends = ends.map(|ends| *ends).or_else(own);
            entry.pair.precede(write(version, ends));
        }
        true
    }

    /// Tells, now and then, how many were turned away.
    pub(super) fn tell_refusal(&mut self, listener: usize, client: Peer, reason: CloseReason) {
        let Listener { name, away, .. } = &mut self.listeners[listener];
        away.count += 1;
        if away.sparing.may_speak(self.now) {
            let line = format!(
                "listener {name}: clients turned away: {}, the last one {client} ({})",
                std::mem::take(&mut away.count),
                reason.words()
            );
            self.news.again(Level::Warn, self.now, line);
        }
    }
}

impl Peer {
    /// Its address, without IPv6 clothes on IPv4.
    pub(super) fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Inet(address) => Some(address.ip().to_canonical()),
            Self::Unix => None,
        }
    }

    /// Its address and port, if it has one.
    fn inet(self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(address),
            Self::Unix => None,
        }
    }

    /// The connection that it has with us at `local`, if both have addresses.
    fn ends(self, local: Option<SocketAddr>) -> Option<Ends> {
        match (self, local) {
            (Self::Inet(source), Some(destination)) => Some(Ends { source, destination }),
            (Self::Inet(_), None) | (Self::Unix, _) => None,
        }
    }
}

/// What the gate of a listener goes by.
pub(super) fn rules(listener: &config::Listener) -> Rules {
    let set = |list: &[Network]| Networks::new(list.iter().map(|n| (n.address(), n.prefix())));
    Rules {
        allow: set(&listener.allow),
        deny: set(&listener.deny),
        trusted: set(&listener.proxy_protocol_from),
        most_per_source: listener.max_per_source,
        rate: listener.accept_rate,
    }
}

/// How a header is written that is configured so.
pub(super) fn version(version: ProxyVersion) -> Version {
    match version {
        ProxyVersion::V1 => Version::V1,
        ProxyVersion::V2 => Version::V2,
    }
}

/// Clients that were turned away since that was told last.
#[derive(Debug, Default)]
pub(super) struct TurnedAway {
    count: u64,
    sparing: Sparing,
}

/// How long a client may take for its PROXY header, from the moment it is accepted.
const GREETING_PATIENCE: Duration = Duration::from_secs(5);
