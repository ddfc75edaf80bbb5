//! What is asked of the running state for an answer that tells of every backend.
//!
//! There may be ten thousand of them. So the rest is taken at once, as an [`Overview`], and then
//! one backend after the other, in as many turns of the loop as it takes. What an answer says of
//! two backends may therefore be some milliseconds apart, and one that is gone by its turn is
//! left out.

use super::snapshot::{Snapshot, Waits};

/// The state but for what is told of each backend, and where those are.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// Its pools have no backends.
    pub snapshot: Snapshot,
    /// The backends of each pool of the snapshot, in order.
    pub spots: Vec<Vec<Spot>>,
    /// Whether metrics tell of each backend.
    pub backend_metrics: bool,
}

/// Where a backend is, as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// Which pool.
    pub pool: usize,
    /// Which of its backends.
    pub backend: usize,
}

/// What metrics tell of a backend.
#[derive(Debug, Clone, Copy)]
pub struct Figures<'a> {
    /// The name of its pool.
    pub pool: &'a str,
    /// As configured.
    pub address: &'a str,
    /// Whether it is in rotation.
    pub is_up: bool,
    /// Its share of new connections.
    pub weight: u16,
    /// Connections now.
    pub active: u64,
    /// Connections ever made.
    pub total: u64,
    /// Connects that failed at every address.
    pub connect_failures: u64,
    /// How often its probes turned it up or down.
    pub health_transitions: u64,
    /// What its connections have waited for.
    pub waits: Waits,
}

/// Whether clients are taken, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// No more are taken.
    pub is_draining: bool,
    /// Backends there are.
    pub targets: usize,
    /// Those of them that are up.
    pub healthy: usize,
}
