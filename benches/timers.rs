//! The heap of deadlines with an entry for each of 100,000 connections.
//!
//! `arm` fills it, `arm_later` is what progress on a connection would cost if it told the heap
//! (nothing is moved), `arm_earlier` moves every entry, and `pop_due` empties it in order.

use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput};
use evenkeel::timers::Timers;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20)
        .configure_from_args();
    timers(&mut criterion);
    criterion.final_summary();
}

#[expect(clippy::disallowed_methods, reason = "a bench needs some instant to count from")]
fn timers(criterion: &mut Criterion) {
    let base = Instant::now() + SPAN;
    let deadlines: Vec<Instant> = (0..ENTRIES).map(|key| base + scattered(key)).collect();
    let armed = || {
        let mut timers = Timers::default();
        arm_all(&mut timers, &deadlines, base, base);
        timers
    };
    let mut group = criterion.benchmark_group("timers");
    group.throughput(Throughput::Elements(ENTRIES));
    group.bench_function("arm", |bencher| {
        let fill = |timers: &mut Timers| arm_all(timers, &deadlines, base, base);
        bencher.iter_batched_ref(Timers::default, fill, BatchSize::LargeInput);
    });
    group.bench_function("arm_later", |bencher| {
        let mut timers = armed();
        let first = timers.next();
        bencher.iter(|| arm_all(&mut timers, &deadlines, base, base + SPAN));
        assert_eq!(timers.next(), first, "a later deadline must not touch the heap");
    });
    group.bench_function("arm_earlier", |bencher| {
        let pull = |timers: &mut Timers| arm_all(timers, &deadlines, base, base - SPAN);
        bencher.iter_batched_ref(armed, pull, BatchSize::LargeInput);
    });
    group.bench_function("pop_due", |bencher| {
        let empty = |timers: &mut Timers| {
            let fired = std::iter::from_fn(|| timers.pop_due(base + SPAN)).count();
            assert_eq!(fired as u64, ENTRIES, "every entry is due");
        };
        bencher.iter_batched_ref(armed, empty, BatchSize::LargeInput);
    });
    group.finish();
}

/// Arms every key, with its deadline counted from `to` instead of `from`.
fn arm_all(timers: &mut Timers, deadlines: &[Instant], from: Instant, to: Instant) {
    for (key, &deadline) in deadlines.iter().enumerate() {
        timers.arm(key, to + deadline.duration_since(from));
    }
}

/// A time below [`SPAN`] that looks random, and is the same in every run.
fn scattered(key: u64) -> Duration {
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    Duration::from_micros(mixed % 60_000_000)
}

const ENTRIES: u64 = 100_000;
const SPAN: Duration = Duration::from_secs(60);
