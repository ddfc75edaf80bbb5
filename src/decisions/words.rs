//! What is remembered, said for people: each number with what it means.

use crate::pool::choice::{Candidate, Choice, Outcome, Verdict};
use crate::pool::picker::{Measure, PickKey, Policy, WHOLE, bid};
use crate::pool::{Fault, Rank};

/// What came of a choice, in one word.
#[must_use]
pub fn outcome(choice: &Choice) -> &'static str {
    match choice.outcome {
        Outcome::Chosen | Outcome::LastResort(_) => "chosen",
        Outcome::Full => "full",
        Outcome::Nobody => "nobody",
        Outcome::Spent => "attempts used up",
    }
}

/// Why a choice fell as it did.
#[must_use]
pub fn choice(choice: &Choice) -> String {
    let serving = match (choice.outcome, choice.serving) {
        (Outcome::Chosen, Rank::Backup) => "no primary can serve, so backups do; ",
        (Outcome::Chosen, Rank::Ejected) => "only ejected ones are left; ",
        (_, Rank::Primary | Rank::Backup | Rank::Ejected) => "",
    };
    let why = match choice.outcome {
        Outcome::Chosen if choice.open == 1 => "the only one that could be chosen".to_owned(),
        Outcome::Chosen => by_algorithm(choice).to_owned(),
        Outcome::LastResort(rank) => {
            let whose = match rank {
                Rank::Primary => "of the other primaries",
                Rank::Backup => "of the backups",
                Rank::Ejected => "of those ejected",
            };
            format!("all that serve had been tried; {whose} one with the fewest connections")
        }
        Outcome::Full => "every backend that could serve was at its limit".to_owned(),
        Outcome::Nobody if tried(choice) > 0 => "no other backend could serve".to_owned(),
        Outcome::Nobody => "no backend could serve".to_owned(),
        Outcome::Spent => "as many backends had been tried as connect_attempts allows".to_owned(),
    };
    format!("{serving}{why}")
}

/// What there was to say for a candidate, or against it; the client is the one who chose.
#[must_use]
pub fn candidate(choice: &Choice, at: usize, client: PickKey) -> String {
    let Some(candidate) = choice.candidates().get(at) else { return String::new() };
    match candidate.verdict {
        Verdict::Open(measure) => measured(choice, at, measure, client),
        Verdict::Tried => "tried before by this connection".to_owned(),
        Verdict::Full(most) => {
            format!("full: {} of at most {most} connections", candidate.active)
        }
        Verdict::Backup if choice.is_chosen(at) => format!("a backup, {}", carried(candidate)),
        Verdict::Backup => "a backup, others served".to_owned(),
        Verdict::Ejected(fault, left) => {
            let fault = match fault {
                Fault::Connect => "connects had failed",
                Fault::Silence => "it had not answered",
                Fault::Reset => "it had reset connections at once",
            };
            format!("ejected for {} more at most: {fault}", time(left.into()))
        }
        Verdict::Down(lasted) => format!("down for {}: its health checks failed", time(lasted)),
        Verdict::DownByAgent(lasted) => format!("down for {}: its agent said so", time(lasted)),
        Verdict::Draining(lasted) => format!("draining for {}, by the operator", time(lasted)),
        Verdict::DrainingByAgent(lasted) => format!("draining for {}, by its agent", time(lasted)),
        Verdict::Maintenance(lasted) => {
            format!("in maintenance for {}, by the operator", time(lasted))
        }
        Verdict::MaintenanceByAgent(lasted) => {
            format!("in maintenance for {}, by its agent", time(lasted))
        }
        Verdict::Unresolved(lasted) => {
            format!("unresolved for {}: its name had no address", time(lasted))
        }
        Verdict::Weightless => "weight 0".to_owned(),
        Verdict::Unwilling => "its agent asked for none of its weight".to_owned(),
    }
}

/// Whether a candidate was chosen, could have been, or was passed over; in a word or two.
#[must_use]
pub fn standing(choice: &Choice, at: usize) -> &'static str {
    let verdict = choice.candidates().get(at).map(|candidate| candidate.verdict);
    match verdict {
        _ if choice.is_chosen(at) => "chosen",
        Some(Verdict::Open(Measure::BeyondPart | Measure::BeyondShare)) => "passed over",
        Some(Verdict::Open(_)) => "eligible",
        Some(_) | None => "passed over",
    }
}

