//! The live table: what is seen at which size, and what keys ask for.

use proptest::prelude::*;

use super::view::{Line, Style, page, screen};
use super::*;
use crate::admin::change::Wishes;
use crate::admin::snapshot::Listener;

/// One pool of three backends, the second of which is down.
pub(crate) fn sample() -> Snapshot {
    let backend = |port: u16, state: &str| Backend {
        address: format!("127.0.0.1:{port}"),
        state: state.to_owned(),
        state_seconds: 61,
        reason: if state == "down" { "connection refused" } else { "connected in 0 ms" }.to_owned(),
        weight: 2,
        weight_percent: 100,
        active: u64::from(port - 5000),
        total: 100,
        ..Backend::default()
    };
    Snapshot {
        service: "evenkeel".to_owned(),
        version: "0.1.0".to_owned(),
        state: "running".to_owned(),
        uptime_seconds: 61,
        uptime_milliseconds: 61_000,
        instance: "one".to_owned(),
        listeners: vec![Listener {
            name: "web".to_owned(),
            pool: "web".to_owned(),
            addresses: vec!["127.0.0.1:3030".to_owned()],
            active: 6,
            ..Listener::default()
        }],
        pools: vec![Pool {
            name: "web".to_owned(),
            available: true,
            backends: vec![backend(5001, "up"), backend(5002, "down"), backend(5003, "up")],
            ..Pool::default()
        }],
        ..Snapshot::default()
    }
}

/// A table that has seen two statuses, a second apart.
fn top() -> Top {
    let mut top = Top::new("127.0.0.1:9930".to_owned());
    top.hear(News::Status(Box::new(sample())));
    let mut after = sample();
    after.uptime_milliseconds += 1000;
    after.connections.total = 3;
    after.bytes_sent = 2048;
    after.listeners[0].total = 3;
    after.pools[0].backends[2].total += 3;
    top.hear(News::Status(Box::new(after)));
    top
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}

fn press(top: &mut Top, keys: &str) -> Act {
    keys.chars().map(|key| top.press(Key::Char(key))).last().unwrap()
}

fn change(act: Act) -> (String, Wishes) {
    match act {
        Act::Ask(Order::Change(change)) => (change.address, change.wishes),
        other => panic!("{other:?} is no change"),
    }
}

#[test]
fn it_looks_right_at_eighty_columns() {
    let mut top = top();
    top.press(Key::Down);
    let expected = "\
evenkeel 0.1.0 at 127.0.0.1:9930, running for 61 s
0 of 0 connections, 3.0 new/s, 0 B/s in, 2.0 KiB/s out

LISTENER     POOL         ACTIVE  NEW/S       IN/S      OUT/S  ADDRESSES
web          web               6    3.0        0 B        0 B  127.0.0.1:3030

BACKEND            STATE           FOR WEIGHT ACTIVE  NEW/S   TOTAL FAILED
web/127.0.0.1:5001 up             61 s      2      1      0     100      0
web/127.0.0.1:5002 down           61 s      2      2      0     100      0
web/127.0.0.1:5003 up             61 s      2      3    3.0     103      0


web/127.0.0.1:5002 down for 61 s: connection refused
q quit  ? help  d drain  r ready  m maint.  +- weight  s as configured  / filter
";
    let lines = screen(&top, 80, 14);
    assert_eq!(text(&lines), expected);
    assert!(lines[8].pieces.iter().all(|piece| piece.style == Style::Chosen));
    assert_eq!(
        lines[8].text().chars().count(),
        80,
        "the chosen row is marked over the whole width"
    );
}

#[test]
fn what_matters_least_goes_first() {
    let mut top = top();
    top.press(Key::Down);
    let expected = "\
BACKEND            STATE       ACTIVE
web/127.0.0.1:5002 down             2
q quit  ? help  d drain  r ready  m ma…
";
    let [_, rest @ ..] = &screen(&top, 39, 4)[..] else { panic!("four lines") };
    assert_eq!(text(rest), expected);
    let tiny = screen(&top, 10, 3);
    assert_eq!(text(&tiny), "evenkeel …\n….0.1:5002\nq quit  ?…\n");
    assert_eq!(text(&screen(&top, 30, 1)), "web/127.0.0.1:5002 down\n");
}

