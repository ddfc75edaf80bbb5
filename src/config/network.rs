//! Networks as operators write them: an IP address and how many of its bits count.
//!
//! The bits that do not count are zero, and IPv4 within IPv6 is IPv4, in networks and in the
//! addresses that are looked up, so equal networks are equal values.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::problem::{Complaint, quote};

/// A range of IP addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The first address of the network, never IPv4 within IPv6.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many leading bits count: 0 to 32, or 0 to 128 for IPv6.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether the network has this address; IPv4 within IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }

    /// The network of this shorter length around this one.
    pub(super) fn widened(&self, prefix: u8) -> Self {
        let prefix = prefix.min(self.prefix);
        Self { address: masked(self.address, prefix), prefix }
    }
}

impl FromStr for Network {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().map_err(|_| not_an_address(text, address))?;
        let address = written.to_canonical();
        let most = bits(written);
        let Some(length) = length else {
            return Ok(Self { address, prefix: bits(address) });
        };
        let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = length.parse::<u8>().ok().filter(|&length| digits && length <= most);
        let Some(prefix) = prefix else {
            let message = format!(
                "{} is not a prefix length of {}",
                quote(length),
                quote(&written.to_string())
            );
            let cure = format!("write a whole number from 0 to {most}, as in \"{written}/{most}\"");
            return Err(Complaint::new(message, cure));
        };
        let first = masked(written, prefix);
        if first != written {
            let message = format!("{} has bits beyond its first {prefix}", quote(text));
            let cure = format!(
                "write \"{first}/{prefix}\" for the network, or \"{written}\" for the address"
            );
            return Err(Complaint::new(message, cure));
        }
        // IPv4 within IPv6 has bits set up to the 96th, so a shorter prefix was refused above.
        let prefix = prefix.saturating_sub(bits(written) - bits(address));
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// A local address to connect from.
pub(super) fn parse_source(text: &str) -> Result<IpAddr, Complaint> {
    let cure = "write an address of this machine without a port, such as \"192.0.2.10\"";
    let ip = text
        .parse::<IpAddr>()
        .map_err(|_| Complaint::new(format!("{} is not an IP address", quote(text)), cure))?;
    let ip = ip.to_canonical();
    let why = match ip {
        _ if ip.is_unspecified() => "is no single address",
        _ if ip.is_multicast() => "is a multicast address",
        IpAddr::V4(ip) if ip.is_broadcast() => "is the broadcast address",
        IpAddr::V6(ip) if ip.is_unicast_link_local() => "belongs to one link, which it cannot name",
        IpAddr::V4(_) | IpAddr::V6(_) => return Ok(ip),
    };
    Err(Complaint::new(format!("{} {why}", quote(text)), cure))
}

fn not_an_address(text: &str, address: &str) -> Complaint {
    let cure = "write a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or a single address";
    if text.is_empty() {
        return Complaint::new("the network is empty", cure);
    }
    Complaint::new(format!("{} is not an IP address", quote(address)), cure)
}

fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address with all bits but the first `prefix` cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(ip) => {
            let mask = !u32::MAX.checked_shr(prefix).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = !u128::MAX.checked_shr(prefix).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|complaint| panic!("{text}: {complaint}"))
    }

    #[test]
    fn networks_are_read_and_print_what_parses_back() {
        for (text, printed) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("192.0.2.1/32", "192.0.2.1/32"),
            ("192.0.2.0/31", "192.0.2.0/31"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("2001:db8:0:0::/64", "2001:db8::/64"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.1", "192.0.2.1/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(network(text).to_string(), printed, "{text}");
            assert_eq!(network(printed), network(text));
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_a_cure() {
        for (text, message, cure) in [
            ("", "the network is empty", "\"10.0.0.0/8\""),
            ("10.0.0.1/8", "bits beyond its first 8", "\"10.0.0.0/8\" for the network"),
            ("10.0.0.1/0", "bits beyond its first 0", "\"0.0.0.0/0\""),
            ("::1/64", "bits beyond its first 64", "\"::1\" for the address"),
            ("::ffff:10.0.0.0/90", "bits beyond its first 90", "for the address"),
            ("10.0.0.0/33", "`33` is not a prefix length", "from 0 to 32"),
            ("::/129", "`129` is not a prefix length", "from 0 to 128"),
            ("::/256", "`256` is not a prefix length", "from 0 to 128"),
            ("10.0.0.0/", "`` is not a prefix length", "from 0 to 32"),
            ("10.0.0.0/-8", "`-8` is not a prefix length", "from 0 to 32"),
            ("10.0.0.0/8/8", "`8/8` is not a prefix length", "from 0 to 32"),
            ("10.0.0.0/255.0.0.0", "is not a prefix length", "from 0 to 32"),
            ("10.0.0/8", "`10.0.0` is not an IP address", "a single address"),
            ("10.0.0.0:80", "not an IP address", "a single address"),
            ("[::1]/128", "not an IP address", "a single address"),
            ("fe80::1%2/128", "not an IP address", "a single address"),
            ("localhost", "not an IP address", "a single address"),
        ] {
            let complaint = text.parse::<Network>().expect_err(text);
            assert!(complaint.message.contains(message), "{text}: {complaint}");
            assert!(complaint.cure.contains(cure), "{text}: {complaint}");
        }
    }

    #[test]
    fn the_edges_are_inside_and_their_neighbours_outside() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("192.0.2.8/29", ["192.0.2.8", "192.0.2.15"], ["192.0.2.7", "192.0.2.16"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::1"]),
            ("::/0", ["::", "2001:db8::1"], ["0.0.0.0", "::ffff:10.0.0.1"]),
            ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff::1"], ["2001:db7::", "2001:db9::"]),
            ("10.0.0.1", ["10.0.0.1", "::ffff:10.0.0.1"], ["10.0.0.0", "::10.0.0.1"]),
        ] {
            let has = |address: &str| network(text).contains(address.parse().unwrap());
            assert!(inside.into_iter().all(has), "{text} {inside:?}");
            assert!(!outside.into_iter().any(has), "{text} {outside:?}");
        }
    }

    #[test]
    fn connections_can_come_from_single_addresses_only() {
        for text in ["192.0.2.10", "127.0.0.2", "2001:db8::1", "::1"] {
            assert_eq!(parse_source(text).map(|ip| ip.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(parse_source("::ffff:192.0.2.1"), Ok([192, 0, 2, 1].into()));
        for text in [
            "",
            "::",
            "0.0.0.0",
            "ff02::1",
            "::ffff:224.0.0.1",
            "fe80::1",
            "10.0.0.0/8",
            "a",
            "1:2",
        ] {
            assert!(parse_source(text).is_err(), "{text}");
        }
    }

    fn any_ip() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(IpAddr::from)
        ]
    }

    /// The address as its bits, one after the other, of IPv4 or of IPv6.
    fn digits(ip: IpAddr) -> String {
        match ip {
            IpAddr::V4(ip) => format!("{:032b}", ip.to_bits()),
            IpAddr::V6(ip) => format!("{:0128b}", ip.to_bits()),
        }
    }

    proptest! {
        #[test]
        fn membership_is_equality_of_the_first_bits(
            base in any_ip(),
            other in any_ip(),
            length in 0_u8..=128,
            flip in 0_u8..128,
        ) {
            let most = bits(base);
            let prefix = length.min(most);
            let network = network(&format!("{}/{prefix}", masked(base, prefix)));
            prop_assert!(network.contains(base));
            prop_assert_eq!(network.prefix(), prefix);
            let head = |ip: IpAddr| digits(ip)[..usize::from(prefix)].to_owned();
            let same = base.is_ipv4() == other.is_ipv4() && head(base) == head(other);
            prop_assert_eq!(network.contains(other), same);
            // One bit away it is inside exactly when the bit does not count.
            let at = u32::from(flip % most);
            let near: IpAddr = match base {
                IpAddr::V4(ip) => IpAddr::V4((ip.to_bits() ^ (1 << (31 - at))).into()),
                IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() ^ (1 << (127 - at))).into()),
            };
            prop_assert_eq!(network.contains(near), at >= u32::from(prefix));
        }

        #[test]
        fn ipv4_within_ipv6_is_the_same_client_and_the_same_network(
            ip in any::<[u8; 4]>(),
            prefix in 0_u8..=32,
        ) {
            let ip = std::net::Ipv4Addr::from(ip);
            let first = masked(ip.into(), prefix);
            let plain = network(&format!("{first}/{prefix}"));
            let mapped = network(&format!("::ffff:{first}/{}", prefix + 96));
            prop_assert_eq!(plain, mapped);
            prop_assert!(plain.contains(ip.to_ipv6_mapped().into()));
        }

        #[test]
        fn a_wider_network_has_all_of_a_narrower_one(
            ip in any_ip(),
            a in 0_u8..=128,
            b in 0_u8..=128,
        ) {
            let narrow = Network { address: ip.to_canonical(), prefix: bits(ip.to_canonical()) };
            let (narrow, wide) = (narrow.widened(a.max(b)), narrow.widened(a.min(b)));
            prop_assert!(wide.contains(narrow.address()) && wide.prefix() <= narrow.prefix());
            prop_assert_eq!(narrow.widened(wide.prefix()), wide);
        }

        #[test]
        fn nothing_makes_it_panic_and_what_is_read_round_trips(
            text in "[0-9a-f.:/%\\[\\] -]{0,24}",
        ) {
            if let Ok(network) = text.parse::<Network>() {
                prop_assert_eq!(network.to_string().parse(), Ok(network));
            }
        }
    }
}
