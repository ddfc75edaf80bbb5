//! Smooth weighted round-robin over a fixed cycle.
//!
//! The cycle lists every backend as often as its weight says, interleaved as evenly as possible
//! (weights 5, 1, 1 give `a a b a c a a`). A cursor walks it and skips who is not eligible. Because
//! the cycle does not change when a backend comes or goes, nobody's turn moves, and because the
//! cursor passes a skipped place, its neighbour gets no double share.
//!
//! The interleaving is the one nginx made known ("smooth weighted round-robin", 2012): each turn
//! everyone gains its weight, the richest is chosen and pays the sum of the weights.

/// The cycle and the place in it.
#[derive(Debug, Clone)]
pub struct RoundRobin {
    cycle: Vec<u32>,
    cursor: usize,
}

impl RoundRobin {
    /// A cycle over backends with these weights, by index. Weight 0 has no turn.
    #[must_use]
    pub fn new(weights: &[u16]) -> Self {
        Self { cycle: cycle(weights), cursor: 0 }
    }

    /// The next eligible backend, in constant time while most are; `None` if none is.
    pub fn pick(&mut self, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        for _ in 0..self.cycle.len() {
            let candidate = self.cycle[self.cursor] as usize;
            self.cursor = (self.cursor + 1) % self.cycle.len();
            if eligible(candidate) {
                return Some(candidate);
            }
        }
        None
    }
}

fn cycle(weights: &[u16]) -> Vec<u32> {
    let divisor = weights.iter().fold(0, |a, &b| common_divisor(a, b.into())).max(1);
    let weights: Vec<u32> = weights.iter().map(|&weight| u32::from(weight) / divisor).collect();
    let total: usize = weights.iter().map(|&weight| weight as usize).sum();
    if total.saturating_mul(weights.len()) <= SMOOTH_WORK {
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
#[expect(clippy::cast_possible_truncation, reason = "a pool has far fewer than 2^32 backends")]
fn spread(weights: &[u32]) -> Vec<u32> {
    let mut turns: Vec<(u64, u32)> = Vec::new();
    for (index, &weight) in weights.iter().enumerate() {
        let distance = SPAN.checked_div(u64::from(weight)).unwrap_or(0);
        turns.extend((0..u64::from(weight)).map(|k| (distance * k + distance / 2, index as u32)));
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, index)| index).collect()
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Steps that the exact interleaving may take: some hundredths of a second.
const SMOOTH_WORK: usize = 50_000_000;
const SPAN: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(picker: &mut RoundRobin, count: usize, eligible: impl Fn(usize) -> bool) -> String {
        (0..count)
            .map(|_| picker.pick(&eligible).map_or("-", |index| &"abcdefgh"[index..=index]))
            .collect()
    }

    #[test]
    fn the_first_turn_is_the_first_backends() {
        assert_eq!(take(&mut RoundRobin::new(&[1, 1, 1]), 7, |_| true), "abcabca");
    }

    #[test]
    fn weights_are_interleaved() {
        assert_eq!(take(&mut RoundRobin::new(&[5, 1, 1]), 7, |_| true), "aabacaa");
        assert_eq!(take(&mut RoundRobin::new(&[4, 2]), 6, |_| true), "abaaba");
    }

    #[test]
    fn weight_zero_takes_nothing() {
        assert_eq!(take(&mut RoundRobin::new(&[1, 0, 1]), 4, |_| true), "acac");
        assert_eq!(RoundRobin::new(&[0]).pick(|_| true), None);
        assert_eq!(RoundRobin::new(&[]).pick(|_| true), None);
    }

    #[test]
    fn a_dead_ones_turns_are_shared_out_evenly() {
        assert_eq!(take(&mut RoundRobin::new(&[1, 1, 1, 1]), 6, |i| i != 1), "acdacd");
        assert_eq!(take(&mut RoundRobin::new(&[1, 1, 1]), 4, |_| false), "----");
    }

    #[test]
    fn a_flap_moves_nobodys_turn() {
        let mut steady = RoundRobin::new(&[1, 1, 1]);
        let mut flapping = steady.clone();
        assert_eq!(take(&mut steady, 3, |_| true), "abc");
        assert_eq!(take(&mut flapping, 2, |i| i != 1), "ac");
        assert_eq!(take(&mut steady, 3, |_| true), take(&mut flapping, 3, |_| true));
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
            let mut picker = RoundRobin::new(&weights);
            for _ in 0..skip {
                picker.pick(|_| true);
            }
            let mut counts = vec![0u32; weights.len()];
            for _ in 0..window {
                if let Some(index) = picker.pick(|_| true) {
                    counts[index] += 1;
                }
            }
            let expected: Vec<u32> = weights.iter().map(|&w| u32::from(w) / divisor).collect();
            prop_assert_eq!(counts, expected);
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
