//! From a TOML document to a draft: which tables and keys there are, and what each may hold.
//!
//! Listeners and pools have files of their own. Reads values one by one and judges each by itself;
//! how they fit together is `semantics.rs`. Only a key that says nothing without another one of
//! its table is refused here. Keys of later versions are unknown.

use std::path::PathBuf;

use toml::de::DeTable;

use super::Global;
use super::admin::admin;
use super::choice::{ACCESS_LOG, LOG_FORMAT};
use super::draft::{Draft, Report};
use super::listeners::listener;
use super::nearest::nearest;
use super::pools::pool;
use super::problem::{Complaint, quote};
use super::section::{Entry, Section, entries, is_name, title};

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
            "admin" => draft.admin = admin(entry, report),
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
    let near = nearest(entry.name(), ["global", "admin", "listener", "pool"]);
    let cure = match (near, entry.name()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, "backend" | "backends") => {
            "backends are listed in their pool: [pool.NAME] with backends = [\"HOST:PORT\"]".into()
        }
        (None, _) => "known tables are [global], [admin], [listener.NAME] and [pool.NAME]".into(),
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
    section.read("max_connections", &mut global.max_connections, report, |entry, report| {
        entry.number(CONNECTIONS, report).map(Some)
    });
    section.read("drain_deadline", &mut global.drain_deadline, report, Entry::duration_or_never);
    section.read("log_format", &mut global.log_format, report, |entry, report| {
        entry.choice(&LOG_FORMAT, report)
    });
    section.read("access_log", &mut global.access_log, report, |entry, report| {
        entry.choice(&ACCESS_LOG, report)
    });
    section.read("state_file", &mut global.state_file, report, |entry, report| {
        entry.parsed("write \"/var/lib/evenkeel/state\"", report, parse_state_file).map(Some)
    });
    section.finish(report);
    global
}

fn parse_state_file(text: &str) -> Result<PathBuf, Complaint> {
    if text.is_empty() || text.ends_with('/') || text.contains('\0') {
        let message = format!("{} names no file", quote(text));
        let cure = "write a path such as \"/var/lib/evenkeel/state\"";
        return Err(Complaint::new(message, cure));
    }
    Ok(PathBuf::from(text))
}

/// Limits on connections, of whatever kind.
pub(super) const CONNECTIONS: std::ops::RangeInclusive<u64> = 1..=10_000_000;

const LISTENER_FORM: &str = "[listener.web] with bind = [\":3030\"]";
const POOL_FORM: &str = "[pool.web] with backends = [\"127.0.0.1:5001\"]";
