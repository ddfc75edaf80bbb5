//! Counters of the whole process. They only grow, and cost an addition each.

use std::time::Duration;

use crate::pair::CloseReason;

/// What happened since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Turns of the loop: how often it woke. One that grows without traffic shows a fault.
    pub turns: u64,
    /// Connects to a backend that failed at every address.
    pub connect_failures: u64,
    /// Connects that failed for want of a local port.
    pub out_of_ports: u64,
    /// Times an acceptor had to pause for want of descriptors or memory.
    pub accept_pauses: u64,
    /// How long those pauses were, in sum.
    pub accept_paused: Duration,
    /// Health checks that passed.
    pub checks_passed: u64,
    /// Health checks that failed.
    pub checks_failed: u64,
    ended: [u64; CloseReason::ALL.len()],
}

impl Stats {
    /// Counts the end of a connection.
    pub fn count_end(&mut self, reason: CloseReason) {
        self.ended[reason as usize] += 1;
    }

    /// How many connections ended for this reason.
    #[must_use]
    pub fn count_of(&self, reason: CloseReason) -> u64 {
        self.ended[reason as usize]
    }

    /// How many connections ended for each reason, those that never occurred left out.
    pub fn ended(&self) -> impl Iterator<Item = (CloseReason, u64)> + '_ {
        let count = |reason: CloseReason| (reason, self.count_of(reason));
        CloseReason::ALL.into_iter().map(count).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_counter() {
        let mut stats = Stats::default();
        for reason in CloseReason::ALL {
            stats.count_end(reason);
        }
        let ended: Vec<_> = stats.ended().collect();
        assert_eq!(ended, CloseReason::ALL.map(|reason| (reason, 1)));
    }
}
