//! When to ask whom.
//!
//! A poll is one question to one place, asked again and again on behalf of all who want to know the
//! answer: backends of several pools, or several backends of one. What is asked, and where, is not
//! known here; nor is who a user is.
//!
//! The first time of every poll is due at once. After a result the next one follows in
//! `interval`, or in `fast_interval` while the state of any user is about to change, spread by a
//! tenth either way; the first steady wait is drawn from a whole interval, so that the probes of a
//! large pool do not march in step. A failed connect of real traffic asks for a probe at once, but
//! not more often than every [`SOONEST`]. Opening and timing the probes is the reactor's.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::random::Random;
use crate::timers::Timers;

/// The schedule of all polls. `U` is who wants to know: each waits for one poll.
#[derive(Debug)]
pub struct Prober<U> {
    polls: Vec<Poll<U>>,
    /// Polls that nobody waits for any more; their numbers are given out again.
    vacant: Vec<usize>,
    numbers: HashMap<U, usize>,
    due: Timers,
    random: Random,
}

impl<U: Copy + Eq + Hash> Prober<U> {
    /// An empty schedule. Equal seeds give equal schedules.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            polls: Vec::new(),
            vacant: Vec::new(),
            numbers: HashMap::new(),
            due: Timers::default(),
            random: Random::new(seed),
        }
    }

    /// Adds a poll that is due at `now`; its number is returned.
    pub fn add(&mut self, pace: Pace, now: Instant) -> usize {
        let poll = Poll { users: Vec::new(), pace, next: Some(now), ended: None, settled: false };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.polls[number] = poll;
                number
            }
            None => {
                self.polls.push(poll);
                self.polls.len() - 1
            }
        };
        self.due.arm(number, now);
        number
    }

    /// From now on the results of a poll are for this user too.
    pub fn join(&mut self, number: usize, user: U) {
        let before = self.numbers.insert(user, number);
        assert!(before.is_none(), "a user waits for one poll");
        self.polls[number].users.push(user);
    }

    /// A user wants to know nothing any more. The number of the poll that it was the last user of:
    /// that poll has ended, and its number is free.
    pub fn leave(&mut self, user: U) -> Option<usize> {
        let number = self.numbers.remove(&user)?;
        let poll = &mut self.polls[number];
        poll.users.retain(|&other| other != user);
        if !poll.users.is_empty() {
            return None;
        }
        poll.next = None;
        self.vacant.push(number);
        Some(number)
    }

    /// A poll that is due; it counts as running until [`Self::finished`].
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        while let Some(number) = self.due.pop_due(now) {
            let poll = &mut self.polls[number];
            match poll.next {
                Some(next) if next <= now => {
                    poll.next = None;
                    return Some(number);
                }
                Some(next) => self.due.arm(number, next),
                None => {}
            }
        }
        None
    }

    /// A poll has a result, or was not made after all; the next is scheduled. `turning`: its
    /// results may soon change the state of a user.
    pub fn finished(&mut self, number: usize, turning: bool, now: Instant) {
        let poll = &mut self.polls[number];
        let wait = if turning {
            around(&mut self.random, poll.pace.fast_interval)
        } else if poll.settled {
            around(&mut self.random, poll.pace.interval)
        } else {
            poll.settled = true;
            within(&mut self.random, poll.pace.interval)
        };
        poll.ended = Some(now);
        poll.next = Some(now + wait);
        self.due.arm(number, now + wait);
    }

    /// A user wants a result soon, such as when real traffic failed; others get it too.
    pub fn hurry(&mut self, user: U, now: Instant) {
        if let Some(&number) = self.numbers.get(&user) {
            self.hurry_poll(number, now);
        }
    }

    /// The same for a poll by number, such as when the place it goes to has moved.
    pub fn hurry_poll(&mut self, number: usize, now: Instant) {
        let poll = &mut self.polls[number];
        let soonest = poll.ended.map_or(now, |ended| now.max(ended + SOONEST));
        if poll.next.is_some_and(|next| next > soonest) {
            poll.next = Some(soonest);
            self.due.arm(number, soonest);
        }
    }

    /// Who wants the results of a poll.
    #[must_use]
    pub fn users(&self, number: usize) -> &[U] {
        &self.polls[number].users
    }

    /// How long one probe may take.
    #[must_use]
    pub fn timeout(&self, number: usize) -> Duration {
        self.polls[number].pace.timeout
    }

    /// How many polls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.polls.len() - self.vacant.len()
    }

    /// Whether there is no poll.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When [`Self::pop_due`] should be asked next.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.due.next()
    }
}

