//! Faults that were found once, each under the name of what went wrong.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};

use support::backend::Backend;
use support::client::{connect, patient, read_text};
use support::daemon::{Daemon, Setup, config_file, program};

/// Turns of the loop so far, from the status.
fn turns(daemon: &mut Daemon) -> u64 {
    let status = daemon.status();
    let line = status.iter().find(|line| line.contains(" turns")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    words[words.len() - 2].parse().unwrap()
}

/// The timers of probes and names went on counting although nobody looked at them any more.
#[test]
fn draining_with_probes_and_names_kept_the_loop_awake() {
    let backend = Backend::echo();
    let name = format!("\"localhost:{}\", \"{}\"", backend.address.port(), backend.address);
    let mut daemon = Setup::listing(&name).health("interval = \"50ms\"").start();
    let address = daemon.address();
    let _held = connect(address);
    daemon.lines(2, " is up ");
    daemon.signal(Signal::TERM);
    daemon.line("no longer accepting");
    let before = turns(&mut daemon);
    daemon.line("draining: 1 connections left");
    assert!(turns(&mut daemon) - before < 200, "it woke without need");
}

/// The end of a pause stayed in the list of deadlines when the listener had become full meanwhile.
#[test]
fn a_pause_that_ended_at_a_full_listener_kept_the_loop_awake() {
    let backend = Backend::echo();
    let setup = Setup::new(&[backend.address])
        .listener("max_connections = 1")
        .health("interval = \"50ms\"");
    let file = config_file(&setup.text());
    let mut command = program();
    command.args(["run", "-v", "-c"]).arg(file.path());
    let mut daemon = Daemon::spawn(command).ready();
    let address = daemon.address();
    daemon.line("is up");
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(0), maximum: limit.maximum };
    prlimit(Some(daemon.pid()), Resource::Nofile, none).unwrap();
    let mut served = connect(address);
    daemon.line("connections are open; clients wait");
    let _waiting = connect(address);
    prlimit(Some(daemon.pid()), Resource::Nofile, limit).unwrap();
    served.write_all(b"hello").unwrap();
    assert_eq!(read_text(&mut served, 5), "hello");
    let before = turns(&mut daemon);
    let seen = daemon.count("Health check OK");
    daemon.lines(seen + 20, "Health check OK");
    assert!(turns(&mut daemon) - before < 400, "it woke without need");
}

/// A read from a unix socket stops short behind a message that carries descriptors; what came
/// after it was not looked for.
#[test]
fn bytes_behind_a_message_with_descriptors_were_left_lying() {
    let backend = Backend::echo();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("front.sock");
    let address = backend.address.to_string();
    let listen = format!("unix:{}", path.display());
    let daemon = Daemon::start(&["run", "-l", &listen, &address]).ready();
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    client.write_all(b"hello ").unwrap();
    assert_eq!(read_text(&mut client, 6), "hello ");
    daemon.signal(Signal::STOP);
    let own = client.try_clone().unwrap();
    let descriptors = [own.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let parts = [IoSlice::new(b"first ")];
    sendmsg(&client, &parts, &mut ancillary, SendFlags::empty()).unwrap();
    client.write_all(b"second").unwrap();
    daemon.signal(Signal::CONT);
    assert_eq!(read_text(&mut client, 12), "first second");
}

/// A backend that reset a connection before a byte went either way lost its client.
#[test]
fn a_backend_that_resets_at_once_cost_a_client() {
    let bad = Backend::new(support::client::reset);
    let good = Backend::named("good");
    let mut daemon = Setup::new(&[bad.address, good.address]).health("type = \"none\"").start();
    let address = daemon.address();
    for _ in 0..20 {
        let mut client = connect(address);
        patient(&client);
        assert_eq!(read_text(&mut client, 4), "good");
    }
}
