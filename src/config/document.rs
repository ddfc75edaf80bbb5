//! From a TOML document to a draft: which tables and keys there are, and what each may hold.
//!
//! One function a table, top down; pools have their own file. Reads values one by one and judges
//! each by itself; how they fit together is `semantics.rs`. Keys of later versions are unknown.

use toml::de::{DeTable, DeValue};

use super::address::BindAddress;
use super::choice::{ACCESS_LOG, LOG_FORMAT, MODE};
use super::draft::{Draft, ListenerDraft, Report, Written};
use super::nearest::nearest;
use super::pools::pool;
use super::problem::{Complaint, quote};
use super::section::{Entry, Section, entries, is_name, item_text, read_list, title};
use super::{Global, Listener};

/// Reads the whole document.
pub(super) fn read(root: &DeTable<'_>, report: &mut Report) -> Draft {
    let mut draft = Draft::default();
    for entry in entries(root) {
        match entry.name() {
            "global" => {
                if let Some(table) = entry.table("write [global] above its keys", report) {
                    draft.global = global(table, report);
                }
            }
            "listener" => {
                let (tables, sound) = named(entry, LISTENER_FORM, report);
                draft.incomplete |= !sound;
                for (entry, table) in tables {
                    draft.listeners.push(listener(entry, table, report));
                }
            }
            "pool" => {
                let (tables, sound) = named(entry, POOL_FORM, report);
                draft.incomplete |= !sound;
                for (entry, table) in tables {
                    draft.pools.push(pool(entry, table, report));
                }
            }
            _ => draft.incomplete |= unknown_table(entry, report),
        }
    }
    draft
}

/// Reports a top-level name that means nothing; whether a known one was probably meant.
fn unknown_table(entry: Entry<'_>, report: &mut Report) -> bool {
    let near = nearest(entry.name(), ["global", "listener", "pool"]);
    let cure = match (near, entry.name()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, "backend" | "backends") => {
            "backends are listed in their pool: [pool.NAME] with backends = [\"HOST:PORT\"]".into()
        }
        (None, _) => "known tables are [global], [listener.NAME] and [pool.NAME]".into(),
    };
    let what = if entry.value().get_ref().is_table() { "table" } else { "key" };
    let message = format!("unknown {what} {} at the top level", quote(entry.name()));
    report.add(Complaint::new(message, cure).at(entry.key_span()));
    near.is_some()
}

/// The tables inside `[listener]` or `[pool]`, each under the name it is given, and whether
/// nothing else stands there that may have been meant as one.
fn named<'a>(
    parent: Entry<'a>,
    form: &str,
    report: &mut Report,
) -> (Vec<(Entry<'a>, &'a DeTable<'a>)>, bool) {
    let form = format!("give it a name: {form}");
    let Some(table) = parent.table(&form, report) else {
        return (Vec::new(), false);
    };
    let (mut found, mut sound) = (Vec::new(), true);
    for entry in entries(table) {
        let Some(table) = entry.value().get_ref().as_table() else {
            let message = format!(
                "{} stands in [{}], which holds only named tables",
                quote(entry.name()),
                parent.name(),
            );
            report.add(Complaint::new(message, form.clone()).at(entry.key_span()));
            sound = false;
            continue;
        };
        if !is_name(entry.name()) {
            let message = format!("{} is not a possible name", title(parent.name(), entry.name()));
            let cure = "use 1 to 64 letters, digits, _, - and dots (dots need quotes)";
            report.add(Complaint::new(message, cure).at(entry.key_span()));
        }
        found.push((entry, table));
    }
    (found, sound)
}

fn global(table: &DeTable<'_>, report: &mut Report) -> Global {
    let mut global = Global::default();
    let mut section = Section::new("[global]", table);
    if let Some(entry) = section.take("max_connections") {
        global.max_connections = entry.number(CONNECTIONS, report);
    }
    if let Some(entry) = section.take("drain_deadline") {
        let read = entry.duration_or_never(report);
        global.drain_deadline = read.unwrap_or(global.drain_deadline);
    }
    if let Some(entry) = section.take("log_format") {
        global.log_format = entry.choice(&LOG_FORMAT, report).unwrap_or_default();
    }
    if let Some(entry) = section.take("access_log") {
        global.access_log = entry.choice(&ACCESS_LOG, report).unwrap_or_default();
    }
    section.finish(report);
    global
}

fn listener(named: Entry<'_>, table: &DeTable<'_>, report: &mut Report) -> ListenerDraft {
    let mut listener = Listener { name: named.name().to_owned(), ..Listener::default() };
    let title = title("listener", named.name());
    let mut section = Section::new(title.as_str(), table);
    let mut bind = match section.take("bind") {
        Some(entry) => bind_list(entry, &mut listener.bind, report),
        None => Written::Absent,
    };
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
    if let Some(entry) = section.take("backlog") {
        listener.backlog = entry.number(1..=65535, report).unwrap_or(listener.backlog);
    }
    let mut max_connections = None;
    if let Some(entry) = section.take("max_connections") {
        listener.max_connections = entry.number(CONNECTIONS, report);
        max_connections = Some(entry.span());
    }
    if let Some(entry) = section.take("idle_timeout") {
        let read = entry.duration_or_never(report);
        listener.idle_timeout = read.unwrap_or(listener.idle_timeout);
    }
    if let Some(entry) = section.take("half_close_timeout") {
        let read = entry.duration_or_never(report);
        listener.half_close_timeout = read.unwrap_or(listener.half_close_timeout);
    }
    if let Some(entry) = section.take("splice") {
        listener.splice = entry.yes_or_no(report).unwrap_or(listener.splice);
    }
    if let Some(entry) = section.take("reuse_port") {
        listener.reuse_port = entry.yes_or_no(report).unwrap_or(listener.reuse_port);
    }
    let misspelt = section.finish(report);
    if matches!(bind, Written::Absent) && misspelt.contains(&"bind") {
        bind = Written::Refused;
    }
    pool_refused |= misspelt.contains(&"pool");
    ListenerDraft {
        title,
        listener,
        name: named.key_span(),
        bind,
        pool,
        pool_refused,
        max_connections,
    }
}

/// Addresses to listen on: a list of them, or one alone.
fn bind_list(entry: Entry<'_>, into: &mut Vec<BindAddress>, report: &mut Report) -> Written {
    let values = match entry.value().get_ref() {
        DeValue::Array(values) => values.as_ref(),
        DeValue::String(_) => std::slice::from_ref(entry.value()),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => {
            entry.wrong_type("a list of addresses", "write [\":3030\"]", report);
            return Written::Refused;
        }
    };
    let (addresses, written) = read_list(entry.key_span(), values, report, |value, report| {
        let text = item_text(value, "an address", "\":3030\"", report)?;
        let read = text.parse::<BindAddress>();
        read.map_err(|complaint| report.add(complaint.at(value.span()))).ok()
    });
    *into = addresses;
    written
}

/// Limits on clients, of the process or of a listener.
const CONNECTIONS: std::ops::RangeInclusive<u64> = 1..=10_000_000;

const LISTENER_FORM: &str = "[listener.web] with bind = [\":3030\"]";
const POOL_FORM: &str = "[pool.web] with backends = [\"127.0.0.1:5001\"]";
