//! PROXY headers for a schedule: what clients begin with, right, wrong or cut off, and what backends
//! are to be told.

use std::net::SocketAddr;

use evenkeel::edge::proxy::read::{Reading, read};
use evenkeel::edge::proxy::write::write;
use evenkeel::edge::proxy::{Ends, Version};

use crate::random::Random;

/// The first bytes of a client that has to send a header; with `calm` a header that is right. What
/// they mean is what the parser says of all of them at once.
pub(crate) fn draw(calm: bool, random: &mut Random) -> (Vec<u8>, Reading) {
    let mut bytes = match random.below(5) {
        0 => b"PROXY UNKNOWN and more\r\n".to_vec(),
        1 => b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\x05local".to_vec(),
        2 => write(Version::V1, Some(ends(random))),
        3 => write(Version::V2, Some(ends(random))),
        _ => extended(random),
    };
    if !calm && random.chance(30) {
        match random.below(4) {
            0 => bytes = b"GET / HTTP/1.1\r\n".to_vec(),
            1 => bytes = b"PROXY TCP4 1.2.3.4\r\n".to_vec(),
            2 => bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x10\x01".to_vec(),
            _ => bytes.truncate(usize::try_from(random.below(bytes.len() as u64)).expect("short")),
        }
    }
    let meaning = read(&bytes);
    (bytes, meaning)
}

/// Two ends of a connection, of any families.
pub(crate) fn ends(random: &mut Random) -> Ends {
    let mut end = || -> SocketAddr {
        let port = random.between(1, 65_535);
        let host = random.pick(&["192.0.2.1", "10.9.8.7", "[2001:db8::5]", "[::ffff:10.1.2.3]"]);
        format!("{host}:{port}").parse().expect("an address")
    };
    Ends { source: end(), destination: end() }
}

/// With extensions behind the addresses.
fn extended(random: &mut Random) -> Vec<u8> {
    let mut bytes = write(Version::V2, Some(ends(random)));
    for _ in 0..random.between(1, 3) {
        let length = random.between(0, 30).to_le_bytes()[0];
        bytes.extend([0xe0, 0, length]);
        bytes.extend(vec![length; length.into()]);
    }
    let length = u16::try_from(bytes.len() - 16).expect("a short header");
    bytes[14..16].copy_from_slice(&length.to_be_bytes());
    bytes
}
