//! Rules of one health table: its pace, what is probed, and what is done with the result.

use super::address::BackendAddress;
use super::draft::{PoolDraft, Report};
use super::problem::{Complaint, quote};
use super::{Agent, Check, OnDown};

/// Checks all of them.
pub(super) fn check(draft: &PoolDraft, report: &mut Report) {
    check_pace(draft, report);
    check_target(draft, report);
    check_consequence(draft, report);
}

fn check_pace(draft: &PoolDraft, report: &mut Report) {
    let health = &draft.pool.health;
    let format = humantime::format_duration;
    if let Some(span) = draft.health.of("fast_interval")
        && health.fast_interval > health.interval
    {
        let message = format!(
            "`fast_interval` {} is longer than `interval` {}",
            format(health.fast_interval),
            format(health.interval)
        );
        let cure = format!("write at most \"{}\"", format(health.interval));
        report.add(Complaint::new(message, cure).at(span));
    }
    if let Some(span) = draft.health.of("timeout")
        && health.timeout > health.interval
    {
        let message = format!(
            "`timeout` {} is longer than `interval` {}",
            format(health.timeout),
            format(health.interval)
        );
        let cure = "a backend that does not answer is probed less often than the interval says";
        report.add(Complaint::new(message, cure).at(span).as_warning());
    }
}

/// A port stands for a place only beside a host.
fn check_target(draft: &PoolDraft, report: &mut Report) {
    let health = &draft.pool.health;
    let unix = draft.pool.backends.iter().find_map(|backend| match &backend.address {
        BackendAddress::Unix(_) => Some(quote(&backend.address.to_string())),
        BackendAddress::Inet(_) | BackendAddress::Name { .. } => None,
    });
    if health.check == Check::None {
        // Neither is probed, and that was said where they were read.
    } else if let (Some(place), Some(_)) = (draft.health.of("port"), draft.health.of("address")) {
        let message = "`port` and `address` both say what is probed";
        let cure = "remove `port`; an `address` has a port of its own";
        report.add(Complaint::new(message, cure).at(place));
    } else if let (Some(place), Some(unix)) = (draft.health.of("port"), &unix) {
        let message = format!("the backend {unix} has no host that `port` could belong to");
        report.add(Complaint::new(message, "write `address` instead").at(place));
    }
    if let (Some(place), Some(Agent::Port(_)), Some(unix)) =
        (draft.health.of("agent"), &health.agent, &unix)
    {
        let message = format!("the backend {unix} has no host for the port of an agent");
        let cure = "write \"HOST:PORT\", or put it into a pool of its own";
        report.add(Complaint::new(message, cure).at(place));
    }
}

/// Only a backend that is probed, or has an agent, can be found to be down.
fn check_consequence(draft: &PoolDraft, report: &mut Report) {
    let health = &draft.pool.health;
    let is_watched = health.check != Check::None || draft.health.of("agent").is_some();
    if let Some(place) = draft.places.of("on_down")
        && draft.pool.on_down == OnDown::Close
        && !is_watched
    {
        let message = "`on_down = \"close\"` means nothing without probes or an agent";
        let cure = "write a `type` other than \"none\" in the health table, or remove this key";
        report.add(Complaint::new(message, cure).at(place));
    }
}
