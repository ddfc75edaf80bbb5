//! What the operator is told: access lines, the status table, and notes about shortages.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use log::Level;

use super::pairs::{Choice, Entry};
use super::socket::words;
use super::source::is_source_missing;
use super::{DRAIN_NOTE, Passage, Reactor, Service};
use crate::config::AccessLog;
use crate::lifecycle::Lifecycle;
use crate::measure::Wait;
use crate::pair::{CloseReason, Direction};
use crate::pool::Pool;
use crate::pool::waiting::{Census, Want};

impl Reactor {
    /// Writes the status table to the log.
    pub(super) fn report(&self) {
        let (stats, counts) = (&self.stats, self.counts());
        log::info!(
            "status: {} connections (at most {}), {} accepted, {} bytes received, {} bytes sent, \
             {} failed connects, {} turns; of {} backends:",
            self.live(),
            self.max_connections,
            counts.accepted,
            counts.bytes_received,
            counts.bytes_sent,
            stats.connect_failures,
            stats.turns,
            self.pools.iter().map(|pool| pool.backends().count()).sum::<usize>()
        );
        for listener in self.listed().map(|number| &self.listeners[number]) {
            if let Service::Balance(Passage { pool, .. }) = listener.service {
                let pool = self.pools[pool].name();
                log::info!(
                    "status: listener {} -> pool {pool}: {} active",
                    listener.name,
                    listener.active
                );
            }
        }
        for number in self.listed_pools() {
            let pool = &self.pools[number];
            self.report_line(number);
            for (index, backend) in pool.backends() {
                let counters = backend.counters();
                let status = pool.status(index, self.now);
                log::info!(
                    "status: {}: {}, weight {}, {} active, {} total, {} failed; {status}",
                    BackendName(pool, index),
                    status.state,
                    backend.weight(),
                    counters.active,
                    counters.total,
                    counters.failures
                );
            }
        }
        for (reason, count) in stats.ended() {
            log::info!("status: {count} ended: {}", reason.words());
        }
    }

    /// How many wait at a pool, and for what, if anybody ever did.
    fn report_line(&self, pool: usize) {
        let Census { standing, waited, served } = self.room.census(pool);
        let want = match self.room.want(pool) {
            Some(Want::Place) => " for a place, every backend is at its max_connections",
            Some(Want::Backend) => " for a backend, none can be connected",
            None => "",
        };
        if waited > 0 {
            log::info!(
                "status: pool {}: {standing} clients wait{want}; {waited} ever, {served} served",
                self.pools[pool].name()
            );
        }
    }

    /// While draining, says now and then how many are left.
    pub(super) fn tell_drain(&mut self) {
        let Some(due) = self.drain_note.filter(|due| *due <= self.now) else { return };
        self.drain_note = Some(due + DRAIN_NOTE);
        let left = self.live();
        self.notify.draining(left, self.now);
        match self.lifecycle {
            Lifecycle::Draining { deadline: Some(deadline) } => {
                let time = deadline.saturating_duration_since(self.now).as_secs();
                log::info!("draining: {left} connections left, to be cut in {time} s");
            }
            Lifecycle::Draining { deadline: None } => {
                log::info!("draining: {left} connections left");
            }
            Lifecycle::Running | Lifecycle::Ending => {}
        }
        for (_, entry) in self.pairs.iter().take(LISTED) {
            let age = self.now.saturating_duration_since(entry.opened).as_secs();
            log::info!("draining: connection {} from {} is {age} s old", entry.id, entry.client);
        }
    }

    pub(super) fn tell_shortage(&mut self, error: &io::Error) {
        if self.shortage.may_speak(self.now) {
            let line = format!(
                "{}: {} connections are open; clients wait (raise ulimit -n, or lower \
                 max_connections)",
                words(error),
                self.live()
            );
            self.news.again(Level::Warn, self.now, line);
        }
    }

