//! How long things may take, and that "0s" is for ever.
//!
//! That something does *not* end is shown beside something that does: while one connection runs into
//! its timeout again and again, the other must still work.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use support::backend::Backend;
use support::client::{Ending, connect, read_end, read_text};
use support::daemon::{Daemon, Setup};
use support::ports::BlackHole;
use support::wait_until;

fn echo(client: &mut TcpStream) {
    client.write_all(b"ping").unwrap();
    assert_eq!(read_text(client, 4), "ping");
}

/// Two listeners before one echo backend; the second has half a second for everything.
fn two_listeners(backend: SocketAddr, first: &str) -> (Daemon, SocketAddr, SocketAddr) {
    let text = format!(
        "[global]\naccess_log = \"close\"\n\
         [listener.patient]\nbind = [\"127.0.0.1:0\"]\npool = \"web\"\n{first}\n\
         [listener.hasty]\nbind = [\"127.0.0.1:0\"]\npool = \"web\"\n\
         idle_timeout = \"500ms\"\nhalf_close_timeout = \"500ms\"\n\
         [pool.web]\nbackends = [\"{backend}\"]\n[pool.web.health]\ntype = \"none\"\n"
    );
    let mut daemon = Daemon::configured(&text);
    let addresses =
        ["patient", "hasty"].map(|name| daemon.address_of(&format!("listener {name} ")));
    (daemon, addresses[0], addresses[1])
}

#[test]
fn a_connect_that_hangs_is_given_up() {
    let hole = BlackHole::new();
    let mut daemon = Setup::new(&[hole.address])
        .pool("connect_timeout = \"200ms\"")
        .global("access_log = \"close\"")
        .start();
    let mut client = connect(daemon.address());
    client.write_all(b"anybody there?").unwrap();
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly));
    daemon.line("reason=\"no backend could be connected\"");
}

#[test]
fn a_silent_connection_ends_and_a_busy_one_does_not() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address])
        .listener("idle_timeout = \"1s\"")
        .global("access_log = \"close\"")
        .start();
    let address = daemon.address();
    let mut busy = connect(address);
    for _ in 0..2 {
        let mut silent = connect(address);
        echo(&mut silent);
        let watching = thread::spawn(move || read_end(&mut silent));
        wait_until("the silent one ends", || {
            echo(&mut busy);
            watching.is_finished()
        });
        assert_eq!(watching.join().unwrap(), (Vec::new(), Ending::Orderly));
    }
    daemon.lines(2, "reason=\"idle timeout\"");
    echo(&mut busy);
    assert_eq!(daemon.count("connection ended"), 2);
}

#[test]
fn bytes_one_way_keep_a_connection_from_being_idle() {
    let (backend, guests) = Backend::handing_over();
    let mut daemon = Setup::new(&[backend.address]).listener("idle_timeout = \"1s\"").start();
    let mut client = connect(daemon.address());
    let mut server = guests.next();
    for _ in 0..2 {
        let mut silent = connect(daemon.address());
        let watching = thread::spawn(move || read_end(&mut silent));
        wait_until("the silent one ends", || {
            server.write_all(b"tick").unwrap();
            assert_eq!(read_text(&mut client, 4), "tick");
            watching.is_finished()
        });
        watching.join().unwrap();
    }
}

#[test]
fn a_half_closed_connection_ends_when_the_other_side_is_silent() {
    let (backend, guests) = Backend::handing_over();
    let mut daemon = Setup::new(&[backend.address])
        .listener("half_close_timeout = \"300ms\"")
        .global("access_log = \"close\"")
        .start();
    let mut client = connect(daemon.address());
    let mut server = guests.next();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_end(&mut server).1, Ending::Orderly);
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly), "the client first");
    let mut client = connect(daemon.address());
    let mut server = guests.next();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_end(&mut client).1, Ending::Orderly);
    assert_eq!(read_end(&mut server), (Vec::new(), Ending::Orderly), "the server first");
    daemon.lines(2, "reason=\"half-close timeout\"");
}

