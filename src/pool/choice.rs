//! A choice as it was made: who could have been chosen and by what measure, and why others not.
//!
//! Facts of that moment in a fixed space, cheap enough to be noted for every connection; words are
//! made of them when somebody asks. A backend is known by the number of its name, which stays true
//! when its place in the pool is somebody else's. Of a pool with more than [`MOST`] backends these
//! are noted: the chosen one, those tried before, and the first ones of the list.

use std::time::Instant;

use super::admin::{Admin, Author};
use super::backend::BackendState;
use super::health::Health;
use super::picker::{Measure, PickKey, Policy};
use super::roster::Roster;
use super::{Fault, Picked, Pool, Rank};

/// One choice among the backends of a pool. The list stands last, because most of it is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Choice {
    /// How it was chosen.
    pub policy: Policy,
    /// What came of it.
    pub outcome: Outcome,
    /// Who served at that time.
    pub serving: Rank,
    /// How many backends there were.
    pub backends: u32,
    /// How many of them could have been chosen.
    pub open: u32,
    count: u8,
    chosen: Option<u8>,
    list: [Candidate; MOST],
}

/// What came of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// One of those that serve was chosen.
    Chosen,
    /// All that serve had been tried: one of the others was chosen, of this rank.
    LastResort(Rank),
    /// All that could serve were at their limits.
    Full,
    /// Nobody could serve.
    Nobody,
    /// As many had been tried as may be; nobody was looked for.
    Spent,
}

/// One backend at the time of a choice: 24 bytes, of which there are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Of its name, see [`super::picker::identity`].
    pub identity: u64,
    /// Why it was not chosen, or what it could have been chosen for.
    pub verdict: Verdict,
    /// Connections it had, the new one not among them.
    pub active: u32,
    /// Its configured share of new connections.
    pub weight: u16,
    /// How much of that counted, in parts of [`super::picker::WHOLE`].
    pub share: u16,
}

/// Whether a backend could be chosen. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It could, and this is what the algorithm went by.
    Open(Measure),
    /// The connection had tried it already.
    Tried,
    /// It had as many connections as this.
    Full(u32),
    /// Others served, it is a backup.
    Backup,
    /// Real traffic had failed; left alone for so long from then on.
    Ejected(Fault, u16),
    /// Its probes had failed for so long.
    Down(u32),
    /// Its agent had said so for so long.
    DownByAgent(u32),
    /// The operator had had it drained for so long.
    Draining(u32),
    /// Its agent had had it drained for so long.
    DrainingByAgent(u32),
    /// The operator had had it in maintenance for so long.
    Maintenance(u32),
    /// Its agent had had it in maintenance for so long.
    MaintenanceByAgent(u32),
    /// Its name had had no address for so long.
    Unresolved(u32),
    /// Its weight was 0.
    Weightless,
    /// Its agent asked for nothing.
    Unwilling,
}

impl Choice {
    /// Those that are noted.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.list[..usize::from(self.count)]
    }

    /// The one that was chosen.
    #[must_use]
    pub fn chosen(&self) -> Option<&Candidate> {
        self.chosen.and_then(|at| self.list.get(usize::from(at)))
    }

    /// Whether this is the one that was chosen, by its place in [`Self::candidates`].
    #[must_use]
    pub fn is_chosen(&self, at: usize) -> bool {
        self.chosen.is_some_and(|chosen| usize::from(chosen) == at)
    }

    fn push(&mut self, candidate: Candidate) {
        if let Some(place) = self.list.get_mut(usize::from(self.count)) {
            *place = candidate;
            self.count += 1;
        }
    }
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            policy: Policy::RoundRobin,
            outcome: Outcome::Nobody,
            serving: Rank::Primary,
            backends: 0,
            open: 0,
            count: 0,
            chosen: None,
            list: [NONE; MOST],
        }
    }
}

/// Who asked, and what came of it; `None`: nobody was looked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The client.
    pub key: PickKey,
    /// The time of the pick.
    pub now: Instant,
    /// Those left out.
    pub tried: &'a [usize],
    /// The answer.
    pub picked: Option<Picked>,
}

impl Pool {
    /// Notes a choice that [`Pool::pick`] has just made, before anything else changes.
    pub fn note(&self, asked: &Asked<'_>, choice: &mut Choice) {
        self.note_from(&self.roster, asked, choice);
    }

