//! Backends that come and go over the real program: by HTTP, by command, and over a restart.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::admin::request;
use support::backend::Backend;
use support::client::{ask, connect, read_end, read_text};
use support::command::{command, ended, say};
use support::daemon::{Daemon, QUICK_HEALTH, Setup, config_file, program};
use support::wait_until;

const ADMIN: &str = "\n[admin]\nlisten = '127.0.0.1:0'\n";

fn started(text: &str) -> (Daemon, SocketAddr, SocketAddr) {
    let mut daemon = Daemon::configured(&(text.to_owned() + ADMIN));
    let (front, admin) = (daemon.address(), daemon.address_of("(admin)"));
    (daemon, front, admin)
}

/// What the status says of the backends of the first pool.
fn backends(admin: SocketAddr) -> Vec<Value> {
    let (_, status) = request(admin, "GET /api/v1/status", "");
    status["pools"][0]["backends"].as_array().unwrap().clone()
}

fn listed(admin: SocketAddr) -> Vec<String> {
    let text = |backend: &Value| backend["address"].as_str().unwrap().to_owned();
    backends(admin).iter().map(text).collect()
}

/// The names of the backends that serve `count` clients, in order of the alphabet.
fn turns(front: SocketAddr, count: usize) -> String {
    let mut names: Vec<char> =
        (0..count).flat_map(|_| ask(front, "").chars().collect::<Vec<_>>()).collect();
    names.sort_unstable();
    names.into_iter().collect()
}

/// A client of which its backend has said its name, which is one letter.
fn visit(front: SocketAddr) -> (TcpStream, String) {
    let mut client = connect(front);
    let name = read_text(&mut client, 1);
    (client, name)
}

fn leave(mut client: TcpStream) {
    client.shutdown(Shutdown::Write).unwrap();
    read_end(&mut client);
}

#[test]
fn a_backend_comes_and_goes_by_http() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (mut daemon, front, admin) = started(&Setup::new(&[a.address]).text());
    let path = "/api/v1/pools/web/backends";
    let body = json!({ "address": b.address, "weight": 3 }).to_string();
    let (code, added) = request(admin, &format!("POST {path}"), &body);
    assert_eq!((code, &added["address"], &added["weight"]), (201, &json!(b.address), &3.into()));
    assert_eq!((&added["state"], &added["overrides"]), (&"up".into(), &json!(["added"])));
    daemon.line_with(&["Admin client 127.0.0.1:", &format!("adds web/{}", b.address)]);
    assert_eq!(turns(front, 8), "aabbbbbb");
    let (code, twice) = request(admin, &format!("POST {path}"), &body);
    assert_eq!(code, 409);
    let message = twice["error"].as_str().unwrap();
    assert!(message.contains("already; change its weight or state"), "{message}");

    let one = format!("{path}/{}", b.address);
    assert_eq!(request(admin, &format!("GET {one}"), "").1["total"], 6);
    let (client, _) = std::iter::repeat_with(|| visit(front)).find(|(_, n)| n == "b").unwrap();
    let (code, removed) = request(admin, &format!("DELETE {one}"), "");
    assert_eq!((code, &removed["active"]), (200, &1.into()));
    assert_eq!(removed["reason"], "removed; its connections go on");
    assert_eq!(turns(front, 4), "aaaa");
    assert_eq!(request(admin, &format!("DELETE {one}"), "").0, 404, "it is gone already");
    assert_eq!(request(admin, &format!("GET {one}"), "").0, 200, "but for its connection");
    leave(client);
    wait_until("it is gone", || request(admin, &format!("GET {one}"), "").0 == 404);
    assert_eq!(listed(admin), [a.address.to_string()]);
}

