//! A configuration as a file; what has no word in the file is left out.

use std::fmt::Write;
use std::time::Duration;

use evenkeel::config::{
    AccessLog, Agent, Backend, Check, Config, Health, HttpCheck, Initial, Listener, LogFormat,
    Network, OnDown, OnUnavailable, Policy, Pool, ProxyVersion, Timing,
};

pub(crate) fn to_toml(config: &Config) -> String {
    let mut out = String::new();
    let global = &config.global;
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
    writeln!(out, "drain_deadline = {deadline}").unwrap();
    optional("max_connections", global.max_connections, &mut out);
    if let Some(path) = &global.state_file {
        writeln!(out, "state_file = '{}'", path.display()).unwrap();
    }
    if let Some(admin) = &config.admin {
        writeln!(out, "[admin]\nlisten = '{}'", admin.listen).unwrap();
        writeln!(out, "backend_metrics = {}", admin.backend_metrics).unwrap();
    }
    for listener in &config.listeners {
        listener_to_toml(listener, &config.pools[listener.pool].name, &mut out);
    }
    for pool in &config.pools {
        pool_to_toml(pool, &mut out);
        health_to_toml(&pool.name, &pool.health, &mut out);
    }
    out
}

fn listener_to_toml(listener: &Listener, pool: &str, out: &mut String) {
    writeln!(out, "[listener.{}]\nbind = [{}]", listener.name, list(&listener.bind)).unwrap();
    writeln!(out, "pool = '{pool}'").unwrap();
    writeln!(out, "backlog = {}", listener.backlog).unwrap();
    optional("max_connections", listener.max_connections, out);
    optional("max_connections_per_source", listener.max_per_source, out);
    networks("allow", &listener.allow, out);
    networks("deny", &listener.deny, out);
    networks("proxy_protocol_from", &listener.proxy_protocol_from, out);
    writeln!(out, "idle_timeout = {}", never(listener.idle_timeout)).unwrap();
    writeln!(out, "half_close_timeout = {}", never(listener.half_close_timeout)).unwrap();
    optional("accept_rate", listener.accept_rate, out);
    writeln!(out, "splice = {}\nreuse_port = {}", listener.splice, listener.reuse_port).unwrap();
}

fn pool_to_toml(pool: &Pool, out: &mut String) {
    writeln!(out, "[pool.'{}']", pool.name).unwrap();
    policy(pool.policy, out);
    writeln!(out, "connect_timeout = {}", never(Some(pool.connect_timeout))).unwrap();
    writeln!(out, "connect_attempts = {}", pool.connect_attempts).unwrap();
    writeln!(out, "first_byte_timeout = {}", never(pool.first_byte_timeout)).unwrap();
    let version = match pool.send_proxy_protocol {
        None => "off",
        Some(ProxyVersion::V1) => "v1",
        Some(ProxyVersion::V2) => "v2",
    };
    writeln!(out, "send_proxy_protocol = '{version}'").unwrap();
    match pool.on_unavailable {
        OnUnavailable::Close => writeln!(out, "on_unavailable = 'close'").unwrap(),
        OnUnavailable::Hold { timeout, most } => {
            writeln!(out, "on_unavailable = 'hold'\nhold_timeout = {}", never(timeout)).unwrap();
            writeln!(out, "hold_max = {most}").unwrap();
        }
    }
    writeln!(out, "queue = {}", pool.queue).unwrap();
    if pool.queue > 0 {
        writeln!(out, "queue_timeout = {}", never(pool.queue_timeout)).unwrap();
    }
    writeln!(out, "source = [{}]", list(&pool.source)).unwrap();
    let on_down = match pool.on_down {
        OnDown::Keep => "keep",
        OnDown::Close => "close",
    };
    writeln!(out, "on_down = '{on_down}'").unwrap();
    writeln!(out, "slow_start = {}\nbackends = [", never(Some(pool.slow_start))).unwrap();
    for backend in &pool.backends {
        let address = quoted(&backend.address.to_string());
        if *backend == Backend::new(backend.address.clone()) {
            writeln!(out, "  {address},").unwrap();
            continue;
        }
        write!(out, "  {{ address = {address}, weight = {}", backend.weight).unwrap();
        if let Some(most) = backend.max_connections {
            write!(out, ", max_connections = {most}").unwrap();
        }
        writeln!(out, ", backup = {} }},", backend.backup).unwrap();
    }
    writeln!(out, "]").unwrap();
}

