//! The PROXY protocol: one header before the bytes of a connection, by which a proxy tells the next
//! one, or a server, whose connection it is (HAProxy, doc/proxy-protocol.txt, revision of 2020).
//!
//! Reading is in [`read`](mod@read), writing in [`write`](mod@write); here is what both are about.

mod checksum;
pub mod read;
pub mod write;

use std::net::SocketAddr;

/// The two ends of the connection that a header speaks of. They may be of different families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Who connected.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
}

/// How a header is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// As a line of text.
    V1,
    /// In binary.
    V2,
}

/// What every binary header begins with.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
