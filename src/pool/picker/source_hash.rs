//! The same client to the same backend: by the client's address, on every replica, at any time.
//!
//! A client's way goes over *all* members, whoever is open, and ends at the first that may be
//! chosen. So a backend that closes loses its clients to all the others, which lose none, and gets
//! them back when it opens. One with half a share takes half of its own clients, always the same.
//! Small pools let everybody bid ([`rendezvous`]); large ones have a table ([`Maglev`]), until so
//! few are open that a client does not meet one there.
//!
//! With a balance factor nobody takes more than so many percent of its part of all connections
//! (Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", 2017); a client
//! whose backend is that full goes on to the next. Without anybody that fits in all this, the
//! client's first open backend is taken.

use super::maglev::Maglev;
use super::members::Members;
use super::{Algorithm, Fact, Measure, Request, WHOLE, hash, rendezvous};

/// How a client's backend is found.
#[derive(Debug, Clone)]
pub(super) struct SourceHash {
    way: Way,
    balance_factor: Option<u32>,
}

#[derive(Debug, Clone)]
enum Way {
    Bids,
    Table(Maglev),
    /// The list has changed: to be decided at the next pick.
    Open,
}

impl SourceHash {
    pub(super) fn new(members: &Members, balance_factor: Option<u32>) -> Self {
        Self { way: Way::over(members), balance_factor }
    }

    /// Whether a member takes this client without its share or its part of all being exceeded.
    fn suits(&self, members: &Members, request: &Request<'_>, index: usize) -> bool {
        shares(members, request, index) && self.has_room(members, index)
    }

    /// Whether one more connection keeps a member within `factor` percent of its part.
    fn has_room(&self, members: &Members, index: usize) -> bool {
        let total = members.total();
        self.balance_factor.is_none_or(|factor| {
            let limit =
                u128::from(factor) * u128::from(total.active + 1) * u128::from(members.pull(index));
            u128::from(members.active(index)) * 100 * u128::from(total.pull) < limit
        })
    }
}

impl Algorithm for SourceHash {
    fn changed(&mut self, _: &Members, _: usize, fact: Fact) {
        match fact {
            Fact::Weight => self.way = Way::Open,
            Fact::Share | Fact::Active => {}
        }
    }

    fn pick(&mut self, members: &Members, request: &Request<'_>) -> Option<usize> {
        if matches!(self.way, Way::Open) {
            self.way = Way::over(members);
        }
        if members.total().pull == 0 {
            return None;
        }
        let open = |index: usize| members.is_open(index) && !request.tried.contains(&index);
        let fits = |index: usize| open(index) && self.suits(members, request, index);
        let looked_up = match &self.way {
            Way::Table(table) => table.find(request.key, fits),
            Way::Bids | Way::Open => None,
        };
        looked_up
            .or_else(|| rendezvous::best(members, request.key, fits))
            .or_else(|| rendezvous::best(members, request.key, open))
    }

    fn measure(&self, members: &Members, request: &Request<'_>, index: usize) -> Measure {
        if !shares(members, request, index) {
            return Measure::BeyondShare;
        }
        match &self.way {
            _ if !self.has_room(members, index) => Measure::BeyondPart,
            Way::Table(_) => Measure::Table,
            Way::Bids | Way::Open => Measure::Bid,
        }
    }

    fn copy(&self) -> Box<dyn Algorithm> {
        Box::new(self.clone())
    }
}

/// Whether a member takes this client without its share being exceeded.
fn shares(members: &Members, request: &Request<'_>, index: usize) -> bool {
    let share = members.share(index);
    let draw = || hash::mix(rendezvous::draw(members, request.key, index)) >> 56;
    share == WHOLE || draw() < u64::from(share)
}

impl Way {
    fn over(members: &Members) -> Self {
        if members.len() < TABLE_FROM { Self::Bids } else { Self::Table(Maglev::new(members)) }
    }
}

