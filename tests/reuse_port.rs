//! Several processes on one port: each serves its share, and none depends on another.

mod support;

use std::collections::HashSet;
use std::net::SocketAddr;

use support::backend::Backend;
use support::client::{ask, is_refused};
use support::daemon::{Daemon, Setup, config_file, program};
use support::wait_until;

#[test]
fn two_processes_share_a_port_and_one_goes_on_alone() {
    let backends = [Backend::named("one"), Backend::named("two")];
    let mut first = sharing(&backends[0], SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = first.address();
    let second = sharing(&backends[1], address);
    let mut seen = HashSet::new();
    // The kernel chooses by a hash of the client's port.
    wait_until("both have served", || {
        seen.insert(ask(address, ""));
        seen.len() == 2
    });
    assert_eq!(seen, HashSet::from(["one".to_owned(), "two".to_owned()]));
    first.kill();
    for _ in 0..50 {
        assert_eq!(ask(address, ""), "two", "the one that is left serves everybody");
    }
    drop(second);
    assert!(is_refused(address), "nobody is left");
}

#[test]
fn without_reuse_port_the_second_process_says_that_the_address_is_in_use() {
    let backend = Backend::named("only");
    let mut first = Setup::new(&[backend.address]).start();
    let address = first.address();
    // Both must want it: one that shares does not get in beside one that does not.
    for wish in ["reuse_port = false", "reuse_port = true"] {
        let bind = format!("bind = [\"{address}\"]");
        let text = Setup::new(&[backend.address]).listener(&bind).listener(wish).text();
        let file = config_file(&text);
        let mut command = program();
        command.args(["run", "-c"]).arg(file.path());
        let mut second = Daemon::spawn(command);
        assert_eq!(second.exit_code(), Some(4), "{wish}");
        second.line(&format!("cannot listen on {address}: the address is in use"));
    }
    assert_eq!(ask(address, ""), "only", "the first was not disturbed");
}

/// A process with one backend and a shared address.
fn sharing(backend: &Backend, address: SocketAddr) -> Daemon {
    let bind = format!("bind = [\"{address}\"]");
    Setup::new(&[backend.address]).listener(&bind).listener("reuse_port = true").start()
}
