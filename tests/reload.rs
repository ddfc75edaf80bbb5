//! Many reloads, of good files and broken ones, and changes of membership between them, while
//! connections of every age go on and new ones come all the time. None may fail and none may be
//! cut, and nothing may pile up in the process.
//!
//! `EVENKEEL_RELOADS` says how many (a few by default), `EVENKEEL_SEED` which; a failure names both.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::fmt::Write as _;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::admin::request;
use support::backend::Backend;
use support::client::{Ending, connect, read_end, read_text};
use support::crowd::Crowd;
use support::daemon::Daemon;
use support::wait_until;

#[test]
fn reloads_and_changes_cost_no_connection_and_leave_nothing_behind() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let reloads = number("EVENKEEL_RELOADS").unwrap_or(30);
    let seed = number("EVENKEEL_SEED").unwrap_or(20_261_130);
    let place = format!("EVENKEEL_RELOADS={reloads} EVENKEEL_SEED={seed}");
    let mut world = World::new(seed, place);
    // What is made once for all is there before anything is counted.
    for _ in 0..10 {
        world.turn();
    }
    world.rest();
    let (descriptors, memory) = (world.daemon.descriptors(), world.daemon.memory());
    let crowd = Crowd::start(world.front, 3);
    for _ in 0..reloads {
        world.turn();
        crowd.go_on(1);
    }
    let (served, failed) = crowd.end();
    world.rest();
    let World { place, daemon, .. } = &mut world;
    assert_eq!(failed, 0, "{failed} of {served} failed: {place}");
    // The thread that resolves names may have a file open at any moment.
    let fact = format!("no more descriptors than before: {place}");
    wait_until(&fact, || daemon.descriptors() <= descriptors);
    let grown = daemon.memory().saturating_sub(memory);
    assert!(grown < MOST_GROWTH, "it has grown by {grown} KiB: {place}");
}

/// A balancer with six backends, those that are its clients, and chance.
struct World {
    daemon: Daemon,
    front: SocketAddr,
    admin: SocketAddr,
    backends: Vec<Backend>,
    clients: Vec<TcpStream>,
    dice: Dice,
    asked: usize,
    place: String,
}

impl World {
    fn new(seed: u64, place: String) -> Self {
        let backends: Vec<Backend> = (0..6).map(|_| Backend::named("[x] ")).collect();
        let mut daemon = Daemon::configured(&base(&backends));
        let (front, admin) = (daemon.address_of("listener web "), daemon.address_of("(admin)"));
        let (clients, dice, asked) = (Vec::new(), Dice(seed | 1), 0);
        Self { daemon, front, admin, backends, clients, dice, asked, place }
    }

    /// One reload, one change, and a look at everybody.
    fn turn(&mut self) {
        if self.dice.one_in(4) {
            let text = self.broken();
            self.reload(&text, false);
        } else {
            let text = self.file();
            self.reload(&text, true);
        }
        self.change();
        self.come_and_go();
        let Self { clients, place, .. } = self;
        for client in clients {
            assert!(client.write_all(b"ping").is_ok(), "somebody was cut: {place}");
            assert_eq!(read_text(client, 4), "ping", "{place}");
        }
    }

    /// Everybody leaves in order, and all is as it was at first.
    fn rest(&mut self) {
        for mut client in self.clients.drain(..) {
            client.shutdown(Shutdown::Write).unwrap();
            let (rest, ending) = read_end(&mut client);
            assert_eq!((rest.len(), ending), (0, Ending::Orderly), "{}", self.place);
        }
        for backend in &self.backends[1..] {
            let name = json!({ "address": backend.address, "pool": "web" }).to_string();
            request(self.admin, "DELETE /delete", &name);
            request(self.admin, "POST /addServer", &name);
            let path = format!("PATCH /api/v1/pools/web/backends/{}", backend.address);
            assert_eq!(request(self.admin, &path, "{\"state\":\"ready\"}").0, 200);
        }
        let text = base(&self.backends);
        self.reload(&text, true);
        let admin = self.admin;
        let status = || request(admin, "GET /api/v1/status", "").1;
        let count = |status: &Value, list: &str| status[list].as_array().unwrap().len();
        wait_until("nobody is left", || {
            let status = status();
            status["connections"]["active"] == 0
                && (count(&status, "listeners"), count(&status, "pools")) == (1, 1)
                && count(&status["pools"][0], "backends") == self.backends.len()
        });
        // A probe may be under way.
        let sockets = || self.daemon.descriptors_of("socket");
        wait_until("sockets are closed", || sockets() <= SOCKETS_AT_REST);
    }

    /// Has the file read, by one of the two ways.
    fn reload(&mut self, text: &str, is_good: bool) {
        self.daemon.write(text);
        self.asked += 1;
        if self.dice.one_in(2) {
            self.daemon.signal(Signal::HUP);
            self.daemon.lines(self.asked, " asks for a reload");
            return;
        }
        let (code, answer) = request(self.admin, "POST /api/v1/reload", "");
        let expected = if is_good { 200 } else { 422 };
        assert_eq!(code, expected, "{}\n{answer}\n{text}", self.place);
    }

