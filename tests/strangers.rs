//! Client commands where another program answers, and where nobody takes what they print.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use support::backend::Backend;
use support::command::{command, say};
use support::daemon::{Daemon, Setup, config_file, program};

fn started(backend: &Backend) -> (Daemon, SocketAddr) {
    let text = Setup::new(&[backend.address]).text();
    let mut daemon = Daemon::configured(&(text + "\n[admin]\nlisten = '127.0.0.1:0'\n"));
    let admin = daemon.address_of("(admin)");
    (daemon, admin)
}

/// Answers whatever it is asked with this body.
fn stranger(body: &'static str) -> Backend {
    Backend::new(move |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 4096]);
        let length = body.len();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    })
}

#[test]
fn the_answer_of_another_program_is_not_shown_as_that_of_a_balancer() {
    let lines = [
        "status",
        "status --json",
        "top --once",
        "top --once --json",
        "explain",
        "explain --json",
        "explain --json --pool web",
        "sessions",
        "sessions --json",
        "sessions --json --cut 1",
        "drain web/127.0.0.1:1",
        "drain --json web/127.0.0.1:1",
        "reload --json",
        "plan --json",
    ];
    for body in ["<html>hello</html>", "{}", "[]", "3", ""] {
        let other = stranger(body);
        for line in lines {
            let (code, out, errors) = say(other.address, line);
            assert_eq!((code, out.as_str()), (Some(6), ""), "{line}: {body:?}: {errors}");
            assert!(errors.contains("it is no evenkeel"), "{line}: {body:?}: {errors}");
        }
    }
    let other = stranger("{\"status\":\"ok\",\"service\":\"another\"}");
    for line in ["status", "status --json", "top --once"] {
        let (code, out, errors) = say(other.address, line);
        assert_eq!((code, out.as_str()), (Some(6), ""), "{line}: {errors}");
    }
}

#[test]
fn a_table_that_does_not_come_is_not_fine() {
    let backend = Backend::echo();
    let (_daemon, admin) = started(&backend);
    let (code, status, _) = say(admin, "status --json");
    assert_eq!(code, Some(0));
    // It answers once, and then says another thing.
    let text: &'static str = String::leak(status);
    let asked = AtomicUsize::new(0);
    let fickle = Backend::new(move |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 4096]);
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        let body = if first { text } else { "gone" };
        let length = body.len();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    });
    let (code, out, errors) = say(fickle.address, "top --batch -n 1 -d 1s");
    assert_eq!((code, out.as_str()), (Some(6), ""), "{errors}");
}

#[test]
fn an_output_that_takes_nothing_is_a_failure() {
    let backend = Backend::echo();
    let (_daemon, admin) = started(&backend);
    let name = format!("web/{}", backend.address);
    for line in [
        "status",
        "status --json",
        "explain",
        "sessions",
        "reload",
        "man",
        &format!("drain {name}"),
        &format!("drain --wait --json {name}"),
        &format!("ready {name}"),
        &format!("weight {name} 2"),
        "add web 127.0.0.1:1",
        "remove web/127.0.0.1:1",
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(admin, line).stdout(full).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{line}: {errors}");
        assert!(errors.contains("No space left"), "{line}: {errors}");
    }
    let file = config_file(&Setup::new(&[backend.address]).text());
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut check = program();
    check.args(["check", "-c"]).arg(file.path()).stdout(full);
    assert_eq!(check.output().unwrap().status.code(), Some(1));
}
