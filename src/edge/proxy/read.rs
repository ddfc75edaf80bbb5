//! Reading a header: what the first bytes of a connection say, as soon as they say it.
//!
//! [`read`] looks at all bytes so far and has no memory. That makes every way of cutting a header
//! into pieces equal: the verdict over some bytes is [`Reading::Partial`] or final, and a final one
//! never changes when more bytes follow. It costs nothing to ask again: until a header is whole,
//! only its length is looked at.
//!
//! Where the protocol leaves a choice: what is not TCP over IPv4 or IPv6 (datagrams, unix sockets,
//! unknown) keeps the addresses of the socket, as [`Header::Local`]. Extensions behind the
//! addresses are walked and passed over, but for the checksum, which must be right where there is
//! one. They and the addresses may take [`MOST`] bytes together.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::checksum::crc32c;
use super::{Ends, SIGNATURE};

/// Looks for a header at the start of `bytes`, which are all that came so far.
#[must_use]
pub fn read(bytes: &[u8]) -> Reading {
    match bytes.first() {
        None => Reading::Partial,
        Some(b'P') => text(bytes),
        Some(b'\r') => binary(bytes).unwrap_or_else(|reading| reading),
        Some(_) => Reading::Wrong(Fault::Missing),
    }
}

/// What the first bytes of a connection say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// They may be the start of a header.
    Partial,
    /// They are no header, and no more bytes will make them one.
    Wrong(Fault),
    /// A header.
    Whole {
        /// How many bytes it has; the client's own follow.
        length: usize,
        /// What it says.
        header: Header,
    },
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// The peer speaks for itself, or for somebody whom it cannot describe: the addresses of its
    /// socket stand.
    Local,
    /// It speaks for this connection.
    Proxied(Ends),
}

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is no header at all.
    Missing,
    /// It breaks the rules of its format.
    Malformed,
    /// It is longer than any that we read.
    TooLong,
}

/// The first version: one line of text.
fn text(bytes: &[u8]) -> Reading {
    if !start_alike(bytes, b"PROXY ") {
        return Reading::Wrong(Fault::Missing);
    }
    let line = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = line.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        let is_full = line.len() == LONGEST_LINE;
        return if is_full { Reading::Wrong(Fault::TooLong) } else { Reading::Partial };
    };
    match line[end..] {
        [b'\r'] if line.len() < LONGEST_LINE => Reading::Partial,
        [b'\r', b'\n', ..] => match fields(&line[..end]) {
            Some(header) => Reading::Whole { length: end + 2, header },
            None => Reading::Wrong(Fault::Malformed),
        },
        _ => Reading::Wrong(Fault::Malformed),
    }
}

/// What stands between single spaces in a line without its end.
fn fields(line: &[u8]) -> Option<Header> {
    let mut fields = std::str::from_utf8(line).ok()?.split(' ').skip(1);
    match fields.next()? {
        // Whatever follows is to be ignored.
        "UNKNOWN" => Some(Header::Local),
        "TCP4" => ends::<Ipv4Addr>(fields),
        "TCP6" => ends::<Ipv6Addr>(fields),
        _ => None,
    }
}

fn ends<'a, A: FromStr + Into<IpAddr>>(
    mut fields: impl Iterator<Item = &'a str>,
) -> Option<Header> {
    let source: A = fields.next()?.parse().ok()?;
    let destination: A = fields.next()?.parse().ok()?;
    let source = SocketAddr::new(source.into(), port(fields.next()?)?);
    let destination = SocketAddr::new(destination.into(), port(fields.next()?)?);
    fields.next().is_none().then_some(Header::Proxied(Ends { source, destination }))
}

/// A decimal number without sign or leading zeros.
fn port(text: &str) -> Option<u16> {
    let plain = text == "0" || text.starts_with(|c: char| matches!(c, '1'..='9'));
    if plain { text.parse().ok() } else { None }
}

/// The second version. An error is a verdict that is not a header.
fn binary(bytes: &[u8]) -> Result<Reading, Reading> {
    const MALFORMED: Reading = Reading::Wrong(Fault::Malformed);
    if !start_alike(bytes, SIGNATURE) {
        return Err(Reading::Wrong(Fault::Missing));
    }
    let byte = |at: usize| bytes.get(at).copied().ok_or(Reading::Partial);
    let is_local = match byte(12)? {
        0x20 => true,
        0x21 => false,
        _ => return Err(MALFORMED),
    };
    // A local header's family and addresses are to be ignored.
    let family = Family::of(byte(13)?).or(is_local.then_some(Family::Other));
    let family = family.ok_or(MALFORMED)?;
    let length = usize::from(u16::from_be_bytes([byte(14)?, byte(15)?]));
    if length > MOST {
        return Err(Reading::Wrong(Fault::TooLong));
    }
    if !is_local && length < family.size() {
        return Err(MALFORMED);
    }
    let whole = bytes.get(..FIXED + length).ok_or(Reading::Partial)?;
    let (addresses, extensions) = whole[FIXED..].split_at(family.size().min(length));
    let header = if is_local { None } else { family.header(addresses) };
    let is_known = !is_local && family != Family::Other;
    if is_known && !are_sound(whole, extensions) {
        return Err(MALFORMED);
    }
    Ok(Reading::Whole { length: whole.len(), header: header.unwrap_or(Header::Local) })
}