#[test]
fn the_last_one_can_go_and_another_come() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (mut daemon, front, admin) = started(&Setup::new(&[a.address]).text());
    let (code, answer) =
        request(admin, &format!("DELETE /api/v1/pools/web/backends/{}", a.address), "");
    assert_eq!((code, &answer["pool_available"]), (200, &false.into()));
    daemon.line("No available backends in pool web");
    assert!(read_end(&mut connect(front)).0.is_empty(), "nobody serves");
    let body = json!({ "address": b.address }).to_string();
    assert_eq!(request(admin, "POST /api/v1/pools/web/backends", &body).0, 201);
    daemon.line("Backends are available again in pool web");
    assert_eq!(turns(front, 2), "bb");
}

#[test]
fn who_is_added_is_probed_first() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let health = "type = \"tcp\"\ninterval = \"1h\"\nfast_interval = \"1h\"\ntimeout = \"10s\"";
    let (mut daemon, front, admin) = started(&Setup::new(&[a.address]).health(health).text());
    daemon.line(&format!("{} is up", a.address));
    let body = json!({ "address": b.address }).to_string();
    let (code, answer) = request(admin, "POST /api/v1/pools/web/backends", &body);
    assert_eq!((code, &answer["state"]), (201, &"checking".into()));
    daemon.line(&format!("{} is up", b.address));
    assert_eq!(turns(front, 4), "aabb");
}

#[test]
fn small_balancers_are_answered_in_words() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (_daemon, front, admin) = started(&Setup::new(&[a.address]).text());
    let body = json!({ "address": format!("http://{}", b.address) }).to_string();
    let done = |text: &str| (200, json!({ "success": true, "message": text }));
    assert_eq!(request(admin, "POST /addServer", &body), done("Server added successfully"));
    assert_eq!(turns(front, 4), "aabb");
    for (line, body, reason) in [
        ("POST /addServer", body.as_str(), "has the backend"),
        ("POST /addServer", "{}", "there is no `address`; send {\"address\":"),
        ("POST /addServer", "", "send {\"address\":"),
        ("POST /addServer", "{\"address\":\"http://h/path\"}", "`h/path`"),
        ("POST /addServer", "{\"address\":\"h:1\",\"pool\":\"wbe\"}", "did you mean \"web\"?"),
        ("DELETE /delete", "{\"address\":\"127.0.0.1:1\"}", "has no backend \"127.0.0.1:1\""),
        ("DELETE /delete", "{}", "there is no `address`"),
    ] {
        let (code, answer) = request(admin, line, body);
        let message = answer["message"].as_str().unwrap();
        assert_eq!((code, &answer["success"]), (400, &false.into()), "{line} {body}");
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(request(admin, "DELETE /delete", &body), done("Server removed successfully"));
    assert_eq!(turns(front, 2), "aa");

    let two = Setup::new(&[a.address]).text()
        + "[listener.b]\nbind = '127.0.0.1:0'\n\
               [pool.b]\nbackends = ['127.0.0.1:1']\n";
    let (_daemon, _, admin) = started(&two);
    let (code, answer) = request(admin, "POST /addServer", &body);
    assert_eq!(
        (code, answer["message"].as_str().unwrap()),
        (400, "there are 2 pools; name one as \"pool\": web, b")
    );
    let named = json!({ "address": b.address, "pool": "b" }).to_string();
    assert_eq!(request(admin, "POST /addServer", &named).0, 200);
}

#[test]
fn a_backend_comes_and_goes_by_command() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (mut daemon, front, admin) = started(&Setup::new(&[a.address]).text());
    let name = format!("web/{}", b.address);
    let (code, shown, errors) = say(admin, &format!("add web {} --weight 2", b.address));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(shown.starts_with(&format!("{name}: up, weight 2, 0 active (")), "{shown}");
    assert_eq!(turns(front, 3), "abb");
    let (code, _, errors) = say(admin, &format!("add web {}", b.address));
    assert!(code == Some(1) && errors.contains("refused (409)"), "{errors}");
    let (code, shown, _) = say(admin, &format!("remove {name} --json"));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &shown["address"]), (Some(0), &json!(b.address)));
    let (code, _, errors) = say(admin, &format!("remove {name}"));
    assert!(code == Some(1) && errors.contains("refused (404)"), "{errors}");
    let (code, _, errors) = say(admin, &format!("remove web/{}", a.address));
    assert_eq!((code, errors.as_str()), (Some(0), "evenkeel: nobody can serve in pool web now\n"));
    daemon.line("No available backends");
}

