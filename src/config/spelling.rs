//! A configuration as keys and values, as a file would have them: what two of them are compared by.
//!
//! Every struct is taken apart by name, so that a field nobody has written down here does not
//! compile. Nothing here is a secret: a token is not among the values.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::choice::{ACCESS_LOG, BALANCE, INITIAL, LOG_FORMAT, ON_DOWN, RESPONSE_TIME};
use super::{
    Admin, Agent, Backend, Check, Global, Health, HttpCheck, Listener, OnUnavailable, Policy, Pool,
    ProxyVersion, Timing,
};

/// The keys of a table that say something, each once.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<(&'static str, Value)>,
}

/// What a key says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    One(String),
    /// Each as it is written.
    List(Vec<String>),
}

pub(super) fn global(global: &Global) -> Rows {
    let Global { max_connections, drain_deadline, log_format, access_log, state_file } = global;
    let mut rows = Rows::default();
    rows.some("max_connections", *max_connections);
    rows.duration("drain_deadline", *drain_deadline);
    rows.text(LOG_FORMAT_KEY, LOG_FORMAT.word(*log_format));
    rows.text("access_log", ACCESS_LOG.word(*access_log));
    rows.text(STATE_FILE_KEY, state_file.as_ref().map(|path| path.to_string_lossy()));
    rows
}

/// What the token is, is not among it.
pub(super) fn admin(admin: &Admin) -> Rows {
    let Admin { listen, token_file, token: _, backend_metrics } = admin;
    let mut rows = Rows::default();
    rows.text(LISTEN_KEY, Some(listen.to_string()));
    rows.text("token_file", token_file.as_ref().map(|path| path.to_string_lossy()));
    rows.some("backend_metrics", Some(*backend_metrics));
    rows
}

pub(super) fn listener(listener: &Listener, pools: &[Pool]) -> Rows {
    let Listener {
        name: _,
        bind,
        pool,
        backlog,
        max_connections,
        max_per_source,
        allow,
        deny,
        proxy_protocol_from,
        idle_timeout,
        half_close_timeout,
        accept_rate,
        splice,
        reuse_port,
    } = listener;
    let mut rows = Rows::default();
    rows.list(BIND_KEY, bind);
    rows.text("pool", pools.get(*pool).map(|pool| &pool.name));
    rows.some("backlog", Some(backlog));
    rows.some("max_connections", *max_connections);
    rows.some("max_connections_per_source", *max_per_source);
    rows.list("allow", allow);
    rows.list("deny", deny);
    rows.list("proxy_protocol_from", proxy_protocol_from);
    rows.duration("idle_timeout", *idle_timeout);
    rows.duration("half_close_timeout", *half_close_timeout);
    rows.some("accept_rate", *accept_rate);
    rows.some("splice", Some(splice));
    rows.some(REUSE_PORT_KEY, Some(reuse_port));
    rows
}

/// With how its backends are probed, but without the backends.
pub(super) fn pool(pool: &Pool) -> Rows {
    let Pool {
        name: _,
        policy,
        connect_timeout,
        connect_attempts,
        first_byte_timeout,
        send_proxy_protocol,
        on_unavailable,
        queue,
        queue_timeout,
        source,
        on_down,
        slow_start,
        backends: _,
        health,
    } = pool;
    let mut rows = Rows::default();
    rows.policy(*policy);
    rows.duration("connect_timeout", Some(*connect_timeout));
    rows.some("connect_attempts", Some(connect_attempts));
    rows.duration("first_byte_timeout", *first_byte_timeout);
    let version = match send_proxy_protocol {
        None => "off",
        Some(ProxyVersion::V1) => "v1",
        Some(ProxyVersion::V2) => "v2",
    };
    rows.text("send_proxy_protocol", Some(version));
    match *on_unavailable {
        OnUnavailable::Close => rows.text("on_unavailable", Some("close")),
        OnUnavailable::Hold { timeout, most } => {
            rows.text("on_unavailable", Some("hold"));
            rows.duration("hold_timeout", timeout);
            rows.some("hold_max", Some(most));
        }
    }
    rows.some("queue", Some(queue));
    rows.duration("queue_timeout", *queue_timeout);
    rows.list("source", source);
    rows.text("on_down", ON_DOWN.word(*on_down));
    rows.duration("slow_start", Some(*slow_start));
    rows.health(health);
    rows
}

pub(super) fn backend(backend: &Backend) -> Rows {
    let Backend { address: _, weight, max_connections, backup } = backend;
    let mut rows = Rows::default();
    rows.some("weight", Some(weight));
    rows.some("max_connections", *max_connections);
    rows.some("backup", Some(backup));
    rows
}

