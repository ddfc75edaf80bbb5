//! The front door: who is let in, how many and how fast, and PROXY headers both ways.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use socket2::{Domain, SockAddr, Socket, Type};
use support::backend::Backend;
use support::client::{Ending, ask, connect, patient, read_end, read_text, reset};
use support::daemon::{Daemon, Setup};
use support::{PATIENCE, wait_until};

/// Connects from this address of the loopback network; a reset can come before it returns.
fn connect_from(source: [u8; 4], address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::from(source), 0)))).unwrap();
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let stream = TcpStream::from(socket);
    patient(&stream);
    Ok(stream)
}

fn is_let_in(source: [u8; 4], address: SocketAddr) -> bool {
    connect_from(source, address).is_ok_and(|mut stream| is_served(&mut stream))
}

fn is_turned_away(source: [u8; 4], address: SocketAddr) -> bool {
    match connect_from(source, address) {
        Ok(stream) => is_reset(stream),
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

fn is_served(stream: &mut TcpStream) -> bool {
    let mut answer = [0; 4];
    stream.write_all(b"ping").is_ok() && stream.read_exact(&mut answer).is_ok()
}

fn is_reset(mut stream: TcpStream) -> bool {
    read_end(&mut stream) == (Vec::new(), Ending::Reset)
}

/// Waits until the status table has this line about ends.
fn wait_for_end(daemon: &mut Daemon, ended: &str) {
    wait_until(ended, || {
        daemon.status();
        daemon.count(ended) > 0
    });
}

#[test]
fn a_denied_client_is_reset_counted_and_told_of_and_others_are_served() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address])
        .listener("deny = [\"127.0.0.3\", \"127.1.0.0/16\"]\nallow = [\"127.0.0.0/8\"]")
        .start();
    let address = daemon.address();
    assert!(is_turned_away([127, 0, 0, 3], address));
    assert!(is_turned_away([127, 1, 2, 3], address), "deny wins over allow");
    assert!(is_let_in([127, 0, 0, 2], address));
    daemon.line_with(&["listener web: clients turned away: 1, the last one 127.0.0.3:", "denied"]);
    wait_for_end(&mut daemon, "2 ended: address denied");
    assert_eq!(daemon.count("turned away"), 1, "told once in five seconds");
    assert_eq!(backend.accepted(), 1);
}

#[test]
fn a_list_of_those_allowed_refuses_all_others() {
    let backend = Backend::echo();
    let mut daemon =
        Setup::new(&[backend.address]).listener("allow = [\"127.0.0.2\", \"::1\"]").start();
    let address = daemon.address();
    assert!(is_turned_away([127, 0, 0, 1], address));
    assert!(is_let_in([127, 0, 0, 2], address));
    wait_for_end(&mut daemon, "1 ended: address not allowed");
}

#[test]
fn a_source_has_no_more_than_its_share_and_gets_it_back() {
    let backend = Backend::echo();
    let mut daemon =
        Setup::new(&[backend.address]).listener("max_connections_per_source = 2").start();
    let address = daemon.address();
    let mut clients = [connect(address), connect(address)];
    assert!(clients.iter_mut().all(is_served));
    assert!(is_turned_away([127, 0, 0, 1], address), "one too many");
    assert!(is_let_in([127, 0, 0, 2], address), "another source");
    let [leaves, mut stays] = clients;
    leaves.shutdown(Shutdown::Write).unwrap();
    let mut leaves = leaves;
    assert_eq!(read_end(&mut leaves).1, Ending::Orderly);
    wait_until("its place is free", || is_let_in([127, 0, 0, 1], address));
    assert!(is_served(&mut stays));
    daemon.line_with(&["turned away: 1", "too many connections from this source"]);
}

#[test]
fn over_the_accept_rate_clients_wait_and_nothing_spins() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).listener("accept_rate = 1").start();
    let address = daemon.address();
    let mut clients: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
    clients.iter_mut().for_each(|client| client.write_all(b"ping").unwrap());
    assert_eq!(read_text(&mut clients[0], 4), "ping");
    let used = daemon.processor_time();
    for client in &mut clients[1..] {
        assert_eq!(read_text(client, 4), "ping", "what was sent while it waited is not lost");
    }
    let used = daemon.processor_time() - used;
    assert!(used < 100, "{used} ticks of 10 ms in three seconds");
    let status = daemon.status();
    let (before, _) = status[0].split_once(" turns").unwrap();
    let turns: u64 = before.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(turns < 200, "{turns} turns for four clients");
}

