//! The control plane: which backends there are, how they fare, and whose turn it is.
//!
//! Pure: it takes `now` and events, and answers with a choice or a [`Change`] to be told. A backend
//! is known by its index in the pool, which never changes.

pub mod backend;
pub mod health;
pub mod picker;
pub mod prober;

use std::time::{Duration, Instant};

use backend::{Attempt, Backend, Target};
use health::{Health, Thresholds, Turn};
use picker::{Member, PickKey, Picker, Policy};

/// A set of backends that serve the same thing.
#[derive(Debug)]
pub struct Pool {
    name: String,
    backends: Vec<Backend>,
    picker: Picker,
    thresholds: Thresholds,
    available: bool,
    /// Whether something happened since availability was last looked at.
    unsettled: bool,
}

impl Pool {
    /// A pool called `name`; no backend has a place yet, see [`Self::relocate`].
    #[must_use]
    pub fn new(name: String, backends: Vec<Backend>, thresholds: Thresholds) -> Self {
        let member = |backend: &Backend| Member::new(backend.label(), backend.weight());
        let members: Vec<Member> = backends.iter().map(member).collect();
        Self {
            name,
            backends,
            picker: Picker::new(Policy::RoundRobin, &members, 1),
            thresholds,
            available: true,
            unsettled: true,
        }
    }

    /// The backend whose turn it is, those in `tried` left out. Ejected ones are chosen only when
    /// there is no other: a soft verdict must not leave clients with nobody.
    pub fn pick(&mut self, now: Instant, tried: &[usize]) -> Option<usize> {
        self.open(|backend| backend.is_eligible(now));
        self.picker.pick(PickKey::LOCAL, now, tried).or_else(|| {
            self.open(Backend::is_usable);
            self.picker.pick(PickKey::LOCAL, now, tried)
        })
    }

    fn open(&mut self, may_be_chosen: impl Fn(&Backend) -> bool) {
        for (index, backend) in self.backends.iter().enumerate() {
            self.picker.set_open(index, may_be_chosen(backend));
        }
    }

    /// Counts a connection that is about to be made.
    pub fn opened(&mut self, backend: usize) {
        self.backends[backend].opened();
    }

    /// Counts the end of a connection, made or not.
    pub fn closed(&mut self, backend: usize) {
        self.backends[backend].closed();
    }

    /// A connect of real traffic succeeded.
    pub fn connected(&mut self, backend: usize, attempt: Attempt, now: Instant) -> Option<Change> {
        let backend = &mut self.backends[backend];
        backend.prefer(attempt);
        backend.connected(now).then_some(Change::Readmitted)
    }

    /// A connect failed at every address of the backend.
    pub fn connect_failed(&mut self, backend: usize, now: Instant) -> Option<Change> {
        let enough = self.backends[backend].failed();
        let others =
            self.backends.iter().enumerate().any(|(i, b)| i != backend && b.is_eligible(now));
        let ejectable = enough && others && self.backends[backend].is_eligible(now);
        ejectable.then(|| Change::Ejected(self.backends[backend].eject(now)))
    }

    /// A probe of the backend passed, with the given attempt, or failed.
    pub fn observe(
        &mut self,
        backend: usize,
        passed: Option<Attempt>,
        now: Instant,
    ) -> Option<Change> {
        self.unsettled = true;
        let backend = &mut self.backends[backend];
        if let Some(attempt) = passed {
            backend.prefer(attempt);
        }
        let passed = passed.is_some();
        let turn = backend.health.observe(passed, self.thresholds);
        let settled = passed && backend.health == health::UP;
        let readmitted = settled && backend.prove(now);
        match turn {
            Some(Turn::Up) => Some(Change::Up),
            Some(Turn::Down) => Some(Change::Down),
            None => readmitted.then_some(Change::Readmitted),
        }
    }

    /// The backend is at these addresses now. An empty list is no answer: the last one is kept.
    pub fn relocate(&mut self, backend: usize, targets: Vec<Target>) -> Option<Change> {
        self.unsettled = true;
        if targets.is_empty() {
            return None;
        }
        self.backends[backend].relocate(targets).then_some(Change::Relocated)
    }

    /// Whether the pool has gained its first or lost its last usable backend since last asked.
    pub fn availability_changed(&mut self) -> Option<bool> {
        if !std::mem::take(&mut self.unsettled) {
            return None;
        }
        let available = self.backends.iter().any(Backend::is_usable);
        (available != std::mem::replace(&mut self.available, available)).then_some(available)
    }

