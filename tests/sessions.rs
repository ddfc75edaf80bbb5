//! The connections that live, over the real program: listed a page at a time, and cut.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::{Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::backend::Backend;
use support::client::{Ending, ask, connect, read_end, read_text};
use support::daemon::{Daemon, Setup, program};
use support::wait_for;

fn started(setup: Setup) -> (Daemon, SocketAddr) {
    let setup = setup.global("access_log = \"close\"");
    let mut daemon = Daemon::configured(&(setup.text() + "\n[admin]\nlisten = '127.0.0.1:0'\n"));
    let admin = daemon.address_of("(admin)");
    (daemon, admin)
}

/// The whole answer to a request with these header fields.
fn request(admin: SocketAddr, line: &str, fields: &str) -> (u16, String, String) {
    let whole = ask(admin, &format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

fn list(admin: SocketAddr, query: &str) -> Value {
    let (status, _, body) = request(admin, &format!("GET /api/v1/sessions?{query}"), "");
    assert_eq!(status, 200, "{query}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn ids(answer: &Value) -> Vec<u64> {
    let all = answer["sessions"].as_array().unwrap();
    all.iter().map(|session| session["id"].as_u64().unwrap()).collect()
}

fn cut(admin: SocketAddr, id: u64) -> (u16, Value) {
    let line = format!("DELETE /api/v1/sessions/{id}");
    let (status, _, body) = request(admin, &line, "Content-Type: application/json\r\n");
    (status, serde_json::from_str(&body).unwrap())
}

/// A client that is being served.
fn visit(front: SocketAddr) -> TcpStream {
    let mut client = connect(front);
    client.write_all(b"ping").unwrap();
    assert_eq!(read_text(&mut client, 4), "ping");
    client
}

#[test]
fn each_connection_is_told_as_it_is() {
    let (a, b) = (Backend::echo(), Backend::echo());
    let (mut daemon, admin) = started(Setup::new(&[a.address, b.address]));
    let front = daemon.address();
    assert_eq!(list(admin, ""), json!({ "sessions": [], "next": null }));
    let clients = [visit(front), visit(front), visit(front)];
    let answer = list(admin, "");
    assert_eq!((ids(&answer), &answer["next"]), (vec![1, 2, 3], &Value::Null));
    let first = &answer["sessions"][0];
    assert_eq!(first["client"], json!(clients[0].local_addr().unwrap()));
    assert_eq!((&first["listener"], &first["pool"]), (&json!("web"), &json!("web")));
    assert_eq!((&first["backend"], &first["phase"]), (&json!(a.address), &json!("relaying")));
    assert_eq!(first["waits_for"], "client_send", "the backend spoke last");
    assert_eq!((&first["received"], &first["sent"]), (&json!(4), &json!(4)));
    assert_eq!(ids(&list(admin, &format!("backend={}", b.address))), [2]);
    assert_eq!(ids(&list(admin, &format!("pool=web&backend={}", a.address))), [1, 3]);
    let [_, second, _] = clients;
    drop(second);
    daemon.line("connection ended id=2 ");
    assert_eq!(ids(&list(admin, "pool=web")), [1, 3]);
}

#[test]
fn pages_follow_each_other_and_leave_nobody_out() {
    let a = Backend::echo();
    let (mut daemon, admin) = started(Setup::new(&[a.address]));
    let front = daemon.address();
    let mut clients: Vec<TcpStream> = (0..25).map(|_| visit(front)).collect();
    // Slots that are free again are taken by later ones: numbers are not in their order.
    for place in [3, 7, 11] {
        drop(clients.remove(place));
    }
    daemon.lines(3, "connection ended");
    clients.extend((0..5).map(|_| visit(front)));
    let (mut after, mut all, mut pages) = (0, Vec::new(), 0);
    loop {
        let page = list(admin, &format!("limit=10&after={after}"));
        all.extend(ids(&page));
        pages += 1;
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!((all.len(), pages), (27, 3));
    assert!(all.is_sorted() && all.last() == Some(&30));
    assert_eq!(ids(&list(admin, "limit=2&after=29")), [30]);
    assert_eq!(list(admin, "after=30")["sessions"], json!([]));
    let whole = list(admin, "limit=27");
    assert_eq!((ids(&whole).len(), &whole["next"]), (27, &Value::Null));
}

#[test]
fn what_is_not_there_is_refused_with_the_nearest() {
    let a = Backend::echo();
    let (_daemon, admin) = started(Setup::new(&[a.address]));
    for (query, code, reason) in [
        ("pool=wbe", 404, "did you mean \\\"web\\\"?"),
        ("backend=127.0.0.1:1", 404, "no pool has a backend"),
        ("pool=web&backend=127.0.0.1:1", 404, "pool web has no backend"),
        ("limit=501", 400, "give 1 to 500"),
        ("limit=0", 400, "give 1 to 500"),
        ("after=-1", 400, "is no number of a connection"),
        ("bakend=x", 400, "did you mean \\\"backend\\\"?"),
    ] {
        let (status, _, body) = request(admin, &format!("GET /api/v1/sessions?{query}"), "");
        assert!(status == code && body.contains(reason), "{query}: {status} {body}");
    }
}

#[test]
fn one_that_is_cut_ends_on_both_sides_and_everywhere_it_is_told_why() {
    let (backend, guests) = Backend::handing_over();
    let (mut daemon, admin) = started(Setup::new(&[backend.address]));
    let front = daemon.address();
    let (mut client, mut server) = (connect(front), guests.next());
    let (mut other, mut other_server) = (connect(front), guests.next());
    let (status, answer) = cut(admin, 1);
    assert_eq!((status, &answer["id"]), (200, &json!(1)));
    assert_eq!(answer["reason"], "cut by the operator");
    assert_eq!(answer["backend"], json!(backend.address));
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Reset));
    assert_eq!(read_end(&mut server), (Vec::new(), Ending::Reset));
    other.write_all(b"x").unwrap();
    assert_eq!(read_text(&mut other_server, 1), "x", "the others go on");
    other_server.write_all(b"y").unwrap();
    assert_eq!(read_text(&mut other, 1), "y");

    let peer = client.local_addr().unwrap();
    let place = format!("has connection 1 from {peer} to web/{} cut", backend.address);
    daemon.line_with(&["Admin client 127.0.0.1:", &place]);
    daemon.line_with(&["connection ended id=1 ", "reason=\"cut by the operator\""]);
    assert_eq!(ids(&list(admin, "")), [2]);
    let (_, _, metrics) = request(admin, "GET /metrics", "");
    assert!(metrics.contains("evenkeel_connections_ended_total{reason=\"cut by the operator\"} 1"));
    let (_, _, told) = request(admin, "GET /api/v1/explain?id=1", "");
    let told: Value = serde_json::from_str(&told).unwrap();
    let end = &told["decisions"][0]["end"];
    assert_eq!((&end["reason"], &end["by"]), (&"cut by the operator".into(), &"operator".into()));

    let (status, answer) = cut(admin, 1);
    assert_eq!(status, 404);
    assert_eq!(answer["error"], "there is no connection 1; it may have ended");
}

#[test]
fn one_in_line_can_be_cut_as_well() {
    let (backend, guests) = Backend::handing_over();
    let list_of_one = format!("{{ address = '{}', max_connections = 1 }}", backend.address);
    let (mut daemon, admin) = started(Setup::listing(&list_of_one));
    let front = daemon.address();
    let (_first, _server) = (connect(front), guests.next());
    let mut second = connect(front);
    let phase = || list(admin, "after=1")["sessions"][0]["phase"].as_str().map(str::to_owned);
    wait_for("the second one stands in line", || phase().filter(|phase| phase == "waiting"));
    assert_eq!(cut(admin, 2).0, 200);
    assert_eq!(read_end(&mut second).1, Ending::Reset);
    let mut third = connect(front);
    wait_for("the third one stands in line", || phase().filter(|phase| phase == "waiting"));
    assert_eq!(cut(admin, 1).0, 200);
    let mut server = guests.next();
    server.write_all(b"hi").unwrap();
    assert_eq!(read_text(&mut third, 2), "hi", "a place that a cut has freed is taken at once");
}

#[test]
fn a_cut_is_asked_for_as_a_change_is() {
    let a = Backend::echo();
    let (mut daemon, admin) = started(Setup::new(&[a.address]));
    let _client = visit(daemon.address());
    let json = "Content-Type: application/json\r\n";
    for (line, fields, code) in [
        ("DELETE /api/v1/sessions/1", "", 415),
        ("DELETE /api/v1/sessions/1", "Content-Type: text/plain\r\n", 415),
        ("DELETE /api/v1/sessions/x", json, 404),
        ("DELETE /api/v1/sessions", json, 405),
        ("DELETE /api/v1/sessions/", json, 404),
        ("POST /api/v1/sessions/1", json, 405),
        ("GET /api/v1/sessions/1", "", 405),
    ] {
        let (status, head, _) = request(admin, line, fields);
        assert_eq!(status, code, "{line}");
        if code == 405 && line.ends_with("/1") {
            assert!(head.contains("Allow: DELETE"), "{head}");
        }
    }
    assert_eq!(ids(&list(admin, "")), [1], "nobody was cut");
}

/// What a command prints and how it ends.
fn run(admin: SocketAddr, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = program();
    command.arg("sessions").args(arguments).args(["--admin", &admin.to_string()]);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let Output { status, stdout, stderr } = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_command_lists_and_cuts() {
    let a = Backend::echo();
    let (mut daemon, admin) = started(Setup::new(&[a.address]));
    let front = daemon.address();
    let mut clients = [visit(front), visit(front)];
    let (code, table, errors) = run(admin, &[]);
    assert_eq!((code, errors.as_str(), table.lines().count()), (Some(0), "", 3));
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    let peer = clients[0].local_addr().unwrap().to_string();
    let place = format!("web/{}", a.address);
    assert_eq!(row[2..], [&*peer, &*place, "client_send", "4B", "4B"], "{table}");
    let (_, some, _) = run(admin, &["--limit", "1"]);
    assert!(some.ends_with("and more; go on with --after 1, or raise --limit\n"), "{some}");
    let (_, json, _) = run(admin, &["--json", "--pool", "web"]);
    assert_eq!(ids(&serde_json::from_str(&json).unwrap()), [1, 2]);

    let (code, told, _) = run(admin, &["--cut", "2"]);
    assert_eq!(code, Some(0));
    let whole = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(whole.contains("connection 2 from 127.0.0.1:"), "{told}");
    assert!(whole.contains("was cut by the operator, 0 s old; 4 B received, 4 B sent"), "{told}");
    assert_eq!(read_end(&mut clients[1]).1, Ending::Reset);
    let (code, _, errors) = run(admin, &["--cut", "2"]);
    assert!(code == Some(1) && errors.contains("there is no connection 2"), "{errors}");
    let (code, _, errors) = run(admin, &["--pool", "wbe"]);
    assert!(code == Some(1) && errors.contains("did you mean \"web\"?"), "{errors}");
}

#[test]
fn whoever_cuts_the_last_one_of_a_drain_is_told_of_it() {
    let backend = Backend::echo();
    for _ in 0..5 {
        let (mut daemon, admin) = started(Setup::new(&[backend.address]));
        let _client = visit(daemon.address());
        daemon.signal(Signal::TERM);
        daemon.line("no longer accepting");
        let (status, told) = cut(admin, 1);
        assert_eq!((status, &told["reason"]), (200, &json!("cut by the operator")));
        assert_eq!(daemon.exit_code(), Some(0));
    }
}
