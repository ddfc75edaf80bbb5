//! The log: text or JSON, access lines, and a reader that stalls or goes away.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde_json::Value;
use support::backend::Backend;
use support::client::{ask, connect, read_end, read_text, reset};
use support::daemon::{Daemon, QUICK_HEALTH, Setup, config_file, program};
use support::ports::Port;
use support::{wait_for, wait_until};

fn access_log(backend: &Backend) -> Setup {
    Setup::new(&[backend.address]).global("access_log = \"close\"")
}

#[test]
fn an_access_line_tells_who_where_how_much_and_why() {
    let backend = Backend::named("hello ");
    let mut daemon = access_log(&backend).start();
    let mut client = connect(daemon.address());
    let peer = client.local_addr().unwrap();
    client.write_all(b"world").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    read_end(&mut client);
    let line = daemon.line("connection ended");
    let expected = format!(
        "INFO  connection ended id=1 client={peer} listener=web pool=web backend={} received=5 \
         sent=11 duration_ms=",
        backend.address
    );
    assert!(line.contains(&expected), "{line}");
    assert!(line.ends_with(" reason=\"client closed\""), "{line}");
    ask(daemon.address(), "");
    daemon.line("connection ended id=2 ");
}

#[test]
fn why_a_connection_ended_is_said_in_words() {
    let (backend, guests) = Backend::handing_over();
    let mut daemon = access_log(&backend).listener("idle_timeout = \"1s\"").start();
    let address = daemon.address();
    let ended = |daemon: &mut Daemon, id: usize, reason: &str| {
        daemon.line_with(&[&format!("ended id={id} "), &format!("reason=\"{reason}\"")]);
    };
    let (client, server) = (connect(address), guests.next());
    drop(client);
    drop(server);
    ended(&mut daemon, 1, "client closed");
    let (mut client, server) = (connect(address), guests.next());
    drop(server);
    read_end(&mut client);
    drop(client);
    ended(&mut daemon, 2, "backend closed");
    let (mut client, mut server) = (connect(address), guests.next());
    server.write_all(b"x").unwrap();
    assert_eq!(read_text(&mut client, 1), "x");
    reset(client);
    ended(&mut daemon, 3, "client reset the connection");
    let (mut client, mut server) = (connect(address), guests.next());
    server.write_all(b"x").unwrap();
    assert_eq!(read_text(&mut client, 1), "x");
    reset(server);
    ended(&mut daemon, 4, "backend reset the connection");
    let (_client, _server) = (connect(address), guests.next());
    ended(&mut daemon, 5, "idle timeout");
}

#[test]
fn a_client_for_whom_nobody_was_there_gets_a_line_too() {
    let dead = Port::reserve();
    let mut daemon = Setup::new(&[dead.address]).global("access_log = \"close\"").start();
    read_end(&mut connect(daemon.address()));
    daemon.line_with(&["ended id=1 ", "backend=-", "reason=\"no backend could be connected\""]);
}

#[test]
fn both_tells_beginning_and_end_and_off_tells_nothing() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).global("access_log = \"both\"").start();
    let mut client = connect(daemon.address());
    daemon.line_with(&["connection opened id=1 ", &format!("backend={}", backend.address)]);
    client.write_all(b"x").unwrap();
    assert_eq!(read_text(&mut client, 1), "x");
    assert_eq!(daemon.count("connection ended"), 0);
    drop(client);
    daemon.line("connection ended id=1 ");
    let mut silent = Setup::new(&[backend.address]).start();
    ask(silent.address(), "x");
    silent.status();
    assert_eq!(silent.count("connection "), 0);
}

#[test]
fn the_option_switches_access_lines_on() {
    let backend = Backend::echo();
    let address = backend.address.to_string();
    let mut daemon = Daemon::start(&["run", "-l", "127.0.0.1:0", "--access-log", &address]);
    ask(daemon.address(), "x");
    daemon.line("connection ended");
}

#[test]
fn every_line_of_a_json_log_is_an_object() {
    let dead = Port::reserve();
    let backend = Backend::named("a");
    let setup = Setup::new(&[backend.address, dead.address])
        .health(QUICK_HEALTH)
        .global("access_log = \"both\"\nlog_format = \"json\"");
    let mut daemon = setup.start();
    ask(daemon.address(), "x");
    daemon.status();
    daemon.line("connection ended");
    daemon.line("is down");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
    let lines: Vec<Value> =
        daemon.log().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 8, "{lines:?}");
    for line in &lines {
        for key in ["time", "level", "target", "message"] {
            assert!(line[key].is_string(), "{key} in {line}");
        }
    }
    let warning = lines[0]["message"].as_str().unwrap();
    assert!(warning.contains("longer than `interval`"), "of the file, an object too: {warning}");
    let ended = lines.iter().find(|line| line["message"] == "connection ended").unwrap();
    assert_eq!((ended["id"].as_u64(), ended["received"].as_u64()), (Some(1), Some(1)));
    assert_eq!(
        (ended["sent"].as_u64(), ended["reason"].as_str()),
        (Some(2), Some("client closed"))
    );
    assert_eq!(ended["backend"], backend.address.to_string());
    assert!(ended["duration_ms"].is_u64());
}

