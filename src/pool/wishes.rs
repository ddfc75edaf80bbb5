//! What the operator wants of a backend while the pool is at work.

use std::time::Instant;

use super::admin::{Admin, Author};
use super::{Change, Pool};

impl Pool {
    /// The operator wants this of the backend.
    pub fn set_state(&mut self, index: usize, admin: Admin, now: Instant) -> Option<Change> {
        let before = self.outlook(index).0;
        self.backends[index].want(admin, self.terms.probed);
        self.settle(index, now);
        let after = self.outlook(index).0;
        (after != before).then(|| self.wanted(index, Author::Operator))
    }

    /// The operator wants the backend to have this weight; with 0 it takes nothing new.
    pub fn set_weight(&mut self, index: usize, weight: u16, now: Instant) -> Option<Change> {
        let before = self.backends[index].weigh(weight);
        if before == weight {
            return None;
        }
        if !self.backends[index].is_removed() {
            self.roster.set_weight(index, weight);
        }
        self.settle(index, now);
        Some(Change::Weighed(before))
    }
}
