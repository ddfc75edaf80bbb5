//! What is told to Prometheus by the real program: every metric of the contract, one set of labels
//! for each, no more than is there, and nothing in the dashboard and the alerts but that.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use support::backend::Backend;
use support::client::ask;
use support::daemon::{Daemon, Setup};
use support::ports::Port;
use support::wait_until;

fn started(text: &str, admin: &str) -> (Daemon, SocketAddr) {
    let admin = format!("{text}\n[admin]\nlisten = '127.0.0.1:0'\n{admin}\n");
    let mut daemon = Daemon::configured(&admin);
    let address = daemon.address_of("(admin)");
    (daemon, address)
}

fn request(admin: SocketAddr, method: &str, path: &str, body: &str) -> (String, String) {
    let length = body.len();
    let fields = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}");
    let answer = ask(admin, &request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn metrics(admin: SocketAddr) -> String {
    request(admin, "GET", "/metrics", "").1
}

/// The names of all families that have a sample.
fn families(text: &str) -> BTreeSet<String> {
    let mut families = BTreeSet::new();
    let mut current = "";
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => current = rest.split(' ').next().unwrap(),
            None if line.starts_with('#') => {}
            None => {
                families.insert(current.to_owned());
            }
        }
    }
    families
}

/// A balancer of which every family has a sample.
fn everything() -> (Daemon, SocketAddr, Backend) {
    let backend = Backend::echo();
    let setup = Setup::new(&[backend.address]).listener("max_connections = 50");
    let (mut daemon, admin) = started(&setup.text(), "");
    assert_eq!(ask(daemon.address(), "ping"), "ping");
    let done = "evenkeel_connection_duration_seconds_count{listener=\"web\"} 1\n";
    wait_until("the end is counted", || metrics(admin).contains(done));
    (daemon, admin, backend)
}

#[test]
fn every_metric_of_the_contract_is_there() {
    let (_daemon, admin, backend) = everything();
    let text = metrics(admin);
    let families = families(&text);
    for name in [
        "connections_active",
        "connections_total",
        "connections_ended_total",
        "bytes_received_total",
        "bytes_sent_total",
        "backend_up",
        "backend_weight",
        "backend_connect_seconds",
        "backend_connect_failures_total",
        "health_checks_total",
        "health_transitions_total",
        "accept_paused_seconds_total",
        "build_info",
    ] {
        assert!(families.contains(&format!("evenkeel_{name}")), "{name}\n{text}");
    }
    let announced = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(families.len(), announced, "a family has no sample:\n{text}");
    for line in [
        "evenkeel_backend_connect_seconds_count{pool=\"web\"} 1".to_owned(),
        "evenkeel_backend_connect_seconds_bucket{pool=\"web\",le=\"+Inf\"} 1".to_owned(),
        format!("evenkeel_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        "evenkeel_listener_connections_limit{listener=\"web\"} 50".to_owned(),
        format!(
            "evenkeel_backend_connections_total{{pool=\"web\",backend=\"{}\"}} 1",
            backend.address
        ),
    ] {
        assert!(text.lines().any(|written| written == line), "{line}\n{text}");
    }
    for name in labels(&text) {
        let known = ["listener", "pool", "backend", "reason", "result", "version", "le"];
        assert!(known.contains(&&*name), "the label {name}");
    }
}

fn labels(text: &str) -> BTreeSet<String> {
    let braces = text.lines().filter_map(|line| line.split_once('{'));
    let sets = braces.map(|(_, rest)| rest.split_once("} ").unwrap().0);
    let pairs = sets.flat_map(|set| set.split("\","));
    pairs.map(|pair| pair.split('=').next().unwrap().to_owned()).collect()
}

#[test]
fn what_the_readme_lists_is_what_there_is() {
    let (_daemon, admin, _backend) = everything();
    let readme = read("README.md");
    let (_, table) = readme.split_once("| metric | labels | |\n").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let mut told = BTreeSet::new();
    for word in table.split('`') {
        let name = word.split('{').next().unwrap();
        match (name.strip_prefix("evenkeel_"), name.strip_prefix('_')) {
            (Some(_), _) => told.insert(name.to_owned()),
            (None, Some(rest)) => told.insert(format!("evenkeel_{rest}")),
            (None, None) => false,
        };
    }
    assert_eq!(told, families(&metrics(admin)));
}

/// A misspelt name would show an empty panel, or an alert that never comes.
#[test]
fn the_dashboard_and_the_alerts_name_nothing_else() {
    let (_daemon, admin, _backend) = everything();
    let families = families(&metrics(admin));
    let dashboard = read("packaging/grafana-dashboard.json");
    let parsed: Value = serde_json::from_str(&dashboard).unwrap();
    assert!(parsed["panels"].as_array().unwrap().len() > 15);
    let alerts = read("packaging/alerts.yml");
    assert_eq!(alerts.matches("- alert: ").count(), 3);
    let (mut shown, mut watched) = (names(&dashboard), names(&alerts));
    for name in shown.iter().chain(&watched) {
        let is_there = |end: &str| name.strip_suffix(end).is_some_and(|f| families.contains(f));
        let known = families.contains(name) || is_there("_bucket");
        assert!(known, "{name} is no metric");
    }
    shown = shown.iter().map(|name| name.trim_end_matches("_bucket").to_owned()).collect();
    watched.retain(|name| !families.contains(name));
    assert!(watched.is_empty());
    let unseen: Vec<_> = families.difference(&shown).collect();
    assert!(unseen.is_empty(), "the dashboard does not show {unseen:?}");
}

fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("evenkeel_")).map(str::to_owned).collect()
}

