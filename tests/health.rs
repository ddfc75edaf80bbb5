//! What probes see and do, and what clients see when nobody is left.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::thread;

use support::backend::{Backend, greet};
use support::client::{Ending, ask, connect, read_end};
use support::daemon::{Daemon, QUICK_HEALTH, Setup};
use support::ports::{BlackHole, Port};
use support::wait_until;

fn state_of(daemon: &mut Daemon, address: impl std::fmt::Display) -> String {
    let mark = format!("web/{address}: ");
    let status = daemon.status();
    let line = status.iter().find(|line| line.contains(&mark)).unwrap();
    let (_, rest) = line.split_once(&mark).unwrap();
    rest.split(',').next().unwrap().to_owned()
}

#[test]
fn the_first_results_come_at_once() {
    // The next would come after an hour.
    let hour = "type = \"tcp\"\ninterval = \"1h\"\nfast_interval = \"1h\"";
    let (backend, dead) = (Backend::named("a"), Port::reserve());
    let mut daemon = Setup::new(&[backend.address, dead.address]).health(hour).start();
    daemon.line(&format!("Health check OK: web/{} is up (connected in ", backend.address));
    daemon.line(&format!("Health check FAILED: web/{} (connection refused) is down", dead.address));
    assert_eq!(state_of(&mut daemon, backend.address), "up");
    assert_eq!(state_of(&mut daemon, dead.address), "down");
}

#[test]
fn before_the_first_result_a_backend_is_checking() {
    let hole = BlackHole::new();
    let slow = "type = \"tcp\"\ntimeout = \"1h\"\ninterval = \"1h\"";
    let mut daemon = Setup::new(&[hole.address]).health(slow).start();
    assert_eq!(state_of(&mut daemon, hole.address), "checking");
}

#[test]
fn the_initial_state_is_as_configured() {
    let hole = BlackHole::new();
    for (initial, state) in [("up", "up"), ("down", "down"), ("checking", "checking")] {
        let health = format!("initial = \"{initial}\"\ntimeout = \"1h\"\ninterval = \"1h\"");
        let mut daemon = Setup::new(&[hole.address]).health(&health).start();
        assert_eq!(state_of(&mut daemon, hole.address), state);
    }
}

/// A first result that agrees with what was assumed changes no state, and is the reason for it.
#[test]
fn an_assumed_state_has_the_first_result_for_its_reason() {
    let (backend, dead) = (Backend::named("a"), Port::reserve());
    for (initial, address, words) in [
        ("up", backend.address, "(connected in "),
        ("down", dead.address, "(connection refused; 0 of 2 passes to return)"),
    ] {
        let health = format!("{QUICK_HEALTH}initial = \"{initial}\"\nrise = 2\n");
        let mut daemon = Setup::new(&[address]).health(&health).start();
        let mark = format!("web/{address}: {initial}, ");
        let is_shown = |line: &String| line.contains(&mark) && line.contains(words);
        wait_until(words, || daemon.status().iter().any(is_shown));
    }
}

#[test]
fn a_probe_that_hangs_fails_at_its_timeout() {
    let hole = BlackHole::new();
    let health = "timeout = \"100ms\"\ninterval = \"200ms\"\nfast_interval = \"100ms\"";
    let mut daemon = Setup::new(&[hole.address]).health(health).start();
    daemon.line(&format!("Health check FAILED: web/{} (timed out) is down", hole.address));
}

/// Down after three failures, up after two passes, counted in the debug lines.
#[test]
fn rise_and_fall_are_counted_exactly() {
    let port = Port::reserve();
    let backend = Backend::on(port.listen(), |stream| greet("a", stream));
    let health = format!("{QUICK_HEALTH}rise = 4\nfall = 3\n");
    let file = support::daemon::config_file(&Setup::new(&[port.address]).health(&health).text());
    let path = file.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["run", "-v", "-c", path]);
    daemon.line("is up");
    drop(backend);
    daemon.line("is down");
    let _backend = Backend::on(port.listen(), |stream| greet("a", stream));
    daemon.lines(2, "is up");
    let log = daemon.log();
    let failures = |lines: &[String], text: &str| lines.iter().filter(|l| l.contains(text)).count();
    let down = log.iter().position(|line| line.contains("is down")).unwrap();
    let up = log.iter().rposition(|line| line.contains("is up")).unwrap();
    assert_eq!(failures(&log[..down], "FAILED: web/"), 3, "a fall");
    let rising = &log[down..up];
    let last_failure = rising.iter().rposition(|line| line.contains("FAILED")).unwrap();
    assert_eq!(failures(&rising[last_failure..], "(connected in"), 4, "a rise");
}

