//! What is asked of whom: the questions behind the numbers of the schedule, and where they go.
//!
//! One poll serves all who ask the same question, in the same rhythm, of the same place: backends
//! of several pools at one address, or all backends of a pool whose probes have an address of their
//! own. A place is known as it was written; a name has its addresses from the resolver.

use std::collections::HashMap;
use std::io;

use super::Reactor;
use super::resolver;
use super::socket::Socket;
use super::source::Sources;
use crate::check::{HttpQuestion, Question};
use crate::config::{Agent, BackendAddress, Check, Health};
use crate::edge::proxy::Version;
use crate::edge::proxy::write::write;
use crate::pool::backend::Target;
use crate::pool::prober::Pace;

/// All polls, by number.
#[derive(Debug, Default)]
pub(super) struct Polls {
    polls: Vec<Poll>,
    numbers: HashMap<Key, usize>,
}

impl Polls {
    pub(super) fn question(&self, number: usize) -> &Question {
        &self.polls[number].key.asked.question
    }

    /// What is sent before the conversation begins.
    pub(super) fn header(&self, number: usize) -> &[u8] {
        &self.polls[number].key.asked.header
    }

    /// The addresses of its place, the one that worked last first.
    pub(super) fn targets(&self, number: usize) -> Vec<Target> {
        let Poll { targets, preferred, .. } = &self.polls[number];
        let (before, from) = targets.split_at(*preferred);
        from.iter().chain(before).cloned().collect()
    }

    /// Begins to connect, from where the pool's connections come.
    pub(super) fn connect(&self, number: usize, target: &Target) -> io::Result<Socket> {
        self.polls[number].key.sources.probe(target)
    }

    /// Notes which address worked.
    pub(super) fn prefer(&mut self, number: usize, target: &Target) {
        let poll = &mut self.polls[number];
        poll.preferred = poll.targets.iter().position(|t| t == target).unwrap_or(0);
    }

    /// Whether the poll asks an agent, and not a backend itself.
    pub(super) fn hears_agent(&self, number: usize) -> bool {
        *self.question(number) == Question::Agent
    }

    /// Notes whether an agent spoke; true if it did not the last time, or the other way round.
    pub(super) fn heard(&mut self, number: usize, spoke: bool) -> bool {
        self.polls[number].spoke.replace(spoke) != Some(spoke)
    }

    /// Has a poll under its number, which may have been another one's.
    fn put(&mut self, number: usize, poll: Poll) {
        match self.polls.get_mut(number) {
            Some(place) => *place = poll,
            None => self.polls.push(poll),
        }
    }

    /// The place is at these addresses now; true if that is news.
    pub(super) fn relocate(&mut self, number: usize, targets: Vec<Target>) -> bool {
        let poll = &mut self.polls[number];
        if targets.is_empty() || targets == poll.targets {
            return false;
        }
        let last_good = poll.targets.get(poll.preferred);
        poll.preferred = targets.iter().position(|t| Some(t) == last_good).unwrap_or(0);
        poll.targets = targets;
        true
    }
}

#[derive(Debug)]
struct Poll {
    targets: Vec<Target>,
    preferred: usize,
    /// Under which it is found.
    key: Key,
    /// Whether the agent spoke the last time it was asked.
    spoke: Option<bool>,
}

/// What is sent, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Asked {
    /// A PROXY header that says that nobody stands behind this connection, or nothing.
    header: Vec<u8>,
    question: Question,
}

/// What makes two polls the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// Where it is asked, as written.
    place: String,
    asked: Asked,
    pace: Pace,
    /// From where.
    sources: Sources,
}

/// Who wants to know something, and what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct User {
    pub(super) pool: usize,
    pub(super) backend: usize,
    pub(super) matter: Matter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Matter {
    /// Whether the backend is well.
    Health,
    /// What its agent says.
    Agent,
}

impl User {
    pub(super) fn health(pool: usize, backend: usize) -> Self {
        Self { pool, backend, matter: Matter::Health }
    }
}

