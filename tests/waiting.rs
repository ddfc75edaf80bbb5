//! Clients that wait: for a place while every backend is full, for a backend while there is none.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::Signal;
use support::backend::{Backend, Guests, greet};
use support::client::{Ending, ask, connect, read_end, read_text, reset};
use support::crowd::Crowd;
use support::daemon::{Daemon, QUICK_HEALTH, Setup};
use support::ports::Port;
use support::{wait_for, wait_until};

const HOLD: &str = "on_unavailable = \"hold\"\nhold_timeout = \"0s\"";

/// One backend that takes `most` connections and hands them to the test.
fn limited(most: usize) -> (Backend, Guests, Setup) {
    let (backend, guests) = Backend::handing_over();
    let list = format!("{{ address = \"{}\", max_connections = {most} }}", backend.address);
    let setup = Setup::listing(&list).global("access_log = \"close\"");
    (backend, guests, setup)
}

/// Waits until the status table says that so many wait.
fn waiting(daemon: &mut Daemon, count: usize) {
    let text = format!("status: pool web: {count} clients wait");
    wait_until(&text, || daemon.status().iter().any(|line| line.contains(&text)));
}

/// A client that says its name and waits for its turn.
fn named(address: SocketAddr, daemon: &mut Daemon, name: &str, before: usize) -> TcpStream {
    let mut client = connect(address);
    client.write_all(name.as_bytes()).unwrap();
    waiting(daemon, before + 1);
    client
}

#[test]
fn at_the_cap_clients_are_served_in_their_order() {
    let (_backend, guests, setup) = limited(1);
    let mut daemon = setup.start();
    let address = daemon.address();
    let inside = connect(address);
    let server = guests.next();
    let names = ["a", "b", "c", "d"];
    let clients: Vec<TcpStream> = names
        .iter()
        .enumerate()
        .map(|(before, name)| named(address, &mut daemon, name, before))
        .collect();
    assert!(guests.waiting().is_none(), "the cap holds");
    drop((inside, server));
    for (name, client) in names.into_iter().zip(clients) {
        let mut server = guests.next();
        assert_eq!(read_text(&mut server, 1), name);
        assert!(guests.waiting().is_none(), "one leaves, one enters");
        drop((client, server));
    }
    let line = "status: pool web: 0 clients wait; 4 ever, 4 served";
    wait_until(line, || daemon.status().iter().any(|found| found.contains(line)));
}

/// One that was refused by the first backend waits for a place at the second; when the first is
/// back, neither it nor those behind it wait for the second any longer.
#[test]
fn a_backend_that_refused_somebody_is_no_secret_to_those_who_queue() {
    let (full, guests) = Backend::handing_over();
    let port = Port::reserve();
    let list =
        format!("\"{}\", {{ address = \"{}\", max_connections = 1 }}", port.address, full.address);
    let mut daemon = Setup::listing(&list).pool("queue_timeout = \"0s\"").start();
    let address = daemon.address();
    let _inside = connect(address);
    let _server = guests.next();
    let mut first = named(address, &mut daemon, "first", 0);
    let mut second = named(address, &mut daemon, "second", 1);
    let _back = Backend::on(port.listen(), |stream| greet("", stream));
    assert_eq!(read_text(&mut first, 5), "first");
    assert_eq!(read_text(&mut second, 6), "second");
}

#[test]
fn without_a_queue_a_client_is_refused_at_once() {
    let (_backend, guests, setup) = limited(1);
    let mut daemon = setup.pool("queue = 0").start();
    let _inside = connect(daemon.address());
    guests.next();
    for _ in 0..2 {
        let mut client = connect(daemon.address());
        client.write_all(b"let me in").unwrap();
        assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly));
    }
    daemon.lines(2, "reason=\"every backend and the queue were full\"");
    assert_eq!(daemon.count("a client was closed (every backend"), 1, "told sparingly");
}

