//! What probes and the resolver found out, told to the pools and to the operator.

use super::Reactor;
use super::polls::{self, Matter};
use super::probes::{Outcome, Scene, Verdict};
use super::report::BackendName;
use super::resolver::{Answer, User};
use super::socket::words;
use crate::pool::agent::Report;
use crate::pool::backend::{Attempt, Target};
use crate::pool::waiting::Want;
use crate::pool::{Change, Rank};

impl Reactor {
    /// Takes answers about names, finishes probes, starts those that are due.
    pub(super) fn watch(&mut self) {
        for answer in self.resolver.take() {
            self.resolved(answer);
        }
        if !self.is_watching() {
            self.probes.clear();
            return;
        }
        self.resolver.refresh(self.now);
        let now = self.now;
        let due = self.due();
        let scene = Scene {
            now,
            registry: self.poll.registry(),
            polls: &self.polls,
            source_ports: &self.source_ports,
        };
        let mut outcomes = self.probes.settle(&scene, &mut self.pairs.stores.scratch);
        for number in due {
            let timeout = self.prober.timeout(number);
            outcomes.extend(self.probes.start(number, timeout, &scene));
        }
        for outcome in outcomes {
            self.judge(&outcome);
        }
        self.tell_availability();
    }

    /// Lets the pools notice what has changed by itself, before anybody is let in.
    pub(super) fn tick(&mut self) {
        for pool in 0..self.pools.len() {
            if self.pools[pool].next_deadline().is_some_and(|at| at <= self.now) {
                for (backend, change) in self.pools[pool].tick(self.now) {
                    self.tell_change(pool, backend, Some(change), "its time is over");
                }
            }
        }
    }

    /// The polls that are to be made now. One that nobody wants at the moment is put off.
    fn due(&mut self) -> Vec<usize> {
        let mut due = Vec::new();
        for _ in 0..STARTS {
            let Some(number) = self.prober.pop_due(self.now) else { break };
            if self.prober.users(number).iter().any(|&user| self.is_wanted(user)) {
                due.push(number);
            } else {
                self.prober.finished(number, false, self.now);
            }
        }
        due
    }

    /// An agent is asked in any state of its backend: it may have asked for that state itself.
    fn is_wanted(&self, user: polls::User) -> bool {
        match user.matter {
            Matter::Health => self.pools[user.pool].wants_probes(user.backend),
            Matter::Agent => true,
        }
    }

    /// Gives a result to all who wait for it.
    fn judge(&mut self, outcome: &Outcome) {
        let number = outcome.number;
        if let (Verdict::Passed(_), Some(target)) = (&outcome.verdict, &outcome.target) {
            self.polls.prefer(number, target);
        }
        let spoken = self.polls.hears_agent(number).then(|| said(outcome));
        let is_news = spoken.as_ref().is_some_and(|said| self.polls.heard(number, said.is_ok()));
        let mut turning = false;
        for index in 0..self.prober.users(number).len() {
            let user = self.prober.users(number)[index];
            match &spoken {
                Some(said) => self.hear_agent(user, said, is_news),
                None if self.is_wanted(user) => {
                    self.judge_backend(user.pool, user.backend, outcome);
                    // Clients who are held wait for the next result.
                    turning |= self.pools[user.pool].is_turning(user.backend)
                        || self.room.want(user.pool) == Some(Want::Backend);
                }
                None => {}
            }
        }
        self.prober.finished(number, turning, self.now);
    }

