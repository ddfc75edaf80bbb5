//! What a listener is, sockets aside, and what holds for those that come through it.

use std::time::Duration;

use super::gate::TurnedAway;
use crate::answer::Answerer;
use crate::edge::gate::Gate;
use crate::edge::proxy::Version;
use crate::measure::Histogram;
use crate::pair::Limits;

/// A named door: what happens to the clients that come through it, and how many may be inside.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) service: Service,
    pub(super) gate: Gate,
    pub(super) away: TurnedAway,
    pub(super) most: usize,
    pub(super) active: usize,
    pub(super) counts: Counts,
    /// How long its connections lasted.
    pub(super) lives: Histogram,
    /// It is not configured any more, and stays until its last connection has ended.
    pub(super) retired: bool,
}

/// What has gone through listeners.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
}

#[derive(Debug)]
pub(super) enum Service {
    Balance(Passage),
    Answer { answer: Answerer, delay: Duration },
}

/// What holds for the pairs that come through a listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    /// Where new ones go.
    pub(super) pool: usize,
    pub(super) idle: Option<Duration>,
    pub(super) half_close: Option<Duration>,
    pub(super) splice: bool,
}

/// What holds for one pair: what its listener says, and its pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) pool: usize,
    pub(super) attempts: usize,
    pub(super) limits: Limits,
    pub(super) splice: bool,
    /// How backends are told whose connection they get.
    pub(super) header: Option<Version>,
}

impl Listener {
    /// A listener without limits and doorways.
    pub(super) fn new(name: &str, service: Service) -> Self {
        Self {
            name: name.to_owned(),
            service,
            gate: Gate::default(),
            away: TurnedAway::default(),
            most: usize::MAX,
            active: 0,
            counts: Counts::default(),
            lives: Histogram::of_lives(),
            retired: false,
        }
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
    }
}
