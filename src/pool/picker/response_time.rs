//! Whoever answers fast and has little to do: estimated time, times connections, over weight.
//!
//! The estimate is a peak EWMA, as in Finagle: a slower answer than expected is believed at once, a
//! faster one as much as time has passed. An estimate halves every [`HALF_LIFE`] without an answer,
//! so a backend that was slow is tried again before long, and left at once if it still is. As all
//! estimates shrink alike, their order does not change by time alone: kept is the logarithm at a
//! common origin, `log2(estimate) + time / half-life + log2((active + 1) / weight)`, and nothing is
//! computed anew while time passes.
//!
//! Of a backend without an answer, or none for long, or none since it came back, half the pool's
//! typical time is assumed: it is tried soon, and gets at most twice the connections of a typical
//! one until it has answered.

use std::time::{Duration, Instant};

use super::logarithm::{halved, log2};
use super::members::Members;
use super::tournament::Tournament;
use super::{Algorithm, Fact, Measure, Request, Sample};

/// All open members, by cost; those with an estimate, and those without.
#[derive(Debug, Clone)]
pub(super) struct ResponseTime {
    known: Tournament<Key>,
    unknown: Tournament<Key>,
    records: Vec<Record>,
    picks: u64,
    /// Mean of the last answers of all, in nanoseconds.
    typical: Option<u64>,
    origin: Option<Instant>,
}

/// The logarithm of the cost in units of 2^-32, then when it was last chosen.
type Key = (i64, u64);

/// What is remembered of a member.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    estimate: Option<Estimate>,
    chosen: u64,
    open: bool,
    /// It was closed after the estimate was made.
    returned: bool,
}

/// A time in nanoseconds, and at what time since the origin it was that.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    nanos: u64,
    at: u64,
}

impl ResponseTime {
    pub(super) fn new(members: &Members) -> Self {
        let mut new = Self {
            known: Tournament::new(),
            unknown: Tournament::new(),
            records: Vec::new(),
            picks: 0,
            typical: None,
            origin: None,
        };
        for index in 0..members.len() {
            new.changed(members, index, Fact::Weight);
        }
        new
    }

    fn since_origin(&mut self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(*self.origin.get_or_insert(now)))
    }

    fn seat(&mut self, members: &Members, index: usize) {
        let Record { estimate, chosen, .. } = self.records[index];
        let load = |pull| log(u64::from(members.active(index)) + 1) - log(u64::from(pull));
        let load = Some(members.pull(index)).filter(|&pull| pull > 0).map(load);
        let key = |estimate: Estimate| log(estimate.nanos) + half_lives(estimate.at);
        let of_known = load.zip(estimate).map(|(load, estimate)| (load + key(estimate), chosen));
        let of_unknown = load.filter(|_| estimate.is_none()).map(|load| (load, chosen));
        self.known.set(index, of_known);
        self.unknown.set(index, of_unknown);
    }

    /// Forgets estimates in front that are too old, a few at a time.
    fn forget(&mut self, members: &Members, time: u64) {
        for _ in 0..FORGOTTEN_PER_PICK {
            let Some((index, _)) = self.known.first() else { return };
            let record = &mut self.records[index];
            let lifetime = if record.returned { HALF_LIFE } else { MEMORY };
            let old = |estimate: &Estimate| time.saturating_sub(estimate.at) >= nanos(lifetime);
            if !record.estimate.as_ref().is_some_and(old) {
                record.returned = false;
                return;
            }
            record.estimate = None;
            self.seat(members, index);
        }
    }

    fn cheapest(&self, time: u64) -> Option<usize> {
        let typical = self.typical.unwrap_or(nanos(SHORTEST));
        let typical = log(typical) - log(2) + half_lives(time);
        let known = self.known.first();
        let cost = |(index, (load, chosen)): (usize, Key)| (index, (load + typical, chosen));
        let unknown = self.unknown.first().map(cost);
        let both = known.into_iter().chain(unknown);
        both.min_by_key(|&(_, key)| key).map(|(index, _)| index)
    }
}

impl Algorithm for ResponseTime {
    fn changed(&mut self, members: &Members, index: usize, _: Fact) {
        if index >= self.records.len() {
            self.records.resize(index + 1, Record::default());
        }
        let record = &mut self.records[index];
        let open = members.is_open(index);
        record.returned |= open && !record.open;
        record.open = open;
        self.seat(members, index);
    }

    fn replaced(&mut self, members: &Members, index: usize) {
        self.records[index] = Record::default();
        self.changed(members, index, Fact::Weight);
    }

