//! What it costs to remember why: the life of a connection in its pool, with the ring and without.
//!
//! One round is what a connection asks of the control plane: a pick, a connect, its end. `noted`
//! does the same and notes it as the reactor does: the client, the choice with its candidates, the
//! connect, the end. The difference is the price; what the kernel does for the same connection
//! costs a hundred times as much.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use evenkeel::decisions::record::End;
use evenkeel::decisions::{Decisions, Over, REMEMBERED};
use evenkeel::measure::waits::Waits;
use evenkeel::pair::CloseReason;
use evenkeel::pool::backend::{Backend, Target};
use evenkeel::pool::choice::Asked;
use evenkeel::pool::health::UP;
use evenkeel::pool::picker::{PickKey, Policy};
use evenkeel::pool::terms::Terms;
use evenkeel::pool::{Picked, Pool};

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20)
        .configure_from_args();
    for (name, policy) in ALGORITHMS {
        let mut group = criterion.benchmark_group(name);
        for size in [3, 8, 1000] {
            for (state, remembered) in [("plain", 0), ("noted", REMEMBERED)] {
                let mut bench = Bench::new(policy, size, remembered);
                group.bench_function(BenchmarkId::new(state, size), |bencher| {
                    bencher.iter(|| bench.round());
                });
            }
        }
        group.finish();
    }
    criterion.final_summary();
}

const ALGORITHMS: [(&str, Policy); 7] = [
    ("round-robin", Policy::RoundRobin),
    ("least-connections", Policy::LeastConnections),
    ("source-hash", Policy::SourceHash { balance_factor: None }),
    ("source-hash-bounded", Policy::SourceHash { balance_factor: Some(125) }),
    ("two-choices", Policy::TwoChoices),
    ("response-time", Policy::ResponseTime),
    ("first", Policy::First),
];

struct Bench {
    pool: Pool,
    decisions: Decisions,
    now: Instant,
    id: u64,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "a bench needs some instant to count from")]
    fn new(policy: Policy, size: u32, remembered: usize) -> Self {
        let now = Instant::now();
        let address =
            |index: u32| SocketAddr::new(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + index)), 80);
        let backend = |index| Backend::new(address(index).to_string(), 1, UP);
        let terms = Terms { policy, ..Terms::new("web") };
        let mut pool = Pool::new(terms, (0..size).map(backend).collect(), now);
        for index in 0..size {
            pool.relocate(index as usize, vec![Target::Inet(address(index))], now);
        }
        Self { pool, decisions: Decisions::remembering(remembered, now), now, id: 0 }
    }

    /// A client comes, is served, and leaves.
    fn round(&mut self) {
        self.id += 1;
        self.now += Duration::from_micros(10);
        let Self { pool, decisions, now, id } = self;
        let (now, id) = (*now, *id);
        let client = IpAddr::V4(Ipv4Addr::from(u32::try_from(id).unwrap_or(0)));
        let over = Over { listener: "web", pool: pool.name() };
        decisions.begin(id, Some(SocketAddr::new(client, 40_000)), over, now);
        let key = PickKey::of(client);
        let picked = Some(black_box(pool.pick(key, now, &[])));
        if let Some(choice) = decisions.chooses(id, now) {
            pool.note(&Asked { key, now, tried: &[], picked }, choice);
        }
        let Some(Picked::Backend(index)) = picked else { return };
        pool.opened(index);
        let attempt = pool.backend(index).first_attempt();
        let target = pool.backend(index).target(attempt).and_then(Target::inet);
        decisions.tries(id, pool.identity(index), target, now);
        let took = Duration::from_micros(500 + id % 64);
        decisions.connected(id, took);
        pool.connected(index, attempt, took, now);
        pool.closed(index);
        let reason = CloseReason::ClientFinished;
        let end = End { reason, lasted: 1, waits: Waits::new(0), received: 64, sent: 64 };
        decisions.ended(id, end, now);
    }
}
