//! Whether what was read fits together: every rule that needs more than one value.
//!
//! One function a rule. A draft from a text with errors is checked too, so that one reading shows
//! everything; only rules about what is absent keep still then, because it may have been meant
//! by what could not be read. Nothing here knows whether a file or a command line was read.

use std::collections::{HashMap, HashSet};

use super::draft::{Draft, ListenerDraft, PoolDraft, Report, Written};
use super::nearest::nearest;
use super::overlap;
use super::problem::{Complaint, Span, quote};
use super::section::title;

/// Checks the whole draft and resolves the pool of each listener.
pub(super) fn check(draft: &mut Draft, report: &mut Report) {
    for pool in &draft.pools {
        check_backends(pool, draft.incomplete, report);
        check_health(pool, report);
    }
    for listener in &draft.listeners {
        check_listener(listener, draft, report);
    }
    if !draft.incomplete {
        check_presence(draft, report);
    }
    resolve_pools(draft, report);
    check_overlap(draft, report);
    check_loops(draft, report);
}

fn check_backends(draft: &PoolDraft, incomplete: bool, report: &mut Report) {
    let title = &draft.title;
    let add = "add backends = [\"127.0.0.1:5001\"]";
    let (key, items, refused) = match &draft.backends {
        Written::Absent if incomplete => return,
        Written::Absent => {
            let message = format!("{title} has no backends");
            report.add(Complaint::new(message, add).at(draft.name.clone()));
            return;
        }
        Written::Refused => return,
        Written::List { key, items, refused } => (key, items, *refused),
    };
    if items.is_empty() && refused == 0 {
        let message = format!("the backends of {title} are an empty list");
        let cure = "write at least one, such as \"127.0.0.1:5001\"";
        report.add(Complaint::new(message, cure).at(key.clone()));
    }
    if items.len() + refused > MOST_BACKENDS {
        let message = format!("{title} has {} backends", items.len() + refused);
        let cure = format!("at most {MOST_BACKENDS} are possible; split the pool");
        report.add(Complaint::new(message, cure).at(key.clone()));
        return;
    }
    let backends = &draft.pool.backends;
    if refused == 0 && !backends.is_empty() && backends.iter().all(|b| b.weight == 0) {
        let message = format!("every backend of {title} has weight 0, so none gets a connection");
        let cure = "give at least one a weight from 1 to 256";
        report.add(Complaint::new(message, cure).at(key.clone()));
    }
    let mut seen: HashMap<String, &Span> = HashMap::new();
    for (backend, span) in backends.iter().zip(items) {
        match seen.get(&overlap::identity(&backend.address)) {
            Some(first) => {
                let written = quote(&backend.address.to_string());
                let message = format!("the backend {written} stands twice in {title}");
                let cure = "remove one; a weight gives it a larger share";
                let problem = Complaint::new(message, cure).at(span.clone());
                report.add(problem.after((*first).clone()));
            }
            None => {
                seen.insert(overlap::identity(&backend.address), span);
            }
        }
    }
}

fn check_health(draft: &PoolDraft, report: &mut Report) {
    let health = &draft.pool.health;
    let format = humantime::format_duration;
    if let Some(span) = &draft.health.fast_interval
        && health.fast_interval > health.interval
    {
        let message = format!(
            "`fast_interval` {} is longer than `interval` {}",
            format(health.fast_interval),
            format(health.interval)
        );
        let cure = format!("write at most \"{}\"", format(health.interval));
        report.add(Complaint::new(message, cure).at(span.clone()));
    }
    if let Some(span) = &draft.health.timeout
        && health.timeout > health.interval
    {
        let message = format!(
            "`timeout` {} is longer than `interval` {}",
            format(health.timeout),
            format(health.interval)
        );
        let cure = "a backend that does not answer is probed less often than the interval says";
        report.add(Complaint::new(message, cure).at(span.clone()).as_warning());
    }
}

fn check_listener(draft: &ListenerDraft, whole: &Draft, report: &mut Report) {
    let title = &draft.title;
    let cure = "write bind = [\":3030\"]";
    match &draft.bind {
        Written::Absent if !whole.incomplete => {
            let message = format!("{title} has no address to listen on");
            report.add(Complaint::new(message, cure).at(draft.name.clone()));
        }
        Written::List { key, items, refused: 0 } if items.is_empty() => {
            let message = format!("the addresses of {title} are an empty list");
            report.add(Complaint::new(message, cure).at(key.clone()));
        }
        Written::Absent | Written::Refused | Written::List { .. } => {}
    }
    if let (Some(own), Some(global), Some(span)) =
        (draft.listener.max_connections, whole.global.max_connections, &draft.max_connections)
        && own > global
    {
        let message = format!(
            "`max_connections` {own} of {title} can never be reached: [global] allows {global}"
        );
        let cure = format!("write at most {global} here, or raise the limit in [global]");
        report.add(Complaint::new(message, cure).at(span.clone()));
    }
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

const MOST_BACKENDS: usize = 10_000;

/// Every pair of addresses is compared, so this bounds the work for a hostile file.
const MOST_ADDRESSES: usize = 1024;