    fn sample(&mut self, members: &Members, index: usize, sample: Sample) {
        let at = self.since_origin(sample.now);
        let most = self.typical.unwrap_or(nanos(LONGEST)).saturating_mul(MOST_TIMES_TYPICAL);
        let took = nanos(sample.took.clamp(SHORTEST, LONGEST)).min(most);
        let after = |before: Estimate| {
            let halvings = halvings(at.saturating_sub(before.at));
            let kept = halved(before.nanos, halvings);
            if took >= kept { took } else { kept + took - halved(took, halvings) }
        };
        let record = &mut self.records[index];
        record.estimate = Some(Estimate { nanos: record.estimate.map_or(took, after), at });
        record.returned = false;
        let mean = |before: u64| before - before / MEAN_OF + took / MEAN_OF;
        self.typical = Some(self.typical.map_or(took, mean));
        self.seat(members, index);
    }

    fn pick(&mut self, members: &Members, request: &Request<'_>) -> Option<usize> {
        let time = self.since_origin(request.now);
        self.forget(members, time);
        for &index in request.tried {
            self.known.set(index, None);
            self.unknown.set(index, None);
        }
        let cheapest = self.cheapest(time);
        if let Some(index) = cheapest {
            self.picks += 1;
            self.records[index].chosen = self.picks;
            self.seat(members, index);
        }
        for &index in request.tried {
            self.seat(members, index);
        }
        cheapest
    }

    fn measure(&self, _: &Members, request: &Request<'_>, index: usize) -> Measure {
        let micros = |nanos: u64| u32::try_from(nanos / 1000).unwrap_or(u32::MAX);
        let passed = self.origin.map(|origin| request.now.saturating_duration_since(origin));
        let time = passed.map_or(0, nanos);
        match self.records[index].estimate {
            Some(Estimate { nanos, at }) => {
                Measure::Expected(micros(halved(nanos, halvings(time.saturating_sub(at)))))
            }
            None => Measure::Assumed(micros(self.typical.unwrap_or(nanos(SHORTEST)) / 2)),
        }
    }

    fn copy(&self) -> Box<dyn Algorithm> {
        Box::new(self.clone())
    }
}

/// log2 in units of 2^-32.
fn log(value: u64) -> i64 {
    (log2(value) >> 24).cast_signed()
}

/// How many half-lives so many nanoseconds are, in units of 2^-32.
#[expect(clippy::cast_possible_truncation, reason = "centuries are less than 2^31 half-lives")]
fn halvings(nanos_passed: u64) -> u64 {
    ((u128::from(nanos_passed) << 32) / HALF_LIFE.as_nanos()) as u64
}

fn half_lives(since_origin: u64) -> i64 {
    halvings(since_origin).cast_signed()
}

/// At most some centuries.
fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())
}