    /// `is_news`: the agent has fallen silent, or speaks again.
    fn hear_agent(&mut self, user: polls::User, said: &Result<Report, String>, is_news: bool) {
        let polls::User { pool, backend, .. } = user;
        match said {
            Ok(report) => {
                let change = self.pools[pool].agent(backend, report.clone(), self.now);
                let words = self.pools[pool].backend(backend).agent().to_string();
                let name = BackendName(&self.pools[pool], backend);
                let line = format!("Agent of {name} says: {words}");
                if is_news {
                    self.news.info(self.now, line);
                } else {
                    log::debug!("{line}");
                }
                self.tell_change(pool, backend, change, &format!("its agent says: {words}"));
                if let Some(Change::Wanted(_, _)) = change {
                    // One that leaves maintenance was not probed for a while.
                    self.prober.hurry(polls::User::health(pool, backend), self.now);
                }
            }
            Err(reason) => {
                let name = BackendName(&self.pools[pool], backend);
                let words = self.pools[pool].backend(backend).agent();
                let line =
                    format!("Agent of {name} is silent ({reason}); its last word holds: {words}");
                if is_news {
                    self.news.warn(self.now, line);
                } else {
                    log::debug!("{line}");
                }
            }
        }
    }

    fn judge_backend(&mut self, pool: usize, backend: usize, outcome: &Outcome) {
        let took = outcome.took.as_millis();
        let name = BackendName(&self.pools[pool], backend);
        let (passed, words) = match &outcome.verdict {
            Verdict::Passed(found) => {
                log::debug!("Health check OK: {name} ({found} in {took} ms)");
                let attempt = self.attempt_at(pool, backend, outcome.target.as_ref());
                (Some(attempt), format!("{found} in {took} ms"))
            }
            Verdict::Failed(reason) => {
                log::debug!("Health check FAILED: {name} ({reason}) after {took} ms");
                (None, reason.clone())
            }
            Verdict::Unknown(reason) => {
                log::debug!("Health check not made: {name} ({reason})");
                return;
            }
        };
        match passed {
            Some(_) => self.stats.checks_passed += 1,
            None => self.stats.checks_failed += 1,
        }
        self.pools[pool].note_probe(backend, passed.is_some(), outcome.took, self.now);
        let change = self.pools[pool].observe(backend, passed, self.now);
        if self.pools[pool].is_unexplained(backend) {
            self.pools[pool].explain(backend, &words);
        }
        self.tell_change(pool, backend, change, &words);
    }

    /// The attempt that leads a backend's clients to the host where its probe passed. A probe may
    /// go to another port, or to another host altogether; then the clients' own way is kept.
    fn attempt_at(&self, pool: usize, backend: usize, probed: Option<&Target>) -> Attempt {
        let backend = self.pools[pool].backend(backend);
        let first = backend.first_attempt();
        let Some(Target::Inet(probed)) = probed else { return first };
        let mut attempts = std::iter::successors(Some(first), |last| Some(last.next()))
            .map_while(|attempt| backend.target(attempt).map(|target| (attempt, target)));
        let found = attempts.find(|(_, target)| match target {
            Target::Inet(address) => address.ip() == probed.ip(),
            Target::Unix(_) => false,
        });
        found.map_or(first, |(attempt, _)| attempt)
    }

    fn resolved(&mut self, answer: Answer) {
        let Answer { users, name, outcome, is_news } = answer;
        match outcome {
            Ok(addresses) => {
                for user in users {
                    let targets = addresses.iter().copied().map(Target::Inet).collect();
                    self.relocate(user, targets);
                }
            }
            Err(error) => self.unresolved(&users, &name, &words(&error), is_news),
        }
    }

    fn unresolved(&mut self, users: &[User], name: &str, why: &str, is_news: bool) {
        let backend = |user: &User| match *user {
            User::Backend { pool, backend } => Some(BackendName(&self.pools[pool], backend)),
            User::Poll(_) => None,
        };
        let line = |who| format!("{who}: the name {name} does not resolve ({why})");
        let mut lines: Vec<String> = users.iter().filter_map(backend).map(line).collect();
        if lines.is_empty() {
            lines.push(format!("the name {name}, to be probed, does not resolve ({why})"));
        }
        for line in lines {
            if is_news {
                self.news.warn(self.now, line);
            } else {
                log::debug!("{line}");
            }
        }
    }