#[test]
fn a_removal_that_is_waited_for_ends_with_the_last_connection() {
    let a = Backend::named("a");
    let (mut daemon, front, admin) = started(&Setup::new(&[a.address]).text());
    let clients: Vec<TcpStream> = (0..3).map(|_| visit(front).0).collect();
    let name = format!("web/{}", a.address);
    let waiting = command(admin, &format!("remove --wait {name}")).spawn().unwrap();
    daemon.line(&format!("removes {name}; its 3 connections go on"));
    let mut clients = clients.into_iter();
    leave(clients.next().unwrap());
    wait_until("one is gone", || backends(admin)[0]["active"] == 2);
    clients.for_each(leave);
    let (code, shown, errors) = ended(waiting.wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{shown}{errors}");
    assert!(shown.lines().last().unwrap().contains(", 0 active"), "{shown}");

    let body = json!({ "address": a.address }).to_string();
    assert_eq!(request(admin, "POST /addServer", &body).0, 200);
    let _client = visit(front);
    let (code, shown, errors) = say(admin, &format!("remove --wait --deadline 1ms {name}"));
    assert_eq!((code, shown.lines().count()), (Some(7), 1), "{shown}");
    let expected = format!("the deadline passed, 1 connections of {name} are left; they go on\n");
    assert!(errors.ends_with(&expected), "{errors}");
    let waiting = command(admin, &format!("drain --wait {name}")).output().unwrap();
    assert_eq!(waiting.status.code(), Some(1), "one that is going is not drained");
}

#[test]
fn a_drain_shows_how_many_are_left_and_estimates_the_rest() {
    let a = Backend::named("a");
    let (mut daemon, front, admin) = started(&Setup::new(&[a.address]).text());
    let mut clients: Vec<TcpStream> = (0..3).map(|_| visit(front).0).collect();
    let waiting = command(admin, &format!("drain --wait web/{}", a.address)).spawn().unwrap();
    daemon.line("asks for state draining");
    leave(clients.pop().unwrap());
    // Each look is at one backend; the log of admin clients does not tell of them, so count turns.
    wait_until("one is gone", || backends(admin)[0]["active"] == 2);
    clients.into_iter().for_each(leave);
    let (code, shown, errors) = ended(waiting.wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{shown}{errors}");
    let last = shown.lines().last().unwrap();
    assert!(last.ends_with("; 0 of 3 left"), "{shown}");
}

#[test]
fn a_plan_says_what_a_reload_would_do_and_the_reload_does_it() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let setup = Setup::new(&[a.address]);
    let (daemon, front, admin) = started(&setup.text());
    let _clients = [visit(front), visit(front)];
    let wanted = Setup::new(&[b.address]).global("log_format = 'json'").listener("backlog = 7");
    let text = wanted.text() + ADMIN;
    let file = config_file(&text);
    let plan = |file: &Path, rest: &str| {
        let mut command = command(admin, &format!("plan{rest}"));
        ended(command.arg("-c").arg(file).output().unwrap())
    };
    let (code, shown, errors) = plan(file.path(), "");
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let expected = [
        "ACTION   CONNECTIONS  WHAT".to_owned(),
        "restart            0  global: `log_format` from \"text\" to \"json\"".to_owned(),
        "change             2  listener web: `backlog` from 4096 to 7".to_owned(),
        format!("add                0  backend web/{}: comes with weight 1", b.address),
        format!(
            "remove             2  backend web/{}: takes no new clients; its connections go on",
            a.address
        ),
        "3 changes would be made; 1 not before the next start of the program".to_owned(),
    ];
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    assert_eq!(turns(front, 1), "a", "nothing was done");
    let (code, same, _) = say(admin, "plan");
    assert_eq!((code, same.as_str()), (Some(0), "nothing would change\n"));
    let (_, shown, _) = plan(file.path(), " --json");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["changes"][3]["connections"], 2);

    let broken = config_file(&text.replace("backlog = 7", "backlog = 0\nbaklog = 1"));
    let (code, _, errors) = plan(broken.path(), "");
    assert_eq!(code, Some(3), "{errors}");
    let checked = program().args(["check", "-c"]).arg(broken.path()).output();
    let rendered = command("x", "check -c").arg(broken.path()).output().unwrap().stderr;
    assert!(checked.is_ok() && errors.as_bytes() == rendered, "{errors}");
    let (code, shown, _) = plan(broken.path(), " --json");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, shown["problems"].as_array().unwrap().len()), (Some(3), 2));

    daemon.write(&std::fs::read_to_string(broken.path()).unwrap());
    let (code, _, errors) = say(admin, "reload");
    assert!(code == Some(3) && errors.contains("`baklog`"), "{errors}");
    assert_eq!(turns(front, 1), "a", "nothing was done");
    daemon.write(&text);
    let (code, shown, _) = say(admin, "reload");
    let last = "3 changes made; 1 not before the next start of the program";
    assert_eq!((code, shown.lines().last()), (Some(0), Some(last)));
    assert_eq!(turns(front, 2), "bb");
    assert_eq!(say(admin, "plan").1.lines().count(), 3, "what needs a restart is told again");
}

