//! Faults that were found once, each under the name of what went wrong.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};

use support::backend::Backend;
use support::client::{Ending, connect, patient, read_end, read_text};
use support::daemon::{Daemon, QUICK_HEALTH, Setup, config_file, program};
use support::noise::{Digest, Noise};
use support::{wait_for, wait_until};

/// Turns of the loop so far, from the status.
fn turns(daemon: &mut Daemon) -> u64 {
    let status = daemon.status();
    let line = status.iter().find(|line| line.contains(" turns")).unwrap();
    let (before, _) = line.split_once(" turns").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
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

/// The end of a pause stayed in the list of deadlines when the limit had been reached meanwhile.
#[test]
fn a_pause_that_ended_at_the_limit_kept_the_loop_awake() {
    // The pause is short, and on a slow machine it may end before the limit is reached.
    assert!((0..20).any(|_| limit_is_reached_in_a_pause()), "never in time");
}

/// False if the client for whom there was no descriptor was let in before the limit was reached.
fn limit_is_reached_in_a_pause() -> bool {
    let backend = Backend::echo();
    let setup = Setup::new(&[backend.address])
        .listener("bind = [\"127.0.0.1:0\", \"[::1]:0\"]\nmax_connections = 2")
        .health("interval = \"50ms\"");
    let file = config_file(&setup.text());
    let mut command = program();
    command.args(["run", "-v", "-c"]).arg(file.path());
    let mut daemon = Daemon::spawn(command).ready();
    let (paused, open) = (daemon.address_of("on 127.0.0.1:"), daemon.address_of("on [::1]:"));
    daemon.line("is up");
    let mut first = connect(open);
    first.write_all(b"a").unwrap();
    assert_eq!(read_text(&mut first, 1), "a");

    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(0), maximum: limit.maximum };
    prlimit(Some(daemon.pid()), Resource::Nofile, none).unwrap();
    let waiting = connect(paused);
    daemon.line("connections are open; clients wait");
    prlimit(Some(daemon.pid()), Resource::Nofile, limit).unwrap();
    let second = connect(open);
    for mut client in [&second, &waiting] {
        client.write_all(b"b").unwrap();
        client.set_nonblocking(true).unwrap();
    }
    let served = |mut client: &TcpStream| client.read(&mut [0; 1]).is_ok_and(|count| count == 1);
    let in_time = wait_for("one of two", || match (served(&second), served(&waiting)) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    });
    let before = turns(&mut daemon);
    let seen = daemon.count("Health check OK");
    daemon.lines(seen + 30, "Health check OK");
    assert!(!in_time || turns(&mut daemon) - before < 400, "it woke without need");
    in_time
}

/// A read from a unix socket stops short behind a message that carries descriptors; what came
/// after it was not looked for.
#[test]
fn bytes_behind_a_message_with_descriptors_were_left_lying() {
    // The answer comes last: any byte that the client reads would have woken the loop.
    let backend = Backend::new(|mut guest| {
        let all = read_text(&mut guest, 12);
        guest.write_all(all.as_bytes()).unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("front.sock");
    let bind = format!("bind = [\"unix:{}\"]", path.display());
    let daemon = Setup::new(&[backend.address]).listener(&bind).start();
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    wait_until("a connection to the backend", || backend.accepted() == 1);
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

/// Every connect that succeeded, and every probe, pardoned a backend that reset what it had taken.
#[test]
fn a_backend_that_resets_at_once_was_ejected_again_and_again() {
    let bad = Backend::new(support::client::reset);
    let good = Backend::named("good");
    let setup = Setup::new(&[bad.address, good.address]).health(QUICK_HEALTH);
    let mut daemon = setup.start();
    daemon.lines(2, "is up");
    let address = daemon.address();
    let ask = || assert_eq!(read_text(&mut connect(address), 4), "good");
    let crowd = || {
        std::thread::scope(|scope| {
            (0..16).for_each(|_| drop(scope.spawn(|| (0..30).for_each(|_| ask()))));
        });
    };
    crowd();
    daemon.line(&format!("web/{} is ejected for 10 s (connected, but it resets", bad.address));
    let before = bad.accepted();
    wait_until("probes that pass", || bad.accepted() > before + 3);
    crowd();
    // More than once only if its time was over meanwhile.
    let (told, over) = (daemon.count("is ejected"), daemon.count("(its time is over)"));
    assert_eq!((told, daemon.count("no longer ejected")), (1 + over, over));
}

/// A backend that reset a client's connection at once gave it all its time in line anew.
#[test]
fn who_came_back_into_the_line_was_held_for_longer_than_allowed() {
    let bad = Backend::new(support::client::reset);
    let keys = "on_unavailable = \"hold\"\nhold_timeout = \"1s\"\nqueue_timeout = \"0s\"";
    let setup = Setup::new(&[bad.address]).pool(keys).health("type = \"none\"");
    let mut daemon = setup.start();
    let mut client = connect(daemon.address());
    let (_, ending) = read_end(&mut client);
    assert_eq!(ending, Ending::Orderly);
    daemon.line("no available backend in time");
}

/// A signal in the middle of a splice looked like a full send queue, and the stream stood still.
#[test]
fn signals_during_bulk_transfers_stalled_a_stream() {
    const LENGTH: usize = 96 << 20;
    let backend = Backend::new(|mut guest| {
        Noise::new(7).pour(LENGTH, &mut guest);
    });
    let mut daemon = Setup::new(&[backend.address]).start();
    let mut client = connect(daemon.address());
    patient(&client);
    let reader = std::thread::spawn(move || Digest::drain(&mut client));
    while !reader.is_finished() {
        daemon.signal(Signal::USR1);
        daemon.log();
    }
    let expected = Noise::new(7).pour(LENGTH, &mut std::io::sink());
    assert!(reader.join().unwrap() == expected, "other bytes arrived");
}

/// A listener on a path that was taken by an ordinary file replaced the file.
#[test]
fn a_file_that_is_no_socket_was_replaced_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "words").unwrap();
    let mut command = program();
    command.args(["run", "-l", &format!("unix:{}", path.display()), "127.0.0.1:9"]);
    let mut daemon = Daemon::spawn(command);
    assert_eq!(daemon.exit_code(), Some(4));
    daemon.line("is no socket");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "words");
}

