//! What holds for all backends of a pool.

use std::time::Duration;

use super::health::Thresholds;
use super::picker::Policy;

/// The terms of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What the pool is called.
    pub name: String,
    /// How a backend is chosen.
    pub policy: Policy,
    /// For choices that need chance.
    pub seed: u64,
    /// What is timed for that.
    pub sampled: Sampled,
    /// Whether backends are probed.
    pub probed: bool,
    /// What a run of probe results means.
    pub thresholds: Thresholds,
    /// How long a backend that has come back takes to get its whole share; zero: at once.
    pub slow_start: Duration,
    /// A backend that was asked and says nothing for so long has a fault; `None`: none.
    pub first_byte_timeout: Option<Duration>,
    /// An agent that is silent for longer is stale; `None`: there are no agents.
    pub agent_patience: Option<Duration>,
}

impl Terms {
    /// A pool with round robin and probes, and nothing else.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            policy: Policy::RoundRobin,
            seed: 0,
            sampled: Sampled::Connect,
            probed: true,
            thresholds: Thresholds { rise: 2, fall: 3 },
            slow_start: Duration::ZERO,
            first_byte_timeout: None,
            agent_patience: None,
        }
    }

    /// Whether anybody wants to know when a backend's first byte comes.
    #[must_use]
    pub fn wants_first_byte(&self) -> bool {
        self.first_byte_timeout.is_some() || self.sampled == Sampled::FirstByte
    }
}

/// What the picker is told the times of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampled {
    /// Connects.
    Connect,
    /// First bytes, from the moment in which the backend was connected or asked.
    FirstByte,
}