/// The number of members from which on there is a table. With 127 a pick among bids took 17 times
/// one look into the table, though only a microsecond; the table takes 256 KiB at least, some
/// milliseconds to make, and moves a few clients more (2026-11-30, `cargo bench --bench picker`).
const TABLE_FROM: usize = 128;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::super::testing::{self, members};
    use super::super::{Member, PickKey, Picker, Policy};
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Instant;

    fn picker(weights: &[u16]) -> Picker {
        testing::picker(Policy::SourceHash { balance_factor: None }, weights)
    }

    fn client(number: u32) -> PickKey {
        PickKey::of(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)))
    }

    fn homes(picker: &mut Picker, clients: u32) -> Vec<usize> {
        let now = Instant::now();
        (0..clients).map(|number| picker.pick(client(number), now, &[]).unwrap()).collect()
    }

    /// Both ways: bids in a small pool, a table in a large one.
    const SIZES: [usize; 2] = [9, 2 * TABLE_FROM];

    #[test]
    fn a_client_is_at_home_whatever_the_order_of_the_list() {
        for size in SIZES {
            let mut list = members(&vec![1; size]);
            let policy = Policy::SourceHash { balance_factor: None };
            let before = homes(&mut Picker::new(policy, &list, 1), 500);
            list.reverse();
            let after = homes(&mut Picker::new(policy, &list, 2), 500);
            let turned: Vec<usize> = after.into_iter().map(|index| size - 1 - index).collect();
            assert_eq!(before, turned);
        }
    }

    #[test]
    fn only_the_clients_of_a_closed_one_move_and_they_come_back() {
        for size in SIZES {
            let mut picker = picker(&vec![1; size]);
            let before = homes(&mut picker, 3000);
            let gone = before[0];
            picker.set_open(gone, false);
            let during = homes(&mut picker, 3000);
            let mut refuges = vec![0; size];
            for (was, is) in before.iter().zip(&during) {
                assert!(*is != gone && (was == is || *was == gone));
                refuges[*is] += usize::from(*was == gone);
            }
            let spread = refuges.iter().filter(|&&refugees| refugees > 0).count();
            assert!(spread >= 8, "all others take some of its clients: {refuges:?}");
            picker.set_open(gone, true);
            assert_eq!(before, homes(&mut picker, 3000));
        }
    }

    #[test]
    fn a_share_keeps_that_part_of_its_own_clients() {
        for size in SIZES {
            let mut picker = picker(&vec![1; size]);
            let before = homes(&mut picker, 20_000);
            let half = before[0];
            picker.set_share(half, WHOLE / 2);
            let during = homes(&mut picker, 20_000);
            let (mut kept, mut left) = (0, 0);
            for (was, is) in before.iter().zip(&during) {
                assert!(was == is || *was == half, "nobody else's clients move");
                if *was == half {
                    if was == is { kept += 1 } else { left += 1 }
                }
            }
            assert!((kept * 2..kept * 3).contains(&(left + kept + kept / 4)), "{kept}, {left}");
            picker.set_share(half, WHOLE * 3 / 4);
            for (was, is) in during.iter().zip(homes(&mut picker, 20_000)) {
                assert!(*was == is || is == half, "more share only brings clients back");
            }
        }
    }

    #[test]
    fn few_open_ones_among_many_still_find_their_clients() {
        let size = 2 * TABLE_FROM;
        let mut picker = picker(&vec![1; size]);
        for index in 2..size {
            picker.set_open(index, false);
        }
        let at_first = homes(&mut picker, 400).iter().filter(|&&index| index == 0).count();
        assert!((150..=250).contains(&at_first), "{at_first} of 400");
        assert_eq!(picker.pick(client(1), Instant::now(), &[0, 1]), None);
        picker.set_share(0, 0);
        picker.set_share(1, 1);
        assert_eq!(homes(&mut picker, 50), [1; 50], "a small share is no reason to refuse");
    }

    #[test]
    fn a_new_weight_or_member_counts_from_the_next_client_on() {
        for size in SIZES {
            let mut picker = picker(&vec![1; size]);
            let before = homes(&mut picker, 2000);
            let new = picker.add(Member::new("new", 1));
            let after = homes(&mut picker, 2000);
            let moved = before.iter().zip(&after).filter(|(was, is)| was != is).count();
            let came = after.iter().filter(|&&index| index == new).count();
            assert!(came > 0 && moved <= came + 2000 / 25, "{moved} moved for {came}");
            picker.set_weight(new, 0);
            assert_eq!(before, homes(&mut picker, 2000));
        }
    }

    #[test]
    fn mapped_addresses_are_the_same_client() {
        let (v4, v6) = ("192.0.2.7".parse().unwrap(), "::ffff:192.0.2.7".parse().unwrap());
        assert_eq!(PickKey::of(v4), PickKey::of(v6));
        assert_ne!(PickKey::of(v4), PickKey::of("192.0.2.8".parse().unwrap()));
    }

    proptest! {
        /// One address that floods, others, some closed: nobody open gets beyond its bound.
        #[test]
        fn nobody_exceeds_the_balance_factor(
            weights in prop::collection::vec(1u16..9, 2..12),
            clients in prop::collection::vec(0u32..4, 50..400),
            factor in 101u32..300,
            large: bool,
        ) {
            let mut weights = weights;
            if large {
                weights.resize(TABLE_FROM + 3, 3);
            }
            let policy = Policy::SourceHash { balance_factor: Some(factor) };
            let mut picker = testing::picker(policy, &weights);
            picker.set_open(0, false);
            let sum: u32 = weights.iter().skip(1).map(|&weight| u32::from(weight)).sum();
            let mut active = vec![0u32; weights.len()];
            for (number, key) in (1u32..).zip(clients) {
                let index = picker.pick(client(key), Instant::now(), &[]).unwrap();
                active[index] += 1;
                picker.set_active(index, active[index]);
                let bound = (factor * number * u32::from(weights[index])).div_ceil(100 * sum);
                prop_assert!(index != 0 && active[index] <= bound, "{active:?}");
            }
        }
    }

    #[test]
    fn clients_follow_weights_in_a_table_too() {
        let weights: Vec<u16> = (0..4).cycle().take(2 * TABLE_FROM).collect();
        let mut counts = [0u32; 4];
        for home in homes(&mut picker(&weights), 24_000) {
            counts[usize::from(weights[home])] += 1;
        }
        for (count, due) in counts.into_iter().zip([0, 4000, 8000, 12_000]) {
            assert!(count.abs_diff(due) < 300, "{counts:?}");
        }
    }
}
