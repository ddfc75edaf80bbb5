//! How many clients may come in per second.
//!
//! A token bucket kept as one point in time, the one at which it will be full again (the generic
//! cell rate algorithm, ITU-T I.371): taking a token moves that point on by the time that one token
//! needs. Nothing ticks. The bucket holds a tenth of a second's tokens, one at least, so that
//! clients who come together come in together; over any stretch of time no more than that come in
//! above the rate.

use std::time::{Duration, Instant};

/// A bucket of tokens, full at first.
#[derive(Debug)]
pub struct Rate {
    /// What one token takes to come.
    each: Duration,
    /// What all but one take: so far may the bucket be from full while there is a token in it.
    slack: Duration,
    full_at: Instant,
}

impl Rate {
    /// A bucket that gets `rate` tokens a second.
    ///
    /// # Panics
    /// If the rate is zero.
    #[must_use]
    pub fn new(rate: u32, now: Instant) -> Self {
        assert!(rate > 0, "a rate of zero would let nobody in, ever");
        let each = Duration::from_secs(1) / rate;
        let burst = (rate / BURSTS).max(1);
        Self { each, slack: each * (burst - 1), full_at: now }
    }

    /// When there is a token: now or at some time past, or so much later.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.full_at.checked_sub(self.slack)
    }

    /// Whether there is a token now.
    #[must_use]
    pub fn has_token(&self, now: Instant) -> bool {
        self.full_at <= now + self.slack
    }

    /// Takes a token.
    ///
    /// # Panics
    /// If there is none.
    pub fn take(&mut self, now: Instant) {
        assert!(self.has_token(now), "a token was taken that is not there");
        self.full_at = self.full_at.max(now) + self.each;
    }
}

/// How many full buckets come in a second.
const BURSTS: u32 = 10;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slow_rate_lets_in_one_by_one() {
        let now = Instant::now();
        let mut rate = Rate::new(4, now);
        assert!(rate.has_token(now), "the first does not wait");
        rate.take(now);
        assert!(!rate.has_token(now));
        assert_eq!(rate.next(), Some(now + Duration::from_millis(250)));
        assert!(!rate.has_token(now + Duration::from_millis(249)));
        assert!(rate.has_token(now + Duration::from_millis(250)));
    }

    #[test]
    fn after_a_quiet_time_a_tenth_of_a_second_comes_in_at_once() {
        let mut now = Instant::now();
        let mut rate = Rate::new(1000, now);
        for quiet in [0, 3600] {
            now += Duration::from_secs(quiet);
            for _ in 0..100 {
                rate.take(now);
            }
            assert!(!rate.has_token(now), "and not one more, however long it was quiet");
        }
    }

    proptest! {
        /// Greedy clients at random times: no stretch has more than the rate and one bucket, and
        /// whoever comes when told to gets in.
        #[test]
        fn no_stretch_of_time_has_more_than_the_rate_and_a_bucket(
            per_second in 1u32..5000,
            waits in prop::collection::vec(0u64..300_000, 1..60),
        ) {
            let mut now = Instant::now();
            let mut rate = Rate::new(per_second, now);
            let mut taken: Vec<Instant> = Vec::new();
            for wait in waits {
                now += Duration::from_micros(wait);
                while rate.has_token(now) {
                    rate.take(now);
                    taken.push(now);
                }
                let next = rate.next().unwrap();
                prop_assert!(next > now && rate.has_token(next));
            }
            let bucket = (per_second / 10).max(1);
            for (index, &first) in taken.iter().enumerate().step_by(1 + taken.len() / 50) {
                let time = taken[taken.len() - 1] - first;
                let most = time.as_secs_f64() * f64::from(per_second) * 1.001;
                let count = (taken.len() - index) as f64;
                prop_assert!(count <= most + f64::from(bucket) + 1e-6, "{count} in {time:?}");
            }
        }
    }
}
