//! How the loop deals with the backends and clients of one pool, besides choosing among them.

use std::time::Duration;

use super::gate;
use super::source::Sources;
use crate::config::{self, OnDown};
use crate::edge::proxy::Version;

/// What holds for one pool.
#[derive(Debug)]
pub(super) struct Manners {
    /// From where its backends are connected.
    pub(super) sources: Sources,
    /// Distinct backends that a client tries.
    pub(super) attempts: usize,
    /// How long one connect may take.
    pub(super) connect: Duration,
    /// How backends are told whose connection they get.
    pub(super) header: Option<Version>,
    /// Whether the connections of a backend are cut when it fails its check.
    pub(super) cuts_down: bool,
    /// How its backends are probed.
    pub(super) health: config::Health,
    /// Pairs that belong to it.
    pub(super) live: usize,
    /// It is not configured any more, and stays until its last pair has ended.
    pub(super) retired: bool,
}

impl Manners {
    pub(super) fn new(config: &config::Pool) -> Self {
        let sources = Sources::new(&config.source);
        for address in sources.missing() {
            log::warn!(
                "pool {}: {address} in `source` is no address of this machine (see ip addr)",
                config.name
            );
        }
        Self {
            sources,
            attempts: config.connect_attempts as usize,
            connect: config.connect_timeout,
            header: config.send_proxy_protocol.map(gate::version),
            cuts_down: config.on_down == OnDown::Close,
            health: config.health.clone(),
            live: 0,
            retired: false,
        }
    }

    /// Whether nothing is left of its pool.
    pub(super) fn is_over(&self) -> bool {
        self.retired && self.live == 0
    }

    /// Takes over what is configured now; true if probes are made in another way from now on.
    pub(super) fn revise(&mut self, config: &config::Pool) -> bool {
        let before = std::mem::replace(self, Self::new(config));
        self.live = before.live;
        (&before.health, before.header) != (&self.health, self.header)
            || before.sources.afresh() != self.sources
    }
}
