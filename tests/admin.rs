//! The admin address over the real program: what it tells, whom, and that it disturbs nobody.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::Value;
use support::backend::Backend;
use support::client::{ask, connect, read_end, read_text, try_ask};
use support::daemon::{Daemon, QUICK_HEALTH, Setup, program};
use support::ports::Port;
use support::{wait_for, wait_until};

/// A balancer with this backend, and an admin address on a free port.
fn start(backend: SocketAddr) -> (Daemon, SocketAddr) {
    started(&Setup::new(&[backend]).text(), "listen = '127.0.0.1:0'")
}

fn started(text: &str, admin: &str) -> (Daemon, SocketAddr) {
    let mut daemon = Daemon::configured(&format!("{text}\n[admin]\n{admin}\n"));
    let address = daemon.address_of("(admin)");
    (daemon, address)
}

fn request(method: &str, path: &str, fields: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// Status and body of the only answer to a request.
fn answer(admin: SocketAddr, request: &str) -> (u16, String) {
    let whole = ask(admin, request);
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn get(admin: SocketAddr, path: &str) -> (u16, String) {
    answer(admin, &request("GET", path, ""))
}

fn json(admin: SocketAddr, path: &str) -> Value {
    let (_, body) = get(admin, path);
    serde_json::from_str(&body).unwrap()
}

fn codes(answers: &str) -> Vec<&str> {
    let answers = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]);
    answers.filter(|code| code.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

#[test]
fn every_endpoint_tells_of_the_same_traffic() {
    let (up, down) = (Backend::echo(), Port::reserve());
    let health = "interval = '100ms'\nfast_interval = '50ms'\ntimeout = '10s'";
    let setup = Setup::new(&[up.address, down.address]).health(health);
    let (mut daemon, admin) = started(&setup.text(), "listen = '127.0.0.1:0'");
    daemon.line("is up");
    daemon.line("is down");
    let front = daemon.address();
    let mut client = connect(front);
    client.write_all(b"ping").unwrap();
    read_text(&mut client, 4);

    let (status, body) = get(admin, "/health");
    let expected =
        r#"{"status":"healthy","service":"evenkeel","targets":2,"healthy":1}"#.to_owned() + "\n";
    assert_eq!((status, body), (200, expected));
    let targets = json(admin, "/targets");
    assert_eq!(targets[0]["address"], up.address.to_string());
    assert_eq!(targets[0]["url"], format!("tcp://{}", up.address));
    assert_eq!((&targets[0]["healthy"], &targets[1]["healthy"]), (&true.into(), &false.into()));
    assert_eq!((&targets[1]["state"], &targets[0]["active"]), (&"down".into(), &1.into()));

    let whole = json(admin, "/api/v1/status");
    assert_eq!(whole["state"], "running");
    assert_eq!((&whole["connections"]["active"], &whole["bytes_sent"]), (&1.into(), &4.into()));
    assert_eq!(whole["listeners"][0]["addresses"][0], front.to_string());
    let fallen = &whole["pools"][0]["backends"][1];
    assert!(fallen["reason"].as_str().unwrap().contains("connection refused"), "{fallen}");
    assert_eq!(fallen["health_transitions"], 1);

    let (_, metrics) = get(admin, "/metrics");
    for line in [
        "evenkeel_connections_active{listener=\"web\"} 1".to_owned(),
        "evenkeel_bytes_received_total{listener=\"web\"} 4".to_owned(),
        format!("evenkeel_backend_up{{pool=\"web\",backend=\"{}\"}} 1", up.address),
        format!("evenkeel_backend_up{{pool=\"web\",backend=\"{}\"}} 0", down.address),
    ] {
        assert!(metrics.lines().any(|written| written == line), "{line}\n{metrics}");
    }
    let failed = metrics.lines().find(|l| l.starts_with("evenkeel_health_checks_total{result=\"f"));
    assert!(!failed.unwrap().ends_with(" 0"), "{metrics}");
    drop(client);
    wait_until("the end is counted", || {
        get(admin, "/metrics").1.contains("ended_total{reason=\"client closed\"} 1\n")
    });
    let status = daemon.status();
    assert!(status[0].contains("1 accepted"), "asking is no connection: {status:?}");
}

#[test]
fn the_status_looks_back_at_probes_and_events() {
    let (up, down) = (Backend::echo(), Port::reserve());
    let setup = Setup::new(&[up.address, down.address]).health(QUICK_HEALTH);
    let (mut daemon, admin) = started(&setup.text(), "listen = '127.0.0.1:0'");
    daemon.line("is up");
    let told = daemon.line("is down");
    let status = wait_for("three probes of each", || {
        let status = json(admin, "/api/v1/status");
        let backends = status["pools"][0]["backends"].as_array().unwrap().clone();
        let enough = |b: &Value| b["probes"]["results"].as_str().unwrap().len() >= 3;
        backends.iter().all(enough).then_some(status)
    });
    assert_eq!(status["pools"][0]["balance"], "round-robin");
    assert_eq!(status["pools"][0]["waiting"], 0);
    for (index, sign) in [(0, '+'), (1, '-')] {
        let probes = &status["pools"][0]["backends"][index]["probes"];
        let results = probes["results"].as_str().unwrap();
        assert!(results.chars().all(|c| c == sign), "{probes}");
        for list in ["milliseconds", "seconds_ago"] {
            assert_eq!(probes[list].as_array().unwrap().len(), results.len(), "{probes}");
        }
    }
    let event = |text: &str| {
        let events = status["events"].as_array().unwrap();
        events.iter().find(|event| event["text"].as_str().unwrap().contains(text)).cloned()
    };
    let fall = event("is down").unwrap();
    assert!(told.ends_with(fall["text"].as_str().unwrap()), "{told} {fall}");
    assert_eq!((&fall["level"], &fall["times"]), (&"info".into(), &1.into()));
    let uptime = status["uptime_milliseconds"].as_u64().unwrap();
    assert_eq!(uptime / 1000, status["uptime_seconds"].as_u64().unwrap());
    let (_again, second) = started(&setup.text(), "listen = '127.0.0.1:0'");
    let other = json(second, "/api/v1/status");
    assert_ne!(status["instance"], other["instance"]);
    assert_eq!(status["instance"], json(admin, "/api/v1/status")["instance"]);
}

#[test]
fn while_it_drains_health_says_so_and_then_it_goes() {
    let backend = Backend::echo();
    let (mut daemon, admin) = start(backend.address);
    let mut client = connect(daemon.address());
    client.write_all(b"ping").unwrap();
    read_text(&mut client, 4);
    daemon.signal(Signal::TERM);
    daemon.line("no longer accepting");
    let (status, body) = get(admin, "/health");
    assert!(status == 503 && body.contains("\"draining\""), "{status} {body}");
    assert_eq!(json(admin, "/api/v1/status")["listeners"][0]["addresses"], serde_json::json!([]));
    let _idle = connect(admin);
    client.shutdown(Shutdown::Write).unwrap();
    read_end(&mut client);
    assert_eq!(daemon.exit_code(), Some(0), "an admin client does not hold it up");
}

#[test]
fn requests_on_one_connection_are_answered_in_their_order() {
    let backend = Backend::echo();
    let (_daemon, admin) = start(backend.address);
    let post = request("POST", "/health", "Content-Length: 3\r\n") + "abc";
    let several = [
        request("GET", "/health", ""),
        request("GET", "/nothing", ""),
        post,
        request("HEAD", "/targets", ""),
        request("GET", "/targets", ""),
    ];
    assert_eq!(codes(&ask(admin, &several.concat())), ["200", "404", "405", "200", "200"]);
    let mut client = connect(admin);
    for _ in 0..3 {
        client.write_all(request("HEAD", "/health", "").as_bytes()).unwrap();
        assert_eq!(read_text(&mut client, 15), "HTTP/1.1 200 OK");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head += &read_text(&mut client, 1);
        }
    }
}

/// Whatever changes something, or tells what would be changed.
const CHANGES: [(&str, &str); 7] = [
    ("PATCH", "/api/v1/pools/web/backends/a:1"),
    ("DELETE", "/api/v1/pools/web/backends/a:1"),
    ("POST", "/api/v1/pools/web/backends"),
    ("POST", "/addServer"),
    ("DELETE", "/delete"),
    ("POST", "/api/v1/reload"),
    ("POST", "/api/v1/plan"),
];

#[test]
fn attacks_are_refused_and_nothing_behind_them_is_read() {
    let backend = Backend::echo();
    let (_daemon, admin) = start(backend.address);
    let hidden = request("GET", "/targets", "");
    let long = request("GET", "/", &format!("A: {}\r\n", "x".repeat(16 * 1024)));
    for (attack, code) in [
        ("GET /targets HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "403"),
        (
            "GET http://evil.example/targets HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "400",
        ),
        ("GET /targets HTTP/1.1\r\n\r\n", "400"),
        ("POST /targets HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n", "413"),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\
          \r\n\r\n0\r\n\r\n",
            "400",
        ),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
            "400",
        ),
        ("CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n", "501"),
        ("\x16\x03\x01\x02\x00\x01\x00", "400"),
        ("\0\0\0\0", "400"),
        (&long, "431"),
    ] {
        let mut client = connect(admin);
        // The rest may find the connection closed.
        let _ = client.write_all(format!("{attack}{hidden}").as_bytes());
        let mut said = vec![0; 64 * 1024];
        let count = client.read(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..count]).into_owned();
        assert_eq!(codes(&said), [code], "{attack}: {said}");
        assert!(said.contains("\r\n\r\n{\"error\":\""), "{said}");
    }
    // What a form of another origin would send cannot change anything.
    for (method, path) in CHANGES {
        for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
            let form = format!("Content-Type: {kind}\r\nContent-Length: 2\r\n");
            let (code, said) = answer(admin, &(request(method, path, &form) + "{}"));
            assert_eq!(code, 415, "{method} {path} {said}");
        }
    }
    assert_eq!(get(admin, "/health").0, 200);
}