fn by_algorithm(choice: &Choice) -> &'static str {
    match choice.policy {
        Policy::RoundRobin => "its turn came",
        Policy::Resource => "its turn came, by the weights that the agents ask for",
        Policy::LeastConnections if ties(choice) => {
            "as little load as any other, and chosen longest ago of those"
        }
        Policy::LeastConnections => "the least load: connections with this one, over weight",
        Policy::TwoChoices => "of two that were drawn by weight, the one with the lesser load",
        Policy::ResponseTime => "the least cost: expected time, times connections, over weight",
        Policy::First => "the first of the list that could be chosen",
        Policy::SourceHash { .. } => match choice.chosen().map(|chosen| chosen.verdict) {
            Some(Verdict::Open(Measure::BeyondPart | Measure::BeyondShare)) => {
                "none would stay within its part, so the client's first one that was open"
            }
            Some(_) | None => "the first on this client's way, by its address",
        },
    }
}

fn measured(choice: &Choice, at: usize, measure: Measure, client: PickKey) -> String {
    let candidate = &choice.candidates()[at];
    let carried = carried(candidate);
    let load = || load(candidate, candidate.active.saturating_add(1));
    match measure {
        Measure::Turns(_) if choice.is_chosen(at) => format!("its turn ({carried})"),
        Measure::Turns(0) => format!("next in turn ({carried})"),
        Measure::Turns(u32::MAX) => format!("its turn is far away ({carried})"),
        Measure::Turns(turns) => format!("in turn after {turns} more ({carried})"),
        Measure::Load => format!("load {} ({carried})", load()),
        Measure::Drawn => format!("drawn, load {} ({carried})", now(candidate)),
        Measure::NotDrawn => format!("not drawn ({carried})"),
        Measure::Bid => match rank(choice, at, client) {
            // Where not all are noted, a place among them would say nothing.
            Some(rank) => format!("number {rank} on the client's way ({carried})"),
            None => format!("on the client's way ({carried})"),
        },
        Measure::Table if choice.is_chosen(at) => format!("where the table leads it ({carried})"),
        Measure::Table => format!("not where the table leads it ({carried})"),
        Measure::BeyondPart => format!("beyond its part of all connections ({carried})"),
        Measure::BeyondShare => format!("takes a part of its clients only ({carried})"),
        Measure::Expected(micros) => {
            format!("{} expected, cost {} ({carried})", millis(micros), cost(candidate, micros))
        }
        Measure::Assumed(micros) => {
            format!("{} assumed, cost {} ({carried})", millis(micros), cost(candidate, micros))
        }
        Measure::Place(place) => format!("number {} of the list ({carried})", u64::from(place) + 1),
    }
}

/// Connections and weight.
fn carried(candidate: &Candidate) -> String {
    let Candidate { active, weight, share, .. } = *candidate;
    let ending = if active == 1 { "" } else { "s" };
    if share >= WHOLE {
        return format!("{active} connection{ending}, weight {weight}");
    }
    let percent = (u32::from(share) * 100).div_ceil(u32::from(WHOLE));
    format!("{active} connection{ending}, {percent} % of weight {weight}")
}

/// Connections over what counts of the weight, with two digits behind the point.
fn load(candidate: &Candidate, connections: u32) -> String {
    hundredths(over_weight(candidate, u64::from(connections) * 100))
}

fn now(candidate: &Candidate) -> String {
    load(candidate, candidate.active)
}

fn cost(candidate: &Candidate, micros: u32) -> String {
    let connections = u64::from(candidate.active) + 1;
    let cost = over_weight(candidate, u64::from(micros).saturating_mul(connections));
    millis(u32::try_from(cost).unwrap_or(u32::MAX))
}

fn over_weight(candidate: &Candidate, number: u64) -> u64 {
    let pull = u64::from(candidate.weight) * u64::from(candidate.share);
    number.saturating_mul(WHOLE.into()).checked_div(pull).unwrap_or(0)
}

