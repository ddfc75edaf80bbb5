//! Reloads over the real program: what changes at once, and what is left alone.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::fmt::Write as _;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::process::Signal;
use serde_json::Value;
use support::admin::{request, status};
use support::backend::Backend;
use support::client::{Ending, ask, connect, read_end, read_text};
use support::daemon::Daemon;
use support::wait_until;

/// A file of which parts are replaced.
#[derive(Debug, Clone, Default)]
struct File {
    global: String,
    tables: Vec<(String, String)>,
}

impl File {
    fn global(mut self, lines: &str) -> Self {
        self.global = lines.to_owned();
        self
    }

    /// Sets a table, in place of the one that had the name.
    fn table(mut self, name: &str, lines: &str) -> Self {
        self.tables.retain(|(other, _)| other != name);
        self.tables.push((name.to_owned(), lines.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.tables.retain(|(other, _)| other != name);
        self
    }

    /// A listener on a free port, unless `lines` say where.
    fn listener(self, name: &str, lines: &str) -> Self {
        let bind = if lines.contains("bind") { "" } else { "bind = ['127.0.0.1:0']\n" };
        self.table(&format!("listener.{name}"), &format!("{bind}{lines}"))
    }

    /// A pool of these backends without health checks.
    fn pool(self, name: &str, backends: &[SocketAddr], lines: &str) -> Self {
        let list: Vec<String> = backends.iter().map(|b| format!("'{b}'")).collect();
        let backends = format!("backends = [{}]\n{lines}", list.join(", "));
        self.table(&format!("pool.{name}"), &backends)
            .table(&format!("pool.{name}.health"), "type = 'none'")
    }

    fn text(&self) -> String {
        let mut text = format!("[global]\n{}\n[admin]\nlisten = '127.0.0.1:0'\n", self.global);
        for (name, lines) in &self.tables {
            write!(text, "[{name}]\n{lines}\n").unwrap();
        }
        text
    }

    fn start(&self) -> (Daemon, SocketAddr) {
        let mut daemon = Daemon::configured(&self.text());
        let admin = daemon.address_of("(admin)");
        (daemon, admin)
    }

    /// Has a running daemon read this.
    fn reload(&self, daemon: &Daemon, admin: SocketAddr) -> Value {
        daemon.write(&self.text());
        let (status, answer) = post(admin, "/api/v1/reload", "");
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

/// One listener and one pool, both called `web`.
fn web(backends: &[SocketAddr]) -> File {
    File::default().listener("web", "").pool("web", backends, "")
}

fn post(admin: SocketAddr, path: &str, body: &str) -> (u16, Value) {
    request(admin, &format!("POST {path}"), body)
}

/// The status of one backend; `None` if there is no trace of it.
fn backend(admin: SocketAddr, pool: &str, address: SocketAddr) -> Option<Value> {
    let status = status(admin);
    let pools = status["pools"].as_array().unwrap();
    let pool = pools.iter().find(|one| one["name"] == pool)?;
    let address = address.to_string();
    pool["backends"].as_array().unwrap().iter().find(|one| one["address"] == address).cloned()
}

fn names(status: &Value, what: &str) -> Vec<String> {
    let list = status[what].as_array().unwrap().iter();
    list.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

/// A client of which its backend has said its name, which is one letter.
fn visit(front: SocketAddr) -> (TcpStream, String) {
    let mut client = connect(front);
    let name = read_text(&mut client, 1);
    (client, name)
}

fn echo(client: &mut TcpStream) {
    client.write_all(b"ping").unwrap();
    assert_eq!(read_text(client, 4), "ping");
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn what_is_the_same_is_not_touched() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let file = web(&[a.address, b.address]);
    let (mut daemon, admin) = file.start();
    let front = daemon.address();
    let (mut client, name) = visit(front);
    assert_eq!(name, "a");
    let answer = file.reload(&daemon, admin);
    assert_eq!(answer["changes"].as_array().unwrap().len(), 0, "{answer}");
    daemon.line("Reload: nothing has changed");
    echo(&mut client);
    // The port was the kernel's choice: another socket would have another one.
    assert_eq!(visit(front).1, "b", "whose turn it is stays");
    assert_eq!(visit(front).1, "a");
    assert_eq!(daemon.count("listening on "), 2, "the listener and the admin address, once each");
}

#[test]
fn backends_come_and_go_and_connections_stay() {
    let (a, b, c) = (Backend::named("a"), Backend::named("b"), Backend::named("c"));
    let (mut daemon, admin) = web(&[a.address, b.address]).start();
    let front = daemon.address();
    let mut clients = [visit(front), visit(front)];
    web(&[b.address, c.address]).reload(&daemon, admin);
    let after: String = (0..4).map(|_| visit(front).1).collect();
    assert_eq!((after.matches('b').count(), after.matches('c').count()), (2, 2), "{after}");
    clients.iter_mut().for_each(|(client, _)| echo(client));
    let left = backend(admin, "web", a.address).unwrap();
    assert_eq!((&left["state"], &left["active"]), (&"draining".into(), &1.into()));
    assert_eq!(left["reason"], "removed; its connections go on");
    drop(clients);
    wait_until("nothing is left of it", || backend(admin, "web", a.address).is_none());
}

#[test]
fn one_that_comes_back_while_its_connections_last_is_the_same() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let both = web(&[a.address, b.address]);
    let (mut daemon, admin) = both.start();
    let front = daemon.address();
    let (mut client, name) = visit(front);
    assert_eq!(name, "a");
    web(&[b.address]).reload(&daemon, admin);
    both.reload(&daemon, admin);
    let again = backend(admin, "web", a.address).unwrap();
    assert_eq!((&again["total"], &again["active"]), (&1.into(), &1.into()));
    assert_eq!(again["state"], "up");
    echo(&mut client);
    let after: String = (0..4).map(|_| visit(front).1).collect();
    assert_eq!(after.matches('a').count(), 2, "{after}");
}

#[test]
fn a_listener_that_leads_elsewhere_keeps_whom_it_has_where_they_are() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let file = File::default().listener("web", "pool = 'old'").pool("old", &[a.address], "");
    let (mut daemon, admin) = file.start();
    let front = daemon.address();
    let (mut client, name) = visit(front);
    assert_eq!(name, "a");
    let file = file.without("pool.old").without("pool.old.health");
    file.listener("web", "pool = 'new'").pool("new", &[b.address], "").reload(&daemon, admin);
    assert_eq!(visit(front).1, "b");
    echo(&mut client);
    let left = backend(admin, "old", a.address).unwrap();
    assert_eq!((&left["state"], &left["active"]), (&"draining".into(), &1.into()));
    assert_eq!(names(&status(admin), "pools"), ["new", "old"]);
    drop(client);
    wait_until("the pool is gone", || names(&status(admin), "pools") == ["new"]);
    assert_eq!(status(admin)["connections"]["total"], 2, "nothing is counted less");
}

#[test]
fn a_listener_that_goes_stops_listening_and_its_connections_go_on() {
    let a = Backend::named("a");
    let file = web(&[a.address]);
    let two = file.clone().listener("side", "pool = 'web'");
    let (mut daemon, admin) = two.start();
    let (front, side) = (daemon.address_of("listener web "), daemon.address_of("listener side "));
    let (mut client, _) = visit(side);
    file.reload(&daemon, admin);
    daemon.line(&format!("no longer listening on {side}"));
    assert!(TcpStream::connect(side).is_err(), "nobody listens there");
    echo(&mut client);
    assert_eq!(visit(front).1, "a");
    assert_eq!(names(&status(admin), "listeners"), ["web", "side"]);
    drop(client);
    wait_until("the listener is gone", || names(&status(admin), "listeners") == ["web"]);
    // Its place goes to another one, and what it counted is still counted.
    let total = |admin| status(admin)["connections"]["total"].as_u64().unwrap();
    let before = total(admin);
    file.listener("third", "pool = 'web'").reload(&daemon, admin);
    daemon.line("(listener third ");
    visit(daemon.address_of("listener third "));
    assert_eq!(total(admin), before + 1);
}

/// Who waits in the kernel's queue when the listener and the pool go is still served there.
#[test]
fn those_who_wait_at_a_door_that_closes_are_let_in_first() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let file = File::default().global("max_connections = 1").listener("web", "").pool(
        "web",
        &[a.address],
        "",
    );
    let two = file.clone().listener("side", "max_connections = 1\npool = 'side'").pool(
        "side",
        &[b.address],
        "",
    );
    let (mut daemon, admin) = two.start();
    let side = daemon.address_of("listener side ");
    let (first, name) = visit(side);
    assert_eq!(name, "b");
    let mut second = connect(side);
    let answer = file.reload(&daemon, admin);
    assert!(answer.to_string().contains("side"), "{answer}");
    drop(first);
    assert_eq!(read_text(&mut second, 1), "b", "it was connected before the door closed");
    daemon.line(&format!("no longer listening on {side}"));
    drop(second);
    wait_until("both are gone", || {
        let status = status(admin);
        names(&status, "pools") == ["web"] && names(&status, "listeners") == ["web"]
    });
}

/// Another listener on the same address takes the socket over, so nobody is turned away.
#[test]
fn a_socket_goes_over_to_the_listener_that_has_its_address_now() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let bind = format!("bind = ['{}']\npool = ", free_port());
    let file = |name: &str, backend: &Backend| {
        File::default().listener(name, &format!("{bind}'{name}'")).pool(
            name,
            &[backend.address],
            "",
        )
    };
    let (mut daemon, admin) = file("one", &a).start();
    let front = daemon.address();
    let (mut client, _) = visit(front);
    file("two", &b).reload(&daemon, admin);
    assert_eq!(visit(front).1, "b");
    echo(&mut client);
    assert_eq!(daemon.count("no longer listening"), 0);
}

#[test]
fn what_is_wrong_changes_nothing_and_is_told() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (mut daemon, admin) = web(&[a.address]).start();
    let front = daemon.address();
    let (mut client, _) = visit(front);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let other = web(&[b.address]);
    let cannot_be_had =
        other.clone().listener("side", &format!("bind = ['{address}']\npool='web'"));
    daemon.write(&cannot_be_had.text());
    let (code, answer) = post(admin, "/api/v1/reload", "");
    assert_eq!(code, 409, "{answer}");
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains(&address.to_string()) && error.contains("nothing was changed"));
    daemon.write(&(other.text() + "\n[pool.web.helth]\n"));
    let (code, answer) = post(admin, "/api/v1/reload", "");
    assert_eq!(code, 422, "{answer}");
    assert!(answer["problems"].to_string().contains("helth"), "{answer}");
    daemon.signal(Signal::HUP);
    daemon.lines(3, "Reload refused, nothing changed: ");
    assert_eq!(visit(front).1, "a");
    echo(&mut client);
    drop(taken);
    // What was wrong is right now, and nothing of the attempts is in the way.
    cannot_be_had.reload(&daemon, admin);
    assert_eq!(visit(address).1, "b");
}

