//! The last probes of a backend, for people who look at them: what came of each, when, and how long
//! it took. Nothing is decided by them; what a run of results means is in `health.rs`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Pool;
use super::backend::Backend;

/// A backend's last [`MOST_PROBES`] probes, eight bytes each.
#[derive(Debug, Default)]
pub struct History {
    probes: VecDeque<Probe>,
    /// When the first of all was noted: the others are counted from there.
    origin: Option<Instant>,
}

impl History {
    /// Notes a result that is known at `now`; the oldest is forgotten for it.
    pub(super) fn note(&mut self, passed: bool, took: Duration, now: Instant) {
        let origin = *self.origin.get_or_insert(now);
        if self.probes.len() == MOST_PROBES {
            self.probes.pop_front();
        }
        self.probes.push_back(Probe {
            second: seconds(now.saturating_duration_since(origin)),
            milliseconds: u16::try_from(took.as_millis()).unwrap_or(u16::MAX),
            passed,
        });
    }

    /// The probes as of `now`, the oldest first.
    pub fn probes(&self, now: Instant) -> impl Iterator<Item = Seen> + '_ {
        let age = self.origin.map_or(0, |origin| seconds(now.saturating_duration_since(origin)));
        self.probes.iter().map(move |probe| Seen {
            passed: probe.passed,
            milliseconds: probe.milliseconds,
            seconds_ago: age.saturating_sub(probe.second),
        })
    }
}

/// A probe, looked back at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Whether it passed.
    pub passed: bool,
    /// How long it took; more than a minute is [`u16::MAX`].
    pub milliseconds: u16,
    /// How long ago it was.
    pub seconds_ago: u32,
}

#[derive(Debug)]
struct Probe {
    second: u32,
    milliseconds: u16,
    passed: bool,
}

impl Pool {
    /// Notes a probe for those who look back. One that failed is not about the backend alone: it
    /// is noted for every backend for whom it was made.
    pub fn note_probe(&mut self, backend: usize, passed: bool, took: Duration, now: Instant) {
        self.backends[backend].history.note(passed, took, now);
    }
}

impl Backend {
    /// Its last probes.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }
}

/// A hundred years and more.
fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Probes of one backend that are kept.
pub const MOST_PROBES: usize = 32;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;

    #[test]
    fn the_last_probes_are_kept_in_their_order() {
        let (start, mut history) = (Instant::now(), History::default());
        assert_eq!(history.probes(start).count(), 0);
        for number in 0..40 {
            let took = Duration::from_millis(number * 2000);
            history.note(number % 3 > 0, took, start + Duration::from_secs(number));
        }
        let seen: Vec<Seen> = history.probes(start + Duration::from_secs(49)).collect();
        assert_eq!(seen.len(), MOST_PROBES);
        let first = Seen { passed: true, milliseconds: 16_000, seconds_ago: 41 };
        let last = Seen { passed: false, milliseconds: u16::MAX, seconds_ago: 10 };
        assert_eq!((seen[0], seen[31]), (first, last));
    }

    #[test]
    fn a_probe_takes_eight_bytes() {
        assert_eq!(size_of::<Probe>(), 8);
        let mut history = History::default();
        (0..1000).for_each(|_| history.note(true, Duration::ZERO, Instant::now()));
        assert_eq!(history.probes.capacity(), MOST_PROBES, "and there are never more");
    }
}