/// Which place a candidate has among all of them, by its bid; none where not all are noted.
fn rank(choice: &Choice, at: usize, client: PickKey) -> Option<usize> {
    let all = choice.candidates();
    if (choice.backends as usize) > all.len() {
        return None;
    }
    let bid = |candidate: &Candidate| bid(client, candidate.identity, candidate.weight);
    let own = bid(&all[at])?;
    Some(1 + all.iter().filter_map(bid).filter(|&other| other < own).count())
}

/// Whether another one had as little load as the chosen one.
fn ties(choice: &Choice) -> bool {
    let least = |candidate: &Candidate| {
        over_weight(candidate, (u64::from(candidate.active) + 1) * u64::from(u32::MAX))
    };
    let chosen = choice.chosen().map(least);
    let open = choice.candidates().iter().filter(|c| matches!(c.verdict, Verdict::Open(_)));
    open.filter(|candidate| Some(least(candidate)) == chosen).count() > 1
}

fn tried(choice: &Choice) -> usize {
    choice.candidates().iter().filter(|candidate| candidate.verdict == Verdict::Tried).count()
}

/// Seconds, rounded down.
fn time(seconds: u32) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn millis(micros: u32) -> String {
    format!("{}.{} ms", micros / 1000, micros / 100 % 10)
}

