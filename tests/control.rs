//! Who gets clients, over real sockets: fewest connections, limits, backups, slow starts, agents,
//! backends that say nothing.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::backend::{Backend, greet};
use support::client::{ask, connect, read_text};
use support::daemon::{Daemon, QUICK_HEALTH, Setup};
use support::ports::Port;
use support::wait_until;

/// The names of the backends that serve `count` connections, one after the other.
fn turns(address: SocketAddr, count: usize) -> String {
    (0..count).map(|_| ask(address, "")).collect()
}

/// Opens connections and keeps them; the name of the backend of each.
fn hold(address: SocketAddr, count: usize) -> (Vec<TcpStream>, String) {
    let mut held: Vec<TcpStream> = (0..count).map(|_| connect(address)).collect();
    let names = held.iter_mut().map(|stream| read_text(stream, 1)).collect();
    (held, names)
}

fn sorted(names: &str) -> String {
    let mut names: Vec<char> = names.chars().collect();
    names.sort_unstable();
    names.into_iter().collect()
}

/// The line of the status table about one backend.
fn status_of(daemon: &mut Daemon, address: SocketAddr) -> String {
    let mark = format!("web/{address}: ");
    daemon.status().into_iter().find(|line| line.contains(&mark)).unwrap()
}

/// An agent that says one of `lines` to everybody: the one with this number.
fn agent(lines: &'static [&'static str], number: &Arc<AtomicUsize>) -> Backend {
    let number = Arc::clone(number);
    Backend::new(move |mut stream| {
        let line = lines[number.load(Ordering::SeqCst)];
        // A balancer that has what it wants may leave.
        let _ = writeln!(stream, "{line}");
    })
}

#[test]
fn live_connections_are_spread_evenly_by_least_connections() {
    let backends = ["a", "b", "c"].map(Backend::named);
    let list: Vec<SocketAddr> = backends.iter().map(|backend| backend.address).collect();
    let mut daemon = Setup::new(&list).pool("balance = \"least-connections\"").start();
    let address = daemon.address();
    let (mut held, names) = hold(address, 9);
    assert_eq!(sorted(&names), "aaabbbccc");
    // Two of one backend end: the next two clients go there.
    let ended: Vec<usize> = (0..9).filter(|i| &names[*i..=*i] == "b").take(2).collect();
    for index in ended.into_iter().rev() {
        drop(held.remove(index));
    }
    let mark = format!("web/{}: up, weight 1, 1 active", list[1]);
    wait_until("both are gone", || daemon.status().iter().any(|line| line.contains(&mark)));
    let (_more, names) = hold(address, 2);
    assert_eq!(names, "bb");
}

#[test]
fn a_full_backend_is_passed_over_until_a_place_is_free() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let list = format!("{{ address = \"{}\", max_connections = 1 }}, \"{}\"", a.address, b.address);
    let mut daemon = Setup::listing(&list).start();
    let address = daemon.address();
    let (held, names) = hold(address, 1);
    assert_eq!(names, "a");
    assert_eq!(turns(address, 4), "bbbb");
    assert!(status_of(&mut daemon, a.address).contains("at most 1 connections"));
    drop(held);
    let mark = format!("web/{}: up, weight 1, 0 active", a.address);
    wait_until("the place is free", || daemon.status().iter().any(|line| line.contains(&mark)));
    assert_eq!(sorted(&turns(address, 2)), "ab");
}

#[test]
fn backups_take_over_when_no_primary_is_left_and_hand_back() {
    let port = Port::reserve();
    let a = Backend::on(port.listen(), |stream| greet("a", stream));
    let b = Backend::named("b");
    let list = format!("\"{}\", {{ address = \"{}\", backup = true }}", port.address, b.address);
    let mut daemon = Setup::listing(&list).health(QUICK_HEALTH).start();
    let address = daemon.address();
    daemon.lines(2, "is up");
    assert_eq!(turns(address, 4), "aaaa");
    drop(a);
    assert_eq!(turns(address, 1), "b", "even before the checks have noticed");
    daemon.line("pool web: backups take over");
    assert_eq!(turns(address, 4), "bbbb");
    let _a = Backend::on(port.listen(), |stream| greet("a", stream));
    daemon.line("pool web: primaries serve again");
    assert_eq!(turns(address, 4), "aaaa");
}

