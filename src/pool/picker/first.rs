//! The first that may be chosen: one backend is filled before the next gets anything.
//!
//! What fills a backend is its limit of connections, at which the pool closes it. Weights do not
//! matter, except that a weight or a share of 0 takes nothing new.

use super::members::Members;
use super::open_set::OpenSet;
use super::{Algorithm, Fact, Request};

/// The open members in order.
#[derive(Debug)]
pub(super) struct First {
    open: OpenSet,
    members: usize,
}

impl First {
    pub(super) fn new(members: &Members) -> Self {
        let mut open = OpenSet::new(members.len());
        for index in 0..members.len() {
            open.set(index, members.is_open(index));
        }
        Self { open, members: members.len() }
    }
}

impl Algorithm for First {
    fn changed(&mut self, members: &Members, index: usize, fact: Fact) {
        match fact {
            Fact::Weight | Fact::Share if index < self.members => {
                self.open.set(index, members.is_open(index));
            }
            Fact::Weight | Fact::Share => *self = Self::new(members),
            Fact::Active => {}
        }
    }

    fn pick(&mut self, _: &Members, request: &Request<'_>) -> Option<usize> {
        let mut from = 0;
        loop {
            let index = self.open.next(from)?;
            if !request.tried.contains(&index) {
                return Some(index);
            }
            from = index + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{pick, picker, picks};
    use super::super::{Member, Policy};

    #[test]
    fn each_is_filled_before_the_next() {
        let (mut picker, limits) = (picker(Policy::First, &[1, 0, 5, 1]), [2, 9, 3, 1]);
        let (mut active, mut order) = ([0; 4], Vec::new());
        while let Some(index) = pick(&mut picker, &[]) {
            order.push(index);
            active[index] += 1;
            picker.set_active(index, active[index]);
            picker.set_open(index, active[index] < limits[index]);
        }
        assert_eq!(order, [0, 0, 2, 2, 2, 3]);
        picker.set_open(2, true);
        picker.set_open(0, true);
        assert_eq!(picks(&mut picker, 2), [0, 0], "a freed place in front is taken first");
    }

    #[test]
    fn a_tried_one_is_passed_and_a_new_one_is_last() {
        let mut picker = picker(Policy::First, &[1, 1]);
        assert_eq!(pick(&mut picker, &[0]), Some(1));
        assert_eq!(pick(&mut picker, &[1, 0]), None);
        assert_eq!(picker.add(Member::new("new", 1)), 2);
        assert_eq!(pick(&mut picker, &[1, 0]), Some(2));
        picker.set_weight(0, 0);
        picker.set_share(1, 0);
        assert_eq!(pick(&mut picker, &[]), Some(2));
    }
}
