//! Patience with a backend that flaps: the more often it has gone down soon after it had come back,
//! the more passes it needs to come back again.
//!
//! A flap is a fall within [`STABLE`] of a return. Each adds `rise` passes to what is needed, up to
//! [`MOST_FLAPS`] times; each [`STABLE`] without a turn takes one flap off. The first fall of a
//! backend's life is none, however soon it comes, and neither is a fall after a long calm.

use std::time::{Duration, Instant};

use super::health::{Thresholds, Turn};

/// How a backend has turned lately.
#[derive(Debug, Default)]
pub struct Damping {
    /// As of the last turn.
    flaps: u32,
    last: Option<(Turn, Instant)>,
    returned: bool,
}

impl Damping {
    /// Takes a turn of the backend's health.
    pub(super) fn turned(&mut self, turn: Turn, now: Instant) {
        self.flaps = self.flaps(now);
        let calm = self.last.map(|(_, at)| now.saturating_duration_since(at));
        match turn {
            Turn::Down => {
                let soon = self.returned && calm.is_some_and(|calm| calm < STABLE);
                self.flaps = (self.flaps + u32::from(soon)).min(MOST_FLAPS);
                self.returned = false;
            }
            Turn::Up => self.returned = matches!(self.last, Some((Turn::Down, _))),
        }
        self.last = Some((turn, now));
    }

    /// Flaps that are not forgotten at `now`.
    #[must_use]
    pub fn flaps(&self, now: Instant) -> u32 {
        let Some((_, at)) = self.last else { return 0 };
        let calm = now.saturating_duration_since(at).as_secs() / STABLE.as_secs();
        self.flaps.saturating_sub(u32::try_from(calm).unwrap_or(u32::MAX))
    }

    /// The thresholds that hold for it at `now`.
    #[must_use]
    pub fn thresholds(&self, usual: Thresholds, now: Instant) -> Thresholds {
        Thresholds { rise: usual.rise.saturating_mul(1 + self.flaps(now)), ..usual }
    }
}

/// Who stays as it is for so long does not flap.
pub const STABLE: Duration = Duration::from_secs(60);
/// More flaps than these change nothing.
pub const MOST_FLAPS: u32 = 4;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USUAL: Thresholds = Thresholds { rise: 2, fall: 3 };

    fn rise(damping: &Damping, now: Instant) -> u32 {
        damping.thresholds(USUAL, now).rise
    }

    #[test]
    fn a_first_fall_costs_nothing_a_relapse_does() {
        let mut now = Instant::now();
        let mut damping = Damping::default();
        damping.turned(Turn::Up, now);
        damping.turned(Turn::Down, now);
        assert_eq!(rise(&damping, now), 2, "it has not come back yet");
        let mut needed = Vec::new();
        for _ in 0..6 {
            now += STABLE / 10;
            damping.turned(Turn::Up, now);
            now += STABLE / 10;
            damping.turned(Turn::Down, now);
            needed.push(rise(&damping, now));
        }
        assert_eq!(needed, [4, 6, 8, 10, 10, 10], "more each time, within a bound");
        assert_eq!(damping.thresholds(USUAL, now).fall, 3, "falling is not made harder");
    }

    #[test]
    fn calm_is_rewarded_up_or_down() {
        let start = Instant::now();
        let mut damping = Damping::default();
        for turn in [Turn::Up, Turn::Down, Turn::Up, Turn::Down, Turn::Up, Turn::Down] {
            damping.turned(turn, start);
        }
        assert_eq!(damping.flaps(start), 2);
        assert_eq!(damping.flaps(start + STABLE), 1);
        assert_eq!(damping.flaps(start + STABLE * 2), 0);
        damping.turned(Turn::Up, start + STABLE);
        damping.turned(Turn::Down, start + STABLE * 2);
        assert_eq!(damping.flaps(start + STABLE * 2), 0, "a fall after a calm is no flap");
    }

    proptest! {
        #[test]
        fn what_is_needed_stays_within_its_bounds(
            turns in prop::collection::vec((any::<bool>(), 0u64..200), 0..60),
        ) {
            let mut now = Instant::now();
            let mut damping = Damping::default();
            for (up, seconds) in turns {
                now += Duration::from_secs(seconds);
                let before = damping.flaps(now);
                damping.turned(if up { Turn::Up } else { Turn::Down }, now);
                let after = damping.flaps(now);
                prop_assert!(after <= MOST_FLAPS && after <= before + 1);
                prop_assert!(!up || after == before, "coming back is no flap");
            }
        }
    }
}