/// Whether extensions fill their space exactly, and no checksum among them is wrong.
fn are_sound(whole: &[u8], mut extensions: &[u8]) -> bool {
    while let [kind, high, low, rest @ ..] = extensions {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((value, following)) = rest.split_at_checked(length) else { return false };
        if *kind == CHECKSUM {
            let behind = whole.len() - following.len();
            let before = &whole[..behind - length];
            let sum = crc32c(&[before, &[0; 4], following]);
            if value != sum.to_be_bytes() {
                return false;
            }
        }
        extensions = following;
    }
    extensions.is_empty()
}

/// What kind of addresses a binary header has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Of TCP, or of datagrams, which we do not speak for.
    V4 {
        tcp: bool,
    },
    V6 {
        tcp: bool,
    },
    Unix,
    /// Not said, so that nobody knows where they end.
    Other,
}

impl Family {
    fn of(byte: u8) -> Option<Self> {
        let tcp = byte & 0xf == 1;
        match (byte >> 4, byte & 0xf) {
            (0, 0..=2) | (1..=3, 0) => Some(Self::Other),
            (1, 1 | 2) => Some(Self::V4 { tcp }),
            (2, 1 | 2) => Some(Self::V6 { tcp }),
            (3, 1 | 2) => Some(Self::Unix),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self {
            Self::V4 { .. } => 12,
            Self::V6 { .. } => 36,
            Self::Unix => 216,
            Self::Other => 0,
        }
    }

    /// What addresses of TCP say.
    fn header(self, bytes: &[u8]) -> Option<Header> {
        match self {
            Self::V4 { tcp: true } => block::<4>(bytes),
            Self::V6 { tcp: true } => block::<16>(bytes),
            Self::V4 { tcp: false } | Self::V6 { tcp: false } | Self::Unix | Self::Other => None,
        }
    }
}

/// Two addresses of `N` bytes and two ports.
fn block<const N: usize>(bytes: &[u8]) -> Option<Header>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = bytes.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (from, to) = rest.split_first_chunk::<2>()?;
    let to = to.first_chunk::<2>()?;
    let address = |ip: [u8; N], port: [u8; 2]| SocketAddr::new(ip.into(), u16::from_be_bytes(port));
    let (source, destination) = (address(*source, *from), address(*destination, *to));
    Some(Header::Proxied(Ends { source, destination }))
}

/// Whether both are the same, as far as the shorter one goes.
fn start_alike(bytes: &[u8], sign: &[u8]) -> bool {
    bytes.iter().zip(sign).all(|(a, b)| a == b)
}

