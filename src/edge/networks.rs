//! Sets of networks: is this address in one of them?
//!
//! The networks become sorted ranges that do not overlap, so a look-up is one binary search: ten
//! comparisons for a thousand networks, and for a handful no more than a walk over them would
//! take. Building costs a sort. IPv4 and IPv6 are kept apart, so `::/0` says nothing about IPv4; an
//! IPv4 address in IPv6 clothes (`::ffff:a.b.c.d`, as a socket for both families shows it) is an
//! IPv4 address.

use std::net::IpAddr;

/// A set of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    /// The set of these networks, each an address and the length of its prefix in bits. Bits of an
    /// address beyond its prefix do not matter.
    pub fn new(networks: impl IntoIterator<Item = (IpAddr, u8)>) -> Self {
        let mut set = Self::default();
        for (address, prefix) in networks {
            match (address, address.to_canonical()) {
                // A part of IPv4, written as IPv6.
                (IpAddr::V6(_), IpAddr::V4(v4)) if prefix >= MAPPED => {
                    set.add_v4(v4.to_bits(), prefix - MAPPED);
                }
                (IpAddr::V4(v4), _) => set.add_v4(v4.to_bits(), prefix),
                (IpAddr::V6(v6), _) => {
                    let mask = u128::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
                    set.v6.push((v6.to_bits() & !mask, v6.to_bits() | mask));
                }
            }
        }
        Self { v4: merged(set.v4), v6: merged(set.v6) }
    }

    /// Whether the address is in one of the networks.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(v4) => is_within(&self.v4, v4.to_bits()),
            IpAddr::V6(v6) => is_within(&self.v6, v6.to_bits()),
        }
    }

    /// Whether there is no network in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    fn add_v4(&mut self, bits: u32, prefix: u8) {
        let mask = u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
        self.v4.push((bits & !mask, bits | mask));
    }
}

/// Sorted, with those that overlap made one.
fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let overlaps = next.0 <= last.1;
        if overlaps {
            last.1 = last.1.max(next.1);
        }
        overlaps
    });
    ranges
}

fn is_within<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let beyond = ranges.partition_point(|range| range.0 <= value);
    beyond > 0 && value <= ranges[beyond - 1].1
}

/// The prefix of IPv4 within IPv6 (RFC 4291, section 2.5.5.2).
const MAPPED: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn set(networks: &[(&str, u8)]) -> Networks {
        Networks::new(networks.iter().map(|(address, prefix)| (address.parse().unwrap(), *prefix)))
    }

    fn has(networks: &Networks, address: &str) -> bool {
        networks.contains(address.parse().unwrap())
    }

    #[test]
    fn the_edges_of_a_network_belong_to_it_and_their_neighbours_do_not() {
        let networks = set(&[("10.0.0.0", 8), ("192.0.2.7", 32), ("2001:db8::", 32)]);
        for inside in ["10.0.0.0", "10.255.255.255", "192.0.2.7", "2001:db8::", "2001:db8:ffff::1"]
        {
            assert!(has(&networks, inside), "{inside}");
        }
        for outside in ["9.255.255.255", "11.0.0.0", "192.0.2.6", "192.0.2.8", "2001:db9::", "::1"]
        {
            assert!(!has(&networks, outside), "{outside}");
        }
    }

    #[test]
    fn everything_of_one_family_is_nothing_of_the_other() {
        let (v4, v6) = (set(&[("0.0.0.0", 0)]), set(&[("::", 0)]));
        assert!(has(&v4, "1.2.3.4") && !has(&v4, "2001:db8::1"));
        assert!(has(&v6, "2001:db8::1") && !has(&v6, "1.2.3.4"));
    }

    #[test]
    fn ipv4_in_ipv6_clothes_is_ipv4() {
        let networks = set(&[("10.0.0.0", 8), ("::ffff:192.0.2.0", 120)]);
        assert!(has(&networks, "::ffff:10.1.2.3") && has(&networks, "192.0.2.200"));
        assert!(!has(&networks, "::ffff:11.0.0.0") && !has(&networks, "192.0.3.0"));
    }

    #[test]
    fn an_empty_set_has_nobody_in_it() {
        assert!(Networks::default().is_empty() && !has(&Networks::default(), "127.0.0.1"));
        assert!(!set(&[("::", 0)]).is_empty() && !set(&[("0.0.0.0", 0)]).is_empty());
    }

    /// What a list means, one by one.
    fn is_listed(list: &[(IpAddr, u8)], address: IpAddr) -> bool {
        let same =
            |a: u128, b: u128, bits: u8, width: u8| bits == 0 || (a ^ b) >> (width - bits) == 0;
        list.iter().any(|(network, prefix)| match (network, address) {
            (IpAddr::V4(n), IpAddr::V4(a)) => {
                same(n.to_bits().into(), a.to_bits().into(), *prefix, 32)
            }
            (IpAddr::V6(n), IpAddr::V6(a)) => same(n.to_bits(), a.to_bits(), *prefix, 128),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        })
    }

    proptest! {
        /// Addresses close to one another, so that networks overlap, nest and touch.
        #[test]
        fn a_set_means_what_its_list_says(
            v4 in prop::collection::vec((0u32..600, 22u8..=32), 0..40),
            v6 in prop::collection::vec((0u128..600, 118u8..=128), 0..40),
        ) {
            let base = 0x2001_0db8_u128 << 96;
            let v4 = v4.into_iter().map(|(bits, prefix)| {
                (IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + bits)), prefix)
            });
            let v6 = v6.into_iter().map(|(bits, prefix)| {
                (IpAddr::from(Ipv6Addr::from_bits(base + bits)), prefix)
            });
            let list: Vec<(IpAddr, u8)> = v4.chain(v6).collect();
            let networks = Networks::new(list.iter().copied());
            for offset in 0..1100_u32 {
                let v4 = Ipv4Addr::from_bits(0x0a00_0000 + offset).into();
                prop_assert_eq!(networks.contains(v4), is_listed(&list, v4));
                let v6 = Ipv6Addr::from_bits(base + u128::from(offset)).into();
                prop_assert_eq!(networks.contains(v6), is_listed(&list, v6));
            }
        }
    }
}
