//! The configuration as a value: defaults, forms of writing the same, and what holds for any text.

#![expect(clippy::unwrap_used, reason = "helpers of tests; a wrong fixture has failed")]

use std::fmt::Write;
use std::time::Duration;

use evenkeel::config::{
    AccessLog, Backend, BackendAddress, BindAddress, Check, Config, Global, Health, Initial,
    Listener, LoadError, LogFormat, Policy, Pool, Problem, parse,
};
use proptest::prelude::*;

#[test]
fn a_short_file_has_the_defaults_of_the_contract() {
    let config = read(MINIMAL);
    let (global, listener, pool) = (&config.global, &config.listeners[0], &config.pools[0]);
    let seconds = Duration::from_secs;
    assert_eq!(global.max_connections, None);
    assert_eq!(global.drain_deadline, Some(seconds(30)));
    assert_eq!((global.log_format, global.access_log), (LogFormat::Text, AccessLog::Off));
    assert_eq!((listener.backlog, listener.max_connections), (4096, None));
    assert_eq!(listener.idle_timeout, Some(seconds(3600)));
    assert_eq!(listener.half_close_timeout, Some(seconds(300)));
    assert!(listener.splice && !listener.reuse_port);
    assert_eq!((pool.connect_timeout, pool.connect_attempts), (seconds(3), 3));
    assert_eq!((pool.policy, pool.backends[0].weight), (Policy::RoundRobin, 1));
    let health = &pool.health;
    assert_eq!((&health.check, health.initial), (&Check::Tcp, Initial::Checking));
    assert_eq!((health.interval, health.timeout), (seconds(2), seconds(2)));
    assert_eq!(health.fast_interval, Duration::from_millis(500));
    assert_eq!((health.rise, health.fall), (2, 3));
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
                [pool.web]\nbackends = ['127.0.0.1:3', { address = 'db.example:4' }]\n";
    let loaded = parse("c.toml", text).unwrap();
    let names: Vec<(&str, u16, &str)> = loaded
        .names
        .iter()
        .map(|name| (name.host.as_str(), name.port, &text[name.span.clone()]))
        .collect();
    assert_eq!(names[0], ("localhost", 1, "'localhost:1'"));
    assert_eq!(names[1].0, "db.example");
    assert!(names[1].2.contains("'db.example:4'") && names.len() == 2);
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
    for (line, good) in [
        ("connect_attempts = 100", true),
        ("connect_attempts = 101", false),
        ("connect_timeout = '3650d'", true),
        ("connect_timeout = '3651d'", false),
        ("health.rise = 1000", true),
        ("health.fall = 1001", false),
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

fn problems(text: &str) -> Vec<Problem> {
    match parse("c.toml", text) {
        Err(LoadError::Invalid { problems, .. }) => problems,
        Ok(_) | Err(LoadError::Unreadable(_)) => Vec::new(),
    }
}

fn check_places(text: &str) -> Result<(), TestCaseError> {
    let (found, rendered) = match parse("c.toml", text) {
        Ok(loaded) => (loaded.warnings.clone(), loaded.render(&loaded.warnings)),
        Err(LoadError::Invalid { problems, rendered }) => (problems, rendered),
        Err(LoadError::Unreadable(message)) => return Err(TestCaseError::fail(message)),
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
        "backends = \\[\\{ ?(address|weight|wieght) = [^x]{0,6}\\}?\\]?",
        ".{0,20}",
    ];
    let lines = prop::collection::vec((line, "\n|\r\n|\r|"), 0..12);
    let joined = lines.prop_map(|lines| lines.into_iter().map(|(a, b)| a + &b).collect());
    prop_oneof!["(?s).{0,80}", joined]
}

/// Milliseconds up to the longest duration that is accepted.
fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![1_u64..5000, 1..=3650 * 24 * 3600 * 1000_u64].prop_map(Duration::from_millis)
}

fn any_config() -> impl Strategy<Value = Config> {
    let pools = prop::collection::vec(any_pool(), 1..4);
    (any_global(), pools, prop::collection::vec(any_listener(), 1..5)).prop_map(
        |(global, mut pools, mut listeners)| {
            for (index, pool) in pools.iter_mut().enumerate() {
                pool.name = format!("Pool-{index}.x");
            }
            for (index, listener) in listeners.iter_mut().enumerate() {
                listener.name = format!("listener_{index}");
                listener.pool %= pools.len();
                listener.bind = binds(index, listener.bind.len());
                if let (Some(own), Some(all)) =
                    (&mut listener.max_connections, global.max_connections)
                {
                    *own = all.min(*own);
                }
            }
            Config { global, listeners, pools }
        },
    )
}

/// Addresses of every kind, no two in each other's way.
fn binds(listener: usize, count: usize) -> Vec<BindAddress> {
    let port = |n: usize| u16::try_from(10_000 + listener * 10 + n).unwrap();
    (0..count)
        .map(|n| match (listener + n) % 5 {
            0 => BindAddress::Any(port(n)),
            1 => BindAddress::Inet(([127, 0, 0, 1], port(n)).into()),
            2 => BindAddress::Inet((std::net::Ipv6Addr::LOCALHOST, port(n)).into()),
            3 => BindAddress::Name { host: "localhost".to_owned(), port: port(n) },
            _ => BindAddress::Unix(format!("/run/{}.sock", port(n)).into()),
        })
        .collect()
}

fn any_global() -> impl Strategy<Value = Global> {
    let log_format = prop::sample::select(vec![LogFormat::Text, LogFormat::Json]);
    let logs = vec![AccessLog::Off, AccessLog::Close, AccessLog::Both];
    (
        prop::option::of(1_usize..=10_000_000),
        prop::option::of(duration()),
        log_format,
        prop::sample::select(logs),
    )
        .prop_map(|(max_connections, drain_deadline, log_format, access_log)| Global {
            max_connections,
            drain_deadline,
            log_format,
            access_log,
        })
}

fn any_listener() -> impl Strategy<Value = Listener> {
    (
        1_usize..6,
        0_usize..100,
        1_u32..=65535,
        prop::option::of(1_usize..=10_000_000),
        prop::option::of(duration()),
        prop::option::of(duration()),
        (any::<bool>(), any::<bool>()),
    )
        .prop_map(|(binds, pool, backlog, max_connections, idle, half, ways)| Listener {
            name: String::new(),
            bind: vec![BindAddress::Any(0); binds],
            pool,
            backlog,
            max_connections,
            idle_timeout: idle,
            half_close_timeout: half,
            splice: ways.0,
            reuse_port: ways.1,
            ..Listener::default()
        })
}

fn any_pool() -> impl Strategy<Value = Pool> {
    let weights = prop::collection::vec(0_u16..=256, 1..8);
    (duration(), 1_u32..=100, weights, any_health()).prop_map(
        |(connect_timeout, connect_attempts, mut weights, health)| {
            weights[0] = weights[0].max(1);
            Pool {
                name: String::new(),
                policy: Policy::RoundRobin,
                connect_timeout,
                connect_attempts,
                backends: (1..).zip(weights).map(|(n, weight)| backend(n, weight)).collect(),
                health,
                ..Pool::default()
            }
        },
    )
}

fn backend(n: u16, weight: u16) -> Backend {
    let address = match n % 4 {
        0 => BackendAddress::Inet(([192, 0, 2, 1], n).into()),
        1 => BackendAddress::Unix(format!("/run/\"{n}\" ö\t.sock").into()),
        2 => BackendAddress::Inet(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], n).into()),
        _ => BackendAddress::Name { host: format!("Db_{n}.example."), port: 65535 },
    };
    Backend { weight, ..Backend::new(address) }
}