    /// What [`Pool::pick`] would answer to a new client now, and why. It is not asked, so the next
    /// client finds everything as it was; a pool costs as much as a copy of what it goes by.
    #[must_use]
    pub fn peek(&self, key: PickKey, now: Instant) -> Choice {
        let (mut roster, mut choice) = (self.roster.clone(), Choice::default());
        let picked = Some(roster.pick(key, now, &[]));
        self.note_from(&roster, &Asked { key, now, tried: &[], picked }, &mut choice);
        choice
    }

    fn note_from(&self, roster: &Roster, asked: &Asked<'_>, choice: &mut Choice) {
        let Asked { tried, picked, .. } = *asked;
        choice.policy = self.terms.policy;
        choice.serving = roster.best();
        choice.backends = small(self.order.len());
        let used_up = tried.iter().filter(|&&index| roster.is_open(index)).count();
        choice.open = small(roster.open().saturating_sub(used_up));
        (choice.count, choice.chosen) = (0, None);
        choice.outcome = match picked {
            Some(Picked::Backend(index)) if roster.is_open(index) => Outcome::Chosen,
            Some(Picked::Backend(index)) => {
                Outcome::LastResort(roster.rank(index).unwrap_or(Rank::Ejected))
            }
            Some(Picked::Full) => Outcome::Full,
            Some(Picked::Nobody) => Outcome::Nobody,
            None => Outcome::Spent,
        };
        let chosen = match picked {
            Some(Picked::Backend(index)) => Some(index),
            Some(Picked::Full | Picked::Nobody) | None => None,
        };
        if picked.is_none() {
            // Nobody was looked for, so there is nothing to say of the others.
            tried.iter().for_each(|&index| choice.push(self.candidate(roster, asked, index)));
            return;
        }
        let is_told = |index: &usize| Some(*index) != chosen && !tried.contains(index);
        if self.order.len() <= MOST {
            for &index in &self.order {
                if Some(index) == chosen {
                    choice.chosen = Some(choice.count);
                }
                choice.push(self.candidate(roster, asked, index));
            }
            return;
        }
        let first = chosen.iter().chain(tried).copied();
        let others = self.order.iter().copied().filter(is_told);
        for index in first.chain(others).take(MOST) {
            choice.push(self.candidate(roster, asked, index));
        }
        choice.chosen = chosen.map(|_| 0);
    }

    fn candidate(&self, roster: &Roster, asked: &Asked<'_>, index: usize) -> Candidate {
        let backend = &self.backends[index];
        Candidate {
            identity: roster.identity(index),
            verdict: self.verdict(roster, asked, index),
            active: u32::try_from(backend.counters().active).unwrap_or(u32::MAX),
            weight: backend.weight(),
            share: roster.share(index),
        }
    }

