//! Agents: what they say is done, in every state, and their silence changes nothing but is told.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::backend::Backend;
use support::client::ask;
use support::daemon::{Daemon, Setup};
use support::{wait_for, wait_until};

/// An agent that says one of these words, and closes; at first the first of them.
struct Agent {
    door: Backend,
    turn: Arc<AtomicUsize>,
}

impl Agent {
    fn new(words: &'static [&'static [u8]]) -> Self {
        let turn = Arc::new(AtomicUsize::new(0));
        let at = Arc::clone(&turn);
        let door = Backend::new(move |mut stream| {
            // One byte a packet. A visitor that has heard enough may have left.
            stream.set_nodelay(true).unwrap();
            let word = words[at.load(Ordering::SeqCst)];
            let _ = word.iter().try_for_each(|byte| stream.write_all(&[*byte]));
        });
        Self { door, turn }
    }

    /// From now on it says the next word.
    fn go_on(&self) {
        self.turn.fetch_add(1, Ordering::SeqCst);
    }
}

fn with_agent(backends: &[SocketAddr], agent: &str, check: &str) -> Daemon {
    let health = format!(
        "type = \"{check}\"\nagent = \"{agent}\"\nagent_interval = \"50ms\"\n\
         timeout = \"300ms\"\ninterval = \"50ms\"\nfast_interval = \"50ms\""
    );
    Setup::new(backends).health(&health).start()
}

fn status_of(daemon: &mut Daemon, address: SocketAddr) -> String {
    let mark = format!("web/{address}: ");
    daemon.status().into_iter().find(|line| line.contains(&mark)).unwrap()
}

#[test]
fn a_drained_backend_gets_nobody_until_it_is_ready() {
    let (a, agent) = (Backend::named("a"), Agent::new(&[b"drain\n", b"ready\n"]));
    // The agent is at a port of the host of `a`; at that of `b` there is none.
    let elsewhere = TcpListener::bind("127.0.0.2:0").unwrap();
    let b = Backend::on(elsewhere, |stream| support::backend::greet("b", stream));
    let health = format!(
        "type = \"none\"\nagent = \":{}\"\nagent_interval = \"50ms\"",
        agent.door.address.port()
    );
    let mut daemon = Setup::new(&[a.address, b.address]).health(&health).start();
    let address = daemon.address();
    daemon.line(&format!("web/{} is draining", a.address));
    assert_eq!([ask(address, ""), ask(address, "")], ["b", "b"]);
    agent.go_on();
    daemon.line(&format!("web/{} is ready", a.address));
    let mut both = [ask(address, ""), ask(address, "")];
    both.sort();
    assert_eq!(both, ["a", "b"]);
}

#[test]
fn a_backend_is_down_while_its_agent_says_so() {
    let (backend, agent) =
        (Backend::named("a"), Agent::new(&[b"down # disk is full\r\nand more", b"up"]));
    let mut daemon = with_agent(&[backend.address], &agent.door.address.to_string(), "tcp");
    daemon.line("is down");
    assert!(status_of(&mut daemon, backend.address).contains("disk is full"));
    agent.go_on();
    daemon.line(&format!("Health check OK: web/{} is up (its agent says: ", backend.address));
}

/// Its last word holds, is shown as stale, and one line tells of the silence.
#[test]
fn a_silent_agent_is_told_once_and_its_word_holds() {
    let (backend, agent) = (Backend::named("a"), Agent::new(&[b"drain\n", b"", b"ready\n"]));
    let mut daemon = with_agent(&[backend.address], &agent.door.address.to_string(), "none");
    daemon.line("is draining");
    agent.go_on();
    daemon.line("is silent (the agent closed without a word); its last word holds: drain");
    wait_for("the word is shown as stale", || {
        status_of(&mut daemon, backend.address).contains("drain (stale, ").then_some(())
    });
    let asked = agent.door.accepted();
    wait_until("it is asked on", || agent.door.accepted() > asked + 3);
    assert_eq!(daemon.count("is silent"), 1);
    agent.go_on();
    daemon.line("is ready");
    daemon.lines(2, "Agent of web/");
    assert_eq!(daemon.count(" says: "), 2, "the first word, and the first after the silence");
}

#[test]
fn what_is_no_report_counts_as_silence() {
    let backend = Backend::named("a");
    let agent = Agent::new(&[b"hello there\n", &[b'x'; 600]]);
    let mut daemon = with_agent(&[backend.address], &agent.door.address.to_string(), "none");
    daemon.line("is silent (no word of an agent in \"hello there\"); its last word holds: no word");
    drop(daemon);
    agent.go_on();
    let mut daemon = with_agent(&[backend.address], &agent.door.address.to_string(), "none");
    daemon.line("is silent (the agent's line is longer than 512 bytes); its last word holds: no");
}

#[test]
fn a_backend_in_maintenance_is_not_probed_but_its_agent_is_asked() {
    let (backend, agent) = (Backend::named("a"), Agent::new(&[b"up\n", b"maint\n", b"ready\n"]));
    let mut daemon = with_agent(&[backend.address], &agent.door.address.to_string(), "tcp");
    wait_until("it is probed", || backend.accepted() > 3);
    agent.go_on();
    daemon.line("is maintenance");
    // A probe may have been under way.
    let (probed, asked) = (backend.accepted() + 1, agent.door.accepted());
    wait_until("the agent is asked on", || agent.door.accepted() > asked + 8);
    assert!(backend.accepted() <= probed, "probed while in maintenance");
    agent.go_on();
    daemon.line("is ready");
    wait_until("it is probed again", || backend.accepted() > probed + 2);
}

#[test]
fn an_agent_that_speaks_for_all_is_asked_once_for_all() {
    let backends = [Backend::named("a"), Backend::named("b"), Backend::named("c")];
    let agent = Agent::new(&[b"drain\n"]);
    let list: Vec<SocketAddr> = backends.iter().map(|backend| backend.address).collect();
    let health =
        format!("type = \"none\"\nagent = \"{}\"\nagent_interval = \"1h\"", agent.door.address);
    let mut daemon = Setup::new(&list).health(&health).start();
    daemon.lines(3, "is draining");
    assert_eq!(agent.door.accepted(), 1);
}
