//! Chance from a seed: SplitMix64 (Steele, Lea and Flood, 2014), the same on every machine.

use super::picker::hash;

/// A sequence of numbers that look random.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number below `limit`, all alike to within one part in 2^64 / `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(hash::mix(self.state)) * u128::from(limit)) >> 64) as u64
    }
}
