//! Checks that talk, against scripted servers behind real sockets: what they say, what passes, how
//! each failure is told, how they leave, and who gets the results.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use support::backend::Backend;
use support::client::{Ending, ask, read_end, try_ask};
use support::daemon::{Daemon, Setup, config_file};
use support::ports::Port;
use support::wait_until;

/// A server that reads until `asked` is there, answers in these pieces, and reads to the end, which
/// the test is told. Each piece is sent by itself.
fn scripted(asked: &'static str, answer: &'static [&'static [u8]]) -> (Backend, Receiver<Visit>) {
    let (tell, visits) = channel();
    let backend = Backend::new(move |mut stream| {
        let mut said = Vec::new();
        let mut byte = [0];
        stream.set_nodelay(true).unwrap();
        while !String::from_utf8_lossy(&said).contains(asked) {
            match stream.read(&mut byte) {
                Ok(1) => said.push(byte[0]),
                // The visitor had no time for all that.
                Ok(_) | Err(_) => return,
            }
        }
        for piece in answer {
            // One that has heard enough may have left.
            let _ = stream.write_all(piece);
        }
        let (rest, ending) = read_end(&mut stream);
        said.extend(rest);
        // The test may have seen enough.
        let _ = tell.send(Visit { said: String::from_utf8_lossy(&said).into_owned(), ending });
    });
    (backend, visits)
}

#[derive(Debug, PartialEq, Eq)]
struct Visit {
    said: String,
    ending: Ending,
}

fn quick(check: &str) -> String {
    format!("{check}\ninterval = \"100ms\"\nfast_interval = \"50ms\"\ntimeout = \"20s\"\n")
}

/// The daemon with one backend and this check.
fn checking(address: SocketAddr, check: &str) -> Daemon {
    Setup::new(&[address]).health(&quick(check)).start()
}

fn next(visits: &Receiver<Visit>) -> Visit {
    visits.recv_timeout(support::PATIENCE).unwrap()
}

/// The check passes, `found` is told, and the server saw `said` and an end in order, several times.
fn passes(check: &str, asked: &'static str, answer: &'static [&'static [u8]], told: [&str; 2]) {
    let [found, said] = told;
    let (backend, visits) = scripted(asked, answer);
    let mut daemon = checking(backend.address, check);
    daemon.line(&format!("Health check OK: web/{} is up ({found} in ", backend.address));
    for _ in 0..3 {
        let said = said.replace("HOST", &backend.address.to_string());
        assert_eq!(next(&visits), Visit { said, ending: Ending::Orderly }, "{check}");
    }
}

/// The check fails with this reason, and the server saw an end in order all the same.
fn fails(check: &str, asked: &'static str, answer: &'static [&'static [u8]], reason: &str) {
    let (backend, visits) = scripted(asked, answer);
    let mut daemon = checking(backend.address, check);
    daemon.line(&format!("Health check FAILED: web/{} ({reason}) is down", backend.address));
    for _ in 0..3 {
        assert_eq!(next(&visits).ending, Ending::Orderly, "{check}");
    }
}

/// The same with a server that closes after its answer.
fn fails_at_the_end(check: &str, asked: &'static str, answer: &'static [u8], reason: &str) {
    let backend = Backend::new(move |mut stream| {
        let mut said = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&said).contains(asked) {
            let Ok(1) = stream.read(&mut byte) else { return };
            said.push(byte[0]);
        }
        let _ = stream.write_all(answer);
    });
    let mut daemon = checking(backend.address, check);
    daemon.line(&format!("Health check FAILED: web/{} ({reason}) is down", backend.address));
}

/// The same with a server that says this and then nothing.
fn fails_late(check: &str, answer: &'static [u8], reason: &str) {
    let backend = Backend::new(move |mut stream| {
        let _ = stream.write_all(answer);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let health = format!("{check}\ntimeout = \"150ms\"\ninterval = \"200ms\"\n");
    let mut daemon = Setup::new(&[backend.address]).health(&health).start();
    daemon.line(&format!("Health check FAILED: web/{} ({reason}) is down", backend.address));
}

const HTTP: &str = "type = \"http\"\npath = \"/health\"";
const TEXT: &str = "type = \"http\"\nexpect_body = \"all fine\"";
const END: &str = "\r\n\r\n";

#[test]
fn an_http_check_passes_by_status() {
    let request = "GET /health HTTP/1.1\r\nHost: HOST\r\nUser-Agent: evenkeel\r\n\
                   Accept: */*\r\nConnection: close\r\n\r\n";
    // The server closes first here: it is asked to, and waits for nobody.
    let (tell, asked) = channel();
    let backend = Backend::new(move |mut stream| {
        let mut said = vec![0; 4096];
        let count = stream.read(&mut said).unwrap();
        said.truncate(count);
        stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No ").unwrap();
        stream.write_all(b"Content\r\n\r\n").unwrap();
        let _ = tell.send(String::from_utf8(said).unwrap());
    });
    let mut daemon = checking(backend.address, HTTP);
    daemon.line("is up (status 204 in ");
    let seen = asked.recv_timeout(support::PATIENCE).unwrap();
    assert_eq!(seen, request.replace("HOST", &backend.address.to_string()));
}

/// The server goes on long after the verdict; an early end of ours would look like a broken client.
#[test]
fn an_http_check_lets_the_server_finish() {
    let (tell, ends) = channel();
    let backend = Backend::new(move |mut stream: TcpStream| {
        let mut space = [0; 4096];
        let _ = stream.read(&mut space);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\nall fine");
        stream.set_nonblocking(true).unwrap();
        let early = stream.read(&mut space).map_err(|error| error.kind());
        stream.set_nonblocking(false).unwrap();
        let sent = stream.write_all(&vec![b'x'; 499_992]);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let ending = read_end(&mut stream).1;
        let _ = tell.send((early, sent.is_ok(), ending));
    });
    let mut daemon = checking(backend.address, TEXT);
    daemon.line("is up (status 200, the expected text in ");
    for _ in 0..3 {
        let (early, sent, ending) = ends.recv_timeout(support::PATIENCE).unwrap();
        assert_eq!(early, Err(std::io::ErrorKind::WouldBlock), "no end before ours");
        assert_eq!((sent, ending), (true, Ending::Orderly));
    }
}

#[test]
fn an_http_check_finds_its_text_in_chunks() {
    let pieces: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\nTransfer-Enco",
        b"ding: chunked\r\n\r\n6\r\nis all\r",
        b"\n5\r\n fi",
        b"ne\r\n0\r\n\r\n",
    ];
    let (backend, _visits) = scripted(END, pieces);
    checking(backend.address, TEXT).line("is up (status 200, the expected text in ");
}

#[test]
fn every_http_failure_has_its_reason() {
    let closes = |answer: &'static [u8], reason: &str| fails_at_the_end(TEXT, END, answer, reason);
    closes(b"", "closed without a response");
    closes(b"HTTP/1.1 503 No\r\n\r\n", "status 503, expected 200-299");
    closes(b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP/1");
    closes(b"HTTP/1.1 200 OK\r\nDate", "the response head was cut short");
    closes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall", "the body was cut short");
    closes(b"HTTP/1.1 200 OK\r\n\r\nall right", "no \"all fine\" in the body");
    closes(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx",
        "the chunked body is malformed: SIZE CRLF DATA CRLF was expected",
    );
    let head = b"HTTP/1.1 200 OK\r\nA: ";
    let long = [&head[..], &[b'x'; 20_000]].concat().leak();
    closes(long, "the response head is longer than 16 KiB");
}

#[test]
fn what_comes_too_late_is_named() {
    fails_late(HTTP, b"", "timed out waiting for a response");
    fails_late(HTTP, b"HTTP/1.1 200", "timed out waiting for the rest of the response head");
    let half = b"HTTP/1.1 200 OK\r\n\r\nall";
    fails_late(TEXT, half, "timed out waiting for the expected text in the body");
    fails_late("type = \"tcp\"\nexpect = \"hi\"", b"", "timed out waiting for an answer");
    fails_late("type = \"redis\"", b"+PO", "timed out waiting for PONG");
    fails_late("type = \"smtp\"", b"", "timed out waiting for the greeting");
    fails_late("type = \"smtp\"", b"220 a\r\n", "timed out waiting for the answer to EHLO");
    fails_late("type = \"mysql\"", b"\x4a\0\0", "timed out waiting for the greeting");
    fails_late("type = \"postgres\"", b"", "timed out waiting for an answer");
}

#[test]
fn a_reset_is_named() {
    let backend = Backend::new(|stream| {
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    });
    let mut daemon = checking(backend.address, "type = \"smtp\"");
    daemon.line("(connection reset by peer");
}

#[test]
fn an_exchange_passes_wherever_the_answer_is_cut() {
    let check = "type = \"tcp\"\nsend = \"hi\\n\"\nexpect = \"hex:00 6f 6b\"";
    passes(check, "hi\n", &[b"well, \0", b"o", b"k then"], ["answered as expected", "hi\n"]);
    fails_at_the_end(check, "hi\n", b"no\n", "the answer was \"no\", not the expected one");
}

#[test]
fn redis_is_pinged() {
    let (check, ping) = ("type = \"redis\"", "*1\r\n$4\r\nPING\r\n");
    passes(check, "PING\r\n", &[b"+PO", b"NG\r\n"], ["PONG", ping]);
    fails(check, "PING\r\n", &[b"-LOADING wait\r\n"], "the server says \"LOADING wait\"");
    fails_at_the_end(check, "PING\r\n", b"", "closed while waiting for PONG");
}

#[test]
fn a_mail_server_is_greeted() {
    let pieces: &[&[u8]] = &[b"220 mail\r\n250-mail\r\n", b"250 SIZE\r\n"];
    passes("type = \"smtp\"", "", pieces, ["ready", "EHLO localhost\r\nQUIT\r\n"]);
    let reason = "the server greets with \"554 go away\"";
    fails("type = \"smtp\"", "", &[b"554 go away\r\n"], reason);
}

/// A greeting and an OK.
const MYSQL: &[&[u8]] = &[
    b"\x21\0\0\0\x0a8.0.36\0\x01\0\0\0challeng\0\xff\xff\x21\x02\0\xff\xdf\x15abcd",
    b"\x07\0\0\x02\0\0\0\x02\0\0\0",
];

#[test]
fn a_mysql_server_is_logged_in_to() {
    let (backend, visits) = scripted("", MYSQL);
    let mut daemon = checking(backend.address, "type = \"mysql\"");
    daemon.line("is up (logged in in ");
    let Visit { said, ending } = next(&visits);
    assert!(said.contains("evenkeel\0\0mysql_native_password\0"), "{said:?}");
    assert!(said.ends_with("\x01\0\0\0\x01"), "a QUIT: {said:?}");
    assert_eq!(ending, Ending::Orderly);
    fails(
        "type = \"mysql\"",
        "",
        &[b"\x17\0\0\0\xff\x10\x04Too many connections"],
        "the server says \"Too many connections\"",
    );
}

#[test]
fn a_postgres_server_is_asked() {
    let asked = "\0\0\0\x08\x04\u{fffd}\x160";
    passes("type = \"postgres\"", "0", &[b"G"], ["answered", asked]);
    passes("type = \"postgres\"", "0", &[b"N"], ["answered", asked]);
    let reason = "\"HTTP/\" is not what a PostgreSQL server says";
    fails("type = \"postgres\"", "0", &[b"HTTP/1.1 400 Bad"], reason);
}

#[test]
fn another_port_and_another_address_are_probed_in_place_of_the_backend() {
    let (backend, checked) = (Port::reserve(), Backend::named("checked"));
    let number = checked.address.port();
    for place in [
        format!("port = {number}"),
        format!("address = \"127.0.0.1:{number}\""),
        format!("address = \"localhost:{number}\""),
    ] {
        let mut daemon = checking(backend.address, &format!("type = \"tcp\"\n{place}"));
        daemon.line(&format!("Health check OK: web/{} is up (connected in ", backend.address));
    }
}

/// A server behind a PROXY header takes no request without one, from probes neither.
#[test]
fn a_probe_begins_with_the_proxy_header_that_clients_bring() {
    let asked = "PROXY UNKNOWN\r\n*1\r\n$4\r\nPING\r\n";
    let (backend, visits) = scripted("PING\r\n", &[b"+PONG\r\n"]);
    let health = quick("type = \"redis\"");
    let setup = Setup::new(&[backend.address]).pool("send_proxy_protocol = \"v1\"");
    let mut daemon = setup.health(&health).start();
    daemon.line("is up (PONG in ");
    assert_eq!(next(&visits).said, asked);
    let other = Setup::new(&[backend.address]).pool("send_proxy_protocol = \"v1\"");
    let place = format!("{health}port = {}", backend.address.port());
    other.health(&place).start().line("is up (PONG in ");
    wait_until("a visit without a header", || next(&visits).said.starts_with('*'));
}

/// Two pools with one backend each, at the same address.
fn two_pools(first: &str, second: &str, address: SocketAddr) -> String {
    let pool = |name: &str, health: &str| {
        format!(
            "[listener.{name}]\nbind = [\"127.0.0.1:0\"]\n[pool.{name}]\n\
             backends = [\"{address}\"]\n[pool.{name}.health]\n{health}\n"
        )
    };
    pool("one", first) + &pool("two", second)
}

const HOUR: &str = "type = \"tcp\"\ninterval = \"1h\"\nfast_interval = \"1h\"\nfall = 1";

#[test]
fn one_probe_serves_all_who_ask_the_same_question() {
    let backend = Backend::named("a");
    let mut daemon = Daemon::configured(&two_pools(HOUR, HOUR, backend.address));
    daemon.line("Health check OK: one/");
    daemon.line("Health check OK: two/");
    // A probe passes before the backend has accepted it; whoever comes later is behind it.
    assert_eq!(ask(daemon.address_of("listener one "), ""), "a");
    assert_eq!(backend.accepted(), 2, "the probe and the client");
}

#[test]
fn another_question_or_another_rhythm_is_another_probe() {
    let backend = Backend::named("a");
    let often = HOUR.replace("interval = \"1h\"", "interval = \"2h\"");
    let says = HOUR.replace("\"tcp\"", "\"tcp\"\nexpect = \"a\"");
    for second in [often, says] {
        let before = backend.accepted();
        let mut daemon = Daemon::configured(&two_pools(HOUR, &second, backend.address));
        daemon.line("Health check OK: one/");
        daemon.line("Health check OK: two/");
        wait_until("both have probed", || backend.accepted() == before + 2);
    }
}

/// Traffic of one pool finds nobody: the probe that follows at once is for both pools.
#[test]
fn a_probe_that_one_pool_hurries_is_for_the_other_too() {
    let port = Port::reserve();
    let backend = Backend::on(port.listen(), |stream| support::backend::greet("a", stream));
    let mut daemon = Daemon::configured(&two_pools(HOUR, HOUR, port.address));
    daemon.line("Health check OK: two/");
    let (one, two) = (daemon.address_of("listener one "), daemon.address_of("listener two "));
    assert_eq!((ask(one, ""), ask(two, "")), ("a".into(), "a".into()));
    drop(backend);
    let _ = try_ask(one, "");
    daemon.line(&format!("Health check FAILED: one/{} (connection refused)", port.address));
    daemon.line(&format!("Health check FAILED: two/{} (connection refused)", port.address));
}

#[test]
fn probes_that_talk_leave_no_descriptor_behind() {
    let (backend, visits) = scripted("PING", &[b"-LOADING\r\n"]);
    let file = Setup::new(&[backend.address]).health(&quick("type = \"redis\"")).text();
    let file = config_file(&file);
    let daemon = Daemon::start(&["run", "-c", file.path().to_str().unwrap()]);
    (0..5).for_each(|_| drop(next(&visits)));
    let early = daemon.descriptors();
    (0..40).for_each(|_| drop(next(&visits)));
    assert!(daemon.descriptors() <= early + 2);
}
