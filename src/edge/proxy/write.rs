//! Writing a header: what a backend is told of the connection that it gets.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{Ends, SIGNATURE, Version};

/// The header for a connection between these ends; for one that has no addresses, as a unix socket
/// has none, a header that says that they are not known.
///
/// Both addresses of a header are of one family. A client of the other family than the address that
/// it came to (proxies that translate make such) is told of in IPv6, with the IPv4 address mapped
/// into it (RFC 4291, section 2.5.5.2).
#[must_use]
pub fn write(version: Version, ends: Option<Ends>) -> Vec<u8> {
    let ends = ends.map(Ends::canonical);
    match (version, ends) {
        (Version::V1, None) => b"PROXY UNKNOWN\r\n".to_vec(),
        (Version::V1, Some(ends)) => text(ends).into_bytes(),
        (Version::V2, None) => [SIGNATURE, &LOCAL[..]].concat(),
        (Version::V2, Some(ends)) => binary(ends),
    }
}

impl Ends {
    /// Without IPv6 clothes on IPv4 addresses.
    fn canonical(self) -> Self {
        let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
        Self { source: plain(self.source), destination: plain(self.destination) }
    }
}

fn text(Ends { source, destination }: Ends) -> String {
    let (from, to) = (source.port(), destination.port());
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => format!("PROXY TCP4 {a} {b} {from} {to}\r\n"),
        (a, b) => format!("PROXY TCP6 {} {} {from} {to}\r\n", words(a), words(b)),
    }
}

/// An address as IPv6, without the dotted form, which the protocol does not have.
fn words(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets().map(u16::from);
            format!("::ffff:{:x}:{:x}", a << 8 | b, c << 8 | d)
        }
        IpAddr::V6(v6) => v6.to_string(),
    }
}

fn binary(Ends { source, destination }: Ends) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LONGEST_BINARY);
    bytes.extend_from_slice(SIGNATURE);
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            bytes.extend_from_slice(&TCP4);
            bytes.extend_from_slice(&a.octets());
            bytes.extend_from_slice(&b.octets());
        }
        (a, b) => {
            bytes.extend_from_slice(&TCP6);
            bytes.extend_from_slice(&as_v6(a).octets());
            bytes.extend_from_slice(&as_v6(b).octets());
        }
    }
    bytes.extend_from_slice(&source.port().to_be_bytes());
    bytes.extend_from_slice(&destination.port().to_be_bytes());
    bytes
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Version and command, family and protocol, and how many bytes follow.
const LOCAL: [u8; 4] = [0x20, 0x00, 0, 0];
const TCP4: [u8; 4] = [0x21, 0x11, 0, 12];
const TCP6: [u8; 4] = [0x21, 0x21, 0, 36];
const LONGEST_BINARY: usize = 52;

#[cfg(test)]
mod tests {
    use super::super::read::{Header, Reading, read};
    use super::*;
    use proptest::prelude::*;

    fn ends(source: &str, destination: &str) -> Option<Ends> {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Some(Ends { source, destination })
    }

    fn line(source: &str, destination: &str) -> String {
        String::from_utf8(write(Version::V1, ends(source, destination))).unwrap()
    }

    #[test]
    fn lines_for_every_pairing_of_families() {
        let v4 = line("192.168.0.1:56324", "192.168.0.11:443");
        assert_eq!(v4, "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n");
        let v6 = line("[2001:db8::1]:1", "[2001:db8::2]:65535");
        assert_eq!(v6, "PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n");
        let mixed = line("192.0.2.1:1", "[2001:db8::2]:2");
        assert_eq!(mixed, "PROXY TCP6 ::ffff:c000:201 2001:db8::2 1 2\r\n");
        let mixed = line("[2001:db8::2]:2", "10.0.0.1:1");
        assert_eq!(mixed, "PROXY TCP6 2001:db8::2 ::ffff:a00:1 2 1\r\n");
        let clothed = line("[::ffff:192.0.2.1]:7", "[::ffff:192.0.2.2]:8");
        assert_eq!(clothed, "PROXY TCP4 192.0.2.1 192.0.2.2 7 8\r\n");
        assert_eq!(write(Version::V1, None), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn binary_headers_byte_for_byte() {
        let v4 = write(Version::V2, ends("192.0.2.9:40000", "192.0.2.1:443"));
        let expected =
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x09\xc0\0\x02\x01\x9c\x40\x01\xbb";
        assert_eq!(v4, expected);
        let v6 = write(Version::V2, ends("[::1]:1", "192.0.2.1:2"));
        assert_eq!(v6[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24");
        assert_eq!(v6[16..32], Ipv6Addr::LOCALHOST.octets());
        assert_eq!(v6[32..], *b"\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\x02\x01\0\x01\0\x02");
        assert_eq!(write(Version::V2, None), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(source: SocketAddr, destination: SocketAddr, v1: bool) {
            let version = if v1 { Version::V1 } else { Version::V2 };
            let bytes = write(version, Some(Ends { source, destination }));
            let Reading::Whole { length, header: Header::Proxied(read) } = read(&bytes) else {
                panic!("{bytes:?}");
            };
            prop_assert_eq!(length, bytes.len());
            prop_assert_eq!(read.source.port(), source.port());
            prop_assert_eq!(read.source.ip().to_canonical(), source.ip().to_canonical());
            prop_assert_eq!(read.destination.port(), destination.port());
            let ip = destination.ip().to_canonical();
            prop_assert_eq!(read.destination.ip().to_canonical(), ip);
            prop_assert_eq!(read.source.is_ipv4(), read.destination.is_ipv4());
        }
    }
}
