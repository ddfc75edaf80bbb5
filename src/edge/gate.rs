//! What a listener asks of every client it accepts.
//!
//! In this order: the lists, then the cap per source. A peer that is trusted to speak for others
//! is let in to say for whom, and the cap asks about the one it names, in [`Gate::enter`]; a health
//! check of its own counts for itself. Who is turned away takes no token of the rate, so that those
//! outside cannot use it up. Unix sockets have no address: none of this applies to them but the
//! rate, and the permissions of their files say who may connect.

use std::net::IpAddr;
use std::time::Instant;

use super::networks::Networks;
use super::rate::Rate;
use super::sources::Sources;

/// The rules of one listener, and what they have to remember.
#[derive(Debug, Default)]
pub struct Gate {
    allow: Networks,
    deny: Networks,
    trusted: Networks,
    sources: Option<Sources>,
    rate: Option<Rate>,
}

impl Gate {
    /// A gate with these rules; [`Gate::default`] lets everybody in.
    #[must_use]
    pub fn new(rules: Rules, now: Instant) -> Self {
        let Rules { allow, deny, trusted, most_per_source, rate } = rules;
        Self {
            allow,
            deny,
            trusted,
            sources: most_per_source.map(Sources::new),
            rate: rate.map(|rate| Rate::new(rate, now)),
        }
    }

    /// Other rules hold from now on. Nobody who is inside is sent away; `inside` are the clients
    /// that are to be counted if nobody was counted so far.
    pub fn revise(&mut self, rules: Rules, inside: impl Iterator<Item = IpAddr>, now: Instant) {
        let before = std::mem::replace(self, Self::new(rules, now));
        match (&mut self.sources, before.sources) {
            (Some(sources), Some(mut counted)) => {
                counted.set_most(sources.most());
                *sources = counted;
            }
            (Some(sources), None) => inside.for_each(|client| sources.count(client)),
            (None, _) => {}
        }
    }

    /// Whether a client may be accepted now.
    #[must_use]
    pub fn is_open(&self, now: Instant) -> bool {
        self.rate.as_ref().is_none_or(|rate| rate.has_token(now))
    }

    /// Lets those who wait already come in at once: soon there will be no door to wait at.
    pub fn lift_rate(&mut self) {
        self.rate = None;
    }

    /// When a gate that is not open will open.
    #[must_use]
    pub fn opens(&self, now: Instant) -> Option<Instant> {
        self.rate.as_ref().and_then(Rate::next).filter(|&at| at > now)
    }

    /// What is to happen to a client that was accepted through the open gate; `peer` is the address
    /// at the other end of its socket, if that has one.
    pub fn admit(&mut self, peer: Option<IpAddr>, now: Instant) -> Verdict {
        if let Some(address) = peer {
            if self.deny.contains(address) {
                return Verdict::Refused(Refusal::Denied);
            }
            if !self.allow.is_empty() && !self.allow.contains(address) {
                return Verdict::Refused(Refusal::NotAllowed);
            }
        }
        let greets = peer.is_some_and(|address| self.trusted.contains(address));
        if !greets && !self.enter(peer) {
            return Verdict::Refused(Refusal::SourceFull);
        }
        if let Some(rate) = &mut self.rate {
            rate.take(now);
        }
        if greets { Verdict::Greets } else { Verdict::Enters }
    }

    /// Counts a client whose address is known now; false if its source has as many as it may. One
    /// that was counted is to [`Self::leave`].
    pub fn enter(&mut self, client: Option<IpAddr>) -> bool {
        match (&mut self.sources, client) {
            (Some(sources), Some(client)) => sources.enter(client),
            (None, _) | (_, None) => true,
        }
    }

    /// A client that was counted has gone.
    pub fn leave(&mut self, client: Option<IpAddr>) {
        if let (Some(sources), Some(client)) = (&mut self.sources, client) {
            sources.leave(client);
        }
    }
}

/// What a listener is told about its clients. Empty lists, and `None`, ask for nothing.
#[derive(Debug, Default)]
pub struct Rules {
    /// Only these may come in, unless it is empty.
    pub allow: Networks,
    /// These may not, whatever `allow` says.
    pub deny: Networks,
    /// These must send a PROXY header.
    pub trusted: Networks,
    /// Connections at one time from one source.
    pub most_per_source: Option<u32>,
    /// Clients a second; not zero.
    pub rate: Option<u32>,
}