#[test]
fn half_closed_and_busy_is_not_silent() {
    let (backend, guests) = Backend::handing_over();
    let mut daemon = Setup::new(&[backend.address]).listener("half_close_timeout = \"1s\"").start();
    let half_closed = || {
        let client = connect(daemon.address());
        let server = guests.next();
        client.shutdown(Shutdown::Write).unwrap();
        (client, server)
    };
    let mut half_closed = half_closed;
    let (mut client, mut server) = half_closed();
    let (mut silent, _held) = half_closed();
    let watching = thread::spawn(move || read_end(&mut silent));
    wait_until("the silent one ends", || {
        server.write_all(b"tick").unwrap();
        assert_eq!(read_text(&mut client, 4), "tick");
        watching.is_finished()
    });
    watching.join().unwrap();
    server.write_all(b"last").unwrap();
    assert_eq!(read_text(&mut client, 4), "last");
}

#[test]
fn zero_is_never() {
    let backend = Backend::echo();
    let zero = "idle_timeout = \"0s\"\nhalf_close_timeout = \"0s\"";
    let (mut daemon, patient, hasty) = two_listeners(backend.address, zero);
    let mut silent = connect(patient);
    echo(&mut silent);
    for _ in 0..3 {
        assert_eq!(read_end(&mut connect(hasty)).1, Ending::Orderly);
    }
    daemon.lines(3, "reason=\"idle timeout\"");
    echo(&mut silent);
}

#[test]
fn zero_is_never_for_half_closed_ones_too() {
    let (backend, guests) = Backend::handing_over();
    let zero = "idle_timeout = \"0s\"\nhalf_close_timeout = \"0s\"";
    let (mut daemon, patient, hasty) = two_listeners(backend.address, zero);
    let mut client = connect(patient);
    let mut server = guests.next();
    client.shutdown(Shutdown::Write).unwrap();
    for _ in 0..3 {
        let mut other = connect(hasty);
        other.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_end(&mut other).1, Ending::Orderly);
    }
    daemon.lines(3, "reason=\"half-close timeout\"");
    server.write_all(b"late answer").unwrap();
    drop(server);
    assert_eq!(read_end(&mut client), (b"late answer".to_vec(), Ending::Orderly));
}

#[test]
fn the_defaults_leave_a_silent_server_first_connection_alone() {
    let (backend, guests) = Backend::handing_over();
    let (mut daemon, patient, hasty) = two_listeners(backend.address, "");
    let mut client = connect(patient);
    let mut server = guests.next();
    for _ in 0..2 {
        read_end(&mut connect(hasty));
    }
    daemon.lines(2, "reason=\"idle timeout\"");
    server.write_all(b"220 at last").unwrap();
    assert_eq!(read_text(&mut client, 11), "220 at last");
}

/// The kernel shows the keepalive timer of a socket in its table.
#[test]
fn keepalive_is_on_for_clients_at_once_and_for_backends_after_a_while() {
    let (backend, guests) = Backend::handing_over();
    let mut daemon = Setup::new(&[backend.address]).start();
    let client = connect(daemon.address());
    let server = guests.next();
    let (front, peer) = (client.peer_addr().unwrap(), client.local_addr().unwrap());
    wait_until("keepalive towards the client", || has_keepalive(front, peer));
    let (ours, theirs) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
    assert!(!has_keepalive(ours, theirs), "short connections do not pay for it");
    wait_until("keepalive towards the backend", || has_keepalive(ours, theirs));
    daemon.status();
}

fn has_keepalive(local: SocketAddr, remote: SocketAddr) -> bool {
    let hex = |address: SocketAddr| format!("0100007F:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let line = table.lines().find(|line| line.contains(&format!("{} {}", hex(local), hex(remote))));
    line.is_some_and(|line| line.split_whitespace().nth(5).unwrap().starts_with("02:"))
}
