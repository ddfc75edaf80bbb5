//! What is told of a backend: its state in one word of the contract, since when, and why.

use std::fmt;
use std::time::{Duration, Instant};

use super::admin::Admin;
use super::backend::Backend;
use super::health::{Health, Thresholds};
use super::picker::WHOLE;

/// The state of a backend, in the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendState {
    /// In rotation.
    Up,
    /// Its probes fail, or its agent says that it does not work.
    Down,
    /// No probe result yet.
    Checking,
    /// It takes no new clients, as was asked for.
    Draining,
    /// It takes no new clients and is not probed, as was asked for.
    Maintenance,
    /// Real traffic failed.
    Ejected,
    /// Its name has no address.
    Unresolved,
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Checking => "checking",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
            Self::Ejected => "ejected",
            Self::Unresolved => "unresolved",
        })
    }
}

/// What is told of one backend, besides its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// In one word.
    pub state: BackendState,
    /// How long it has been in that state.
    pub lasts: Duration,
    /// Why, for people.
    pub reason: String,
    /// Whether it serves only while no other backend can.
    pub backup: bool,
    /// How much of its weight counts now, in parts of 256.
    pub share: u16,
    /// Whether that grows, because it has come back.
    pub starts_slowly: bool,
    /// Connections it may have now.
    pub cap: Option<u32>,
    /// Connections it may have when it does not start slowly.
    pub most: Option<u32>,
    /// How often it has gone down again lately, soon after it had come back.
    pub flaps: u32,
    /// Connections on which it did not say a byte in time.
    pub silences: u64,
    /// What its agent says, if there is one.
    pub agent: Option<String>,
}

/// All but the state itself.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {} s ({})", self.lasts.as_secs(), self.reason)?;
        if self.backup {
            f.write_str("; backup")?;
        }
        if self.share < WHOLE {
            let percent = (u32::from(self.share) * 100).div_ceil(u32::from(WHOLE));
            write!(f, "; {percent} % of its weight")?;
        }
        if self.starts_slowly {
            f.write_str(", in a slow start")?;
        }
        match (self.cap, self.most) {
            (Some(cap), Some(most)) if cap < most => {
                write!(f, "; at most {most} connections, {cap} for now")?;
            }
            (Some(cap), _) => write!(f, "; at most {cap} connections")?,
            (None, _) => {}
        }
        if self.flaps > 0 {
            write!(f, "; it flaps ({})", self.flaps)?;
        }
        if self.silences > 0 {
            write!(f, "; {} times silent", self.silences)?;
        }
        match &self.agent {
            Some(words) => write!(f, "; agent: {words}"),
            None => Ok(()),
        }
    }
}

/// Why a backend is in its state at `now`, for people.
pub(super) fn reason(backend: &Backend, usual: Thresholds, now: Instant) -> String {
    let condition = backend.condition(now);
    if backend.is_removed() {
        return "removed; its connections go on".to_owned();
    }
    match backend.admin() {
        (Admin::Ready, _) => {}
        (Admin::Draining | Admin::Maintenance, author) => {
            return format!("{author}; otherwise {condition}");
        }
    }
    match condition {
        BackendState::Up | BackendState::Checking => backend.words().to_owned(),
        BackendState::Down => fall(backend, usual, now),
        BackendState::Ejected => backend.ejected(now).map_or_else(String::new, |(fault, until)| {
            let left = until.saturating_duration_since(now).as_secs() + 1;
            format!("{fault}; for {left} s more at most")
        }),
        BackendState::Unresolved => "its name has no address yet".to_owned(),
        BackendState::Draining | BackendState::Maintenance => String::new(),
    }
}

fn fall(backend: &Backend, usual: Thresholds, now: Instant) -> String {
    match backend.health {
        Health::Checking | Health::Up { .. } => format!("its agent says: {}", backend.agent()),
        Health::Down { passes } => {
            let needed = backend.thresholds(usual, now).rise;
            format!("{}; {passes} of {needed} passes to return", backend.words())
        }
    }
}
