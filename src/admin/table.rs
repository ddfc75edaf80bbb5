//! A snapshot as a table for people, 80 columns wide.
//!
//! Long names are shortened, large numbers rounded, and nothing that came over the network can
//! write to the terminal. Whoever needs the exact values asks for the JSON.

use std::fmt::Write;

use super::change::Changed;
use super::reload::{Plan, PlanItem};
use super::snapshot::{Backend, Listener, Pool, Snapshot, Waits};

/// The whole table.
#[must_use]
pub fn table(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    header(snapshot, &mut out);
    listeners(&snapshot.listeners, &mut out);
    let names = snapshot.backends().map(|(_, backend)| backend.address.chars().count());
    let width = names.max().unwrap_or_default().clamp("BACKEND".len(), WIDEST_NAME);
    for pool in &snapshot.pools {
        backends(pool, width, &mut out);
    }
    waits(snapshot, width, &mut out);
    ended(snapshot, &mut out);
    out
}

/// One backend in a line.
#[must_use]
pub fn one_line(changed: &Changed) -> String {
    let Changed { pool, backend, .. } = changed;
    let Backend { address, state, weight, active, reason, .. } = backend;
    let text = format!("{pool}/{address}: {state}, weight {weight}, {active} active ({reason})");
    clip(&text, usize::MAX)
}

/// What an answer says that is an error.
#[must_use]
pub fn error_in(body: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = json.as_ref().and_then(|json| json["error"].as_str());
    clip(message.unwrap_or("without a word"), usize::MAX)
}

/// What an answer shows of what is wrong with a configuration.
#[must_use]
pub fn rendered_in(body: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    let is_shown = |c: &char| *c == '\n' || !c.is_control();
    Some(json["rendered"].as_str()?.chars().filter(is_shown).collect())
}

/// What a reload would do.
#[must_use]
pub fn plan_table(plan: &Plan) -> String {
    changes(plan, "nothing would change", "would be made")
}

/// What a reload has done.
#[must_use]
pub fn reload_table(plan: &Plan) -> String {
    changes(plan, "nothing has changed", "made")
}

fn changes(plan: &Plan, nothing: &str, made: &str) -> String {
    if plan.changes.is_empty() {
        return format!("{nothing}\n");
    }
    let mut out = "ACTION   CONNECTIONS  WHAT\n".to_owned();
    for PlanItem { subject, action, text, connections } in &plan.changes {
        let line = format!("{action:8} {connections:>11}  {subject}: {text}");
        out.push_str(&clip(&line, usize::MAX));
        out.push('\n');
    }
    let later = plan.changes.iter().filter(|change| change.needs_restart()).count();
    let now = plan.changes.len() - later;
    let number = |count: usize| match count {
        1 => "1 change".to_owned(),
        _ => format!("{count} changes"),
    };
    match later {
        0 => out.push_str(&format!("{} {made}\n", number(now))),
        _ => out.push_str(&format!(
            "{} {made}; {later} not before the next start of the program\n",
            number(now)
        )),
    }
    out
}

fn header(snapshot: &Snapshot, out: &mut String) {
    let connections = &snapshot.connections;
    line(
        out,
        &format!(
            "{} {}, {} for {}: {} connections (at most {}), {} accepted",
            snapshot.service,
            snapshot.version,
            snapshot.state,
            duration(snapshot.uptime_seconds),
            connections.active,
            connections.limit,
            connections.total
        ),
    );
}

fn listeners(listeners: &[Listener], out: &mut String) {
    out.push('\n');
    let columns = ["LISTENER", "POOL", "ACTIVE", "TOTAL", "RECEIVED", "SENT", "ADDRESSES"];
    let row = |cells: [&str; 7]| {
        let [name, pool, active, total, received, sent, addresses] = cells;
        let (name, pool) = (clip(name, 12), clip(pool, 12));
        format!("{name:12} {pool:12} {active:>6} {total:>7} {received:>9} {sent:>9}  {addresses}")
    };
    line(out, &row(columns));
    for listener in listeners {
        let addresses = match listener.addresses.join(", ") {
            none if none.is_empty() => "closed".to_owned(),
            some => some,
        };
        let cells = [
            listener.name.as_str(),
            &listener.pool,
            &count(listener.active, 6),
            &count(listener.total, 7),
            &bytes(listener.bytes_received),
            &bytes(listener.bytes_sent),
            &addresses,
        ];
        line(out, &row(cells));
    }
}