/// Text in quotes, as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => shown.extend(['\\', c]),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c.is_control() => shown.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => shown.push(c),
        }
    }
    shown.push('"');
    shown
}

impl Rows {
    /// What `key` says.
    pub(super) fn of(&self, key: &str) -> Option<&Value> {
        self.rows.iter().find(|(own, _)| *own == key).map(|(_, value)| value)
    }

    fn policy(&mut self, policy: Policy) {
        let plain = match policy {
            Policy::SourceHash { .. } => Policy::SourceHash { balance_factor: None },
            Policy::ResponseTime { .. } => Policy::ResponseTime { of: Timing::default() },
            Policy::RoundRobin
            | Policy::LeastConnections
            | Policy::TwoChoices
            | Policy::Resource
            | Policy::First => policy,
        };
        self.text("balance", BALANCE.word(plain));
        if let Policy::SourceHash { balance_factor } = policy {
            self.some("hash_balance_factor", balance_factor);
        }
        if let Policy::ResponseTime { of } = policy {
            self.text("response_time", RESPONSE_TIME.word(of));
        }
    }

    fn health(&mut self, health: &Health) {
        let Health {
            check,
            interval,
            fast_interval,
            timeout,
            rise,
            fall,
            port,
            address,
            initial,
            agent,
            agent_interval,
        } = health;
        self.check(check);
        self.duration("health.interval", Some(*interval));
        self.duration("health.fast_interval", Some(*fast_interval));
        self.duration("health.timeout", Some(*timeout));
        self.some("health.rise", Some(rise));
        self.some("health.fall", Some(fall));
        self.some("health.port", *port);
        self.text("health.address", address.as_ref().map(ToString::to_string));
        self.text("health.initial", INITIAL.word(*initial));
        let agent = agent.as_ref().map(|agent| match agent {
            Agent::Port(port) => format!(":{port}"),
            Agent::Address(address) => address.to_string(),
        });
        self.text("health.agent", agent);
        if health.agent.is_some() {
            self.duration("health.agent_interval", Some(*agent_interval));
        }
    }

    fn check(&mut self, check: &Check) {
        let kind = match check {
            Check::None => "none",
            Check::Tcp | Check::Exchange { .. } => "tcp",
            Check::Http(_) => "http",
            Check::Redis => "redis",
            Check::Mysql { .. } => "mysql",
            Check::Postgres { .. } => "postgres",
            Check::Smtp => "smtp",
        };
        self.text("health.type", Some(kind));
        match check {
            Check::None | Check::Tcp | Check::Redis | Check::Smtp => {}
            Check::Http(HttpCheck { path, host, expect, body }) => {
                self.text("health.path", Some(path));
                self.text("health.host", host.as_ref());
                self.list("health.expect", &expect.iter().map(codes).collect::<Vec<_>>());
                self.text("health.expect_body", body.as_ref());
            }
            Check::Exchange { send, expect } => {
                self.text("health.send", Some(bytes(send)));
                self.text("health.expect", Some(bytes(expect)));
            }
            Check::Mysql { user } => self.text("health.user", Some(user)),
            Check::Postgres { user } => self.text("health.user", user.as_ref()),
        }
    }

    fn text(&mut self, key: &'static str, value: Option<impl AsRef<str>>) {
        self.some(key, value.map(|value| quoted(value.as_ref())));
    }

    fn some(&mut self, key: &'static str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.rows.push((key, Value::One(value.to_string())));
        }
    }

    fn list(&mut self, key: &'static str, values: &[impl Display]) {
        let values = values.iter().map(|value| quoted(&value.to_string()));
        self.rows.push((key, Value::List(values.collect())));
    }

    /// Without one it is never, which is written as zero.
    fn duration(&mut self, key: &'static str, duration: Option<Duration>) {
        let duration = humantime::format_duration(duration.unwrap_or_default());
        self.text(key, Some(duration.to_string()));
    }
}

fn codes(range: &RangeInclusive<u16>) -> String {
    let (first, last) = (range.start(), range.end());
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Bytes as text, or as digits where they are none.
fn bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with("hex:") => text.to_owned(),
        Ok(_) | Err(_) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            format!("hex:{}", digits.collect::<String>())
        }
    }
}

pub(super) const LOG_FORMAT_KEY: &str = "log_format";
pub(super) const STATE_FILE_KEY: &str = "state_file";
pub(super) const LISTEN_KEY: &str = "listen";
pub(super) const BIND_KEY: &str = "bind";
pub(super) const REUSE_PORT_KEY: &str = "reuse_port";