    fn verdict(&self, roster: &Roster, asked: &Asked<'_>, index: usize) -> Verdict {
        let Asked { key, now, tried, .. } = *asked;
        if tried.contains(&index) {
            return Verdict::Tried;
        }
        if roster.is_open(index) {
            return Verdict::Open(roster.measure(index, key, now));
        }
        let backend = &self.backends[index];
        if let Some(rank) = roster.rank(index) {
            return match backend.ejected(now) {
                _ if rank == roster.best() => Verdict::Full(roster.cap(index).unwrap_or(u32::MAX)),
                Some((fault, until)) => {
                    let left = until.saturating_duration_since(now).as_secs();
                    Verdict::Ejected(fault, u16::try_from(left).unwrap_or(u16::MAX))
                }
                None => Verdict::Backup,
            };
        }
        let since = backend.since().map_or(0, |at| now.saturating_duration_since(at).as_secs());
        let since = u32::try_from(since).unwrap_or(u32::MAX);
        match (backend.admin(), backend.condition(now)) {
            ((Admin::Draining, Author::Operator), _) => Verdict::Draining(since),
            ((Admin::Draining, Author::Agent), _) => Verdict::DrainingByAgent(since),
            ((Admin::Maintenance, Author::Operator), _) => Verdict::Maintenance(since),
            ((Admin::Maintenance, Author::Agent), _) => Verdict::MaintenanceByAgent(since),
            ((Admin::Ready, _), BackendState::Unresolved) => Verdict::Unresolved(since),
            ((Admin::Ready, _), BackendState::Down) => match backend.health {
                Health::Down { .. } => Verdict::Down(since),
                Health::Checking | Health::Up { .. } => Verdict::DownByAgent(since),
            },
            ((Admin::Ready, _), _) if backend.weight() == 0 => Verdict::Weightless,
            ((Admin::Ready, _), _) => Verdict::Unwilling,
        }
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Backends that are noted of one choice at most.
pub const MOST: usize = 8;
const NONE: Candidate =
    Candidate { identity: 0, verdict: Verdict::Weightless, active: 0, weight: 0, share: 0 };

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use std::time::Duration;

    use super::super::agent::Report;
    use super::super::backend::{Backend, Target};
    use super::super::health::{DOWN, UP};
    use super::super::picker::identity;
    use super::super::terms::Terms;
    use super::*;

    /// Backends `b0`, `b1` and so on, all of them up, except as `special` makes them.
    fn pool(size: usize, policy: Policy, special: impl Fn(usize, Backend) -> Backend) -> Pool {
        let now = Instant::now();
        let make = |index| special(index, Backend::new(format!("b{index}"), 1, UP));
        let backends = (0..size).map(make).collect();
        let mut pool = Pool::new(Terms { policy, ..Terms::new("web") }, backends, now);
        for index in 0..size {
            pool.relocate(index, vec![Target::Unix(format!("/run/{index}").into())], now);
        }
        pool
    }

    fn plain(size: usize) -> Pool {
        pool(size, Policy::RoundRobin, |_, backend| backend)
    }

    /// Picks as the reactor does, and notes it.
    fn choose(pool: &mut Pool, now: Instant, tried: &[usize]) -> Choice {
        let (key, mut choice) = (PickKey::LOCAL, Choice::default());
        let picked = Some(pool.pick(key, now, tried));
        pool.note(&Asked { key, now, tried, picked }, &mut choice);
        choice
    }

    fn verdicts(choice: &Choice) -> Vec<Verdict> {
        choice.candidates().iter().map(|candidate| candidate.verdict).collect()
    }

    #[test]
    fn a_choice_takes_little_space() {
        assert_eq!(size_of::<Candidate>(), 24);
        assert!(size_of::<Choice>() <= 224, "{} bytes", size_of::<Choice>());
    }

    #[test]
    fn each_reason_for_being_passed_over_is_told() {
        let now = Instant::now();
        let mut pool = pool(8, Policy::LeastConnections, |index, backend| match index {
            1 => backend.with_most(Some(1)),
            2 => backend.with_backup(true),
            _ => backend,
        });
        pool.opened(1);
        for _ in 0..3 {
            pool.connect_failed(3, now);
            pool.observe(4, None, now);
        }
        pool.set_state(5, Admin::Draining, now);
        pool.set_state(6, Admin::Maintenance, now);
        pool.set_weight(7, 0, now);
        let later = now + Duration::from_secs(4);
        let choice = choose(&mut pool, later, &[]);
        assert_eq!(
            verdicts(&choice),
            [
                Verdict::Open(Measure::Load),
                Verdict::Full(1),
                Verdict::Backup,
                Verdict::Ejected(Fault::Connect, 6),
                Verdict::Down(4),
                Verdict::Draining(4),
                Verdict::Maintenance(4),
                Verdict::Weightless,
            ]
        );
        assert_eq!((choice.outcome, choice.open, choice.backends), (Outcome::Chosen, 1, 8));
        assert_eq!(choice.chosen().map(|chosen| chosen.identity), Some(identity("b0")));
        assert_eq!(choice.candidates()[1].active, 1);
    }

    #[test]
    fn what_an_agent_asks_for_is_told_as_its_wish() {
        let now = Instant::now();
        let mut pool = plain(5);
        for (index, word) in [(0, "0%"), (1, "down"), (2, "drain"), (3, "maint")] {
            pool.agent(index, Report::parse(word.as_bytes()).unwrap(), now);
        }
        let choice = choose(&mut pool, now + Duration::from_secs(2), &[]);
        assert_eq!(
            verdicts(&choice)[..4],
            [
                Verdict::Unwilling,
                Verdict::DownByAgent(2),
                Verdict::DrainingByAgent(2),
                Verdict::MaintenanceByAgent(2),
            ]
        );
    }

    #[test]
    fn without_an_address_it_is_unresolved_and_with_all_full_nobody_is_chosen() {
        let now = Instant::now();
        let limited = Backend::new("b1".to_owned(), 1, UP).with_most(Some(1));
        let backends = vec![Backend::new("b0".to_owned(), 1, UP), limited];
        let mut pool = Pool::new(Terms::new("web"), backends, now);
        pool.relocate(1, vec![Target::Unix("/run/1".into())], now);
        pool.opened(1);
        let choice = choose(&mut pool, now, &[]);
        assert_eq!(verdicts(&choice), [Verdict::Unresolved(0), Verdict::Full(1)]);
        assert_eq!((choice.outcome, choice.chosen()), (Outcome::Full, None));
        pool.set_state(1, Admin::Draining, now);
        assert_eq!(choose(&mut pool, now, &[]).outcome, Outcome::Nobody);
    }

    #[test]
    fn who_has_tried_all_that_serve_is_given_the_best_of_the_rest() {
        let now = Instant::now();
        let mut pool =
            pool(3, Policy::RoundRobin, |index, backend| backend.with_backup(index == 2));
        let choice = choose(&mut pool, now, &[0]);
        assert_eq!((choice.outcome, choice.open), (Outcome::Chosen, 1));
        assert_eq!(verdicts(&choice)[0], Verdict::Tried);
        let choice = choose(&mut pool, now, &[0, 1]);
        assert_eq!((choice.outcome, choice.open), (Outcome::LastResort(Rank::Backup), 0));
        assert_eq!(verdicts(&choice), [Verdict::Tried, Verdict::Tried, Verdict::Backup]);
        assert!(choice.is_chosen(2) && !choice.is_chosen(0));
    }

    #[test]
    fn where_nobody_was_looked_for_only_those_tried_are_noted() {
        let now = Instant::now();
        let mut pool = pool(5, Policy::TwoChoices, |_, backend| backend);
        choose(&mut pool, now, &[]);
        let mut choice = Choice::default();
        let asked = Asked { key: PickKey::LOCAL, now, tried: &[3, 1], picked: None };
        pool.note(&asked, &mut choice);
        assert_eq!((choice.outcome, choice.chosen()), (Outcome::Spent, None));
        assert_eq!(verdicts(&choice), [Verdict::Tried; 2]);
        assert_eq!((choice.backends, choice.open), (5, 3));
    }

    #[test]
    fn who_serves_in_the_place_of_others_is_open() {
        let now = Instant::now();
        let mut pool = pool(2, Policy::First, |index, backend| match index {
            0 => Backend::new("b0".to_owned(), 1, DOWN),
            _ => backend.with_backup(true),
        });
        let choice = choose(&mut pool, now, &[]);
        assert_eq!((choice.outcome, choice.serving), (Outcome::Chosen, Rank::Backup));
        assert_eq!(verdicts(&choice), [Verdict::Down(0), Verdict::Open(Measure::Place(1))]);
    }

    #[test]
    fn of_many_the_chosen_and_the_tried_are_among_those_noted() {
        let now = Instant::now();
        let mut pool = pool(100, Policy::First, |index, backend| match index {
            50 => backend,
            _ => Backend::new(format!("b{index}"), 1, DOWN),
        });
        pool.observe(60, Some(pool.backend(60).first_attempt()), now);
        pool.observe(60, Some(pool.backend(60).first_attempt()), now);
        let choice = choose(&mut pool, now, &[50]);
        let noted: Vec<u64> = choice.candidates().iter().map(|noted| noted.identity).collect();
        let expected = [60, 50, 0, 1, 2, 3, 4, 5].map(|index| identity(&format!("b{index}")));
        assert_eq!((noted, choice.backends, choice.open), (expected.to_vec(), 100, 1));
        assert!(choice.is_chosen(0) && verdicts(&choice)[1] == Verdict::Tried);
    }

    #[test]
    fn a_peek_is_what_comes_next_and_changes_nothing() {
        let now = Instant::now();
        for policy in [
            Policy::RoundRobin,
            Policy::LeastConnections,
            Policy::TwoChoices,
            Policy::ResponseTime,
            Policy::Resource,
            Policy::First,
            Policy::SourceHash { balance_factor: None },
        ] {
            let (mut asked, mut unasked) =
                (pool(5, policy, |_, backend| backend), pool(5, policy, |_, backend| backend));
            for _ in 0..12 {
                let foreseen = asked.peek(PickKey::LOCAL, now);
                assert_eq!(asked.peek(PickKey::LOCAL, now), foreseen, "{policy:?}");
                let made = choose(&mut asked, now, &[]);
                assert_eq!(made, foreseen, "{policy:?}");
                assert_eq!(choose(&mut unasked, now, &[]), made, "{policy:?}");
                let chosen = made.chosen().map(|chosen| chosen.identity);
                let index = (0..5).find(|&index| Some(asked.identity(index)) == chosen).unwrap();
                asked.opened(index);
                unasked.opened(index);
            }
        }
    }
}
