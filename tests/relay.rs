//! Every byte, every ending, with real sockets: what one side does, the other side sees.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper fails the test that called it")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use support::backend::{Backend, Guests};
use support::client::{Ending, ask, connect, patient, read_end, read_text, reset};
use support::daemon::{Daemon, Setup};
use support::noise::{Digest, Noise};
use support::{PATIENCE, wait_until};

/// A balancer before a backend that the test plays itself.
struct Scene {
    daemon: Daemon,
    guests: Guests,
    _backend: Backend,
}

impl Scene {
    fn new() -> Self {
        let (backend, guests) = Backend::handing_over();
        let daemon = Setup::new(&[backend.address]).global("access_log = \"close\"").start();
        Self { daemon, guests, _backend: backend }
    }

    /// Both ends of a relayed connection.
    fn pair(&mut self) -> (TcpStream, TcpStream) {
        let client = connect(self.daemon.address());
        (client, self.guests.next())
    }
}

#[test]
fn a_client_that_finishes_first_still_gets_its_answer() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_end(&mut server), (b"question".to_vec(), Ending::Orderly));
    for _ in 0..3 {
        server.write_all(b"answer").unwrap();
        assert_eq!(read_text(&mut client, 6), "answer");
    }
    drop(server);
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly));
    scene.daemon.line("reason=\"client closed\"");
}

#[test]
fn a_server_that_finishes_first_still_reads() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    server.write_all(b"goodbye").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_end(&mut client), (b"goodbye".to_vec(), Ending::Orderly));
    for _ in 0..3 {
        client.write_all(b"more").unwrap();
        assert_eq!(read_text(&mut server, 4), "more");
    }
    drop(client);
    assert_eq!(read_end(&mut server), (Vec::new(), Ending::Orderly));
    scene.daemon.line("reason=\"backend closed\"");
}

#[test]
fn a_server_may_speak_first() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    server.write_all(b"220 ready\r\n").unwrap();
    assert_eq!(read_text(&mut client, 11), "220 ready\r\n");
    client.write_all(b"HELO\r\n").unwrap();
    assert_eq!(read_text(&mut server, 6), "HELO\r\n");
}

#[test]
fn an_empty_connection_ends_in_order() {
    let mut scene = Scene::new();
    let (client, mut server) = scene.pair();
    drop(client);
    assert_eq!(read_end(&mut server), (Vec::new(), Ending::Orderly));
    let (mut client, server) = scene.pair();
    drop(server);
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Orderly));
}

/// Lock step: the second byte is written before the first is answered. Were small writes held back
/// for an acknowledgement (Nagle), the rounds would take longer than patience (50 s, not half a one).
#[test]
fn single_bytes_are_not_held_back() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let answering = thread::spawn(move || {
        for _ in 0..ROUNDS {
            let both = read_text(&mut server, 2);
            server.write_all(&both.as_bytes()[..1]).unwrap();
            server.write_all(&both.as_bytes()[1..]).unwrap();
        }
    });
    let asking = thread::spawn(move || {
        for _ in 0..ROUNDS {
            client.write_all(b"a").unwrap();
            client.write_all(b"b").unwrap();
            assert_eq!(read_text(&mut client, 2), "ab");
        }
    });
    wait_until("all rounds are done", || asking.is_finished());
    asking.join().unwrap();
    answering.join().unwrap();
}

#[test]
fn bytes_before_the_end_survive_a_slow_reader_in_both_directions() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    let sent = thread::spawn(move || {
        let digest = Noise::new(1).pour(LARGE, &mut server);
        server.shutdown(Shutdown::Write).unwrap();
        (digest, server)
    });
    // Nothing is read until the writer is blocked by full buffers or has said its last word.
    let got = slowly(&mut client);
    let (digest, mut server) = sent.join().unwrap();
    assert_eq!(got, digest);
    let sent = thread::spawn(move || {
        let digest = Noise::new(2).pour(LARGE, &mut client);
        drop(client);
        digest
    });
    let got = slowly(&mut server);
    assert_eq!(got, sent.join().unwrap());
}

/// Reads in pieces that do not match anybody's, and the first one late.
fn slowly(stream: &mut TcpStream) -> Digest {
    stream.peek(&mut [0]).unwrap();
    let mut digest = Digest::default();
    let mut space = vec![0; 7001];
    loop {
        match stream.read(&mut space).unwrap() {
            0 => return digest,
            count => digest.add(&space[..count]),
        }
        thread::yield_now();
    }
}