#[test]
fn an_address_that_is_open_here_takes_two_reloads_and_the_refusal_says_so() {
    let a = Backend::named("a");
    let port = free_port().port();
    let at = |bind: &str| web(&[a.address]).listener("web", &format!("bind = ['{bind}']"));
    let everywhere = at(&format!(":{port}"));
    let (daemon, admin) = everywhere.start();
    let front = SocketAddr::from(([127, 0, 0, 1], port));
    let (mut client, _) = visit(front);
    let here = at(&front.to_string());
    daemon.write(&here.text());
    let (code, answer) = post(admin, "/api/v1/reload", "");
    assert_eq!(code, 409, "{answer}");
    let error = answer["error"].as_str().unwrap();
    let overlaps = format!("overlaps with :{port}, which is open here");
    assert!(error.contains(&overlaps) && error.contains("nothing was changed"), "{error}");
    assert_eq!(visit(front).1, "a");
    at("127.0.0.1:0").reload(&daemon, admin);
    wait_until("the old one is closed", || TcpStream::connect(front).is_err());
    here.reload(&daemon, admin);
    assert_eq!(visit(front).1, "a");
    echo(&mut client);
}

#[test]
fn nobody_is_held_for_a_pool_that_is_gone() {
    let a = Backend::named("a");
    let hold = "on_unavailable = 'hold'\nhold_timeout = '0s'";
    let trusting = "proxy_protocol_from = ['127.0.0.1']\npool = 'other'";
    let file = web(&[a.address]).listener("other", "").listener("side", trusting);
    let other = file.pool("other", &[free_port()], hold);
    let (mut daemon, admin) = other.start();
    let (other, side) = (daemon.address_of("listener other "), daemon.address_of("listener side "));
    let mut held: Vec<TcpStream> = (0..3).map(|_| connect(other)).collect();
    let mut late = connect(side);
    wait_until("they are held", || {
        let status = status(admin);
        let pools = status["pools"].as_array().unwrap();
        pools.iter().any(|pool| pool["name"] == "other" && pool["waiting"] == 3)
            && status["connections"]["active"] == 4
    });
    // One of the two listeners leads elsewhere from now on.
    web(&[a.address]).listener("other", "pool = 'web'").reload(&daemon, admin);
    for client in &mut held {
        assert_eq!(read_end(client).1, Ending::Orderly);
    }
    // One that says only now for whom it comes.
    late.write_all(b"PROXY UNKNOWN\r\n").unwrap();
    assert_eq!(read_end(&mut late).1, Ending::Orderly);
    wait_until("nothing is left of it", || names(&status(admin), "pools") == ["web"]);
    assert_eq!(visit(other).1, "a");
}