/// How often a question is asked, and how long one probe may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pace {
    /// Between probes in a steady state.
    pub interval: Duration,
    /// Between probes while the state is about to change.
    pub fast_interval: Duration,
    /// For one probe.
    pub timeout: Duration,
}

#[derive(Debug)]
struct Poll<U> {
    users: Vec<U>,
    pace: Pace,
    next: Option<Instant>,
    ended: Option<Instant>,
    settled: bool,
}

/// Between 0.9 and 1.1 of `time`.
fn around(random: &mut Random, time: Duration) -> Duration {
    time * 9 / 10 + within(random, time) / 5
}

/// Between nothing and `time`.
fn within(random: &mut Random, time: Duration) -> Duration {
    let share = u32::try_from(random.below(1024)).unwrap_or_default();
    time * share / 1024
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

    /// With one poll, and these users.
    fn prober_for(users: &[u32], now: Instant) -> Prober<u32> {
        let mut prober = Prober::new(7);
        let number = prober.add(PACE, now);
        users.iter().for_each(|&user| prober.join(number, user));
        prober
    }

    fn next_due(prober: &mut Prober<u32>, mut now: Instant) -> Instant {
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
        for user in 0..3 {
            let number = prober.add(PACE, now);
            prober.join(number, user);
        }
        let mut due: Vec<_> = std::iter::from_fn(|| prober.pop_due(now)).collect();
        due.sort_unstable();
        assert_eq!(due, [0, 1, 2]);
    }

    #[test]
    fn waits_stay_within_a_tenth_and_differ() {
        for (turning, wait) in [(false, PACE.interval), (true, PACE.fast_interval)] {
            let mut now = Instant::now();
            let mut prober = prober_for(&[0], now);
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
        let mut prober = prober_for(&[0], now);
        assert_eq!(prober.pop_due(now), Some(0));
        prober.hurry(0, now);
        assert_eq!(prober.pop_due(now + PACE.interval * 9), None);
    }

    #[test]
    fn traffic_can_hurry_a_probe_but_not_flood() {
        let now = Instant::now();
        let mut prober = prober_for(&[0], now);
        prober.pop_due(now);
        prober.finished(0, false, now);
        prober.finished(0, false, now);
        prober.hurry(0, now);
        assert_eq!(prober.pop_due(now), None, "too soon after the last");
        assert_eq!(prober.pop_due(now + SOONEST), Some(0));
    }

    #[test]
    fn a_poll_that_one_user_hurries_is_made_once_and_keeps_its_pace_for_all() {
        let now = Instant::now();
        let mut prober = prober_for(&[3, 4], now);
        assert_eq!(prober.pop_due(now), Some(0));
        prober.finished(0, false, now);
        let later = now + PACE.interval * 2;
        prober.pop_due(later);
        prober.finished(0, false, later);
        let soon = later + SOONEST;
        prober.hurry(4, soon);
        prober.hurry(3, soon);
        assert_eq!((prober.pop_due(soon), prober.pop_due(soon)), (Some(0), None));
        assert_eq!(prober.users(0), [3, 4], "the result is for both");
        prober.finished(0, false, soon);
        assert_eq!(prober.pop_due(soon + PACE.interval / 2), None, "the pace counts from here");
    }

    #[test]
    fn one_who_waits_for_nothing_hurries_nothing() {
        let now = Instant::now();
        let mut prober = prober_for(&[3], now);
        prober.pop_due(now);
        prober.finished(0, false, now);
        let due = prober.next();
        prober.hurry(9, now + SOONEST);
        assert_eq!(prober.next(), due);
    }

    #[test]
    fn a_poll_ends_with_its_last_user_and_its_number_goes_to_another() {
        let now = Instant::now();
        let mut prober = Prober::new(7);
        let number = prober.add(PACE, now);
        prober.join(number, 1);
        prober.join(number, 2);
        assert_eq!(prober.leave(1), None, "another one still waits");
        assert_eq!(prober.users(number), [2]);
        assert_eq!(prober.leave(1), None, "it has left already");
        assert_eq!(prober.leave(2), Some(number));
        assert!(prober.is_empty());
        assert_eq!(prober.pop_due(now + PACE.interval * 9), None, "it is not made any more");
        assert_eq!(prober.add(PACE, now), number);
        prober.join(number, 1);
        assert_eq!((prober.len(), prober.pop_due(now)), (1, Some(number)));
    }
}