    /// There is no local address and port to connect from: this machine's limit.
    pub(super) fn tell_ports(&mut self, pool: usize, choice: Choice, error: &io::Error) {
        if !self.ports.may_speak(self.now) {
            return;
        }
        let name = BackendName(&self.pools[pool], choice.backend());
        if is_source_missing(error) {
            let line = format!("cannot connect to {name}: {} (see ip addr)", words(error));
            self.news.again(Level::Warn, self.now, line);
            return;
        }
        let backend = self.pools[pool].backend(choice.backend());
        let target = backend.target(choice.attempt);
        let addresses = target.map_or(1, |target| self.manners[pool].sources.count_for(target));
        let (from, to) = (self.source_ports.start(), self.source_ports.end());
        let line = format!(
            "out of local ports towards {name}: {} ({addresses} x {from}-{to}), {} connections to \
             it now; this machine's limit, not the backend's fault (widen \
             net.ipv4.ip_local_port_range, or add addresses to `source`)",
            addresses * self.source_ports.len(),
            // The one that is being tried is among them.
            backend.counters().active.saturating_sub(1)
        );
        self.news.again(Level::Warn, self.now, line);
    }

    pub(super) fn tell_full(&mut self) {
        if self.live() >= self.max_connections && self.fullness.may_speak(self.now) {
            let line = format!(
                "{} connections: the limit is reached, new clients wait in the kernel's queue",
                self.live()
            );
            self.news.again(Level::Warn, self.now, line);
        }
    }

    /// A client had to be closed because no backend could be connected.
    pub(super) fn tell_unreachable(&mut self, pool: usize, attempts: usize) {
        if self.unreachable.may_speak(self.now) {
            let line = format!(
                "pool {}: a client was closed, {attempts} backends were tried, none connected",
                self.pools[pool].name()
            );
            self.news.again(Level::Warn, self.now, line);
        }
    }
}

/// A backend in the words of the contract: `pool/address`.
pub(super) struct BackendName<'a>(pub(super) &'a Pool, pub(super) usize);

impl fmt::Display for BackendName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.name(), self.0.backend(self.1).label())
    }
}

/// The lines that a connection gets in the log.
pub(super) struct Access<'a> {
    entry: &'a Entry,
    listener: &'a str,
    pool: &'a Pool,
}

impl<'a> Access<'a> {
    pub(super) fn new(entry: &'a Entry, listener: &'a str, pool: &'a Pool) -> Self {
        Self { entry, listener, pool }
    }

    pub(super) fn opened(&self) {
        log::info!(
            target: AccessLog::TARGET,
            id = self.entry.id,
            client:% = self.entry.client,
            listener = self.listener,
            pool = self.pool.name(),
            backend = self.backend();
            "connection opened"
        );
    }

    /// `life` is how long it lasted, in ticks of a millisecond.
    pub(super) fn ended(&self, reason: CloseReason, life: u64) {
        let waits = self.entry.waits.totals(life);
        log::info!(
            target: AccessLog::TARGET,
            id = self.entry.id,
            client:% = self.entry.client,
            listener = self.listener,
            pool = self.pool.name(),
            backend = self.backend(),
            received = self.entry.pair.bytes(Direction::ToBackend),
            sent = self.entry.pair.bytes(Direction::ToClient),
            duration_ms = life,
            queue_ms = waits.of(Wait::Queue),
            connect_ms = waits.of(Wait::Connect),
            client_send_ms = waits.of(Wait::ClientSend),
            client_read_ms = waits.of(Wait::ClientRead),
            backend_send_ms = waits.of(Wait::BackendSend),
            backend_read_ms = waits.of(Wait::BackendRead),
            balancer_ms = waits.of(Wait::Balancer),
            reason = reason.words();
            "connection ended"
        );
    }

    fn backend(&self) -> &str {
        self.entry.backend.map_or("-", |choice| self.pool.backend(choice.backend()).label())
    }
}

/// Keeps a note from being repeated more often than every [`SPARING`].
#[derive(Debug, Default)]
pub(super) struct Sparing {
    last: Option<Instant>,
}

impl Sparing {
    pub(super) fn may_speak(&mut self, now: Instant) -> bool {
        let may = self.last.is_none_or(|last| now >= last + SPARING);
        if may {
            self.last = Some(now);
        }
        may
    }
}

const SPARING: Duration = Duration::from_secs(5);
/// Connections listed one by one while draining.
const LISTED: usize = 10;