/// What addresses and extensions of a binary header may take. HAProxy with all that it knows of a
/// TLS client stays below one KiB.
pub const MOST: usize = 4096;
/// The longest header there is.
pub const LONGEST: usize = FIXED + MOST;
/// The part of a binary header that says how long the other is.
const FIXED: usize = 16;
/// The longest line of the first version, its end included.
const LONGEST_LINE: usize = 107;
/// The extension that carries a checksum.
const CHECKSUM: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(length: usize, source: &str, destination: &str) -> Reading {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Reading::Whole { length, header: Header::Proxied(Ends { source, destination }) }
    }

    fn local(length: usize) -> Reading {
        Reading::Whole { length, header: Header::Local }
    }

    const MISSING: Reading = Reading::Wrong(Fault::Missing);
    const MALFORMED: Reading = Reading::Wrong(Fault::Malformed);
    const TOO_LONG: Reading = Reading::Wrong(Fault::TooLong);

    /// A binary header with this rest.
    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family][..], &length[..], rest].concat()
    }

    fn extension(kind: u8, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).unwrap().to_be_bytes();
        [&[kind][..], &length[..], value].concat()
    }

    const V4: &[u8] = b"\xc0\0\x02\x09\xc0\0\x02\x01\x9c\x40\x01\xbb";

    #[test]
    fn lines_of_the_specification() {
        let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n";
        assert_eq!(read(line), whole(47, "192.168.0.1:56324", "192.168.0.11:443"));
        let longest = b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n";
        assert_eq!(read(longest), whole(56, "255.255.255.255:65535", "255.255.255.255:65535"));
        let full = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let longest = format!("PROXY TCP6 {full} {full} 65535 65535\r\n");
        let end = format!("[{full}]:65535");
        assert_eq!(read(longest.as_bytes()), whole(104, &end, &end));
        assert_eq!(read(b"PROXY UNKNOWN\r\n"), local(15));
        let worst = format!("PROXY UNKNOWN {full} {full} 65535 65535\r\n");
        assert_eq!((worst.len(), read(worst.as_bytes())), (107, local(107)));
        let zero = read(b"PROXY TCP6 ::1 ::ffff:1.2.3.4 0 1\r\n");
        assert_eq!(zero, whole(35, "[::1]:0", "[::ffff:1.2.3.4]:1"));
    }

    #[test]
    fn lines_that_break_the_rules() {
        let lines = [
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\rX",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1\t192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 \r\n",
            "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP6 fe80::1%eth0 2001:db8::2 1 2\r\n",
            "PROXY TCP6 [::1] ::1 1 2\r\n",
            "PROXY tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY \r\n",
        ];
        for line in lines {
            assert_eq!(read(line.as_bytes()), MALFORMED, "{line:?}");
        }
        assert_eq!(read(b"PROXY TCP4 \xff\r\n"), MALFORMED);
    }

    #[test]
    fn what_is_no_header_is_told_at_its_first_wrong_byte() {
        for other in ["GET / HTTP/1.1\r\n", "\x16\x03\x01", "\0", "X", "Proxy ", "PROXY\t", "\n"] {
            assert_eq!(read(other.as_bytes()), MISSING, "{other:?}");
        }
        assert_eq!(read(b"\r\n\r\nX"), MISSING);
        assert_eq!(read(b"\r\n\r\n\0\r\nQUIT\r"), MISSING);
    }

    #[test]
    fn a_line_without_an_end_is_too_long_at_107_bytes() {
        let mut line = b"PROXY UNKNOWN ".to_vec();
        line.resize(106, b'x');
        assert_eq!(read(&line), Reading::Partial);
        line.push(b'x');
        assert_eq!(read(&line), TOO_LONG);
        line[106] = b'\r';
        line.push(b'\n');
        assert_eq!(read(&line), MALFORMED, "an end that comes one byte too late");
    }

    #[test]
    fn binary_headers_of_every_family() {
        assert_eq!(read(&v2(0x21, 0x11, V4)), whole(28, "192.0.2.9:40000", "192.0.2.1:443"));
        let v6: Vec<u8> = (0..36).collect();
        let expected = "[1:203:405:607:809:a0b:c0d:e0f]:8225";
        let other = "[1011:1213:1415:1617:1819:1a1b:1c1d:1e1f]:8739";
        assert_eq!(read(&v2(0x21, 0x21, &v6)), whole(52, expected, other));
        // Families that say nothing of TCP leave the socket's addresses as they are.
        assert_eq!(read(&v2(0x21, 0x31, &[7; 216])), local(232), "a unix socket");
        assert_eq!(read(&v2(0x21, 0x12, V4)), local(28), "datagrams");
        assert_eq!(read(&v2(0x21, 0x00, b"whatever")), local(24), "unspecified");
        assert_eq!(read(&v2(0x21, 0x10, V4)), local(28), "an unspecified protocol");
        assert_eq!(read(&v2(0x20, 0x00, b"")), local(16));
        assert_eq!(read(&v2(0x20, 0xff, b"\x04\xff")), local(18), "all is ignored but the length");
    }

    #[test]
    fn binary_headers_that_break_the_rules() {
        for command in [0x00, 0x01, 0x11, 0x22, 0x2f, 0x31, 0xff] {
            assert_eq!(read(&v2(command, 0x11, V4)), MALFORMED, "command {command:#x}");
        }
        for family in [0x03, 0x13, 0x1f, 0x40, 0x41, 0xff] {
            assert_eq!(read(&v2(0x21, family, V4)), MALFORMED, "family {family:#x}");
        }
        assert_eq!(read(&v2(0x21, 0x11, &V4[1..])), MALFORMED, "too short for its addresses");
        assert_eq!(read(&v2(0x21, 0x21, V4)), MALFORMED);
        assert_eq!(read(&v2(0x21, 0x31, V4)), MALFORMED);
    }

    #[test]
    fn extensions_are_passed_over_if_they_fill_their_space() {
        let expected = |length| whole(length, "192.0.2.9:40000", "192.0.2.1:443");
        let with = |rest: &[u8]| v2(0x21, 0x11, &[V4, rest].concat());
        let two = [extension(0x01, b"h2"), extension(0xe0, &[b't'; 600])].concat();
        assert_eq!(read(&with(&two)), expected(28 + 5 + 603));
        assert_eq!(read(&with(&extension(0x04, b""))), expected(31));
        for rest in [&b"\x04"[..], b"\x04\0", b"\x04\0\x01", b"\x04\0\0\x04", b"\x04\xff\xff..."] {
            assert_eq!(read(&with(rest)), MALFORMED, "{rest:?}");
        }
    }

    #[test]
    fn what_is_longer_than_we_read_is_refused_by_its_length_alone() {
        let most = [V4, &extension(0xe0, &vec![0; MOST - 12 - 3])[..]].concat();
        let longest = v2(0x21, 0x11, &most);
        assert_eq!(longest.len(), LONGEST);
        assert!(matches!(read(&longest), Reading::Whole { length: LONGEST, .. }));
        assert_eq!(read(&longest[..LONGEST - 1]), Reading::Partial);
        for command in [0x20, 0x21] {
            let longer = [SIGNATURE, &[command, 0x11, 0x10, 0x01][..]].concat();
            assert_eq!(read(&longer), TOO_LONG);
        }
    }

    #[test]
    fn a_checksum_must_be_right() {
        let mut header = v2(0x21, 0x11, &[V4, &extension(CHECKSUM, &[0; 4])[..]].concat());
        let sum = crc32c(&[&header]);
        header[31..].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(read(&header), whole(35, "192.0.2.9:40000", "192.0.2.1:443"));
        // All but byte 28, which makes it a checksum.
        for at in (16..28).chain(29..header.len()) {
            let mut broken = header.clone();
            broken[at] ^= 0x10;
            assert_eq!(read(&broken), MALFORMED, "byte {at}");
        }
        let short = v2(0x21, 0x11, &[V4, &extension(CHECKSUM, &[0; 3])[..]].concat());
        assert_eq!(read(&short), MALFORMED);
    }

    /// Headers that are right, of every form.
    fn right() -> impl Strategy<Value = Vec<u8>> {
        let extensions = prop::collection::vec(
            (4u8.., prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(k, v)| extension(k, &v)),
            0..4,
        );
        let binary = (any::<(SocketAddr, SocketAddr)>(), extensions).prop_map(
            |((source, destination), extensions)| {
                let ends = Some(Ends { source, destination });
                let mut bytes = super::super::write::write(super::super::Version::V2, ends);
                bytes.extend(extensions.concat());
                let length = u16::try_from(bytes.len() - FIXED).unwrap();
                bytes[14..16].copy_from_slice(&length.to_be_bytes());
                bytes
            },
        );
        let line = any::<(SocketAddr, SocketAddr)>().prop_map(|ends| {
            let ends = Ends { source: ends.0, destination: ends.1 };
            super::super::write::write(super::super::Version::V1, Some(ends))
        });
        let unknown = "[ -~]{0,80}".prop_map(|rest| format!("PROXY UNKNOWN {rest}\r\n").into());
        let local = prop::collection::vec(any::<u8>(), 0..60).prop_map(|rest| v2(0x20, 0, &rest));
        prop_oneof![binary, line, unknown, local]
    }

    /// What holds for any bytes: every prefix is partial until the verdict, which then stays.
    fn check_every_prefix(bytes: &[u8]) -> Result<Reading, TestCaseError> {
        let last = read(bytes);
        let mut decided = None;
        for end in 0..=bytes.len() {
            let reading = read(&bytes[..end]);
            match decided {
                Some(verdict) => prop_assert_eq!(reading, verdict, "at {}", end),
                None if reading != Reading::Partial => {
                    if let Reading::Whole { length, .. } = reading {
                        prop_assert_eq!(length, end, "it is whole with its last byte");
                    }
                    decided = Some(reading);
                }
                None => prop_assert!(end < LONGEST, "undecided after {} bytes", end),
            }
        }
        Ok(last)
    }

    proptest! {
        #[test]
        fn a_header_is_the_same_however_it_is_split_and_whatever_follows(
            header in right(),
            rest in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = [&header[..], &rest[..]].concat();
            match check_every_prefix(&bytes)? {
                Reading::Whole { length, .. } => prop_assert_eq!(length, header.len()),
                other => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn a_damaged_header_gets_one_verdict(
            header in right(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = header;
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            check_every_prefix(&bytes)?;
            bytes.remove(cut.index(bytes.len()));
            check_every_prefix(&bytes)?;
        }

        #[test]
        fn random_bytes_get_one_verdict(
            sign in prop::sample::select(vec![&b""[..], b"PROXY ", b"PROXY TCP6 ", SIGNATURE]),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            check_every_prefix(&[sign, &bytes[..]].concat())?;
        }
    }
}
