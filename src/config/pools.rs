//! The `[pool.NAME]` tables of a document: backends, how one is chosen, how they are probed.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::address::BackendAddress;
use super::choice::{BALANCE, CheckType, HEALTH_TYPE, INITIAL};
use super::draft::{HealthPlaces, PoolDraft, Report, Written};
use super::problem::{Complaint, Span};
use super::section::{Entry, Section, item_text, read_list, title};
use super::{Backend, Check, Health, HttpCheck, Pool};

/// Reads one pool.
pub(super) fn pool(named: Entry<'_>, table: &DeTable<'_>, report: &mut Report) -> PoolDraft {
    let mut pool = Pool { name: named.name().to_owned(), ..Pool::default() };
    let title = title("pool", named.name());
    let mut section = Section::new(title.as_str(), table);
    if let Some(entry) = section.take("balance") {
        pool.policy = entry.choice(&BALANCE, report).unwrap_or_default();
    }
    if let Some(entry) = section.take("connect_timeout") {
        let read = entry.duration(pool.connect_timeout, report);
        pool.connect_timeout = read.unwrap_or(pool.connect_timeout);
    }
    if let Some(entry) = section.take("connect_attempts") {
        let read = entry.number(1..=100, report);
        pool.connect_attempts = read.unwrap_or(pool.connect_attempts);
    }
    let mut backends = match section.take("backends") {
        Some(entry) => backend_list(entry, &title, &mut pool.backends, report),
        None => Written::Absent,
    };
    let mut places = HealthPlaces::default();
    if let Some(entry) = section.take("health") {
        let form = format!("write {} or {{ type = \"none\" }}", health_title(&title));
        if let Some(table) = entry.table(&form, report) {
            places = health(&title, table, &mut pool.health, report);
        }
    }
    let misspelt = section.finish(report);
    if matches!(backends, Written::Absent) && misspelt.contains(&"backends") {
        backends = Written::Refused;
    }
    PoolDraft { title, pool, name: named.key_span(), backends, health: places }
}

/// Backends: text, or tables with an address and a weight.
fn backend_list(
    entry: Entry<'_>,
    title: &str,
    into: &mut Vec<Backend>,
    report: &mut Report,
) -> Written {
    let DeValue::Array(values) = entry.value().get_ref() else {
        let form = "write [\"127.0.0.1:5001\", \"127.0.0.1:5002\"]";
        entry.wrong_type("a list of backends", form, report);
        return Written::Refused;
    };
    let (backends, written) =
        read_list(entry.key_span(), values, report, |value, report| match value.get_ref() {
            DeValue::Table(table) => backend_table(value.span(), table, title, report),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => Some(Backend::new(address(value, report)?)),
        });
    *into = backends;
    written
}

/// `{ address = "HOST:PORT", weight = N }`.
fn backend_table(
    span: Span,
    table: &DeTable<'_>,
    title: &str,
    report: &mut Report,
) -> Option<Backend> {
    let mut section = Section::new(format!("a backend of {title}"), table);
    let written = section.take("address");
    let weight = section.take("weight");
    let backend = written.and_then(|entry| address(entry.value(), report)).map(Backend::new);
    let weight = weight.map(|entry| entry.number(0..=256, report));
    let misspelt = section.finish(report);
    if written.is_none() && !misspelt.contains(&"address") {
        let cure = "write { address = \"127.0.0.1:5001\", weight = 1 }";
        report.add(Complaint::new("a backend has no address", cure).at(span));
    }
    let mut backend = backend?;
    if let Some(weight) = weight {
        backend.weight = weight?;
    }
    Some(backend)
}

fn address(value: &Spanned<DeValue<'_>>, report: &mut Report) -> Option<BackendAddress> {
    let text = item_text(value, "a backend", "\"127.0.0.1:5001\"", report)?;
    let read = text.parse::<BackendAddress>();
    read.map_err(|complaint| report.add(complaint.at(value.span()))).ok()
}

/// Reads `[pool.NAME.health]`.
fn health(
    pool_title: &str,
    table: &DeTable<'_>,
    health: &mut Health,
    report: &mut Report,
) -> HealthPlaces {
    let mut section = Section::new(health_title(pool_title), table);
    if let Some(entry) = section.take("type") {
        health.check = match entry.choice(&HEALTH_TYPE, report).unwrap_or(CheckType::Tcp) {
            CheckType::None => Check::None,
            CheckType::Tcp => Check::Tcp,
            CheckType::Http => Check::Http(HttpCheck::default()),
            CheckType::Redis => Check::Redis,
            CheckType::Mysql => Check::Mysql,
            CheckType::Postgres => Check::Postgres,
            CheckType::Smtp => Check::Smtp,
        };
    }
    if let Some(entry) = section.take("interval") {
        let read = entry.duration(health.interval, report);
        health.interval = read.unwrap_or(health.interval);
    }
    // A default that is longer than the interval somebody wrote is not their mistake.
    let fast_interval = section.take("fast_interval");
    let fast_default = health.fast_interval;
    health.fast_interval = fast_interval
        .and_then(|entry| entry.duration(fast_default, report))
        .unwrap_or(fast_default.min(health.interval));
    let timeout = section.take("timeout");
    if let Some(entry) = timeout {
        let read = entry.duration(health.timeout, report);
        health.timeout = read.unwrap_or(health.timeout);
    }
    if let Some(entry) = section.take("rise") {
        health.rise = entry.number(1..=1000, report).unwrap_or(health.rise);
    }
    if let Some(entry) = section.take("fall") {
        health.fall = entry.number(1..=1000, report).unwrap_or(health.fall);
    }
    if let Some(entry) = section.take("initial") {
        health.initial = entry.choice(&INITIAL, report).unwrap_or_default();
    }
    section.finish(report);
    HealthPlaces {
        fast_interval: fast_interval.map(|entry| entry.span()),
        timeout: timeout.map(|entry| entry.span()),
    }
}

/// `[pool.web]` to `[pool.web.health]`.
fn health_title(pool_title: &str) -> String {
    format!("{}.health]", pool_title.trim_end_matches(']'))
}
