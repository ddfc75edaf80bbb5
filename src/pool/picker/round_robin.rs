//! Smooth weighted round-robin over a fixed cycle.
//!
//! The cycle lists every backend as often as its weight says, interleaved as evenly as possible
//! (weights 5, 1, 1 give `a a b a c a a`). A cursor walks it and skips who is closed. Because the
//! cycle does not change when a backend comes or goes, nobody's turn moves, and because the cursor
//! passes a skipped place, its neighbour gets no double share. When weights or members change, the
//! next pick makes the cycle anew, and puts the cursor where the others have had what they had.
//!
//! A share is relative to the largest one: who has half of it lets every second turn pass. A pick
//! walks over the turns that are let pass, one round at most.
//!
//! The interleaving is the one nginx made known ("smooth weighted round-robin", 2012): each turn
//! everyone gains its weight, the richest is chosen and pays the sum of the weights.

use std::collections::BTreeSet;

use super::members::Members;
use super::open_set::OpenSet;
use super::{Algorithm, Fact, Measure, Request, WHOLE};

/// The cycle and the place in it.
#[derive(Debug, Clone)]
pub(super) struct RoundRobin {
    cycle: Vec<u32>,
    cursor: usize,
    /// The places in the cycle, sorted by member; a member's end where the next one's begin.
    places: Vec<u32>,
    begins: Vec<u32>,
    /// The places of members that may be chosen.
    open: OpenSet,
    shares: Shares,
    /// What each member has saved for its next turn, below the largest share.
    credit: Vec<u16>,
    /// Whose weight has changed since the cycle was made.
    changed: BTreeSet<usize>,
}

impl RoundRobin {
    pub(super) fn new(members: &Members) -> Self {
        let mut new = Self {
            cycle: Vec::new(),
            cursor: 0,
            places: Vec::new(),
            begins: vec![0],
            open: OpenSet::new(0),
            shares: Shares::default(),
            credit: Vec::new(),
            changed: BTreeSet::new(),
        };
        new.rebuild(members);
        new
    }

