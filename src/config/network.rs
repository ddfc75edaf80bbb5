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
