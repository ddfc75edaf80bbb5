//! `top`: the live table.

use std::time::Duration;

use clap::{Args, value_parser};

use super::client::{Admin, TypedAdmin};
use crate::config::{Complaint, parse_duration};

/// `top`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Top {
    /// Who is asked.
    pub admin: Admin,
    /// Between two statuses.
    pub interval: Duration,
    /// So many times; `None`: until told to end.
    pub frames: Option<u64>,
    /// As text even where there is a terminal.
    pub plain: bool,
    /// As one JSON object for each status.
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TypedTop {
    #[command(flatten)]
    admin: TypedAdmin,
    /// Ask so often, from 100ms to 1h
    #[arg(short = 'd', long, value_name = "D", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Show so many, then end
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// Show one, then end; the same as -n 1
    #[arg(long, conflicts_with = "frames")]
    once: bool,
    /// Print one table after the other, as is done where there is no terminal
    #[arg(short, long)]
    batch: bool,
    /// Print one JSON object after the other: the status, and what happened in a second
    #[arg(long)]
    json: bool,
}

impl TypedTop {
    pub(super) fn meant(self) -> Top {
        let Self { admin, interval, frames, once, batch, json } = self;
        let frames = if once { Some(1) } else { frames };
        Top { admin: admin.into(), interval, frames, plain: batch || once, json }
    }
}

fn interval(text: &str) -> Result<Duration, Complaint> {
    let interval = parse_duration(text)?;
    if (SHORTEST..=LONGEST).contains(&interval) {
        return Ok(interval);
    }
    Err(Complaint::new(format!("{text:?} is no time between two looks"), "give 100ms to 1h"))
}

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

pub(super) const TOP_HELP: &str = "\
Examples:
  evenkeel top
  evenkeel top --admin unix:/run/evenkeel/admin.sock -d 5s
  evenkeel top --once
  evenkeel top --json -n 60 | jq '.rates.total.connections'

Keys: up and down choose a backend; d drain, m maintenance, r ready, + and - weight, s sort, \
/ filter, ? help, q quit. Without a terminal tables are printed one after the other, 80 columns \
wide or as COLUMNS says. NO_COLOR switches colours off.

Exit codes: 0 fine; 1 the balancer refused; 2 usage; 6 nobody answered at the
start, or for the last table.";