#[test]
fn a_backend_leaves_and_comes_back() {
    let port = Port::reserve();
    let a = Backend::named("a");
    let b = Backend::on(port.listen(), |stream| greet("b", stream));
    let mut daemon = Setup::new(&[a.address, port.address]).health(QUICK_HEALTH).start();
    let address = daemon.address();
    daemon.lines(2, "is up");
    drop(b);
    daemon.line("(connection refused) is down");
    assert_eq!(state_of(&mut daemon, port.address), "down");
    assert_eq!((ask(address, ""), ask(address, "")), ("a".into(), "a".into()));
    let _b = Backend::on(port.listen(), |stream| greet("b", stream));
    daemon.lines(3, "is up");
    let mut both = [ask(address, ""), ask(address, "")];
    both.sort();
    assert_eq!(both, ["a", "b"]);
    assert_eq!(daemon.count("No available"), 0);
}

/// With the defaults a killed process is out of rotation, and a restarted one back: the intervals
/// that make it five seconds at most are those of the configuration's own tests.
#[test]
fn with_the_defaults_a_killed_process_leaves_and_a_restarted_one_returns() {
    let port = Port::reserve();
    let number = port.address.port().to_string();
    let mut backend = Daemon::start(&["backend", "--port", &number]);
    let other = Backend::named("other");
    let list = [port.address, other.address].map(|address| address.to_string());
    let mut daemon = Daemon::start(&["run", "-l", "127.0.0.1:0", &list[0], &list[1]]);
    daemon.lines(2, "is up");
    backend.kill();
    daemon.line("is down");
    let _backend = Daemon::start(&["backend", "--port", &number]);
    daemon.lines(3, "is up");
}

/// The backend speaks first and reads to the end: it must see a FIN, never a reset, though it said
/// something nobody wanted to hear.
#[test]
fn probes_end_with_a_fin_even_if_the_backend_speaks_first() {
    let (tell, ends) = channel();
    let backend = Backend::new(move |mut stream: TcpStream| {
        let mut all = Vec::new();
        let said = stream.write_all(&[b'x'; 2000]).and_then(|()| stream.read_to_end(&mut all));
        // The test may have seen enough.
        let _ = tell.send((said.map_err(|error| error.kind()), all));
    });
    let mut daemon = Setup::new(&[backend.address]).health(QUICK_HEALTH).start();
    daemon.line("is up");
    for _ in 0..10 {
        let end = ends.recv_timeout(support::PATIENCE).unwrap();
        assert_eq!(end, (Ok(0), Vec::new()), "nothing, then the end");
    }
}

#[test]
fn probes_leave_no_descriptor_behind() {
    let backend = Backend::named("a");
    let mut daemon = Setup::new(&[backend.address]).health(QUICK_HEALTH).start();
    wait_until("many probes came", || backend.accepted() >= 5);
    let early = daemon.descriptors();
    wait_until("many more probes came", || backend.accepted() >= 40);
    let late = daemon.descriptors();
    assert!(late <= early + 2, "{early} descriptors became {late}");
    assert_eq!(daemon.count("FAILED"), 0);
}

/// Forty backends, none answers: their first probes run side by side, or the last of them would
/// have to wait for more than patience.
#[test]
fn probes_run_side_by_side() {
    let holes: Vec<BlackHole> = (0..20)
        .map(|_| thread::spawn(BlackHole::new))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|hole| hole.join().unwrap())
        .collect();
    let list: Vec<_> = holes.iter().map(|hole| hole.address).collect();
    let health = "timeout = \"2s\"\ninterval = \"1h\"\nfast_interval = \"1h\"";
    let mut daemon = Setup::new(&list).health(health).start();
    daemon.lines(list.len(), "(timed out) is down");
}

#[test]
fn single_results_are_told_only_when_asked_for() {
    let backend = Backend::named("a");
    let mut daemon = Setup::new(&[backend.address]).health(QUICK_HEALTH).start();
    wait_until("several probes came", || backend.accepted() > 5);
    assert_eq!(daemon.count("Health check OK"), 1, "one transition, no single results");
}

#[test]
fn without_backends_clients_are_closed_in_order_and_two_lines_tell_it() {
    let port = Port::reserve();
    let backend = Backend::on(port.listen(), |stream| greet("a", stream));
    let health = format!("{QUICK_HEALTH}fall = 2\nrise = 2\n");
    let mut daemon =
        Setup::new(&[port.address]).health(&health).global("access_log = \"close\"").start();
    let address = daemon.address();
    daemon.line("is up");
    drop(backend);
    daemon.line("No available backends in pool web");
    for sends in [true, false, true] {
        let mut client = connect(address);
        if sends {
            // It may find the connection closed already; how it ended is what counts.
            let _ = client.write_all(b"GET / HTTP/1.0\r\n\r\n");
        }
        assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly));
    }
    daemon.lines(3, "reason=\"no available backend\"");
    let _backend = Backend::on(port.listen(), |stream| greet("a", stream));
    daemon.line("Backends are available again in pool web");
    assert_eq!(ask(address, "!"), "a!");
    assert_eq!(daemon.count("No available backends"), 1, "once on entering");
    assert_eq!(daemon.count("available again"), 1, "once on leaving");
}