/// A process that ended took the socket away that another one had put in its place.
#[test]
fn ending_removed_the_socket_of_another_process() {
    let backend = Backend::echo();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("front.sock");
    let setup =
        Setup::new(&[backend.address]).listener(&format!("bind = [\"unix:{}\"]", path.display()));
    let mut first = setup.start();
    std::fs::remove_file(&path).unwrap();
    let mut second = setup.start();
    first.signal(Signal::TERM);
    assert_eq!(first.exit_code(), Some(0));
    UnixStream::connect(&path).unwrap();
    second.signal(Signal::TERM);
    assert_eq!(second.exit_code(), Some(0));
    assert!(!path.exists(), "its own socket is removed");
}

/// Clients whose connect had succeeded were reset when a shutdown came before their accept.
#[test]
fn a_shutdown_reset_clients_that_were_not_yet_accepted() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).start();
    let address = daemon.address();
    daemon.signal(Signal::STOP);
    let mut clients: Vec<TcpStream> = (0..5).map(|_| connect(address)).collect();
    daemon.signal(Signal::TERM);
    daemon.signal(Signal::CONT);
    for client in &mut clients {
        client.write_all(b"hello").unwrap();
        assert_eq!(read_text(client, 5), "hello");
    }
    drop(clients);
    assert_eq!(daemon.exit_code(), Some(0));
}

/// A client that reset while its backend was being connected kept its place for five seconds.
#[test]
fn a_client_that_reset_during_a_connect_was_kept() {
    let hole = support::ports::BlackHole::new();
    let mut daemon = Setup::new(&[hole.address]).pool("connect_timeout = \"1h\"").start();
    let client = connect(daemon.address());
    wait_until("the client is inside", || {
        daemon.status().iter().any(|line| line.contains("1 active"))
    });
    support::client::reset(client);
    wait_until("its place is free", || {
        daemon.status().iter().any(|line| line.contains("status: 0 connections"))
    });
    daemon.signal(Signal::TERM);
    daemon.line("no longer accepting, 0 connections left");
    assert_eq!(daemon.exit_code(), Some(0));
}

/// A log file at the size limit of its user ended the process.
#[test]
fn a_full_log_file_ended_the_process() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).start();
    let address = daemon.address();
    daemon.signal(Signal::XFSZ);
    assert_eq!(support::client::ask(address, "still here"), "still here");
    assert!(daemon.is_running());
}

/// A reset that came long after the connect was held against the backend when idle connections may
/// last for ever, and its client was sent to another one.
#[test]
fn a_late_reset_counted_as_a_failed_connect() {
    let backend = Backend::new(|guest| {
        guest.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
        let _ = (&guest).read(&mut [0; 1]);
        support::client::reset(guest);
    });
    let mut daemon = Setup::new(&[backend.address]).listener("idle_timeout = \"0s\"").start();
    let mut client = connect(daemon.address());
    patient(&client);
    client.read(&mut [0; 1]).unwrap_err();
    assert!(daemon.status().iter().any(|line| line.contains("1 total, 0 failed")));
}

/// The timer of an answer that had waited its time went on firing until the next request.
#[test]
fn a_delayed_answer_left_the_loop_awake() {
    let mut daemon = Daemon::backend(&["--delay", "1ms"]);
    let mut client = connect(daemon.address());
    client.write_all(b"hello\n").unwrap();
    while read_text(&mut client, 1) != "\n" {}
    let before = turns(&mut daemon);
    let passed = turns(&mut daemon) - before;
    assert!(passed < 50, "{passed} turns without a reason");
}
