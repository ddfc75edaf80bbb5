//! The better of two: draw two members by weight, take the less loaded.
//!
//! Two draws do nearly as well as looking at everybody (Mitzenmacher, "The power of two choices in
//! randomized load balancing", 1996), and several balancers that see only their own connections do
//! not all run to the same backend, as they would with least connections. The second draw leaves
//! out the first, so that two members are really compared; among equals the first drawn wins. What
//! is compared is the load they have, without the new connection: with it, weights would count
//! twice among idle members, once in the draw and once more here.

use super::fenwick::Fenwick;
use super::members::Members;
use super::{Algorithm, Fact, Measure, Request};
use crate::pool::random::Random;

/// The weights to draw from.
#[derive(Debug, Clone)]
pub(super) struct TwoChoices {
    urn: Fenwick,
    random: Random,
    /// By the last pick.
    drawn: [Option<usize>; 2],
}

impl TwoChoices {
    pub(super) fn new(members: &Members, seed: u64) -> Self {
        let mut urn = Fenwick::new();
        for index in 0..members.len() {
            urn.set(index, members.pull(index));
        }
        Self { urn, random: Random::new(seed), drawn: [None; 2] }
    }

    /// Draws a member and takes it out.
    fn draw(&mut self) -> Option<usize> {
        let total = self.urn.total();
        if total == 0 {
            return None;
        }
        let index = self.urn.find(self.random.below(total));
        self.urn.set(index, 0);
        Some(index)
    }
}

impl Algorithm for TwoChoices {
    fn changed(&mut self, members: &Members, index: usize, fact: Fact) {
        match fact {
            Fact::Weight | Fact::Share => self.urn.set(index, members.pull(index)),
            Fact::Active => {}
        }
    }

    fn pick(&mut self, members: &Members, request: &Request<'_>) -> Option<usize> {
        for &index in request.tried {
            self.urn.set(index, 0);
        }
        let first = self.draw();
        let second = first.and_then(|_| self.draw());
        self.drawn = [first, second];
        for &index in first.iter().chain(&second).chain(request.tried) {
            self.urn.set(index, members.pull(index));
        }
        let less = |&index: &usize| members.load_now(index);
        first.into_iter().chain(second).min_by_key(less)
    }

    fn measure(&self, _: &Members, _: &Request<'_>, index: usize) -> Measure {
        if self.drawn.contains(&Some(index)) { Measure::Drawn } else { Measure::NotDrawn }
    }

    fn copy(&self) -> Box<dyn Algorithm> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{active_after, pick, picker, picks};
    use super::super::{Policy, WHOLE};
    use proptest::prelude::*;

    #[test]
    fn the_less_loaded_of_two_is_taken() {
        let mut picker = picker(Policy::TwoChoices, &[1, 1]);
        picker.set_active(0, 1);
        assert_eq!(picks(&mut picker, 50), [1; 50], "both are always drawn");
        picker.set_active(1, 2);
        assert_eq!(picks(&mut picker, 50), [0; 50]);
    }

    #[test]
    fn the_most_loaded_is_never_taken_and_equals_are_all_taken() {
        let mut picker = picker(Policy::TwoChoices, &[1; 10]);
        picker.set_active(3, 1);
        let mut taken = picks(&mut picker, 500);
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn idle_members_are_taken_by_weight() {
        let taken = picks(&mut picker(Policy::TwoChoices, &[4, 2, 1]), 7000);
        let count = |member| taken.iter().filter(|&&index| index == member).count();
        for (member, due) in [(0, 4000), (1, 2000), (2, 1000)] {
            assert!(count(member).abs_diff(due) < 200, "{member}: {} for {due}", count(member));
        }
    }

    #[test]
    fn equal_seeds_make_equal_choices() {
        let same = || picks(&mut picker(Policy::TwoChoices, &[3, 1, 2, 5]), 200);
        assert_eq!(same(), same());
    }

    #[test]
    fn the_peak_stays_close_to_the_mean() {
        let active = active_after(&mut picker(Policy::TwoChoices, &[1; 100]), 10_000);
        let (least, most) = (active.iter().min().unwrap(), active.iter().max().unwrap());
        assert!(*most <= 104 && *least >= 94, "one draw would give 70 to 130: {active:?}");
    }

    #[test]
    fn a_share_counts_as_that_part_of_the_weight() {
        let mut picker = picker(Policy::TwoChoices, &[1; 4]);
        picker.set_share(2, WHOLE / 4);
        let active = active_after(&mut picker, 1300);
        assert!((90..=110).contains(&active[2]), "{active:?}");
    }

    proptest! {
        #[test]
        fn connections_follow_weights(weights in prop::collection::vec(0u16..12, 2..9)) {
            let sum: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
            prop_assume!(weights.iter().filter(|&&weight| weight > 0).count() > 1);
            let active = active_after(&mut picker(Policy::TwoChoices, &weights), sum * 100);
            for (&weight, active) in weights.iter().zip(active) {
                let due = u32::from(weight) * 100;
                // A member that outweighs all others together is drawn always, and nearly always
                // less loaded; one of the others is still drawn each time.
                let heavy = u32::from(weight) * 2 > sum;
                prop_assert!(active.abs_diff(due) <= due / 8 || heavy, "{active} for {due}");
            }
        }

        #[test]
        fn only_open_ones_that_were_not_tried_are_taken(
            open in prop::collection::vec(any::<bool>(), 1..9),
            tried in prop::collection::vec(0usize..9, 0..4),
        ) {
            let mut picker = picker(Policy::TwoChoices, &vec![1; open.len()]);
            for (index, &open) in open.iter().enumerate() {
                picker.set_open(index, open);
            }
            let tried: Vec<usize> = tried.into_iter().filter(|&index| index < open.len()).collect();
            let fits = |index: usize| open[index] && !tried.contains(&index);
            match pick(&mut picker, &tried) {
                Some(index) => prop_assert!(fits(index)),
                None => prop_assert!(!(0..open.len()).any(fits)),
            }
        }
    }
}
