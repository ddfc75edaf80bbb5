//! What a service manager hears over NOTIFY_SOCKET, played with a datagram socket of the test.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Read;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::process::Signal;
use support::PATIENCE;
use support::backend::Backend;
use support::daemon::{Daemon, Setup, config_file, program};

/// The manager's end.
struct Manager(UnixDatagram);

impl Manager {
    fn new(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    /// The next message, as lines.
    fn next(&self) -> Vec<String> {
        let mut space = [0; 1000];
        let length = self.0.recv(&mut space).unwrap();
        let text = String::from_utf8(space[..length].to_vec()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// The next one that is not from the watchdog.
    fn next_but_watchdog(&self) -> Vec<String> {
        let mut message = self.next();
        while message == ["WATCHDOG=1"] {
            message = self.next();
        }
        message
    }
}

fn started(backend: &Backend, socket: &str, watchdog: Option<&str>) -> Daemon {
    let file = config_file(&Setup::new(&[backend.address]).text());
    let mut command = program();
    command.args(["run", "-c"]).arg(file.path()).env("NOTIFY_SOCKET", socket);
    command.env_remove("WATCHDOG_PID");
    if let Some(micros) = watchdog {
        command.env("WATCHDOG_USEC", micros);
    }
    let daemon = Daemon::spawn(command).ready();
    drop(file);
    daemon
}

#[test]
fn it_is_ready_once_it_listens_and_says_when_it_stops() {
    let (backend, folder) = (Backend::echo(), tempfile::tempdir().unwrap());
    let path = folder.path().join("notify.sock");
    let manager = Manager::new(UnixDatagram::bind(&path).unwrap());
    let mut daemon = started(&backend, path.to_str().unwrap(), None);
    let pid = daemon.pid().as_raw_nonzero();
    let expected = [
        "READY=1".to_owned(),
        format!("MAINPID={pid}"),
        "STATUS=serving 1 listeners, 1 backends".into(),
    ];
    assert_eq!(manager.next(), expected);
    let mut client = TcpStream::connect(daemon.address()).unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(manager.next(), ["STOPPING=1"]);
    let draining = manager.next();
    assert_eq!(draining[0], "EXTEND_TIMEOUT_USEC=20000000");
    assert!(draining[1].starts_with("STATUS=draining, "), "{draining:?}");
    client.shutdown(std::net::Shutdown::Write).unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(daemon.exit_code(), Some(0));
}

#[test]
fn the_loop_itself_feeds_the_watchdog() {
    let backend = Backend::echo();
    let name = format!("evenkeel-watched-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
    let manager = Manager::new(UnixDatagram::bind_addr(&address).unwrap());
    let mut daemon = started(&backend, &format!("@{name}"), Some("20000"));
    assert_eq!(manager.next()[0], "READY=1");
    for _ in 0..10 {
        assert_eq!(manager.next(), ["WATCHDOG=1"]);
    }
    daemon.signal(Signal::TERM);
    assert_eq!(manager.next_but_watchdog(), ["STOPPING=1"]);
    assert_eq!(daemon.exit_code(), Some(0));
}

#[test]
fn a_reload_has_a_begin_and_an_end() {
    let (backend, folder) = (Backend::echo(), tempfile::tempdir().unwrap());
    let path = folder.path().join("notify.sock");
    let manager = Manager::new(UnixDatagram::bind(&path).unwrap());
    let daemon = started(&backend, path.to_str().unwrap(), None);
    let ready = manager.next();
    let mut last = 0;
    for _ in 0..2 {
        daemon.signal(Signal::HUP);
        let reloading = manager.next();
        assert_eq!(reloading[0], "RELOADING=1");
        let time = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse::<u64>().unwrap();
        assert!(time > last, "each has a time of its own: {time} after {last}");
        assert_eq!(manager.next(), ready);
        last = time;
    }
}

#[test]
fn a_manager_that_cannot_be_reached_is_told_of_once_and_is_no_obstacle() {
    let backend = Backend::echo();
    let mut daemon = started(&backend, "/nowhere/notify.sock", Some("20000"));
    daemon.line("the service manager does not hear this process");
    assert_eq!(support::client::ask(daemon.address(), "ping"), "ping");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
    assert_eq!(daemon.count("the service manager"), 1);
}
