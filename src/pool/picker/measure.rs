//! What an algorithm goes by: the number it compares, for one member that could be chosen.
//!
//! Facts only, in a few bytes, because they are noted with every choice. What can be worked out
//! later from what is noted beside it (a load from connections and weight, a bid from two names) is
//! not worked out before somebody asks.

use super::PickKey;
use super::{hash, rendezvous};

/// What an algorithm goes by, of one open member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// In turn: so many turns of others come before its own. `u32::MAX`: more than are counted.
    Turns(u32),
    /// Its connections with the new one, over its weight: the least is chosen.
    Load,
    /// It was drawn; of two that are drawn, the one with fewer connections for its weight is taken.
    Drawn,
    /// It was not drawn.
    NotDrawn,
    /// What [`bid`] says: the lowest has the client.
    Bid,
    /// Whom a table leads to.
    Table,
    /// It would have more than its part of all connections.
    BeyondPart,
    /// It takes only a share of its own clients now, and this one is not among them.
    BeyondShare,
    /// So many microseconds are expected of it; times its connections over its weight, the least is
    /// chosen.
    Expected(u32),
    /// The same of one whose time is not known, or not any more.
    Assumed(u32),
    /// Its place in the list, from 0.
    Place(u32),
}

/// What a backend of this name and weight bids for a client: the lowest bid has it. `None`: it has
/// no weight.
#[must_use]
pub fn bid(key: PickKey, identity: u64, weight: u16) -> Option<u64> {
    rendezvous::price(hash::mix(key.0 ^ identity)).checked_div(weight.into())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::super::testing::{members, pick, picker, picks};
    use super::super::{Picker, Policy, WHOLE};
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    fn measures(picker: &Picker, key: PickKey, count: usize) -> Vec<Measure> {
        let now = Instant::now();
        (0..count).map(|index| picker.measure(index, key, now)).collect()
    }

    #[test]
    fn turns_are_counted_from_the_one_just_taken_and_closed_ones_have_none() {
        let mut picker = picker(Policy::RoundRobin, &[1, 1, 1, 1]);
        picker.set_open(1, false);
        assert_eq!(pick(&mut picker, &[]), Some(0));
        let turns = measures(&picker, PickKey::LOCAL, 4);
        assert_eq!([turns[0], turns[2], turns[3]], [2, 0, 1].map(Measure::Turns));
        for (wait, next) in [(0, 2), (1, 3), (2, 0)] {
            let Measure::Turns(turns) = turns[next] else { panic!("it goes by turns") };
            assert_eq!(turns, wait);
            assert_eq!(pick(&mut picker, &[]), Some(next));
        }
    }

    #[test]
    fn a_turn_that_is_far_away_is_not_counted() {
        let mut picker = picker(Policy::RoundRobin, &[1; 10_000]);
        picks(&mut picker, 1);
        assert_eq!(picker.measure(1, PickKey::LOCAL, Instant::now()), Measure::Turns(0));
        assert_eq!(picker.measure(9999, PickKey::LOCAL, Instant::now()), Measure::Turns(u32::MAX));
    }

    #[test]
    fn only_the_two_that_were_drawn_are_called_so() {
        let mut picker = picker(Policy::TwoChoices, &[1; 6]);
        for _ in 0..50 {
            let picked = pick(&mut picker, &[]).unwrap();
            let all = measures(&picker, PickKey::LOCAL, 6);
            assert_eq!(all.iter().filter(|&&measure| measure == Measure::Drawn).count(), 2);
            assert_eq!(all[picked], Measure::Drawn);
        }
    }

    #[test]
    fn an_expected_time_shrinks_and_an_unknown_one_is_half_the_typical() {
        let (mut picker, now) = (picker(Policy::ResponseTime, &[1, 1]), Instant::now());
        picker.sample(0, Duration::from_millis(8), now);
        picker.pick(PickKey::LOCAL, now, &[]);
        let measure = |index, later| picker.measure(index, PickKey::LOCAL, now + later);
        assert_eq!(measure(0, Duration::ZERO), Measure::Expected(8000));
        assert_eq!(measure(1, Duration::ZERO), Measure::Assumed(4000));
        let Measure::Expected(halved) = measure(0, Duration::from_secs(5)) else { panic!() };
        assert!(halved.abs_diff(4000) < 2, "{halved}");
    }

    #[test]
    fn who_is_passed_over_by_the_hash_is_told_why() {
        let policy = Policy::SourceHash { balance_factor: Some(101) };
        let client = PickKey::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)));
        let mut picker = Picker::new(policy, &members(&[1, 1]), 1);
        let home = picker.pick(client, Instant::now(), &[]).unwrap();
        assert_eq!(measures(&picker, client, 2), [Measure::Bid; 2]);
        picker.set_active(home, 5);
        assert_eq!(picker.pick(client, Instant::now(), &[]), Some(1 - home));
        assert_eq!(measures(&picker, client, 2)[home], Measure::BeyondPart);
        picker.set_active(home, 0);
        picker.set_share(home, WHOLE / 64);
        assert_eq!(picker.pick(client, Instant::now(), &[]), Some(1 - home));
        assert_eq!(measures(&picker, client, 2)[home], Measure::BeyondShare);
        let mut large = Picker::new(policy, &members(&[1; 200]), 1);
        large.pick(client, Instant::now(), &[]);
        assert_eq!(large.measure(3, client, Instant::now()), Measure::Table);
    }

    proptest! {
        /// What is worked out later is what was compared then.
        #[test]
        fn the_lowest_bid_has_the_client(
            weights in prop::collection::vec(1u16..9, 2..9),
            address in any::<u32>(),
        ) {
            let key = PickKey::of(IpAddr::V4(Ipv4Addr::from(address)));
            let policy = Policy::SourceHash { balance_factor: None };
            let mut picker = Picker::new(policy, &members(&weights), 1);
            let picked = picker.pick(key, Instant::now(), &[]);
            let bids = weights.iter().enumerate()
                .map(|(index, &weight)| bid(key, picker.identity(index), weight));
            let lowest = bids.enumerate().min_by_key(|&(_, bid)| bid).map(|(index, _)| index);
            prop_assert_eq!(picked, lowest);
        }

        /// A copy makes the choices that the original goes on to make, and changes none of them.
        #[test]
        fn a_copy_chooses_as_the_original_would(
            weights in prop::collection::vec(0u16..5, 1..9),
            before in 0usize..9,
            policy in prop::sample::select(vec![
                Policy::RoundRobin,
                Policy::LeastConnections,
                Policy::TwoChoices,
                Policy::ResponseTime,
                Policy::First,
                Policy::SourceHash { balance_factor: None },
            ]),
        ) {
            let mut picker = picker(policy, &weights);
            let now = Instant::now();
            let next = |picker: &mut Picker| picker.pick(PickKey::LOCAL, now, &[]);
            for _ in 0..before {
                next(&mut picker);
            }
            let mut copy = picker.clone();
            let foreseen: Vec<_> = (0..9).map(|_| next(&mut copy)).collect();
            let made: Vec<_> = (0..9).map(|_| next(&mut picker)).collect();
            prop_assert_eq!(foreseen, made);
        }
    }
}
