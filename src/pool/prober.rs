//! When to probe whom.
//!
//! The first probe of every backend is due at once. After a result the next one follows in
//! `interval`, or in `fast_interval` while the state is about to change, spread by a tenth either
//! way; the first steady wait is drawn from a whole interval, so that the probes of a large pool
//! do not march in step. A failed connect of real traffic asks for a probe at once, but not more
//! often than every [`SOONEST`]. Opening and timing the probes is the reactor's.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::timers::Timers;

/// The schedule of all probed backends.
#[derive(Debug)]
pub struct Prober {
    targets: Vec<Probed>,
    numbers: HashMap<(usize, usize), usize>,
    due: Timers,
    random: Random,
}

impl Prober {
    /// An empty schedule. Equal seeds give equal schedules.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            targets: Vec::new(),
            numbers: HashMap::new(),
            due: Timers::default(),
            random: Random(seed | 1),
        }
    }

    /// Adds a backend whose first probe is due at `now`; its number is returned.
    pub fn add(&mut self, pool: usize, backend: usize, pace: Pace, now: Instant) -> usize {
        let number = self.targets.len();
        self.targets.push(Probed {
            pool,
            backend,
            pace,
            next: Some(now),
            ended: None,
            settled: false,
        });
        self.numbers.insert((pool, backend), number);
        self.due.arm(number, now);
        number
    }

    /// A backend that is to be probed now; its probe counts as running until [`Self::finished`].
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        while let Some(number) = self.due.pop_due(now) {
            let target = &mut self.targets[number];
            match target.next {
                Some(next) if next <= now => {
                    target.next = None;
                    return Some(number);
                }
                Some(next) => self.due.arm(number, next),
                None => {}
            }
        }
        None
    }

    /// A probe ended; the next is scheduled. `turning`: its results may soon change the state.
    pub fn finished(&mut self, number: usize, turning: bool, now: Instant) {
        let target = &mut self.targets[number];
        let wait = if turning {
            self.random.around(target.pace.fast_interval)
        } else if target.settled {
            self.random.around(target.pace.interval)
        } else {
            target.settled = true;
            self.random.within(target.pace.interval)
        };
        target.ended = Some(now);
        target.next = Some(now + wait);
        self.due.arm(number, now + wait);
    }

    /// Real traffic failed to connect to a backend: probe it soon, if it is probed at all.
    pub fn hurry(&mut self, pool: usize, backend: usize, now: Instant) {
        let Some(&number) = self.numbers.get(&(pool, backend)) else { return };
        let target = &mut self.targets[number];
        let soonest = target.ended.map_or(now, |ended| now.max(ended + SOONEST));
        if target.next.is_some_and(|next| next > soonest) {
            target.next = Some(soonest);
            self.due.arm(number, soonest);
        }
    }

    /// The pool and backend behind a number.
    #[must_use]
    pub fn target(&self, number: usize) -> (usize, usize) {
        (self.targets[number].pool, self.targets[number].backend)
    }

    /// How long a probe of this backend may take.
    #[must_use]
    pub fn timeout(&self, number: usize) -> Duration {
        self.targets[number].pace.timeout
    }

    /// How many backends are probed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether no backend is probed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// When [`Self::pop_due`] should be asked next.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.due.next()
    }
}

/// How often a backend is probed, and how long a probe may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Between probes in a steady state.
    pub interval: Duration,
    /// Between probes while the state is about to change.
    pub fast_interval: Duration,
    /// For one probe.
    pub timeout: Duration,
}

#[derive(Debug)]
struct Probed {
    pool: usize,
    backend: usize,
    pace: Pace,
    next: Option<Instant>,
    ended: Option<Instant>,
    settled: bool,
}

/// Xorshift (Marsaglia, 2003): enough to spread probes, and the same everywhere.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Between 0.9 and 1.1 of `time`.
    fn around(&mut self, time: Duration) -> Duration {
        time * 9 / 10 + self.within(time) / 5
    }

    /// Between nothing and `time`.
    fn within(&mut self, time: Duration) -> Duration {
        let share = (self.next() % 1024) as u32;
        time * share / 1024
    }
}

/// The least time between the end of a probe and one that traffic asked for.
pub const SOONEST: Duration = Duration::from_millis(100);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        interval: Duration::from_secs(2),
        fast_interval: Duration::from_millis(500),
        timeout: Duration::from_secs(2),
    };

    fn next_due(prober: &mut Prober, mut now: Instant) -> Instant {
        loop {
            match prober.pop_due(now) {
                Some(_) => return now,
                None => now = prober.next().unwrap(),
            }
        }
    }

    #[test]
    fn all_first_probes_are_due_at_once() {
        let now = Instant::now();
        let mut prober = Prober::new(7);
        for backend in 0..3 {
            prober.add(0, backend, PACE, now);
        }
        let mut due: Vec<_> = std::iter::from_fn(|| prober.pop_due(now)).collect();
        due.sort_unstable();
        assert_eq!(due, [0, 1, 2]);
    }

    #[test]
    fn waits_stay_within_a_tenth_and_differ() {
        for (turning, wait) in [(false, PACE.interval), (true, PACE.fast_interval)] {
            let mut now = Instant::now();
            let mut prober = Prober::new(7);
            prober.add(0, 0, PACE, now);
            assert_eq!(prober.pop_due(now), Some(0));
            prober.finished(0, false, now);
            now = next_due(&mut prober, now);
            let mut waits = Vec::new();
            for _ in 0..50 {
                prober.finished(0, turning, now);
                let due = next_due(&mut prober, now);
                waits.push(due - now);
                now = due;
            }
            assert!(waits.iter().all(|w| *w >= wait * 9 / 10 && *w <= wait * 11 / 10), "{waits:?}");
            assert!(waits.iter().any(|w| *w != waits[0]), "no jitter");
        }
    }

    #[test]
    fn a_running_probe_is_not_started_again() {
        let now = Instant::now();
        let mut prober = Prober::new(7);
        prober.add(0, 0, PACE, now);
        assert_eq!(prober.pop_due(now), Some(0));
        prober.hurry(0, 0, now);
        assert_eq!(prober.pop_due(now + PACE.interval * 9), None);
    }

    #[test]
    fn traffic_can_hurry_a_probe_but_not_flood() {
        let now = Instant::now();
        let mut prober = Prober::new(7);
        prober.add(0, 0, PACE, now);
        prober.pop_due(now);
        prober.finished(0, false, now);
        prober.finished(0, false, now);
        prober.hurry(0, 0, now);
        assert_eq!(prober.pop_due(now), None, "too soon after the last");
        assert_eq!(prober.pop_due(now + SOONEST), Some(0));
    }
}
