//! The test backends: lines and pages, as anybody would try them.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use support::client::{Ending, ask, connect, read_end, read_text};
use support::daemon::{Daemon, program};
use support::noise::{Digest, Noise};
use support::ports::Port;

#[test]
fn a_line_comes_back_with_the_port_in_front() {
    let port = Port::reserve();
    let number = port.address.port();
    let mut backend = Daemon::start(&["backend", "--port", &number.to_string()]);
    assert_eq!(backend.address(), port.address);
    backend.line(&format!("listening on 127.0.0.1:{number} (test backend)"));
    assert_eq!(ask(port.address, "hello\n"), format!("[backend:{number}] hello\n"));
    let two = format!("[backend:{number}] one\n[backend:{number}] two\n");
    assert_eq!(ask(port.address, "one\ntwo"), two, "the last line end is supplied");
    assert_eq!(ask(port.address, ""), "");
}

#[test]
fn lines_are_answered_while_the_connection_goes_on() {
    let mut backend = Daemon::backend(&["--name", "blue"]);
    let mut client = connect(backend.address());
    for round in 0..5 {
        writeln!(client, "round {round}").unwrap();
        assert_eq!(read_text(&mut client, 15), format!("[blue] round {round}\n"));
    }
}

#[test]
fn port_zero_takes_a_free_one_and_names_it() {
    let mut backends = [(); 3].map(|()| Daemon::backend(&[]));
    for backend in &mut backends {
        let address = backend.address();
        assert_ne!(address.port(), 0);
        assert_eq!(ask(address, "x"), format!("[backend:{}] x\n", address.port()));
    }
}

#[test]
fn it_listens_where_it_is_told() {
    let mut six = Daemon::start(&["backend", "--listen", "[::1]:0", "--name", "six"]);
    assert_eq!(ask(six.address(), "x"), "[six] x\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _unix = Daemon::start(&["backend", "--listen", &format!("unix:{}", path.display())]);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"x\n").unwrap();
    assert_eq!(read_text(&mut client, 12), "[backend] x\n");
}

#[test]
fn an_answer_can_be_delayed_without_holding_up_others() {
    let mut slow = Daemon::backend(&["--delay", "1h", "--name", "slow"]);
    let mut waiting = connect(slow.address());
    waiting.write_all(b"x\n").unwrap();
    waiting.set_nonblocking(true).unwrap();
    let mut late = Daemon::backend(&["--delay", "200ms", "--name", "late"]);
    assert_eq!(ask(late.address(), "x\n"), "[late] x\n");
    let error = waiting.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "an hour has not passed");
}

#[test]
fn a_line_of_any_length_comes_back_whole() {
    let mut backend = Daemon::backend(&["--name", "b"]);
    let mut client = connect(backend.address());
    let mut writing = client.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let mut noise = Noise::new(11).take(8 * 1024 * 1024);
        noise.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'.');
        writing.write_all(&noise).unwrap();
        writing.shutdown(std::net::Shutdown::Write).unwrap();
        noise
    });
    let (got, ending) = read_end(&mut client);
    let sent = [b"[b] ", &writer.join().unwrap()[..], b"\n"].concat();
    assert_eq!((Digest::of(&got), ending), (Digest::of(&sent), Ending::Orderly));
}

fn http(backend: &mut Daemon, request: &str) -> String {
    let text = format!("{request}\r\nHost: test\r\nConnection: close\r\n\r\n");
    ask(backend.address(), &text)
}

#[test]
fn a_page_names_the_port_the_path_and_the_method() {
    let mut backend = Daemon::backend(&["--http"]);
    let port = backend.address().port();
    let answer = http(&mut backend, "POST /some/path?q=1 HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains(&format!("<h1>Backend Server {port}</h1>")), "{answer}");
    assert!(answer.contains("/some/path") && answer.contains("POST"), "{answer}");
}

#[test]
fn its_health_is_fine() {
    let mut backend = Daemon::backend(&["--http", "--name", "blue"]);
    let answer = http(&mut backend, "GET /health HTTP/1.1");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!((body["status"].as_str(), body["backend"].as_str()), (Some("ok"), Some("blue")));
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    let mut backend = Daemon::backend(&["--http"]);
    let request = "GET /n HTTP/1.1\r\nHost: test\r\n\r\n";
    let last = "GET /n HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let answer = ask(backend.address(), &[request, request, last].concat());
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
}

#[test]
fn nonsense_is_refused_in_order() {
    let mut backend = Daemon::backend(&["--http"]);
    let answer = ask(backend.address(), "\u{1}\u{2} nonsense\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(http(&mut backend, "GET / HTTP/1.1").contains("200 OK"), "it lives on");
}

#[test]
fn a_port_that_is_taken_is_said_clearly() {
    let port = Port::reserve();
    let _taken = port.listen();
    let mut command = program();
    command.args(["backend", "--port", &port.address.port().to_string()]);
    let mut backend = Daemon::spawn(command);
    assert_eq!(backend.exit_code(), Some(4));
    backend.line_with(&[&format!("cannot listen on {}", port.address), "in use"]);
}
