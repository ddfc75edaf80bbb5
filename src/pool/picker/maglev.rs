//! Maglev's table (Eisenbud and others, "Maglev: a fast and reliable software network load
//! balancer", NSDI 2016, section 3.4): a client is looked up instead of bid for.
//!
//! Members take turns to claim a slot, each in an order of its own that its name decides; turns
//! come by weight. The table depends on names and weights alone, so every replica has the same, and
//! it is not made anew when a member closes: its clients look again with their hash hashed, which
//! spreads them over the others and brings them back. Only a changed weight or list makes a new
//! table, which moves a few clients more than it must; rendezvous hashing moves none, and is used
//! where it is fast enough.

use super::PickKey;
use super::hash;
use super::members::Members;
use super::round_robin::spread;

/// The table: whose each slot is.
#[derive(Debug, Clone)]
pub(super) struct Maglev {
    slots: Vec<u32>,
}

impl Maglev {
    /// The table of these members; empty if none has a weight.
    pub(super) fn new(members: &Members) -> Self {
        let mut order: Vec<usize> =
            (0..members.len()).filter(|&index| members.weight(index) > 0).collect();
        order.sort_unstable_by_key(|&index| members.identity(index));
        if order.is_empty() {
            return Self { slots: Vec::new() };
        }
        let size = size_for(order.len());
        let mut walks: Vec<Walk> =
            order.iter().map(|&index| Walk::new(members.identity(index), size)).collect();
        let mut slots = vec![NOBODY; size];
        for turn in spread(&quotas(members, &order, size)).into_iter().take(size) {
            let turn = turn as usize;
            let slot = walks[turn].claim(&slots);
            slots[slot] = index_of(order[turn]);
        }
        Self { slots }
    }

    /// The first member admitted on a client's way through the table. Gives up after [`LOOKS`].
    pub(super) fn find(&self, key: PickKey, admits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut hash = key.0;
        for _ in 0..LOOKS {
            hash = hash::mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15));
            let index = *self.slots.get(scaled(hash, self.slots.len()))? as usize;
            if admits(index) {
                return Some(index);
            }
        }
        None
    }
}

/// How a member goes through the slots: from an offset, with a skip that meets all of them, because
/// the size is prime.
#[derive(Debug)]
struct Walk {
    at: usize,
    skip: usize,
}

impl Walk {
    fn new(identity: u64, size: usize) -> Self {
        let offset = scaled(hash::mix(identity ^ 0x6f66_6673_6574), size);
        let skip = 1 + scaled(hash::mix(identity ^ 0x736b_6970), size - 1);
        Self { at: offset, skip }
    }

    /// The next slot on the way that is nobody's.
    fn claim(&mut self, slots: &[u32]) -> usize {
        loop {
            let slot = self.at;
            self.at = (self.at + self.skip) % slots.len();
            if slots[slot] == NOBODY {
                return slot;
            }
        }
    }
}

/// How many turns each of the ordered members has: its part of the slots by weight, rounded up, so
/// that they are enough for all slots and everybody has one.
#[expect(clippy::cast_possible_truncation, reason = "no quota is above the number of slots")]
fn quotas(members: &Members, order: &[usize], size: usize) -> Vec<u32> {
    let weight = |&index: &usize| u64::from(members.weight(index));
    let sum: u64 = order.iter().map(weight).sum();
    order.iter().map(|index| (size as u64 * weight(index)).div_ceil(sum) as u32).collect()
}

/// The paper's rule: a hundred slots for each member keep the shares even to one in a hundred. The
/// sizes are primes close to powers of two.
fn size_for(members: usize) -> usize {
    let largest = SIZES[SIZES.len() - 1];
    assert!(members < largest, "{members} members are more than any pool has");
    SIZES.into_iter().find(|size| size / 100 >= members).unwrap_or(largest)
}

#[expect(clippy::cast_possible_truncation, reason = "the product's upper half is below the size")]
fn scaled(hash: u64, size: usize) -> usize {
    ((u128::from(hash) * size as u128) >> 64) as usize
}

#[expect(clippy::cast_possible_truncation, reason = "a pool has far fewer than 2^32 backends")]
fn index_of(member: usize) -> u32 {
    member as u32
}

/// How often a client looks for an open member before everybody bids for it.
const LOOKS: usize = 32;
const NOBODY: u32 = u32::MAX;
const SIZES: [usize; 7] = [65_537, 131_071, 262_147, 524_287, 1_048_573, 2_097_143, 16_777_213];

#[cfg(test)]
mod tests {
    use super::super::testing::members;
    use super::*;

    fn slots_of(maglev: &Maglev, members: usize) -> Vec<usize> {
        let mut counts = vec![0; members];
        for &owner in &maglev.slots {
            counts[owner as usize] += 1;
        }
        counts
    }

    #[test]
    fn every_size_is_prime() {
        for size in SIZES {
            assert!((2..).take_while(|d| d * d <= size).all(|d| size % d != 0), "{size}");
        }
    }

    #[test]
    fn slots_follow_weights() {
        let weights: Vec<u16> = (0..200).map(|index| index % 5 * 50).collect();
        let maglev = Maglev::new(&Members::new(&members(&weights)));
        let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        for (slots, &weight) in slots_of(&maglev, 200).into_iter().zip(&weights) {
            let due = f64::from(weight) / sum * maglev.slots.len() as f64;
            assert!((slots as f64 - due).abs() <= due / 100.0 + 1.0, "{slots} of {due}");
        }
    }

    #[test]
    fn the_least_of_weights_has_a_slot() {
        let mut weights = vec![256; 655];
        weights.extend([1, 0]);
        let counts = slots_of(&Maglev::new(&Members::new(&members(&weights))), 657);
        assert_eq!(counts[655..], [1, 0]);
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let mut list = members(&[1, 5, 2, 9, 1, 1]);
        let table = |list: &[super::super::Member]| {
            let (members, maglev) = (Members::new(list), Maglev::new(&Members::new(list)));
            let identity = |&index: &u32| members.identity(index as usize);
            maglev.slots.iter().map(identity).collect::<Vec<_>>()
        };
        let before = table(&list);
        list.reverse();
        assert!(before == table(&list));
    }

    #[test]
    fn few_clients_move_beyond_those_that_must() {
        let mut weights = vec![1; 200];
        let before = Maglev::new(&Members::new(&members(&weights)));
        weights[77] = 0;
        let after = Maglev::new(&Members::new(&members(&weights)));
        let (mut must, mut more) = (0, 0);
        for (was, is) in before.slots.iter().zip(&after.slots) {
            if *was == 77 {
                must += 1
            } else if was != is {
                more += 1
            }
        }
        assert!((320..=335).contains(&must), "{must} slots were the leaver's");
        assert!(more * 25 < before.slots.len(), "{more} others moved");
    }
}
