//! Any good configuration: every key with every kind of value, and nothing that contradicts itself.

use std::ops::RangeInclusive;
use std::time::Duration;

use evenkeel::config::{
    AccessLog, Admin, Agent, Backend, BackendAddress, BindAddress, Check, Config, Global, Health,
    HttpCheck, Initial, Listener, LogFormat, Network, OnDown, OnUnavailable, Policy, Pool,
    ProxyVersion, Timing,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn any_config() -> impl Strategy<Value = Config> {
    let pools = prop::collection::vec(any_pool(), 1..4);
    let admin = option::of(any_admin());
    (any_global(), admin, pools, prop::collection::vec(any_listener(), 1..5)).prop_map(
        |(global, admin, mut pools, mut listeners)| {
            for (index, pool) in pools.iter_mut().enumerate() {
                pool.name = format!("Pool-{index}.x");
                for backend in &mut pool.backends {
                    backend.max_connections =
                        within(backend.max_connections, global.max_connections);
                }
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
                // Proxies are let in.
                if !listener.allow.is_empty() {
                    listener.proxy_protocol_from.clone_from(&listener.allow);
                }
                let most = listener.max_connections.or(global.max_connections);
                listener.max_per_source = within(listener.max_per_source, most);
                if listener.bind.iter().all(|bind| matches!(bind, BindAddress::Unix(_))) {
                    listener.max_per_source = None;
                    listener.allow.clear();
                    listener.deny.clear();
                    listener.proxy_protocol_from.clear();
                }
            }
            Config { global, admin, listeners, pools }
        },
    )
}

/// Without a token, which would need a file.
fn any_admin() -> impl Strategy<Value = Admin> {
    select(vec!["127.0.0.1:9930", "[::1]:0", "localhost:9930", "unix:/run/admin.sock"])
        .prop_map(|listen| Admin::new(listen.parse().unwrap()))
        .prop_flat_map(|admin| {
            any::<bool>()
                .prop_map(move |backend_metrics| Admin { backend_metrics, ..admin.clone() })
        })
}

fn within(own: Option<u32>, most: Option<usize>) -> Option<u32> {
    let most = most.map_or(u32::MAX, |most| u32::try_from(most).unwrap());
    own.map(|own| own.min(most))
}

/// Milliseconds up to the longest duration that is accepted.
fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![1_u64..5000, 1..=3650 * 24 * 3600 * 1000_u64].prop_map(Duration::from_millis)
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
    let log_format = select(vec![LogFormat::Text, LogFormat::Json]);
    let logs = vec![AccessLog::Off, AccessLog::Close, AccessLog::Both];
    (option::of(1_usize..=10_000_000), option::of(duration()), log_format, select(logs)).prop_map(
        |(max_connections, drain_deadline, log_format, access_log)| Global {
            state_file: max_connections.map(|most| format!("/state/{}", most % 3).into()),
            max_connections,
            drain_deadline,
            log_format,
            access_log,
        },
    )
}

fn any_listener() -> impl Strategy<Value = Listener> {
    let limit = || option::of(1_u32..=10_000_000);
    (
        (1_usize..6, 0_usize..100, 1_u32..=65535),
        [limit(), limit(), option::of(1_u32..=1_000_000)],
        (option::of(duration()), option::of(duration())),
        (any::<bool>(), any::<bool>()),
        // Nothing that is denied is allowed.
        [networks("10"), networks("172"), networks("")],
    )
        .prop_map(|((binds, pool, backlog), limits, timeouts, ways, networks)| {
            let [max_connections, max_per_source, accept_rate] = limits;
            let [allow, deny, proxy_protocol_from] = networks;
            Listener {
                name: String::new(),
                bind: vec![BindAddress::Any(0); binds],
                pool,
                backlog,
                max_connections: max_connections.map(|most| usize::try_from(most).unwrap()),
                max_per_source,
                allow,
                deny,
                proxy_protocol_from,
                idle_timeout: timeouts.0,
                half_close_timeout: timeouts.1,
                accept_rate,
                splice: ways.0,
                reuse_port: ways.1,
            }
        })
}

/// A few networks that begin with a byte; without one also of IPv6.
fn networks(first: &'static str) -> BoxedStrategy<Vec<Network>> {
    let v4 = (any::<u32>(), 8_u32..=32).prop_map(move |(bits, prefix)| {
        let bits = bits & u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        let [a, b, c, d] = bits.to_be_bytes();
        let a = if first.is_empty() { a.to_string() } else { first.to_owned() };
        format!("{a}.{b}.{c}.{d}/{prefix}").parse().unwrap()
    });
    let v6 = (any::<u128>(), 0_u32..=128).prop_map(|(bits, prefix)| {
        let bits = bits & u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
        format!("{}/{prefix}", std::net::Ipv6Addr::from(bits)).parse().unwrap()
    });
    if first.is_empty() {
        prop::collection::vec(prop_oneof![v4, v6], 0..4).boxed()
    } else {
        prop::collection::vec(v4, 0..4).boxed()
    }
}

