//! Rendezvous hashing (Thaler and Ravishankar, 1996): everybody bids for a client, the best has it.
//!
//! A bid is drawn from the hash of client and member alone, so one that leaves takes nothing but
//! its own clients with it, and gets just those back. With weights a bid is `weight / -log(h)`, `h`
//! uniform between 0 and 1 (Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005):
//! the chance to win is the weight's part, exactly. Everybody is looked at: the cost is linear.

use super::PickKey;
use super::hash;
use super::logarithm::log2;
use super::members::Members;

/// The best bidder for a client among those admitted.
pub(super) fn best(
    members: &Members,
    key: PickKey,
    admits: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut best: Option<(usize, u64, u64)> = None;
    for index in 0..members.len() {
        let weight = u64::from(members.weight(index));
        let draw = draw(members, key, index);
        let beats = |price: u64| {
            best.is_none_or(|(_, least, of)| {
                u128::from(price) * u128::from(of) < u128::from(least) * u128::from(weight)
            })
        };
        if weight > 0 && beats(at_least(draw)) && admits(index) {
            let price = price(draw);
            if beats(price) {
                best = Some((index, price, weight));
            }
        }
    }
    best.map(|(index, ..)| index)
}

/// What client and member drew together: the same everywhere, and evenly spread.
pub(super) fn draw(members: &Members, key: PickKey, index: usize) -> u64 {
    hash::mix(key.0 ^ members.identity(index))
}

/// The price a draw stands for, `-log2(draw / 2^64)`, in units of 2^-56; the lowest price for the
/// weight wins.
pub(super) fn price(draw: u64) -> u64 {
    (64 << 56) - log2(draw.max(1))
}

/// A price never above [`price`] and cheaply had, because `-ln(1 - x) >= x`: few draws are worth
/// their logarithm.
fn at_least(draw: u64) -> u64 {
    !draw >> 8
}

#[cfg(test)]
mod tests {
    use super::super::testing::members;
    use super::*;
    use proptest::prelude::*;

    fn winner(members: &Members, client: u64) -> usize {
        best(members, PickKey(hash::mix(client)), |_| true).unwrap()
    }

    #[test]
    fn a_client_finds_its_backend_in_every_version() {
        let members = Members::new(&members(&[1, 2, 3, 4, 5]));
        let winners: Vec<usize> = (0..20).map(|client| winner(&members, client)).collect();
        assert_eq!(winners, [2, 1, 4, 3, 0, 3, 2, 2, 1, 2, 4, 1, 4, 4, 2, 1, 4, 2, 3, 2]);
    }

    #[test]
    fn clients_follow_weights() {
        let weights = [1, 2, 0, 3, 10, 4];
        let members = Members::new(&members(&weights));
        let mut counts = [0u32; 6];
        for client in 0..20_000 {
            counts[winner(&members, client)] += 1;
        }
        for (&weight, count) in weights.iter().zip(counts) {
            let due = f64::from(weight) * 1000.0;
            // Five standard deviations of a binomial count.
            assert!((f64::from(count) - due).abs() <= 5.0 * due.sqrt(), "{counts:?}");
        }
    }

    proptest! {
        /// More weight only draws clients to itself; order and company do not matter.
        #[test]
        fn only_the_clients_of_the_changed_one_move(
            mut weights in prop::collection::vec(0u16..6, 2..9),
            changed in any::<prop::sample::Index>(),
            weight in 0u16..9,
        ) {
            weights.push(1);
            let changed = changed.index(weights.len());
            let before = Members::new(&members(&weights));
            let rose = weight > weights[changed];
            weights[changed] = weight;
            prop_assume!(weights.iter().any(|&weight| weight > 0));
            let after = Members::new(&members(&weights));
            for client in 0..300 {
                let (was, is) = (winner(&before, client), winner(&after, client));
                let mover = if rose { is } else { was };
                prop_assert!(was == is || mover == changed);
            }
        }

        #[test]
        fn the_cheap_price_is_never_the_higher_one(draw: u64, shift in 0u32..64) {
            for draw in [draw, draw >> shift, !(draw >> shift)] {
                prop_assert!(at_least(draw) <= price(draw));
            }
        }
    }
}
