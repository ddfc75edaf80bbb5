//! The first that may be chosen: one backend is filled before the next gets anything.
//!
//! What fills a backend is its limit of connections, at which the pool closes it. Weights do not
//! matter, except that a weight or a share of 0 takes nothing new.

use super::members::Members;
use super::open_set::OpenSet;
use super::{Algorithm, Fact, Measure, Request};

/// The open members by their place in the list, which may change while indices do not.
#[derive(Debug, Clone)]
pub(super) struct First {
    open: OpenSet,
    /// Who stands at each place.
    order: Vec<usize>,
    /// Where each member stands; one that is in no list stands nowhere.
    places: Vec<Option<usize>>,
}

impl First {
    pub(super) fn new(members: &Members) -> Self {
        Self::over(members, (0..members.len()).collect())
    }

    fn over(members: &Members, order: Vec<usize>) -> Self {
        let mut first =
            Self { open: OpenSet::new(order.len()), places: vec![None; members.len()], order };
        for place in 0..first.order.len() {
            let index = first.order[place];
            first.places[index] = Some(place);
            first.open.set(place, members.is_open(index));
        }
        first
    }

    /// Puts a member behind all others.
    fn append(&mut self, members: &Members, index: usize) {
        let mut order = std::mem::take(&mut self.order);
        order.retain(|&other| other != index);
        order.push(index);
        *self = Self::over(members, order);
    }
}

impl Algorithm for First {
    fn changed(&mut self, members: &Members, index: usize, fact: Fact) {
        let place = self.places.get(index).copied();
        match (fact, place) {
            (Fact::Weight | Fact::Share, Some(place)) => {
                if let Some(place) = place {
                    self.open.set(place, members.is_open(index));
                }
            }
            (Fact::Weight | Fact::Share, None) => self.append(members, index),
            (Fact::Active, _) => {}
        }
    }

    fn replaced(&mut self, members: &Members, index: usize) {
        self.append(members, index);
    }

    fn arranged(&mut self, members: &Members, order: &[usize]) {
        *self = Self::over(members, order.to_vec());
    }

    fn pick(&mut self, _: &Members, request: &Request<'_>) -> Option<usize> {
        let mut from = 0;
        loop {
            let place = self.open.next(from)?;
            let index = self.order[place];
            if !request.tried.contains(&index) {
                return Some(index);
            }
            from = place + 1;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a pool has far fewer than 2^32 backends")]
    fn measure(&self, _: &Members, _: &Request<'_>, index: usize) -> Measure {
        Measure::Place(self.places[index].map_or(u32::MAX, |place| place as u32))
    }

    fn copy(&self) -> Box<dyn Algorithm> {
        Box::new(self.clone())
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

    #[test]
    fn the_order_of_the_list_can_change() {
        let mut picker = picker(Policy::First, &[1, 1, 1]);
        picker.arrange(&[2, 0]);
        assert_eq!(pick(&mut picker, &[]), Some(2));
        assert_eq!(pick(&mut picker, &[2]), Some(0));
        assert_eq!(pick(&mut picker, &[2, 0]), None, "who is in no list is never taken");
        picker.replace(1, Member::new("other", 1));
        assert_eq!(pick(&mut picker, &[2, 0]), None, "it is closed at first");
        picker.set_open(1, true);
        assert_eq!(pick(&mut picker, &[2, 0]), Some(1), "it stands behind the others");
        assert_eq!(pick(&mut picker, &[]), Some(2));
    }
}
