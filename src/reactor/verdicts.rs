//! What probes and the resolver found out, told to the pools and to the operator.

use super::Reactor;
use super::probes::{Outcome, Scene, Verdict};
use super::report::BackendName;
use super::resolver::Answer;
use super::socket::words;
use crate::pool::Change;
use crate::pool::backend::Target;

impl Reactor {
    /// Takes answers about names, finishes probes, starts those that are due.
    pub(super) fn watch(&mut self) {
        for answer in self.resolver.take() {
            self.resolved(answer);
        }
        if !self.lifecycle.is_running() {
            return;
        }
        self.resolver.refresh(self.now);
        let now = self.now;
        let due = std::iter::from_fn(|| self.prober.pop_due(now)).take(STARTS).collect::<Vec<_>>();
        let scene = Scene {
            now,
            registry: self.poll.registry(),
            prober: &self.prober,
            pools: &self.pools,
            source_ports: &self.source_ports,
        };
        let mut outcomes = self.probes.settle(&scene, &mut self.pairs.stores.scratch);
        for number in due {
            outcomes.extend(self.probes.start(number, &scene));
        }
        for outcome in outcomes {
            self.judge(outcome);
        }
        self.tell_availability();
    }

    fn judge(&mut self, outcome: Outcome) {
        let (pool, backend) = self.prober.target(outcome.number);
        let took = outcome.took.as_millis();
        let name = BackendName(&self.pools[pool], backend);
        let (passed, words) = match outcome.verdict {
            Verdict::Passed => {
                log::debug!("Health check OK: {name} (connected in {took} ms)");
                (Some(Some(outcome.attempt)), format!("connected in {took} ms"))
            }
            Verdict::Failed(reason) => {
                log::debug!("Health check FAILED: {name} ({reason}) after {took} ms");
                (Some(None), reason)
            }
            Verdict::Unknown(reason) => {
                log::debug!("Health check not made: {name} ({reason})");
                (None, reason)
            }
        };
        if let Some(passed) = passed {
            let change = self.pools[pool].observe(backend, passed, self.now);
            self.tell_change(pool, backend, change, &words);
        }
        let turning = self.pools[pool].is_turning(backend);
        self.prober.finished(outcome.number, turning, self.now);
    }

    fn resolved(&mut self, answer: Answer) {
        match answer.outcome {
            Ok(addresses) => {
                for user in answer.users {
                    let targets = addresses.iter().copied().map(Target::Inet).collect();
                    let change = self.pools[user.pool].relocate(user.backend, targets);
                    self.tell_change(user.pool, user.backend, change, "resolved");
                    if change.is_some() {
                        self.prober.hurry(user.pool, user.backend, self.now);
                    }
                }
            }
            Err(error) => {
                for user in answer.users {
                    let name = BackendName(&self.pools[user.pool], user.backend);
                    let level = if answer.is_news { log::Level::Warn } else { log::Level::Debug };
                    log::log!(
                        level,
                        "{name}: the name {} does not resolve ({})",
                        answer.name,
                        words(&error)
                    );
                }
            }
        }
    }

    /// Tells what happened to a backend, and why.
    pub(super) fn tell_change(
        &self,
        pool: usize,
        backend: usize,
        change: Option<Change>,
        why: &str,
    ) {
        let name = BackendName(&self.pools[pool], backend);
        match change {
            None => {}
            Some(Change::Up) => log::info!("Health check OK: {name} is up ({why})"),
            Some(Change::Down) => log::info!("Health check FAILED: {name} ({why}) is down"),
            Some(Change::Ejected(time)) => {
                log::info!("{name} is ejected for {} s ({why})", time.as_secs());
            }
            Some(Change::Readmitted) => log::info!("{name} is no longer ejected ({why})"),
            Some(Change::Relocated) => {
                let backend = self.pools[pool].backend(backend);
                let targets: Vec<String> = backend.targets().map(Target::to_string).collect();
                log::debug!("{name} is at {}", targets.join(", "));
            }
        }
    }

    /// One line when a pool loses its last usable backend, one when it has one again.
    fn tell_availability(&mut self) {
        if self.warming_until().is_some() {
            return;
        }
        for pool in &mut self.pools {
            match pool.availability_changed() {
                Some(false) => log::warn!("No available backends in pool {}", pool.name()),
                Some(true) => log::warn!("Backends are available again in pool {}", pool.name()),
                None => {}
            }
        }
    }
}

/// Probes started in one turn.
const STARTS: usize = 256;
