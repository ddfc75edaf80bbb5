//! Names: resolved while it runs, and never a reason not to start.

mod support;

use support::backend::Backend;
use support::client::{Ending, ask, connect, read_end};
use support::daemon::{Daemon, Setup};

fn localhost(backend: &Backend) -> String {
    format!("localhost:{}", backend.address.port())
}

#[test]
fn localhost_is_found() {
    let backend = Backend::named("a");
    let mut daemon = Daemon::start(&["run", "-l", "127.0.0.1:0", &localhost(&backend)]);
    assert_eq!(ask(daemon.address(), "!"), "a!");
    let status = daemon.status().join("\n");
    let called = format!("/{}: ", localhost(&backend));
    assert!(status.contains(&called), "it is called what it was called: {status}");
}

#[test]
fn the_first_client_waits_for_the_first_answer() {
    // Were it let in before, it would be told that there is no backend.
    for _ in 0..20 {
        let backend = Backend::named("a");
        let mut daemon = Setup::listing(&format!("\"{}\"", localhost(&backend))).start();
        assert_eq!(ask(daemon.address(), ""), "a");
    }
}

#[test]
fn a_listener_may_be_named() {
    let backend = Backend::named("a");
    let address = backend.address.to_string();
    let mut daemon = Daemon::start(&["run", "-l", "localhost:0", &address]);
    assert_eq!(ask(daemon.address(), ""), "a");
}

#[test]
fn a_name_without_an_address_does_not_stop_the_start() {
    let backend = Backend::named("a");
    let list = format!("\"nowhere.invalid:5001\", \"{}\"", backend.address);
    let mut daemon = Setup::listing(&list).start();
    for _ in 0..4 {
        assert_eq!(ask(daemon.address(), ""), "a");
    }
    daemon.line("web/nowhere.invalid:5001: the name nowhere.invalid does not resolve");
    let status = daemon.status().join("\n");
    assert!(status.contains("web/nowhere.invalid:5001: unresolved"), "{status}");
    assert!(status.contains(&format!("web/{}: up", backend.address)), "{status}");
}

#[test]
fn with_nothing_but_such_names_clients_are_closed_in_order() {
    let mut daemon = Setup::listing("\"nowhere.invalid:5001\"").start();
    for _ in 0..2 {
        assert_eq!(read_end(&mut connect(daemon.address())), (Vec::new(), Ending::Orderly));
    }
    daemon.line("No available backends in pool web");
    assert_eq!(daemon.count("No available backends"), 1);
    let status = daemon.status().join("\n");
    assert!(status.contains("web/nowhere.invalid:5001: unresolved"), "{status}");
}