#[test]
fn with_a_token_the_state_is_told_only_to_who_knows_it() {
    let backend = Backend::echo();
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cret-s3cret\n").unwrap();
    let admin = format!("listen = '127.0.0.1:0'\ntoken_file = '{}'", token.path().display());
    let (_daemon, admin) = started(&Setup::new(&[backend.address]).text(), &admin);
    assert_eq!(get(admin, "/health").0, 200);
    for path in ["/targets", "/metrics", "/api/v1/status", "/nothing"] {
        assert_eq!(get(admin, path).0, 401, "{path}");
        let wrong = request("GET", path, "Authorization: Bearer s3cret-s3creT\r\n");
        assert_eq!(answer(admin, &wrong).0, 401, "{path}");
    }
    let right = request("GET", "/targets", "Authorization: Bearer s3cret-s3cret\r\n");
    assert_eq!(answer(admin, &right).0, 200);
    let json = "Content-Type: application/json\r\nContent-Length: 2\r\n";
    for (method, path) in CHANGES {
        for token in ["", "Authorization: Bearer s3cret\r\n"] {
            let (code, said) =
                answer(admin, &(request(method, path, &(json.to_owned() + token)) + "{}"));
            assert_eq!(code, 401, "{method} {path} {said}");
        }
    }
}

