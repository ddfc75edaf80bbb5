//! The configuration as a value: defaults, forms of writing the same, and what holds for any text.

#![expect(clippy::unwrap_used, reason = "helpers of tests; a wrong fixture has failed")]

mod any;
mod difference;
mod write;

use std::time::Duration;

use any::any_config;
use evenkeel::config::{
    AccessLog, Agent, BackendAddress, Check, Config, HttpCheck, Initial, LoadError, LogFormat,
    OnDown, OnUnavailable, Policy, Problem, ProxyVersion, Timing, parse,
};
use proptest::prelude::*;
use write::to_toml;

#[test]
fn a_short_file_has_the_defaults_of_the_contract() {
    let config = read(MINIMAL);
    let (global, listener) = (&config.global, &config.listeners[0]);
    let seconds = Duration::from_secs;
    assert_eq!(global.max_connections, None);
    assert_eq!(global.drain_deadline, Some(seconds(30)));
    assert_eq!((global.log_format, global.access_log), (LogFormat::Text, AccessLog::Off));
    assert_eq!((listener.backlog, listener.max_connections), (4096, None));
    assert_eq!(listener.idle_timeout, Some(seconds(3600)));
    assert_eq!(listener.half_close_timeout, Some(seconds(300)));
    assert!(listener.splice && !listener.reuse_port);
    assert_eq!((listener.max_per_source, listener.accept_rate), (None, None));
    assert!(listener.allow.is_empty() && listener.deny.is_empty());
    assert!(listener.proxy_protocol_from.is_empty());
}

#[test]
fn a_short_pool_has_the_defaults_of_the_contract() {
    let pool = pool_with("");
    let seconds = Duration::from_secs;
    assert_eq!((pool.connect_timeout, pool.connect_attempts), (seconds(3), 3));
    assert_eq!((pool.policy, pool.backends[0].weight), (Policy::RoundRobin, 1));
    assert_eq!((pool.backends[0].max_connections, pool.backends[0].backup), (None, false));
    assert_eq!((pool.queue, pool.queue_timeout), (1000, Some(seconds(5))));
    assert_eq!((pool.on_unavailable, pool.on_down), (OnUnavailable::Close, OnDown::Keep));
    assert_eq!((pool.send_proxy_protocol, pool.first_byte_timeout), (None, None));
    assert_eq!((pool.slow_start, pool.source.len()), (Duration::ZERO, 0));
    let health = &pool.health;
    assert_eq!((&health.check, health.initial), (&Check::Tcp, Initial::Checking));
    assert_eq!((health.interval, health.timeout), (seconds(2), seconds(2)));
    assert_eq!(health.fast_interval, Duration::from_millis(500));
    assert_eq!((health.rise, health.fall), (2, 3));
    assert_eq!((&health.port, &health.address, &health.agent), (&None, &None, &None));
    assert_eq!(health.agent_interval, seconds(2));
}