#[test]
fn one_that_came_back_starts_slowly_but_not_with_everybody_else() {
    let (a, port) = (Backend::named("a"), Port::reserve());
    let b = Backend::on(port.listen(), |stream| greet("b", stream));
    let health = format!("{QUICK_HEALTH}rise = 1\nfall = 1\n");
    let setup = Setup::new(&[a.address, port.address]).pool("slow_start = \"1h\"").health(&health);
    let mut daemon = setup.start();
    let address = daemon.address();
    daemon.lines(2, "is up");
    assert_eq!(turns(address, 4), "abab", "all are new");
    drop(b);
    daemon.line("is down");
    let _b = Backend::on(port.listen(), |stream| greet("b", stream));
    daemon.lines(3, "is up");
    assert_eq!(turns(address, 20), "a".repeat(20), "one turn in 256 is its share at first");
    assert!(status_of(&mut daemon, port.address).contains("1 % of its weight, in a slow start"));
}

#[test]
fn what_an_agent_says_is_done_and_shown() {
    let lines = &["drain", "ready 50% maxconn:7", "stopped # for an update", "up"];
    let number = Arc::new(AtomicUsize::new(0));
    let (a, agent) = (Backend::named("a"), agent(lines, &number));
    let say = |next| number.store(next, Ordering::SeqCst);
    let health =
        format!("type = \"none\"\nagent = \"{}\"\nagent_interval = \"50ms\"", agent.address);
    let mut daemon = Setup::new(&[a.address]).health(&health).start();
    let address = daemon.address();
    let name = format!("web/{}", a.address);
    daemon.line(&format!("{name} is draining (by its agent)"));
    assert_eq!(turns(address, 2), "", "nobody else is there");
    say(1);
    daemon.line(&format!("{name} is ready"));
    assert_eq!(turns(address, 2), "aa");
    let line = status_of(&mut daemon, a.address);
    for part in ["up, ", "50 % of its weight", "at most 7 connections", "agent: 50% ready"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    say(2);
    daemon.line("is down");
    assert_eq!(turns(address, 1), "");
    say(3);
    daemon.line(&format!("{name} is up"));
    assert_eq!(turns(address, 1), "a");
}

#[test]
fn one_that_takes_requests_and_says_nothing_is_ejected() {
    // It reads what it gets and answers nothing, until the client leaves.
    let silent = Backend::new(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let b = Backend::named("b");
    let mut daemon =
        Setup::new(&[silent.address, b.address]).pool("first_byte_timeout = \"50ms\"").start();
    let address = daemon.address();
    let mut held = Vec::new();
    // Those that say nothing themselves hold nothing against it.
    for text in ["", "", "", "", "?", "?", "?"] {
        let mut stream = connect(address);
        stream.write_all(text.as_bytes()).unwrap();
        held.push(stream);
        assert_eq!(turns(address, 1), "b");
    }
    let mark =
        format!("web/{} is ejected for 10 s (connected, but it does not answer)", silent.address);
    daemon.line(&mark);
    assert_eq!(turns(address, 3), "bbb");
    let line = status_of(&mut daemon, silent.address);
    assert!(line.contains(": ejected, ") && line.contains("; 3 times silent"), "{line}");
    wait_until("all seven were with it", || silent.accepted() == 7);
}

/// What we tell a backend of its connection is no question of the client's.
#[test]
fn a_header_of_ours_asks_the_backend_nothing() {
    let (quiet, first) = Backend::handing_over();
    let (asked, second) = Backend::handing_over();
    let mut daemon = Setup::new(&[quiet.address, asked.address])
        .pool("first_byte_timeout = \"50ms\"\nsend_proxy_protocol = \"v1\"")
        .start();
    let _silent = connect(daemon.address());
    let mut server = first.next();
    assert_eq!(read_text(&mut server, 6), "PROXY ");
    let mut asking = connect(daemon.address());
    asking.write_all(b"?").unwrap();
    let _server = second.next();
    // The one that came later is owed an answer; what the other's header began would be over.
    wait_until("the silence to be noticed", || {
        status_of(&mut daemon, asked.address).contains("; 1 times silent")
    });
    let line = status_of(&mut daemon, quiet.address);
    assert!(!line.contains("silent"), "{line}");
}

#[test]
fn the_first_is_filled_before_the_next_is_used() {
    let backends = ["a", "b", "c"].map(Backend::named);
    let entry = |b: &Backend| format!("{{ address = \"{}\", max_connections = 2 }}, ", b.address);
    let list: String = backends.iter().map(entry).collect();
    let mut daemon = Setup::listing(&list).pool("balance = \"first\"").start();
    let (_held, names) = hold(daemon.address(), 5);
    assert_eq!(names, "aabbc");
}