#[test]
fn the_dashboard_needs_no_token_and_holds_none() {
    let backend = Backend::echo();
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cret-s3cret\n").unwrap();
    let admin = format!("listen = '127.0.0.1:0'\ntoken_file = '{}'", token.path().display());
    let (_daemon, admin) = started(&Setup::new(&[backend.address]).text(), &admin);
    let whole = ask(admin, &request("GET", "/", ""));
    let (head, page) = whole.split_once("\r\n\r\n").unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(!page.contains("s3cret") && !page.contains(&backend.address.to_string()));
    for line in [
        "HTTP/1.1 200 OK",
        "Content-Type: text/html; charset=utf-8",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Referrer-Policy: no-referrer",
    ] {
        assert!(head.lines().any(|said| said == line), "{line}\n{head}");
    }
    let policy = head.lines().find(|line| line.starts_with("Content-Security-Policy: ")).unwrap();
    for part in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert_eq!(ask(admin, &request("HEAD", "/", "")), format!("{head}\r\n\r\n"));
    let foreign = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    assert_eq!(answer(admin, foreign).0, 403);
    assert_eq!(answer(admin, &request("POST", "/", "Content-Length: 0\r\n")).0, 405);
}

#[test]
fn a_unix_socket_is_for_its_user_and_group() {
    let (backend, folder) = (Backend::echo(), tempfile::tempdir().unwrap());
    let path = folder.path().join("admin.sock");
    let text = Setup::new(&[backend.address]).text();
    let mut daemon =
        Daemon::configured(&format!("{text}\n[admin]\nlisten = 'unix:{}'\n", path.display()));
    daemon.line(&format!("listening on unix:{} (admin)", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(request("GET", "/health", "Connection: close\r\n").as_bytes()).unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(codes(&said), ["200"], "{said}");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
    assert!(!path.exists(), "nothing is left behind");
}

#[test]
fn clients_that_only_sit_there_are_closed_and_others_get_their_places() {
    let backend = Backend::echo();
    let (mut daemon, admin) = start(backend.address);
    let front = daemon.address();
    let before = daemon.descriptors();
    let mut sitting: Vec<TcpStream> = (0..64).map(|_| connect(admin)).collect();
    // Half of them begin a request and go no further.
    for client in &mut sitting[..32] {
        client.write_all(b"GET /health HTTP/1.1\r\nHost: loc").unwrap();
    }
    wait_until("they are let in", || daemon.descriptors() == before + 64);
    let mut one_too_many = connect(admin);
    one_too_many.write_all(request("GET", "/health", "").as_bytes()).unwrap();
    assert_eq!(ask(front, "traffic"), "traffic", "which does not notice");
    assert_eq!(daemon.descriptors(), before + 64, "the others wait");
    assert_eq!(read_text(&mut one_too_many, 15), "HTTP/1.1 200 OK");
    let mut newest = sitting.pop().unwrap();
    newest.write_all(request("GET", "/health", "").as_bytes()).unwrap();
    assert_eq!(read_text(&mut newest, 15), "HTTP/1.1 200 OK", "one place was enough");
    for mut client in sitting {
        assert!(read_end(&mut client).0.is_empty(), "their time is over");
    }
    drop((one_too_many, newest));
    wait_until("and their descriptors are free", || daemon.descriptors() <= before + 1);
    assert_eq!(get(admin, "/health").0, 200);
}

#[test]
fn a_flood_of_requests_that_nobody_reads_the_answers_of_disturbs_nobody() {
    let backend = Backend::echo();
    let (mut daemon, admin) = start(backend.address);
    let front = daemon.address();
    let flood = request("GET", "/api/v1/status", "").repeat(100_000);
    let mut flooding: Vec<TcpStream> = (0..8).map(|_| connect(admin)).collect();
    for client in &mut flooding {
        client.set_nonblocking(true).unwrap();
        // As much as it takes.
        let _ = client.write(flood.as_bytes()).unwrap();
    }
    let before = daemon.memory();
    for _ in 0..50 {
        assert_eq!(ask(front, "traffic"), "traffic");
    }
    assert_eq!(get(admin, "/health").0, 200, "and others are answered in between");
    let grown = daemon.memory().saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB");
    drop(flooding);
    // Nothing is left to do, so the loop sleeps.
    wait_until("the loop sleeps", || {
        let turns = |status: Vec<String>| -> u64 {
            let (_, rest) = status[0].split_once("failed connects, ").unwrap();
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        let before = turns(daemon.status());
        turns(daemon.status()) - before < 50
    });
}

#[test]
fn an_address_that_cannot_be_is_told_with_its_cure() {
    let taken = Port::reserve();
    let _listener = taken.listen();
    let address = taken.address.to_string();
    let failing = |admin: &str| {
        let mut command = program();
        command.args(["run", "-l", "127.0.0.1:0", "--admin", admin, "127.0.0.1:1"]);
        let mut daemon = Daemon::spawn(command);
        (daemon.exit_code(), daemon.log().join("\n"))
    };
    let (code, said) = failing(&address);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&address) && said.contains("--admin or [admin]"), "{said}");
    let (code, said) = failing(":0");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("has no token") && said.contains("127.0.0.1:0"), "{said}");
}

#[test]
fn without_an_admin_address_nobody_listens_there() {
    let backend = Backend::echo();
    let mut daemon = Setup::new(&[backend.address]).start();
    assert_eq!(daemon.count("(admin)"), 0);
    // What was asked for is what is told, and a client that asks there speaks to the backend.
    let front = daemon.address();
    let request = request("GET", "/health", "");
    assert_eq!(wait_for("an echo", || try_ask(front, &request).ok()), request);
}