    fn relocate(&mut self, user: User, targets: Vec<Target>) {
        match user {
            User::Backend { pool, backend } => {
                let change = self.pools[pool].relocate(backend, targets, self.now);
                self.tell_change(pool, backend, change, "resolved");
            }
            User::Poll(number) => {
                if self.polls.relocate(number, targets) {
                    self.prober.hurry_poll(number, self.now);
                }
            }
        }
    }

    /// Tells what happened to a backend, and why.
    pub(super) fn tell_change(
        &mut self,
        pool: usize,
        backend: usize,
        change: Option<Change>,
        why: &str,
    ) {
        if change.is_some() {
            self.room.encourage(pool);
        }
        match change {
            Some(Change::Up) => self.pools[pool].explain(backend, why),
            Some(Change::Down) => {
                self.pools[pool].explain(backend, why);
                self.abandon(pool, backend);
            }
            None
            | Some(Change::Ejected(_))
            | Some(Change::Readmitted | Change::Relocated)
            | Some(Change::Wanted(_, _) | Change::Weighed(_)) => {}
        }
        let Some(change) = change else { return };
        let name = BackendName(&self.pools[pool], backend);
        let (backend, now) = (self.pools[pool].backend(backend), self.now);
        match change {
            Change::Up => {
                self.news.info(now, format_args!("Health check OK: {name} is up ({why})"));
            }
            Change::Down => {
                let flaps = match backend.flaps(now) {
                    0 => "",
                    _ => "; it flaps, and must pass more checks than usual to return",
                };
                let line = format_args!("Health check FAILED: {name} ({why}) is down{flaps}");
                self.news.info(now, line);
            }
            Change::Wanted(admin, author) => {
                self.news.info(now, format_args!("{name} is {admin} ({author})"));
            }
            Change::Weighed(before) => {
                let weight = backend.weight();
                let line = format_args!("{name} has weight {weight} now, it was {before} ({why})");
                self.news.info(now, line);
            }
            Change::Ejected(time) => {
                let seconds = time.as_secs();
                self.news.info(now, format_args!("{name} is ejected for {seconds} s ({why})"));
            }
            Change::Readmitted => {
                self.news.info(now, format_args!("{name} is no longer ejected ({why})"));
            }
            Change::Relocated => {
                let targets: Vec<String> = backend.targets().map(Target::to_string).collect();
                log::debug!("{name} is at {}", targets.join(", "));
            }
        }
    }

    /// One line when a pool loses its last usable backend, one when it has one again.
    pub(super) fn tell_availability(&mut self) {
        if self.warming_until().is_some() {
            return;
        }
        let (news, now) = (&mut self.news, self.now);
        for &pool in &self.places.pools {
            let pool = &mut self.pools[pool];
            let (serving, available) = (pool.serving_changed(), pool.availability_changed());
            let name = pool.name();
            match serving {
                Some(Rank::Primary) => {
                    news.info(now, format_args!("pool {name}: primaries serve again"));
                }
                Some(Rank::Backup) => {
                    news.info(now, format_args!("pool {name}: backups take over"));
                }
                Some(Rank::Ejected) | None => {}
            }
            match available {
                Some(false) => {
                    news.warn(now, format_args!("No available backends in pool {name}"));
                }
                Some(true) => {
                    news.warn(now, format_args!("Backends are available again in pool {name}"));
                }
                None => {}
            }
        }
    }
}

/// What an agent's line says, or why there is none.
fn said(outcome: &Outcome) -> Result<Report, String> {
    match &outcome.verdict {
        Verdict::Passed(line) => Report::parse(line.as_bytes()).map_err(|error| error.to_string()),
        Verdict::Failed(reason) | Verdict::Unknown(reason) => Err(reason.clone()),
    }
}

/// Probes started in one turn.
const STARTS: usize = 256;