fn backends(pool: &Pool, width: usize, out: &mut String) {
    let trouble = if pool.available { "" } else { ": no backend is available" };
    out.push('\n');
    line(out, &format!("POOL {}{trouble}", pool.name));
    let row = |name: &str, cells: [&str; 6]| {
        let name = clip(name, width);
        let [state, since, weight, active, total, failed] = cells;
        format!(
            "{name:width$}  {state:11} {since:>7} {weight:>6} {active:>6} {total:>7} {failed:>6}"
        )
    };
    line(out, &row("BACKEND", ["STATE", "FOR", "WEIGHT", "ACTIVE", "TOTAL", "FAILED"]));
    for backend in &pool.backends {
        let cells = [
            backend.state.as_str(),
            &duration(backend.state_seconds),
            &backend.weight.to_string(),
            &count(backend.active, 6),
            &count(backend.total, 7),
            &count(backend.connect_failures, 6),
        ];
        line(out, &row(&backend.address, cells));
        let notes = notes(backend);
        if !notes.is_empty() {
            line(out, &format!("  {}", notes.join("; ")));
        }
    }
}

/// What is out of the ordinary about a backend.
pub(crate) fn notes(backend: &Backend) -> Vec<String> {
    let mut notes = Vec::new();
    if !backend.is_healthy() && !backend.reason.is_empty() {
        notes.push(backend.reason.clone());
    }
    if backend.backup {
        notes.push("backup".to_owned());
    }
    if backend.weight_percent < 100 {
        notes.push(format!("{} % of its weight", backend.weight_percent));
    }
    if let Some(limit) = backend.limit {
        notes.push(format!("at most {limit} connections"));
    }
    if backend.flaps > 0 {
        notes.push(format!("it flaps ({})", backend.flaps));
    }
    if let Some(agent) = &backend.agent {
        notes.push(format!("agent: {agent}"));
    }
    notes
}

/// Whom connections have waited for: how long in all, and in percent of that.
fn waits(snapshot: &Snapshot, width: usize, out: &mut String) {
    let sum = |waits: &Waits| waits.all().into_iter().map(|(_, time)| time).sum::<u64>();
    let row = |name: &str, cells: [&str; 7]| {
        let name = clip(name, width);
        let [time, sends, reads, answers, takes, connect, us] = cells;
        format!(
            "{name:width$} {time:>7} {sends:>6} {reads:>6} {answers:>6} {takes:>6} {connect:>7} \
             {us:>4}"
        )
    };
    let waited: Vec<_> = snapshot.backends().filter(|(_, b)| sum(&b.waits_ms) > 0).collect();
    if waited.is_empty() {
        return;
    }
    out.push_str("\nWAITED FOR the client (C) or the backend (B) to send or read, in percent\n");
    let heads = ["TIME", "C-SEND", "C-READ", "B-SEND", "B-READ", "CONNECT", "SELF"];
    line(out, &row("BACKEND", heads));
    for (_, backend) in waited {
        let waits = &backend.waits_ms;
        let whole = sum(waits);
        let percent = |part: u64| (u128::from(part) * 100 / u128::from(whole)).to_string();
        let cells = [
            &*duration(whole / 1000),
            &percent(waits.client_send),
            &percent(waits.client_read),
            &percent(waits.backend_send),
            &percent(waits.backend_read),
            &percent(waits.connect),
            &percent(waits.balancer),
        ];
        line(out, &row(&backend.address, cells));
    }
}

fn ended(snapshot: &Snapshot, out: &mut String) {
    let mut ended: Vec<_> = snapshot.connections.ended.iter().collect();
    ended.retain(|(_, count)| **count > 0);
    ended.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    if !ended.is_empty() {
        out.push_str("\nENDED\n");
    }
    for (reason, number) in ended {
        line(out, &format!("{:>8} {reason}", count(*number, 8)));
    }
}

/// One line, which fits.
pub(super) fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}", clip(text, WIDTH).trim_end());
}

/// At most so many characters, none of which moves the cursor.
pub(crate) fn clip(text: &str, width: usize) -> String {
    let mut shown: String =
        text.chars().take(width).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(width).is_some() && shown.pop().is_some() {
        shown.push('…');
    }
    shown
}

