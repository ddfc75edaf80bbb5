//! The control plane: which backends there are, how they fare, and whose turn it is.
//!
//! Pure: it takes `now` and events, and answers with a choice or a [`Change`] to be told. A backend
//! is known by its index in the pool, which does not change while it is there.
//!
//! Each event changes one fact about one backend. What the facts come to (its rank, its share, its
//! cap) is worked out at once and kept in the roster, so a pick looks at nobody. Some facts
//! change by themselves: an ejection ends, a slow start goes on. [`Pool::tick`] notices that, and
//! [`Pool::next_deadline`] says when; the owner calls it in time, before anything is picked.

pub mod admin;
pub mod agent;
pub mod backend;
pub mod choice;
pub mod damping;
pub mod health;
pub mod history;
mod membership;
pub mod picker;
mod places;
pub mod prober;
mod ramp;
mod random;
mod roster;
mod standing;
mod state;
pub mod terms;
mod traffic;
pub mod waiting;
mod wishes;

use std::time::{Duration, Instant};

use crate::measure::{Histogram, WaitTotals};
use crate::timers::Timers;
use admin::{Admin, Author};
use agent::Report;
use backend::{Attempt, Backend, NOT_PROBED, Target};
use health::{Health, Turn};
use picker::{Member, PickKey};
pub use roster::Rank;
use roster::Roster;
pub use standing::Fault;
pub use state::Status;
use terms::Terms;

/// A set of backends that serve the same thing.
#[derive(Debug)]
pub struct Pool {
    terms: Terms,
    /// By index; some are gone, see [`Backend::is_gone`], and their indices are given out again.
    backends: Vec<Backend>,
    /// The indices of those in the list, in its order.
    order: Vec<usize>,
    /// The indices of those that are gone.
    vacant: Vec<usize>,
    roster: Roster,
    /// One for each backend: when what it comes to changes by itself.
    timers: Timers,
    born: Instant,
    available: bool,
    serving: Rank,
    /// How long connects took that succeeded.
    connects: Histogram,
    /// What its connections have waited for, those of backends that are gone included.
    waits: WaitTotals,
}

impl Pool {
    /// A pool on these terms; no backend has a place yet, see [`Self::relocate`].
    #[must_use]
    pub fn new(terms: Terms, mut backends: Vec<Backend>, now: Instant) -> Self {
        let member = |backend: &Backend| Member::new(backend.label(), backend.weight());
        let members: Vec<Member> = backends.iter().map(member).collect();
        if !terms.probed {
            backends.iter_mut().for_each(|backend| backend.explain(NOT_PROBED));
        }
        let mut pool = Self {
            roster: Roster::new(terms.policy, &members, terms.seed),
            order: (0..backends.len()).collect(),
            vacant: Vec::new(),
            terms,
            backends,
            timers: Timers::default(),
            born: now,
            available: true,
            serving: Rank::Primary,
            connects: Histogram::of_connects(),
            waits: WaitTotals::default(),
        };
        (0..members.len()).for_each(|backend| pool.settle(backend, now));
        pool
    }

    /// Whose turn it is, those in `tried` left out.
    pub fn pick(&mut self, key: PickKey, now: Instant, tried: &[usize]) -> Picked {
        self.roster.pick(key, now, tried)
    }

    /// Whether somebody who serves is below its cap.
    #[must_use]
    pub fn has_place(&self) -> bool {
        self.roster.has_place()
    }

