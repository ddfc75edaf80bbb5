//! Who is slow: whom connections wait for, as access lines, status and metrics tell it.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::Value;
use support::backend::{Backend, Guests};
use support::client::{ask, connect, read_end, read_text};
use support::daemon::{Daemon, Setup};
use support::ports::{BlackHole, Port};
use support::wait_until;

/// A balancer whose connections are in the test's hands, at both ends.
struct Scene {
    daemon: Daemon,
    admin: SocketAddr,
    _backend: Backend,
    guests: Guests,
}

impl Scene {
    fn new() -> Self {
        let (backend, guests) = Backend::handing_over();
        let setup = Setup::new(&[backend.address]).global(LINES);
        let (daemon, admin) = started(&setup);
        Self { daemon, admin, _backend: backend, guests }
    }

    fn connect(&mut self) -> (TcpStream, TcpStream) {
        (connect(self.daemon.address()), self.guests.next())
    }

    /// What the only backend's connections have waited for.
    fn waits(&self) -> Value {
        pool(self.admin)["backends"][0]["waits_ms"].clone()
    }

    /// Waits until the backend's connections have waited for this for a while.
    fn await_wait(&self, reason: &str) {
        let fact = format!("somebody waits for {reason}");
        wait_until(&fact, || self.waits()[reason].as_u64() > Some(A_WHILE));
    }

    /// The access line of the next connection that ends: most of its life it waited for this.
    fn expect_line(&mut self, id: u64, reason: &str) {
        let line = self.daemon.line_with(&["connection ended", &format!("\"id\":{id},")]);
        let line: Value = serde_json::from_str(&line).unwrap();
        let parts = [
            "queue",
            "connect",
            "client_send",
            "client_read",
            "backend_send",
            "backend_read",
            "balancer",
        ];
        let of = |part: &str| line[format!("{part}_ms")].as_u64().unwrap();
        let sum: u64 = parts.into_iter().map(of).sum();
        assert_eq!(sum, of("duration"), "the parts are the whole: {line}");
        assert!(of(reason) > A_WHILE, "{reason} in {line}");
        assert!(parts.into_iter().all(|part| of(part) <= of(reason)), "{reason} in {line}");
    }
}

fn started(setup: &Setup) -> (Daemon, SocketAddr) {
    let text = setup.text();
    let mut daemon = Daemon::configured(&format!("{text}\n[admin]\nlisten = '127.0.0.1:0'\n"));
    let admin = daemon.address_of("(admin)");
    (daemon, admin)
}

