//! Whose turn it is: exact round robin, and a dead backend that costs nobody.

mod support;

use std::net::SocketAddr;

use support::backend::{Backend, greet};
use support::client::ask;
use support::crowd::Crowd;
use support::daemon::{Daemon, QUICK_HEALTH, Setup};
use support::ports::{BlackHole, Port};
use support::wait_until;

/// The names of the backends that serve `count` connections, one after the other.
fn turns(address: SocketAddr, count: usize) -> String {
    (0..count).map(|_| ask(address, "")).collect()
}

fn three() -> [Backend; 3] {
    ["a", "b", "c"].map(Backend::named)
}

fn addresses(backends: &[Backend]) -> Vec<SocketAddr> {
    backends.iter().map(|backend| backend.address).collect()
}

#[test]
fn round_robin_is_exact_and_begins_with_the_first_listed() {
    let backends = three();
    let mut daemon = Setup::new(&addresses(&backends)).start();
    assert_eq!(turns(daemon.address(), 12), "abcabcabcabc");
}

#[test]
fn with_checks_on_the_first_connection_still_goes_to_the_first_listed() {
    let backends = three();
    let mut daemon = Setup::new(&addresses(&backends)).health("type = \"tcp\"").start();
    assert_eq!(turns(daemon.address(), 6), "abcabc");
}

#[test]
fn live_connections_do_not_shift_turns() {
    let backends = three();
    let mut daemon = Setup::new(&addresses(&backends)).start();
    let address = daemon.address();
    let held: Vec<_> = (0..4).map(|_| support::client::connect(address)).collect();
    wait_until("all four are served", || {
        backends.iter().map(Backend::accepted).sum::<usize>() == held.len()
    });
    assert_eq!(turns(address, 5), "bcabc");
}

#[test]
fn weights_are_interleaved_smoothly() {
    let [a, b, c] = three();
    let list = format!(
        "{{ address = \"{}\", weight = 5 }}, \"{}\", {{ address = \"{}\", weight = 1 }}",
        a.address, b.address, c.address
    );
    let mut daemon = Setup::listing(&list).start();
    assert_eq!(turns(daemon.address(), 14), "aabacaaaabacaa");
}

#[test]
fn a_weight_on_the_command_line_counts_and_zero_gets_nothing() {
    let [a, b, c] = three();
    let (heavy, none) = (format!("{},weight=2", a.address), format!("{},weight=0", b.address));
    let last = c.address.to_string();
    let mut daemon = Daemon::start(&["run", "-l", "127.0.0.1:0", &heavy, &none, &last]);
    assert_eq!(turns(daemon.address(), 6), "acaaca");
}

#[test]
fn with_one_down_the_others_alternate() {
    let [a, _, c] = three();
    let dead = Port::reserve();
    let mut daemon = Setup::new(&[a.address, dead.address, c.address]).health(QUICK_HEALTH).start();
    daemon.line("Health check FAILED");
    assert_eq!(turns(daemon.address(), 8), "acacacac", "no neighbour gets a double share");
}

#[test]
fn a_flap_shifts_nobodys_turn() {
    let [a, _, c] = three();
    let port = Port::reserve();
    let b = Backend::on(port.listen(), |stream| greet("b", stream));
    let health = format!("{QUICK_HEALTH}rise = 1\nfall = 1\n");
    let mut daemon = Setup::new(&[a.address, port.address, c.address]).health(&health).start();
    let address = daemon.address();
    daemon.lines(3, "is up");
    assert_eq!(turns(address, 6), "abcabc");
    drop(b);
    daemon.line("is down");
    let _b = Backend::on(port.listen(), |stream| greet("b", stream));
    daemon.lines(4, "is up");
    assert_eq!(turns(address, 6), "abcabc");
}

#[test]
fn a_refused_connect_goes_to_another_backend_unseen() {
    let [a, _, c] = three();
    let dead = Port::reserve();
    let mut daemon = Setup::new(&[a.address, dead.address, c.address]).start();
    let served = turns(daemon.address(), 30);
    assert_eq!(served.len(), 30, "every client is served");
    assert!(!served.contains('b'));
}

#[test]
fn a_silent_connect_goes_to_another_backend_unseen() {
    let hole = BlackHole::new();
    let a = Backend::named("a");
    let mut daemon =
        Setup::new(&[hole.address, a.address]).pool("connect_timeout = \"200ms\"").start();
    assert_eq!(turns(daemon.address(), 2), "aa");
    assert!(daemon.status().iter().any(|line| line.contains("2 failed connects")));
}