    /// Whether anyone could serve, caps aside.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.roster.is_available()
    }

    /// Counts a connection that is about to be made.
    pub fn opened(&mut self, backend: usize) {
        self.backends[backend].opened();
        self.count(backend);
    }

    /// Counts the end of a connection, made or not.
    pub fn closed(&mut self, backend: usize) {
        self.backends[backend].closed();
        self.count(backend);
        self.vacate(backend);
    }

    /// A probe of the backend passed, with the given attempt, or failed.
    pub fn observe(
        &mut self,
        index: usize,
        passed: Option<Attempt>,
        now: Instant,
    ) -> Option<Change> {
        let backend = &mut self.backends[index];
        if backend.admin().0 == Admin::Maintenance {
            return None;
        }
        if let Some(attempt) = passed {
            backend.places.prefer(attempt);
        }
        let passed = passed.is_some();
        let turn = backend.observe(passed, self.terms.thresholds, now);
        let settled = passed && backend.health == health::UP;
        let readmitted = settled && backend.prove(Fault::Connect, now);
        // It is down before and after, whatever the probes say.
        let turn = turn.filter(|_| !backend.agent().is_against());
        self.settle(index, now);
        match turn {
            Some(Turn::Up) => Some(Change::Up),
            Some(Turn::Down) => Some(Change::Down),
            None => readmitted.then_some(Change::Readmitted),
        }
    }

    /// The backend is at these addresses now. An empty list is no answer: the last one is kept.
    pub fn relocate(
        &mut self,
        backend: usize,
        targets: Vec<Target>,
        now: Instant,
    ) -> Option<Change> {
        if targets.is_empty() || !self.backends[backend].places.relocate(targets) {
            return None;
        }
        self.settle(backend, now);
        Some(Change::Relocated)
    }

    /// The agent of the backend has spoken.
    pub fn agent(&mut self, index: usize, report: Report, now: Instant) -> Option<Change> {
        let before = self.outlook(index);
        self.backends[index].hear(report, self.terms.probed, now);
        self.settle(index, now);
        let after = self.outlook(index);
        match (after.0 == before.0, before.1, after.1) {
            (false, _, _) => Some(self.wanted(index, Author::Agent)),
            (true, true, false) => Some(Change::Down),
            (true, false, true) => Some(Change::Up),
            (true, true, true) | (true, false, false) => None,
        }
    }

    /// Whether the reason for a backend's state is still to be told, by [`Self::explain`].
    #[must_use]
    pub fn is_unexplained(&self, backend: usize) -> bool {
        self.backends[backend].is_unexplained()
    }

    /// Keeps the words of what brought a backend into its state.
    pub fn explain(&mut self, backend: usize, words: &str) {
        self.backends[backend].explain(words);
    }

    /// Notices what has changed by itself.
    pub fn tick(&mut self, now: Instant) -> Vec<(usize, Change)> {
        let mut changes = Vec::new();
        while let Some(backend) = self.timers.pop_due(now) {
            let before = self.roster.rank(backend);
            self.settle(backend, now);
            let after = self.roster.rank(backend);
            if before == Some(Rank::Ejected) && after.is_some_and(|rank| rank != Rank::Ejected) {
                changes.push((backend, Change::Readmitted));
            }
        }
        changes
    }

    /// When [`Self::tick`] is to be called at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether the pool has gained its first or lost its last usable backend since last asked.
    pub fn availability_changed(&mut self) -> Option<bool> {
        let available = self.roster.is_available();
        (available != std::mem::replace(&mut self.available, available)).then_some(available)
    }

    /// Who serves now, if that has changed since last asked while anyone could.
    pub fn serving_changed(&mut self) -> Option<Rank> {
        let serving = self.roster.serving()?;
        (serving != std::mem::replace(&mut self.serving, serving)).then_some(serving)
    }

    /// What holds for all its backends.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// What the pool is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.terms.name
    }

    /// One backend, by index.
    #[must_use]
    pub fn backend(&self, index: usize) -> &Backend {
        &self.backends[index]
    }

    /// The number that stands for a backend's name, see [`picker::identity`].
    #[must_use]
    pub fn identity(&self, index: usize) -> u64 {
        self.roster.identity(index)
    }

    /// Whether the next probe results may change the backend's state.
    #[must_use]
    pub fn is_turning(&self, backend: usize) -> bool {
        self.backends[backend].health.is_turning()
    }

    /// Whether the backend is to be probed; not while it is in maintenance.
    #[must_use]
    pub fn wants_probes(&self, backend: usize) -> bool {
        self.backends[backend].admin().0 != Admin::Maintenance
    }

    /// What the probes say of a backend.
    #[must_use]
    pub fn health(&self, backend: usize) -> Health {
        self.backends[backend].health
    }

    /// What is told of a backend besides its counters.
    #[must_use]
    pub fn status(&self, index: usize, now: Instant) -> Status {
        let backend = &self.backends[index];
        Status {
            state: backend.state(now),
            lasts: backend.since().map_or(Duration::ZERO, |at| now.saturating_duration_since(at)),
            reason: state::reason(backend, self.terms.thresholds, now),
            backup: backend.is_backup(),
            share: if backend.agent().percent() == 0 { 0 } else { self.roster.share(index) },
            starts_slowly: backend.starts_slowly(),
            cap: self.roster.cap(index),
            most: backend.most(),
            flaps: backend.flaps(now),
            silences: backend.counters().silences,
            agent: self.terms.agent_patience.map(|patience| backend.agent().words(patience, now)),
        }
    }

    /// What is wanted of a backend, and whether its service works as far as is known.
    fn outlook(&self, index: usize) -> (Admin, bool) {
        let backend = &self.backends[index];
        (backend.admin().0, backend.health.is_usable() && !backend.agent().is_against())
    }

    /// What `author` has changed, or whose wish is left now that he took his back.
    fn wanted(&self, index: usize, author: Author) -> Change {
        match self.backends[index].admin() {
            (Admin::Ready, _) => Change::Wanted(Admin::Ready, author),
            (admin @ (Admin::Draining | Admin::Maintenance), holds) => Change::Wanted(admin, holds),
        }
    }

    /// Works out what the facts about a backend come to.
    fn settle(&mut self, index: usize, now: Instant) {
        let is_new = now <= self.born + START;
        let backend = &mut self.backends[index];
        let place = backend.settle(self.terms.slow_start, is_new, now);
        if let Some(deadline) = backend.next_deadline(now) {
            self.timers.arm(index, deadline);
        }
        self.roster.place(index, place);
    }

    fn count(&mut self, backend: usize) {
        let active = self.backends[backend].counters().active;
        self.roster.set_active(backend, u32::try_from(active).unwrap_or(u32::MAX));
    }
}