    /// What the pool is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One backend, by index.
    #[must_use]
    pub fn backend(&self, index: usize) -> &Backend {
        &self.backends[index]
    }

    /// All backends, in configured order.
    #[must_use]
    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// Whether the next probe results may change the backend's state.
    #[must_use]
    pub fn is_turning(&self, backend: usize) -> bool {
        self.backends[backend].health.is_turning()
    }

    /// What the probes say of a backend.
    #[must_use]
    pub fn health(&self, backend: usize) -> Health {
        self.backends[backend].health
    }
}

/// Something about a backend has changed and should be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its probes pass.
    Up,
    /// Its probes fail.
    Down,
    /// Connects failed; it is left alone for so long.
    Ejected(Duration),
    /// It is no longer left alone.
    Readmitted,
    /// Its name has new addresses.
    Relocated,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;

    fn pool(size: usize) -> Pool {
        let backends = (0..size).map(|i| Backend::new(format!("b{i}"), 1, health::UP)).collect();
        let mut pool = Pool::new("web".into(), backends, Thresholds { rise: 2, fall: 3 });
        for index in 0..size {
            pool.relocate(index, vec![Target::Unix(format!("/run/{index}").into())]);
        }
        pool
    }

    #[test]
    fn a_backend_whose_connects_fail_is_ejected_for_a_growing_time() {
        let now = Instant::now();
        let mut pool = pool(2);
        assert_eq!(pool.connect_failed(0, now), None);
        assert_eq!(pool.connect_failed(0, now), None);
        let first = Duration::from_secs(10);
        assert_eq!(pool.connect_failed(0, now), Some(Change::Ejected(first)));
        assert_eq!((pool.pick(now, &[]), pool.pick(now, &[])), (Some(1), Some(1)));
        let later = now + first;
        assert_eq!(pool.connect_failed(0, later), Some(Change::Ejected(first * 2)));
        let much_later = now + Duration::from_secs(1000);
        assert_eq!(pool.connected(0, pool.backend(0).first_attempt(), much_later), None);
        assert_eq!(pool.connect_failed(0, much_later), None, "success wipes the slate");
    }

    #[test]
    fn the_longest_ejection_is_five_minutes() {
        let mut now = Instant::now();
        let mut pool = pool(2);
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            if let Some(Change::Ejected(time)) = pool.connect_failed(0, now) {
                longest = longest.max(time);
                now += time;
            }
        }
        assert_eq!(longest, Duration::from_secs(300));
    }

    #[test]
    fn the_last_one_standing_is_never_ejected() {
        let now = Instant::now();
        let mut pool = pool(2);
        for _ in 0..10 {
            pool.connect_failed(0, now);
            assert_eq!(pool.connect_failed(1, now), None);
            assert!(pool.backend(1).is_eligible(now) || pool.backend(0).is_eligible(now));
        }
        assert!(pool.pick(now, &[]).is_some());
    }

    #[test]
    fn an_ejected_backend_is_better_than_none() {
        let now = Instant::now();
        let mut pool = pool(2);
        for _ in 0..3 {
            pool.connect_failed(0, now);
        }
        assert_eq!(pool.pick(now, &[1]), Some(0));
        for _ in 0..3 {
            pool.observe(1, None, now);
        }
        assert_eq!(pool.pick(now, &[]), Some(0));
    }

    #[test]
    fn passing_probes_end_an_ejection() {
        let now = Instant::now();
        let mut pool = pool(2);
        for _ in 0..3 {
            pool.connect_failed(0, now);
        }
        let attempt = pool.backend(0).first_attempt();
        assert_eq!(pool.observe(0, Some(attempt), now), Some(Change::Readmitted));
        assert!(pool.backend(0).is_eligible(now));
    }

    #[test]
    fn availability_is_told_once_each_way() {
        let now = Instant::now();
        let mut pool = pool(1);
        assert_eq!(pool.availability_changed(), None);
        for _ in 0..3 {
            pool.observe(0, None, now);
        }
        assert_eq!(pool.availability_changed(), Some(false));
        assert_eq!(pool.availability_changed(), None);
        let attempt = pool.backend(0).first_attempt();
        pool.observe(0, Some(attempt), now);
        assert_eq!(pool.availability_changed(), None, "one pass is not a rise");
        pool.observe(0, Some(attempt), now);
        assert_eq!(pool.availability_changed(), Some(true));
    }

    #[test]
    fn no_answer_keeps_the_last_good_one() {
        let mut pool = pool(1);
        assert_eq!(pool.relocate(0, Vec::new()), None);
        assert!(pool.backend(0).is_usable());
    }
}