#[test]
fn who_comes_to_a_full_queue_is_refused_and_those_inside_stay() {
    let (_backend, guests, setup) = limited(1);
    let mut daemon = setup.pool("queue = 2").start();
    let address = daemon.address();
    let inside = connect(address);
    guests.next();
    let first = named(address, &mut daemon, "1", 0);
    let _second = named(address, &mut daemon, "2", 1);
    assert_eq!(read_end(&mut connect(address)), (Vec::new(), Ending::Orderly));
    drop(inside);
    assert_eq!(read_text(&mut guests.next(), 1), "1");
    drop(first);
    assert_eq!(read_text(&mut guests.next(), 1), "2");
}

#[test]
fn nobody_queues_longer_than_allowed() {
    let (_backend, guests, setup) = limited(1);
    let mut daemon = setup.pool("queue_timeout = \"300ms\"").start();
    let _inside = connect(daemon.address());
    guests.next();
    let mut client = connect(daemon.address());
    client.write_all(b"let me in").unwrap();
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly));
    daemon.line("reason=\"no place at a backend in time\"");
    waiting(&mut daemon, 0);
}

/// An agent raises the limit while somebody waits.
#[test]
fn a_limit_that_is_raised_makes_places() {
    let (backend, guests) = Backend::handing_over();
    let most = Arc::new(AtomicUsize::new(1));
    let told = Arc::clone(&most);
    let agent = Backend::new(move |mut stream| {
        let _ = writeln!(stream, "maxconn:{}", told.load(Ordering::SeqCst));
    });
    let health =
        format!("type = \"none\"\nagent = \"{}\"\nagent_interval = \"50ms\"", agent.address);
    let mut daemon = Setup::new(&[backend.address]).health(&health).start();
    wait_until("the limit", || daemon.status().iter().any(|l| l.contains("at most 1 connections")));
    let _inside = connect(daemon.address());
    guests.next();
    let _second = named(daemon.address(), &mut daemon, "2", 0);
    let _third = named(daemon.address(), &mut daemon, "3", 1);
    most.store(2, Ordering::SeqCst);
    assert_eq!(read_text(&mut guests.next(), 1), "2");
    waiting(&mut daemon, 1);
    most.store(3, Ordering::SeqCst);
    assert_eq!(read_text(&mut guests.next(), 1), "3");
}

#[test]
fn who_leaves_the_queue_gives_the_place_up_at_once() {
    let (_backend, guests, setup) = limited(1);
    let mut daemon = setup.pool("queue = 2").start();
    let address = daemon.address();
    let inside = connect(address);
    guests.next();
    let silent = connect(address);
    waiting(&mut daemon, 1);
    let broken = named(address, &mut daemon, "broken", 1);
    drop(silent);
    waiting(&mut daemon, 1);
    reset(broken);
    waiting(&mut daemon, 0);
    daemon.lines(2, "reason=\"client left before a backend was connected\"");
    // One who has asked and finished still wants the answer.
    let mut asking = named(address, &mut daemon, "question", 0);
    asking.shutdown(Shutdown::Write).unwrap();
    let _last = named(address, &mut daemon, "last", 1);
    drop(inside);
    let mut server = guests.next();
    assert_eq!(read_end(&mut server), (b"question".to_vec(), Ending::Orderly));
    server.write_all(b"answer").unwrap();
    drop(server);
    assert_eq!(read_end(&mut asking), (b"answer".to_vec(), Ending::Orderly));
    assert_eq!(read_text(&mut guests.next(), 4), "last");
}

#[test]
fn a_client_is_held_until_a_backend_is_there() {
    let port = Port::reserve();
    let mut daemon = Setup::new(&[port.address]).pool(HOLD).start();
    let mut client = connect(daemon.address());
    client.write_all(b"early bytes").unwrap();
    daemon.line("pool web: no backend can be connected, clients are held");
    let mut other = connect(daemon.address());
    waiting(&mut daemon, 2);
    let _backend = Backend::on(port.listen(), |stream| greet("a", stream));
    assert_eq!(read_text(&mut client, 12), "aearly bytes", "it was not read before");
    assert_eq!(read_text(&mut other, 1), "a");
    daemon.line("pool web: clients are no longer held, after ");
}