#[test]
fn a_file_that_became_a_pipe_keeps_nobody_waiting() {
    let a = Backend::named("a");
    let (daemon, admin) = web(&[a.address]).start();
    let path = daemon.config_path();
    std::fs::remove_file(path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
    for request in ["/api/v1/plan", "/api/v1/reload"] {
        let (code, answer) = post(admin, request, "");
        assert_eq!(code, 422, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains("no regular file"), "{answer}");
    }
    std::fs::remove_file(path).unwrap();
    web(&[a.address]).reload(&daemon, admin);
}

#[test]
fn what_needs_a_restart_is_named_and_the_rest_is_done() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (mut daemon, admin) = web(&[a.address]).start();
    let front = daemon.address();
    let file = web(&[b.address]).global("log_format = 'json'").listener("web", "reuse_port = true");
    for _ in 0..2 {
        let changes = file.reload(&daemon, admin)["changes"].take();
        let restart = changes.as_array().unwrap().iter().filter(|c| c["action"] == "restart");
        assert_eq!(restart.count(), 2, "told each time: {changes}");
    }
    assert_eq!(visit(front).1, "b");
    daemon.line_with(&["log_format", "(after a restart)"]);
}

#[test]
fn the_terms_of_a_pool_and_a_listener_hold_at_once() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let backends = [a.address, b.address];
    let (mut daemon, admin) = web(&backends).start();
    let front = daemon.address();
    let mut first = visit(front).0;
    let held = File::default().listener("web", "max_connections_per_source = 2").pool(
        "web",
        &[b.address, a.address],
        "balance = 'first'",
    );
    held.reload(&daemon, admin);
    let (second, name) = visit(front);
    assert_eq!(name, "b", "first, and in the new order");
    let (rest, end) = read_end(&mut connect(front));
    assert!(rest.is_empty() && end == Ending::Reset, "the one that was there already counts");
    drop(second);
    wait_until("a place is free", || status(admin)["connections"]["active"] == 1);
    assert_eq!(visit(front).1, "b");
    echo(&mut first);
    web(&backends).reload(&daemon, admin);
    let four: Vec<_> = (0..4).map(|_| visit(front)).collect();
    assert_eq!(four.iter().filter(|(_, name)| name == "a").count(), 2, "in turn, without a limit");
}