fn hundredths(number: u64) -> String {
    format!("{}.{:02}", number / 100, number % 100)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::pool::Pool;
    use crate::pool::admin::Admin;
    use crate::pool::backend::{Backend, Target};
    use crate::pool::choice::Asked;
    use crate::pool::health::UP;
    use crate::pool::terms::Terms;

    fn pool(policy: Policy, weights: &[u16]) -> Pool {
        let now = Instant::now();
        let make = |(index, &weight)| Backend::new(format!("b{index}"), weight, UP);
        let backends = weights.iter().enumerate().map(make).collect();
        let mut pool = Pool::new(Terms { policy, ..Terms::new("web") }, backends, now);
        for index in 0..weights.len() {
            pool.relocate(index, vec![Target::Unix(format!("/run/{index}").into())], now);
        }
        pool
    }

    /// Picks, and says why and what there was to say of everybody.
    fn told(pool: &mut Pool, client: PickKey, tried: &[usize]) -> (String, Vec<String>) {
        let (now, mut choice) = (Instant::now(), Choice::default());
        let picked = Some(pool.pick(client, now, tried));
        pool.note(&Asked { key: client, now, tried, picked }, &mut choice);
        let all = 0..choice.candidates().len();
        let line = |at| format!("{}: {}", standing(&choice, at), candidate(&choice, at, client));
        (super::choice(&choice), all.map(line).collect())
    }

    #[test]
    fn turns_are_told_in_their_order() {
        let mut pool = pool(Policy::RoundRobin, &[1, 1, 2]);
        let (why, all) = told(&mut pool, PickKey::LOCAL, &[]);
        assert_eq!(why, "its turn came");
        assert_eq!(
            all,
            [
                "eligible: next in turn (0 connections, weight 1)",
                "eligible: in turn after 1 more (0 connections, weight 1)",
                "chosen: its turn (0 connections, weight 2)",
            ]
        );
    }

    #[test]
    fn a_load_counts_the_client_and_a_tie_is_called_one() {
        let mut pool = pool(Policy::LeastConnections, &[1, 2, 2]);
        pool.opened(0);
        pool.opened(1);
        let (why, all) = told(&mut pool, PickKey::LOCAL, &[]);
        assert_eq!(why, "the least load: connections with this one, over weight");
        assert_eq!(
            all,
            [
                "eligible: load 2.00 (1 connection, weight 1)",
                "eligible: load 1.00 (1 connection, weight 2)",
                "chosen: load 0.50 (0 connections, weight 2)",
            ]
        );
        pool.opened(2);
        let (why, _) = told(&mut pool, PickKey::LOCAL, &[]);
        assert_eq!(why, "as little load as any other, and chosen longest ago of those");
    }

    #[test]
    fn the_only_one_left_is_called_so() {
        let mut pool = pool(Policy::LeastConnections, &[1, 1]);
        pool.set_state(0, Admin::Draining, Instant::now());
        let (why, all) = told(&mut pool, PickKey::LOCAL, &[]);
        assert_eq!(why, "the only one that could be chosen");
        assert_eq!(all[0], "passed over: draining for 0 s, by the operator");
        let (why, all) = told(&mut pool, PickKey::LOCAL, &[1]);
        assert_eq!(why, "no other backend could serve");
        assert_eq!(all[1], "passed over: tried before by this connection");
    }

    #[test]
    fn of_two_that_were_drawn_the_loads_are_told() {
        let mut pool = pool(Policy::TwoChoices, &[1, 1, 1]);
        pool.opened(0);
        let (why, all) = told(&mut pool, PickKey::LOCAL, &[]);
        assert_eq!(why, "of two that were drawn by weight, the one with the lesser load");
        assert_eq!(all.iter().filter(|line| line.contains(": drawn, load ")).count(), 2);
        assert_eq!(all.iter().filter(|line| line.contains(": not drawn (")).count(), 1);
    }

    #[test]
    fn a_cost_is_the_expected_time_times_the_load() {
        let (mut pool, now) = (pool(Policy::ResponseTime, &[1, 2]), Instant::now());
        let attempt = pool.backend(0).first_attempt();
        pool.connected(0, attempt, Duration::from_millis(8), now);
        pool.opened(1);
        pool.opened(1);
        let (_, all) = told(&mut pool, PickKey::LOCAL, &[]);
        let known = all[0].contains("8.0 ms expected, cost 8.0 ms (0 connections, weight 1)")
            || all[0].contains("7.9 ms expected, cost 7.9 ms (0 connections, weight 1)");
        assert!(known, "{}", all[0]);
        let assumed = "chosen: 4.0 ms assumed, cost 6.0 ms (2 connections, weight 2)";
        assert_eq!(all[1], assumed);
    }

    #[test]
    fn a_client_has_its_own_order_of_backends() {
        let mut pool = pool(Policy::SourceHash { balance_factor: None }, &[1, 1, 1]);
        for client in 0..50 {
            let client = PickKey::of(IpAddr::V4(Ipv4Addr::from(client)));
            let (why, all) = told(&mut pool, client, &[]);
            assert_eq!(why, "the first on this client's way, by its address");
            for (rank, word) in [(1, "chosen"), (2, "eligible"), (3, "eligible")] {
                let line = format!("{word}: number {rank} on the client's way (0 connections");
                assert!(all.iter().any(|told| told.starts_with(&line)), "{line} {all:?}");
            }
        }
    }

    #[test]
    fn the_list_is_gone_through_from_its_beginning() {
        let mut pool = pool(Policy::First, &[0, 1, 1]);
        let (why, all) = told(&mut pool, PickKey::LOCAL, &[]);
        assert_eq!(why, "the first of the list that could be chosen");
        assert_eq!(all[0], "passed over: weight 0");
        assert_eq!(all[1], "chosen: number 2 of the list (0 connections, weight 1)");
    }

    #[test]
    fn a_full_pool_says_how_full() {
        let now = Instant::now();
        let backends = vec![Backend::new("b0".to_owned(), 1, UP).with_most(Some(2))];
        let mut pool = Pool::new(Terms::new("web"), backends, now);
        pool.relocate(0, vec![Target::Unix("/run/0".into())], now);
        pool.opened(0);
        pool.opened(0);
        let (why, all) = told(&mut pool, PickKey::LOCAL, &[]);
        assert_eq!(why, "every backend that could serve was at its limit");
        assert_eq!(all, ["passed over: full: 2 of at most 2 connections"]);
    }

    #[test]
    fn only_a_part_of_a_weight_is_told_as_such() {
        let (mut pool, now) = (pool(Policy::LeastConnections, &[4, 1]), Instant::now());
        let half = crate::pool::agent::Report::parse(b"50%").unwrap();
        pool.agent(0, half, now);
        pool.opened(0);
        let (_, all) = told(&mut pool, PickKey::LOCAL, &[]);
        assert!(all[0].ends_with("load 1.00 (1 connection, 50 % of weight 4)"), "{}", all[0]);
    }
}