#[test]
fn clients_are_held_while_checks_find_nobody() {
    let port = Port::reserve();
    let health = format!("{QUICK_HEALTH}rise = 1\nfall = 1\n");
    let mut daemon = Setup::new(&[port.address]).pool(HOLD).health(&health).start();
    daemon.line("No available backends in pool web");
    let asking = {
        let address = daemon.address();
        thread::spawn(move || ask(address, "hello"))
    };
    waiting(&mut daemon, 1);
    let _backend = Backend::on(port.listen(), |stream| greet("a", stream));
    assert_eq!(asking.join().unwrap(), "ahello");
    daemon.line("Backends are available again in pool web");
    assert_eq!(daemon.count("No available backends"), 1);
}

/// The next regular probe is an hour away.
#[test]
fn for_clients_who_are_held_backends_are_probed_fast() {
    let port = Port::reserve();
    let health =
        "type = \"tcp\"\ninterval = \"1h\"\nfast_interval = \"50ms\"\nrise = 1\nfall = 1\n";
    let mut daemon = Setup::new(&[port.address]).pool(HOLD).health(health).start();
    daemon.line("No available backends in pool web");
    let mut client = connect(daemon.address());
    waiting(&mut daemon, 1);
    let _backend = Backend::on(port.listen(), |stream| greet("a", stream));
    assert_eq!(read_text(&mut client, 1), "a");
}

#[test]
fn no_more_are_held_than_allowed() {
    let port = Port::reserve();
    let keys = format!("{HOLD}\nhold_max = 1");
    let setup = Setup::new(&[port.address]).pool(&keys);
    let mut daemon = setup.global("access_log = \"close\"").start();
    let mut held = connect(daemon.address());
    waiting(&mut daemon, 1);
    let mut excess = connect(daemon.address());
    assert_eq!(read_end(&mut excess), (Vec::new(), Ending::Orderly));
    daemon.line("reason=\"no available backend, and too many clients held\"");
    let _backend = Backend::on(port.listen(), |stream| greet("a", stream));
    assert_eq!(read_text(&mut held, 1), "a", "the first one has kept its place");
}

#[test]
fn nobody_is_held_longer_than_allowed() {
    let port = Port::reserve();
    let keys = "on_unavailable = \"hold\"\nhold_timeout = \"300ms\"";
    let setup = Setup::new(&[port.address]).pool(keys);
    let mut daemon = setup.global("access_log = \"close\"").start();
    let mut held = connect(daemon.address());
    held.write_all(b"patience").unwrap();
    assert_eq!(read_end(&mut held), (Vec::new(), Ending::Orderly));
    daemon.line("reason=\"no available backend in time\"");
    daemon.line("clients are no longer held, after ");
}

