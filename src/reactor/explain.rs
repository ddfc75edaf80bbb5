//! What is remembered of connections, told to whoever asks: numbers become names and words here.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::Reactor;
use super::socket::{Peer, words};
use crate::admin::Refused;
use crate::admin::explain::{self, Decision, Decisions, Explanation, Peek, Riddle, Waited};
use crate::decisions::record::{Attempt, Record, Trial};
use crate::decisions::words as told;
use crate::measure::Wait;
use crate::measure::waits::Waits;
use crate::pool::choice::Choice;
use crate::pool::picker::{PickKey, Policy, WHOLE, identity};
use crate::pool::waiting::Want;

impl Reactor {
    /// The answer to a riddle.
    pub(super) fn solve(&self, riddle: &Riddle) -> Result<Explanation, Refused> {
        match riddle {
            Riddle::Newest(limit) => {
                let records = self.decisions.newest().take(*limit);
                Ok(Explanation::Decisions(self.tell(records)))
            }
            Riddle::One(id) => match self.decisions.find(*id) {
                Some(record) => Ok(Explanation::Decisions(self.tell(std::iter::once(record)))),
                None => Err(Refused::not_found(&self.forgotten(*id))),
            },
            Riddle::Pool { pool, client } => {
                let mut all = self.listed_pools();
                let Some(number) = all.find(|&number| self.pools[number].name() == pool) else {
                    let names = self.listed_pools().map(|number| self.pools[number].name());
                    return Err(Refused::no_pool(pool, names));
                };
                let client = client.map(|address| address.to_canonical());
                let key = client.map_or(PickKey::LOCAL, PickKey::of);
                let choice = self.pools[number].peek(key, self.now);
                Ok(Explanation::Peek(Box::new(Peek {
                    pool: pool.clone(),
                    client: client.map(|client| client.to_string()),
                    peek: true,
                    waiting: self.room.census(number).standing as u64,
                    note: note(&choice, client.is_some()).to_owned(),
                    choice: self.names().choice(&choice, 0, key),
                })))
            }
        }
    }

    fn tell<'a>(&self, records: impl Iterator<Item = &'a Record>) -> Decisions {
        let names = self.names();
        Decisions {
            remembers: self.decisions.capacity() as u64,
            decisions: records.map(|record| self.decision(record, &names)).collect(),
        }
    }

    fn decision(&self, record: &Record, names: &Names<'_>) -> Decision {
        let client = record.client.map_or(Peer::Unix, Peer::Inet);
        let key = client.key();
        let choices = record.choices();
        let attempts = record.attempts();
        Decision {
            id: record.id,
            client: client.to_string(),
            client_from_header: record.by_header,
            listener: names.of(record.listener),
            pool: names.of(record.pool),
            age_ms: millis(self.now.saturating_duration_since(record.opened)),
            choices_made: record.choices_made.into(),
            choices: choices.map(|(after, choice)| names.choice(choice, after, key)).collect(),
            attempts_made: record.attempts_made.into(),
            attempts: attempts.iter().map(|one| attempt(one, record, names)).collect(),
            waited: (record.line.times > 0).then(|| Waited {
                times: record.line.times.into(),
                total_ms: record.stood(self.now).into(),
                waited_for: match record.line.want {
                    Some(Want::Place) => "a place".to_owned(),
                    Some(Want::Backend) | None => "a backend".to_owned(),
                },
                waiting: record.line.is_going_on(),
            }),
            end: record.end.map(|end| explain::End {
                reason: end.reason.words().to_owned(),
                by: end.reason.ended_by().to_owned(),
                duration_ms: end.lasted,
                waited_ms: waited(&end.waits, end.lasted),
                received: end.received,
                sent: end.sent,
            }),
        }
    }

    /// The names of all that are there now, by their numbers.
    fn names(&self) -> Names<'_> {
        let mut known = HashMap::new();
        for listener in &self.listeners {
            known.insert(identity(&listener.name), listener.name.as_str());
        }
        for pool in &self.pools {
            known.insert(identity(pool.name()), pool.name());
            for (index, backend) in pool.backends() {
                known.insert(pool.identity(index), backend.label());
            }
        }
        Names { known, reactor: self }
    }

    /// Why nothing is known of a connection.
    fn forgotten(&self, id: u64) -> String {
        if id == 0 || id >= self.next_id {
            return match self.next_id {
                1 => "there has been no connection yet".to_owned(),
                next => format!("there has been no connection {id}; the newest is {}", next - 1),
            };
        }
        let oldest = self.decisions.newest().last().map_or(self.next_id, |record| record.id);
        let lives = self.pairs.iter().any(|(_, entry)| entry.id == id);
        let lives = if lives { "; it still lives, see the sessions" } else { "" };
        format!(
            "connection {id} is forgotten: the newest {} are remembered, from {oldest} on{lives}",
            self.decisions.capacity()
        )
    }
}

