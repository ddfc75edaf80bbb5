//! What was read of a machine. `None`: it could not be read, and nothing is said about it.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Everything that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The kernel's version, as in (6, 1).
    pub kernel: Option<(u32, u32)>,
    /// Of this process.
    pub descriptors: Option<Descriptors>,
    /// `net.core.somaxconn`.
    pub somaxconn: Option<u64>,
    /// `net.ipv4.tcp_max_syn_backlog`.
    pub syn_backlog: Option<u64>,
    /// `net.ipv4.tcp_syncookies`.
    pub syncookies: Option<u64>,
    /// `net.ipv4.ip_local_port_range`.
    pub local_ports: Option<RangeInclusive<u16>>,
    /// `net.ipv4.ip_local_reserved_ports`.
    pub reserved_ports: Vec<RangeInclusive<u16>>,
    /// `net.ipv4.ip_unprivileged_port_start`.
    pub unprivileged_ports: Option<u64>,
    /// `net.ipv4.ip_nonlocal_bind`.
    pub nonlocal_bind: Option<u64>,
    /// `net.ipv4.tcp_tw_reuse`.
    pub tw_reuse: Option<u64>,
    /// `net.ipv4.tcp_migrate_req`.
    pub migrate_req: Option<u64>,
    /// `fs.pipe-user-pages-soft`.
    pub pipe_pages: Option<u64>,
    /// `fs.file-max`.
    pub file_max: Option<u64>,
    /// `net.netfilter.nf_conntrack_max` and `_count`; `None` where connections are not tracked.
    pub conntrack: Option<(u64, u64)>,
    /// In bytes, with where that was read.
    pub memory: Option<(u64, String)>,
    /// May bind ports below [`Self::unprivileged_ports`].
    pub may_bind_low_ports: bool,
    /// Is not bound by the limit of pipes.
    pub has_all_pipes: bool,
    /// Who listens already.
    pub listening: Vec<Taken>,
    /// Names that were looked up.
    pub names: Vec<Named>,
    /// Backends that were connected, with the time they had.
    pub reached: Vec<Reached>,
    /// Addresses in `source` that this machine does not have, with their pool.
    pub missing_sources: Vec<(String, IpAddr)>,
    /// Addresses in `bind` that this machine does not have, with their listener.
    pub missing_binds: Vec<(String, IpAddr)>,
    /// The token file of the admin address: its mode.
    pub token_mode: Option<u32>,
    /// Folders that must be writable, for what, and whether they are.
    pub folders: Vec<Folder>,
}

/// The limit of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// The hard limit; the program raises the soft one to it.
    pub hard: u64,
    /// Not for connections.
    pub aside: u64,
}

impl Descriptors {
    /// Two for each connection.
    #[must_use]
    pub fn connections(self) -> u64 {
        self.hard.saturating_sub(self.aside) / 2
    }
}

/// An address that somebody listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Where.
    pub at: Place,
    /// The program and its number, if that could be read.
    pub owner: Option<(String, u32)>,
}

/// Where somebody listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A TCP port; an unspecified address is every one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// A name, and what came of looking it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// As written.
    pub host: String,
    /// Why it does not resolve.
    pub trouble: Option<String>,
}

/// A backend, and what came of connecting it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The name of its pool.
    pub pool: String,
    /// As written.
    pub address: String,
    /// Why it was not reached.
    pub trouble: Option<String>,
}

/// A folder that is to be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where.
    pub path: PathBuf,
    /// What for: `state_file`, or an address.
    pub purpose: String,
    /// Why it cannot be written to.
    pub trouble: Option<String>,
}
