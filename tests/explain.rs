//! Asked why, over the real program: what is told is what has happened, at the time it did.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use support::admin::request;
use support::backend::Backend;
use support::client::{ask, connect, read_end, read_text, reset};
use support::daemon::{Daemon, QUICK_HEALTH, Setup, program};
use support::ports::Port;
use support::wait_for;

fn started(setup: Setup) -> (Daemon, SocketAddr) {
    let setup = setup.global("access_log = \"both\"");
    let mut daemon = Daemon::configured(&(setup.text() + "\n[admin]\nlisten = '127.0.0.1:0'\n"));
    let admin = daemon.address_of("(admin)");
    (daemon, admin)
}

fn get(admin: SocketAddr, query: &str) -> Value {
    let (status, answer) = request(admin, &format!("GET /api/v1/explain?{query}"), "");
    assert_eq!(status, 200, "{query}: {answer}");
    answer
}

/// What is told of one connection.
fn explain(admin: SocketAddr, id: u64) -> Value {
    let answer = get(admin, &format!("id={id}"));
    assert_eq!(answer["decisions"].as_array().unwrap().len(), 1);
    answer["decisions"][0].clone()
}

/// The same once it has ended.
fn explain_end(admin: SocketAddr, id: u64) -> Value {
    wait_for("the connection has ended", || {
        Some(explain(admin, id)).filter(|told| !told["end"].is_null())
    })
}

fn change(admin: SocketAddr, backend: SocketAddr, wishes: &Value) {
    let head = format!("PATCH /api/v1/pools/web/backends/{backend}");
    assert_eq!(request(admin, &head, &wishes.to_string()).0, 200);
}

/// What was said for or against a backend in the latest choice.
fn said(told: &Value, backend: SocketAddr) -> (String, String) {
    let choice = told["choices"].as_array().unwrap().last().unwrap();
    let all = choice["candidates"].as_array().unwrap();
    let found = all.iter().find(|candidate| candidate["backend"] == json!(backend)).unwrap();
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    (text("verdict"), text("why"))
}

#[test]
fn a_connection_is_told_as_its_access_line_tells_it() {
    let (a, b) = (Backend::named("hello "), Backend::named("b"));
    let (mut daemon, admin) =
        started(Setup::new(&[a.address, b.address]).pool("balance = \"least-connections\""));
    let mut client = connect(daemon.address());
    let peer = client.local_addr().unwrap();
    client.write_all(b"world").unwrap();
    assert_eq!(read_text(&mut client, 11), "hello world");
    let lives = explain(admin, 1);
    assert_eq!((&lives["client"], &lives["end"]), (&json!(peer), &Value::Null));
    assert_eq!((&lives["listener"], &lives["pool"]), (&json!("web"), &json!("web")));
    client.shutdown(Shutdown::Write).unwrap();
    read_end(&mut client);

    let line = daemon.line("connection ended id=1 ");
    let told = explain_end(admin, 1);
    let end = &told["end"];
    assert!(line.contains(&format!("reason={}", end["reason"])), "{line} {end}");
    assert_eq!((&end["reason"], &end["by"]), (&json!("client closed"), &json!("client")));
    assert_eq!((&end["received"], &end["sent"]), (&json!(5), &json!(11)));
    assert!(line.contains(&format!("duration_ms={} ", end["duration_ms"])), "{line} {end}");
    for (what, time) in end["waited_ms"].as_object().unwrap() {
        assert!(line.contains(&format!(" {what}_ms={time} ")), "{what} {line} {end}");
    }

    let choice = &told["choices"][0];
    assert_eq!((&told["choices_made"], &choice["outcome"]), (&json!(1), &json!("chosen")));
    assert_eq!(
        (&choice["algorithm"], &choice["backends"]),
        (&"least-connections".into(), &2.into())
    );
    assert_eq!((&choice["backend"], &choice["eligible"]), (&json!(a.address), &json!(2)));
    let (verdict, why) = said(&told, b.address);
    assert_eq!((&*verdict, &*why), ("eligible", "load 1.00 (0 connections, weight 1)"));
    let attempt = &told["attempts"][0];
    assert_eq!(
        (&attempt["backend"], &attempt["outcome"]),
        (&json!(a.address), &"connected".into())
    );
    assert_eq!((&attempt["error"], &told["attempts_made"]), (&Value::Null, &json!(1)));
}

