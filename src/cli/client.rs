//! The commands that ask a running balancer.

use std::path::PathBuf;

use clap::Args;

use crate::config::BackendAddress;

/// Where a running balancer is asked, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Its admin address.
    pub address: BackendAddress,
    /// The file of its token.
    pub token_file: Option<PathBuf>,
}

/// `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Who is asked.
    pub admin: Admin,
    /// Whether the answer is shown as it came.
    pub json: bool,
}

#[derive(Debug, Args)]
pub(super) struct TypedAdmin {
    /// Admin address of the balancer: HOST:PORT, [V6]:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", env = "EVENKEEL_ADMIN", default_value = ADMIN_ADDRESS)]
    admin: BackendAddress,
    /// File that holds the balancer's token, if it wants one
    #[arg(long, value_name = "FILE", env = "EVENKEEL_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl From<TypedAdmin> for Admin {
    fn from(typed: TypedAdmin) -> Self {
        Self { address: typed.admin, token_file: typed.token_file }
    }
}

#[derive(Debug, Args)]
pub(super) struct TypedStatus {
    #[command(flatten)]
    admin: TypedAdmin,
    /// Print the answer of the admin interface as it is
    #[arg(long)]
    json: bool,
}

impl TypedStatus {
    pub(super) fn meant(self) -> Status {
        Status { admin: self.admin.into(), json: self.json }
    }
}

/// Of the demo, and where clients look for a balancer unless told otherwise.
pub(super) const ADMIN_ADDRESS: &str = "127.0.0.1:9930";

pub(super) const STATUS_HELP: &str = "\
Examples:
  evenkeel status
  evenkeel status --admin unix:/run/evenkeel/admin.sock
  evenkeel status --json | jq '.pools[].backends[] | select(.state != \"up\")'

Exit codes: 0 fine; 1 the balancer refused; 2 usage; 6 nobody answered.";
