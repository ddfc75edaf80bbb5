//! Whether what was read fits together: every rule that needs more than one value.
//!
//! One function a rule; those about a single listener or pool have files of their own. A draft
//! from a text with errors is checked too, so that one reading shows everything; only rules about
//! what is absent keep still then, because it may have been meant by what could not be read.
//! Nothing here knows whether a file or a command line was read.

use std::collections::{HashMap, HashSet};

use super::draft::{Draft, Report};
use super::nearest::nearest;
use super::problem::{Complaint, quote};
use super::section::title;
use super::{admin, health_rules, listener_rules, overlap, pool_rules};

/// Checks the whole draft and resolves the pool of each listener.
pub(super) fn check(draft: &mut Draft, report: &mut Report) {
    for pool in &draft.pools {
        pool_rules::check(pool, draft, report);
        health_rules::check(pool, report);
    }
    for listener in &draft.listeners {
        listener_rules::check(listener, draft, report);
    }
    if !draft.incomplete {
        check_presence(draft, report);
    }
    resolve_pools(draft, report);
    admin::check(draft, report);
    check_overlap(draft, report);
    check_loops(draft, report);
}

fn check_presence(draft: &Draft, report: &mut Report) {
    if draft.listeners.is_empty() {
        let cure = "add [listener.web] with bind = [\":3030\"]";
        report.add(Complaint::new("there is no listener", cure).at(draft.end..draft.end));
    }
    if draft.pools.is_empty() {
        let cure = "add [pool.web] with backends = [\"127.0.0.1:5001\"]";
        report.add(Complaint::new("there is no pool", cure).at(draft.end..draft.end));
    }
}

/// Finds the pool of each listener; reports listeners without one and pools without listeners.
fn resolve_pools(draft: &mut Draft, report: &mut Report) {
    let names: Vec<&str> = draft.pools.iter().map(|p| p.pool.name.as_str()).collect();
    let by_name: HashMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let mut used = HashSet::new();
    let mut all_known = !draft.incomplete;
    let mut unknown = 0_usize;
    for listener in &mut draft.listeners {
        let own = listener.listener.name.as_str();
        let (name, span) = match &listener.pool {
            Some((name, span)) => (name.as_str(), span.clone()),
            None => (own, listener.name.clone()),
        };
        if let Some(&index) = by_name.get(name) {
            listener.listener.pool = index;
            used.insert(index);
            continue;
        }
        all_known = false;
        if draft.incomplete || listener.pool_refused || names.is_empty() {
            continue;
        }
        unknown += 1;
        let near = match unknown {
            ..=MOST_GUESSES => nearest(name, names.iter().copied()).map(str::to_owned),
            _ => None,
        };
        let complaint = match (&listener.pool, near) {
            (Some(_), Some(near)) => Complaint::new(
                format!("there is no pool {}", quote(name)),
                format!("did you mean {near:?}?"),
            ),
            (Some(_), None) => Complaint::new(
                format!("there is no pool {}", quote(name)),
                format!("add {}, or name one of: {}", title("pool", name), listed(&names)),
            ),
            (None, near) => Complaint::new(
                format!("{} has no pool of its own name", listener.title),
                format!(
                    "add pool = {:?}, or a {}",
                    near.as_deref().unwrap_or(names[0]),
                    title("pool", own)
                ),
            ),
        };
        report.add(complaint.at(span));
    }
    for (index, pool) in draft.pools.iter().enumerate() {
        if all_known && !draft.listeners.is_empty() && !used.contains(&index) {
            let message = format!("no listener uses {}", pool.title);
            let cure = format!("write pool = {:?} in a listener, or remove it", pool.pool.name);
            let problem = Complaint::new(message, cure).at(pool.name.clone());
            report.add(problem.as_warning());
        }
    }
}

/// The first few names, for a cure.
fn listed(names: &[&str]) -> String {
    let mut list = names[..names.len().min(8)].join(", ");
    if names.len() > 8 {
        list.push_str(", …");
    }
    list
}

/// No two addresses may be in each other's way, within a listener or between listeners.
fn check_overlap(draft: &Draft, report: &mut Report) {
    let all: Vec<_> = draft
        .listeners
        .iter()
        .flat_map(|l| l.listener.bind.iter().zip(l.bind.items()).map(move |(b, s)| (l, b, s)))
        .collect();
    if let Some((_, _, span)) = all.get(MOST_ADDRESSES) {
        let message = format!("there are {} addresses to listen on", all.len());
        let cure = format!("at most {MOST_ADDRESSES} are possible");
        report.add(Complaint::new(message, cure).at((*span).clone()));
        return;
    }
    for (index, (listener, bind, span)) in all.iter().enumerate() {
        let earlier = all[..index].iter().find(|(_, other, _)| overlap::clash(bind, other));
        let Some((other_listener, other, first)) = earlier else {
            continue;
        };
        let written = quote(&bind.to_string());
        let owner = &other_listener.title;
        let is_same = *bind == *other || bind.port().is_none();
        let (message, cure) = if is_same && listener.name == other_listener.name {
            let message = format!("the address {written} stands twice in {owner}");
            (message, "remove one, or choose another port")
        } else if is_same {
            let message = format!("the address {written} belongs to {owner} already");
            (message, "choose another port or address")
        } else {
            let other = quote(&other.to_string());
            let message = format!("the address {written} overlaps with {other} of {owner}");
            (message, "choose another port, or bind single addresses in both")
        };
        let problem = Complaint::new(message, cure).at((*span).clone());
        report.add(problem.after((*first).clone()));
    }
}

/// A pool may not lead back to a listener that feeds it.
fn check_loops(draft: &Draft, report: &mut Report) {
    let mut reported = HashSet::new();
    for listener in &draft.listeners {
        let index = listener.listener.pool;
        let named = listener.pool.as_ref().map_or(&listener.listener.name, |(name, _)| name);
        let Some(pool) = draft.pools.get(index).filter(|pool| pool.pool.name == *named) else {
            continue;
        };
        for (at, (backend, span)) in
            pool.pool.backends.iter().zip(pool.backends.items()).enumerate()
        {
            let mut bind = listener.listener.bind.iter().take(MOST_ADDRESSES);
            let circle = bind.find(|bind| overlap::accepts(bind, &backend.address));
            if let Some(bind) = circle
                && reported.insert((index, at))
            {
                let message = format!(
                    "the backend {} is the address {} of {}: connections would go in a circle",
                    quote(&backend.address.to_string()),
                    quote(&bind.to_string()),
                    listener.title
                );
                let cure = "name the server itself, or let the listener have another port";
                report.add(Complaint::new(message, cure).at(span.clone()));
            }
        }
    }
}

/// Guessing is the slow part of a message, and nobody reads this many.
const MOST_GUESSES: usize = 100;

/// Every pair of addresses is compared, so this bounds the work for a hostile file.
const MOST_ADDRESSES: usize = 1024;
