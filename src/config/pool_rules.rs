//! Rules of one pool: which backends it has, and what its keys say together.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::address::BackendAddress;
use super::draft::{Draft, PoolDraft, Report, Written};
use super::overlap;
use super::problem::{Complaint, Span, quote};
use super::{Backend, Policy};

/// Checks all of them.
pub(super) fn check(draft: &PoolDraft, whole: &Draft, report: &mut Report) {
    check_backends(draft, whole.incomplete, report);
    check_limits(draft, whole, report);
    check_policy(draft, report);
    check_queue(draft, report);
    check_source(draft, report);
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
    if refused == 0 && !backends.is_empty() && backends.iter().all(|b| b.backup) {
        let message = format!("every backend of {title} is a backup, so all serve as if none were");
        let cure = "leave `backup` out where it is not the last resort";
        report.add(Complaint::new(message, cure).at(key.clone()).as_warning());
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

/// No limit of a backend is above that of the whole process.
fn check_limits(draft: &PoolDraft, whole: &Draft, report: &mut Report) {
    let Some(global) = whole.global.max_connections else {
        return;
    };
    for (backend, span) in draft.pool.backends.iter().zip(draft.backends.items()) {
        let own = backend.max_connections.and_then(|own| usize::try_from(own).ok());
        if let Some(own) = own.filter(|&own| own > global) {
            let written = quote(&backend.address.to_string());
            let message = format!(
                "`max_connections` {own} of {written} can never be reached: \
                 [global] allows {global}"
            );
            let cure = format!("write at most {global} here, or raise the limit of [global]");
            report.add(Complaint::new(message, cure).at(span.clone()));
        }
    }
}

fn check_policy(draft: &PoolDraft, report: &mut Report) {
    let Some(place) = draft.places.of("balance") else {
        return;
    };
    let pool = &draft.pool;
    let has_agent = draft.health.of("agent").is_some();
    if pool.policy == Policy::Resource && !has_agent {
        let problem = without_agent(&draft.title).at(place);
        report.add(problem);
    } else if pool.policy == Policy::First && !has_agent {
        let others = pool.backends.split_last().map_or(&[][..], |(_, others)| others);
        let takes_all = |b: &&Backend| b.max_connections.is_none() && b.weight > 0 && !b.backup;
        if let Some(backend) = others.iter().find(takes_all) {
            let message = format!(
                "{} has no `max_connections`: while it is up, those after it get no clients",
                quote(&backend.address.to_string())
            );
            let cure = "with \"first\", give every backend but the last one a `max_connections`";
            report.add(Complaint::new(message, cure).at(place).as_warning());
        }
    }
}

/// What is wrong with the policy `resource` in a pool nobody reports about.
pub(super) fn without_agent(title: &str) -> Complaint {
    Complaint::new(
        format!("`balance = \"resource\"` needs agents, and {title} has none"),
        "add agent = \":PORT\" to its health table",
    )
}

/// Clients only ever wait in the queue where backends can be full.
fn check_queue(draft: &PoolDraft, report: &mut Report) {
    let Some(place) = draft.places.of("queue").or_else(|| draft.places.of("queue_timeout")) else {
        return;
    };
    let limited = draft.pool.backends.iter().any(|backend| backend.max_connections.is_some());
    let is_used = limited || draft.pool.queue == 0 || draft.health.of("agent").is_some();
    if matches!(draft.backends, Written::List { refused: 0, .. }) && !is_used {
        let message = format!("nobody ever waits: no backend of {} can be full", draft.title);
        let cure = "give its backends a `max_connections`, or remove this key";
        report.add(Complaint::new(message, cure).at(place).as_warning());
    }
}

/// Every backend with an IP address can be reached from one of the source addresses.
fn check_source(draft: &PoolDraft, report: &mut Report) {
    let Written::List { key, items, refused } = &draft.source else {
        return;
    };
    let source = &draft.pool.source;
    if items.len() + refused > MOST_SOURCES {
        let message = format!("there are {} source addresses", items.len() + refused);
        let cure = format!("at most {MOST_SOURCES} are possible");
        report.add(Complaint::new(message, cure).at(key.clone()));
        return;
    }
    let mut seen = HashSet::new();
    for (address, span) in source.iter().zip(items) {
        if !seen.insert(address) {
            let message = format!("the address {} stands twice", quote(&address.to_string()));
            report.add(Complaint::new(message, "remove one").at(span.clone()));
        }
    }
    if source.is_empty() || *refused > 0 {
        return;
    }
    let backends = &draft.pool.backends;
    let is_unix = |backend: &Backend| matches!(backend.address, BackendAddress::Unix(_));
    if !backends.is_empty() && backends.iter().all(is_unix) {
        let message =
            format!("`source` means nothing: all backends of {} are unix sockets", draft.title);
        report.add(Complaint::new(message, "remove this key").at(key.clone()));
        return;
    }
    for (backend, span) in backends.iter().zip(draft.backends.items()) {
        let BackendAddress::Inet(address) = &backend.address else {
            continue;
        };
        let ip = address.ip().to_canonical();
        if !source.iter().any(|source| source.is_ipv4() == ip.is_ipv4()) {
            let family = match ip {
                IpAddr::V4(_) => "IPv4",
                IpAddr::V6(_) => "IPv6",
            };
            let message = format!(
                "the backend {} cannot be reached from any address in `source`",
                quote(&address.to_string())
            );
            let cure = format!("add an {family} address to `source`");
            report.add(Complaint::new(message, cure).at(span.clone()));
        }
    }
}

pub(super) const MOST_BACKENDS: usize = 10_000;

const MOST_SOURCES: usize = 256;