#[test]
fn a_refused_connect_is_told_with_its_error_and_what_came_after_it() {
    let (dead, alive) = (Port::reserve(), Backend::named("a"));
    let (mut daemon, admin) = started(Setup::new(&[dead.address, alive.address]));
    assert_eq!(ask(daemon.address(), ""), "a");
    daemon.line("connection ended id=1 ");
    let told = explain_end(admin, 1);
    let outcomes: Vec<(&Value, &Value, &Value)> = told["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| (&attempt["backend"], &attempt["outcome"], &attempt["error"]))
        .collect();
    assert_eq!(
        outcomes,
        [
            (&json!(dead.address), &json!("failed"), &json!("connection refused")),
            (&json!(alive.address), &json!("connected"), &Value::Null),
        ]
    );
    assert_eq!(told["choices_made"], 2);
    assert_eq!(told["choices"][0]["backend"], json!(dead.address));
    assert_eq!(told["choices"][1]["backend"], json!(alive.address));
    assert_eq!(told["choices"][1]["why"], "the only one that could be chosen");
    let expected = ("passed over".to_owned(), "tried before by this connection".to_owned());
    assert_eq!(said(&told, dead.address), expected);
}

#[test]
fn who_could_not_be_helped_is_told_why() {
    let dead = Port::reserve();
    let (mut daemon, admin) = started(Setup::new(&[dead.address]));
    assert!(read_end(&mut connect(daemon.address())).0.is_empty());
    let line = daemon.line("connection ended id=1 ");
    let told = explain_end(admin, 1);
    assert!(line.contains(&format!("reason={}", told["end"]["reason"])), "{line}");
    assert_eq!(told["end"]["reason"], "no backend could be connected");
    assert_eq!(told["end"]["by"], "evenkeel");
    let choice = &told["choices"][1];
    assert_eq!((&choice["outcome"], &choice["backend"]), (&json!("nobody"), &Value::Null));
    assert_eq!(choice["why"], "no other backend could serve");
}

#[test]
fn each_that_is_passed_over_is_told_why() {
    let named = ["a", "b", "c", "d", "e"].map(Backend::named);
    let [a, b, c, d, e] = named.each_ref().map(|backend| backend.address);
    let dead = Port::reserve();
    let list = format!(
        "'{a}', '{b}', '{c}', {{ address = '{d}', max_connections = 1 }}, \
         {{ address = '{e}', backup = true }}, '{}', 'nowhere.invalid:1'",
        dead.address
    );
    let setup = Setup::listing(&list).health(QUICK_HEALTH).pool("queue = 0");
    let (mut daemon, admin) = started(setup);
    daemon.line(&format!("web/{} (connection refused) is down", dead.address));
    let front = daemon.address();
    change(admin, a, &json!({ "weight": 0 }));
    change(admin, b, &json!({ "state": "draining" }));
    change(admin, c, &json!({ "state": "maintenance" }));
    let mut first = connect(front);
    assert_eq!(read_text(&mut first, 1), "d");
    let mut second = connect(front);
    assert!(read_end(&mut second).0.is_empty(), "nobody else may serve");
    let told = explain_end(admin, 2);
    for (backend, start, end) in [
        (a, "weight 0", ""),
        (b, "draining for ", ", by the operator"),
        (c, "in maintenance for ", ", by the operator"),
        (d, "full: 1 of at most 1 connections", ""),
        (e, "a backup, others served", ""),
        (dead.address, "down for ", ": its health checks failed"),
    ] {
        let (verdict, why) = said(&told, backend);
        assert_eq!(verdict, "passed over", "{why}");
        assert!(why.starts_with(start) && why.ends_with(end), "{why}");
    }
    let all = told["choices"][0]["candidates"].as_array().unwrap();
    let why = all[6]["why"].as_str().unwrap();
    assert!(why.starts_with("unresolved for "), "{why}");
    assert_eq!(told["choices"][0]["outcome"], "full");
    assert_eq!(told["end"]["reason"], "every backend and the queue were full");

    let first = explain(admin, 1);
    assert_eq!(first["choices"][0]["why"], "the only one that could be chosen");
    assert_eq!(said(&first, d), ("chosen".into(), "its turn (0 connections, weight 1)".into()));
}

#[test]
fn who_stands_in_line_is_told_for_what_and_for_how_long() {
    let (backend, guests) = Backend::handing_over();
    let list = format!("{{ address = '{}', max_connections = 1 }}", backend.address);
    let (mut daemon, admin) = started(Setup::listing(&list));
    let front = daemon.address();
    let (first, server) = (connect(front), guests.next());
    let second = connect(front);
    let told = wait_for("the second one stands in line", || {
        let (status, told) = request(admin, "GET /api/v1/explain?id=2", "");
        (status == 200).then(|| told["decisions"][0].clone()).filter(|t| t["waited"].is_object())
    });
    assert_eq!((&told["waited"]["waiting"], &told["waited"]["times"]), (&true.into(), &1.into()));
    assert_eq!(told["waited"]["waited_for"], "a place");
    assert_eq!(told["choices"][0]["outcome"], "full");
    let peek = get(admin, "pool=web");
    assert_eq!((&peek["waiting"], &peek["outcome"]), (&json!(1), &json!("full")));
    drop((first, server));
    let server = guests.next();
    let told = explain(admin, 2);
    assert_eq!((&told["waited"]["waiting"], &told["end"]), (&false.into(), &Value::Null));
    drop((second, server));
    let told = explain_end(admin, 2);
    assert_eq!(told["waited"]["waiting"], false);
    assert_eq!(told["choices"][1]["outcome"], "chosen");
}

#[test]
fn a_peek_tells_what_comes_next_and_changes_nothing() {
    let named = ["a", "b", "c"].map(Backend::named);
    let addresses = named.each_ref().map(|backend| backend.address);
    let (mut daemon, admin) = started(Setup::new(&addresses));
    let front = daemon.address();
    for turn in 0..4 {
        for _ in 0..3 {
            let peek = get(admin, "pool=web");
            assert_eq!(peek["backend"], json!(addresses[turn % 3]), "turn {turn}");
            assert_eq!((&peek["peek"], &peek["why"]), (&json!(true), &json!("its turn came")));
        }
        assert_eq!(ask(front, ""), ["a", "b", "c"][turn % 3]);
    }
}

#[test]
fn a_peek_at_a_hash_depends_on_the_client() {
    let named = ["a", "b", "c"].map(Backend::named);
    let addresses = named.each_ref().map(|backend| backend.address);
    let (mut daemon, admin) = started(Setup::new(&addresses).pool("balance = \"source-hash\""));
    let served = ask(daemon.address(), "");
    let home = addresses[["a", "b", "c"].iter().position(|name| *name == served).unwrap()];
    for client in ["127.0.0.1", "::ffff:127.0.0.1"] {
        let peek = get(admin, &format!("pool=web&client={client}"));
        assert_eq!((&peek["backend"], &peek["client"]), (&json!(home), &json!("127.0.0.1")));
    }
    let places: std::collections::HashSet<String> = (1..40)
        .map(|host| get(admin, &format!("pool=web&client=10.0.0.{host}"))["backend"].to_string())
        .collect();
    assert_eq!(places.len(), 3, "others go elsewhere");
    let unnamed = get(admin, "pool=web");
    let note = unnamed["note"].as_str().unwrap();
    assert!(note.contains("by the client's address"), "{note}");
    let told = explain_end(admin, 1);
    let place = ("chosen".into(), "number 1 on the client's way (0 connections, weight 1)".into());
    assert_eq!(said(&told, home), place);
}

#[test]
fn a_client_is_the_one_that_its_header_names() {
    let backend = Backend::named("a");
    let setup = Setup::new(&[backend.address]).listener("proxy_protocol_from = ['127.0.0.1/32']");
    let (mut daemon, admin) = started(setup);
    ask(daemon.address(), "PROXY TCP4 192.0.2.7 192.0.2.1 40000 80\r\n");
    let told = explain_end(admin, 1);
    assert_eq!(told["client"], "192.0.2.7:40000");
    assert_eq!(told["client_from_header"], true);
}

#[test]
fn a_backend_that_resets_at_once_is_told_as_such() {
    let (mean, alive) = (Backend::new(reset), Backend::named("a"));
    let (mut daemon, admin) = started(Setup::new(&[mean.address, alive.address]));
    let mut client = connect(daemon.address());
    assert_eq!(read_text(&mut client, 1), "a");
    let told = explain(admin, 1);
    let first = &told["attempts"][0];
    assert_eq!(first["backend"], json!(mean.address));
    // A reset that comes with the news of the connect has kept us from seeing that it stood.
    let (outcome, error) = (first["outcome"].as_str().unwrap(), first["error"].as_str().unwrap());
    assert!(["reset at once", "failed"].contains(&outcome) && error.contains("reset"), "{first}");
    assert_eq!(told["attempts"][1]["outcome"], "connected");
}

#[test]
fn the_newest_come_first_and_what_is_not_there_is_refused() {
    let backend = Backend::named("a");
    let (mut daemon, admin) = started(Setup::new(&[backend.address]));
    assert_eq!(get(admin, "")["decisions"], json!([]));
    let (status, answer) = request(admin, "GET /api/v1/explain?id=1", "");
    assert_eq!((status, &answer["error"]), (404, &json!("there has been no connection yet")));
    for _ in 0..25 {
        assert_eq!(ask(daemon.address(), ""), "a");
    }
    let ids = |query| {
        let answer = get(admin, query);
        assert_eq!(answer["remembers"], 4096);
        let all = answer["decisions"].as_array().unwrap().clone();
        all.iter().map(|told| told["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids("limit=3"), [25, 24, 23]);
    assert_eq!((ids("").len(), ids("limit=100").len()), (20, 25));
    for (query, code, reason) in [
        ("id=26", 404, "there has been no connection 26; the newest is 25"),
        ("pool=wbe", 404, "did you mean \"web\"?"),
        ("limit=101", 400, "give 1 to 100"),
        ("pol=web", 400, "did you mean \"pool\"?"),
    ] {
        let (status, answer) = request(admin, &format!("GET /api/v1/explain?{query}"), "");
        let message = answer["error"].as_str().unwrap();
        assert!(status == code && message.contains(reason), "{query}: {status} {message}");
    }
}

#[test]
fn a_backend_that_has_left_is_told_by_its_name_though_another_has_its_place() {
    let named = ["a", "b", "c"].map(Backend::named);
    let [a, b, c] = named.each_ref().map(|backend| backend.address);
    let (mut daemon, admin) = started(Setup::new(&[a, b]).pool("balance = \"first\""));
    let front = daemon.address();
    assert_eq!(ask(front, ""), "a");
    explain_end(admin, 1);
    let removed = request(admin, &format!("DELETE /api/v1/pools/web/backends/{a}"), "");
    assert_eq!(removed.0, 200, "{}", removed.1);
    let body = json!({ "address": c.to_string() }).to_string();
    assert_eq!(request(admin, "POST /api/v1/pools/web/backends", &body).0, 201);
    assert_eq!(ask(front, ""), "b");
    explain_end(admin, 2);
    let removed = request(admin, &format!("DELETE /api/v1/pools/web/backends/{b}"), "");
    assert_eq!(removed.0, 200, "{}", removed.1);
    assert_eq!(ask(front, ""), "c");
    explain_end(admin, 3);
    for (id, chosen, other) in [(1, a, b), (2, b, c)] {
        let told = explain(admin, id);
        assert_eq!(told["choices"][0]["backend"], json!(chosen), "{told}");
        assert_eq!(told["attempts"][0]["backend"], json!(chosen), "{told}");
        assert_eq!(said(&told, other).0, "eligible", "{told}");
        assert_eq!(told["choices"][0]["backends"], 2, "{told}");
    }
    let told = explain(admin, 3);
    assert_eq!(told["choices"][0]["backend"], json!(c), "{told}");
    assert_eq!(told["choices"][0]["candidates"].as_array().unwrap().len(), 1);
}

/// What a command prints and how it ends.
fn run(admin: SocketAddr, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = program();
    command.args(arguments).args(["--admin", &admin.to_string()]);
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let Output { status, stdout, stderr } = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn the_command_tells_it_in_words() {
    let (dead, alive) = (Port::reserve(), Backend::named("a"));
    let (mut daemon, admin) = started(Setup::new(&[dead.address, alive.address]));
    let mut client = connect(daemon.address());
    let peer = client.local_addr().unwrap();
    assert_eq!(read_text(&mut client, 1), "a");
    client.shutdown(Shutdown::Write).unwrap();
    read_end(&mut client);
    explain_end(admin, 1);
    let (code, all, errors) = run(admin, &["explain"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let row = all.lines().nth(1).unwrap();
    assert!(row.contains(&peer.to_string()) && row.ends_with("client closed"), "{all}");

    let (code, story, _) = run(admin, &["explain", "1"]);
    assert_eq!(code, Some(0));
    for part in [
        format!("connection 1 from {peer}, "),
        "over listener web to pool web".to_owned(),
        format!("the first of 2 choices, by round-robin: {} why its turn came", dead.address),
        format!("  passed over  {:15}  tried before by this connection", dead.address),
        format!("{}  failed after ", dead.address),
        " ms: connection refused".to_owned(),
        format!("{}  connected after ", alive.address),
        "by the client: client closed; 0 B received, 1 B sent".to_owned(),
    ] {
        // Words may stand in the next line.
        let flat = story.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&part), "{part}\n{story}");
    }
    let (code, peek, _) = run(admin, &["explain", "--pool", "web"]);
    assert!(code == Some(0) && peek.contains("what pool web would give a new client now"));
    assert!(peek.contains("A peek: nothing was chosen."), "{peek}");

    let (_, json, _) = run(admin, &["explain", "1", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["decisions"][0]["id"], 1);
    let (code, out, errors) = run(admin, &["explain", "7"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(errors.contains("there has been no connection 7; the newest is 1"), "{errors}");
}
