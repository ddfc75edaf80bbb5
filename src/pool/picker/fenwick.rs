//! Drawing by weight: a Fenwick tree (Fenwick, 1994) of the weights of all members.
//!
//! Each node holds the sum over a power-of-two stretch before it, so changing a weight and finding
//! whose weight covers a number take one walk of the tree each.

/// Weights that are drawn from.
#[derive(Debug, Clone)]
pub(super) struct Fenwick {
    weights: Vec<u32>,
    /// Counted from 1; as many as the weights, rounded up to a power of two.
    sums: Vec<u64>,
    total: u64,
}

impl Fenwick {
    pub(super) fn new() -> Self {
        Self { weights: Vec::new(), sums: vec![0; 2], total: 0 }
    }

    /// Gives a member a weight.
    pub(super) fn set(&mut self, index: usize, weight: u32) {
        if index >= self.weights.len() {
            self.grow(index + 1);
        }
        let before = std::mem::replace(&mut self.weights[index], weight);
        self.shift(index, before, weight);
        self.total = self.total + u64::from(weight) - u64::from(before);
    }

    /// The sum of all weights.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whose weight covers a number below the total, laid end to end.
    pub(super) fn find(&self, mut number: u64) -> usize {
        assert!(number < self.total, "{number} lies beyond all weights");
        let mut before = 0;
        let mut step = self.sums.len() - 1;
        while step > 0 {
            let sum = self.sums.get(before + step).copied().unwrap_or(u64::MAX);
            if sum <= number {
                number -= sum;
                before += step;
            }
            step /= 2;
        }
        before
    }

    fn shift(&mut self, index: usize, before: u32, after: u32) {
        let mut node = index + 1;
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = *sum + u64::from(after) - u64::from(before);
            node += node & node.wrapping_neg();
        }
    }

    fn grow(&mut self, members: usize) {
        self.weights.resize(members, 0);
        if members >= self.sums.len() {
            self.sums = vec![0; members.next_power_of_two() + 1];
            for index in 0..members {
                self.shift(index, 0, self.weights[index]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_finds_the_weight_that_covers_it(
            calls in prop::collection::vec((0usize..40, 0u32..5), 1..100),
        ) {
            let (mut fenwick, mut model) = (Fenwick::new(), [0; 40]);
            for (index, weight) in calls {
                fenwick.set(index, weight);
                model[index] = weight;
                let laid_out = model.iter().enumerate();
                let owners: Vec<usize> =
                    laid_out.flat_map(|(index, &weight)| vec![index; weight as usize]).collect();
                prop_assert_eq!(fenwick.total(), owners.len() as u64);
                for (number, owner) in (0..).zip(owners) {
                    prop_assert_eq!(fenwick.find(number), owner);
                }
            }
        }
    }
}
