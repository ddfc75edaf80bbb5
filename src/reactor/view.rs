//! The running state, looked at from the admin address.

use super::{Counts, Passage, Reactor, Service};
use crate::admin::snapshot::{
    Backend, Connections, DRAINING, HealthChecks, Listener as ListenerSnapshot,
    Pool as PoolSnapshot, Probes, RUNNING, Snapshot,
};
use crate::admin::{Figures, Health, Overview, Spot};
use crate::config::BackendAddress;
use crate::measure::Wait;
use crate::pair::CloseReason;
use crate::pool::Pool;
use crate::pool::backend::{self, BackendState};
use crate::pool::history::{History, MOST_PROBES};
use crate::pool::picker::WHOLE;

impl Reactor {
    /// The numbers of all listeners in configured order, then of those that are going.
    pub(super) fn listed(&self) -> impl Iterator<Item = usize> {
        let is_going = |at: &usize| self.listeners[*at].retired && self.listeners[*at].active > 0;
        let going = (0..self.listeners.len()).filter(is_going);
        self.places.listeners.iter().copied().chain(going)
    }

    /// The numbers of all pools in configured order, then of those that are going.
    pub(super) fn listed_pools(&self) -> impl Iterator<Item = usize> {
        let is_going = |at: &usize| self.manners[*at].retired && self.manners[*at].live > 0;
        let going = (0..self.pools.len()).filter(is_going);
        self.places.pools.iter().copied().chain(going)
    }

    /// What has gone through all listeners since the start.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.former;
        self.listeners.iter().for_each(|listener| counts.add(listener.counts));
        counts
    }

    pub(super) fn overall_view(&self) -> Overview {
        let spots = self.listed_pools().map(|pool| {
            let backends = self.pools[pool].backends();
            backends.map(|(backend, _)| Spot { pool, backend }).collect()
        });
        Overview {
            spots: spots.collect(),
            snapshot: self.snapshot_view(),
            backend_metrics: self.config.admin.as_ref().is_none_or(|admin| admin.backend_metrics),
        }
    }

    pub(super) fn health_view(&self) -> Health {
        let pools = self.listed_pools().map(|number| &self.pools[number]);
        let counts = pools.map(|pool| self.count_up(pool));
        let (targets, healthy) = counts.fold((0, 0), |sum, (all, up)| (sum.0 + all, sum.1 + up));
        Health { is_draining: !self.lifecycle.is_running(), targets, healthy }
    }

    /// How many backends a pool has, and how many of them are up.
    fn count_up(&self, pool: &Pool) -> (usize, usize) {
        let is_up = |backend: &backend::Backend| backend.state(self.now) == BackendState::Up;
        pool.backends().fold((0, 0), |(all, up), (_, b)| (all + 1, up + usize::from(is_up(b))))
    }

    pub(super) fn figures_view(&self, spot: Spot) -> Option<Figures<'_>> {
        let pool = self.pools.get(spot.pool)?;
        let backend = pool.get(spot.backend)?;
        let counters = backend.counters();
        Some(Figures {
            pool: pool.name(),
            address: backend.label(),
            is_up: backend.state(self.now) == BackendState::Up,
            weight: backend.weight(),
            active: counters.active,
            total: counters.total,
            connect_failures: counters.failures,
            health_transitions: counters.turns,
            waits: pool.waits_of(spot.backend).into(),
        })
    }

    fn snapshot_view(&self) -> Snapshot {
        let (stats, counts) = (&self.stats, self.counts());
        let uptime = self.now.saturating_duration_since(self.started);
        let ended = |reason: CloseReason| (reason.words().to_owned(), stats.count_of(reason));
        Snapshot {
            service: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: if self.lifecycle.is_running() { RUNNING } else { DRAINING }.to_owned(),
            uptime_seconds: uptime.as_secs(),
            uptime_milliseconds: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            instance: self.news.instance(),
            connections: Connections {
                active: self.live() as u64,
                limit: self.max_connections as u64,
                total: counts.accepted,
                ended: CloseReason::ALL.into_iter().map(ended).collect(),
            },
            bytes_received: counts.bytes_received,
            bytes_sent: counts.bytes_sent,
            health_checks: HealthChecks {
                passed: stats.checks_passed,
                failed: stats.checks_failed,
            },
            accept_paused_seconds: stats.accept_paused.as_secs_f64(),
            listeners: self.listed().map(|number| self.listener_view(number)).collect(),
            pools: self.listed_pools().map(|number| self.pool_view(number)).collect(),
            events: self.news.events(self.now),
        }
    }

    fn listener_view(&self, number: usize) -> ListenerSnapshot {
        let listener = &self.listeners[number];
        let pool = match &listener.service {
            Service::Balance(Passage { pool, .. }) => self.pools[*pool].name().to_owned(),
            Service::Answer { .. } => String::new(),
        };
        let own = self.doorways.iter().filter(|doorway| doorway.listener == number);
        ListenerSnapshot {
            name: listener.name.clone(),
            pool,
            addresses: own.map(|doorway| doorway.acceptor.address()).collect(),
            active: listener.active as u64,
            limit: (listener.most < usize::MAX).then_some(listener.most as u64),
            total: listener.counts.accepted,
            bytes_received: listener.counts.bytes_received,
            bytes_sent: listener.counts.bytes_sent,
            lives: Some(listener.lives.clone()),
        }
    }

    fn pool_view(&self, number: usize) -> PoolSnapshot {
        let pool = &self.pools[number];
        let (targets, healthy) = self.count_up(pool);
        PoolSnapshot {
            name: pool.name().to_owned(),
            balance: pool.terms().policy.name().to_owned(),
            available: pool.is_available(),
            waiting: self.room.census(number).standing as u64,
            queue_ms: pool.waits().of(Wait::Queue),
            waits_ms: pool.waits().into(),
            targets: targets as u64,
            healthy: healthy as u64,
            connects: Some(pool.connects().clone()),
            backends: Vec::new(),
        }
    }

    pub(super) fn backend_view(&self, pool: &Pool, index: usize) -> Backend {
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
            overrides: self.overrides(pool.name(), backend.label()),
            waits_ms: pool.waits_of(index).into(),
            probes: self.probes_view(backend.history()),
        }
    }

    /// In which ways a backend is not as the file has it.
    fn overrides(&self, pool: &str, label: &str) -> Vec<String> {
        if self.amendments.is_empty() {
            return Vec::new();
        }
        let Ok(address) = label.parse::<BackendAddress>() else { return Vec::new() };
        self.amendments.words(pool, &address).into_iter().map(str::to_owned).collect()
    }

    fn probes_view(&self, history: &History) -> Probes {
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
