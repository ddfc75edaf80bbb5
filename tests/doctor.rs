//! `evenkeel doctor` over this machine: what it finds wrong on purpose, and what it leaves alone.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::process::Stdio;

use serde_json::Value;
use support::backend::Backend;
use support::daemon::{Daemon, Setup, config_file, program};
use support::ports::Port;

/// How it ends, and what it prints.
fn doctor(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = program();
    command.env_remove("EVENKEEL_ADMIN").env_remove("EVENKEEL_TOKEN_FILE");
    let output = command.arg("doctor").args(arguments).stdout(Stdio::piped()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// The findings of a topic, of which the machine itself has none.
fn findings(json: &str, topic: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(json).unwrap();
    let all = report["findings"].as_array().unwrap().clone();
    all.into_iter().filter(|finding| finding["topic"] == topic).collect()
}

#[test]
fn what_is_wrong_is_told_with_its_cure_and_nothing_is_changed() {
    let (taken, there, gone) = (Port::reserve(), Backend::echo(), Port::reserve());
    let _listener = taken.listen();
    let text = Setup::new(&[there.address, gone.address])
        .listener(&format!("bind = [\"{}\"]", taken.address))
        .global("max_connections = 10000000\nstate_file = \"/nowhere/at/all/state\"")
        .pool("source = [\"192.0.2.77\"]")
        .text();
    let file = config_file(&text);
    let path = file.path().to_str().unwrap();
    let (code, json) = doctor(&["--json", "-c", path]);
    assert_eq!(code, Some(7), "{json}");
    let one = |topic: &str| {
        let found = findings(&json, topic);
        assert_eq!(found.len(), 1, "{topic}: {json}");
        found[0].clone()
    };
    let mine = std::process::id();
    assert_eq!(
        one("addresses")["mend"],
        format!("end it (kill {mine}), or choose another address")
    );
    assert_eq!(one("backends")["severity"], "warning");
    assert_eq!(one("backends")["read"], format!("{}: connection refused", gone.address));
    assert_eq!(one("source")["severity"], "error");
    assert_eq!(one("state_file")["severity"], "error");
    let means = one("descriptors")["means"].as_str().unwrap().to_owned();
    assert!(means.starts_with("max_connections = 10000000 needs 2000"), "{means}");
    let (code, text) = doctor(&["-c", path]);
    assert!(code == Some(7) && text.contains("ERROR descriptors\n  read   at most "), "{text}");
    assert!(text.contains("\n  mend   ulimit -Hn 2000"), "{text}");

    let (_, json) = doctor(&["--json", "--offline", "-c", path]);
    assert_eq!(findings(&json, "backends"), [Value::Null; 0], "nobody is asked");
}

#[test]
fn what_is_right_is_no_finding() {
    let there = Backend::echo();
    let file = config_file(&Setup::new(&[there.address]).text());
    let (_, json) = doctor(&["--json", "-c", file.path().to_str().unwrap()]);
    for topic in ["addresses", "backends", "names", "source", "state_file", "low ports"] {
        assert_eq!(findings(&json, topic), [Value::Null; 0], "{topic}: {json}");
    }
    let (code, _) = doctor(&["-c", "/nowhere.toml"]);
    assert_eq!(code, Some(3));
}

#[test]
fn a_running_balancer_is_asked_and_one_that_is_not_there_is_no_trouble() {
    let (there, gone) = (Backend::echo(), Port::reserve());
    let text = Setup::new(&[there.address, gone.address]).text();
    let mut daemon = Daemon::configured(&format!("{text}\n[admin]\nlisten = '127.0.0.1:0'\n"));
    let admin = daemon.address_of("(admin)").to_string();
    let (code, json) = doctor(&["--json", "--admin", &admin]);
    assert_eq!(code, Some(7), "{json}");
    assert_eq!(findings(&json, "backends")[0]["means"], "1 of 2 backends serve pool web");
    assert_eq!(findings(&json, "addresses"), [Value::Null; 0], "its own are no trouble");

    let (_, json) = doctor(&["--json", "--admin", &gone.address.to_string()]);
    let found = findings(&json, "configuration");
    assert_eq!(found[0]["severity"], "note", "{json}");
    assert_eq!(found[0]["mend"], "evenkeel doctor -c FILE");
}
