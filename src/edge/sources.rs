//! How many connections each source has, and whether it may have another.
//!
//! A source is an IPv4 address, or the /64 of an IPv6 address, because that is what one subscriber
//! has to choose from. There is an entry for each source with a live connection and none for any
//! other; the table shrinks again after a crowd. Its hasher has a random key, so nobody can choose
//! addresses that all fall into one bucket.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};

/// Counts of connections by source; none of them grows above `most`.
#[derive(Debug)]
pub struct Sources {
    counts: HashMap<IpAddr, u32>,
    most: u32,
}

impl Sources {
    /// No connection yet; each source may have `most`.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self { counts: HashMap::new(), most }
    }

    /// Counts a connection from this address; false, and nothing counted, if its source has as
    /// many as it may.
    pub fn enter(&mut self, address: IpAddr) -> bool {
        match self.counts.entry(source(address)) {
            Entry::Vacant(place) if self.most > 0 => {
                place.insert(1);
                true
            }
            Entry::Occupied(mut count) if *count.get() < self.most => {
                *count.get_mut() += 1;
                true
            }
            Entry::Vacant(_) | Entry::Occupied(_) => false,
        }
    }

    /// Counts a connection that is there already, whatever its source may have.
    pub fn count(&mut self, address: IpAddr) {
        *self.counts.entry(source(address)).or_default() += 1;
    }

    /// How many each source may have.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Each source may have so many from now on; those that have more keep them.
    pub fn set_most(&mut self, most: u32) {
        self.most = most;
    }

    /// A connection that was counted has ended.
    ///
    /// # Panics
    /// If none from this address was counted.
    pub fn leave(&mut self, address: IpAddr) {
        let Entry::Occupied(mut count) = self.counts.entry(source(address)) else {
            unreachable!("a connection ends that was never counted");
        };
        if *count.get() > 1 {
            *count.get_mut() -= 1;
            return;
        }
        count.remove();
        if self.counts.capacity() > SMALL && self.counts.len() < self.counts.capacity() / 8 {
            self.counts.shrink_to(self.counts.len() * 2);
        }
    }

    /// How many sources have a connection.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is no connection.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// Which source an address belongs to.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> HOST_BITS << HOST_BITS).into(),
    }
}

/// What is left of an IPv6 address behind its /64.
const HOST_BITS: u32 = 64;
/// A table for so few is not worth shrinking.
const SMALL: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_a_64() {
        let mut sources = Sources::new(1);
        assert!(sources.enter(ip("192.0.2.1")) && sources.enter(ip("192.0.2.2")));
        assert!(!sources.enter(ip("::ffff:192.0.2.1")), "the same one, in other clothes");
        assert!(sources.enter(ip("2001:db8:0:1::1")));
        assert!(!sources.enter(ip("2001:db8:0:1:ffff::9")), "the same /64");
        assert!(sources.enter(ip("2001:db8:0:2::1")), "the next /64");
        sources.leave(ip("2001:db8:0:1:1::"));
        assert!(sources.enter(ip("2001:db8:0:1::3")), "its place is free again");
    }

    #[test]
    #[should_panic(expected = "never counted")]
    fn one_that_never_came_cannot_leave() {
        Sources::new(1).leave(ip("192.0.2.1"));
    }

    #[test]
    fn the_table_shrinks_after_a_crowd() {
        let mut sources = Sources::new(1);
        let address = |bits: u32| IpAddr::from(Ipv4Addr::from_bits(bits));
        assert!((0..10_000).all(|bits| sources.enter(address(bits))));
        (0..9_990).for_each(|bits| sources.leave(address(bits)));
        assert!(sources.counts.capacity() <= SMALL, "{}", sources.counts.capacity());
        assert!(!sources.enter(address(9_995)), "those who are left are still counted");
    }

    proptest! {
        #[test]
        fn counts_like_a_list(
            most in 0u32..4,
            steps in prop::collection::vec((0u32..6, any::<bool>()), 0..200),
        ) {
            let mut sources = Sources::new(most);
            let mut list: Vec<u32> = Vec::new();
            for (who, leaves) in steps {
                let address = IpAddr::from(Ipv4Addr::from_bits(who));
                let count = list.iter().filter(|&&other| other == who).count();
                if leaves && count > 0 {
                    let at = list.iter().position(|&other| other == who).unwrap();
                    list.swap_remove(at);
                    sources.leave(address);
                } else {
                    let may = count < most as usize;
                    prop_assert_eq!(sources.enter(address), may);
                    list.extend(may.then_some(who));
                }
                let mut distinct = list.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(sources.len(), distinct.len(), "an entry for each, none besides");
            }
        }
    }
}
