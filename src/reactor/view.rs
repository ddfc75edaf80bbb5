//! The running state, looked at from the admin address.

use std::time::Instant;

use super::listener::Acceptor;
use super::news::News;
use super::{Listener, Reactor, Route, Service};
use crate::admin::snapshot::{
    Backend, Connections, DRAINING, HealthChecks, Listener as ListenerSnapshot,
    Pool as PoolSnapshot, Probes, RUNNING, Snapshot,
};
use crate::measure::Wait;
use crate::pair::CloseReason;
use crate::pool::Pool;
use crate::pool::history::{History, MOST_PROBES};
use crate::pool::picker::WHOLE;
use crate::pool::waiting::Room;
use crate::stats::Stats;

/// What a snapshot is taken of.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) now: Instant,
    pub(super) started: Instant,
    pub(super) is_draining: bool,
    /// Connections now, and at most.
    pub(super) active: usize,
    pub(super) most: usize,
    pub(super) stats: &'a Stats,
    pub(super) acceptors: &'a [(Acceptor, usize)],
    pub(super) listeners: &'a [Listener],
    pub(super) pools: &'a [Pool],
    pub(super) room: &'a Room,
    pub(super) news: &'a News,
}

impl Reactor {
    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            started: self.started,
            is_draining: !self.lifecycle.is_running(),
            active: self.live(),
            most: self.max_connections,
            stats: &self.stats,
            acceptors: &self.acceptors,
            listeners: &self.listeners,
            pools: &self.pools,
            room: &self.room,
            news: &self.news,
        }
    }
}

impl View<'_> {
    pub(super) fn snapshot(&self) -> Snapshot {
        let (stats, uptime) = (self.stats, self.now.saturating_duration_since(self.started));
        let ended = |reason: CloseReason| (reason.words().to_owned(), stats.count_of(reason));
        Snapshot {
            service: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: if self.is_draining { DRAINING } else { RUNNING }.to_owned(),
            uptime_seconds: uptime.as_secs(),
            uptime_milliseconds: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            instance: self.news.instance(),
            connections: Connections {
                active: self.active as u64,
                limit: self.most as u64,
                total: total(self.listeners, |listener| listener.accepted),
                ended: CloseReason::ALL.into_iter().map(ended).collect(),
            },
            bytes_received: total(self.listeners, |listener| listener.bytes_received),
            bytes_sent: total(self.listeners, |listener| listener.bytes_sent),
            health_checks: HealthChecks {
                passed: stats.checks_passed,
                failed: stats.checks_failed,
            },
            accept_paused_seconds: stats.accept_paused.as_secs_f64(),
            listeners: (0..self.listeners.len()).map(|number| self.listener(number)).collect(),
            pools: (0..self.pools.len()).map(|number| self.pool(number)).collect(),
            events: self.news.events(self.now),
        }
    }

    fn listener(&self, number: usize) -> ListenerSnapshot {
        let listener = &self.listeners[number];
        let pool = match &listener.service {
            Service::Balance(Route { pool, .. }) => self.pools[*pool].name().to_owned(),
            Service::Answer { .. } => String::new(),
        };
        let own = self.acceptors.iter().filter(|(_, of)| *of == number);
        ListenerSnapshot {
            name: listener.name.clone(),
            pool,
            addresses: own.map(|(acceptor, _)| acceptor.address()).collect(),
            active: listener.active as u64,
            limit: (listener.most < usize::MAX).then_some(listener.most as u64),
            total: listener.accepted,
            bytes_received: listener.bytes_received,
            bytes_sent: listener.bytes_sent,
        }
    }

    fn pool(&self, number: usize) -> PoolSnapshot {
        let pool = &self.pools[number];
        PoolSnapshot {
            name: pool.name().to_owned(),
            balance: pool.terms().policy.name().to_owned(),
            available: pool.is_available(),
            waiting: self.room.census(number).standing as u64,
            queue_ms: pool.waits().of(Wait::Queue),
            waits_ms: pool.waits().into(),
            backends: (0..pool.backends().len()).map(|index| self.backend(pool, index)).collect(),
        }
    }

    pub(super) fn backend(&self, pool: &Pool, index: usize) -> Backend {
        let (backend, status) = (pool.backend(index), pool.status(index, self.now));
        let counters = backend.counters();
        Backend {
            address: backend.label().to_owned(),
            state: status.state.to_string(),
            state_seconds: status.lasts.as_secs(),
            reason: status.reason,
            weight: backend.weight(),
            weight_percent: u16::try_from(u32::from(status.share) * 100 / u32::from(WHOLE))
                .unwrap_or(100),
            backup: status.backup,
            active: counters.active,
            limit: status.cap.map(u64::from),
            total: counters.total,
            connect_failures: counters.failures,
            health_transitions: counters.turns,
            flaps: status.flaps.into(),
            agent: status.agent,
            waits_ms: pool.waits_of(index).into(),
            probes: self.probes(backend.history()),
        }
    }

    fn probes(&self, history: &History) -> Probes {
        let mut probes = Probes {
            results: String::with_capacity(MOST_PROBES),
            milliseconds: Vec::with_capacity(MOST_PROBES),
            seconds_ago: Vec::with_capacity(MOST_PROBES),
        };
        for seen in history.probes(self.now) {
            probes.results.push(if seen.passed { '+' } else { '-' });
            probes.milliseconds.push(seen.milliseconds);
            probes.seconds_ago.push(seen.seconds_ago);
        }
        probes
    }
}

/// What all listeners have together.
pub(super) fn total(listeners: &[Listener], of: impl Fn(&Listener) -> u64) -> u64 {
    listeners.iter().map(of).sum()
}