#[test]
fn probes_begin_and_end_and_ask_something_else() {
    let a = Backend::named("a");
    let dead = free_port();
    let quick = "interval = '50ms'\nfast_interval = '50ms'\nrise = 1\nfall = 1\n";
    let none = web(&[a.address, dead]);
    let (mut daemon, admin) = none.start();
    let front = daemon.address();
    let state = |address| backend(admin, "web", address).unwrap()["state"].clone();
    assert_eq!((state(a.address), state(dead)), ("up".into(), "up".into()));
    let tcp = none.clone().table("pool.web.health", &format!("type = 'tcp'\n{quick}"));
    tcp.reload(&daemon, admin);
    wait_until("one is found dead", || state(dead) == "down");
    assert_eq!(state(a.address), "up");
    // It speaks, but no HTTP.
    let http = none.clone().table("pool.web.health", &format!("type = 'http'\n{quick}"));
    http.reload(&daemon, admin);
    wait_until("both are down", || state(a.address) == "down");
    none.reload(&daemon, admin);
    assert_eq!((state(a.address), state(dead)), ("up".into(), "up".into()));
    assert_eq!(visit(front).1, "a");
    let descriptors = daemon.descriptors();
    for _ in 0..5 {
        tcp.reload(&daemon, admin);
        wait_until("probes are made", || state(dead) == "down");
        none.reload(&daemon, admin);
    }
    wait_until("no probe is left open", || daemon.descriptors() <= descriptors);
}

