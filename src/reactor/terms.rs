//! From what is configured for a pool to the terms on which it runs.

use std::time::Duration;

use crate::config::{self, Check, Initial, OnUnavailable, Policy, Timing};
use crate::pool::backend::Backend;
use crate::pool::health::{DOWN, Health, Thresholds, UP};
use crate::pool::picker;
use crate::pool::terms::{Sampled, Terms};
use crate::pool::waiting::{self, Allowance};

/// The terms of a pool; equal seeds give equal choices where chance has a say.
pub(super) fn of_pool(config: &config::Pool, seed: u64) -> Terms {
    let health = &config.health;
    Terms {
        name: config.name.clone(),
        policy: policy(config.policy),
        seed,
        sampled: match config.policy {
            Policy::ResponseTime { of: Timing::FirstByte } => Sampled::FirstByte,
            Policy::ResponseTime { of: Timing::Connect }
            | Policy::RoundRobin
            | Policy::LeastConnections
            | Policy::SourceHash { .. }
            | Policy::TwoChoices
            | Policy::Resource
            | Policy::First => Sampled::Connect,
        },
        probed: is_probed(health),
        thresholds: Thresholds { rise: health.rise, fall: health.fall },
        slow_start: config.slow_start,
        first_byte_timeout: config.first_byte_timeout,
        agent_patience: health.agent.as_ref().map(|_| patience(health)),
    }
}

/// Who may wait at a pool.
pub(super) fn of_line(config: &config::Pool) -> waiting::Terms {
    let backend = match config.on_unavailable {
        OnUnavailable::Close => None,
        OnUnavailable::Hold { timeout, most } => Some(Allowance { most, time: timeout }),
    };
    let place = Allowance { most: config.queue, time: config.queue_timeout };
    waiting::Terms { place, backend }
}

/// A backend as it is before anything is known of it.
pub(super) fn backend(config: &config::Backend, health: &config::Health) -> Backend {
    let state = match (is_probed(health), health.initial) {
        (false, _) | (true, Initial::Up) => UP,
        (true, Initial::Down) => DOWN,
        (true, Initial::Checking) => Health::Checking,
    };
    Backend::new(config.address.to_string(), config.weight, state)
        .with_most(config.max_connections)
        .with_backup(config.backup)
}

/// Whether there are probes.
pub(super) fn is_probed(health: &config::Health) -> bool {
    health.check != Check::None
}

/// How long an agent may be silent: two questions may be lost, the third must be answered.
fn patience(health: &config::Health) -> Duration {
    health.agent_interval * 3 + health.timeout
}

fn policy(policy: Policy) -> picker::Policy {
    match policy {
        Policy::RoundRobin => picker::Policy::RoundRobin,
        Policy::LeastConnections => picker::Policy::LeastConnections,
        Policy::SourceHash { balance_factor } => picker::Policy::SourceHash { balance_factor },
        Policy::TwoChoices => picker::Policy::TwoChoices,
        Policy::ResponseTime { .. } => picker::Policy::ResponseTime,
        Policy::Resource => picker::Policy::Resource,
        Policy::First => picker::Policy::First,
    }
}