#[test]
fn the_format_can_be_chosen_on_the_command_line() {
    let arguments = ["run", "-l", "127.0.0.1:0", "--log-format", "json", "127.0.0.1:1"];
    let mut daemon = Daemon::start(&arguments);
    for line in daemon.log() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    assert!(daemon.count("listening on 127.0.0.1:") == 1);
}

/// A balancer whose start-up lines may be missing: it listens on a path, which appears.
fn quiet(folder: &Path, filter: Option<&str>, arguments: &[&str]) -> Daemon {
    let socket = folder.join("front");
    let mut command = program();
    if let Some(filter) = filter {
        command.env("RUST_LOG", filter);
    }
    command.args(["run", "-l", &format!("unix:{}", socket.display())]).args(arguments);
    let daemon = Daemon::spawn(command);
    wait_until("it listens", || socket.exists());
    daemon
}

#[test]
fn rust_log_holds_over_everything() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Port::reserve().address.to_string();
    let mut daemon = quiet(folder.path(), Some("warn"), &["-v", &dead]);
    daemon.line("No available backends");
    assert_eq!(daemon.count("listening on") + daemon.count("is down"), 0, "info is left out");
    std::fs::remove_file(folder.path().join("front")).unwrap();
    let mut daemon = quiet(folder.path(), Some("debug"), &["-q", &dead]);
    daemon.line("DEBUG Health check FAILED");
    daemon.line("listening on");
}

#[test]
fn the_level_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Port::reserve().address.to_string();
    let mut daemon = quiet(folder.path(), None, &["-q", &dead]);
    daemon.line("No available backends");
    assert_eq!(daemon.count("INFO"), 0);
    std::fs::remove_file(folder.path().join("front")).unwrap();
    let mut daemon = quiet(folder.path(), None, &["-v", &dead]);
    daemon.line("DEBUG Health check FAILED");
}

/// A balancer whose log goes through a pipe of 4 KiB. The reader is the test's to use or not.
struct Stalled {
    child: Child,
    log: BufReader<std::io::PipeReader>,
    address: std::net::SocketAddr,
}

impl Stalled {
    fn new(backend: &Backend) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
        let file = config_file(&access_log(backend).text());
        let mut command = program();
        command.args(["run", "-c"]).arg(file.path()).stderr(Stdio::from(writer));
        let child = command.spawn().unwrap();
        drop(command);
        let mut log = BufReader::new(reader);
        let line = next_line(&mut log);
        let (_, rest) = line.split_once("listening on ").unwrap();
        let address = rest.split(' ').next().unwrap().parse().unwrap();
        Self { child, log, address }
    }
}

/// The next line, which must come within patience.
fn next_line(log: &mut BufReader<std::io::PipeReader>) -> String {
    if !log.buffer().contains(&b'\n') {
        let wait = Timespec { tv_sec: 30, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(log.get_ref(), PollFlags::IN)], Some(&wait));
        assert_eq!(ready, Ok(1), "a line in the log");
    }
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    line
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_client_and_tells_what_it_lost() {
    const CLIENTS: u64 = 200;
    let backend = Backend::named("a");
    let mut stalled = Stalled::new(&backend);
    for _ in 0..CLIENTS {
        assert_eq!(ask(stalled.address, ""), "a");
    }
    // Now it is read again. What was lost is told before the next line.
    let (mut told, mut dropped) = (0, 0);
    while dropped < CLIENTS / 2 {
        assert_eq!(ask(stalled.address, ""), "a");
        let line = next_line(&mut stalled.log);
        assert!(line.ends_with('\n'), "no line is cut: {line}");
        match line.split_once(" log lines were dropped") {
            Some((count, _)) => dropped += count.parse::<u64>().unwrap(),
            None => told += 1,
        }
        assert!(told < 10 * CLIENTS, "no note about what was lost");
    }
    // Everything was told or counted, the line about the limits and one for each connection: so the
    // line after the note has the number of all before it.
    let line = next_line(&mut stalled.log);
    let all = told + dropped;
    assert!(line.contains(&format!("ended id={all} ")), "{told} told, {dropped} dropped: {line}");
}

#[test]
fn a_log_reader_that_goes_away_is_no_reason_to_end() {
    let backend = Backend::named("a");
    let mut stalled = Stalled::new(&backend);
    let (reader, _writer) = std::io::pipe().unwrap();
    drop(std::mem::replace(&mut stalled.log, BufReader::new(reader)));
    for _ in 0..50 {
        assert_eq!(ask(stalled.address, ""), "a");
    }
    let ended = wait_for("an answer about the process", || stalled.child.try_wait().ok());
    assert_eq!(ended, None, "it still runs");
}