/// At a client in a second the last would come in long after the doors have closed.
#[test]
fn the_accept_rate_resets_nobody_when_the_doors_close() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).listener("accept_rate = 1").start();
    let mut clients: Vec<TcpStream> = (0..30).map(|_| connect(daemon.address())).collect();
    clients.iter_mut().for_each(|client| client.write_all(b"ping").unwrap());
    assert_eq!(read_text(&mut clients[0], 4), "ping");
    daemon.signal(Signal::TERM);
    daemon.line("no longer accepting");
    clients[1..].iter_mut().for_each(|client| assert_eq!(read_text(client, 4), "ping"));
    drop(clients);
    assert_eq!(daemon.exit_code(), Some(0));
}

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const ENDS: &[u8] = b"\xc0\0\x02\x09\xc0\0\x02\x01\x9c\x40\x01\xbb";

fn v2(command: u8, family: u8, rest: &[&[u8]]) -> Vec<u8> {
    let rest = rest.concat();
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [V2, &[command, family], &length, &rest].concat()
}

fn trusting(backend: SocketAddr) -> Setup {
    Setup::new(&[backend])
        .listener("proxy_protocol_from = [\"127.0.0.0/8\"]")
        .global("access_log = \"close\"")
}

#[test]
fn a_header_names_the_client_however_it_is_split() {
    let backend = Backend::echo();
    let mut daemon = trusting(backend.address).start();
    let address = daemon.address();
    let cases = [
        (b"PROXY TCP4 192.0.2.8 192.0.2.1 40000 443\r\n".to_vec(), "client=192.0.2.8:40000"),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 7 443\r\n".to_vec(), "client=[2001:db8::1]:7"),
        (v2(0x21, 0x11, &[ENDS]), "client=192.0.2.9:40000"),
        (v2(0x21, 0x11, &[ENDS, b"\xe0\x02\x58", &[b't'; 600]]), "client=192.0.2.9:40000"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "client=127.0.0.1:"),
        (v2(0x20, 0, &[]), "client=127.0.0.1:"),
    ];
    let mut ended = 0;
    for (header, client) in cases {
        for step in [1, 7, 4096] {
            let mut stream = connect(address);
            stream.set_nodelay(true).unwrap();
            for piece in [&header[..], b"hello"].concat().chunks(step) {
                stream.write_all(piece).unwrap();
                std::thread::yield_now();
            }
            assert_eq!(read_text(&mut stream, 5), "hello", "{header:?} by {step}");
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_end(&mut stream), (Vec::new(), Ending::Orderly));
            ended += 1;
            daemon.lines(ended, "connection ended");
            let last = daemon.log().iter().rfind(|line| line.contains("connection ended"));
            let last = last.unwrap();
            assert!(last.contains(client) && last.contains("received=5"), "{client}: {last}");
        }
    }
}

#[test]
fn what_is_no_header_gets_no_further() {
    let backend = Backend::echo();
    let mut daemon = trusting(backend.address).start();
    let address = daemon.address();
    let cases = [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "no PROXY header"),
        (b"PROXY TCP4 192.0.2.9\r\n".to_vec(), "malformed PROXY header"),
        (v2(0x21, 0x11, &[&ENDS[1..]]), "malformed PROXY header"),
        (v2(0x21, 0x11, &[ENDS, &[0; 5000]]), "PROXY header too long"),
    ];
    for (number, (header, reason)) in cases.into_iter().enumerate() {
        let mut stream = connect(address);
        // It may be reset before it has said everything.
        let _ = stream.write_all(&header);
        assert!(is_reset(stream), "{header:?}");
        daemon.lines(number + 1, "connection ended");
        daemon.line_with(&["backend=-", "received=0", reason]);
    }
    let mut cut = connect(address);
    cut.write_all(b"PROXY TCP4").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    assert!(is_reset(cut), "cut short");
    wait_for_end(&mut daemon, "2 ended: no PROXY header");
    wait_for_end(&mut daemon, "2 ended: malformed PROXY header");
    wait_for_end(&mut daemon, "1 ended: PROXY header too long");
    assert_eq!(backend.accepted(), 0);
}

/// Neither silence nor bytes one by one make it wait for longer than its five seconds.
#[test]
fn a_header_that_does_not_come_is_not_waited_for() {
    let backend = Backend::echo();
    let mut daemon = trusting(backend.address).start();
    let (mut silent, mut slow) = (connect(daemon.address()), connect(daemon.address()));
    slow.write_all(b"PROXY TCP4 192").unwrap();
    assert_eq!(read_end(&mut silent), (Vec::new(), Ending::Orderly));
    assert_eq!(read_end(&mut slow), (Vec::new(), Ending::Orderly));
    wait_for_end(&mut daemon, "2 ended: no PROXY header in time");
    drop(connect(daemon.address()));
    wait_for_end(&mut daemon, "1 ended: client left before");
    assert_eq!(daemon.count("turned away"), 1, "a look whether we are here is no fault");
}

