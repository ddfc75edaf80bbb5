//! A pool as the operator wants it: its backends, how one is chosen, what happens without one.

use std::net::IpAddr;
use std::time::Duration;

use super::address::BackendAddress;
use super::health::Health;

/// A set of backends and how they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Unique among pools: 1 to 64 of `A-Z a-z 0-9 _ . -`.
    pub name: String,
    /// How the next backend is chosen.
    pub policy: Policy,
    /// For one attempt; above zero.
    pub connect_timeout: Duration,
    /// Distinct backends tried before the client is closed; 1 to 100.
    pub connect_attempts: u32,
    /// After which a connection without a byte from its backend counts against it; `None`: never.
    pub first_byte_timeout: Option<Duration>,
    /// The PROXY header that each connection to a backend begins with.
    pub send_proxy_protocol: Option<ProxyVersion>,
    /// What becomes of clients while no backend is available.
    pub on_unavailable: OnUnavailable,
    /// Clients that may wait while every backend is at its limit; 0: none.
    pub queue: usize,
    /// How long one of them waits; `None`: as long as it takes.
    pub queue_timeout: Option<Duration>,
    /// Local addresses of connections to backends; empty: the kernel's choice.
    pub source: Vec<IpAddr>,
    /// What becomes of a backend's connections when it fails its check.
    pub on_down: OnDown,
    /// How long a backend that came up takes to get its whole share; zero: at once.
    pub slow_start: Duration,
    /// At least one, no address twice, not all of weight 0.
    pub backends: Vec<Backend>,
    /// How backends are probed.
    pub health: Health,
}

/// How the next backend is chosen. All of them honour weights but [`Policy::First`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// In turn, smoothly interleaved.
    #[default]
    RoundRobin,
    /// The one with the fewest connections.
    LeastConnections,
    /// Always the same one for the same client address.
    SourceHash {
        /// How far above the mean a backend may go, in percent, 101 to 10000; `None`: any.
        balance_factor: Option<u32>,
    },
    /// The better of two taken at random.
    TwoChoices,
    /// The one that answers soonest.
    ResponseTime {
        /// What is timed.
        of: Timing,
    },
    /// In turn, by what their agents report; the pool has agents.
    Resource,
    /// The first that is not at its limit.
    First,
}

/// What [`Policy::ResponseTime`] goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timing {
    /// From the begin of a connect to its success.
    #[default]
    Connect,
    /// From the client's first bytes, or the connect if the backend speaks first, to the backend's
    /// first byte.
    FirstByte,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyVersion {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

/// What becomes of clients while no backend is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnavailable {
    /// They are closed at once.
    #[default]
    Close,
    /// They wait, unread.
    Hold {
        /// How long one of them waits; `None`: as long as it takes.
        timeout: Option<Duration>,
        /// Clients that may wait; those above it are closed.
        most: usize,
    },
}

/// What becomes of a backend's connections when it fails its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDown {
    /// They go on.
    #[default]
    Keep,
    /// They are cut.
    Close,
}

/// One destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Where it is reached.
    pub address: BackendAddress,
    /// Its share, 0 to 256; 0 gets no new connections.
    pub weight: u16,
    /// Connections at one time; `None`: any number.
    pub max_connections: Option<u32>,
    /// Whether it serves only while no other backend can.
    pub backup: bool,
}

impl OnUnavailable {
    /// `"hold"` without the keys that go with it.
    pub(super) const HOLD: Self = Self::Hold { timeout: None, most: 1000 };
}

impl Backend {
    /// A backend with the default weight and no limit.
    #[must_use]
    pub fn new(address: BackendAddress) -> Self {
        Self { address, weight: 1, max_connections: None, backup: false }
    }
}

/// Without a name and a backend yet.
impl Default for Pool {
    fn default() -> Self {
        Self {
            name: String::new(),
            policy: Policy::default(),
            connect_timeout: Duration::from_secs(3),
            connect_attempts: 3,
            first_byte_timeout: None,
            send_proxy_protocol: None,
            on_unavailable: OnUnavailable::default(),
            queue: 1000,
            queue_timeout: Some(Duration::from_secs(5)),
            source: Vec::new(),
            on_down: OnDown::default(),
            slow_start: Duration::ZERO,
            backends: Vec::new(),
            health: Health::default(),
        }
    }
}
