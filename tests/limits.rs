//! What happens at a limit: clients wait and are served, nothing is lost, nothing spins.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};
use support::backend::Backend;
use support::client::{ask, connect, patient, read_text};
use support::daemon::{Daemon, Setup, program};
use support::wait_until;

fn echo(client: &mut TcpStream) {
    client.write_all(b"ping").unwrap();
    assert_eq!(read_text(client, 4), "ping");
}

/// Five clients where two are allowed: they are let in one by one, in their order.
fn one_leaves_one_enters(daemon: &mut Daemon, address: SocketAddr, backend: &Backend) {
    let mut clients: Vec<TcpStream> = Vec::new();
    for number in 0..5 {
        clients.push(connect(address));
        if number < 2 {
            wait_until("those allowed are let in", || backend.accepted() == number + 1);
        }
    }
    for served in 2..5 {
        // Many turns of the loop, in which one too many would come in.
        for _ in 0..20 {
            clients[..2].iter_mut().for_each(echo);
        }
        assert_eq!(backend.accepted(), served);
        let status = daemon.status();
        assert!(status[0].contains("status: 2 connections "), "{status:?}");
        drop(clients.remove(0));
        wait_until("the next is let in", || backend.accepted() == served + 1);
    }
    clients.iter_mut().for_each(echo);
}

#[test]
fn at_the_limit_of_a_listener_clients_wait_for_their_turn() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).listener("max_connections = 2").start();
    let address = daemon.address();
    one_leaves_one_enters(&mut daemon, address, &backend);
}

#[test]
fn at_the_global_limit_clients_wait_for_their_turn() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).global("max_connections = 2").start();
    daemon.line("at most 2 connections at once");
    let address = daemon.address();
    one_leaves_one_enters(&mut daemon, address, &backend);
    daemon.line("2 connections: the limit is reached, new clients wait");
}

#[test]
fn a_full_listener_does_not_hold_up_another() {
    let backend = Backend::echo();
    let text = format!(
        "[listener.narrow]\nbind = [\"127.0.0.1:0\"]\npool = \"web\"\nmax_connections = 1\n\
         [listener.wide]\nbind = [\"127.0.0.1:0\"]\npool = \"web\"\n\
         [pool.web]\nbackends = [\"{}\"]\n[pool.web.health]\ntype = \"none\"\n",
        backend.address
    );
    let mut daemon = Daemon::configured(&text);
    let narrow = daemon.address_of("listener narrow ");
    let wide = daemon.address_of("listener wide ");
    let mut inside = connect(narrow);
    echo(&mut inside);
    let mut waiting = connect(narrow);
    waiting.write_all(b"patience").unwrap();
    for _ in 0..20 {
        assert_eq!(ask(wide, "hello"), "hello");
    }
    drop(inside);
    assert_eq!(read_text(&mut waiting, 8), "patience", "what it sent meanwhile is not lost");
}

/// One place, two addresses: clients keep coming to the first, and the second has its turn too.
#[test]
fn at_the_global_limit_no_address_is_passed_over_for_ever() {
    let backend = Backend::echo();
    let bind = "bind = [\"127.0.0.1:0\", \"[::1]:0\"]";
    let mut daemon =
        Setup::new(&[backend.address]).listener(bind).global("max_connections = 1").start();
    let crowded = daemon.address_of("on 127.0.0.1:");
    let quiet = daemon.address_of("on [::1]:");
    let mut inside = connect(crowded);
    echo(&mut inside);
    let mut patient_one = connect(quiet);
    patient_one.write_all(b"my turn").unwrap();
    // Each that leaves has a successor waiting at the first address; they would all be served first.
    let mut crowd: Vec<TcpStream> = (0..10).map(|_| connect(crowded)).collect();
    drop(inside);
    drop(crowd.remove(0));
    assert_eq!(read_text(&mut patient_one, 7), "my turn");
    drop(patient_one);
    crowd.truncate(1);
    crowd.iter_mut().for_each(echo);
}

/// The program under a descriptor limit.
fn limited(ulimit: &str, arguments: &[&str]) -> Daemon {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {ulimit} && exec \"$0\" \"$@\"")]);
    command.arg(program().get_program()).args(arguments).env_remove("RUST_LOG");
    Daemon::spawn(command)
}

