//! The commands that change who belongs to a running balancer, and what it is configured to do.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::change::{Backend, Wait};
use super::client::{Admin, TypedAdmin};
use crate::config::{BackendAddress, parse_duration};

/// `add`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Add {
    /// Who is asked.
    pub admin: Admin,
    /// The name of the pool.
    pub pool: String,
    /// Where the backend is reached.
    pub address: BackendAddress,
    /// Its share of new connections, if it is not to be the usual one.
    pub weight: Option<u16>,
    /// Connections at one time.
    pub max_connections: Option<u32>,
    /// Whether it serves only while no other backend can.
    pub backup: bool,
    /// Whether the answer is shown as it came.
    pub json: bool,
}

/// `remove`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remove {
    /// Who is asked.
    pub admin: Admin,
    /// Which backend goes.
    pub backend: Backend,
    /// Whether the command returns only once the backend has no connections.
    pub wait: Option<Wait>,
    /// Whether the answers are shown as they came.
    pub json: bool,
}

/// `reload`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// Who is asked.
    pub admin: Admin,
    /// Whether the answer is shown as it came.
    pub json: bool,
}

/// `plan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFile {
    /// Who is asked.
    pub admin: Admin,
    /// The file it is asked about; `None`: the one it runs with.
    pub file: Option<PathBuf>,
    /// Whether the answer is shown as it came.
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TypedAdd {
    /// The name of the pool
    #[arg(value_name = "POOL")]
    pool: String,
    /// The backend: HOST:PORT, [V6]:PORT or unix:PATH
    #[arg(value_name = "ADDRESS")]
    address: BackendAddress,
    /// Its share of new connections, from 0 (none) to 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=256))]
    weight: Option<u16>,
    /// Connections it may have at one time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    max_connections: Option<u32>,
    /// It serves only while no other backend can
    #[arg(long)]
    backup: bool,
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answer of the admin interface as it is
    #[arg(long)]
    json: bool,
}

impl TypedAdd {
    pub(super) fn meant(self) -> Add {
        let Self { pool, address, weight, max_connections, backup, admin, json } = self;
        Add { admin: admin.into(), pool, address, weight, max_connections, backup, json }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedRemove {
    /// The backend: the name of its pool, and its address as configured
    #[arg(value_name = "POOL/ADDRESS")]
    backend: Backend,
    /// Return only once it has no connections left
    #[arg(long)]
    wait: bool,
    /// Wait so long at most, as in 10m; "0s" or none: until it is done
    #[arg(long, value_name = "D", requires = "wait", value_parser = parse_duration)]
    deadline: Option<Duration>,
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answers of the admin interface as they are
    #[arg(long)]
    json: bool,
}

impl TypedRemove {
    pub(super) fn meant(self) -> Remove {
        let Self { backend, wait, deadline, admin, json } = self;
        let deadline = deadline.filter(|deadline| !deadline.is_zero());
        Remove { admin: admin.into(), backend, wait: wait.then_some(Wait { deadline }), json }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedReload {
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answer of the admin interface as it is
    #[arg(long)]
    json: bool,
}

impl TypedReload {
    pub(super) fn meant(self) -> Reload {
        Reload { admin: self.admin.into(), json: self.json }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedPlan {
    /// The file that could be loaded; without it the one that the balancer runs with
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answer of the admin interface as it is
    #[arg(long)]
    json: bool,
}

impl TypedPlan {
    pub(super) fn meant(self) -> PlanFile {
        PlanFile { admin: self.admin.into(), file: self.config, json: self.json }
    }
}

pub(super) const ADD_HELP: &str = "\
Examples:
  evenkeel add web 127.0.0.1:5004
  evenkeel add web app4.example:8080 --weight 2 --max-connections 500

It gets clients once its health check passes. It stays across reloads; with `state_file`
in [global] also across restarts. One that the file has, and that was removed, comes back as
it is there, but for a weight.

Exit codes: 0 done; 1 the balancer refused; 2 usage; 6 nobody answered.";

pub(super) const REMOVE_HELP: &str = "\
Examples:
  evenkeel remove web/127.0.0.1:5004
  evenkeel remove --wait --deadline 10m web/127.0.0.1:5004

It gets no new clients. Connections that stand go on, also when the deadline passes.
It stays away across reloads, also if the file has it; `add` brings it back.

Exit codes: 0 done; 1 the balancer refused; 2 usage; 6 nobody answered;
7 connections were left when the deadline passed.";

pub(super) const RELOAD_HELP: &str = "\
The balancer reads the file it was started with, as after SIGHUP, and says what it changed.
If anything is wrong with the file, nothing is changed.

Exit codes: 0 done; 1 the balancer refused; 2 usage; 3 the file is invalid; 6 nobody answered.";

pub(super) const PLAN_HELP: &str = "\
Examples:
  evenkeel plan -c evenkeel.toml
  evenkeel plan --json -c evenkeel.toml | jq '.changes[] | select(.connections > 0)'

Shows what a reload with this file would do, and how many live connections each change is about.
The balancer checks the text as it would its own file; nothing is changed.

Exit codes: 0 it can be loaded; 1 the balancer refused; 2 usage; 3 the file is invalid;
6 nobody answered.";