#[test]
fn holding_does_not_spin() {
    let ports = [Port::reserve(), Port::reserve()];
    let mut daemon = Setup::new(&[ports[0].address, ports[1].address]).pool(HOLD).start();
    let _clients: Vec<TcpStream> = (0..50).map(|_| connect(daemon.address())).collect();
    waiting(&mut daemon, 50);
    let count = |line: &str, what: &str| -> usize {
        let (before, _) = line.split_once(what).unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let mut facts = || {
        let header = daemon.status().remove(0);
        (count(&header, " failed connects"), count(&header, " turns"))
    };
    let (failed, turns) = facts();
    // Six more attempts of two backends each; those who stand behind try nothing.
    let (more, later) = wait_for("more attempts", || Some(facts()).filter(|f| f.0 >= failed + 12));
    // Every look at the status is a turn, and comes every few milliseconds.
    assert!(more - failed < 30, "{} connects", more - failed);
    assert!(later > turns, "the loop goes on");
}

#[test]
fn who_was_held_queues_when_the_backend_that_comes_back_is_full() {
    let port = Port::reserve();
    let list = format!("{{ address = \"{}\", max_connections = 1 }}", port.address);
    let keys = format!("{HOLD}\nqueue_timeout = \"0s\"\nqueue = 1");
    let mut daemon = Setup::listing(&list).pool(&keys).start();
    let address = daemon.address();
    let names = ["a", "b", "c"];
    let clients: Vec<TcpStream> = names
        .iter()
        .enumerate()
        .map(|(before, name)| named(address, &mut daemon, name, before))
        .collect();
    let (give, take) = std::sync::mpsc::channel();
    let _backend = Backend::on(port.listen(), move |stream| {
        let _ = give.send(stream);
    });
    let mut clients = clients.into_iter();
    for (left, name) in [(2, "a"), (1, "b"), (0, "c")] {
        let mut server = take.recv_timeout(support::PATIENCE).unwrap();
        assert_eq!(read_text(&mut server, 1), name);
        if left > 0 {
            let text = format!("{left} clients wait for a place");
            wait_until(&text, || daemon.status().iter().any(|line| line.contains(&text)));
        }
        drop(clients.next());
    }
}

#[test]
fn without_hold_who_queues_goes_when_the_last_backend_does() {
    let port = Port::reserve();
    let (give, take) = std::sync::mpsc::channel();
    let backend = Backend::on(port.listen(), move |stream| {
        let _ = give.send(stream);
    });
    let list = format!("{{ address = \"{}\", max_connections = 1 }}", port.address);
    let health = format!("{QUICK_HEALTH}rise = 1\nfall = 1\n");
    let mut daemon = Setup::listing(&list)
        .pool("queue_timeout = \"0s\"")
        .health(&health)
        .global("access_log = \"close\"")
        .start();
    daemon.line("is up");
    let _inside = connect(daemon.address());
    // A probe is a connection too, and ends at once.
    let _server = wait_for("the client", || take.recv().ok());
    let mut queued = connect(daemon.address());
    waiting(&mut daemon, 1);
    drop(backend);
    daemon.line("No available backends");
    assert_eq!(read_end(&mut queued), (Vec::new(), Ending::Orderly));
    daemon.line("reason=\"no available backend\"");
}

#[test]
fn a_drain_goes_on_for_those_who_wait() {
    let port = Port::reserve();
    let health = format!("{QUICK_HEALTH}rise = 1\nfall = 1\n");
    let setup = Setup::new(&[port.address]).pool(HOLD).health(&health);
    let mut daemon = setup.global("drain_deadline = \"0s\"").start();
    daemon.line("No available backends");
    let mut client = connect(daemon.address());
    client.write_all(b"hello").unwrap();
    waiting(&mut daemon, 1);
    daemon.signal(Signal::TERM);
    daemon.line("no longer accepting, 1 connections left");
    let _backend = Backend::on(port.listen(), |stream| greet("a", stream));
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_end(&mut client), (b"ahello".to_vec(), Ending::Orderly));
    assert_eq!(daemon.exit_code(), Some(0));
}

#[test]
fn a_drain_whose_deadline_passes_cuts_those_who_wait() {
    let port = Port::reserve();
    let setup = Setup::new(&[port.address]).pool(HOLD);
    let mut daemon = setup.global("drain_deadline = \"300ms\"").start();
    let mut client = connect(daemon.address());
    waiting(&mut daemon, 1);
    daemon.signal(Signal::TERM);
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Reset));
    assert_eq!(daemon.exit_code(), Some(5));
}

/// Clients keep coming while all backends are told to end, end, and are started again. They end as
/// a service should: what they have begun they finish. Only a connection that the kernel had made
/// for them and that they never saw can be lost, which the access log shows.
#[test]
fn a_restart_of_all_backends_at_once_loses_no_client() {
    let start = |address: SocketAddr| {
        Daemon::start(&["backend", "--listen", &address.to_string(), "--name", "x"])
    };
    let ports = [(); 3].map(|()| Port::reserve());
    let list = [ports[0].address, ports[1].address, ports[2].address];
    let mut backends = list.map(start);
    let keys = "on_unavailable = \"hold\"\nhold_timeout = \"30s\"";
    let health = format!("{QUICK_HEALTH}rise = 1\nfall = 1\n");
    let setup = Setup::new(&list).pool(keys).health(&health).global("access_log = \"close\"");
    let mut daemon = setup.start();
    daemon.lines(3, "is up");
    let address = daemon.address();
    let crowd = Crowd::start(address, 8);
    for _ in 0..2 {
        crowd.go_on(200);
        backends.iter().for_each(|backend| backend.signal(Signal::TERM));
        backends.iter_mut().for_each(|backend| assert_eq!(backend.exit_code(), Some(0)));
        waiting(&mut daemon, 8);
        backends = list.map(start);
    }
    crowd.go_on(200);
    let (served, failed) = crowd.end();
    daemon.lines(served + failed, "connection ended");
    let lost = daemon.count("reason=\"backend reset the connection\"");
    assert!(failed <= lost, "{failed} clients failed, {lost} were with a backend that ended");
    for reason in ["no available backend", "no backend could be connected", "too many clients"] {
        assert_eq!(daemon.count(&format!("reason=\"{reason}")), 0, "{reason}");
    }
}