fn policy(policy: Policy, out: &mut String) {
    let (word, beside) = match policy {
        Policy::RoundRobin => ("round-robin", None),
        Policy::LeastConnections => ("least-connections", None),
        Policy::SourceHash { balance_factor } => {
            ("source-hash", balance_factor.map(|factor| format!("hash_balance_factor = {factor}")))
        }
        Policy::TwoChoices => ("two-choices", None),
        Policy::ResponseTime { of: Timing::Connect } => ("response-time", None),
        Policy::ResponseTime { of: Timing::FirstByte } => {
            ("response-time", Some("response_time = 'first-byte'".to_owned()))
        }
        Policy::Resource => ("resource", None),
        Policy::First => ("first", None),
    };
    writeln!(out, "balance = '{word}'\n{}", beside.unwrap_or_default()).unwrap();
}

fn health_to_toml(pool: &str, health: &Health, out: &mut String) {
    writeln!(out, "[pool.'{pool}'.health]").unwrap();
    check(&health.check, out);
    let initial = match health.initial {
        Initial::Checking => "checking",
        Initial::Up => "up",
        Initial::Down => "down",
    };
    writeln!(out, "initial = '{initial}'").unwrap();
    writeln!(out, "interval = {}", never(Some(health.interval))).unwrap();
    writeln!(out, "fast_interval = {}", never(Some(health.fast_interval))).unwrap();
    writeln!(out, "timeout = {}", never(Some(health.timeout))).unwrap();
    writeln!(out, "rise = {}\nfall = {}", health.rise, health.fall).unwrap();
    optional("port", health.port, out);
    if let Some(address) = &health.address {
        writeln!(out, "address = {}", quoted(&address.to_string())).unwrap();
    }
    if let Some(agent) = &health.agent {
        let agent = match agent {
            Agent::Port(port) => format!(":{port}"),
            Agent::Address(address) => address.to_string(),
        };
        writeln!(out, "agent = {}", quoted(&agent)).unwrap();
        writeln!(out, "agent_interval = {}", never(Some(health.agent_interval))).unwrap();
    }
}

fn check(check: &Check, out: &mut String) {
    let word = match check {
        Check::None => "none",
        Check::Tcp | Check::Exchange { .. } => "tcp",
        Check::Http(_) => "http",
        Check::Redis => "redis",
        Check::Mysql { .. } => "mysql",
        Check::Postgres { .. } => "postgres",
        Check::Smtp => "smtp",
    };
    writeln!(out, "type = '{word}'").unwrap();
    if let Check::Mysql { user } | Check::Postgres { user: Some(user) } = check {
        writeln!(out, "user = {}", quoted(user)).unwrap();
    }
    if let Check::Exchange { send, expect } = check {
        for (key, bytes) in [("send", send), ("expect", expect)] {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
            if !bytes.is_empty() {
                writeln!(out, "{key} = 'hex:{digits}'").unwrap();
            }
        }
    }
    if let Check::Http(HttpCheck { path, host, expect, body }) = check {
        let ranges: Vec<String> =
            expect.iter().map(|range| format!("'{}-{}'", range.start(), range.end())).collect();
        writeln!(out, "path = '{path}'\nexpect = [{}]", ranges.join(", ")).unwrap();
        for (key, text) in [("host", host), ("expect_body", body)] {
            if let Some(text) = text {
                writeln!(out, "{key} = {}", quoted(text)).unwrap();
            }
        }
    }
}

fn optional(key: &str, value: Option<impl std::fmt::Display>, out: &mut String) {
    if let Some(value) = value {
        writeln!(out, "{key} = {value}").unwrap();
    }
}

fn networks(key: &str, networks: &[Network], out: &mut String) {
    if !networks.is_empty() {
        writeln!(out, "{key} = [{}]", list(networks)).unwrap();
    }
}

fn list(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(&item.to_string())).collect();
    items.join(", ")
}

fn never(duration: Option<Duration>) -> String {
    duration.map_or("'0s'".to_owned(), |duration| format!("'{}ms'", duration.as_millis()))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t"))
}