fn any_pool() -> impl Strategy<Value = Pool> {
    let backends = (1_u16..4, prop::collection::vec(any_limits(), 1..8));
    let versions = select(vec![None, Some(ProxyVersion::V1), Some(ProxyVersion::V2)]);
    (
        (any_policy(), any_health(), backends),
        (duration(), 1_u32..=100, option::of(duration()), versions),
        (any_absence(), 0_usize..3000, option::of(duration()), any::<bool>()),
        (select(vec![OnDown::Keep, OnDown::Close]), option::of(duration())),
    )
        .prop_map(|((policy, health, (first, mut limits)), connect, wait, after)| {
            limits[0].0 = limits[0].0.max(1);
            let backends = (first..).zip(limits).map(|(n, limits)| backend(n, limits)).collect();
            let default = Pool::default().queue_timeout;
            let mut pool = Pool {
                name: String::new(),
                policy,
                connect_timeout: connect.0,
                connect_attempts: connect.1,
                first_byte_timeout: connect.2,
                send_proxy_protocol: connect.3,
                on_unavailable: wait.0,
                queue: wait.1,
                queue_timeout: if wait.1 == 0 { default } else { wait.2 },
                source: Vec::new(),
                on_down: after.0,
                slow_start: after.1.unwrap_or_default(),
                backends,
                health,
            };
            if wait.3 {
                pool.source = vec![[192, 0, 2, 9].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 9].into()];
            }
            make_consistent(&mut pool);
            pool
        })
}

fn make_consistent(pool: &mut Pool) {
    let is_unix = |backend: &Backend| matches!(backend.address, BackendAddress::Unix(_));
    if pool.backends.iter().any(is_unix) {
        pool.health.port = None;
        if let Some(Agent::Port(_)) = pool.health.agent {
            pool.health.agent = None;
            pool.health.agent_interval = pool.health.interval;
        }
    }
    if pool.backends.iter().all(is_unix) {
        pool.source.clear();
    }
    if pool.health.agent.is_none() {
        if pool.policy == Policy::Resource {
            pool.policy = Policy::RoundRobin;
        }
        if pool.health.check == Check::None {
            pool.on_down = OnDown::Keep;
        }
    }
}

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        select(vec![
            Policy::RoundRobin,
            Policy::LeastConnections,
            Policy::TwoChoices,
            Policy::Resource,
            Policy::First,
            Policy::ResponseTime { of: Timing::Connect },
            Policy::ResponseTime { of: Timing::FirstByte },
        ]),
        option::of(101_u32..=10_000)
            .prop_map(|balance_factor| Policy::SourceHash { balance_factor }),
    ]
}

fn any_absence() -> impl Strategy<Value = OnUnavailable> {
    let hold = (option::of(duration()), 1_usize..=1_000_000)
        .prop_map(|(timeout, most)| OnUnavailable::Hold { timeout, most });
    prop_oneof![Just(OnUnavailable::Close), hold]
}

/// Weight, limit, and whether it is a backup.
fn any_limits() -> impl Strategy<Value = (u16, Option<u32>, bool)> {
    (0_u16..=256, option::of(1_u32..=10_000_000), any::<bool>())
}

fn backend(n: u16, (weight, max_connections, backup): (u16, Option<u32>, bool)) -> Backend {
    let address = match n % 4 {
        0 => BackendAddress::Inet(([192, 0, 2, 1], n).into()),
        1 => BackendAddress::Unix(format!("/run/\"{n}\" ö.sock").into()),
        2 => BackendAddress::Inet(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], n).into()),
        _ => BackendAddress::Name { host: format!("Db_{n}.example."), port: 65535 },
    };
    Backend { address, weight, max_connections, backup }
}

fn any_health() -> impl Strategy<Value = Health> {
    let initials = vec![Initial::Checking, Initial::Up, Initial::Down];
    (
        (any_check(), 0_u16..4, any_agent()),
        [duration(), duration(), duration(), duration()],
        [1_u32..=1000, 1..=1000],
        select(initials),
    )
        .prop_map(|((check, target, agent), pace, [rise, fall], initial)| {
            let [interval, fast, timeout, agent_interval] = pace;
            let probed = check != Check::None;
            Health {
                check,
                interval,
                fast_interval: fast.min(interval),
                timeout,
                rise,
                fall,
                port: (probed && target == 1).then_some(8080),
                address: (probed && target == 2).then(|| backend(3, (1, None, false)).address),
                initial,
                agent_interval: if agent.is_some() { agent_interval } else { interval },
                agent,
            }
        })
}

fn any_agent() -> impl Strategy<Value = Option<Agent>> {
    let address = (1_u16..5).prop_map(|n| Agent::Address(backend(n, (1, None, false)).address));
    option::of(prop_oneof![(1..=u16::MAX).prop_map(Agent::Port), address])
}

fn any_check() -> impl Strategy<Value = Check> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..20);
    let exchange = (any::<bool>(), bytes(), prop_oneof![Just(Vec::new()), bytes()]).prop_map(
        |(swap, one, other)| {
            let (send, expect) = if swap { (other, one) } else { (one, other) };
            Check::Exchange { send, expect }
        },
    );
    let http = (
        "/[a-z0-9?=&%/._-]{0,20}",
        option::of("[a-z0-9.-]{1,20}(:[0-9]{1,4})?"),
        prop::collection::vec(any_codes(), 1..4),
        option::of("[a-z <>ö\"\\t]{1,20}"),
    )
        .prop_map(|(path, host, expect, body)| Check::Http(HttpCheck { path, host, expect, body }));
    let ready = vec![Check::None, Check::Tcp, Check::Redis, Check::Smtp];
    let user = || "[a-z_]{1,20}";
    let mysql = user().prop_map(|user| Check::Mysql { user });
    let postgres = option::of(user()).prop_map(|user| Check::Postgres { user });
    prop_oneof![select(ready), exchange, http, mysql, postgres]
}

fn any_codes() -> impl Strategy<Value = RangeInclusive<u16>> {
    (100_u16..=599, 100_u16..=599).prop_map(|(a, b)| a.min(b)..=a.max(b))
}