#[test]
fn a_page_has_everything_and_nothing_chosen() {
    let page = page(&top(), 80);
    assert_eq!(page.lines().count(), 10, "{page}");
    assert!(page.contains("web/127.0.0.1:5003 up             61 s      2      3    3.0"), "{page}");
    assert!(!page.contains("quit") && page.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn keys_change_the_chosen_backend() {
    let mut top = top();
    top.press(Key::Down);
    let state = |state| Wishes { weight: None, state: Some(state) };
    for (key, wished) in
        [("d", WantedState::Draining), ("r", WantedState::Ready), ("m", WantedState::Maintenance)]
    {
        let expected = ("127.0.0.1:5002".to_owned(), state(wished));
        assert_eq!(change(press(&mut top, key)), expected);
    }
    let weight = |act| change(act).1.weight;
    assert_eq!(weight(press(&mut top, "++")), Some(4), "each press counts on");
    assert_eq!(weight(press(&mut top, "-----")), Some(0), "and stops at the end");
    assert_eq!(press(&mut top, " "), Act::Ask(Order::Look));
    assert_eq!(press(&mut top, "q"), Act::Quit);
}

#[test]
fn a_status_from_before_a_change_does_not_take_it_back() {
    let mut top = top();
    assert_eq!(change(press(&mut top, "+")).1.weight, Some(3));
    top.hear(News::Status(Box::new(sample())));
    assert_eq!(top.rows()[0].backend.weight, 3);
    assert_eq!(change(press(&mut top, "+")).1.weight, Some(4));
    for weight in [3, 4] {
        let backend = Backend { weight, ..sample().pools[0].backends[0].clone() };
        let changed = Changed { pool: "web".to_owned(), pool_available: true, backend };
        top.hear(News::Changed(Box::new(changed)));
        assert_eq!(top.rows()[0].backend.weight, 4);
    }
    top.hear(News::Status(Box::new(sample())));
    assert_eq!(top.rows()[0].backend.weight, 2, "the balancer's word holds again");
}

#[test]
fn the_chosen_backend_stays_chosen_wherever_it_is_sorted_to() {
    let mut top = top();
    top.press(Key::Down);
    let order = |top: &Top| {
        let rows = top.rows();
        let names: Vec<_> = rows.iter().map(|row| row.backend.address.clone()).collect();
        (names.join(" ").replace("127.0.0.1:500", ""), top.chosen(&rows))
    };
    assert_eq!(order(&top), ("1 2 3".to_owned(), 1));
    for (sort, expected) in
        [("active", ("3 2 1", 1)), ("new/s", ("3 1 2", 2)), ("state", ("2 1 3", 0))]
    {
        press(&mut top, "s");
        assert_eq!(order(&top), (expected.0.to_owned(), expected.1), "{sort}");
        assert!(text(&screen(&top, 100, 20)).contains(&format!("s {sort}")));
    }
}

#[test]
fn a_filter_shows_what_has_the_text() {
    let mut top = top();
    press(&mut top, "/DOWNx");
    top.press(Key::Backspace);
    assert_eq!(top.rows().len(), 1);
    assert!(text(&screen(&top, 80, 20)).contains("/DOWN_"));
    top.press(Key::Enter);
    assert_eq!(change(press(&mut top, "d")).0, "127.0.0.1:5002", "keys are keys again");
    top.press(Key::Escape);
    assert_eq!(top.rows().len(), 3);
    press(&mut top, "/nobody");
    assert!(text(&screen(&top, 80, 20)).contains("no backend has \"nobody\""));
    top.press(Key::Enter);
    assert_eq!(press(&mut top, "d"), Act::Show, "nobody is there to drain");
}

#[test]
fn what_became_of_a_change_is_told_for_a_while() {
    let mut top = top();
    let backend = Backend { state: "draining".to_owned(), ..sample().pools[0].backends[0].clone() };
    let changed = Changed { pool: "web".to_owned(), pool_available: false, backend };
    top.hear(News::Changed(Box::new(changed)));
    let shown = text(&screen(&top, 120, 20));
    assert!(shown.contains("web/127.0.0.1:5001: draining"), "{shown}");
    assert!(shown.contains("nobody can serve in this pool now"), "{shown}");
    assert_eq!(top.rows()[0].backend.state, "draining", "the table shows it at once");
    for _ in 0..NOTE_LOOKS {
        top.hear(News::Status(Box::new(sample())));
    }
    assert!(!text(&screen(&top, 120, 20)).contains("nobody can serve"));
    top.refused("it wants a token".to_owned());
    assert!(text(&screen(&top, 80, 20)).contains("it wants a token"));
}

#[test]
fn the_last_table_stays_while_nobody_answers_and_rates_begin_anew() {
    let mut top = top();
    top.unanswered("no answer (connection refused)".to_owned());
    let shown = text(&screen(&top, 80, 20));
    assert!(shown.contains("no answer (connection refused)"), "{shown}");
    assert!(shown.contains("web/127.0.0.1:5001 up") && shown.contains(" - new/s"), "{shown}");
    let mut other = sample();
    (other.instance, other.uptime_milliseconds) = ("two".to_owned(), 500);
    top.hear(News::Status(Box::new(other)));
    let shown = text(&screen(&top, 80, 20));
    assert!(!shown.contains("no answer") && shown.contains(" - new/s"), "{shown}");
}

#[test]
fn nothing_from_outside_moves_the_cursor() {
    let mut status = sample();
    let evil = "\x1b[2J\r\nevil".to_owned();
    status.state.clone_from(&evil);
    (status.pools[0].name, status.pools[0].available) = (evil.clone(), false);
    status.pools[0].backends[0].address.clone_from(&evil);
    status.pools[0].backends[0].reason.clone_from(&evil);
    status.listeners[0].name.clone_from(&evil);
    let mut top = Top::new(evil.clone());
    top.hear(News::Status(Box::new(status)));
    top.unanswered(evil);
    for line in screen(&top, 80, 24) {
        assert!(!line.text().contains(char::is_control), "{line:?}");
    }
    assert!(page(&top, 80).lines().all(|line| !line.contains(char::is_control)));
}

proptest! {
    #[test]
    fn every_size_fits_and_every_key_is_taken(
        (width, height) in (0usize..130, 0usize..40),
        (listeners, backends) in (0usize..20, 0usize..40),
        keys in prop::collection::vec(0usize..19, 0..40),
    ) {
        let mut status = sample();
        status.listeners = vec![status.listeners[0].clone(); listeners];
        let one = status.pools[0].backends[0].clone();
        status.pools[0].backends = (0..backends)
            .map(|at| Backend { address: format!("[2001:db8::{at}]:5432"), ..one.clone() })
            .collect();
        let mut top = Top::new("unix:/run/evenkeel/admin.sock".to_owned());
        for key in keys {
            top.press(KEYS[key]);
            let lines = screen(&top, width, height);
            prop_assert!(lines.len() <= height);
            prop_assert!(lines.iter().all(|line| line.text().chars().count() <= width));
            let _ = page(&top, width);
            status.uptime_milliseconds += 1000;
            top.hear(News::Status(Box::new(status.clone())));
        }
    }
}

const KEYS: [Key; 19] = [
    Key::Up,
    Key::Down,
    Key::PageUp,
    Key::PageDown,
    Key::Home,
    Key::End,
    Key::Enter,
    Key::Escape,
    Key::Backspace,
    Key::Interrupt,
    Key::Suspend,
    Key::Char('d'),
    Key::Char('+'),
    Key::Char('-'),
    Key::Char('s'),
    Key::Char('/'),
    Key::Char('?'),
    Key::Char('é'),
    Key::Char('\u{1b}'),
];
