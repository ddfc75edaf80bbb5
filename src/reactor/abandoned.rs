//! Connections of backends that failed their check, where these are to be cut.
//!
//! They are found in one pass over the pairs, which only a pool with `on_down = "close"` pays for,
//! and cut a bounded number in a turn, as each costs some calls.

use super::Reactor;
use crate::pair::{CloseReason, Phase};

impl Reactor {
    /// A backend failed its check: its connections are to be cut, where that was asked for. One
    /// that is still being made is left to come through or fail.
    pub(super) fn abandon(&mut self, pool: usize, backend: usize) {
        if !self.manners[pool].cuts_down {
            return;
        }
        let goes_there = |slot: usize| {
            let entry = self.pairs.get(slot);
            self.pool_of(slot) == pool
                && entry.pair.phase() == Phase::Relaying
                && entry.backend.is_some_and(|choice| choice.backend() == backend)
        };
        let pairs = self.pairs.iter().filter(|(slot, _)| goes_there(*slot));
        let cut: Vec<(usize, u64)> = pairs.map(|(slot, entry)| (slot, entry.id)).collect();
        self.abandoned.extend(cut);
    }

    /// Cuts some of them.
    pub(super) fn cut_abandoned(&mut self) {
        let some = self.abandoned.len().min(CUTS);
        for (slot, id) in self.abandoned.split_off(self.abandoned.len() - some) {
            // It may have ended meanwhile, and its slot have a new owner.
            if self.pairs.is(slot, id) {
                self.finish(slot, CloseReason::BackendDown);
            }
        }
    }
}

/// Connections cut in one turn.
const CUTS: usize = 1024;