/// After this time without an answer an estimate has halved: one ten times too high is tried again
/// in 17 s, one a hundred times too high in 33 s, and none later than in 40 s.
const HALF_LIFE: Duration = Duration::from_secs(5);
const MOST_TIMES_TYPICAL: u64 = 256;
/// After this time without an answer nothing is known.
const MEMORY: Duration = Duration::from_secs(40);
/// Differences below this are made by the network and by our own turns, not by a backend.
const SHORTEST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_secs(3600);
const MEAN_OF: u64 = 16;
/// Bounds what a pick may cost after a silence.
const FORGOTTEN_PER_PICK: usize = 4;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::super::testing::{self, picks};
    use super::super::{PickKey, Picker, Policy, WHOLE};
    use super::*;
    use proptest::prelude::*;

    fn picker(weights: &[u16]) -> Picker {
        testing::picker(Policy::ResponseTime, weights)
    }

    /// One client after another, each answered before the next comes; a gap between them.
    fn one_by_one(
        picker: &mut Picker,
        now: &mut Instant,
        (clients, gap): (usize, Duration),
        answer: impl Fn(usize) -> Duration,
    ) -> Vec<usize> {
        let mut counts = vec![0; picker.members.len()];
        for _ in 0..clients {
            let index = picker.pick(PickKey::LOCAL, *now, &[]).unwrap();
            counts[index] += 1;
            *now += gap;
            picker.sample(index, answer(index), *now);
        }
        counts
    }

    /// Connections that come at once and do not go; how many each has then.
    fn fill_at(picker: &mut Picker, now: Instant, count: u32) -> Vec<u32> {
        let mut active = vec![0; picker.members.len()];
        for _ in 0..count {
            let index = picker.pick(PickKey::LOCAL, now, &[]).unwrap();
            active[index] += 1;
            picker.set_active(index, active[index]);
        }
        active
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nobody_known_means_turns() {
        assert_eq!(picks(&mut picker(&[1, 1, 1]), 6), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_slow_one_is_left_at_once_and_tried_again() {
        let (mut picker, mut now) = (picker(&[1, 1, 1]), Instant::now());
        let even = one_by_one(&mut picker, &mut now, (300, MS * 10), |_| MS * 2);
        assert_eq!(even, [100; 3]);
        let slow = |index| if index == 1 { MS * 20 } else { MS * 2 };
        let counts = one_by_one(&mut picker, &mut now, (1000, MS * 10), slow);
        assert_eq!(counts[1], 1, "10 s: the one answer that showed it");
        let counts = one_by_one(&mut picker, &mut now, (6000, MS * 10), slow);
        assert!((3..=4).contains(&counts[1]), "60 s: once in 17 s, got {}", counts[1]);
        let counts = one_by_one(&mut picker, &mut now, (3000, MS * 10), |_| MS * 2);
        assert!(counts[1] > 200, "30 s after it is well again: {counts:?}");
    }

    #[test]
    fn however_slow_it_is_tried_again_within_its_memory() {
        let (mut picker, mut now) = (picker(&[1, 1]), Instant::now());
        one_by_one(&mut picker, &mut now, (4, MS), |_| MS);
        let slow = |index| if index == 1 { MS * 900_000 } else { MS };
        let counts = one_by_one(&mut picker, &mut now, (40_000, MS * 10), slow);
        assert!((9..=11).contains(&counts[1]), "400 s: {counts:?}");
    }

    #[test]
    fn an_unknown_one_gets_at_most_twice_as_much_as_a_typical_one() {
        let (mut picker, mut now) = (picker(&[1, 1]), Instant::now());
        one_by_one(&mut picker, &mut now, (100, MS), |_| MS * 5);
        picker.add(super::super::Member::new("new", 1));
        let active = fill_at(&mut picker, now, 400);
        assert!((190..=201).contains(&active[2]), "{active:?}");
    }

    #[test]
    fn one_that_comes_back_is_not_flooded() {
        for away in [3, 20, 100] {
            let (mut picker, mut now) = (picker(&[1, 1, 1]), Instant::now());
            one_by_one(&mut picker, &mut now, (300, MS), |_| MS * 5);
            picker.set_open(2, false);
            let gaps = (usize::try_from(away).unwrap() * 100, MS * 10);
            one_by_one(&mut picker, &mut now, gaps, |_| MS * 5);
            picker.set_open(2, true);
            let active = fill_at(&mut picker, now, 90);
            assert!((20..=45).contains(&active[2]), "after {away} s: {active:?}");
        }
    }

    #[test]
    fn connections_count_as_much_as_time() {
        let (mut picker, now) = (picker(&[1, 1]), Instant::now());
        picker.sample(0, MS * 4, now);
        picker.sample(1, MS, now);
        assert_eq!(fill_at(&mut picker, now, 100), [20, 80]);
    }

    #[test]
    fn a_slower_answer_is_believed_at_once_and_a_faster_one_in_time() {
        let members = Members::new(&testing::members(&[1]));
        let (mut algorithm, now) = (ResponseTime::new(&members), Instant::now());
        let mut after = |took, seconds| {
            let now = now + Duration::from_secs(seconds);
            algorithm.sample(&members, 0, Sample { took, now });
            algorithm.records[0].estimate.unwrap().nanos / 100_000
        };
        assert_eq!(after(MS * 2, 0), 20);
        assert_eq!(after(MS * 10, 0), 100);
        assert_eq!(after(MS * 2, 0), 100, "no time has passed");
        assert_eq!(after(MS * 2, 5), 60);
        assert_eq!(after(MS * 2, 10), 40);
        assert_eq!(after(MS * 2, 500), 20);
    }

    #[test]
    fn a_tried_or_closed_one_is_left_out() {
        let (mut picker, now) = (picker(&[1, 1, 0]), Instant::now());
        picker.sample(0, MS, now);
        assert_eq!(testing::pick(&mut picker, &[0]), Some(1));
        assert_eq!(testing::pick(&mut picker, &[0, 1]), None);
        picker.set_share(1, 0);
        picker.set_open(0, false);
        assert_eq!(testing::pick(&mut picker, &[]), None);
        picker.set_open(0, true);
        picker.set_share(0, WHOLE / 2);
        assert_eq!(testing::pick(&mut picker, &[]), Some(0));
    }

    proptest! {
        /// Equally fast backends fill up by weight, and unknown ones by twice theirs.
        #[test]
        fn connections_follow_weights(
            weights in prop::collection::vec(0u16..12, 1..9),
            known in prop::collection::vec(any::<bool>(), 9),
        ) {
            prop_assume!(weights.iter().any(|&weight| weight > 0));
            let (mut picker, now) = (picker(&weights), Instant::now());
            for index in (0..weights.len()).filter(|&index| known[index]) {
                picker.sample(index, MS * 3, now);
            }
            let any = known.iter().take(weights.len()).any(|&known| known);
            let times = |index: usize| if any && !known[index] { 2 } else { 1 };
            let part = |index: usize| times(index) * u32::from(weights[index]);
            let parts: u32 = (0..weights.len()).map(part).sum();
            let active = fill_at(&mut picker, now, parts * 20);
            for (index, active) in active.into_iter().enumerate() {
                prop_assert!(active.abs_diff(part(index) * 20) <= 1, "{active} at {index}");
            }
        }
    }
}
