//! The `[listener.NAME]` tables of a document: where clients come in, and which of them.

use toml::de::DeTable;

use super::Listener;
use super::address::BindAddress;
use super::choice::MODE;
use super::document::CONNECTIONS;
use super::draft::{ListenerDraft, Report, Written};
use super::network::Network;
use super::section::{Entry, Items, Section, title};

/// Reads one listener.
pub(super) fn listener(
    named: Entry<'_>,
    table: &DeTable<'_>,
    report: &mut Report,
) -> ListenerDraft {
    let mut listener = Listener { name: named.name().to_owned(), ..Listener::default() };
    let title = title("listener", named.name());
    let mut section = Section::new(title.as_str(), table);
    let mut bind = Written::Absent;
    if let Some(entry) = section.take("bind") {
        (listener.bind, bind) = entry.list(&ADDRESSES, report, str::parse::<BindAddress>);
    }
    let (mut pool, mut pool_refused) = (None, false);
    if let Some(entry) = section.take("pool") {
        pool = entry
            .text("write the name of a pool, such as \"web\"", report)
            .map(|name| (name.to_owned(), entry.span()));
        pool_refused = pool.is_none();
    }
    if let Some(entry) = section.take("mode") {
        entry.choice(&MODE, report);
    }
    section.read("backlog", &mut listener.backlog, report, |entry, report| {
        entry.number(1..=65535, report)
    });
    limits(&mut section, &mut listener, report);
    let allow = networks("allow", &mut section, &mut listener.allow, report);
    let deny = networks("deny", &mut section, &mut listener.deny, report);
    let proxies = &mut listener.proxy_protocol_from;
    let proxies = networks("proxy_protocol_from", &mut section, proxies, report);
    let idle = &mut listener.idle_timeout;
    section.read("idle_timeout", idle, report, Entry::duration_or_never);
    let half_close = &mut listener.half_close_timeout;
    section.read("half_close_timeout", half_close, report, Entry::duration_or_never);
    section.read("accept_rate", &mut listener.accept_rate, report, |entry, report| {
        entry.number(1..=1_000_000, report).map(Some)
    });
    section.read("splice", &mut listener.splice, report, Entry::yes_or_no);
    section.read("reuse_port", &mut listener.reuse_port, report, Entry::yes_or_no);
    let places = section.places();
    let misspelt = section.finish(report);
    if matches!(bind, Written::Absent) && misspelt.contains(&"bind") {
        bind = Written::Refused;
    }
    pool_refused |= misspelt.contains(&"pool");
    let name = named.key_span();
    ListenerDraft { title, listener, name, bind, pool, pool_refused, allow, deny, proxies, places }
}

fn limits(section: &mut Section<'_>, listener: &mut Listener, report: &mut Report) {
    section.read("max_connections", &mut listener.max_connections, report, |entry, report| {
        entry.number(CONNECTIONS, report).map(Some)
    });
    let per_source = &mut listener.max_per_source;
    section.read("max_connections_per_source", per_source, report, |entry, report| {
        entry.number(CONNECTIONS, report).map(Some)
    });
}

fn networks(
    key: &'static str,
    section: &mut Section<'_>,
    into: &mut Vec<Network>,
    report: &mut Report,
) -> Written {
    let mut written = Written::Absent;
    if let Some(entry) = section.take(key) {
        (*into, written) = entry.list(&NETWORKS, report, str::parse::<Network>);
    }
    written
}

const ADDRESSES: Items =
    Items { one: "an address", many: "a list of addresses", example: "\":3030\"" };

const NETWORKS: Items =
    Items { one: "a network", many: "a list of networks", example: "\"10.0.0.0/8\"" };