#[test]
fn both_directions_run_at_full_speed_at_once() {
    let mut scene = Scene::new();
    let (client, server) = scene.pair();
    let ends = [(client, 3), (server, 4)].map(|(stream, seed)| {
        let mut writing = stream.try_clone().unwrap();
        let writer = thread::spawn(move || {
            let digest = Noise::new(seed).pour(LARGE, &mut writing);
            writing.shutdown(Shutdown::Write).unwrap();
            digest
        });
        let mut reading = stream;
        let reader = thread::spawn(move || Digest::drain(&mut reading));
        (writer, reader)
    });
    let [(up, up_end), (down, down_end)] =
        ends.map(|(w, r)| (w.join().unwrap(), r.join().unwrap()));
    assert_eq!(down_end, up, "what the client sent, the server got");
    assert_eq!(up_end, down, "what the server sent, the client got");
    scene.daemon.line(&format!("received={LARGE} sent={LARGE} "));
}

#[test]
fn a_reset_by_the_client_is_a_reset_for_the_server() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.write_all(b"cut sho").unwrap();
    assert_eq!(read_text(&mut server, 7), "cut sho");
    reset(client);
    assert_eq!(read_end(&mut server), (Vec::new(), Ending::Reset));
    scene.daemon.line("reason=\"client reset the connection\"");
}

#[test]
fn a_reset_by_the_server_is_a_reset_for_the_client() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    server.write_all(b"cut sho").unwrap();
    assert_eq!(read_text(&mut client, 7), "cut sho");
    reset(server);
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Reset));
    scene.daemon.line("reason=\"backend reset the connection\"");
}

#[test]
fn a_reset_reaches_a_side_that_has_finished() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_end(&mut server).1, Ending::Orderly);
    reset(server);
    assert_eq!(read_end(&mut client), (Vec::new(), Ending::Reset));
}

/// What the balancer took before the reset is delivered, to the last byte: no read comes before
/// the reset is known.
#[test]
fn what_was_passed_on_before_a_reset_is_delivered() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    let parting = Noise::new(5).take(PARTING);
    server.write_all(&parting).unwrap();
    // All of it is with the balancer's kernel once nothing is left to be acknowledged.
    wait_until("the bytes reach the client", || peeked(&client) == PARTING);
    reset(server);
    scene.daemon.line("reason=\"backend reset the connection\"");
    let (got, ending) = read_end(&mut client);
    assert_eq!((Digest::of(&got), ending), (Digest::of(&parting), Ending::Reset));
}

fn peeked(stream: &TcpStream) -> usize {
    stream.peek(&mut vec![0; PARTING * 2]).unwrap()
}

/// The server resets while the client reads nothing, so that bytes wait in the balancer.
#[test]
fn a_reset_does_not_overtake_the_bytes_that_wait_for_a_slow_reader() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    let stuffed = stuff(&mut server);
    client.peek(&mut [0]).unwrap();
    reset(server);
    let (got, ending) = read_end(&mut client);
    assert_eq!(ending, Ending::Reset, "a cut stream does not look complete");
    assert!(got.len() <= stuffed.len());
    assert_eq!(Digest::of(&got), Digest::of(&stuffed[..got.len()]), "what came is what was sent");
}

/// Writes until nobody takes anything any more; returns what was taken.
fn stuff(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut noise = Noise::new(6);
    let mut taken = Vec::new();
    loop {
        let piece = noise.take(64 * 1024);
        let mut rest = &piece[..];
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(count) => {
                    taken.extend_from_slice(&rest[..count]);
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return taken,
                Err(error) => panic!("writing failed: {error}"),
            }
        }
    }
}

/// Twenty clients that read nothing while their server would send without end: the balancer holds
/// one buffer for each, not what the server could send.
#[test]
fn readers_that_do_not_read_cost_bounded_memory() {
    const CLIENTS: usize = 20;
    let backend = Backend::new(|mut stream| {
        let piece = Noise::new(7).take(256 * 1024);
        while stream.write_all(&piece).is_ok() {}
    });
    let mut daemon = Setup::new(&[backend.address]).start();
    let address = daemon.address();
    let before = daemon.memory();
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(address)).collect();
    for client in &clients {
        client.peek(&mut [0]).unwrap();
    }
    // Another client is served from beginning to end meanwhile: everybody had many turns.
    let mut reader = connect(address);
    let mut left = LARGE;
    let mut space = vec![0; 256 * 1024];
    while left > 0 {
        left = left.saturating_sub(reader.read(&mut space).unwrap());
    }
    let grown = daemon.memory().saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB more for {CLIENTS} idle readers");
}

#[test]
fn a_fast_stream_does_not_starve_small_ones() {
    let backend = Backend::new(|mut stream| {
        let mut kind = [0];
        if stream.read_exact(&mut kind).is_err() {
            return;
        }
        if &kind == b"F" {
            let piece = Noise::new(8).take(256 * 1024);
            while stream.write_all(&piece).is_ok() {}
        } else {
            support::backend::greet("", stream);
        }
    });
    let mut daemon = Setup::new(&[backend.address]).start();
    let address = daemon.address();
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let fast = thread::spawn(move || {
        let mut stream = connect(address);
        stream.write_all(b"F").unwrap();
        let (mut space, mut total) = (vec![0; 256 * 1024], 0);
        while !stopping.load(Ordering::SeqCst) {
            total += stream.read(&mut space).unwrap();
        }
        total
    });
    let mut small: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
    small.iter_mut().for_each(|stream| stream.write_all(b"S").unwrap());
    for round in 0..20 {
        let text = format!("round {round:3}");
        small.iter_mut().for_each(|stream| stream.write_all(text.as_bytes()).unwrap());
        for stream in &mut small {
            assert_eq!(read_text(stream, text.len()), text);
        }
    }
    stop.store(true, Ordering::SeqCst);
    assert!(fast.join().unwrap() > 0, "the fast one ran all the while");
}

