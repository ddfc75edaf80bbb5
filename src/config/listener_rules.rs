//! Rules of one listener: where it listens, whom it lets in, and how many.

use std::collections::HashSet;

use super::draft::{Draft, ListenerDraft, Report, Written};
use super::problem::{Complaint, Span, quote};
use super::{BindAddress, Network};

/// Checks all of them.
pub(super) fn check(draft: &ListenerDraft, whole: &Draft, report: &mut Report) {
    check_bind(draft, whole, report);
    check_limits(draft, whole, report);
    check_networks(draft, report);
    check_denied(draft, report);
    check_proxies(draft, report);
    check_unix(draft, report);
}

fn check_bind(draft: &ListenerDraft, whole: &Draft, report: &mut Report) {
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
}

/// No limit is above one that holds for more.
fn check_limits(draft: &ListenerDraft, whole: &Draft, report: &mut Report) {
    let own = draft.listener.max_connections;
    let per_source = draft.listener.max_per_source.and_then(|most| usize::try_from(most).ok());
    let global = whole.global.max_connections.map(|most| (most, "[global]"));
    let around = own.map(|most| (most, "the listener")).into_iter().chain(global);
    let narrowest = around.min_by_key(|(most, _)| *most);
    for (key, limit, wider) in
        [("max_connections", own, global), ("max_connections_per_source", per_source, narrowest)]
    {
        if let (Some(own), Some((most, who)), Some(place)) = (limit, wider, draft.places.of(key))
            && own > most
        {
            let message = format!(
                "`{key}` {own} of {} can never be reached: {who} allows {most}",
                draft.title
            );
            let cure = format!("write at most {most} here, or raise the limit of {who}");
            report.add(Complaint::new(message, cure).at(place));
        }
    }
}

fn check_networks(draft: &ListenerDraft, report: &mut Report) {
    for (name, written) in
        [("allow", &draft.allow), ("deny", &draft.deny), ("proxy_protocol_from", &draft.proxies)]
    {
        let Written::List { key, items, refused } = written else {
            continue;
        };
        let count = items.len() + refused;
        if count > MOST_NETWORKS {
            let message = format!("`{name}` has {count} networks");
            let cure = format!("at most {MOST_NETWORKS} are possible");
            report.add(Complaint::new(message, cure).at(key.clone()));
        }
        if count == 0 && name == "allow" {
            let message = "`allow` is an empty list, so nobody would be let in";
            let cure = "write the networks of your clients, or remove the key to let everybody in";
            report.add(Complaint::new(message, cure).at(key.clone()));
        }
    }
}

/// What is allowed must not be denied as a whole, because then it is not allowed; nor are proxies.
fn check_denied(draft: &ListenerDraft, report: &mut Report) {
    let denied: HashSet<Network> = draft.listener.deny.iter().copied().collect();
    let allowed = draft.listener.allow.iter().zip(draft.allow.items());
    let proxies = draft.listener.proxy_protocol_from.iter().zip(draft.proxies.items());
    for (network, span) in allowed.chain(proxies) {
        let Some(wider) = around(network).find(|wider| denied.contains(wider)) else {
            continue;
        };
        let written = quote(&network.to_string());
        let message =
            format!("nobody in {written} is let in: `deny` has {}", quote(&wider.to_string()));
        let cure = "deny wins: remove one of the two, or deny only a part";
        report.add(Complaint::new(message, cure).at(span.clone()));
    }
}

/// Where not everybody is allowed, proxies must be.
fn check_proxies(draft: &ListenerDraft, report: &mut Report) {
    let allow = &draft.listener.allow;
    if allow.is_empty() || !matches!(draft.allow, Written::List { refused: 0, .. }) {
        return;
    }
    let allowed: HashSet<Network> = allow.iter().copied().collect();
    let proxies = &draft.listener.proxy_protocol_from;
    let all: HashSet<Network> = proxies.iter().copied().collect();
    let partly: HashSet<Network> =
        allow.iter().flat_map(around).filter(|wider| all.contains(wider)).collect();
    for (network, span) in proxies.iter().zip(draft.proxies.items()) {
        if !partly.contains(network) && !around(network).any(|wider| allowed.contains(&wider)) {
            let written = quote(&network.to_string());
            let message = format!("nobody in {written} is let in: `allow` has none of it");
            let cure =
                "add it to `allow`, which asks for the proxy and not for the client behind it";
            report.add(Complaint::new(message, cure).at(span.clone()));
        }
    }
}

/// Every network that has all of this one, itself included.
fn around(network: &Network) -> impl Iterator<Item = Network> {
    (0..=network.prefix()).rev().map(|prefix| network.widened(prefix))
}

/// Clients of unix sockets have no IP address that a rule could hold for.
fn check_unix(draft: &ListenerDraft, report: &mut Report) {
    let is_unix = |bind: &BindAddress| matches!(bind, BindAddress::Unix(_));
    let bind = &draft.listener.bind;
    let is_whole = matches!(draft.bind, Written::List { refused: 0, .. });
    if !is_whole || bind.is_empty() || !bind.iter().all(is_unix) {
        return;
    }
    for key in ["allow", "deny", "proxy_protocol_from", "max_connections_per_source"] {
        let place: Option<Span> = draft.places.of(key);
        if let Some(place) = place {
            let message = format!(
                "`{key}` means nothing in {}: clients of unix sockets have no IP address",
                draft.title
            );
            let cure = "remove it; who may connect is up to the permissions of the path";
            report.add(Complaint::new(message, cure).at(place));
        }
    }
}

/// In one list.
const MOST_NETWORKS: usize = 10_000;