#[test]
fn the_soft_descriptor_limit_is_raised_to_the_hard_one() {
    let backend = Backend::echo();
    let address = backend.address.to_string();
    let arguments = ["run", "-l", "127.0.0.1:0", &address];
    let daemon = limited("-Sn 50", &arguments).ready();
    let limit = limit_of(&daemon);
    assert_eq!(limit.current, limit.maximum);
    assert!(limit.current.is_none_or(|most| most > 50));
}

fn limit_of(daemon: &Daemon) -> Rlimit {
    let text = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    // A number, or "unlimited".
    let mut numbers = line.split_whitespace().skip(3).map(|word| word.parse().ok());
    Rlimit { current: numbers.next().unwrap(), maximum: numbers.next().unwrap() }
}

#[test]
fn the_limit_that_follows_from_the_descriptors_is_printed_and_kept() {
    let backend = Backend::echo();
    let address = backend.address.to_string();
    let mut daemon = limited("-n 40", &["run", "-l", "127.0.0.1:0", &address]).ready();
    let line = daemon.line("at most ");
    let (_, rest) = line.split_once("at most ").unwrap();
    let most: usize = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((5..20).contains(&most), "two descriptors each and some aside: {most}");
    let front = daemon.address();
    let mut clients: Vec<TcpStream> = (0..most * 2).map(|_| connect(front)).collect();
    clients.iter_mut().for_each(|client| client.write_all(b"ping").unwrap());
    for mut client in clients {
        assert_eq!(read_text(&mut client, 4), "ping");
    }
    assert_eq!(daemon.count("too many open files"), 0, "the limit keeps it from running out");
}

#[test]
fn more_than_the_descriptors_allow_is_not_promised() {
    let backend = Backend::echo();
    let file = support::daemon::config_file(
        &Setup::new(&[backend.address]).global("max_connections = 1000").text(),
    );
    let path = file.path().to_str().unwrap();
    let mut daemon = limited("-n 40", &["run", "-c", path]).ready();
    daemon.line("max_connections = 1000 needs 20");
    assert_eq!(ask(daemon.address(), "hello"), "hello");
}

#[test]
fn too_few_descriptors_for_anything_is_said_at_the_start() {
    let mut daemon = limited("-n 14", &["run", "-l", "127.0.0.1:0", "127.0.0.1:1"]);
    assert_eq!(daemon.exit_code(), Some(1));
    daemon.line_with(&["the descriptor limit of 14 is too low", "ulimit -n"]);
}

/// The limit is lowered below what is in use while it runs, as nothing else can exhaust it.
#[test]
fn out_of_descriptors_it_neither_spins_nor_loses_the_listener() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).start();
    let address = daemon.address();
    let mut early = connect(address);
    echo(&mut early);
    let pid = Some(daemon.pid());
    let before = getrlimit(Resource::Nofile);
    let none_left = Rlimit { current: Some(3), maximum: before.maximum };
    let before = prlimit(pid, Resource::Nofile, none_left).unwrap();
    let mut late: Vec<TcpStream> = (0..10).map(|_| connect(address)).collect();
    daemon.line("too many open files");
    let used = daemon.processor_time();
    // The note is repeated after five seconds: long enough to see it spin.
    daemon.lines(2, "too many open files");
    let used = daemon.processor_time() - used;
    assert!(used < 150, "{used} ticks of 10 ms in five seconds");
    echo(&mut early);
    prlimit(pid, Resource::Nofile, before).unwrap();
    late.iter_mut().for_each(echo);
    assert_eq!(ask(address, "after"), "after");
}

#[test]
fn two_thousand_connects_at_once_are_all_served() {
    const BURST: usize = 2000;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let mut backends = [(); 2].map(|()| Daemon::backend(&["--name", "b"]));
    let list: Vec<SocketAddr> = backends.iter_mut().map(Daemon::address).collect();
    let mut daemon = Setup::new(&list).start();
    let address = SockAddr::from(daemon.address());
    let clients: Vec<TcpStream> = (0..BURST)
        .map(|_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            // It is under way or done; whether it worked is seen below.
            let _ = socket.connect(&address);
            socket.set_nonblocking(false).unwrap();
            TcpStream::from(socket)
        })
        .collect();
    clients.iter().for_each(patient);
    for (number, mut client) in clients.iter().enumerate() {
        writeln!(client, "{number}").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    for (number, mut client) in clients.into_iter().enumerate() {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, format!("[b] {number}\n"));
    }
    let status = daemon.status();
    assert!(status[0].contains(&format!("{BURST} accepted")), "{status:?}");
}
