//! Whose turn it is: every algorithm with 3, 100 and 10 000 backends.
//!
//! One round is what a connection costs: a pick, its count up, an answer's time, its count down. It
//! should cost nearly the same in every size, and little more when a third of the backends is
//! closed. `source_hash` shows how bids grow with the pool until a table takes over, and `setup`
//! what a picker costs to make.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use evenkeel::pool::picker::{Member, PickKey, Picker, Policy};

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .sample_size(20)
        .configure_from_args();
    rounds(&mut criterion);
    source_hash(&mut criterion);
    setup(&mut criterion);
    criterion.final_summary();
}

const ALGORITHMS: [(&str, Policy); 8] = [
    ("round-robin", Policy::RoundRobin),
    ("least-connections", Policy::LeastConnections),
    ("source-hash", HASH),
    ("source-hash-bounded", Policy::SourceHash { balance_factor: Some(125) }),
    ("two-choices", Policy::TwoChoices),
    ("response-time", Policy::ResponseTime),
    ("resource", Policy::Resource),
    ("first", Policy::First),
];
const HASH: Policy = Policy::SourceHash { balance_factor: None };

fn rounds(criterion: &mut Criterion) {
    for (name, policy) in ALGORITHMS {
        let mut group = criterion.benchmark_group(name);
        for size in [3, 100, 10_000] {
            for (state, third_closed) in [("all_open", false), ("third_closed", true)] {
                let mut bench = Bench::new(policy, size);
                for index in (0..size).filter(|index| third_closed && index % 3 == 2) {
                    bench.picker.set_open(index, false);
                }
                group.bench_function(BenchmarkId::new(state, size), |bencher| {
                    bencher.iter(|| bench.round());
                });
            }
        }
        group.finish();
    }
}

fn source_hash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("source_hash_by_size");
    for size in [8, 16, 32, 64, 127, 128, 256, 1000] {
        let mut bench = Bench::new(HASH, size);
        group.bench_function(size.to_string(), |bencher| bencher.iter(|| bench.round()));
    }
    group.finish();
}

fn setup(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("setup");
    for size in [128, 10_000] {
        for (name, policy) in [("round-robin", Policy::RoundRobin), ("source-hash", HASH)] {
            let members = members(size);
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                bencher.iter(|| black_box(Picker::new(policy, &members, 1)));
            });
        }
    }
    group.finish();
}

struct Bench {
    picker: Picker,
    active: Vec<u32>,
    client: u32,
    now: Instant,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "a bench needs some instant to count from")]
    fn new(policy: Policy, size: usize) -> Self {
        let picker = Picker::new(policy, &members(size), 1);
        Self { picker, active: vec![0; size], client: 0, now: Instant::now() }
    }

    /// A client comes and is answered; where three are there, one leaves.
    fn round(&mut self) {
        self.client = self.client.wrapping_add(1);
        self.now += Duration::from_micros(10);
        let key = PickKey::of(IpAddr::V4(Ipv4Addr::from(self.client)));
        let Some(index) = black_box(self.picker.pick(key, self.now, &[])) else { return };
        self.active[index] += 1;
        self.picker.set_active(index, self.active[index]);
        let took = Duration::from_micros(500 + u64::from(self.client % 64));
        self.picker.sample(index, took, self.now);
        if self.active[index] > 2 {
            self.active[index] -= 1;
            self.picker.set_active(index, self.active[index]);
        }
    }
}

fn members(size: usize) -> Vec<Member> {
    (0..size).map(|i| Member::new(&format!("10.0.{}.{}:80", i / 250, i % 250), 1)).collect()
}
