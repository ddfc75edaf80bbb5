//! Whose turn it is: round robin as the reactor asks for it, through the pool.
//!
//! A pick should cost the same whatever the size of the pool, and little more when a third of the
//! backends is dead.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use evenkeel::pool::Pool;
use evenkeel::pool::backend::{Backend, Target};
use evenkeel::pool::health;
use evenkeel::pool::picker::PickKey;
use evenkeel::pool::terms::Terms;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .configure_from_args();
    picks(&mut criterion);
    criterion.final_summary();
}

#[expect(clippy::disallowed_methods, reason = "a bench needs some instant to count from")]
fn picks(criterion: &mut Criterion) {
    let now = Instant::now();
    let mut group = criterion.benchmark_group("picker");
    for size in [3, 100, 10_000] {
        for (name, dead) in [("all_up", false), ("third_down", true)] {
            group.bench_with_input(BenchmarkId::new(name, size), &size, |bencher, &size| {
                let mut pool = pool(size, dead, now);
                assert!(pool.is_available(), "somebody is up");
                bencher.iter(|| black_box(pool.pick(PickKey::LOCAL, now, &[])));
            });
        }
    }
    group.finish();
}

/// A pool in which, if `dead`, every third backend is down.
fn pool(size: usize, dead: bool, now: Instant) -> Pool {
    let backend = |index: usize| {
        let health = if dead && index % 3 == 2 { health::DOWN } else { health::UP };
        Backend::new(format!("b{index}"), 1, health)
    };
    let backends = (0..size).map(backend).collect();
    let mut pool = Pool::new(Terms::new("bench"), backends, now);
    for index in 0..size {
        pool.relocate(index, vec![Target::Unix(PathBuf::from("unused"))], now);
    }
    pool
}
