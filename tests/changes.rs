//! Changes at run time over the real program: what holds at once, and what is left alone.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::{Value, json};
use support::admin::status;
use support::backend::Backend;
use support::client::{ask, connect, read_end, read_text};
use support::command::{command, ended, say};
use support::daemon::{Daemon, QUICK_HEALTH, Setup};
use support::wait_until;

fn started(setup: &Setup) -> (Daemon, SocketAddr) {
    let text = setup.text() + "\n[admin]\nlisten = '127.0.0.1:0'\n";
    let mut daemon = Daemon::configured(&text);
    let admin = daemon.address_of("(admin)");
    (daemon, admin)
}

/// Sends a change with these header fields besides the length; status and body of the answer.
fn send(admin: SocketAddr, path: &str, fields: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let whole = ask(
        admin,
        &format!(
            "PATCH /api/v1/pools/{path} HTTP/1.1\r\nHost: localhost\r\n\
             Content-Length: {length}\r\n{fields}\r\n{body}"
        ),
    );
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

const JSON: &str = "Content-Type: application/json\r\n";

/// A change that is done.
fn change(admin: SocketAddr, backend: impl ToString, wishes: &Value) -> Value {
    let path = format!("web/backends/{}", backend.to_string());
    let (status, answer) = send(admin, &path, JSON, &wishes.to_string());
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The names of the backends that serve `count` connections, in order of the alphabet.
fn turns(front: SocketAddr, count: usize) -> String {
    let mut names: Vec<char> =
        (0..count).flat_map(|_| ask(front, "").chars().collect::<Vec<_>>()).collect();
    names.sort_unstable();
    names.into_iter().collect()
}

/// A client that is being served.
fn visit(front: SocketAddr) -> TcpStream {
    let mut client = connect(front);
    client.write_all(b"ping").unwrap();
    assert_eq!(read_text(&mut client, 4), "ping");
    client
}

#[test]
fn a_weight_holds_from_the_next_client_on() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (mut daemon, admin) = started(&Setup::new(&[a.address, b.address]));
    let front = daemon.address();
    assert_eq!(turns(front, 4), "aabb");
    let answer = change(admin, b.address, &json!({ "weight": 3 }));
    assert_eq!((&answer["weight"], &answer["pool"]), (&3.into(), &"web".into()));
    assert_eq!((&answer["address"], &answer["state"]), (&json!(b.address), &"up".into()));
    assert_eq!(turns(front, 8), "aabbbbbb");
    daemon.line_with(&["Admin client 127.0.0.1:", "asks for weight 3 of web/"]);
    daemon.line(&format!("web/{} has weight 3 now, it was 1 (by the operator)", b.address));
    assert_eq!(status(admin)["pools"][0]["backends"][1]["weight"], 3);
    let mark = format!("web/{}: up, weight 3,", b.address);
    assert!(daemon.status().iter().any(|line| line.contains(&mark)));

    change(admin, b.address, &json!({ "weight": 0 }));
    assert_eq!(turns(front, 4), "aaaa");
    // The same again is fine, and no news.
    change(admin, b.address, &json!({ "weight": 0 }));
    daemon.lines(2, "asks for weight 0 of web/");
    assert_eq!(daemon.count("has weight 0 now"), 1);
}

#[test]
fn the_last_backend_can_be_taken_away_and_the_answer_says_what_that_means() {
    let a = Backend::named("a");
    for (off, on) in [
        (json!({ "weight": 0 }), json!({ "weight": 1 })),
        (json!({ "state": "draining" }), json!({ "state": "ready" })),
        (json!({ "state": "maintenance" }), json!({ "state": "ready" })),
    ] {
        let (mut daemon, admin) = started(&Setup::new(&[a.address]));
        let front = daemon.address();
        assert_eq!(change(admin, a.address, &off)["pool_available"], false, "{off}");
        daemon.line("No available backends in pool web");
        assert!(read_end(&mut connect(front)).0.is_empty(), "nobody serves");
        assert_eq!(change(admin, a.address, &on)["pool_available"], true, "{on}");
        daemon.line("Backends are available again in pool web");
        assert_eq!(turns(front, 1), "a");
    }
}

#[test]
fn draining_stops_new_clients_and_lets_the_others_finish() {
    let (a, b) = (Backend::echo(), Backend::echo());
    let (mut daemon, admin) = started(&Setup::new(&[a.address, b.address]));
    let front = daemon.address();
    let mut clients = [visit(front), visit(front)];
    let answer = change(admin, a.address, &json!({ "state": "draining" }));
    assert_eq!((&answer["state"], &answer["active"]), (&"draining".into(), &1.into()));
    assert_eq!(answer["reason"], "by the operator; otherwise up");
    daemon.line(&format!("web/{} is draining (by the operator)", a.address));
    for _ in 0..4 {
        assert_eq!(ask(front, "new"), "new");
    }
    assert_eq!(a.accepted(), 1, "no new one came here");
    for client in &mut clients {
        client.write_all(b"pong").unwrap();
        assert_eq!(read_text(client, 4), "pong");
        client.shutdown(Shutdown::Write).unwrap();
        read_end(client);
    }
    let active = || status(admin)["pools"][0]["backends"][0]["active"].clone();
    wait_until("it is empty", || active() == 0);
    let mark = format!("web/{}: draining, weight 1, 0 active", a.address);
    assert!(daemon.status().iter().any(|line| line.contains(&mark)));
    change(admin, a.address, &json!({ "state": "ready", "weight": 2 }));
    for _ in 0..3 {
        ask(front, "new");
    }
    assert_eq!(a.accepted(), 3, "two of three");
}

#[test]
fn who_waits_is_served_by_whoever_is_left() {
    let (a, b) = (Backend::echo(), Backend::echo());
    let list = format!(
        "{{ address = \"{}\", max_connections = 1 }}, {{ address = \"{}\", max_connections = 1 }}",
        a.address, b.address
    );
    let (mut daemon, admin) = started(&Setup::listing(&list).pool("queue_timeout = \"0s\""));
    let front = daemon.address();
    let (_first, second) = (visit(front), visit(front));
    let mut waiting = connect(front);
    waiting.write_all(b"ping").unwrap();
    wait_until("it waits", || {
        daemon.status().iter().any(|line| line.contains("1 clients wait for a place"))
    });
    change(admin, a.address, &json!({ "state": "draining" }));
    drop(second);
    assert_eq!(read_text(&mut waiting, 4), "ping");
    assert_eq!((a.accepted(), b.accepted()), (1, 2));
}

#[test]
fn who_is_held_is_served_as_soon_as_a_backend_is_ready() {
    let a = Backend::echo();
    for (off, on) in [
        (json!({ "state": "draining" }), json!({ "state": "ready" })),
        (json!({ "weight": 0 }), json!({ "weight": 1 })),
    ] {
        let hold = "on_unavailable = \"hold\"\nhold_timeout = \"0s\"";
        let (mut daemon, admin) = started(&Setup::new(&[a.address]).pool(hold));
        let front = daemon.address();
        change(admin, a.address, &off);
        let mut client = connect(front);
        client.write_all(b"ping").unwrap();
        wait_until("it is held", || {
            daemon.status().iter().any(|line| line.contains("1 clients wait for a backend"))
        });
        change(admin, a.address, &on);
        assert_eq!(read_text(&mut client, 4), "ping");
    }
}

#[test]
fn in_maintenance_nothing_is_probed() {
    let (a, b) = (Backend::echo(), Backend::echo());
    let setup = Setup::new(&[a.address, b.address]).health(QUICK_HEALTH);
    let (mut daemon, admin) = started(&setup);
    daemon.line(&format!("{} is up", a.address));
    assert_eq!(
        change(admin, a.address, &json!({ "state": "maintenance" }))["state"],
        "maintenance"
    );
    let pass = |count| {
        let before = b.accepted();
        wait_until("the other one is probed", || b.accepted() >= before + count);
    };
    // One may have been under way.
    pass(2);
    let before = a.accepted();
    pass(5);
    assert_eq!(a.accepted(), before);
    change(admin, a.address, &json!({ "state": "ready" }));
    wait_until("it is probed again", || a.accepted() > before);
}

#[test]
fn after_maintenance_it_is_probed_at_once() {
    let a = Backend::echo();
    let health = "type = \"tcp\"\ninterval = \"1h\"\nfast_interval = \"1h\"\ntimeout = \"10s\"";
    let (mut daemon, admin) = started(&Setup::new(&[a.address]).health(health));
    daemon.line(&format!("{} is up", a.address));
    change(admin, a.address, &json!({ "state": "maintenance" }));
    let answer = change(admin, a.address, &json!({ "state": "ready" }));
    assert_eq!(answer["state"], "checking");
    daemon.lines(2, &format!("{} is up", a.address));
}

#[test]
fn every_kind_of_address_can_be_named() {
    let list = "\"unix:/nowhere/a b.sock\", \"[::1]:1\", \"localhost:1\"";
    let (_daemon, admin) = started(&Setup::listing(list));
    for (written, known) in [
        ("unix:%2Fnowhere%2Fa%20b.sock", "unix:/nowhere/a b.sock"),
        ("unix:/nowhere/a%20b.sock", "unix:/nowhere/a b.sock"),
        ("%5B::1%5D:1", "[::1]:1"),
        ("[0:0::1]:1", "[::1]:1"),
        ("localhost%3A1", "localhost:1"),
    ] {
        let answer = change(admin, written, &json!({ "weight": 7 }));
        assert_eq!((&answer["address"], &answer["weight"]), (&known.into(), &7.into()));
        change(admin, written, &json!({ "weight": 1 }));
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    let a = Backend::echo();
    let (_daemon, admin) = started(&Setup::new(&[a.address]));
    let path = format!("web/backends/{}", a.address);
    let wrong = format!("web/backends/{}9", a.address);
    let body = r#"{"weight":9}"#;
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let meant = format!("did you mean \\\"{}\\\"?", a.address);
    for (path, fields, body, code, reason) in [
        (&*path, form, body, 415, "Content-Type: application/json"),
        (&path, "", body, 415, "Content-Type: application/json"),
        (&path, JSON, "", 400, "EOF"),
        (&path, JSON, r#"{"weight":9"#, 400, "EOF"),
        (&path, JSON, r#"{"weight":257}"#, 422, "from 0 to 256"),
        (&path, JSON, r#"{"weight":9,"state":"up"}"#, 422, "\\\"draining\\\""),
        (&path, JSON, r#"{"weight":9,"sate":"ready"}"#, 422, "unknown field `sate`"),
        ("wbe/backends/x", JSON, body, 404, "did you mean \\\"web\\\"?"),
        (&wrong, JSON, body, 404, &meant),
        ("web/backends/%2", JSON, body, 400, "hexadecimal"),
    ] {
        let (status, answer) = send(admin, path, fields, body);
        assert_eq!(status, code, "{path} {fields} {body}: {answer}");
        assert!(answer["error"].to_string().contains(reason), "{answer}");
    }
    let backend = &status(admin)["pools"][0]["backends"][0];
    assert_eq!((&backend["weight"], &backend["state"]), (&1.into(), &"up".into()));
}

#[test]
fn commands_change_what_the_status_shows() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (_daemon, admin) = started(&Setup::new(&[a.address, b.address]));
    let name = format!("web/{}", a.address);
    let state = || status(admin)["pools"][0]["backends"][0]["state"].clone();
    for (word, known) in [("drain", "draining"), ("maintenance", "maintenance"), ("ready", "up")] {
        let (code, shown, errors) = say(admin, &format!("{word} {name}"));
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{shown}");
        let start = format!("{name}: {known}, weight 1, 0 active (");
        assert!(shown.starts_with(&start) && shown.lines().count() == 1, "{shown}");
        assert_eq!(state(), known);
    }
    let (code, shown, _) = say(admin, &format!("weight {name} 5 --json"));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &shown["weight"], &shown["pool"]), (Some(0), &5.into(), &"web".into()));
    assert_eq!(status(admin)["pools"][0]["backends"][0]["weight"], 5);
    say(admin, &format!("drain web/{}", b.address));
    let (code, _, errors) = say(admin, &format!("weight {name} 0"));
    assert_eq!((code, errors.as_str()), (Some(0), "evenkeel: nobody can serve in pool web now\n"));
}

#[test]
fn a_drain_that_is_waited_for_ends_with_the_last_connection() {
    let a = Backend::echo();
    let (mut daemon, admin) = started(&Setup::new(&[a.address]));
    let front = daemon.address();
    let (first, second) = (visit(front), visit(front));
    let name = format!("web/{}", a.address);
    let (code, shown, errors) = say(admin, &format!("drain --wait --deadline 1ms {name}"));
    assert_eq!((code, shown.lines().count()), (Some(7), 1), "{shown}{errors}");
    assert!(errors.contains(&format!("the deadline passed, 2 connections of {name}")), "{errors}");
    assert_eq!(status(admin)["pools"][0]["backends"][0]["state"], "draining");

    let waiting = command(admin, &format!("drain --wait {name}")).spawn().unwrap();
    daemon.lines(2, "asks for state draining");
    drop((first, second));
    let (code, shown, errors) = ended(waiting.wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{shown}{errors}");
    let last = shown.lines().last().unwrap();
    assert!(last.starts_with(&format!("{name}: draining, weight 1, 0 active")), "{shown}");

    say(admin, &format!("ready {name}"));
    let _third = visit(front);
    let waiting = command(admin, &format!("drain --wait --deadline 1h {name}")).spawn().unwrap();
    daemon.lines(3, "asks for state draining");
    say(admin, &format!("ready {name}"));
    let (code, _, errors) = ended(waiting.wait_with_output().unwrap());
    assert!(code == Some(7) && errors.contains("somebody has ended the drain"), "{errors}");
}

#[test]
fn a_command_that_fails_says_where_and_what_to_do() {
    let a = Backend::echo();
    let (_daemon, admin) = started(&Setup::new(&[a.address]));
    let (code, _, errors) = say(admin, &format!("drain wbe/{}", a.address));
    assert!(code == Some(1) && errors.contains("did you mean \"web\"?\n"), "{errors}");
    assert!(errors.contains(&admin.to_string()), "{errors}");
    let nowhere = support::ports::Port::reserve().address;
    let (code, _, errors) = say(nowhere, &format!("ready web/{}", a.address));
    assert!(code == Some(6) && errors.contains(&nowhere.to_string()), "{errors}");
    assert!(errors.contains("EVENKEEL_ADMIN"), "{errors}");
}
