//! The commands that change a backend of a running balancer.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::client::{Admin, TypedAdmin};
use crate::config::{Complaint, parse_duration};

/// `drain`, `ready`, `maintenance` or `weight`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Who is asked.
    pub admin: Admin,
    /// Which backend is changed.
    pub backend: Backend,
    /// What is wanted of it.
    pub wish: Wish,
    /// Whether the answers are shown as they came.
    pub json: bool,
    /// Whether the command returns only once the backend has no connections.
    pub wait: Option<Wait>,
}

/// A backend, as `POOL/ADDRESS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// The name of its pool.
    pub pool: String,
    /// Its address.
    pub address: String,
}

/// What is wanted of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// No new clients.
    Drain,
    /// New clients, as far as its health allows.
    Ready,
    /// No new clients and no probes.
    Maintenance,
    /// This share of new connections.
    Weight(u16),
}

/// For how long a drain is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// `None`: until it is done.
    pub deadline: Option<Duration>,
}

impl FromStr for Backend {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        match text.split_once('/') {
            Some((pool, address)) if !pool.is_empty() && !address.is_empty() => {
                Ok(Self { pool: pool.to_owned(), address: address.to_owned() })
            }
            Some(_) | None => Err(Complaint::new(
                format!("{text:?} names no backend of a pool"),
                "write POOL/ADDRESS, as in \"web/127.0.0.1:5001\"",
            )),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedChange {
    /// The backend: the name of its pool, and its address as configured
    #[arg(value_name = "POOL/ADDRESS")]
    backend: Backend,
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answer of the admin interface as it is
    #[arg(long)]
    json: bool,
}

impl TypedChange {
    pub(super) fn meant(self, wish: Wish) -> Change {
        let Self { backend, admin, json } = self;
        Change { admin: admin.into(), backend, wish, json, wait: None }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedDrain {
    #[command(flatten)]
    change: TypedChange,
    /// Return only once it has no connections left
    #[arg(long)]
    wait: bool,
    /// Wait so long at most, as in 10m; "0s" or none: until it is done
    #[arg(long, value_name = "D", requires = "wait", value_parser = parse_duration)]
    deadline: Option<Duration>,
}

impl TypedDrain {
    pub(super) fn meant(self) -> Change {
        let deadline = self.deadline.filter(|deadline| !deadline.is_zero());
        let wait = self.wait.then_some(Wait { deadline });
        Change { wait, ..self.change.meant(Wish::Drain) }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedWeight {
    #[command(flatten)]
    change: TypedChange,
    /// Its share of new connections, from 0 (none) to 256
    #[arg(value_name = "N", value_parser = clap::value_parser!(u16).range(0..=256))]
    weight: u16,
}

impl TypedWeight {
    pub(super) fn meant(self) -> Change {
        self.change.meant(Wish::Weight(self.weight))
    }
}

pub(super) const CHANGE_HELP: &str = "\
Connections that stand are left alone. Changes last across reloads; with `state_file` in
[global] also across restarts.

Exit codes: 0 done; 1 the balancer refused; 2 usage; 6 nobody answered.";

pub(super) const DRAIN_HELP: &str = "\
Examples:
  evenkeel drain web/127.0.0.1:5001
  evenkeel drain --wait --deadline 10m web/127.0.0.1:5001

Connections that stand are left alone, also when the deadline passes. While it waits it shows
how many are left, and an estimate of the time from the rate at which they ended so far.

Exit codes: 0 done; 1 the balancer refused; 2 usage; 6 nobody answered;
7 connections were left when the deadline passed.";
