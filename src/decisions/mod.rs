//! Why connections went where they went, and why they ended: a ring of fixed-size records.
//!
//! Connections are numbered in their order, so the record of one is found by its number modulo the
//! size of the ring, and the newest ones are remembered, live or not. What happens to a connection
//! whose record was overwritten is noted nowhere. Nothing is allocated for a connection: a record
//! has room for the first choice of a backend and the latest, and for [`record::MOST_ATTEMPTS`]
//! attempts; what there was besides is counted.
//!
//! Records are facts of the moment in which they were noted. Names are kept as numbers, because
//! backends come and go while their connections are remembered: whoever asks finds the name among
//! those that are there, or among [`MOST_GONE`] of those that have left ([`Decisions::retire`]).
//! [`words`] says it for people.

pub mod record;
pub mod words;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::pool::choice::Choice;
use crate::pool::picker::identity;
use crate::pool::waiting::Want;
use record::{End, Record};

/// The records of the newest connections.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Empty: nothing is noted at all.
    records: Vec<Record>,
    newest: u64,
    gone: HashMap<u64, Box<str>>,
    /// In the order in which they left.
    left: VecDeque<u64>,
}

impl Decisions {
    /// Remembers so many connections, a power of two. All the memory is taken now.
    ///
    /// # Panics
    /// If it is another number than that, or 0.
    #[must_use]
    pub fn remembering(count: usize, now: Instant) -> Self {
        assert!(
            count == 0 || count.is_power_of_two(),
            "a record is found by the last bits of its id"
        );
        let records = (0..count).map(|_| Record::nobody(now)).collect();
        Self { records, ..Self::default() }
    }

    /// How many connections are remembered at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.records.len()
    }

    /// Bytes that the records take.
    #[must_use]
    pub fn size(&self) -> usize {
        self.records.len() * size_of::<Record>()
    }

    /// A client came, over a listener to a pool of these names.
    pub fn begin(&mut self, id: u64, client: Option<SocketAddr>, over: Over<'_>, now: Instant) {
        if self.records.is_empty() {
            return;
        }
        self.newest = id;
        let at = self.place(id);
        self.records[at].begin(id, client, now);
        self.records[at].listener = identity(over.listener);
        self.records[at].pool = identity(over.pool);
    }

    /// The header that a client had to send names another one.
    pub fn speaks_for(&mut self, id: u64, client: SocketAddr) {
        if let Some(record) = self.get_mut(id) {
            (record.client, record.by_header) = (Some(client), true);
        }
    }

    /// A backend was looked for: where the choice is to be noted.
    pub fn chooses(&mut self, id: u64, now: Instant) -> Option<&mut Choice> {
        self.get_mut(id).map(|record| record.choose(now))
    }

    /// It stands in line from now on.
    pub fn waits(&mut self, id: u64, want: Want, now: Instant) {
        if let Some(record) = self.get_mut(id) {
            let millis = record.millis(now);
            record.line.begin(want, millis);
        }
    }

    /// It does no longer.
    pub fn called(&mut self, id: u64, now: Instant) {
        if let Some(record) = self.get_mut(id) {
            let millis = record.millis(now);
            record.line.end(millis);
        }
    }

    /// A connect to a backend, at one of its addresses, begins.
    pub fn tries(&mut self, id: u64, backend: u64, target: Option<SocketAddr>, now: Instant) {
        if let Some(record) = self.get_mut(id) {
            record.attempt(backend, target, now);
        }
    }

    /// The connect succeeded, and took so long.
    pub fn connected(&mut self, id: u64, took: Duration) {
        if let Some(record) = self.get_mut(id) {
            record.connected(took);
        }
    }

    /// The connect failed, or what was connected was reset before a byte went either way.
    pub fn failed(&mut self, id: u64, error: &io::Error, now: Instant) {
        if let Some(record) = self.get_mut(id) {
            record.failed(error, now);
        }
    }

    /// It is over.
    pub fn ended(&mut self, id: u64, end: End, now: Instant) {
        if let Some(record) = self.get_mut(id) {
            if record.line.is_going_on() {
                let millis = record.millis(now);
                record.line.end(millis);
            }
            record.end = Some(end);
        }
    }

    /// What is remembered of a connection.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<&Record> {
        self.records.get(self.place(id)).filter(|record| record.id == id && id > 0)
    }

    /// All that is remembered, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Record> {
        let oldest = self.newest.saturating_sub(self.records.len() as u64);
        (oldest + 1..=self.newest).rev().filter_map(|id| self.find(id))
    }

    /// A listener, a pool or a backend of this name leaves: records may still speak of it.
    pub fn retire(&mut self, name: &str) {
        let number = identity(name);
        if self.records.is_empty() || self.gone.contains_key(&number) {
            return;
        }
        if self.left.len() >= MOST_GONE
            && let Some(first) = self.left.pop_front()
        {
            self.gone.remove(&first);
        }
        self.left.push_back(number);
        self.gone.insert(number, name.into());
    }

    /// The name of one that has left, unless too many have left since.
    #[must_use]
    pub fn retired(&self, number: u64) -> Option<&str> {
        self.gone.get(&number).map(|name| &**name)
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Record> {
        let at = self.place(id);
        self.records.get_mut(at).filter(|record| record.id == id)
    }

    #[expect(clippy::cast_possible_truncation, reason = "it is below the number of records")]
    fn place(&self, id: u64) -> usize {
        id as usize & self.records.len().wrapping_sub(1)
    }
}

