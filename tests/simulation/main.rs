//! The deterministic simulation: pairs, pool, health, prober, timers and lifecycle, driven through
//! thousands of seeded schedules over fake streams and a fake clock.
//!
//! A seed is a schedule, always the same. The ordinary run takes seeds from 0 on, so that it is the
//! same everywhere. `EVENKEEL_SIM_SCHEDULES=N` takes N of them; `EVENKEEL_SIM_SEED=N` takes only
//! that one. A failure prints its seed and what happened last before it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "this is how a test fails, and says why"
)]

mod check;
mod control;
mod fake_stream;
mod greeting;
mod ledger;
mod peer;
mod plan;
mod queues;
mod random;
mod relay;
mod socket;
mod trace;
mod waiting;
mod world;

use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

use plan::Kind;
use trace::Trace;
use world::World;

#[test]
fn cooperative_peers_are_served_whole_and_without_a_timeout() {
    simulate(Kind::Cooperative);
}

#[test]
fn hostile_peers_get_what_was_sent_and_outlive_nothing() {
    simulate(Kind::Hostile);
}

#[test]
fn backends_that_come_and_go_leave_nothing_behind() {
    simulate(Kind::Failing);
}

#[test]
fn a_drain_reaches_zero_or_its_deadline() {
    simulate(Kind::Leaving);
}

/// Runs all schedules of one kind.
fn simulate(kind: Kind) {
    let base = some_instant();
    let seeds = match number("EVENKEEL_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("EVENKEEL_SIM_SCHEDULES").unwrap_or(SCHEDULES),
    };
    for seed in seeds.filter(|&seed| Kind::of(seed) == kind) {
        if let Err(panic) = attempt(kind, seed, base, Trace::off()) {
            let trace = Trace::on();
            let again = attempt(kind, seed, base, trace.clone()).is_err();
            let known = if again { trace.text() } else { "(it passes when run again)".into() };
            eprintln!("{known}seed {seed}: replay with EVENKEEL_SIM_SEED={seed}");
            panic::resume_unwind(panic);
        }
    }
}

fn attempt(kind: Kind, seed: u64, base: Instant, trace: Trace) -> std::thread::Result<()> {
    panic::catch_unwind(AssertUnwindSafe(|| World::new(kind, seed, base, trace).run()))
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

#[expect(clippy::disallowed_methods, reason = "a fake clock needs some instant to count from")]
fn some_instant() -> Instant {
    Instant::now()
}

/// Schedules in the ordinary run, a quarter of each kind.
const SCHEDULES: u64 = 24_000;
