//! `evenkeel status` over a running balancer: the table, the JSON, and what is said when it cannot.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Output, Stdio};

use support::backend::Backend;
use support::client::ask;
use support::daemon::{Daemon, Setup, program};
use support::ports::Port;

fn started(backend: SocketAddr, admin: &str) -> Daemon {
    let text = Setup::new(&[backend]).text();
    Daemon::configured(&format!("{text}\n[admin]\n{admin}\n"))
}

/// What the command prints and how it ends, asked by an environment that names `admin`.
fn status(admin: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = program();
    command.env_remove("EVENKEEL_TOKEN_FILE").env("EVENKEEL_ADMIN", admin);
    command.arg("status").args(arguments);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let Output { status, stdout, stderr } = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_table_shows_what_the_json_says() {
    let backend = Backend::echo();
    let mut daemon = started(backend.address, "listen = '127.0.0.1:0'");
    let (admin, front) = (daemon.address_of("(admin)").to_string(), daemon.address());
    assert_eq!(ask(front, "ping"), "ping");
    let (code, table, errors) = status(&admin, &[]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let row = table.lines().find(|line| line.starts_with(&backend.address.to_string())).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[1], "up", "{table}");
    assert_eq!(cells[4..], ["1", "0", "1", "0"], "weight, active, total, failed: {table}");
    assert!(table.contains(&format!("4 B       4 B  {front}\n")), "{table}");
    assert!(table.contains("1 client closed\n"), "{table}");

    let (code, json, _) = status("127.0.0.1:1", &["--json", "--admin", &admin]);
    assert_eq!(code, Some(0), "the option holds over the environment");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["pools"][0]["backends"][0]["total"], 1);
}

#[test]
fn a_unix_socket_is_asked_as_well() {
    let (backend, folder) = (Backend::echo(), tempfile::tempdir().unwrap());
    let admin = format!("unix:{}", folder.path().join("a.sock").display());
    let _daemon = started(backend.address, &format!("listen = '{admin}'"));
    let (code, table, errors) = status(&admin, &[]);
    assert!(code == Some(0) && table.contains("POOL web\n"), "{table}{errors}");
}

#[test]
fn a_balancer_with_a_token_wants_it() {
    let (backend, token) = (Backend::echo(), tempfile::NamedTempFile::new().unwrap());
    std::fs::write(token.path(), "s3cret-s3cret").unwrap();
    let file = token.path().to_str().unwrap();
    let admin = format!("listen = '127.0.0.1:0'\ntoken_file = '{file}'");
    let mut daemon = started(backend.address, &admin);
    let admin = daemon.address_of("(admin)").to_string();
    let (code, _, errors) = status(&admin, &[]);
    assert!(code == Some(1) && errors.contains("--token-file"), "{code:?} {errors}");
    let (code, table, errors) = status(&admin, &["--token-file", file]);
    assert!(code == Some(0) && table.contains("POOL web\n"), "{errors}");
    let (code, _, errors) = status(&admin, &["--token-file", "/nowhere"]);
    assert!(code == Some(1) && errors.contains("`/nowhere` is not there"), "{errors}");
}

#[test]
fn who_does_not_answer_is_named_with_the_cure() {
    let reserved = Port::reserve();
    let nobody = reserved.address.to_string();
    let stranger = Backend::new(|mut stream| {
        // It may have left.
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9\r\n");
    });
    let (_, _, errors) = status(&nobody, &[]);
    assert!(errors.contains(" (connection refused); "), "{errors}");
    for admin in [nobody, stranger.address.to_string(), "unix:/nowhere/admin.sock".to_owned()] {
        let (code, table, errors) = status(&admin, &[]);
        assert_eq!((code, table.as_str()), (Some(6), ""), "{errors}");
        assert!(errors.contains(&format!("admin address {admin} (")), "{errors}");
        assert!(errors.contains("EVENKEEL_ADMIN"), "{errors}");
    }
}
