//! The `[pool.NAME.health]` tables of a document: what a probe is, how often, and agents.

use super::address::BackendAddress;
use super::bytes::{parse_body, parse_bytes, parse_host, parse_path, parse_user};
use super::choice::{CheckType, HEALTH_TYPE, INITIAL};
use super::draft::{Places, Report};
use super::health::{Agent, Check, Health, HttpCheck};
use super::section::{Need, Section};
use super::status::status_list;

/// Reads a health table, and where its keys stand.
pub(super) fn health(mut section: Section<'_>, report: &mut Report) -> (Health, Places) {
    let mut health = Health { check: check(&mut section, report), ..Health::default() };
    pace(&mut section, &mut health, report);
    section.read("rise", &mut health.rise, report, |entry, report| entry.number(1..=1000, report));
    section.read("fall", &mut health.fall, report, |entry, report| entry.number(1..=1000, report));
    let need =
        Need { beside: "probes, and `type = \"none\"` has none", met: health.check != Check::None };
    let port = section.take_with("port", &need, report);
    health.port = port.and_then(|entry| entry.number(1..=65535, report));
    let address = section.take_with("address", &need, report);
    health.address = address.and_then(|entry| {
        entry.parsed("write \"HOST:PORT\"", report, str::parse::<BackendAddress>)
    });
    section.read("initial", &mut health.initial, report, |entry, report| {
        entry.choice(&INITIAL, report)
    });
    agent(&mut section, &mut health, report);
    let places = section.places();
    section.finish(report);
    (health, places)
}

/// `type`, and the keys that go with some of its words.
fn check(section: &mut Section<'_>, report: &mut Report) -> Check {
    let word = section.take("type");
    let read = word.map(|entry| entry.choice(&HEALTH_TYPE, report));
    let kind = read.unwrap_or(Some(CheckType::Tcp));
    // A word that could not be read may have been the right one.
    let is = |wanted| kind.is_none_or(|kind| kind == wanted);
    let http = Need { beside: "`type = \"http\"`", met: is(CheckType::Http) };
    let tcp = Need { beside: "`type = \"tcp\"`", met: is(CheckType::Tcp) };
    let either = Need { beside: "`type = \"http\"` or `\"tcp\"`", met: http.met || tcp.met };
    let path = section.take_with("path", &http, report);
    let path = path.and_then(|entry| entry.parsed("write \"/health\"", report, parse_path));
    let host = section.take_with("host", &http, report);
    let host = host.and_then(|entry| entry.parsed("write \"www.example\"", report, parse_host));
    let send = section.take_with("send", &tcp, report);
    let send = send.and_then(|entry| entry.parsed("write \"PING\\r\\n\"", report, parse_bytes));
    let expect = section.take_with("expect", &either, report);
    let body = section.take_with("expect_body", &http, report);
    let body = body.and_then(|entry| entry.parsed("write \"ok\"", report, parse_body));
    let is_login = is(CheckType::Mysql) || is(CheckType::Postgres);
    let login = Need { beside: "`type = \"mysql\"` or `\"postgres\"`", met: is_login };
    let user = section.take_with("user", &login, report);
    let user = user.and_then(|entry| entry.parsed("write \"evenkeel\"", report, parse_user));
    match kind {
        Some(CheckType::None) => Check::None,
        Some(CheckType::Tcp) => {
            let expect = expect.and_then(|e| e.parsed("write \"+PONG\"", report, parse_bytes));
            exchange(send, expect)
        }
        Some(CheckType::Http) => {
            let default = HttpCheck::default();
            let expect = expect.and_then(|entry| status_list(&entry, report));
            Check::Http(HttpCheck {
                path: path.unwrap_or(default.path),
                host,
                expect: expect.unwrap_or(default.expect),
                body,
            })
        }
        Some(CheckType::Redis) => Check::Redis,
        Some(CheckType::Mysql) => {
            Check::Mysql { user: user.unwrap_or_else(|| MYSQL_USER.to_owned()) }
        }
        Some(CheckType::Postgres) => Check::Postgres { user },
        Some(CheckType::Smtp) => Check::Smtp,
        None => Check::Tcp,
    }
}

fn exchange(send: Option<Vec<u8>>, expect: Option<Vec<u8>>) -> Check {
    if send.is_none() && expect.is_none() {
        return Check::Tcp;
    }
    Check::Exchange { send: send.unwrap_or_default(), expect: expect.unwrap_or_default() }
}

fn pace(section: &mut Section<'_>, health: &mut Health, report: &mut Report) {
    let Health { interval, fast_interval, timeout, .. } = Health::default();
    section.read("interval", &mut health.interval, report, |entry, report| {
        entry.duration(interval, report)
    });
    // A default that is longer than the interval somebody wrote is not their mistake.
    health.fast_interval = fast_interval.min(health.interval);
    section.read("fast_interval", &mut health.fast_interval, report, |entry, report| {
        entry.duration(fast_interval, report)
    });
    section.read("timeout", &mut health.timeout, report, |entry, report| {
        entry.duration(timeout, report)
    });
}

fn agent(section: &mut Section<'_>, health: &mut Health, report: &mut Report) {
    let agent = section.take("agent");
    let need = Need { beside: "`agent`", met: agent.is_some() };
    let form = "write \":PORT\" for a port of each backend, or \"HOST:PORT\"";
    health.agent = agent.and_then(|entry| entry.parsed(form, report, str::parse::<Agent>));
    health.agent_interval = health.interval;
    let interval = section.take_with("agent_interval", &need, report);
    if let Some(interval) = interval.and_then(|entry| entry.duration(health.interval, report)) {
        health.agent_interval = interval;
    }
}

/// Who logs in to a MySQL server when nobody is named.
const MYSQL_USER: &str = "evenkeel";
