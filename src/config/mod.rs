//! What the operator wants, as a checked value.
//!
//! `text -> Draft -> Config`: the file is walked with every key and value keeping its place
//! (`document`), what was found is checked as a whole (`semantics`), and only a text without any
//! error becomes a [`Config`]. All problems are reported at once. The command line goes the same
//! way (`arguments`), so both accept and refuse the same things.
//!
//! A `Config` holds what was asked for and nothing that runs: no sockets, no resolved names. The
//! defaults stand in the `Default` impls of this file and nowhere else.

mod address;
mod arguments;
mod choice;
mod document;
mod draft;
mod duration;
mod load;
mod nearest;
mod overlap;
mod pools;
mod problem;
mod section;
mod semantics;
mod syntax;

use std::time::Duration;

pub use address::{BackendAddress, BindAddress};
pub use arguments::Overrides;
pub use choice::{LOG_FORMATS, balance_by_name, log_format_by_name};
pub use duration::parse_duration;
pub use load::{LoadError, Loaded, Mention, load, parse};
pub use problem::{Complaint, Problem, Severity, Span, render};

/// Everything the program is told: checked, consistent, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What holds for the whole process.
    pub global: Global,
    /// At least one, in the order of the file.
    pub listeners: Vec<Listener>,
    /// At least one, in the order of the file.
    pub pools: Vec<Pool>,
}

/// What holds for the whole process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// Clients at one time, over all listeners; `None`: what the descriptor limit allows.
    pub max_connections: Option<usize>,
    /// How long live connections may go on after TERM; `None`: as long as they like.
    pub drain_deadline: Option<Duration>,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Which lines each connection gets.
    pub access_log: AccessLog,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Which lines each connection gets in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessLog {
    /// None.
    #[default]
    Off,
    /// One when it has ended.
    Close,
    /// One when it begins and one when it has ended.
    Both,
}

/// Addresses that accept clients for one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Unique among listeners: 1 to 64 of `A-Z a-z 0-9 _ . -`.
    pub name: String,
    /// At least one; no two of a configuration are in each other's way.
    pub bind: Vec<BindAddress>,
    /// Index into [`Config::pools`].
    pub pool: usize,
    /// Connections the kernel holds until they are accepted.
    pub backlog: u32,
    /// Clients at one time; `None`: only the global limit holds.
    pub max_connections: Option<usize>,
    /// Ends a connection without a byte in either direction; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Ends a connection of which one side has finished and the other is silent; `None`: never.
    pub half_close_timeout: Option<Duration>,
    /// Whether bulk data is moved through kernel pipes where that is possible.
    pub splice: bool,
    /// Whether other processes may listen on the same addresses, each taking its share of clients.
    pub reuse_port: bool,
}

impl AccessLog {
    /// The target of these lines in the log.
    pub const TARGET: &'static str = "evenkeel::access";
}

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
    /// At least one, no address twice, not all of weight 0.
    pub backends: Vec<Backend>,
    /// How backends are probed.
    pub health: Health,
}

/// How the next backend is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// In turn, by weight, smoothly interleaved.
    #[default]
    RoundRobin,
}

/// One destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Where it is reached.
    pub address: BackendAddress,
    /// Its share, 0 to 256; 0 gets no new connections.
    pub weight: u16,
}

/// How backends are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What a probe is.
    pub kind: HealthKind,
    /// Between probes of a backend whose state is settled.
    pub interval: Duration,
    /// Between probes while a state is about to change; at most `interval`.
    pub fast_interval: Duration,
    /// After which a probe without an answer has failed.
    pub timeout: Duration,
    /// Successes in a row that bring a backend up; 1 to 1000.
    pub rise: u32,
    /// Failures in a row that take a backend down; 1 to 1000.
    pub fall: u32,
    /// What a backend is before its first result.
    pub initial: Initial,
}

/// What a probe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HealthKind {
    /// A connection is opened and closed.
    #[default]
    Tcp,
    /// There are no probes.
    None,
}

/// What a backend is before its first result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Initial {
    /// Unknown, until the first probe answers.
    #[default]
    Checking,
    /// Usable at once.
    Up,
    /// Not usable until it has risen.
    Down,
}

impl Backend {
    /// A backend of the default weight.
    #[must_use]
    pub fn new(address: BackendAddress) -> Self {
        Self { address, weight: 1 }
    }
}

impl Default for Global {
    fn default() -> Self {
        Self {
            max_connections: None,
            drain_deadline: Some(Duration::from_secs(30)),
            log_format: LogFormat::default(),
            access_log: AccessLog::default(),
        }
    }
}

/// Without a name and an address yet.
impl Default for Listener {
    fn default() -> Self {
        Self {
            name: String::new(),
            bind: Vec::new(),
            pool: 0,
            backlog: 4096,
            max_connections: None,
            idle_timeout: Some(Duration::from_secs(60 * 60)),
            half_close_timeout: Some(Duration::from_secs(5 * 60)),
            splice: true,
            reuse_port: false,
        }
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
            backends: Vec::new(),
            health: Health::default(),
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self {
            kind: HealthKind::default(),
            interval: Duration::from_secs(2),
            fast_interval: Duration::from_millis(500),
            timeout: Duration::from_secs(2),
            rise: 2,
            fall: 3,
            initial: Initial::default(),
        }
    }
}