/// The helper thread is not there before there is a name.
#[test]
fn names_come_and_go() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (mut daemon, admin) = web(&[a.address]).start();
    let front = daemon.address();
    let named = |port: u16| {
        File::default()
            .listener("web", "")
            .table("pool.web", &format!("backends = ['localhost:{port}']"))
            .table("pool.web.health", "type = 'none'")
    };
    for (other, port) in [("b", b.address.port()), ("a", a.address.port())] {
        named(port).reload(&daemon, admin);
        // An unresolved backend takes nobody, and there is no other.
        wait_until("the name is resolved", || {
            status(admin)["pools"][0]["backends"][0]["state"] == "up"
        });
        assert_eq!(visit(front).1, other);
    }
    web(&[a.address]).reload(&daemon, admin);
    assert_eq!(visit(front).1, "a");
}

#[test]
fn what_was_changed_at_run_time_outlives_a_reload() {
    let (a, b, c) = (Backend::named("a"), Backend::named("b"), Backend::named("c"));
    let file = web(&[a.address, b.address]);
    let (mut daemon, admin) = file.start();
    let front = daemon.address();
    let path = |address: SocketAddr| format!("/api/v1/pools/web/backends/{address}");
    let (code, added) =
        post(admin, "/api/v1/pools/web/backends", &format!("{{\"address\":\"{}\"}}", c.address));
    assert_eq!((code, &added["overrides"]), (201, &serde_json::json!(["added"])));
    assert_eq!(request(admin, &format!("DELETE {}", path(a.address)), "").0, 200);
    assert_eq!(
        request(admin, &format!("PATCH {}", path(b.address)), r#"{"state":"draining"}"#).0,
        200
    );
    assert_eq!(request(admin, &format!("PATCH {}", path(c.address)), r#"{"weight":7}"#).0, 200);
    let answer = file.pool("web", &[a.address, b.address], "queue = 7");
    let answer = answer.reload(&daemon, admin);
    assert_eq!(answer["changes"].as_array().unwrap().len(), 1, "only the file's change: {answer}");
    assert_eq!([visit(front).1, visit(front).1], ["c", "c"]);
    assert!(backend(admin, "web", a.address).is_none(), "it was removed");
    let drained = backend(admin, "web", b.address).unwrap();
    assert_eq!(
        (&drained["state"], &drained["overrides"][0]),
        (&"draining".into(), &"state".into())
    );
    let added = backend(admin, "web", c.address).unwrap();
    assert_eq!(added["weight"], 7);
    assert_eq!(
        request(admin, &format!("PATCH {}", path(b.address)), r#"{"state":"ready"}"#).0,
        200
    );
    assert_eq!(backend(admin, "web", b.address).unwrap()["overrides"], serde_json::json!([]));
}

#[test]
fn a_token_that_changes_is_asked_for_at_once() {
    let a = Backend::named("a");
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "first-token-of-all\n").unwrap();
    let text = |file: &File| {
        let place = format!("listen = '127.0.0.1:0'\ntoken_file = '{}'", token.display());
        file.text().replace("listen = '127.0.0.1:0'\n[", &format!("{place}\n["))
    };
    let file = web(&[a.address]);
    let mut daemon = Daemon::configured(&text(&file));
    let admin = daemon.address_of("(admin)");
    let code = |token: &str| {
        let whole = ask(
            admin,
            &format!(
                "GET /targets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
            ),
        );
        whole.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    assert_eq!((code("first-token-of-all"), code("second-token-of-all")), (200, 401));
    std::fs::write(&token, "second-token-of-all\n").unwrap();
    daemon.signal(Signal::HUP);
    wait_until("the other token holds", || code("second-token-of-all") == 200);
    assert_eq!(code("first-token-of-all"), 401);
}
