//! The demo: what it prints works, a backend leaves and rejoins, and nothing stays behind.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper fails the test that called it")]

mod support;

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use support::client::{ask, is_refused};
use support::daemon::{Daemon, program};
use support::ports::Port;
use support::{wait_for, wait_until};

/// A demo on free ports, and what it printed.
struct Demo {
    daemon: Daemon,
    first: u16,
    printed: String,
}

impl Demo {
    /// Three ports in a row that were free a moment ago; if one is taken meanwhile, three others.
    fn start() -> Self {
        for _ in 0..20 {
            let first = three_free_ports();
            let out = tempfile::tempfile().unwrap();
            let mut command = program();
            command.args(["demo", "--listen", "127.0.0.1:0", "--backend-port", &first.to_string()]);
            command.args(["--admin", "127.0.0.1:0"]);
            command.stdout(out.try_clone().unwrap());
            let mut daemon = Daemon::spawn(command);
            let started = wait_for("the demo to start or to fail", || {
                if daemon.count("at most ") > 0 {
                    return Some(true);
                }
                (!daemon.is_running()).then_some(false)
            });
            if started {
                let printed = wait_for("the lines to try", || {
                    let text = contents(&out);
                    text.contains("Ctrl-C ends it").then_some(text)
                });
                return Self { daemon, first, printed };
            }
        }
        panic!("no three free ports in a row");
    }

    /// The process of one of the backends, as printed.
    fn process(&self, number: u16) -> Pid {
        let mark = format!("127.0.0.1:{} (process ", self.first + number);
        let (_, rest) = self.printed.split_once(&mark).unwrap();
        Pid::from_raw(rest.split(')').next().unwrap().parse().unwrap()).unwrap()
    }
}

fn contents(file: &File) -> String {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; 4096];
    let count = file.read_at(&mut bytes, 0).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn three_free_ports() -> u16 {
    wait_for("three free ports in a row", || {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let free = |offset| TcpListener::bind(("127.0.0.1", port.checked_add(offset)?)).ok();
        let others = (free(1)?, free(2)?);
        drop(others);
        Some(port)
    })
}

fn is_gone(process: Pid) -> bool {
    !Path::new(&format!("/proc/{process}")).exists()
}

#[test]
fn four_requests_are_answered_in_turn() {
    let mut demo = Demo::start();
    let front = demo.daemon.address();
    for (request, offset) in [(1, 0), (2, 1), (3, 2), (4, 0)] {
        let answer = ask(front, &format!("request {request}\n"));
        assert_eq!(answer, format!("[backend:{}] request {request}\n", demo.first + offset));
    }
    let line = format!("echo \"request $i\" | nc -N 127.0.0.1 {}; done", front.port());
    assert!(demo.printed.contains(&line), "{}", demo.printed);
    let admin = demo.daemon.address_of("(admin)");
    let line = format!("  http://{admin}/    # the dashboard, for a browser\n");
    assert!(demo.printed.contains(&line), "{}", demo.printed);
}

#[test]
fn a_backend_leaves_and_rejoins_and_the_log_tells_it() {
    let mut demo = Demo::start();
    demo.daemon.lines(3, "is up");
    kill_process(demo.process(1), Signal::TERM).unwrap();
    let port = demo.first + 1;
    demo.daemon
        .line(&format!("Health check FAILED: web/127.0.0.1:{port} (connection refused) is down"));
    let front = demo.daemon.address();
    for _ in 0..4 {
        assert!(!ask(front, "x\n").contains(&port.to_string()));
    }
    let _again = Daemon::start(&["backend", "--port", &port.to_string()]);
    demo.daemon.lines(4, "is up");
    wait_until("it is served by again", || ask(front, "x\n") == format!("[backend:{port}] x\n"));
}

#[test]
fn an_interrupt_ends_it_and_its_backends() {
    let mut demo = Demo::start();
    let processes = [0, 1, 2].map(|number| demo.process(number));
    let front = demo.daemon.address();
    assert!(!processes.iter().any(|process| is_gone(*process)));
    demo.daemon.signal(Signal::INT);
    assert_eq!(demo.daemon.exit_code(), Some(0));
    assert!(processes.iter().all(|process| is_gone(*process)), "no child is left");
    assert!(is_refused(front));
}

#[test]
fn backends_do_not_outlive_a_demo_that_was_killed() {
    let mut demo = Demo::start();
    let backends = [0, 1, 2].map(|number| ([127, 0, 0, 1], demo.first + number).into());
    demo.daemon.kill();
    wait_until("the backends end too", || backends.iter().all(|address| is_refused(*address)));
}

#[test]
fn a_port_that_is_taken_names_the_option_that_changes_it() {
    let taken = Port::reserve();
    let _listener = taken.listen();
    let port = taken.address.port().min(65533);
    let mut command = program();
    command.args(["demo", "--listen", "127.0.0.1:0", "--backend-port", &port.to_string()]);
    let mut daemon = Daemon::spawn(command);
    assert_eq!(daemon.exit_code(), Some(4));
    daemon.line_with(&[&format!("127.0.0.1:{port}"), "in use", "--backend-port"]);
    let mut command = program();
    let first = three_free_ports().to_string();
    command.args(["demo", "--listen", &taken.address.to_string(), "--backend-port", &first]);
    let mut daemon = Daemon::spawn(command);
    assert_eq!(daemon.exit_code(), Some(4));
    daemon.line_with(&[&taken.address.to_string(), "in use", "--listen"]);
}