#[test]
fn many_clients_at_once_keep_their_own_bytes() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).start();
    let address = daemon.address();
    let clients: Vec<_> = (0..32u64)
        .map(|seed| {
            thread::spawn(move || {
                let mut stream = connect(address);
                let mut writing = stream.try_clone().unwrap();
                let writer = thread::spawn(move || {
                    let digest = Noise::new(100 + seed).pour(512 * 1024, &mut writing);
                    writing.shutdown(Shutdown::Write).unwrap();
                    digest
                });
                assert_eq!(Digest::drain(&mut stream), writer.join().unwrap());
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn unix_sockets_on_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (front, back) = (folder.path().join("front"), folder.path().join("back"));
    let listener = UnixListener::bind(&back).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let digest = Digest::drain(&mut stream);
        let sent = Noise::new(9).pour(LARGE / 4, &mut stream);
        (digest, sent)
    });
    let setup = Setup::listing(&format!("\"unix:{}\"", back.display()))
        .listener(&format!("bind = [\"unix:{}\"]", front.display()));
    let mut daemon = setup.start();
    daemon.line(&format!("listening on unix:{} (listener web -> pool web)", front.display()));
    let mut client = UnixStream::connect(&front).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let up = Noise::new(10).pour(LARGE / 4, &mut client);
    client.shutdown(Shutdown::Write).unwrap();
    let down = Digest::drain(&mut client);
    let (got, sent) = server.join().unwrap();
    assert_eq!((got, down), (up, sent));
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
    assert!(!front.exists(), "the socket file is removed");
}

#[test]
fn a_socket_file_left_behind_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let front = folder.path().join("front");
    drop(UnixListener::bind(&front).unwrap());
    let backend = Backend::named("a");
    let address = backend.address.to_string();
    let listen = format!("unix:{}", front.display());
    let _daemon = Daemon::start(&["run", "-l", &listen, &address]);
    let mut second = support::daemon::program();
    second.args(["run", "-l", &listen, &address]);
    assert_eq!(Daemon::spawn(second).exit_code(), Some(4));
    let mut answer = String::new();
    let mut client = UnixStream::connect(&front).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "a", "the first is not disturbed");
}

#[test]
fn version_six_on_both_ends() {
    let backend = Backend::on(TcpListener::bind("[::1]:0").unwrap(), |mut stream| {
        stream.write_all(b"six").unwrap();
    });
    let mut daemon = Setup::new(&[backend.address]).listener("bind = [\"[::1]:0\"]").start();
    assert!(daemon.address().is_ipv6());
    assert_eq!(ask(daemon.address(), ""), "six");
}

#[test]
fn a_port_without_a_host_takes_both_families() {
    let backend = Backend::named("a");
    let mut daemon = Daemon::start(&["run", "-l", ":0", &backend.address.to_string()]);
    let port = daemon.address().port();
    for host in ["127.0.0.1", "[::1]"] {
        assert_eq!(ask(format!("{host}:{port}").parse().unwrap(), ""), "a", "through {host}");
    }
}

/// Urgent data stops a read short though more waits behind it.
#[test]
fn urgent_data_does_not_hold_up_what_follows() {
    let mut scene = Scene::new();
    let (mut client, mut server) = scene.pair();
    for round in 0..50 {
        client.write_all(b"before").unwrap();
        socket2::SockRef::from(&client).send_out_of_band(b"!").unwrap();
        client.write_all(b"after").unwrap();
        assert_eq!(read_text(&mut server, 11), "beforeafter", "round {round}");
    }
}

#[test]
fn a_client_that_leaves_while_a_connect_hangs_is_let_go() {
    let hole = support::ports::BlackHole::new();
    let mut daemon = Setup::new(&[hole.address])
        .pool("connect_timeout = \"1h\"")
        .global("access_log = \"close\"")
        .start();
    let client = connect(daemon.address());
    patient(&client);
    wait_until("the connect is under way", || {
        daemon
            .status()
            .iter()
            .any(|line| line.contains("listener web") && line.contains("1 active"))
    });
    reset(client);
    daemon.line("client left before a backend was connected");
    assert!(daemon.status().iter().any(|line| line.contains("0 active, 0 total, 0 failed")));
}

const ROUNDS: usize = 5000;
const LARGE: usize = 32 * 1024 * 1024;
const PARTING: usize = 48 * 1024;
