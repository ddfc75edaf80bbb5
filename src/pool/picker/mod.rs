//! Choosing a backend: one algorithm a file, pure, over indices into the pool.
//!
//! A [`Picker`] is told facts about its members when they change (who may be chosen, how many
//! connections each has) and answers whose turn it is. It keeps every fact in `members.rs`; an
//! algorithm keeps only the order it makes of them, and is told which member has changed. Equal
//! calls give equal answers: chance comes from a seed, and the clock is an argument.
//!
//! A pick costs constant or logarithmic time in the number of members, and so does a changed fact.
//! Where an algorithm cannot keep that, its file says when.

mod fenwick;
mod first;
pub(super) mod hash;
mod least_connections;
mod logarithm;
mod maglev;
mod measure;
mod members;
mod open_set;
mod rendezvous;
mod response_time;
mod round_robin;
mod source_hash;
mod tournament;
mod two_choices;

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use first::First;
use least_connections::LeastConnections;
pub use measure::{Measure, bid};
use members::Members;
use response_time::ResponseTime;
use round_robin::RoundRobin;
use source_hash::SourceHash;
use two_choices::TwoChoices;

/// Chooses among the members of a pool. A copy goes on by itself, exactly as this one would.
#[derive(Debug)]
pub struct Picker {
    members: Members,
    algorithm: Box<dyn Algorithm>,
}

impl Picker {
    /// A picker over these members, by index. All of them may be chosen, have no connections and
    /// take all of their weight, until something else is said. Equal seeds make equal choices.
    #[must_use]
    pub fn new(policy: Policy, members: &[Member], seed: u64) -> Self {
        let members = Members::new(members);
        let algorithm: Box<dyn Algorithm> = match policy {
            Policy::RoundRobin | Policy::Resource => Box::new(RoundRobin::new(&members)),
            Policy::LeastConnections => Box::new(LeastConnections::new(&members)),
            Policy::SourceHash { balance_factor } => {
                Box::new(SourceHash::new(&members, balance_factor))
            }
            Policy::TwoChoices => Box::new(TwoChoices::new(&members, seed)),
            Policy::ResponseTime => Box::new(ResponseTime::new(&members)),
            Policy::First => Box::new(First::new(&members)),
        };
        Self { members, algorithm }
    }

    /// Adds a member behind the others; its index is returned.
    pub fn add(&mut self, member: Member) -> usize {
        let index = self.members.add(member);
        self.algorithm.changed(&self.members, index, Fact::Weight);
        index
    }

    /// Gives the index of a member that is gone to a new one, which is closed until something else
    /// is said and has no connections.
    pub fn replace(&mut self, index: usize, member: Member) {
        self.members.replace(index, member);
        self.algorithm.replaced(&self.members, index);
    }

    /// Says in which order members stand in their list, those that are gone left out. New ones
    /// stand behind the others until then. Only [`Policy::First`] asks for it.
    pub fn arrange(&mut self, order: &[usize]) {
        self.algorithm.arranged(&self.members, order);
    }

    /// Gives a member another weight; 0 takes nothing new.
    pub fn set_weight(&mut self, index: usize, weight: u16) {
        if self.members.set_weight(index, weight) {
            self.algorithm.changed(&self.members, index, Fact::Weight);
        }
    }

    /// Says whether a member may be chosen now.
    pub fn set_open(&mut self, index: usize, open: bool) {
        if self.members.set_open(index, open) {
            self.algorithm.changed(&self.members, index, Fact::Share);
        }
    }

    /// Says how much of its weight a member takes, in parts of [`WHOLE`]; 0 takes nothing new.
    pub fn set_share(&mut self, index: usize, share: u16) {
        if self.members.set_share(index, share) {
            self.algorithm.changed(&self.members, index, Fact::Share);
        }
    }

    /// Says how many connections a member has, those being made included.
    pub fn set_active(&mut self, index: usize, active: u32) {
        if self.members.set_active(index, active) {
            self.algorithm.changed(&self.members, index, Fact::Active);
        }
    }

    /// A connect to a member, or its first byte, took so long.
    pub fn sample(&mut self, index: usize, took: Duration, now: Instant) {
        self.algorithm.sample(&self.members, index, Sample { took, now });
    }

    /// The member that takes the next connection, those in `tried` left out; `None` if nobody may.
    ///
    /// The caller then says so with [`Self::set_active`]: a pick alone counts nowhere.
    pub fn pick(&mut self, key: PickKey, now: Instant, tried: &[usize]) -> Option<usize> {
        self.algorithm.pick(&self.members, &Request { key, now, tried })
    }

    /// What the algorithm goes by, of one open member, right after a pick with the same arguments.
    #[must_use]
    pub fn measure(&self, index: usize, key: PickKey, now: Instant) -> Measure {
        self.algorithm.measure(&self.members, &Request { key, now, tried: &[] }, index)
    }

    /// What a member is known by, see [`identity`].
    #[must_use]
    pub fn identity(&self, index: usize) -> u64 {
        self.members.identity(index)
    }
}