#[test]
fn the_same_can_be_written_in_several_ways() {
    let expected = read(MINIMAL);
    for text in [
        "[pool.web]\nbackends = ['a:1']\n[listener.web]\nbind = ':3030'\n",
        "listener.web.bind = [':3030']\npool.web.backends = [{ address = 'a:1' }]",
        "listener = { web = { bind = ':3030' } }\npool = { web = { backends = ['a:1'] } }",
        "[listener.web]\nbind = ':3030'\npool = 'web'\nmode = 'tcp'\n[pool.\"web\"]\nbackends = [\n\
         # one\n'a:1',\n]\nbalance = 'weighted-round-robin'\nhealth = { type = 'tcp' }",
        "\u{feff}[listener.web]\r\nbind = ':3030'\r\n[pool.web]\r\nbackends = ['a:1']\r\n",
        "[global]\n[listener.web]\nbind = ':3030'\n[pool.web]\nbackends = ['a:1']\n\
         [pool.web.health]\n",
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn zero_means_never_where_that_makes_sense() {
    let config = read(&format!(
        "[global]\ndrain_deadline = '0s'\n{}",
        MINIMAL.replace("bind", "idle_timeout = '0s'\nhalf_close_timeout = '0ms'\nbind")
    ));
    assert_eq!(config.global.drain_deadline, None);
    assert_eq!(config.listeners[0].idle_timeout, None);
    assert_eq!(config.listeners[0].half_close_timeout, None);
    let pool = pool_with("queue_timeout = '0s'\nslow_start = '0s'\nfirst_byte_timeout = '0s'\n");
    assert_eq!((pool.queue_timeout, pool.first_byte_timeout), (None, None));
    assert_eq!(pool.slow_start, Duration::ZERO);
}

#[test]
fn keys_that_go_with_a_word_have_their_defaults_beside_it() {
    let held = pool_with("on_unavailable = 'hold'").on_unavailable;
    assert_eq!(held, OnUnavailable::Hold { timeout: None, most: 1000 });
    let held = pool_with("on_unavailable = 'hold'\nhold_timeout = '3s'\nhold_max = 7");
    let timeout = Some(Duration::from_secs(3));
    assert_eq!(held.on_unavailable, OnUnavailable::Hold { timeout, most: 7 });
    let hashed = pool_with("balance = 'ip-hash'").policy;
    assert_eq!(hashed, Policy::SourceHash { balance_factor: None });
    let timed = pool_with("balance = 'response-time'\nresponse_time = 'first-byte'").policy;
    assert_eq!(timed, Policy::ResponseTime { of: Timing::FirstByte });
    assert_eq!(pool_with("send_proxy_protocol = 'off'").send_proxy_protocol, None);
    let version = pool_with("send_proxy_protocol = 'v2'").send_proxy_protocol;
    assert_eq!(version, Some(ProxyVersion::V2));
}

#[test]
fn a_check_is_what_its_keys_say() {
    let http = HttpCheck::default();
    assert_eq!((http.path.as_str(), &http.host, &http.body), ("/", &None, &None));
    assert_eq!(http.expect, [200..=299]);
    let asked = |expect| Check::Http(HttpCheck { expect, ..HttpCheck::default() });
    let bytes = |send: &[u8], expect: &[u8]| {
        let (send, expect) = (send.to_vec(), expect.to_vec());
        Check::Exchange { send, expect }
    };
    for (text, expected) in [
        ("type = 'http'", asked(vec![200..=299])),
        ("type = 'http', expect = 200", asked(vec![200..=200])),
        (
            "type = 'http', expect = [200, '3xx', '401-403']",
            asked(vec![200..=200, 300..=399, 401..=403]),
        ),
        ("type = 'http', expect = '200-399'", asked(vec![200..=399])),
        ("send = \"PING\\r\\n\", expect = '+PONG'", bytes(b"PING\r\n", b"+PONG")),
        ("type = 'tcp', expect = 'hex:00 ff'", bytes(b"", b"\x00\xff")),
        ("send = 'x'", bytes(b"x", b"")),
        ("type = 'redis'", Check::Redis),
        ("type = 'mysql'", Check::Mysql { user: "evenkeel".into() }),
        ("type = 'mysql', user = 'me'", Check::Mysql { user: "me".into() }),
        ("type = 'postgres'", Check::Postgres { user: None }),
        ("type = 'postgres', user = 'me'", Check::Postgres { user: Some("me".into()) }),
        ("type = 'smtp'", Check::Smtp),
        ("type = 'none'", Check::None),
    ] {
        assert_eq!(pool_with(&format!("health = {{ {text} }}")).health.check, expected, "{text}");
    }
}

#[test]
fn an_agent_is_a_port_of_each_backend_or_one_address() {
    let agent = |text: &str| pool_with(&format!("health.agent = '{text}'")).health.agent;
    assert_eq!(agent(":9999"), Some(Agent::Port(9999)));
    let address = BackendAddress::Unix("/run/agent.sock".into());
    assert_eq!(agent("unix:/run/agent.sock"), Some(Agent::Address(address)));
    let paced = pool_with("health = { interval = '7s', agent = ':1' }").health;
    assert_eq!(paced.agent_interval, Duration::from_secs(7));
    let paced = pool_with("health = { agent = ':1', agent_interval = '9s' }").health;
    assert_eq!(paced.agent_interval, Duration::from_secs(9));
}

#[test]
fn listeners_and_pools_keep_the_order_of_the_file() {
    let config = read(
        "[listener.z]\nbind = ':1'\npool = 'b'\n[pool.b]\nbackends = ['h:1']\n\
         [listener.a]\nbind = ':2'\n[pool.a]\nbackends = ['h:2']\n",
    );
    let names: Vec<&str> = config.listeners.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["z", "a"]);
    let pools: Vec<&str> = config.pools.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(pools, ["b", "a"]);
    assert_eq!((config.listeners[0].pool, config.listeners[1].pool), (0, 1));
}

#[test]
fn a_short_interval_shortens_the_fast_one_that_was_not_written() {
    let config = read(&format!("{MINIMAL}[pool.web.health]\ninterval = '200ms'\n"));
    let health = &config.pools[0].health;
    assert_eq!(health.fast_interval, health.interval);
}

#[test]
fn names_to_be_resolved_come_with_their_place() {
    let text = "[listener.web]\nbind = ['localhost:1', ':2']\n\
                [pool.web]\nbackends = ['127.0.0.1:3', { address = 'db.example:4' }]\n\
                [pool.web.health]\naddress = 'check.example:5'\nagent = 'agent.example:6'\n";
    let loaded = parse("c.toml", text).unwrap();
    let names: Vec<(&str, u16, &str)> = loaded
        .names
        .iter()
        .map(|name| (name.host.as_str(), name.port, &text[name.span.clone()]))
        .collect();
    assert_eq!(names[0], ("localhost", 1, "'localhost:1'"));
    assert_eq!(names[1].0, "db.example");
    assert!(names[1].2.contains("'db.example:4'"));
    assert_eq!(names[2], ("check.example", 5, "'check.example:5'"));
    assert_eq!(names[3..], [("agent.example", 6, "'agent.example:6'")]);
}

#[test]
fn problems_are_reported_in_the_order_of_the_text() {
    let text = "[pool.web]\nbackends = []\nrise = 1\n[listener.web]\nbind = 1\n[global]\nx = 1\n";
    let starts: Vec<usize> = problems(text).iter().map(|problem| problem.span.start).collect();
    assert_eq!(starts.len(), 4);
    assert!(starts.is_sorted());
}

#[test]
fn limits_hold_at_their_edges() {
    let backends = |count: usize| {
        let list: Vec<String> = (0..count).map(|n| format!("'h{n}:1'")).collect();
        format!("[listener.web]\nbind = ':1'\n[pool.web]\nbackends = [{}]", list.join(","))
    };
    assert_eq!(read(&backends(10_000)).pools[0].backends.len(), 10_000);
    assert!(problems(&backends(10_001))[0].message.contains("10001 backends"));
    let binds = |count: usize| {
        let list: Vec<String> = (1..=count).map(|port| format!("':{port}'")).collect();
        MINIMAL.replace("':3030'", &format!("[{}]", list.join(",")))
    };
    assert_eq!(read(&binds(1024)).listeners[0].bind.len(), 1024);
    assert!(problems(&binds(1025))[0].message.contains("1025 addresses"));
    let listed = |key: &str, count: usize| {
        let list: Vec<String> = (0..count)
            .map(|n| format!("'192.{}.{}.{}'", n / 65_536, n / 256 % 256, n % 256))
            .collect();
        MINIMAL.replace("bind", &format!("{key} = [{}]\nbind", list.join(",")))
    };
    assert_eq!(read(&listed("deny", 10_000)).listeners[0].deny.len(), 10_000);
    assert!(problems(&listed("deny", 10_001))[0].message.contains("10001 networks"));
    let both = listed("allow", 10_000).replace("bind", "deny = ['0.0.0.0/0']\nbind");
    assert_eq!(problems(&both).len(), 10_000);
    let sources = |count: usize| {
        let list: Vec<String> = (0..count).map(|n| format!("'2001:db8::{n:x}'")).collect();
        parse("c", &format!("{MINIMAL}source = [{}]\n", list.join(",")))
    };
    assert!(sources(256).is_ok() && sources(257).is_err());
    for (line, good) in [
        ("connect_attempts = 100", true),
        ("connect_attempts = 101", false),
        ("connect_timeout = '3650d'", true),
        ("connect_timeout = '3651d'", false),
        ("health.rise = 1000", true),
        ("health.fall = 1001", false),
        ("queue = 0", true),
        ("queue = 1000001", false),
        ("slow_start = '3651d'", false),
        ("balance = 'source-hash'\nhash_balance_factor = 101", true),
        ("balance = 'source-hash'\nhash_balance_factor = 100", false),
        ("balance = 'source-hash'\nhash_balance_factor = 10001", false),
        ("on_unavailable = 'hold'\nhold_max = 0", false),
        ("health.port = 65535", true),
        ("health.port = 0", false),
    ] {
        let found = parse("c", &format!("{MINIMAL}{line}\n"));
        assert_eq!(found.is_ok(), good, "{line}");
    }
}

proptest! {
    #[test]
    fn any_text_is_answered_with_places_inside_it(text in any_text()) {
        check_places(&text)?;
    }

    #[test]
    fn any_damage_to_a_good_file_is_answered(
        config in any_config(),
        at in any::<prop::sample::Index>(),
        gone in 0_usize..20,
        new in "[\\[\\]{}=\"',.#\n a-z0-9]{0,6}",
    ) {
        let mut chars: Vec<char> = to_toml(&config).chars().collect();
        let start = at.index(chars.len());
        let end = (start + gone).min(chars.len());
        chars.splice(start..end, new.chars());
        check_places(&chars.into_iter().collect::<String>())?;
    }

    #[test]
    fn a_good_configuration_is_read_as_it_was_written(config in any_config()) {
        let text = to_toml(&config);
        match parse("c.toml", &text) {
            Ok(loaded) => prop_assert_eq!(loaded.config, config),
            Err(error) => prop_assert!(false, "{}\n{}", text, error),
        }
    }
}

const MINIMAL: &str = "[listener.web]\nbind = ':3030'\n[pool.web]\nbackends = ['a:1']\n";

fn read(text: &str) -> Config {
    let loaded = parse("c.toml", text).map_err(|error| error.to_string());
    loaded.unwrap().config
}

/// The pool of the smallest configuration with these lines.
fn pool_with(lines: &str) -> evenkeel::config::Pool {
    read(&format!("{MINIMAL}{lines}\n")).pools.remove(0)
}

fn problems(text: &str) -> Vec<Problem> {
    match parse("c.toml", text) {
        Err(LoadError::Invalid { problems, .. }) => problems,
        Ok(_) | Err(LoadError::Unreadable(_) | LoadError::Unfit(_)) => Vec::new(),
    }
}

fn check_places(text: &str) -> Result<(), TestCaseError> {
    let (found, rendered) = match parse("c.toml", text) {
        Ok(loaded) => (loaded.warnings.clone(), loaded.render(&loaded.warnings)),
        Err(LoadError::Invalid { problems, rendered, .. }) => (problems, rendered),
        Err(LoadError::Unreadable(message) | LoadError::Unfit(message)) => {
            return Err(TestCaseError::fail(message));
        }
    };
    for problem in &found {
        prop_assert!(text.get(problem.span.clone()).is_some(), "{:?}", problem);
        let first = problem.first.clone().unwrap_or(0..0);
        prop_assert!(text.get(first).is_some(), "{:?}", problem);
        prop_assert!(!problem.message.is_empty() && !problem.cure.is_empty());
    }
    prop_assert!(rendered.matches('^').count() >= found.len().min(100));
    Ok(())
}

/// Random characters, and lines that resemble a configuration.
fn any_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "\\[{0,2}(global|listener|pool|listen)(\\.(web|\"a b\"|)){0,2}(\\.health)?\\]{0,2}",
        "(bind|pool|backends|health|rise|weight|interval|mode|x)(\\.web)? ?= ?",
        "(bind|pool|backends|health|rise|idle_timeout) = (\"[^\"]{0,8}\"|-?[0-9]{1,6}|true|1s)",
        "(bind|backends) = \\[(\"[a-z0-9:.]{0,9}\", ?){0,4}[^a]{0,2}\\]?",
        "backends = \\[\\{ ?(address|weight|wieght|backup) = [^x]{0,6}\\}?\\]?",
        "(allow|deny|source|proxy_protocol_from) = \\[?\"[0-9a-f.:/]{0,20}\"\\]?",
        "(type|balance|on_unavailable|send|expect|path|agent) = \"?[a-z0-9:/-]{0,9}\"?",
        "(expect|queue|hold_max|queue_timeout|port) = \\[?(\"[0-9x-]{0,7}\"|-?[0-9]{1,6})\\]?",
        ".{0,20}",
    ];
    let lines = prop::collection::vec((line, "\n|\r\n|\r|"), 0..12);
    let joined = lines.prop_map(|lines| lines.into_iter().map(|(a, b)| a + &b).collect());
    prop_oneof!["(?s).{0,80}", joined]
}
