//! The `[pool.NAME]` tables of a document: how a backend is chosen, and what if there is none.

use toml::de::DeTable;

use super::backends::backend_list;
use super::checks::health;
use super::choice::{BALANCE, ON_DOWN, ON_UNAVAILABLE, RESPONSE_TIME, SEND_PROXY_PROTOCOL};
use super::draft::{Places, PoolDraft, Report, Written};
use super::network::parse_source;
use super::section::{Entry, Items, Need, Section, title};
use super::{OnUnavailable, Policy, Pool};

/// Reads one pool.
pub(super) fn pool(named: Entry<'_>, table: &DeTable<'_>, report: &mut Report) -> PoolDraft {
    let mut pool = Pool { name: named.name().to_owned(), ..Pool::default() };
    let title = title("pool", named.name());
    let mut section = Section::new(title.as_str(), table);
    pool.policy = policy(&mut section, report);
    connecting(&mut section, &mut pool, report);
    pool.on_unavailable = on_unavailable(&mut section, report);
    waiting(&mut section, &mut pool, report);
    let mut source = Written::Absent;
    if let Some(entry) = section.take("source") {
        (pool.source, source) = entry.list(&SOURCES, report, parse_source);
    }
    section
        .read("on_down", &mut pool.on_down, report, |entry, report| entry.choice(&ON_DOWN, report));
    section.read("slow_start", &mut pool.slow_start, report, Entry::duration_or_zero);
    let mut backends = match section.take("backends") {
        Some(entry) => backend_list(entry, &title, &mut pool.backends, report),
        None => Written::Absent,
    };
    let mut in_health = Places::default();
    if let Some(entry) = section.take("health") {
        let health_title = format!("{}.health]", title.trim_end_matches(']'));
        let form = format!("write {health_title} or {{ type = \"none\" }}");
        if let Some(table) = entry.table(&form, report) {
            let section = Section::new(health_title, table);
            (pool.health, in_health) = health(section, report);
        }
    }
    let places = section.places();
    let misspelt = section.finish(report);
    if matches!(backends, Written::Absent) && misspelt.contains(&"backends") {
        backends = Written::Refused;
    }
    let name = named.key_span();
    PoolDraft { title, pool, name, backends, source, places, health: in_health }
}

/// `balance`, and the keys that go with some of its words.
fn policy(section: &mut Section<'_>, report: &mut Report) -> Policy {
    let word = section.take("balance");
    let read = word.map(|entry| entry.choice(&BALANCE, report));
    // A word that could not be read may have been the right one.
    let is_refused = matches!(read, Some(None));
    let mut policy = read.flatten().unwrap_or_default();
    let need = Need {
        beside: "`balance = \"source-hash\"`",
        met: is_refused || matches!(policy, Policy::SourceHash { .. }),
    };
    let factor = section.take_with("hash_balance_factor", &need, report);
    let factor = factor.and_then(|entry| entry.number(101..=10_000, report));
    let need = Need {
        beside: "`balance = \"response-time\"`",
        met: is_refused || matches!(policy, Policy::ResponseTime { .. }),
    };
    let timing = section.take_with("response_time", &need, report);
    let timing = timing.and_then(|entry| entry.choice(&RESPONSE_TIME, report));
    match &mut policy {
        Policy::SourceHash { balance_factor } => *balance_factor = factor,
        Policy::ResponseTime { of } => *of = timing.unwrap_or_default(),
        Policy::RoundRobin
        | Policy::LeastConnections
        | Policy::TwoChoices
        | Policy::Resource
        | Policy::First => {}
    }
    policy
}

fn connecting(section: &mut Section<'_>, pool: &mut Pool, report: &mut Report) {
    let default = pool.connect_timeout;
    section.read("connect_timeout", &mut pool.connect_timeout, report, |entry, report| {
        entry.duration(default, report)
    });
    section.read("connect_attempts", &mut pool.connect_attempts, report, |entry, report| {
        entry.number(1..=100, report)
    });
    let first_byte = &mut pool.first_byte_timeout;
    section.read("first_byte_timeout", first_byte, report, Entry::duration_or_never);
    let version = &mut pool.send_proxy_protocol;
    section.read("send_proxy_protocol", version, report, |entry, report| {
        entry.choice(&SEND_PROXY_PROTOCOL, report)
    });
}

/// `on_unavailable`, and the keys that go with `"hold"`.
fn on_unavailable(section: &mut Section<'_>, report: &mut Report) -> OnUnavailable {
    let word = section.take("on_unavailable");
    let read = word.map(|entry| entry.choice(&ON_UNAVAILABLE, report));
    let is_refused = matches!(read, Some(None));
    let mut meant = read.flatten().unwrap_or_default();
    let need = Need {
        beside: "`on_unavailable = \"hold\"`",
        met: is_refused || matches!(meant, OnUnavailable::Hold { .. }),
    };
    let written = section.take_with("hold_timeout", &need, report);
    let hold_timeout = written.and_then(|entry| entry.duration_or_never(report));
    let written = section.take_with("hold_max", &need, report);
    let hold_max = written.and_then(|entry| entry.number(1..=MOST_WAITING, report));
    match &mut meant {
        OnUnavailable::Close => {}
        OnUnavailable::Hold { timeout, most } => {
            *timeout = hold_timeout.unwrap_or(*timeout);
            *most = hold_max.unwrap_or(*most);
        }
    }
    meant
}

fn waiting(section: &mut Section<'_>, pool: &mut Pool, report: &mut Report) {
    section.read("queue", &mut pool.queue, report, |entry, report| {
        entry.number(0..=MOST_WAITING, report)
    });
    let need = Need { beside: "a `queue` above 0", met: pool.queue > 0 };
    let timeout = section.take_with("queue_timeout", &need, report);
    if let Some(timeout) = timeout.and_then(|entry| entry.duration_or_never(report)) {
        pool.queue_timeout = timeout;
    }
}

const SOURCES: Items =
    Items { one: "a local address", many: "a list of addresses", example: "\"192.0.2.10\"" };

/// Clients of one pool that may wait at one time.
const MOST_WAITING: u64 = 1_000_000;