#[test]
fn a_reload_without_a_file_says_what_to_do_instead() {
    let a = Backend::named("a");
    let backend = a.address.to_string();
    let arguments = ["run", "-l", "127.0.0.1:0", "--admin", "127.0.0.1:0", &backend];
    let mut daemon = Daemon::start(&arguments);
    let admin = daemon.address_of("(admin)");
    for line in ["reload", "plan"] {
        let (code, _, errors) = say(admin, line);
        assert!(code == Some(1) && errors.contains("without a configuration file"), "{errors}");
    }
}

#[test]
fn what_was_added_follows_the_file_once_it_is_there() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let (daemon, front, admin) = started(&Setup::new(&[a.address]).text());
    say(admin, &format!("add web {}", b.address));
    assert_eq!(turns(front, 4), "aabb");
    let list = format!("\"{}\", {{ address = \"{}\", weight = 3 }}", a.address, b.address);
    daemon.write(&(Setup::listing(&list).text() + ADMIN));
    let (_, shown, _) = say(admin, "plan");
    let line = format!("backend web/{}: `weight` from 1 to 3", b.address);
    assert!(shown.contains(&line), "{shown}");
    say(admin, "reload");
    assert_eq!(turns(front, 8), "aabbbbbb");
    assert_eq!(backends(admin)[1]["overrides"], json!([]));
}

#[test]
fn a_file_with_a_listener_where_an_added_backend_is_changes_nothing() {
    let a = Backend::named("a");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let text = with_state(Setup::new(&[a.address]), &state);
    let mut daemon = Daemon::configured(&text);
    let (front, admin) = (daemon.address(), daemon.address_of("(admin)"));
    let place = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    say(admin, &format!("add web {place}"));
    let circle = format!("listener.side = {{ bind = '{place}', pool = 'web' }}\n");
    daemon.write(&(circle + &text));
    for command in ["plan", "reload"] {
        let (code, _, errors) = say(admin, command);
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("go in a circle; remove the backend first"), "{errors}");
    }
    assert_eq!(turns(front, 1), "a");
    // The same at the next start.
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
    for mut command in [command("x", "check -c"), command("x", "run -c")] {
        let (code, _, errors) = ended(command.arg(daemon.config_path()).output().unwrap());
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("go in a circle"), "{errors}");
    }
}