    fn rebuild(&mut self, members: &Members) {
        let weights: Vec<u16> = (0..members.len()).map(|index| members.weight(index)).collect();
        let cycle = cycle(&weights);
        let mut stays = vec![true; weights.len()];
        for index in std::mem::take(&mut self.changed) {
            stays[index] = false;
        }
        self.cursor = same_place(&self.cycle[..self.cursor], &cycle, &stays);
        self.lay_out(&cycle, weights.len());
        self.open = OpenSet::new(cycle.len());
        self.cycle = cycle;
        self.credit.resize(weights.len(), 0);
        self.shares = Shares { of: vec![0; weights.len()], ..Shares::default() };
        for index in 0..weights.len() {
            self.admit(members, index);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a cycle has far fewer than 2^32 places")]
    fn lay_out(&mut self, cycle: &[u32], members: usize) {
        self.begins = vec![0; members + 1];
        for &member in cycle {
            self.begins[member as usize + 1] += 1;
        }
        for member in 0..members {
            self.begins[member + 1] += self.begins[member];
        }
        let mut free = self.begins.clone();
        self.places = vec![0; cycle.len()];
        for (place, &member) in cycle.iter().enumerate() {
            self.places[free[member as usize] as usize] = place as u32;
            free[member as usize] += 1;
        }
    }

    /// Opens or closes a member's places, and notes its share.
    fn admit(&mut self, members: &Members, index: usize) {
        let share = if members.is_open(index) { members.share(index) } else { 0 };
        let before = self.shares.replace(index, share);
        if (before == 0) != (share == 0) {
            self.credit[index] = 0;
            let (begin, end) = (self.begins[index] as usize, self.begins[index + 1] as usize);
            for &place in &self.places[begin..end] {
                self.open.set(place as usize, share > 0);
            }
        }
    }

    /// Whether a member takes its turn, or saves for a later one.
    fn takes_turn(&mut self, index: usize) -> bool {
        let (price, credit) = (self.shares.largest, &mut self.credit[index]);
        *credit += self.shares.of[index];
        let enough = *credit >= price;
        if enough {
            *credit = (*credit - price).min(price - 1);
        }
        enough
    }
}

impl Algorithm for RoundRobin {
    fn changed(&mut self, members: &Members, index: usize, fact: Fact) {
        match fact {
            Fact::Weight => drop(self.changed.insert(index)),
            Fact::Share if self.changed.is_empty() => self.admit(members, index),
            // The next pick looks at all shares.
            Fact::Share => {}
            Fact::Active => {}
        }
    }

    fn pick(&mut self, members: &Members, request: &Request<'_>) -> Option<usize> {
        if !self.changed.is_empty() {
            self.rebuild(members);
        }
        let mut passed = None;
        for _ in 0..self.cycle.len() {
            let place = self.open.next(self.cursor).or_else(|| self.open.next(0))?;
            if passed.is_some_and(|(first, _)| first == place) {
                break;
            }
            self.cursor = (place + 1) % self.cycle.len();
            let index = self.cycle[place] as usize;
            if request.tried.contains(&index) {
                continue;
            }
            if self.takes_turn(index) {
                return Some(index);
            }
            passed = passed.or(Some((place, index)));
        }
        let (place, index) = passed?;
        self.cursor = (place + 1) % self.cycle.len();
        Some(index)
    }

    fn measure(&self, _: &Members, _: &Request<'_>, index: usize) -> Measure {
        let (begin, end) = (self.begins[index] as usize, self.begins[index + 1] as usize);
        let own = &self.places[begin..end];
        let ahead = own.partition_point(|&place| (place as usize) < self.cursor);
        let Some(place) = own.get(ahead).or(own.first()).map(|&place| place as usize) else {
            return Measure::Turns(u32::MAX);
        };
        let length = self.cycle.len();
        if (place + length - self.cursor) % length > FAR {
            return Measure::Turns(u32::MAX);
        }
        Measure::Turns(if place >= self.cursor {
            self.open.count(self.cursor, place)
        } else {
            self.open.count(self.cursor, length) + self.open.count(0, place)
        })
    }

    fn copy(&self) -> Box<dyn Algorithm> {
        Box::new(self.clone())
    }
}

/// The share of every member that may be chosen, and the largest of them.
#[derive(Debug, Clone)]
struct Shares {
    of: Vec<u16>,
    /// How many have each share.
    count: Vec<u32>,
    largest: u16,
}

impl Default for Shares {
    fn default() -> Self {
        Self { of: Vec::new(), count: vec![0; usize::from(WHOLE) + 1], largest: 0 }
    }
}

impl Shares {
    /// Notes a share, 0 for none; what it was before is returned.
    fn replace(&mut self, index: usize, share: u16) -> u16 {
        let before = std::mem::replace(&mut self.of[index], share);
        if before > 0 {
            self.count[usize::from(before)] -= 1;
        }
        if share > 0 {
            self.count[usize::from(share)] += 1;
        }
        self.largest = self.largest.max(share);
        while self.largest > 0 && self.count[usize::from(self.largest)] == 0 {
            self.largest -= 1;
        }
        before
    }
}

/// Where in a new cycle everybody who stays has had the turns of `served`, as nearly as can be.
fn same_place(served: &[u32], cycle: &[u32], stays: &[bool]) -> usize {
    let members = stays.len();
    let mut behind = vec![0i64; members];
    for &member in served {
        behind[member as usize] += 1;
    }
    let mut turns = vec![0i64; members];
    for &member in cycle {
        turns[member as usize] += 1;
    }
    let others = |member: &usize| stays[*member] && turns[*member] > 0;
    let rounds = (0..members).filter(others).map(|m| behind[m] / turns[m]).min().unwrap_or(0);
    for (had, turns) in behind.iter_mut().zip(turns) {
        *had -= rounds * turns;
    }
    let mut away: i64 = (0..members).filter(|&m| stays[m]).map(|m| behind[m]).sum();
    let mut best = (away, 0);
    for (place, &member) in cycle.iter().enumerate() {
        let behind = &mut behind[member as usize];
        *behind -= 1;
        if stays[member as usize] {
            away += if *behind >= 0 { -1 } else { 1 };
        }
        if away < best.0 {
            best = (away, place + 1);
        }
    }
    best.1 % cycle.len().max(1)
}

fn cycle(weights: &[u16]) -> Vec<u32> {
    let divisor = weights.iter().fold(0, |a, &b| common_divisor(a, b.into())).max(1);
    let weights: Vec<u32> = weights.iter().map(|&weight| u32::from(weight) / divisor).collect();
    let total: usize = weights.iter().map(|&weight| weight as usize).sum();
    let equal = weights.iter().all(|&weight| weight <= 1);
    if !equal && total.saturating_mul(weights.len()) <= SMOOTH_WORK {
        smooth(&weights, total)
    } else {
        spread(&weights)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a pool has far fewer than 2^32 backends")]
fn smooth(weights: &[u32], total: usize) -> Vec<u32> {
    let mut credit = vec![0i64; weights.len()];
    let mut cycle = Vec::with_capacity(total);
    for _ in 0..total {
        let mut richest = 0;
        for (index, &weight) in weights.iter().enumerate() {
            credit[index] += i64::from(weight);
            if credit[index] > credit[richest] {
                richest = index;
            }
        }
        credit[richest] -= total as i64;
        cycle.push(richest as u32);
    }
    cycle
}

/// For pools so large that the exact interleaving would delay the start: every backend's turns at
/// even distances, sorted.
#[expect(clippy::cast_possible_truncation, reason = "the lower half of a turn says whose it is")]
pub(super) fn spread(weights: &[u32]) -> Vec<u32> {
    let mut turns: Vec<u64> = Vec::new();
    for (index, &weight) in weights.iter().enumerate() {
        let distance = SPAN.checked_div(u64::from(weight)).unwrap_or(0);
        let turn = |k: u64| ((distance * k + distance / 2) << 32) | index as u64;
        turns.extend((0..u64::from(weight)).map(turn));
    }
    turns.sort_unstable();
    turns.into_iter().map(|turn| turn as u32).collect()
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Steps that the exact interleaving may take: some thousandths of a second, as traffic waits for
/// it when a weight is changed.
const SMOOTH_WORK: usize = 4_000_000;
const SPAN: u64 = 1 << 32;
/// Places further on are not counted: that would take longer than a pick.
const FAR: usize = 4096;

#[cfg(test)]
mod tests {
    use super::super::testing::{self, pick};
    use super::super::{Member, Picker, Policy};
    use super::*;
    use proptest::prelude::*;

    fn picker(weights: &[u16]) -> Picker {
        testing::picker(Policy::RoundRobin, weights)
    }

    fn take(picker: &mut Picker, count: usize) -> String {
        (0..count)
            .map(|_| pick(picker, &[]).map_or("-", |index| &"abcdefgh"[index..=index]))
            .collect()
    }

    #[test]
    fn the_first_turn_is_the_first_backends() {
        assert_eq!(take(&mut picker(&[1, 1, 1]), 7), "abcabca");
    }

    #[test]
    fn weights_are_interleaved() {
        assert_eq!(take(&mut picker(&[5, 1, 1]), 7), "aabacaa");
        assert_eq!(take(&mut picker(&[4, 2]), 6), "abaaba");
    }

    #[test]
    fn weight_zero_takes_nothing() {
        assert_eq!(take(&mut picker(&[1, 0, 1]), 4), "acac");
        assert_eq!(take(&mut picker(&[0]), 1), "-");
        assert_eq!(take(&mut picker(&[]), 1), "-");
    }

    #[test]
    fn a_dead_ones_turns_are_shared_out_evenly() {
        let mut picker = picker(&[1, 1, 1, 1]);
        picker.set_open(1, false);
        assert_eq!(take(&mut picker, 6), "acdacd");
        for index in [0, 2, 3] {
            picker.set_open(index, false);
        }
        assert_eq!(take(&mut picker, 2), "--");
    }

    #[test]
    fn a_flap_moves_nobodys_turn() {
        let (mut steady, mut flapping) = (picker(&[1, 1, 1]), picker(&[1, 1, 1]));
        assert_eq!(take(&mut steady, 3), "abc");
        flapping.set_open(1, false);
        assert_eq!(take(&mut flapping, 2), "ac");
        flapping.set_open(1, true);
        assert_eq!(take(&mut steady, 3), take(&mut flapping, 3));
    }

    #[test]
    fn a_new_weight_or_member_moves_nobody_elses_turn() {
        let mut picker = picker(&[1, 1, 1, 1]);
        assert_eq!(take(&mut picker, 2), "ab");
        picker.set_weight(1, 2);
        assert_eq!(take(&mut picker, 3).replace('b', ""), "cd");
        assert_eq!(picker.add(Member::new("new", 1)), 4);
        assert_eq!(take(&mut picker, 12).replace(['b', 'e'], ""), "acdacd");
        picker.set_weight(1, 0);
        assert_eq!(take(&mut picker, 8).matches('b').count(), 0);
    }

    #[test]
    fn half_a_share_lets_every_second_turn_pass() {
        let mut picker = picker(&[1, 1, 1]);
        picker.set_share(1, WHOLE / 2);
        assert_eq!(take(&mut picker, 10), "acabcacabc");
        picker.set_share(1, 0);
        assert_eq!(take(&mut picker, 4), "acac");
    }

    #[test]
    fn small_shares_alone_are_all_there_is() {
        let mut picker = picker(&[1, 1, 1]);
        for index in 0..3 {
            picker.set_share(index, 1);
        }
        assert_eq!(take(&mut picker, 6), "abcabc");
        picker.set_share(0, WHOLE);
        assert_eq!(pick(&mut picker, &[0]), Some(1), "its share is no reason to refuse a client");
        assert_eq!(pick(&mut picker, &[0]), Some(2));
        assert_eq!(pick(&mut picker, &[0, 1, 2]), None);
    }

    proptest! {
        #[test]
        fn every_window_of_the_weight_sum_is_exact(
            weights in prop::collection::vec(0u16..12, 1..9),
            skip in 0usize..40,
        ) {
            let divisor = weights.iter().fold(0, |a, &b| common_divisor(a, b.into())).max(1);
            let total: usize = weights.iter().map(|&w| usize::from(w)).sum::<usize>();
            let window = total / divisor as usize;
            let mut picker = picker(&weights);
            for _ in 0..skip {
                pick(&mut picker, &[]);
            }
            let mut counts = vec![0u32; weights.len()];
            for _ in 0..window {
                if let Some(index) = pick(&mut picker, &[]) {
                    counts[index] += 1;
                }
            }
            let expected: Vec<u32> = weights.iter().map(|&w| u32::from(w) / divisor).collect();
            prop_assert_eq!(counts, expected);
        }

        /// Whatever is opened and closed, the open ones share by weight to within one round.
        #[test]
        fn closed_ones_leave_the_others_their_proportions(
            weights in prop::collection::vec(1u16..12, 2..9),
            closed in prop::collection::vec(any::<bool>(), 9),
            rounds in 1u32..5,
        ) {
            let mut picker = picker(&weights);
            for (index, &closed) in closed.iter().enumerate().take(weights.len()) {
                picker.set_open(index, !closed);
            }
            let open: Vec<usize> = (0..weights.len()).filter(|&index| !closed[index]).collect();
            let divisor = weights.iter().fold(0, |a, &b| common_divisor(a, b.into()));
            let sum: u32 = open.iter().map(|&index| u32::from(weights[index]) / divisor).sum();
            let mut counts = vec![0u32; weights.len()];
            for _ in 0..if open.is_empty() { 0 } else { rounds * sum } {
                counts[pick(&mut picker, &[]).unwrap()] += 1;
            }
            let due = |(&weight, &closed): (&u16, &bool)| {
                if closed { 0 } else { u32::from(weight) / divisor * rounds }
            };
            prop_assert_eq!(counts, weights.iter().zip(&closed).map(due).collect::<Vec<_>>());
        }

        /// A change of one weight neither skips nor repeats more than a turn of anybody else.
        #[test]
        fn a_changed_weight_costs_the_others_no_turn(
            size in 2usize..9,
            before in 0usize..30,
            index in any::<prop::sample::Index>(),
            weight in 0u16..9,
        ) {
            let (mut steady, mut other) = (picker(&vec![1; size]), picker(&vec![1; size]));
            let changed = index.index(size);
            prop_assert_eq!(take(&mut steady, before), take(&mut other, before));
            other.set_weight(changed, weight);
            let mine = |picks: String| picks.replace(&"abcdefgh"[changed..=changed], "");
            let steady = mine(take(&mut steady, 4 * size));
            let other = mine(take(&mut other, 4 * (size + usize::from(weight))));
            let both = steady.len().min(other.len());
            prop_assert_eq!(&steady[..both], &other[..both]);
        }

        #[test]
        fn the_cheap_interleaving_has_the_same_shares(
            weights in prop::collection::vec(0u32..12, 1..9),
        ) {
            let mut exact = smooth(&weights, weights.iter().sum::<u32>() as usize);
            let mut cheap = spread(&weights);
            exact.sort_unstable();
            cheap.sort_unstable();
            prop_assert_eq!(exact, cheap);
        }
    }
}