impl Reactor {
    /// Has a backend probed, and its agent asked, as far as that is wanted.
    /// `version`: the PROXY header that the backend expects; a place of its own expects none.
    pub(super) fn poll(
        &mut self,
        user: User,
        address: &BackendAddress,
        health: &Health,
        version: Option<Version>,
    ) {
        let is_own = health.port.is_none() && health.address.is_none();
        let version = version.filter(|_| is_own);
        let header = version.map_or_else(Vec::new, |version| write(version, None));
        let Health { interval, fast_interval, timeout, .. } = *health;
        let place = health.address.clone().unwrap_or_else(|| with_port(address, health.port));
        if let Some(question) = question(&health.check, &place) {
            let pace = Pace { interval, fast_interval, timeout };
            let asked = Asked { header, question };
            self.join(User { matter: Matter::Health, ..user }, &place, asked, pace);
        }
        let place = match &health.agent {
            None => return,
            Some(Agent::Address(place)) => place.clone(),
            Some(Agent::Port(port)) => with_port(address, Some(*port)),
        };
        let (interval, fast_interval) = (health.agent_interval, health.agent_interval);
        let pace = Pace { interval, fast_interval, timeout };
        let asked = Asked { header: Vec::new(), question: Question::Agent };
        self.join(User { matter: Matter::Agent, ..user }, &place, asked, pace);
    }

    /// Nobody wants to know any more how a backend is.
    pub(super) fn end_polls(&mut self, pool: usize, backend: usize) {
        for matter in [Matter::Health, Matter::Agent] {
            if let Some(number) = self.prober.leave(User { pool, backend, matter }) {
                self.polls.numbers.remove(&self.polls.polls[number].key);
                self.probes.forget(number);
                self.resolver.unwatch(resolver::User::Poll(number));
            }
        }
    }

    fn join(&mut self, user: User, place: &BackendAddress, asked: Asked, pace: Pace) {
        let sources = self.manners[user.pool].sources.afresh();
        let key = Key { place: place.to_string(), asked, pace, sources };
        let number = match self.polls.numbers.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.prober.add(pace, self.now);
                let targets = match place {
                    BackendAddress::Inet(address) => vec![Target::Inet(*address)],
                    BackendAddress::Unix(path) => vec![Target::Unix(path.clone())],
                    BackendAddress::Name { host, port } => {
                        self.resolver.watch(host, *port, resolver::User::Poll(number));
                        Vec::new()
                    }
                };
                self.polls.numbers.insert(key.clone(), number);
                let poll = Poll { targets, preferred: 0, key, spoke: None };
                self.polls.put(number, poll);
                number
            }
        };
        self.prober.join(number, user);
        self.prober.hurry(user, self.now);
    }
}

/// A unix socket has no ports, and stays what it is.
fn with_port(address: &BackendAddress, other: Option<u16>) -> BackendAddress {
    let (mut address, Some(other)) = (address.clone(), other) else { return address.clone() };
    match &mut address {
        BackendAddress::Inet(address) => address.set_port(other),
        BackendAddress::Name { port, .. } => *port = other,
        BackendAddress::Unix(_) => {}
    }
    address
}

/// The question that a configured check asks of a place, if it asks any.
fn question(check: &Check, place: &BackendAddress) -> Option<Question> {
    Some(match check {
        Check::None => return None,
        Check::Tcp => Question::Connect,
        Check::Http(http) => Question::Http(HttpQuestion {
            path: http.path.clone(),
            host: http.host.clone().unwrap_or_else(|| host(place)),
            expect: http.expect.clone(),
            body: http.body.clone(),
        }),
        Check::Exchange { send, expect } => {
            Question::Exchange { send: send.clone(), expect: expect.clone() }
        }
        Check::Redis => Question::Redis,
        Check::Mysql { user } => Question::Mysql { user: user.clone() },
        Check::Postgres { user } => Question::Postgres { user: user.clone() },
        Check::Smtp => Question::Smtp,
    })
}

/// What a client would write into the `Host` field.
fn host(place: &BackendAddress) -> String {
    match place {
        BackendAddress::Inet(_) | BackendAddress::Name { .. } => place.to_string(),
        BackendAddress::Unix(_) => "localhost".to_owned(),
    }
}
