//! Backends that come and go while everything runs, and the configuration that is read again.

use super::Reactor;
use crate::admin::{Addition, Changed, Plan, Proposal, Refused, Removal};
use crate::http::reply::Status;

impl Reactor {
    #[expect(clippy::needless_pass_by_ref_mut, reason = "it will change what runs")]
    pub(super) fn add_backend(&mut self, _: &Addition, _: &str) -> Result<Changed, Refused> {
        Err(not_yet())
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "it will change what runs")]
    pub(super) fn remove_backend(&mut self, _: &Removal, _: &str) -> Result<Changed, Refused> {
        Err(not_yet())
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "it will change what runs")]
    pub(super) fn reload_file(&mut self, _: &str) -> Result<Plan, Refused> {
        Err(not_yet())
    }

    pub(super) fn plan_for(&self, _: Option<&Proposal>) -> Result<Plan, Refused> {
        Err(not_yet())
    }
}

fn not_yet() -> Refused {
    Refused::new(Status::NOT_IMPLEMENTED, "not available yet")
}
