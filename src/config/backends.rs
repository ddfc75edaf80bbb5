//! The `backends` of a pool: text, or tables that say more about one.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Backend;
use super::address::BackendAddress;
use super::document::CONNECTIONS;
use super::draft::{Report, Written};
use super::problem::{Complaint, Span};
use super::section::{Entry, Section, item_text, read_list};

/// Reads the list of backends of the pool called `title`.
pub(super) fn backend_list(
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

/// `{ address = "HOST:PORT", weight = N, max_connections = N, backup = true }`.
fn backend_table(
    span: Span,
    table: &DeTable<'_>,
    title: &str,
    report: &mut Report,
) -> Option<Backend> {
    let mut section = Section::new(format!("a backend of {title}"), table);
    let written = section.take("address");
    let weight = section.take("weight");
    let max_connections = section.take("max_connections");
    let backup = section.take("backup");
    let backend = written.and_then(|entry| address(entry.value(), report)).map(Backend::new);
    // All are read before the first that cannot be makes an end of it.
    let weight = weight.map(|entry| entry.number(0..=256, report));
    let max_connections = max_connections.map(|entry| entry.number(CONNECTIONS, report));
    let backup = backup.map(|entry| entry.yes_or_no(report));
    let misspelt = section.finish(report);
    if written.is_none() && !misspelt.contains(&"address") {
        let cure = "write { address = \"127.0.0.1:5001\", weight = 1 }";
        report.add(Complaint::new("a backend has no address", cure).at(span));
    }
    let mut backend = backend?;
    if let Some(weight) = weight {
        backend.weight = weight?;
    }
    if let Some(most) = max_connections {
        backend.max_connections = Some(most?);
    }
    if let Some(backup) = backup {
        backend.backup = backup?;
    }
    Some(backend)
}

fn address(value: &Spanned<DeValue<'_>>, report: &mut Report) -> Option<BackendAddress> {
    let text = item_text(value, "a backend", "\"127.0.0.1:5001\"", report)?;
    let read = text.parse::<BackendAddress>();
    read.map_err(|complaint| report.add(complaint.at(value.span()))).ok()
}