fn any_health() -> impl Strategy<Value = Health> {
    let initials = vec![Initial::Checking, Initial::Up, Initial::Down];
    (
        any::<bool>(),
        [duration(), duration(), duration()],
        [1_u32..=1000, 1..=1000],
        prop::sample::select(initials),
    )
        .prop_map(|(tcp, [interval, fast, timeout], [rise, fall], initial)| Health {
            check: if tcp { Check::Tcp } else { Check::None },
            interval,
            fast_interval: fast.min(interval),
            timeout,
            rise,
            fall,
            initial,
            ..Health::default()
        })
}

/// The configuration as a file; what has no word in the file is left out.
fn to_toml(config: &Config) -> String {
    let mut out = String::new();
    let global = &config.global;
    let max =
        |max: Option<usize>| max.map_or(String::new(), |max| format!("max_connections = {max}\n"));
    let log_format = match global.log_format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    let access_log = match global.access_log {
        AccessLog::Off => "off",
        AccessLog::Close => "close",
        AccessLog::Both => "both",
    };
    let deadline = never(global.drain_deadline);
    writeln!(out, "[global]\nlog_format = '{log_format}'\naccess_log = '{access_log}'").unwrap();
    write!(out, "drain_deadline = {deadline}\n{}", max(global.max_connections)).unwrap();
    for listener in &config.listeners {
        let bind: Vec<String> =
            listener.bind.iter().map(|bind| quoted(&bind.to_string())).collect();
        writeln!(out, "[listener.{}]\nbind = [{}]", listener.name, bind.join(", ")).unwrap();
        writeln!(out, "pool = '{}'", config.pools[listener.pool].name).unwrap();
        writeln!(out, "backlog = {}", listener.backlog).unwrap();
        write!(out, "{}", max(listener.max_connections)).unwrap();
        writeln!(out, "idle_timeout = {}", never(listener.idle_timeout)).unwrap();
        writeln!(out, "half_close_timeout = {}", never(listener.half_close_timeout)).unwrap();
        writeln!(out, "splice = {}\nreuse_port = {}", listener.splice, listener.reuse_port)
            .unwrap();
    }
    for pool in &config.pools {
        pool_to_toml(pool, &mut out);
    }
    out
}

fn pool_to_toml(pool: &Pool, out: &mut String) {
    let balance = "round-robin";
    writeln!(out, "[pool.'{}']\nbalance = '{balance}'\nbackends = [", pool.name).unwrap();
    for backend in &pool.backends {
        let address = quoted(&backend.address.to_string());
        match backend.weight {
            1 => writeln!(out, "  {address},").unwrap(),
            weight => writeln!(out, "  {{ address = {address}, weight = {weight} }},").unwrap(),
        }
    }
    writeln!(out, "]\nconnect_timeout = {}", never(Some(pool.connect_timeout))).unwrap();
    writeln!(out, "connect_attempts = {}", pool.connect_attempts).unwrap();
    let health = &pool.health;
    let kind = match health.check {
        Check::None => "none",
        _ => "tcp",
    };
    let initial = match health.initial {
        Initial::Checking => "checking",
        Initial::Up => "up",
        Initial::Down => "down",
    };
    writeln!(out, "[pool.'{}'.health]\ntype = '{kind}'\ninitial = '{initial}'", pool.name).unwrap();
    writeln!(out, "interval = {}", never(Some(health.interval))).unwrap();
    writeln!(out, "fast_interval = {}", never(Some(health.fast_interval))).unwrap();
    writeln!(out, "timeout = {}", never(Some(health.timeout))).unwrap();
    writeln!(out, "rise = {}\nfall = {}", health.rise, health.fall).unwrap();
}

fn never(duration: Option<Duration>) -> String {
    duration.map_or("'0s'".to_owned(), |duration| format!("'{}ms'", duration.as_millis()))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t"))
}