/// From numbers to names.
struct Names<'a> {
    known: HashMap<u64, &'a str>,
    reactor: &'a Reactor,
}

impl Names<'_> {
    fn of(&self, number: u64) -> String {
        let name = self.known.get(&number).copied();
        name.or_else(|| self.reactor.decisions.retired(number)).unwrap_or(UNKNOWN).to_owned()
    }

    fn choice(&self, choice: &Choice, after_ms: u32, client: PickKey) -> explain::Choice {
        let candidates = choice.candidates();
        let more = u64::from(choice.backends).saturating_sub(candidates.len() as u64);
        let candidates = candidates.iter().enumerate().map(|(at, candidate)| explain::Candidate {
            backend: self.of(candidate.identity),
            verdict: told::standing(choice, at).to_owned(),
            why: told::candidate(choice, at, client),
            active: candidate.active.into(),
            weight: candidate.weight,
            weight_percent: u16::try_from(u32::from(candidate.share) * 100 / u32::from(WHOLE))
                .unwrap_or(100),
        });
        explain::Choice {
            after_ms: after_ms.into(),
            algorithm: choice.policy.name().to_owned(),
            outcome: told::outcome(choice).to_owned(),
            backend: choice.chosen().map(|chosen| self.of(chosen.identity)),
            why: told::choice(choice),
            backends: choice.backends.into(),
            eligible: choice.open.into(),
            candidates: candidates.collect(),
            more,
        }
    }
}

fn attempt(attempt: &Attempt, record: &Record, names: &Names<'_>) -> explain::Attempt {
    let (outcome, error) = match attempt.trial {
        Trial::Open if record.end.is_some() => ("given up", None),
        Trial::Open => ("connecting", None),
        Trial::Connected => ("connected", None),
        Trial::ResetAtOnce => {
            ("reset at once", Some("it was connected, and reset before a byte went".to_owned()))
        }
        Trial::Failed { kind, code: 0 } => ("failed", Some(words(&kind.into()))),
        Trial::Failed { code, .. } => ("failed", Some(words(&io::Error::from_raw_os_error(code)))),
    };
    let took = (attempt.trial != Trial::Open).then(|| f64::from(attempt.took_micros) / 1000.0);
    explain::Attempt {
        backend: names.of(attempt.backend),
        address: attempt.target.map(|target| target.to_string()),
        after_ms: attempt.after_millis.into(),
        took_ms: took,
        outcome: outcome.to_owned(),
        error,
    }
}

/// What has to be known to understand a peek.
fn note(choice: &Choice, has_client: bool) -> &'static str {
    match (choice.policy, has_client) {
        (Policy::SourceHash { .. }, false) => {
            "A peek: nothing was chosen. This pool chooses by the client's address; what is shown \
             holds for clients without one. Name one with client=IP."
        }
        (Policy::SourceHash { .. }, true) => {
            "A peek: nothing was chosen. It holds for this client while nothing changes."
        }
        (Policy::TwoChoices, _) => {
            "A peek: nothing was chosen. The two that are drawn next are known, as chance comes \
             from a seed; the next client changes them."
        }
        (
            Policy::RoundRobin
            | Policy::LeastConnections
            | Policy::ResponseTime
            | Policy::Resource
            | Policy::First,
            _,
        ) => "A peek: nothing was chosen. It holds for the next client if nothing else changes.",
    }
}

/// What a connection waited for, by what a metric's label calls it.
fn waited(waits: &Waits, life: u64) -> BTreeMap<String, u64> {
    let totals = waits.totals(life);
    Wait::ALL.into_iter().map(|wait| (wait.word().to_owned(), totals.of(wait))).collect()
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

const UNKNOWN: &str = "(one that is gone)";