/// What is to happen to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is let in, and counted.
    Enters,
    /// It is let in to say who its client is, and counted once that is known.
    Greets,
    /// It is turned away.
    Refused(Refusal),
}

/// Why a client is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its address is denied.
    Denied,
    /// Its address is not among those allowed.
    NotAllowed,
    /// Its source has as many connections as it may.
    SourceFull,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;

    fn networks(list: &[(&str, u8)]) -> Networks {
        Networks::new(list.iter().map(|(address, prefix)| (address.parse().unwrap(), *prefix)))
    }

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn gate(rules: Rules) -> (Gate, Instant) {
        let now = Instant::now();
        (Gate::new(rules, now), now)
    }

    #[test]
    fn a_gate_without_rules_lets_everybody_in() {
        let (mut gate, now) = gate(Rules::default());
        for peer in [ip("192.0.2.1"), ip("::1"), None, ip("192.0.2.1")] {
            assert!(gate.is_open(now));
            assert_eq!(gate.admit(peer, now), Verdict::Enters);
        }
        assert_eq!(gate.opens(now), None);
    }

    #[test]
    fn deny_wins_over_allow_and_a_list_of_those_allowed_refuses_all_others() {
        let allow = networks(&[("10.0.0.0", 8), ("::1", 128)]);
        let deny = networks(&[("10.9.0.0", 16)]);
        let (mut gate, now) = gate(Rules { allow, deny, ..Rules::default() });
        assert_eq!(gate.admit(ip("10.1.2.3"), now), Verdict::Enters);
        assert_eq!(gate.admit(ip("::ffff:10.1.2.3"), now), Verdict::Enters);
        assert_eq!(gate.admit(ip("10.9.2.3"), now), Verdict::Refused(Refusal::Denied));
        assert_eq!(gate.admit(ip("11.0.0.1"), now), Verdict::Refused(Refusal::NotAllowed));
        assert_eq!(gate.admit(ip("::2"), now), Verdict::Refused(Refusal::NotAllowed));
        assert_eq!(gate.admit(None, now), Verdict::Enters, "a unix socket has its own guard");
    }

    #[test]
    fn the_lists_ask_a_trusted_peer_too_and_the_cap_asks_for_whom_it_speaks() {
        let trusted = networks(&[("10.0.0.0", 8)]);
        let deny = networks(&[("10.0.0.9", 32)]);
        let rules = Rules { trusted, deny, most_per_source: Some(1), ..Rules::default() };
        let (mut gate, now) = gate(rules);
        assert_eq!(gate.admit(ip("10.0.0.9"), now), Verdict::Refused(Refusal::Denied));
        for client in ["192.0.2.1", "192.0.2.2"] {
            assert_eq!(gate.admit(ip("10.0.0.1"), now), Verdict::Greets, "as often as it likes");
            assert!(gate.enter(ip(client)));
        }
        assert!(!gate.enter(ip("192.0.2.2")));
        assert_eq!(gate.admit(ip("192.0.2.2"), now), Verdict::Refused(Refusal::SourceFull));
        gate.leave(ip("192.0.2.2"));
        assert_eq!(gate.admit(ip("192.0.2.2"), now), Verdict::Enters);
    }

    #[test]
    fn who_is_refused_uses_nothing_up() {
        let deny = networks(&[("10.0.0.0", 8)]);
        let rules = Rules { deny, most_per_source: Some(1), rate: Some(2), ..Rules::default() };
        let (mut gate, now) = gate(rules);
        for _ in 0..5 {
            assert_eq!(gate.admit(ip("10.0.0.1"), now), Verdict::Refused(Refusal::Denied));
        }
        assert!(gate.is_open(now), "the denied have taken no token");
        assert_eq!(gate.admit(ip("192.0.2.1"), now), Verdict::Enters);
        assert!(!gate.is_open(now));
        let opens = gate.opens(now).unwrap();
        assert!(gate.is_open(opens));
        assert_eq!(gate.opens(opens), None, "a time that has come is none to wait for");
        assert_eq!(gate.admit(ip("192.0.2.1"), opens), Verdict::Refused(Refusal::SourceFull));
        assert!(gate.is_open(opens), "nor has the one too many");
    }
}