/// What a pool answers to the question whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picked {
    /// This backend's.
    Backend(usize),
    /// Somebody could serve, but all who could are at their caps.
    Full,
    /// Nobody can serve.
    Nobody,
}

/// Something about a backend has changed and should be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its probes pass.
    Up,
    /// Its probes fail, or its agent says that it does not work.
    Down,
    /// Real traffic failed; it is left alone for so long.
    Ejected(Duration),
    /// It is no longer left alone.
    Readmitted,
    /// Its name has new addresses.
    Relocated,
    /// It is wanted for something else, and by whom.
    Wanted(Admin, Author),
    /// It has another weight than this one.
    Weighed(u16),
}

/// A backend that turns up for the first time so soon after its pool is none that came back, and
/// need not start slowly: all the others are as new.
const START: Duration = Duration::from_secs(10);

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;

    fn pool(size: usize, now: Instant) -> Pool {
        let backends = (0..size).map(|i| Backend::new(format!("b{i}"), 1, health::UP)).collect();
        let mut pool = Pool::new(Terms::new("web"), backends, now);
        for index in 0..size {
            pool.relocate(index, vec![Target::Unix(format!("/run/{index}").into())], now);
        }
        pool
    }

    fn pick(pool: &mut Pool, now: Instant, tried: &[usize]) -> Picked {
        pool.tick(now);
        pool.pick(PickKey::LOCAL, now, tried)
    }

    #[test]
    fn a_backend_whose_connects_fail_is_ejected_for_a_growing_time() {
        let now = Instant::now();
        let mut pool = pool(2, now);
        assert_eq!(pool.connect_failed(0, now), None);
        assert_eq!(pool.connect_failed(0, now), None);
        let first = Duration::from_secs(10);
        assert_eq!(pool.connect_failed(0, now), Some(Change::Ejected(first)));
        assert_eq!([0, 0].map(|_| pick(&mut pool, now, &[])), [Picked::Backend(1); 2]);
        let later = now + first;
        assert_eq!(pool.tick(later), [(0, Change::Readmitted)]);
        assert_eq!(pool.connect_failed(0, later), Some(Change::Ejected(first * 2)));
        let much_later = now + Duration::from_secs(1000);
        pool.tick(much_later);
        let attempt = pool.backend(0).first_attempt();
        assert_eq!(pool.connected(0, attempt, Duration::ZERO, much_later), None);
        assert_eq!(pool.connect_failed(0, much_later), None, "success wipes the slate");
    }

    #[test]
    fn the_longest_ejection_is_five_minutes() {
        let mut now = Instant::now();
        let mut pool = pool(2, now);
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            if let Some(Change::Ejected(time)) = pool.connect_failed(0, now) {
                longest = longest.max(time);
                now += time;
                pool.tick(now);
            }
        }
        assert_eq!(longest, Duration::from_secs(300));
    }

    #[test]
    fn the_last_one_standing_is_never_ejected() {
        let now = Instant::now();
        let mut pool = pool(2, now);
        for _ in 0..10 {
            pool.connect_failed(0, now);
            assert_eq!(pool.connect_failed(1, now), None);
            assert!(pool.backend(1).is_eligible(now) || pool.backend(0).is_eligible(now));
        }
        assert!(matches!(pick(&mut pool, now, &[]), Picked::Backend(_)));
    }

    #[test]
    fn an_ejected_backend_is_better_than_none() {
        let now = Instant::now();
        let mut pool = pool(2, now);
        for _ in 0..3 {
            pool.connect_failed(0, now);
        }
        assert_eq!(pick(&mut pool, now, &[1]), Picked::Backend(0));
        for _ in 0..3 {
            pool.observe(1, None, now);
        }
        assert_eq!(pick(&mut pool, now, &[]), Picked::Backend(0));
    }

    #[test]
    fn passing_probes_end_an_ejection() {
        let now = Instant::now();
        let mut pool = pool(2, now);
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
        let mut pool = pool(1, now);
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
        let now = Instant::now();
        let mut pool = pool(1, now);
        assert_eq!(pool.relocate(0, Vec::new(), now), None);
        assert!(pool.backend(0).is_usable());
    }
}