#[test]
fn what_a_client_sent_before_the_retry_is_not_lost() {
    let (dead, a) = (Port::reserve(), Backend::named("a"));
    let mut daemon = Setup::new(&[dead.address, a.address]).start();
    assert_eq!(ask(daemon.address(), "early bytes"), "aearly bytes");
}

#[test]
fn no_more_backends_are_tried_than_allowed() {
    let dead: Vec<Port> = (0..3).map(|_| Port::reserve()).collect();
    let last = Backend::named("d");
    let mut all: Vec<SocketAddr> = dead.iter().map(|port| port.address).collect();
    all.push(last.address);
    let mut two =
        Setup::new(&all).pool("connect_attempts = 2").global("access_log = \"close\"").start();
    assert_eq!(turns(two.address(), 1), "");
    two.line("no backend could be connected");
    let mut four = Setup::new(&all).pool("connect_attempts = 4").start();
    assert_eq!(turns(four.address(), 1), "d");
}

#[test]
fn a_backend_that_keeps_refusing_is_ejected_even_without_checks() {
    let [a, _, c] = three();
    let dead = Port::reserve();
    let mut daemon = Setup::new(&[a.address, dead.address, c.address]).start();
    let address = daemon.address();
    turns(address, 12);
    let name = format!("web/{} is ejected for 10 s", dead.address);
    daemon.line(&name);
    let state = format!("web/{}: ejected", dead.address);
    assert!(daemon.status().iter().any(|line| line.contains(&state)), "the state says so too");
    let served = turns(address, 6);
    assert!(served == "acacac" || served == "cacaca", "{served}");
}

#[test]
fn the_last_backend_is_never_ejected() {
    let dead = [Port::reserve(), Port::reserve()];
    let mut daemon = Setup::new(&[dead[0].address, dead[1].address]).start();
    let address = daemon.address();
    assert_eq!(turns(address, 10), "");
    daemon.line("is ejected");
    assert_eq!(daemon.count("is ejected"), 1, "one of two, not both");
    let _back = Backend::on(dead[1].listen(), |stream| greet("2", stream));
    assert_eq!(turns(address, 3), "222");
}

#[test]
fn an_ejected_backend_that_is_the_only_one_left_is_used() {
    let port = Port::reserve();
    let other = Port::reserve();
    let b = Backend::on(other.listen(), |stream| greet("b", stream));
    let mut daemon = Setup::new(&[port.address, other.address]).start();
    let address = daemon.address();
    assert_eq!(turns(address, 8), "bbbbbbbb");
    daemon.line("is ejected");
    let _a = Backend::on(port.listen(), |stream| greet("a", stream));
    drop(b);
    assert_eq!(turns(address, 1), "a");
    daemon.line("is no longer ejected");
}

/// Three processes under a stream of new connections, one of them killed: every client is served
/// but those that were already on it.
#[test]
fn a_killed_backend_costs_no_client_but_its_own() {
    let mut backends = [(); 3].map(|()| Daemon::backend(&["--name", "x"]));
    let list: Vec<SocketAddr> = backends.iter_mut().map(Daemon::address).collect();
    let mut daemon = Setup::new(&list).global("access_log = \"close\"").start();
    let address = daemon.address();
    let crowd = Crowd::start(address, 4);
    crowd.go_on(100);
    backends[1].kill();
    crowd.go_on(400);
    let (served, failed) = crowd.end();
    daemon.line("is ejected");
    daemon.lines(served + failed, "connection ended");
    // A client was on the dead backend if its pair was connected there and got no whole answer.
    let dead = format!("backend={}", list[1]);
    let ended = |marks: &[&str], line: &str| {
        line.contains("connection ended") && marks.iter().any(|mark| line.contains(mark))
    };
    let log = daemon.log();
    let unserved = log.iter().filter(|line| ended(&["no backend could", "no available"], line));
    assert_eq!(unserved.count(), 0, "a refused connect is never a client's problem");
    let theirs = log.iter().filter(|line| line.contains(&dead));
    let on_it = theirs.filter(|line| ended(&["sent=0 ", "backend reset"], line)).count();
    assert!(failed <= on_it, "{failed} clients failed, {on_it} were on the dead backend");
    assert!(failed <= 4, "each client thread has one connection at most on the dead backend");
}