#[test]
fn one_that_the_file_has_comes_back_as_it_is_there() {
    let (a, b) = (Backend::named("a"), Backend::named("b"));
    let list = format!(
        "\"{}\", {{ address = \"{}\", weight = 3, max_connections = 9 }}",
        a.address, b.address
    );
    let (_daemon, front, admin) = started(&Setup::listing(&list).text());
    let name = format!("web/{}", b.address);
    say(admin, &format!("remove {name}"));
    assert_eq!(turns(front, 2), "aa");
    let (_, shown, _) = say(admin, &format!("add web {} --max-connections 5 --json", b.address));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["weight"], &shown["limit"]), (&3.into(), &9.into()));
    assert_eq!(shown["overrides"], json!([]));
    assert_eq!(turns(front, 8), "aabbbbbb");
    assert_eq!(say(admin, "plan").1, "nothing would change\n");
    say(admin, &format!("remove {name}"));
    say(admin, &format!("add web {} --weight 2", b.address));
    assert_eq!(backends(admin)[1]["overrides"], json!(["weight"]));
    assert_eq!(turns(front, 6), "aabbbb");
}

/// A file with a state file, and the daemons that run with it one after the other.
fn with_state(setup: Setup, state: &Path) -> String {
    setup.global(&format!("state_file = '{}'", state.display())).text() + ADMIN
}

#[test]
fn changes_outlive_a_restart_with_a_state_file() {
    let (a, b, c) = (Backend::named("a"), Backend::named("b"), Backend::named("c"));
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let text = with_state(Setup::new(&[a.address, b.address]), &state);
    let start = || {
        let mut daemon = Daemon::configured(&text);
        let (front, admin) = (daemon.address(), daemon.address_of("(admin)"));
        (daemon, front, admin)
    };
    let (mut daemon, front, admin) = start();
    say(admin, &format!("add web {} --weight 2", c.address));
    say(admin, &format!("weight web/{} 3", a.address));
    say(admin, &format!("maintenance web/{}", b.address));
    assert_eq!(turns(front, 5), "aaacc");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));

    let (mut daemon, front, admin) = start();
    daemon.line("3 backends are as they were changed at run time");
    assert_eq!(turns(front, 5), "aaacc");
    let shown = backends(admin);
    let words = |at: usize| (shown[at]["overrides"].clone(), shown[at]["state"].clone());
    assert_eq!(words(0), (json!(["weight"]), "up".into()));
    assert_eq!(words(1), (json!(["state"]), "maintenance".into()));
    assert_eq!(words(2), (json!(["added"]), "up".into()));
    say(admin, &format!("remove web/{}", c.address));
    say(admin, &format!("remove web/{}", b.address));
    say(admin, &format!("weight web/{} 1", a.address));
    let kept = || std::fs::read_to_string(&state).unwrap();
    wait_until("it is written", || !kept().contains("weight"));
    // Whatever was answered is kept, however the process ends.
    daemon.kill();

    let (mut daemon, front, admin) = start();
    assert_eq!((turns(front, 2), listed(admin)), ("aa".to_owned(), vec![a.address.to_string()]));
    say(admin, &format!("add web {}", b.address));
    wait_until("it is written", || !kept().contains("removed"));
    daemon.kill();
    assert_eq!(turns(start().1, 4), "aabb");
}

#[test]
fn a_stray_state_file_stops_the_start_and_one_that_cannot_be_written_does_not() {
    let a = Backend::named("a");
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::write(&state, "[server]\n").unwrap();
    let file = config_file(&with_state(Setup::new(&[a.address]), &state));
    let mut run = command("x", "run -c");
    let (code, _, errors) = ended(run.arg(file.path()).output().unwrap());
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("is no state file of evenkeel") && errors.contains("move it away"));
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "[server]\n");

    let nowhere = folder.path().join("none/state");
    let text = with_state(Setup::new(&[a.address]).health(QUICK_HEALTH), &nowhere);
    let mut daemon = Daemon::configured(&text);
    daemon.line("make its folder");
    let admin = daemon.address_of("(admin)");
    let (code, ..) = say(admin, &format!("drain web/{}", a.address));
    assert_eq!(code, Some(0), "it holds all the same");
    daemon.line_with(&["cannot write", "would not outlive a restart"]);
    // Once it can be written it is, without another change.
    std::fs::create_dir(nowhere.parent().unwrap()).unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
    assert!(std::fs::read_to_string(&nowhere).unwrap().contains("draining"));
}