/// A number that takes at most `width` characters, of which there are at least five.
pub(crate) fn count(number: u64, width: usize) -> String {
    let exact = number.to_string();
    if exact.len() <= width {
        return exact;
    }
    scaled(number, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

/// In 10 characters at most.
pub(crate) fn bytes(number: u64) -> String {
    scaled(number, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// With one digit behind the point where a unit is used, rounded down.
fn scaled(number: u64, step: u64, units: &[&str]) -> String {
    let (mut whole, mut rest, mut unit) = (number, 0, 0);
    while whole >= step && unit + 1 < units.len() {
        (whole, rest, unit) = (whole / step, whole % step, unit + 1);
    }
    let name = units.get(unit).copied().unwrap_or_default();
    match unit {
        0 => format!("{whole}{name}"),
        _ => format!("{whole}.{}{name}", rest * 10 / step),
    }
}

/// Rounded down to a unit that suits it.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

pub(super) const WIDTH: usize = 80;
const WIDEST_NAME: usize = 30;

#[cfg(test)]
mod tests {
    use super::super::snapshot::tests::sample;
    use super::*;

    #[test]
    fn it_tells_what_there_is() {
        let mut snapshot = sample();
        let down = &mut snapshot.pools[0].backends[1];
        down.reason = "connection refused; 0 of 2 passes to return".to_owned();
        down.state_seconds = 200;
        (down.backup, down.limit) = (true, Some(5));
        let expected = "\
evenkeel 0.1.0, running for 61 s: 2 connections (at most 1000), 14 accepted

LISTENER     POOL         ACTIVE   TOTAL  RECEIVED      SENT  ADDRESSES
web          web               2      14      10 B      20 B  127.0.0.1:3030

POOL web
BACKEND         STATE           FOR WEIGHT ACTIVE   TOTAL FAILED
127.0.0.1:5001  up              0 s      2      1       7      3
127.0.0.1:5002  down          3 min      2      1       7      3
  connection refused; 0 of 2 passes to return; backup; at most 5 connections

WAITED FOR the client (C) or the backend (B) to send or read, in percent
BACKEND           TIME C-SEND C-READ B-SEND B-READ CONNECT SELF
127.0.0.1:5001     1 s     85      0     14      0       0    0
127.0.0.1:5002     1 s     85      0     14      0       0    0

ENDED
      12 client closed
";
        assert_eq!(table(&snapshot), expected);
    }

    #[test]
    fn nothing_is_wider_than_the_screen_or_moves_the_cursor() {
        let mut snapshot = sample();
        let long = format!("\x1b[2J{}", "é".repeat(300));
        snapshot.state.clone_from(&long);
        (snapshot.connections.total, snapshot.uptime_seconds) = (u64::MAX, u64::MAX);
        snapshot.connections.ended.insert(long.clone(), u64::MAX);
        let listener = &mut snapshot.listeners[0];
        (listener.name, listener.addresses) = (long.clone(), vec![long.clone(); 3]);
        (listener.active, listener.bytes_sent) = (u64::MAX, u64::MAX);
        let pool = &mut snapshot.pools[0];
        (pool.name, pool.available) = (long.clone(), false);
        let backend = &mut pool.backends[1];
        (backend.address, backend.reason) = (long.clone(), long.clone());
        (backend.state, backend.weight) = ("maintenance".to_owned(), 256);
        (backend.active, backend.total) = (u64::MAX, u64::MAX);
        (backend.connect_failures, backend.state_seconds) = (u64::MAX, 99_999 * 86_400);
        backend.waits_ms = Waits { connect: u64::MAX / 2, ..Waits::default() };
        let shown = table(&snapshot);
        for line in shown.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
        let row = shown.lines().find(|line| line.contains("maintenance")).unwrap();
        assert!(row.ends_with("18.4E"), "the last column is there: {row}");
    }

    #[test]
    fn a_plan_tells_each_change_and_how_many() {
        let change = |action: &str, connections, text: &str| PlanItem {
            subject: "backend web/a:1".to_owned(),
            action: action.to_owned(),
            text: text.to_owned(),
            connections,
        };
        let mut plan = Plan::default();
        assert_eq!(plan_table(&plan), "nothing would change\n");
        plan.changes.push(change("remove", 12, "goes\x1b[2J"));
        assert_eq!(
            reload_table(&plan),
            "ACTION   CONNECTIONS  WHAT\nremove            12  backend web/a:1: goes\u{fffd}[2J\n\
             1 change made\n"
        );
        plan.changes.push(change("restart", 0, "later"));
        let shown = plan_table(&plan);
        let last = "1 change would be made; 1 not before the next start of the program";
        assert_eq!(shown.lines().last(), Some(last));
    }

    #[test]
    fn what_is_wrong_is_shown_as_it_was_drawn() {
        let body = br#"{"error":"e","problems":["p"],"rendered":"a:1:1: b\n |\u001b[2J\n"}"#;
        assert_eq!(rendered_in(body).as_deref(), Some("a:1:1: b\n |[2J\n"));
        assert_eq!(rendered_in(br#"{"error":"e"}"#), None);
    }

    #[test]
    fn numbers_are_rounded_down_only_where_they_must_be() {
        assert_eq!(count(999_999, 6), "999999");
        assert_eq!(count(1_000_000, 6), "1.0M");
        assert_eq!(count(u64::MAX, 6), "18.4E");
        assert_eq!((bytes(1023), bytes(1024)), ("1023 B".to_owned(), "1.0 KiB".to_owned()));
        assert_eq!(bytes(1024 * 1024 - 1), "1023.9 KiB");
        let lengths = [0, 119, 120, 7199, 7200, 172_799, 172_800].map(duration);
        assert_eq!(lengths, ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]);
    }
}