#[test]
fn backends_can_be_left_out_and_pools_still_tell() {
    let (up, dead) = (Backend::echo(), Port::reserve());
    let text = Setup::new(&[up.address, dead.address]).text();
    let (mut daemon, admin) = started(&text, "backend_metrics = false");
    assert_eq!(ask(daemon.address(), "ping"), "ping");
    let text = metrics(admin);
    assert!(!text.contains("backend=\""), "{text}");
    for line in [
        "evenkeel_pool_backends{pool=\"web\"} 2",
        "evenkeel_pool_backends_up{pool=\"web\"} 2",
        "evenkeel_pool_available{pool=\"web\"} 1",
    ] {
        assert!(text.lines().any(|written| written == line), "{line}\n{text}");
    }
    let status: Value =
        serde_json::from_str(&request(admin, "GET", "/api/v1/status", "").1).unwrap();
    assert_eq!(status["pools"][0]["backends"][0]["address"], up.address.to_string());
}

/// Whoever adds and removes backends all day must not be told of those of yesterday.
#[test]
fn a_backend_that_is_removed_leaves_no_metric_behind() {
    let backend = Backend::echo();
    let (_daemon, admin) = started(&Setup::new(&[backend.address]).text(), "");
    let before = metrics(admin).lines().count();
    for number in 1..=50 {
        let address = format!("127.0.0.1:{number}");
        let body = format!("{{\"address\":\"{address}\"}}");
        let (head, answer) = request(admin, "POST", "/api/v1/pools/web/backends", &body);
        assert!(head.contains(" 201 "), "{answer}");
        assert!(metrics(admin).contains(&format!("backend=\"{address}\"")));
        let path = format!("/api/v1/pools/web/backends/{address}");
        let (head, answer) = request(admin, "DELETE", &path, "");
        assert!(head.contains(" 200 "), "{answer}");
        assert!(!metrics(admin).contains(&format!("backend=\"{address}\"")), "{number}");
    }
    assert_eq!(metrics(admin).lines().count(), before);
}

#[test]
fn thousands_of_backends_are_all_told_of() {
    let mut list = String::new();
    for number in 0..3000 {
        let (high, low) = (number / 250, number % 250 + 1);
        write!(list, "\"10.0.{high}.{low}:80\", ").unwrap();
    }
    let (_daemon, admin) = started(&Setup::listing(&list).text(), "");
    let text = metrics(admin);
    assert_eq!(text.lines().filter(|l| l.starts_with("evenkeel_backend_up{")).count(), 3000);
    let status: Value =
        serde_json::from_str(&request(admin, "GET", "/api/v1/status", "").1).unwrap();
    let backends = status["pools"][0]["backends"].as_array().unwrap();
    assert_eq!((backends.len(), &backends[2999]["address"]), (3000, &"10.0.11.250:80".into()));
    let targets: Value = serde_json::from_str(&request(admin, "GET", "/targets", "").1).unwrap();
    assert_eq!(targets.as_array().unwrap().len(), 3000);
    let (head, _) = request(admin, "HEAD", "/metrics", "");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let (length, got) = (length.parse::<usize>().unwrap(), text.len());
    assert!(length.abs_diff(got) < 100, "{length} and {got}: only what passes differs");
    let expected = "{\"status\":\"healthy\",\"service\":\"evenkeel\",\"targets\":3000,";
    assert!(request(admin, "GET", "/health", "").1.starts_with(expected));
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}