fn get(admin: SocketAddr, path: &str) -> String {
    let answer = ask(admin, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn pool(admin: SocketAddr) -> Value {
    let status: Value = serde_json::from_str(&get(admin, "/api/v1/status")).unwrap();
    status["pools"][0].clone()
}

fn uptime(admin: SocketAddr) -> u64 {
    let status: Value = serde_json::from_str(&get(admin, "/api/v1/status")).unwrap();
    status["uptime_milliseconds"].as_u64().unwrap()
}

#[test]
fn a_backend_that_does_not_answer_is_the_slow_one() {
    let mut scene = Scene::new();
    let (mut client, mut backend) = scene.connect();
    client.write_all(b"ping").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_text(&mut backend, 4), "ping");
    scene.await_wait("backend_send");
    backend.write_all(b"pong").unwrap();
    drop(backend);
    read_end(&mut client);
    scene.expect_line(1, "backend_send");
    let metrics = get(scene.admin, "/metrics");
    let of = |reason: &str| -> f64 {
        let mark = format!("reason=\"{reason}\"}} ");
        let waits = metrics.lines().filter(|l| l.starts_with("evenkeel_backend_wait_seconds_tot"));
        let line = waits.into_iter().find(|line| line.contains(&mark)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(of("backend_send") > 0.02 && of("backend_send") > of("client_send"), "{metrics}");
}

#[test]
fn a_client_that_does_not_ask_is_the_slow_one() {
    let mut scene = Scene::new();
    let (mut client, mut backend) = scene.connect();
    backend.write_all(b"hello").unwrap();
    backend.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_text(&mut client, 5), "hello");
    scene.await_wait("client_send");
    drop(client);
    read_end(&mut backend);
    scene.expect_line(1, "client_send");
}

#[test]
fn who_does_not_read_is_the_slow_one() {
    let mut scene = Scene::new();
    let (mut client, backend) = scene.connect();
    fill(&mut client);
    scene.await_wait("backend_read");
    drop(backend);
    drop(client);
    scene.expect_line(1, "backend_read");
    let (client, mut backend) = scene.connect();
    fill(&mut backend);
    scene.await_wait("client_read");
    drop(client);
    scene.expect_line(2, "client_read");
}

/// An answer in pieces is the backend's from its first byte to its last, however long they take.
#[test]
fn pauses_within_an_answer_are_the_backends() {
    let mut scene = Scene::new();
    let (mut client, mut backend) = scene.connect();
    wait_until("the answer has taken a while", || {
        backend.write_all(b"x").unwrap();
        assert_eq!(read_text(&mut client, 1), "x");
        scene.waits()["backend_send"].as_u64() > Some(A_WHILE)
    });
    assert_eq!(scene.waits()["client_send"], 0);
    drop((client, backend));
    scene.expect_line(1, "backend_send");
}

/// A database that takes connections and never greets is slow, not its patient clients.
#[test]
fn a_backend_that_speaks_first_is_waited_for_from_the_start() {
    let mut scene = Scene::new();
    let (mut client, mut backend) = scene.connect();
    backend.write_all(b"hello").unwrap();
    assert_eq!(read_text(&mut client, 5), "hello");
    drop((client, backend));
    scene.daemon.line_with(&["connection ended", "\"id\":1,"]);
    let (client, backend) = scene.connect();
    let lasts = || uptime(scene.admin);
    let begun = lasts();
    wait_until("its client has had enough", || lasts() > begun + 2 * A_WHILE);
    drop((client, backend));
    scene.expect_line(2, "backend_send");
}

#[test]
fn a_connect_that_times_out_is_waited_for_as_a_connect() {
    let nobody = BlackHole::new();
    let setup = Setup::new(&[nobody.address]).pool("connect_timeout = '300ms'").global(LINES);
    let (mut daemon, admin) = started(&setup);
    read_end(&mut connect(daemon.address()));
    let line: Value = serde_json::from_str(&daemon.line("connection ended")).unwrap();
    assert!(line["connect_ms"].as_u64() > Some(A_WHILE), "{line}");
    assert_eq!(line["connect_ms"], line["duration_ms"], "{line}");
    let waits = &pool(admin)["backends"][0]["waits_ms"];
    assert_eq!(waits["connect"], line["connect_ms"], "{waits}");
}

#[test]
fn a_client_that_stands_in_line_waits_for_no_backend() {
    let dead = Port::reserve();
    let hold = "on_unavailable = 'hold'\nhold_timeout = '0s'";
    let (mut daemon, admin) = started(&Setup::new(&[dead.address]).pool(hold).global(LINES));
    let client = connect(daemon.address());
    wait_until("its wait is charged", || pool(admin)["queue_ms"].as_u64() > Some(A_WHILE));
    drop(client);
    let line: Value = serde_json::from_str(&daemon.line("connection ended")).unwrap();
    assert!(line["queue_ms"].as_u64() > Some(A_WHILE), "{line}");
    assert_eq!(pool(admin)["backends"][0]["waits_ms"]["client_send"], 0);
}

/// Sends until nothing more is taken.
fn fill(stream: &mut TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let piece = [0; 64 * 1024];
    let mut calm = 0;
    wait_until("nothing more is taken", || {
        calm = if stream.write(&piece).is_ok() { 0 } else { calm + 1 };
        calm > 20
    });
}

const LINES: &str = "access_log = \"close\"\nlog_format = \"json\"";
/// In milliseconds: more than anything else takes.
const A_WHILE: u64 = 100;