/// A client of a backend that then stops listening, while its connections go on; and one of another
/// backend that stays.
fn one_that_goes_down(on_down: &str) -> (Daemon, TcpStream, TcpStream, Backend) {
    let port = Port::reserve();
    let backend = Backend::on(port.listen(), |stream| greet("a", stream));
    let other = Backend::named("b");
    let health = format!("{QUICK_HEALTH}rise = 1\nfall = 1\n");
    let mut daemon = Setup::new(&[port.address, other.address])
        .pool(on_down)
        .health(&health)
        .global("access_log = \"close\"")
        .start();
    daemon.lines(2, "is up");
    let mut clients = [connect(daemon.address()), connect(daemon.address())];
    let first = read_text(&mut clients[0], 1);
    read_text(&mut clients[1], 1);
    let [one, two] = clients;
    let (client, staying) = if first == "a" { (one, two) } else { (two, one) };
    drop(backend);
    daemon.line("is down");
    (daemon, client, staying, other)
}

#[test]
fn a_backend_that_fails_its_check_keeps_its_connections() {
    let (_daemon, mut client, _staying, _other) = one_that_goes_down("");
    client.write_all(b"still").unwrap();
    assert_eq!(read_text(&mut client, 5), "still");
}

#[test]
fn a_backend_that_fails_its_check_loses_its_connections_where_asked() {
    let (mut daemon, mut client, mut staying, _other) = one_that_goes_down("on_down = \"close\"");
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Reset));
    daemon.line("reason=\"backend failed its health check\"");
    staying.write_all(b"still").unwrap();
    assert_eq!(read_text(&mut staying, 5), "still");
    assert_eq!(daemon.count("connection ended"), 1);
}

#[test]
fn connections_come_from_the_addresses_asked_for() {
    let (backend, guests) = Backend::handing_over();
    let mut daemon =
        Setup::new(&[backend.address]).pool("source = [\"127.0.0.2\", \"127.0.0.3\"]").start();
    let origins: Vec<String> = (0..4)
        .map(|_| {
            let _client = connect(daemon.address());
            guests.next().peer_addr().unwrap().ip().to_string()
        })
        .collect();
    assert_eq!(origins, ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"]);
}

#[test]
fn probes_come_from_there_too() {
    let (backend, guests) = Backend::handing_over();
    let setup = Setup::new(&[backend.address]).pool("source = \"127.0.0.9\"");
    let mut daemon = setup.health(QUICK_HEALTH).start();
    assert_eq!(guests.next().peer_addr().unwrap().ip().to_string(), "127.0.0.9");
    daemon.line("is up");
}

#[test]
fn a_source_that_is_not_here_is_our_fault_and_told() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address])
        .pool("source = [\"192.0.2.77\"]")
        .health(QUICK_HEALTH)
        .start();
    daemon.line("pool web: 192.0.2.77 in `source` is no address of this machine");
    let mut client = connect(daemon.address());
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly));
    daemon.line("cannot connect to web/");
    let status = daemon.status();
    assert!(status.iter().any(|line| line.contains("0 failed connects")), "{status:?}");
    assert!(!status.iter().any(|line| line.contains(": down")), "{status:?}");
}
