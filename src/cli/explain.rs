//! The commands that ask about connections: `explain` and `sessions`.

use std::net::IpAddr;

use clap::Args;

use super::client::{Admin, TypedAdmin};

/// `explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explain {
    /// Who is asked.
    pub admin: Admin,
    /// What is asked.
    pub about: About,
    /// Whether the answer is shown as it came.
    pub json: bool,
}

/// What is to be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// The newest connections, so many.
    Newest(usize),
    /// One connection.
    Connection(u64),
    /// Whom the next client of a pool would be given.
    Pool {
        /// The pool, by name.
        pool: String,
        /// The client.
        client: Option<IpAddr>,
    },
}

/// `sessions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// Who is asked.
    pub admin: Admin,
    /// What is wanted.
    pub wish: SessionsWish,
    /// Whether the answer is shown as it came.
    pub json: bool,
}

/// What is wanted of the connections that live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionsWish {
    /// A list of them.
    List {
        /// Those of this pool.
        pool: Option<String>,
        /// Those of this backend.
        backend: Option<String>,
        /// Those with a higher number.
        after: u64,
        /// So many at most.
        limit: usize,
    },
    /// That this one is cut.
    Cut(u64),
}

#[derive(Debug, Args)]
pub(super) struct TypedExplain {
    /// Number of the connection, as in access lines; without one, the newest are listed
    #[arg(value_name = "ID", conflicts_with_all = ["pool", "limit"])]
    id: Option<u64>,
    /// Tell whom the next client of this pool would be given, and why, without choosing
    #[arg(long, value_name = "NAME", conflicts_with = "limit")]
    pool: Option<String>,
    /// The address of that client, where the choice depends on it
    #[arg(long, value_name = "IP", requires = "pool")]
    client: Option<IpAddr>,
    /// How many of the newest connections are listed
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answer of the admin interface as it is
    #[arg(long)]
    json: bool,
}

impl TypedExplain {
    pub(super) fn meant(self) -> Explain {
        let Self { id, pool, client, limit, admin, json } = self;
        let about = match (id, pool) {
            (Some(id), _) => About::Connection(id),
            (None, Some(pool)) => About::Pool { pool, client },
            (None, None) => About::Newest(limit.into()),
        };
        Explain { admin: admin.into(), about, json }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedSessions {
    /// Those of this pool
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Those of this backend, by its address
    #[arg(long, value_name = "ADDRESS")]
    backend: Option<String>,
    /// Those with a higher number than this
    #[arg(long, value_name = "ID", default_value_t = 0)]
    after: u64,
    /// How many are listed
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    /// Cut this connection: both sides are reset
    #[arg(long, value_name = "ID", conflicts_with_all = ["pool", "backend", "after", "limit"])]
    cut: Option<u64>,
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answer of the admin interface as it is
    #[arg(long)]
    json: bool,
}

impl TypedSessions {
    pub(super) fn meant(self) -> Sessions {
        let Self { pool, backend, after, limit, cut, admin, json } = self;
        let wish = match cut {
            Some(id) => SessionsWish::Cut(id),
            None => SessionsWish::List { pool, backend, after, limit: limit as usize },
        };
        Sessions { admin: admin.into(), wish, json }
    }
}

pub(super) const EXPLAIN_HELP: &str = "\
Examples:
  evenkeel explain
  evenkeel explain 4711
  evenkeel explain --pool web
  evenkeel explain --pool web --client 192.0.2.7
  evenkeel explain --json --limit 100 | jq '.decisions[] | select(.end.by == \"backend\")'

The newest 4096 connections are remembered, with their choices, attempts and ends as they were.

Exit codes: 0 fine; 1 the balancer refused, or has forgotten; 2 usage; 6 nobody answered.";

pub(super) const SESSIONS_HELP: &str = "\
Examples:
  evenkeel sessions
  evenkeel sessions --pool web --backend 10.0.0.2:80 --limit 5000
  evenkeel sessions --cut 4711
  evenkeel sessions --json | jq '.sessions[] | select(.age_ms > 3600000) | .id'

They come in the order of their numbers, the oldest first.

Exit codes: 0 fine; 1 the balancer refused, or there is no such connection; 2 usage;
6 nobody answered.";