/// The way a client came.
#[derive(Debug, Clone, Copy)]
pub struct Over<'a> {
    /// The name of the listener.
    pub listener: &'a str,
    /// The name of its pool.
    pub pool: &'a str,
}

/// Connections that are remembered: the size of the ring.
pub const REMEMBERED: usize = 4096;
/// Names that are kept of those that have left.
pub const MOST_GONE: usize = 1024;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::record::{MOST_ATTEMPTS, Trial};
    use super::*;
    use crate::measure::waits::Waits;
    use crate::pair::CloseReason;
    use crate::pool::choice::Outcome;
    use proptest::prelude::*;

    const WEB: Over<'_> = Over { listener: "web", pool: "app" };

    fn end(reason: CloseReason) -> End {
        End { reason, lasted: 2000, waits: Waits::new(0), received: 3, sent: 4 }
    }

    #[test]
    fn the_whole_ring_is_small() {
        let ring = Decisions::remembering(REMEMBERED, Instant::now());
        assert!(ring.size() < 4_000_000, "{} bytes", ring.size());
        assert_eq!(Decisions::default().size(), 0);
    }

    #[test]
    fn only_the_newest_are_remembered_and_nobody_is_taken_for_another() {
        let now = Instant::now();
        let mut ring = Decisions::remembering(4, now);
        for id in 1..=6 {
            ring.begin(id, None, WEB, now);
        }
        assert!(ring.newest().map(|record| record.id).eq([6, 5, 4, 3]));
        ring.ended(2, end(CloseReason::ClientFinished), now);
        ring.tries(2, 7, None, now);
        assert!(ring.chooses(2, now).is_none() && ring.find(2).is_none());
        assert!(ring.newest().all(|record| record.end.is_none() && record.attempts().is_empty()));
        assert!(ring.find(0).is_none() && ring.find(7).is_none());
    }

    #[test]
    fn a_ring_of_none_notes_nothing() {
        let now = Instant::now();
        let mut ring = Decisions::default();
        ring.begin(1, None, WEB, now);
        ring.retire("a:1");
        assert!(ring.find(1).is_none() && ring.chooses(1, now).is_none());
        assert_eq!((ring.newest().count(), ring.retired(identity("a:1"))), (0, None));
    }

    #[test]
    fn the_first_choice_and_the_latest_are_kept() {
        let now = Instant::now();
        let mut ring = Decisions::remembering(4, now);
        ring.begin(1, None, WEB, now);
        assert!(ring.find(1).is_some_and(|record| record.choices().count() == 0));
        for backends in 1..=5 {
            let at = now + Duration::from_millis(backends);
            let choice = ring.chooses(1, at).unwrap();
            (choice.backends, choice.outcome) = (u32::try_from(backends).unwrap(), Outcome::Full);
        }
        let record = ring.find(1).unwrap();
        let kept: Vec<_> = record.choices().map(|(at, choice)| (at, choice.backends)).collect();
        assert_eq!((kept, record.choices_made), (vec![(1, 1), (5, 5)], 5));
        ring.begin(5, None, WEB, now);
        assert_eq!(ring.find(5).unwrap().choices().count(), 0, "nothing is left of another one");
    }

    #[test]
    fn attempts_are_noted_with_their_ends_and_the_latest_is_never_left_out() {
        let now = Instant::now();
        let later = |millis| now + Duration::from_millis(millis);
        let mut ring = Decisions::remembering(4, now);
        ring.begin(1, None, WEB, now);
        let refused = io::Error::from_raw_os_error(111);
        for backend in 0..8 {
            ring.tries(1, backend, None, later(backend));
            ring.failed(1, &refused, later(backend + 2));
        }
        ring.tries(1, 8, None, later(20));
        ring.connected(1, Duration::from_millis(3));
        let record = ring.find(1).unwrap();
        let backends: Vec<u64> = record.attempts().iter().map(|attempt| attempt.backend).collect();
        assert_eq!((backends, record.attempts_made), (vec![0, 1, 2, 3, 4, 8], 9));
        assert_eq!(record.attempts().len(), MOST_ATTEMPTS);
        let first = record.attempts()[0];
        let Trial::Failed { kind, code } = first.trial else { panic!("it failed") };
        assert_eq!((kind, code), (io::ErrorKind::ConnectionRefused, 111));
        assert_eq!((first.after_millis, first.took_micros), (0, 2000));
        let last = record.attempts()[5];
        assert_eq!((last.trial, last.after_millis), (Trial::Connected, 20));
        assert_eq!(last.took_micros, 3000);
        ring.failed(1, &io::ErrorKind::ConnectionReset.into(), later(40));
        assert_eq!(ring.find(1).unwrap().attempts()[5].trial, Trial::ResetAtOnce);
    }

    #[test]
    fn waits_add_up_and_end_with_the_connection() {
        let now = Instant::now();
        let later = |millis| now + Duration::from_millis(millis);
        let mut ring = Decisions::remembering(4, now);
        ring.begin(1, None, WEB, now);
        ring.waits(1, Want::Place, later(0));
        ring.called(1, later(10));
        ring.called(1, later(15));
        ring.waits(1, Want::Backend, later(20));
        let record = ring.find(1).unwrap();
        assert_eq!((record.line.times, record.line.is_going_on()), (2, true));
        assert_eq!(record.stood(later(50)), 40);
        ring.ended(1, end(CloseReason::HoldTimeout), later(60));
        let record = ring.find(1).unwrap();
        assert_eq!(record.stood(later(999)), 50);
        assert_eq!(record.end.map(|end| end.reason), Some(CloseReason::HoldTimeout));
    }

    #[test]
    fn names_of_those_who_left_are_kept_within_bounds() {
        let mut ring = Decisions::remembering(1, Instant::now());
        for number in 0..MOST_GONE + 5 {
            ring.retire(&format!("b{number}"));
            ring.retire(&format!("b{number}"));
        }
        assert_eq!(ring.gone.len(), MOST_GONE);
        assert_eq!(ring.retired(identity("b4")), None);
        assert_eq!(ring.retired(identity("b5")), Some("b5"));
    }

    proptest! {
        /// Whatever is noted, of which connection ever: the records are those of the newest ones.
        #[test]
        fn a_record_is_always_of_the_connection_that_is_asked_for(
            calls in prop::collection::vec((0u8..6, 0u64..40), 0..200),
        ) {
            let now = Instant::now();
            let mut ring = Decisions::remembering(8, now);
            let mut begun = 0;
            for (call, id) in calls {
                match call {
                    0 => {
                        begun += 1;
                        ring.begin(begun, None, WEB, now);
                    }
                    1 => ring.waits(id, Want::Place, now),
                    2 => ring.tries(id, id, None, now),
                    3 => ring.failed(id, &io::ErrorKind::TimedOut.into(), now),
                    4 => drop(ring.chooses(id, now)),
                    _ => ring.ended(id, end(CloseReason::Cut), now),
                }
            }
            let ids: Vec<u64> = ring.newest().map(|record| record.id).collect();
            let expected: Vec<u64> = (begun.saturating_sub(7).max(1)..=begun).rev().collect();
            prop_assert_eq!(ids, expected);
            for record in ring.newest() {
                prop_assert!(record.attempts().iter().all(|attempt| attempt.backend == record.id));
            }
        }
    }
}
