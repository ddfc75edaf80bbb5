//! A set of small numbers that answers "the next one from here" in a few steps.
//!
//! Bits in words, and above them words that say which words below are not empty: three levels reach
//! over a quarter of a million numbers, and more are added as needed.

/// A set of numbers below a limit.
#[derive(Debug, Clone)]
pub(super) struct OpenSet {
    /// From the bits themselves up to a single word.
    levels: Vec<Vec<u64>>,
}

impl OpenSet {
    /// An empty set of numbers below `limit`.
    pub(super) fn new(limit: usize) -> Self {
        let mut levels = Vec::new();
        let mut length = limit.div_ceil(WORD).max(1);
        levels.push(vec![0; length]);
        while length > 1 {
            length = length.div_ceil(WORD);
            levels.push(vec![0; length]);
        }
        Self { levels }
    }

    /// Puts a number in, or takes it out.
    pub(super) fn set(&mut self, mut number: usize, present: bool) {
        for level in &mut self.levels {
            let word = &mut level[number / WORD];
            let before = *word;
            if present {
                *word |= 1 << (number % WORD);
            } else {
                *word &= !(1 << (number % WORD));
            }
            if (before == 0) == (*word == 0) {
                return;
            }
            number /= WORD;
        }
    }

    /// The lowest number in the set that is not below `from`.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut from = from;
        let mut height = 0;
        loop {
            let word = self.levels.get(height)?.get(from / WORD).copied().unwrap_or(0);
            let rest = word & (u64::MAX << (from % WORD));
            if rest != 0 {
                return Some(self.descend(height, from / WORD * WORD + lowest(rest)));
            }
            from = from / WORD + 1;
            height += 1;
        }
    }

    /// How many numbers from `from` on and below `to` are in the set; a word at a time.
    pub(super) fn count(&self, from: usize, to: usize) -> u32 {
        let bits = |at: usize| self.levels[0].get(at).copied().unwrap_or(0);
        let below = |at: usize| (1 << (at % WORD)) - 1;
        let (first, last) = (from / WORD, to / WORD);
        if first == last {
            return (bits(first) & below(to) & !below(from)).count_ones();
        }
        let between: u32 = (first + 1..last).map(|at| bits(at).count_ones()).sum();
        (bits(first) & !below(from)).count_ones() + between + (bits(last) & below(to)).count_ones()
    }

    fn descend(&self, height: usize, mut number: usize) -> usize {
        for level in self.levels[..height].iter().rev() {
            number = number * WORD + lowest(level[number]);
        }
        number
    }
}

fn lowest(word: u64) -> usize {
    word.trailing_zeros() as usize
}

const WORD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(
            limit in prop_oneof![1usize..200, 4000usize..5000, 260_000usize..270_000],
            calls in prop::collection::vec((any::<usize>(), any::<bool>()), 1..300),
        ) {
            let mut set = OpenSet::new(limit);
            let mut model = BTreeSet::new();
            for (number, present) in calls {
                let number = number % limit;
                set.set(number, present);
                if present { model.insert(number) } else { model.remove(&number) };
                for from in [0, number, number + 1, number / 2, limit] {
                    prop_assert_eq!(set.next(from), model.range(from..).next().copied());
                    for to in [from, limit, from + number].map(|to| to.max(from)) {
                        let expected = model.range(from..to).count();
                        prop_assert_eq!(set.count(from, to) as usize, expected);
                    }
                }
            }
        }
    }
}
