//! What the operator wants, as a checked value.
//!
//! `text -> Draft -> Config`: the file is walked with every key and value keeping its place
//! (`document`), what was found is checked as a whole (`semantics`), and only a text without any
//! error becomes a [`Config`]. All problems are reported at once. The command line goes the same
//! way (`arguments`), so both accept and refuse the same things.
//!
//! A `Config` holds what was asked for and nothing that runs: no sockets, no resolved names. The
//! defaults stand in the `Default` impls of this file, of `pool` and of `health`, nowhere else.

mod addition;
mod address;
mod admin;
mod amendments;
mod arguments;
mod backends;
mod bytes;
mod checks;
mod choice;
mod diff;
mod document;
mod draft;
mod duration;
mod health;
mod health_rules;
mod listener_rules;
mod listeners;
mod load;
mod nearest;
mod network;
mod overlap;
mod pool;
mod pool_rules;
mod pools;
mod problem;
mod section;
mod semantics;
mod spelling;
pub mod state_file;
mod status;
mod syntax;
mod token;

use std::path::PathBuf;
use std::time::Duration;

pub use addition::Unfit;
pub use address::{BackendAddress, BindAddress};
pub use admin::{Admin, read_token};
pub use amendments::{Amendments, Wanted};
pub use arguments::Overrides;
pub use choice::{LOG_FORMATS, balance_by_name, log_format_by_name};
pub use diff::{Action, Difference, Item, Subject, difference};
pub use duration::parse_duration;
pub use health::{Agent, Check, Health, HttpCheck, Initial};
pub use load::{LARGEST_FILE, LoadError, Loaded, Mention, Origin, load, parse, read_text};
pub use nearest::nearest;
pub use network::Network;
pub use pool::{Backend, OnDown, OnUnavailable, Policy, Pool, ProxyVersion, Timing};
pub use problem::{Complaint, Problem, Severity, Span, render};
pub use token::Token;

/// Everything the program is told: checked, consistent, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// What holds for the whole process.
    pub global: Global,
    /// Where the admin interface listens; `None`: nowhere.
    pub admin: Option<Admin>,
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
    /// Where changes made at run time are kept; `None`: nowhere.
    pub state_file: Option<PathBuf>,
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
    /// Clients of one source address at one time; IPv6 addresses count by their /64.
    pub max_per_source: Option<u32>,
    /// Clients that are let in; empty: all. Holds for clients with an IP address.
    pub allow: Vec<Network>,
    /// Clients that are not let in, whatever `allow` says.
    pub deny: Vec<Network>,
    /// Peers that must begin with a PROXY header; the others must not.
    pub proxy_protocol_from: Vec<Network>,
    /// Ends a connection without a byte in either direction; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Ends a connection of which one side has finished and the other is silent; `None`: never.
    pub half_close_timeout: Option<Duration>,
    /// New clients in a second; `None`: as many as come.
    pub accept_rate: Option<u32>,
    /// Whether bulk data is moved through kernel pipes where that is possible.
    pub splice: bool,
    /// Whether other processes may listen on the same addresses, each taking its share of clients.
    pub reuse_port: bool,
}

impl Config {
    /// Nothing at all, which is no configuration to run.
    pub(crate) fn empty() -> Self {
        Self { global: Global::default(), admin: None, listeners: Vec::new(), pools: Vec::new() }
    }
}

impl AccessLog {
    /// The target of these lines in the log.
    pub const TARGET: &'static str = "evenkeel::access";
}

impl Default for Global {
    fn default() -> Self {
        Self {
            max_connections: None,
            drain_deadline: Some(Duration::from_secs(30)),
            log_format: LogFormat::default(),
            access_log: AccessLog::default(),
            state_file: None,
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
            max_per_source: None,
            allow: Vec::new(),
            deny: Vec::new(),
            proxy_protocol_from: Vec::new(),
            idle_timeout: Some(Duration::from_secs(60 * 60)),
            half_close_timeout: Some(Duration::from_secs(5 * 60)),
            accept_rate: None,
            splice: true,
            reuse_port: false,
        }
    }
}
