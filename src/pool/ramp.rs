//! Slow start: a backend that has come back takes up its load little by little.
//!
//! Its share of its own weight, and of the connections it may have, grows evenly from next to
//! nothing to all of it within `slow_start`. The time is divided into steps, so that the picker is
//! told a bounded number of times.

use std::time::{Duration, Instant};

use super::picker::WHOLE;

/// A way up: begun when a backend came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ramp {
    began: Instant,
    lasts: Duration,
}

impl Ramp {
    /// A ramp that begins now; none, if it would take no time.
    pub(super) fn begin(lasts: Duration, now: Instant) -> Option<Self> {
        (!lasts.is_zero()).then_some(Self { began: now, lasts })
    }

    /// Of 256, so much is its share at `now`; [`WHOLE`] at the end.
    pub(super) fn share(self, now: Instant) -> u16 {
        let steps = (now.saturating_duration_since(self.began).as_nanos() / self.step().as_nanos())
            .min(u128::from(STEPS));
        let steps = u16::try_from(steps).unwrap_or(STEPS);
        (steps * (WHOLE / STEPS)).max(1)
    }

    /// When the share grows next; `None` when it is whole.
    pub(super) fn next(self, now: Instant) -> Option<Instant> {
        if self.share(now) == WHOLE {
            return None;
        }
        let step = self.step();
        let passed = now.saturating_duration_since(self.began).as_nanos() / step.as_nanos();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        Some(self.began + step.saturating_mul(passed.saturating_add(1)))
    }

    fn step(self) -> Duration {
        (self.lasts / u32::from(STEPS)).max(SHORTEST)
    }
}

const STEPS: u16 = 64;
/// A step takes a millisecond at least, whatever `slow_start` says.
const SHORTEST: Duration = Duration::from_millis(1);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_time_is_no_ramp() {
        assert_eq!(Ramp::begin(Duration::ZERO, Instant::now()), None);
    }

    proptest! {
        /// From waking to waking: it starts small, only grows, and is whole when its time is over.
        #[test]
        fn it_grows_evenly_and_ends(lasts in 1u64..600_000) {
            let lasts = Duration::from_millis(lasts);
            let start = Instant::now();
            let ramp = Ramp::begin(lasts, start).unwrap();
            prop_assert_eq!(ramp.share(start), 1);
            let (mut now, mut wakings) = (start, 0);
            while let Some(next) = ramp.next(now) {
                prop_assert!(next > now, "the loop would never sleep");
                prop_assert!(ramp.share(next) > ramp.share(now), "woken for nothing");
                now = next;
                wakings += 1;
            }
            prop_assert!(wakings <= STEPS);
            prop_assert_eq!(ramp.share(now), WHOLE);
            prop_assert!(now <= start + lasts.max(SHORTEST * u32::from(STEPS)));
            let half = ramp.share(start + lasts / 2);
            prop_assert!(lasts < SHORTEST * 64 || half.abs_diff(WHOLE / 2) <= WHOLE / STEPS);
        }
    }
}
