//! How backends are probed, as the operator wants it.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::address::{BackendAddress, parse_port_alone};
use super::problem::{Complaint, quote};

/// How backends are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What a probe is.
    pub check: Check,
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
    /// The port to probe instead of the backend's own; never with `address`.
    pub port: Option<u16>,
    /// What to probe instead of the backend itself.
    pub address: Option<BackendAddress>,
    /// What a backend is before its first result.
    pub initial: Initial,
    /// Where each backend's agent is asked.
    pub agent: Option<Agent>,
    /// Between questions to one agent.
    pub agent_interval: Duration,
}

/// What a probe is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Check {
    /// There are no probes.
    None,
    /// A connection is opened and closed.
    #[default]
    Tcp,
    /// A GET, and a look at its answer.
    Http(HttpCheck),
    /// Bytes are sent and others waited for; at least one of the two is not empty.
    Exchange {
        /// Sent when the connection stands.
        send: Vec<u8>,
        /// What the answer must contain.
        expect: Vec<u8>,
    },
    /// A PING, as Redis knows it.
    Redis,
    /// A login to a MySQL server, without a password.
    Mysql {
        /// Who logs in.
        user: String,
    },
    /// The answer of a PostgreSQL server to a question before the login, or to a login begun.
    Postgres {
        /// Who begins to log in.
        user: Option<String>,
    },
    /// The greeting of a mail server.
    Smtp,
}

/// A probe with HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCheck {
    /// The path and query of the request; begins with `/` and is printable ASCII.
    pub path: String,
    /// The `Host` header; `None`: the address that is probed.
    pub host: Option<String>,
    /// The status codes that pass; not empty, each within 100 to 599.
    pub expect: Vec<RangeInclusive<u16>>,
    /// What the body must contain.
    pub body: Option<String>,
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

/// Where the agent of a backend is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Agent {
    /// At this port of each backend's own host.
    Port(u16),
    /// At one address, which speaks for all backends of the pool.
    Address(BackendAddress),
}

impl FromStr for Agent {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        if text.starts_with(':') {
            return parse_port_alone(text).map(Self::Port);
        }
        if !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let message = format!("{} is only a port", quote(text));
            let cure = format!("write \":{text}\" for that port of each backend's host");
            return Err(Complaint::new(message, cure));
        }
        text.parse().map(Self::Address)
    }
}

impl Default for Health {
    fn default() -> Self {
        let interval = Duration::from_secs(2);
        Self {
            check: Check::default(),
            interval,
            fast_interval: Duration::from_millis(500),
            timeout: Duration::from_secs(2),
            rise: 2,
            fall: 3,
            port: None,
            address: None,
            initial: Initial::default(),
            agent: None,
            agent_interval: interval,
        }
    }
}

/// GET / with any status from 200 to 299.
impl Default for HttpCheck {
    fn default() -> Self {
        Self { path: "/".to_owned(), host: None, expect: vec![200..=299], body: None }
    }
}
