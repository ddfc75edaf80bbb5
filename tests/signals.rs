//! Signals as in the contract: who may go on, who is let in no more, and the exit code.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use support::backend::Backend;
use support::client::{Ending, ask, connect, is_refused, read_end, read_text};
use support::daemon::{Daemon, Setup};
use support::wait_until;

/// A balancer over an echo backend, with one connection that is in use.
fn in_use(setup: impl Fn(Setup) -> Setup) -> (Daemon, TcpStream, Backend) {
    let backend = Backend::echo();
    let mut daemon = setup(Setup::new(&[backend.address])).start();
    let mut client = connect(daemon.address());
    echo(&mut client);
    (daemon, client, backend)
}

fn echo(client: &mut TcpStream) {
    client.write_all(b"still there?").unwrap();
    assert_eq!(read_text(client, 12), "still there?");
}

/// Looks only once the log has told it: an earlier connect would be one more live connection.
fn wait_for_refusal(daemon: &mut Daemon) {
    daemon.line("no longer accepting");
    let address = daemon.address();
    wait_until("new connects are refused", || is_refused(address));
}

#[test]
fn term_refuses_new_clients_and_lets_live_ones_finish() {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut daemon, mut client, _backend) = in_use(|setup| setup);
        daemon.signal(signal);
        wait_for_refusal(&mut daemon);
        for _ in 0..3 {
            echo(&mut client);
        }
        assert!(daemon.is_running());
        drop(client);
        assert_eq!(daemon.exit_code(), Some(0), "{signal:?}");
        assert_eq!(daemon.count("no longer accepting, 1 connections left"), 1);
    }
}

#[test]
fn with_none_left_it_ends_at_once() {
    // Were the drain deadline awaited, patience would end first.
    let backend = Backend::named("a");
    let mut daemon = Setup::new(&[backend.address])
        .global("drain_deadline = \"1h\"")
        .health("type = \"tcp\"")
        .start();
    assert_eq!(ask(daemon.address(), ""), "a");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
}

#[test]
fn the_drain_deadline_cuts_and_says_so() {
    let (mut daemon, mut client, _backend) =
        in_use(|setup| setup.global("drain_deadline = \"300ms\"\naccess_log = \"close\""));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(5));
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Reset), "cut does not look complete");
    assert_eq!(daemon.count("1 connections were cut"), 1);
    assert_eq!(daemon.count("reason=\"cut by shutdown\""), 1);
}

#[test]
fn without_a_deadline_live_connections_are_never_cut() {
    let (mut daemon, mut client, _backend) =
        in_use(|setup| setup.global("drain_deadline = \"0s\""));
    daemon.signal(Signal::TERM);
    // The second note comes after a while in which a deadline of nothing would have cut.
    daemon.lines(1, "draining: 1 connections left");
    echo(&mut client);
    drop(client);
    assert_eq!(daemon.exit_code(), Some(0));
}

#[test]
fn those_left_are_named_while_draining() {
    let (mut daemon, client, _backend) = in_use(|setup| setup.global("drain_deadline = \"1h\""));
    let peer = client.local_addr().unwrap();
    daemon.signal(Signal::TERM);
    daemon.line("draining: 1 connections left, to be cut in 35");
    daemon.line(&format!("draining: connection 1 from {peer} is "));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for second in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let (mut daemon, mut client, _backend) =
            in_use(|setup| setup.global("drain_deadline = \"0s\""));
        daemon.signal(Signal::TERM);
        daemon.line("no longer accepting");
        daemon.signal(second);
        assert_eq!(daemon.exit_code(), Some(5), "{second:?} cut one connection");
        assert_eq!(read_end(&mut client).1, Ending::Reset);
    }
}

#[test]
fn quit_ends_it_at_once() {
    let (mut daemon, mut client, _backend) = in_use(|setup| setup);
    daemon.signal(Signal::QUIT);
    assert_eq!(daemon.exit_code(), Some(5), "one connection was cut");
    assert_eq!(read_end(&mut client).1, Ending::Reset);
    assert!(is_refused(daemon.address()));
}

#[test]
fn quit_with_nothing_to_cut_is_a_success() {
    let backend = Backend::named("a");
    let mut daemon = Setup::new(&[backend.address]).start();
    daemon.signal(Signal::QUIT);
    assert_eq!(daemon.exit_code(), Some(0));
}

#[test]
fn usr1_writes_the_status_and_changes_nothing() {
    let (mut daemon, mut client, backend) = in_use(|setup| setup);
    let status = daemon.status().join("\n");
    assert!(status.contains("status: 1 connections (at most "), "{status}");
    assert!(status.contains("status: listener web -> pool web: 1 active"), "{status}");
    let name =
        format!("status: web/{}: up, weight 1, 1 active, 1 total, 0 failed", backend.address);
    assert!(status.contains(&name), "{status}");
    echo(&mut client);
    drop(client);
    wait_until("the status tells the end", || {
        let status = daemon.status().join("\n");
        status.contains("status: 0 connections")
            && status.contains("24 bytes received, 24 bytes sent")
    });
}

#[test]
fn hup_over_an_unchanged_file_changes_nothing_and_says_so() {
    let (mut daemon, mut client, _backend) = in_use(|setup| setup);
    daemon.signal(Signal::HUP);
    daemon.line("Reload: nothing has changed");
    echo(&mut client);
    echo(&mut connect(daemon.address()));
}

#[test]
fn usr2_and_pipe_do_no_harm() {
    let (mut daemon, mut client, _backend) = in_use(|setup| setup);
    daemon.signal(Signal::PIPE);
    daemon.signal(Signal::USR2);
    daemon.line("SIGUSR2 is reserved");
    echo(&mut client);
    assert!(daemon.is_running());
}

/// A signal between two halves of a transfer takes nothing away.
#[test]
fn bytes_under_way_when_the_signal_comes_arrive() {
    let (backend, guests) = Backend::handing_over();
    let mut daemon = Setup::new(&[backend.address]).start();
    let mut client = connect(daemon.address());
    let mut server = guests.next();
    server.write_all(b"first half, ").unwrap();
    daemon.signal(Signal::TERM);
    wait_for_refusal(&mut daemon);
    server.write_all(b"second half").unwrap();
    drop(server);
    assert_eq!(read_end(&mut client), (b"first half, second half".to_vec(), Ending::Orderly));
    drop(client);
    assert_eq!(daemon.exit_code(), Some(0));
}

#[test]
fn a_test_backend_drains_too() {
    let mut daemon = Daemon::backend(&["--name", "b"]);
    let mut client = connect(daemon.address());
    client.write_all(b"x\n").unwrap();
    assert_eq!(read_text(&mut client, 6), "[b] x\n");
    daemon.signal(Signal::TERM);
    wait_for_refusal(&mut daemon);
    client.write_all(b"y\n").unwrap();
    assert_eq!(read_text(&mut client, 6), "[b] y\n");
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(daemon.exit_code(), Some(0));
}
