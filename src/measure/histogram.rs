//! How often something took how long, in fixed steps.

use std::time::Duration;

/// Counts of durations by fixed bounds, and their sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [Bound],
    /// One for each bound, and one for all that is longer; each counts only its own.
    counts: Vec<u64>,
    sum: Duration,
}

/// The upper end of a bucket: in microseconds, and in seconds as it is written.
pub type Bound = (u64, &'static str);

impl Histogram {
    /// For connects: from a fifth of a millisecond to ten seconds.
    #[must_use]
    pub fn of_connects() -> Self {
        Self::new(&CONNECTS)
    }

    /// For lives of connections: from a millisecond to a day.
    #[must_use]
    pub fn of_lives() -> Self {
        Self::new(&LIVES)
    }

    fn new(bounds: &'static [Bound]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: Duration::ZERO }
    }

    /// Counts one that took so long. Exactly a bound is within it.
    pub fn observe(&mut self, took: Duration) {
        let at = self.bounds.partition_point(|(bound, _)| took > Duration::from_micros(*bound));
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// Every bound as it is written, with how many took no longer.
    pub fn buckets(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let mut so_far = 0;
        self.bounds.iter().zip(&self.counts).map(move |((_, name), count)| {
            so_far += count;
            (*name, so_far)
        })
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What they took together, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.sum.as_secs_f64()
    }
}

const CONNECTS: [Bound; 14] = [
    (200, "0.0002"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (3_000_000, "3"),
    (10_000_000, "10"),
];

const LIVES: [Bound; 12] = [
    (1_000, "0.001"),
    (5_000, "0.005"),
    (25_000, "0.025"),
    (100_000, "0.1"),
    (500_000, "0.5"),
    (2_000_000, "2"),
    (10_000_000, "10"),
    (60_000_000, "60"),
    (600_000_000, "600"),
    (3_600_000_000, "3600"),
    (21_600_000_000, "21600"),
    (86_400_000_000, "86400"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_grow_and_are_written_as_they_are() {
        for bounds in [&CONNECTS[..], &LIVES] {
            assert!(bounds.is_sorted_by(|a, b| a.0 < b.0));
            for (bound, name) in bounds {
                let seconds: f64 = name.parse().unwrap();
                assert_eq!(Duration::from_micros(*bound), Duration::from_secs_f64(seconds));
            }
        }
    }

    #[test]
    fn one_that_took_exactly_a_bound_is_within_it() {
        let mut histogram = Histogram::of_connects();
        histogram.observe(Duration::from_millis(1));
        histogram.observe(Duration::from_nanos(1_000_001));
        let of = |name| histogram.buckets().find(|(bound, _)| *bound == name).unwrap().1;
        assert_eq!((of("0.0005"), of("0.001"), of("0.0025")), (0, 1, 2));
    }

    proptest! {
        #[test]
        fn buckets_count_all_that_took_no_longer(
            micros in prop::collection::vec(0u64..100_000_000_000, 0..60),
        ) {
            let mut histogram = Histogram::of_lives();
            let times: Vec<_> = micros.into_iter().map(Duration::from_micros).collect();
            times.iter().for_each(|took| histogram.observe(*took));
            for ((bound, name), (written, count)) in LIVES.iter().zip(histogram.buckets()) {
                let within = times.iter().filter(|took| **took <= Duration::from_micros(*bound));
                prop_assert_eq!((*name, within.count() as u64), (written, count));
            }
            prop_assert_eq!(histogram.count(), times.len() as u64);
            let sum: Duration = times.iter().sum();
            prop_assert!((histogram.seconds() - sum.as_secs_f64()).abs() < 0.001);
        }
    }
}