#[test]
fn a_header_from_anybody_else_is_data() {
    let backend = Backend::echo();
    let mut daemon =
        Setup::new(&[backend.address]).listener("proxy_protocol_from = [\"10.0.0.1\"]").start();
    let line = "PROXY TCP4 192.0.2.9 192.0.2.1 40000 443\r\nhello";
    assert_eq!(ask(daemon.address(), line), line);
}

#[test]
fn the_cap_per_source_asks_for_whom_a_peer_speaks() {
    let backend = Backend::echo();
    let setup = trusting(backend.address).listener("max_connections_per_source = 1");
    let mut daemon = setup.start();
    let address = daemon.address();
    let open = |client: &str| {
        let mut stream = connect(address);
        write!(stream, "PROXY TCP4 {client} 192.0.2.1 1 2\r\n").unwrap();
        stream
    };
    let mut first = open("192.0.2.7");
    assert!(is_served(&mut first));
    assert!(is_served(&mut open("192.0.2.8")), "the same peer, another client");
    assert!(is_reset(open("192.0.2.7")), "one too many");
    reset(first);
    wait_until("its place is free", || is_served(&mut open("192.0.2.7")));
    daemon.line_with(&["client=192.0.2.7:1", "too many connections from this source"]);
}

/// What a backend is told by way of `version`, from this client.
fn told(setup: &Setup, client: impl FnOnce(&mut Daemon) -> TcpStream, length: usize) -> Vec<u8> {
    let mut daemon = setup.start();
    let mut stream = client(&mut daemon);
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (all, end) = read_end(&mut stream);
    assert_eq!((&all[length..], end), (&b"hello"[..], Ending::Orderly));
    daemon.line_with(&["connection ended", "received=5"]);
    all
}

#[test]
fn a_backend_is_told_whose_connection_it_gets() {
    let backend = Backend::echo();
    let setup = |version: &str| {
        let out = format!("send_proxy_protocol = \"{version}\"");
        Setup::new(&[backend.address]).pool(&out).global("access_log = \"close\"")
    };
    for bind in ["127.0.0.1:0", ":0"] {
        let mut ends = None;
        let open = |daemon: &mut Daemon| {
            let port = daemon.address().port();
            let stream = connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
            ends = Some((stream.local_addr().unwrap(), stream.peer_addr().unwrap()));
            stream
        };
        let bind = format!("bind = [\"{bind}\"]");
        let all = told(&setup("v2").listener(&bind), open, 28);
        let (source, destination) = ends.unwrap();
        let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
        assert_eq!(all[..28], v2(0x21, 0x11, &[&[127, 0, 0, 1, 127, 0, 0, 1], &ports]));
    }
    // The client that a header names, and the address that it went to.
    let header = v2(0x21, 0x11, &[ENDS]);
    let open = |daemon: &mut Daemon| {
        let mut stream = connect(daemon.address());
        stream.write_all(&header).unwrap();
        stream
    };
    let line = b"PROXY TCP4 192.0.2.9 192.0.2.1 40000 443\r\n";
    let trusting = setup("v1").listener("proxy_protocol_from = [\"127.0.0.1\"]");
    assert_eq!(told(&trusting, open, line.len())[..line.len()], *line);
}

#[test]
fn a_client_of_a_unix_socket_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("front.sock");
    let backend = Backend::echo();
    let bind = format!("bind = [\"unix:{}\"]", path.display());
    let _daemon =
        Setup::new(&[backend.address]).listener(&bind).pool("send_proxy_protocol = \"v1\"").start();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "PROXY UNKNOWN\r\nhello");
}

#[test]
fn the_backend_that_takes_over_is_told_too_and_once() {
    // The first one hears the header and breaks off: nobody has had a byte, so another is tried.
    let deserter = Backend::new(|mut stream| {
        let _ = stream.read(&mut [0; 200]);
        reset(stream);
    });
    let heir = Backend::echo();
    let mut daemon =
        Setup::new(&[deserter.address, heir.address]).pool("send_proxy_protocol = \"v1\"").start();
    let mut stream = connect(daemon.address());
    let (source, own) = (stream.local_addr().unwrap().port(), daemon.address().port());
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {source} {own}\r\n");
    assert_eq!(read_text(&mut stream, expected.len()), expected);
    assert!(is_served(&mut stream), "and then the client's bytes");
    assert_eq!((deserter.accepted(), heir.accepted()), (1, 1));
}

#[test]
fn a_backend_that_speaks_first_is_told_all_the_same() {
    let backend = Backend::named("welcome ");
    let mut daemon = Setup::new(&[backend.address]).pool("send_proxy_protocol = \"v2\"").start();
    let mut stream = connect(daemon.address());
    assert_eq!(read_text(&mut stream, 8), "welcome ");
    let mut header = [0; 28];
    stream.read_exact(&mut header).unwrap();
    assert_eq!(header[..12], *V2, "without a word of the client");
}