    /// Something that the operator might do, and that may be refused.
    fn change(&mut self) {
        let at = 1 + self.dice.below(self.backends.len() - 1);
        let address = self.backends[at].address;
        let one = format!("/api/v1/pools/web/backends/{address}");
        let weight = self.dice.below(4);
        let (line, body) = match self.dice.below(5) {
            0 => (format!("DELETE {one}"), String::new()),
            1 => {
                let body = json!({ "address": address, "weight": weight }).to_string();
                ("POST /api/v1/pools/web/backends".to_owned(), body)
            }
            2 => (format!("PATCH {one}"), json!({ "weight": weight }).to_string()),
            3 => (format!("PATCH {one}"), "{\"state\":\"draining\"}".to_owned()),
            _ => (format!("PATCH {one}"), "{\"state\":\"ready\"}".to_owned()),
        };
        let (code, answer) = request(self.admin, &line, &body);
        let place = &self.place;
        assert!(matches!(code, 200 | 201 | 404 | 409), "{line} {body}: {answer}: {place}");
    }

    /// Some new clients, and the end of some that have been there for a while.
    fn come_and_go(&mut self) {
        for _ in 0..3 {
            let mut client = connect(self.front);
            assert_eq!(read_text(&mut client, 4), "[x] ", "{}", self.place);
            self.clients.push(client);
        }
        while self.clients.len() > MOST_CLIENTS {
            // The oldest ones stay.
            let at = MOST_CLIENTS / 2 + self.dice.below(self.clients.len() - MOST_CLIENTS / 2);
            let mut client = self.clients.swap_remove(at);
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly), "{}", self.place);
        }
    }

    /// A file that says anything, but keeps the listener and the first backend.
    fn file(&mut self) -> String {
        let dice = &mut self.dice;
        let mut text = format!("[global]\nmax_connections = {}\n", 1000 + dice.below(100));
        if dice.one_in(2) {
            text.push_str("drain_deadline = '1m'\n");
        }
        text.push_str("[admin]\nlisten = '127.0.0.1:0'\n");
        text.push_str("[listener.web]\nbind = ['127.0.0.1:0']\n");
        dice.some_of(
            &[
                "idle_timeout = '30m'",
                "half_close_timeout = '10m'",
                "backlog = 2000",
                "max_connections = 900",
                "max_connections_per_source = 800",
                "deny = ['192.0.2.0/24']",
                "accept_rate = 100000",
                "splice = false",
            ],
            &mut text,
        );
        text.push_str("[pool.web]\nbackends = [\n");
        let mut order: Vec<usize> = (1..self.backends.len()).collect();
        order.retain(|_| !dice.one_in(3));
        order.insert(dice.below(order.len() + 1), 0);
        for at in order {
            let address = self.backends[at].address;
            let weight = 1 + dice.below(3);
            let most = if dice.one_in(2) { ", max_connections = 700" } else { "" };
            let backup = at > 0 && dice.one_in(5);
            writeln!(
                text,
                "{{ address = '{address}', weight = {weight}, backup = {backup}{most} }},"
            )
            .unwrap();
        }
        text.push_str("]\n");
        let policies = [
            "round-robin",
            "least-connections",
            "source-hash",
            "two-choices",
            "response-time",
            "first",
        ];
        writeln!(text, "balance = '{}'", policies[dice.below(policies.len())]).unwrap();
        dice.some_of(
            &[
                "connect_timeout = '7s'",
                "connect_attempts = 5",
                "slow_start = '1s'",
                "queue = 500",
                "on_unavailable = 'hold'",
                "first_byte_timeout = '20s'",
                "on_down = 'keep'",
            ],
            &mut text,
        );
        let checks = ["type = 'none'", "interval = '200ms'", "initial = 'up'\nrise = 1"];
        writeln!(text, "[pool.web.health]\n{}", checks[dice.below(checks.len())]).unwrap();
        if dice.one_in(2) {
            let address = self.backends[dice.below(self.backends.len())].address;
            writeln!(
                text,
                "[listener.extra]\nbind = ['127.0.0.1:0', '127.0.0.1:0']\n\
                 [pool.extra]\nbackends = ['{address}', 'localhost:{}']",
                address.port()
            )
            .unwrap();
        }
        text
    }

    /// One that cannot be used.
    fn broken(&mut self) -> String {
        let text = self.file();
        let last = text.len() - 1 - self.dice.below(40);
        match self.dice.below(5) {
            0 => format!("{text}[listener.web"),
            1 => text.replace("backends", "bakends"),
            2 => text.replace("weight = ", "weight = -"),
            3 => format!("{}\u{1}{}", &text[..last], &text[last..]),
            _ => text.replace("bind = ['127.0.0.1:0']", "bind = ['127.0.0.1']"),
        }
    }
}

/// The file at the begin and at the end.
fn base(backends: &[Backend]) -> String {
    let list: Vec<String> = backends.iter().map(|b| format!("'{}'", b.address)).collect();
    format!(
        "[global]\n[admin]\nlisten = '127.0.0.1:0'\n[listener.web]\nbind = ['127.0.0.1:0']\n\
         [pool.web]\nbackends = [{}]\n[pool.web.health]\ntype = 'none'\n",
        list.join(", ")
    )
}

/// A generator of Marsaglia's kind (xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % u64::try_from(limit).unwrap()).unwrap()
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.below(number) == 0
    }

    /// Some of these lines.
    fn some_of(&mut self, lines: &[&str], text: &mut String) {
        for line in lines {
            if self.one_in(3) {
                writeln!(text, "{line}").unwrap();
            }
        }
    }
}

const MOST_CLIENTS: usize = 60;
/// In KiB, over all reloads.
const MOST_GROWTH: u64 = 2048;
/// The listener, the admin address, this question, and what signals and the helper come through.
const SOCKETS_AT_REST: usize = 5;