impl Clone for Picker {
    fn clone(&self) -> Self {
        Self { members: self.members.clone(), algorithm: self.algorithm.copy() }
    }
}

/// How a picker chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// In turn, as often as the weights say.
    RoundRobin,
    /// Whoever has the fewest connections for its weight.
    LeastConnections,
    /// Always the same member for the same client, while it is open.
    SourceHash {
        /// The most that a member may have, in percent of its part of all connections; above 100.
        balance_factor: Option<u32>,
    },
    /// The less loaded of two drawn by weight.
    TwoChoices,
    /// Whoever answers fast and has few connections; see [`Picker::sample`].
    ResponseTime,
    /// In turn, by the shares that the backends themselves ask for; see [`Picker::set_share`].
    Resource,
    /// The first in the list that may be chosen.
    First,
}

impl Policy {
    /// What the configuration calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LeastConnections => "least-connections",
            Self::SourceHash { .. } => "source-hash",
            Self::TwoChoices => "two-choices",
            Self::ResponseTime => "response-time",
            Self::Resource => "resource",
            Self::First => "first",
        }
    }
}

/// What a choice may depend on: who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PickKey(u64);

impl PickKey {
    /// For all clients without an address of their own, such as those of a unix socket.
    pub const LOCAL: Self = Self(0);

    /// For the client at this address; an IPv4 address mapped into IPv6 is the same client.
    #[must_use]
    pub fn of(client: IpAddr) -> Self {
        Self(match client.to_canonical() {
            IpAddr::V4(address) => hash::bytes(&address.octets()),
            IpAddr::V6(address) => hash::bytes(&address.octets()),
        })
    }
}

/// A backend as a picker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    identity: u64,
    weight: u16,
}

impl Member {
    /// A member known by `name`: hashing finds it by that, wherever in the list it stands.
    #[must_use]
    pub fn new(name: &str, weight: u16) -> Self {
        Self { identity: identity(name), weight }
    }
}

/// A number that stands for a name: the same on every machine, in every process and version.
#[must_use]
pub fn identity(name: &str) -> u64 {
    hash::bytes(name.as_bytes())
}

/// All of a member's weight.
pub const WHOLE: u16 = 256;

/// What each algorithm does.
trait Algorithm: fmt::Debug {
    /// A fact about a member has changed, or the member is new ([`Fact::Weight`]).
    fn changed(&mut self, members: &Members, index: usize, fact: Fact);

    /// A member has become another one; most algorithms remember nothing but the facts.
    fn replaced(&mut self, members: &Members, index: usize) {
        self.changed(members, index, Fact::Weight);
    }

    /// See [`Picker::arrange`].
    fn arranged(&mut self, _members: &Members, _order: &[usize]) {}

    /// See [`Picker::sample`]; most algorithms do not look at the time anything takes.
    fn sample(&mut self, _members: &Members, _index: usize, _sample: Sample) {}

    /// See [`Picker::pick`].
    fn pick(&mut self, members: &Members, request: &Request<'_>) -> Option<usize>;

    /// See [`Picker::measure`].
    fn measure(&self, members: &Members, request: &Request<'_>, index: usize) -> Measure;

    /// One that is told and asked the same from now on, and answers the same.
    fn copy(&self) -> Box<dyn Algorithm>;
}

/// What has changed about a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Weight,
    /// How much of the weight counts now: all of it, a part, or nothing of a closed one.
    Share,
    Active,
}

/// One pick as an algorithm sees it.
#[derive(Debug)]
struct Request<'a> {
    key: PickKey,
    now: Instant,
    tried: &'a [usize],
}

/// How long something took, and when that was known.
#[derive(Debug, Clone, Copy)]
struct Sample {
    took: Duration,
    now: Instant,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod testing {
    use super::*;

    pub(super) fn members(weights: &[u16]) -> Vec<Member> {
        let member = |(index, &weight): (usize, &u16)| Member::new(&format!("b{index}"), weight);
        weights.iter().enumerate().map(member).collect()
    }

    pub(super) fn picker(policy: Policy, weights: &[u16]) -> Picker {
        Picker::new(policy, &members(weights), 7)
    }

    pub(super) fn pick(picker: &mut Picker, tried: &[usize]) -> Option<usize> {
        picker.pick(PickKey::LOCAL, Instant::now(), tried)
    }

    /// Picks that nobody is told of.
    pub(super) fn picks(picker: &mut Picker, count: usize) -> Vec<usize> {
        (0..count).map(|_| pick(picker, &[]).unwrap()).collect()
    }

    /// Connections that come and none that go.
    pub(super) fn fill(picker: &mut Picker, active: &mut [u32], count: u32) {
        for _ in 0..count {
            let index = pick(picker, &[]).unwrap();
            active[index] += 1;
            picker.set_active(index, active[index]);
        }
    }

    /// How many connections everybody has after so many.
    pub(super) fn active_after(picker: &mut Picker, count: u32) -> Vec<u32> {
        let mut active = vec![0; picker.members.len()];
        fill(picker, &mut active, count);
        active
    }
}
