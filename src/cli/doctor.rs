//! `doctor`: the machine, compared with a configuration.

use std::path::PathBuf;

use clap::Args;

use super::client::{Admin, TypedAdmin};

/// `doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doctor {
    /// What the machine is compared with; `None`: a running balancer.
    pub file: Option<PathBuf>,
    /// Whether nobody is asked or connected.
    pub offline: bool,
    /// Where a running balancer is asked.
    pub admin: Admin,
    /// Whether the findings are shown as JSON.
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TypedDoctor {
    /// Configuration file to compare with; without it a running balancer is asked for its own
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Resolve no names and connect nobody
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the findings as one JSON object
    #[arg(long)]
    json: bool,
}

impl TypedDoctor {
    pub(super) fn meant(self) -> Doctor {
        let Self { config, offline, admin, json } = self;
        Doctor { file: config, offline, admin: admin.into(), json }
    }
}

pub(super) const DOCTOR_HELP: &str = "\
Examples:
  evenkeel doctor -c evenkeel.toml
  sudo -u evenkeel evenkeel doctor -c evenkeel.toml
  evenkeel doctor --json | jq '.findings[] | select(.severity == \"error\")'

Each finding has what was read, what it means for this configuration, and what mends it. Limits \
are those of the user and shell it runs in. Nothing is changed; backends are connected and left.

Exit codes: 0 nothing but notes; 2 usage; 3 configuration invalid; 7 errors or warnings.";
