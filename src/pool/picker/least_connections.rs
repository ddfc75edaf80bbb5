//! Least connections: whoever has the fewest for its weight.
//!
//! Compared is `(active + 1) / weight`, the load with the new connection on it; a share counts as
//! that part of the weight, so a backend that has just come back fills up no faster than its share
//! grows. Among equals the one chosen longest ago is next, which makes an idle pool take turns.

use super::members::Members;
use super::tournament::Tournament;
use super::{Algorithm, Fact, Measure, Request};

/// All open members, by load and then by when they were last chosen.
#[derive(Debug, Clone)]
pub(super) struct LeastConnections {
    order: Tournament<(u64, u64)>,
    chosen: Vec<u64>,
    picks: u64,
}

impl LeastConnections {
    pub(super) fn new(members: &Members) -> Self {
        let mut new = Self { order: Tournament::new(), chosen: Vec::new(), picks: 0 };
        for index in 0..members.len() {
            new.seat(members, index);
        }
        new
    }

    fn seat(&mut self, members: &Members, index: usize) {
        if index >= self.chosen.len() {
            self.chosen.resize(index + 1, 0);
        }
        self.order.set(index, members.load(index).map(|load| (load, self.chosen[index])));
    }
}

impl Algorithm for LeastConnections {
    fn changed(&mut self, members: &Members, index: usize, _: Fact) {
        self.seat(members, index);
    }

    fn pick(&mut self, members: &Members, request: &Request<'_>) -> Option<usize> {
        for &index in request.tried {
            self.order.set(index, None);
        }
        let first = self.order.first().map(|(index, _)| index);
        if let Some(index) = first {
            self.picks += 1;
            self.chosen[index] = self.picks;
            self.seat(members, index);
        }
        for &index in request.tried {
            self.seat(members, index);
        }
        first
    }

    fn measure(&self, _: &Members, _: &Request<'_>, _: usize) -> Measure {
        Measure::Load
    }

    fn copy(&self) -> Box<dyn Algorithm> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, fill, pick, picks};
    use super::super::{Picker, Policy, WHOLE};
    use proptest::prelude::*;

    fn picker(weights: &[u16]) -> Picker {
        testing::picker(Policy::LeastConnections, weights)
    }

    /// Of which member, how many connections, whether open, what weight.
    fn fact() -> impl Strategy<Value = (usize, u32, bool, u16)> {
        (any::<usize>(), 0u32..9, any::<bool>(), 0u16..5)
    }

    #[test]
    fn ties_take_turns() {
        let mut picker = picker(&[1, 1, 1]);
        assert_eq!(picks(&mut picker, 6), [0, 1, 2, 0, 1, 2]);
        picker.set_active(1, 1);
        assert_eq!(picks(&mut picker, 4), [0, 2, 0, 2]);
        picker.set_active(1, 0);
        assert_eq!(picks(&mut picker, 1), [1], "chosen longest ago");
    }

    #[test]
    fn a_tried_one_is_left_out_for_that_pick_only() {
        let mut picker = picker(&[1, 1]);
        picker.set_active(1, 9);
        let mut with = |tried: &[usize]| pick(&mut picker, tried);
        assert_eq!(with(&[0]), Some(1));
        assert_eq!(with(&[0, 1, 0]), None);
        assert_eq!(with(&[]), Some(0));
    }

    #[test]
    fn who_comes_back_fills_up_no_faster_than_its_share() {
        let (mut picker, mut active) = (picker(&[1, 1, 1]), [0; 3]);
        picker.set_open(2, false);
        fill(&mut picker, &mut active, 200);
        assert_eq!(active, [100, 100, 0]);
        picker.set_open(2, true);
        picker.set_share(2, WHOLE / 10);
        fill(&mut picker, &mut active, 20);
        assert!((9..=11).contains(&active[2]), "a tenth of the others: {active:?}");
        picker.set_share(2, WHOLE / 2);
        fill(&mut picker, &mut active, 40);
        assert!((48..=54).contains(&active[2]), "half of the others: {active:?}");
    }

    proptest! {
        /// With connections that stay, everybody's number over weight is the same to within one.
        #[test]
        fn connections_follow_weights(
            weights in prop::collection::vec(0u16..12, 1..9),
            rounds in 1u32..20,
        ) {
            let sum: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
            prop_assume!(sum > 0);
            let (mut picker, mut active) = (picker(&weights), vec![0; weights.len()]);
            fill(&mut picker, &mut active, sum * rounds);
            let due: Vec<u32> = weights.iter().map(|&weight| u32::from(weight) * rounds).collect();
            prop_assert_eq!(active, due);
        }

        /// Whatever comes and goes, the choice is the least loaded of the open ones.
        #[test]
        fn nobody_less_loaded_is_passed_over(
            weights in prop::collection::vec(0u16..5, 2..9),
            facts in prop::collection::vec(fact(), 1..60),
        ) {
            let size = weights.len();
            let mut picker = picker(&weights);
            let mut model: Vec<_> = weights.iter().map(|&weight| (0u32, true, weight)).collect();
            for (index, active, open, weight) in facts {
                let index = index % size;
                picker.set_active(index, active);
                picker.set_open(index, open);
                picker.set_weight(index, weight);
                model[index] = (active, open, weight);
                let fits = |&(_, open, weight): &(u32, bool, u16)| open && weight > 0;
                let load = |&(active, _, weight): &(u32, bool, u16)| {
                    f64::from(active + 1) / f64::from(weight)
                };
                let least = model.iter().filter(|m| fits(m)).map(load).reduce(f64::min);
                let picked = pick(&mut picker, &[]);
                prop_assert_eq!(picked.map(|index| load(&model[index])), least);
                prop_assert!(picked.is_none_or(|index| fits(&model[index])));
            }
        }
    }
}
