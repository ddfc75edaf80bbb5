//! Every algorithm in the same bad place: ten backends, one ten times slower, one that flaps.
//!
//! A simulation without sockets: arrivals, demands and clients are drawn once from a seed, so that
//! every algorithm gets the same ones, and time is only counted. Everything is done in whole
//! numbers; the table is the same on every machine, and README.md shows it.
//! `cargo test --test balancing -- --nocapture` prints it.

#![expect(clippy::unwrap_used, reason = "a number out of range is the simulation's own mistake")]

mod world;

use std::fmt::Write;

use evenkeel::pool::picker::Policy;
use world::{Report, Scene, run};

/// All algorithms by their configured names; `first` needs a limit to fill to.
fn scenes() -> Vec<(&'static str, Scene)> {
    let plain = |policy| Scene { policy, limit: None };
    vec![
        ("`round-robin`", plain(Policy::RoundRobin)),
        ("`source-hash`", plain(Policy::SourceHash { balance_factor: None })),
        (
            "`source-hash`, `hash_balance_factor = 125`",
            plain(Policy::SourceHash { balance_factor: Some(125) }),
        ),
        ("`first`, `max_connections = 16`", Scene { policy: Policy::First, limit: Some(16) }),
        ("`resource`", plain(Policy::Resource)),
        ("`two-choices`", plain(Policy::TwoChoices)),
        ("`least-connections`", plain(Policy::LeastConnections)),
        ("`response-time`", plain(Policy::ResponseTime)),
    ]
}

fn table(reports: &[(&str, Report)]) -> String {
    let mut table = String::from(
        "| `balance` | peak on one backend | max / mean | mean wait | p99 wait | mean answer |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    for (name, report) in reports {
        let imbalance = report.imbalance_percent;
        let (units, hundredths) = (imbalance / 100, imbalance % 100);
        let [mean, p99, answer] =
            [report.mean_wait, report.p99_wait, report.mean_answer].map(millis);
        let load = format!("{} | {units}.{hundredths:02}", report.peak);
        writeln!(table, "| {name} | {load} | {mean} | {p99} | {answer} |").unwrap();
    }
    table
}

/// Microseconds as milliseconds with two decimals.
fn millis(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

#[test]
fn skewed_backends_show_what_each_algorithm_is_worth() {
    let reports: Vec<(&str, Report)> =
        scenes().into_iter().map(|(name, scene)| (name, run(scene))).collect();
    let table = table(&reports);
    println!("{table}");
    let of = |start: &str| &reports.iter().find(|(name, _)| name.starts_with(start)).unwrap().1;
    let (turns, least) = (of("`round-robin"), of("`least-connections"));
    let (two, fast) = (of("`two-choices"), of("`response-time"));
    let (hash, bounded) = (of("`source-hash`"), of("`source-hash`, "));

    for (name, report) in &reports {
        assert_eq!(report.refused, 0, "{name}");
        assert_eq!(report.to_the_closed, 0, "{name}");
    }
    // Who looks at connections or time does not feed the slow one beyond what it can do.
    for aware in [least, two, fast] {
        assert!(aware.peak * 20 < turns.peak && aware.p99_wait * 20 < turns.p99_wait, "{table}");
        assert!(aware.imbalance_percent < turns.imbalance_percent, "{table}");
    }
    // Looking at everybody is at least as good as looking at two.
    assert!(least.peak <= two.peak && least.imbalance_percent < two.imbalance_percent, "{table}");
    // Only time tells that the slow one is slow before it has a queue.
    assert!(fast.mean_wait < least.mean_wait, "{table}");
    assert!(bounded.peak < hash.peak && bounded.p99_wait < hash.p99_wait, "{table}");
    assert!(of("`resource`").peak < turns.peak, "{table}");
    assert_eq!(of("`first`").peak, 16, "{table}");
}

#[test]
fn the_readme_shows_this_table() {
    let reports: Vec<(&str, Report)> =
        scenes().into_iter().map(|(name, scene)| (name, run(scene))).collect();
    let table = table(&reports);
    let readme = include_str!("../../README.md");
    assert!(readme.contains(&table), "put this into README.md:\n{table}");
}
