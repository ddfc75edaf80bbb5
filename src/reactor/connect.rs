//! From a pair that needs a backend to one that has one: choosing, connecting, trying the next.

use std::io;
use std::time::Duration;

use super::pairs::{Choice, Failure};
use super::polls;
use super::report::{Access, BackendName};
use super::resolver::User;
use super::socket::{is_our_shortage, is_out_of_ports, words};
use super::source::is_source_missing;
use super::token::Source;
use super::{Reactor, Route};
use crate::config::AccessLog;
use crate::pair::{CloseReason, Side};
use crate::pool::choice::Asked;
use crate::pool::waiting::Want;
use crate::pool::{Fault, Picked};

impl Reactor {
    /// Begins a connect: to the next address of the backend being tried, or to another backend.
    pub(super) fn connect(&mut self, slot: usize) -> Result<Sought, CloseReason> {
        loop {
            let Some(choice) = self.choose(slot)? else { return Ok(Sought::Waits) };
            let Route { pool, limits, .. } = self.route(slot);
            let Some(target) = self.pools[pool].backend(choice.backend()).target(choice.attempt)
            else {
                continue;
            };
            let (id, backend) =
                (self.pairs.get(slot).id, self.pools[pool].identity(choice.backend()));
            self.decisions.tries(id, backend, target.inet(), self.now);
            let token = Source::Backend(slot).into();
            let begun = self.manners[pool].sources.connect(target).and_then(|mut socket| {
                socket.register(self.poll.registry(), token)?;
                Ok(socket)
            });
            match begun {
                Ok(socket) => {
                    let entry = self.pairs.get_mut(slot);
                    entry.pair.attach(socket, self.now, &limits);
                    entry.lacks_keepalive = false;
                    return Ok(Sought::Connecting);
                }
                Err(error) if is_our_shortage(&error) => {
                    self.decisions.failed(id, &error, self.now);
                    self.tell_shortage(&error);
                    return Err(CloseReason::OutOfResources);
                }
                Err(error) => self.attempt_failed(slot, &error),
            }
        }
    }

    /// Which address of which backend to try now; none if the client has to wait. Distinct
    /// backends count as attempts; the addresses of one backend do not.
    fn choose(&mut self, slot: usize) -> Result<Option<Choice>, CloseReason> {
        let pool = self.pool_of(slot);
        if let Some(choice) = self.pairs.get(slot).backend {
            if self.pools[pool].backend(choice.backend()).target(choice.attempt).is_some() {
                return Ok(Some(choice));
            }
            self.backend_failed(slot, choice);
        }
        if self.stands_behind(slot)? {
            return Ok(None);
        }
        let attempts = self.route(slot).attempts;
        let entry = self.pairs.get_mut(slot);
        let tried = entry.tried.len();
        let (key, now) = (entry.client.key(), self.now);
        let picked = (tried < attempts).then(|| self.pools[pool].pick(key, now, &entry.tried));
        if let Some(choice) = self.decisions.chooses(entry.id, now) {
            self.pools[pool].note(&Asked { key, now, tried: &entry.tried, picked }, choice);
        }
        let backend = match picked {
            Some(Picked::Backend(backend)) => backend,
            Some(Picked::Full) => return self.wait(slot, Want::Place).map(|()| None),
            Some(Picked::Nobody) | None => return self.wait(slot, Want::Backend).map(|()| None),
        };
        self.pools[pool].opened(backend);
        let attempt = self.pools[pool].backend(backend).first_attempt();
        let choice = Choice::new(backend, attempt);
        self.pairs.get_mut(slot).backend = Some(choice);
        Ok(Some(choice))
    }

    /// One address could not be connected.
    pub(super) fn attempt_failed(&mut self, slot: usize, error: &io::Error) {
        let pool = self.pool_of(slot);
        let entry = self.pairs.get_mut(slot);
        let Some(choice) = &mut entry.backend else { return };
        let backend = self.pools[pool].backend(choice.backend());
        let target = backend.target(choice.attempt);
        let out_of_ports = target.is_some_and(|target| is_out_of_ports(error, target));
        let ours = out_of_ports || is_source_missing(error);
        self.decisions.failed(entry.id, error, self.now);
        let failure = match error.kind() {
            _ if ours => Failure::Shortage,
            io::ErrorKind::ConnectionReset => Failure::Reset,
            _ => Failure::Refused,
        };
        entry.failure = failure;
        let tried = *choice;
        choice.attempt = tried.attempt.next();
        choice.failure = choice.failure.max(failure);
        log::debug!(
            "connection {}: connect to {} failed ({})",
            entry.id,
            BackendName(&self.pools[pool], choice.backend()),
            words(error)
        );
        if ours {
            self.stats.out_of_ports += u64::from(out_of_ports);
            self.tell_ports(pool, tried, error);
        }
    }

    /// A backend could not be connected at any of its addresses. Our being out of ports is not
    /// its fault.
    fn backend_failed(&mut self, slot: usize, choice: Choice) {
        let (backend, failure) = (choice.backend(), choice.failure);
        let pool = self.pool_of(slot);
        let entry = self.pairs.get_mut(slot);
        entry.backend = None;
        entry.tried.push(backend);
        self.pools[pool].closed(backend);
        let (change, fault) = match failure {
            Failure::Shortage => return,
            Failure::Refused => {
                (self.pools[pool].connect_failed(backend, self.now), Fault::Connect)
            }
            Failure::Reset => (self.pools[pool].reset(backend, self.now), Fault::Reset),
        };
        self.stats.connect_failures += 1;
        self.tell_change(pool, backend, change, &fault.to_string());
        if self.is_watching() {
            self.prober.hurry(polls::User::health(pool, backend), self.now);
            self.resolver.hurry(User::Backend { pool, backend }, self.now);
        }
    }

    /// Whether the connect has met its own source port: nobody is there.
    pub(super) fn met_itself(&self, slot: usize) -> bool {
        let entry = self.pairs.get(slot);
        let (Some(choice), Some(socket)) = (entry.backend, entry.pair.stream(Side::Backend)) else {
            return false;
        };
        let backend = self.pools[self.pool_of(slot)].backend(choice.backend());
        backend
            .target(choice.attempt)
            .is_some_and(|target| socket.is_connected_to_itself(target, &self.source_ports))
    }

    pub(super) fn connected(&mut self, slot: usize, took: Duration) {
        let pool = self.pool_of(slot);
        self.pairs.connected(slot);
        let entry = self.pairs.get_mut(slot);
        self.decisions.connected(entry.id, took);
        let Some(choice) = entry.backend else { return };
        if self.access_log == AccessLog::Both {
            let name = &self.listeners[entry.listener()].name;
            Access::new(entry, name, &self.pools[pool]).opened();
        }
        let (backend, attempt) = (choice.backend(), choice.attempt);
        let change = self.pools[pool].connected(backend, attempt, took, self.now);
        self.tell_change(pool, backend, change, "connected again");
        // Those who wait are not sent after one that may be reset at once.
        if self.pools[pool].has_resets(backend) {
            self.room.connected(pool, slot);
        } else {
            self.room.served(pool, slot);
        }
    }
}

/// What came of asking for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sought {
    /// A connect has begun.
    Connecting,
    /// The client stands in line.
    Waits,
}
