//! Probes in flight: one connection each, on which one question is asked.
//!
//! What is said and what the answers mean is decided by a [`Conversation`]; here are the sockets,
//! and the one deadline over connect and conversation. A probe that fails tries the next address
//! of its place; the place has failed when all have.
//!
//! With the verdict a probe says goodbye and finishes its side, unless the peer is to finish first,
//! and stays until the peer has finished too. So a server that is still speaking, or speaks first,
//! is not answered with a reset. The next probe of that place, or the end of its time, drops it.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::Registry;
use slab::Slab;

use super::polls::Polls;
use super::socket::{Socket, SourcePorts, is_our_fault, words};
use super::token::Source;
use crate::check::{Conversation, Found, Heard, Next};
use crate::pair::endpoint::{Ready, Stream};
use crate::pool::backend::Target;
use crate::timers::Timers;

/// All probes under way.
#[derive(Debug, Default)]
pub(super) struct Probes {
    slab: Slab<Probe>,
    marked: Vec<(usize, Ready)>,
    timers: Timers,
}

impl Probes {
    /// Starts the probe with this number; an outcome is known at once if it could not be made.
    pub(super) fn start(
        &mut self,
        number: usize,
        timeout: Duration,
        scene: &Scene<'_>,
    ) -> Option<Outcome> {
        self.forget(number);
        let mut targets = scene.polls.targets(number);
        targets.reverse();
        let probing = Probing { number, targets, timeout, started: scene.now };
        if probing.targets.is_empty() {
            return Some(probing.outcome(Verdict::Unknown("no address".into()), scene.now));
        }
        self.attempt(probing, scene)
    }

    /// Drops the probe with this number, if there is one.
    pub(super) fn forget(&mut self, number: usize) {
        self.slab.retain(|_, probe| probe.probing.number != number);
    }

    pub(super) fn mark(&mut self, slot: usize, ready: Ready) {
        self.marked.push((slot, ready));
    }

    /// Finishes what events or the clock have decided.
    pub(super) fn settle(&mut self, scene: &Scene<'_>, scratch: &mut [u8]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for (slot, ready) in std::mem::take(&mut self.marked) {
            outcomes.extend(self.progress(slot, ready, scene, scratch));
        }
        while let Some(slot) = self.timers.pop_due(scene.now) {
            match self.slab.get(slot) {
                Some(probe) if probe.deadline > scene.now => self.timers.arm(slot, probe.deadline),
                Some(probe) => {
                    let reason = probe.lateness();
                    let Probe { socket, probing, .. } = self.slab.remove(slot);
                    socket.close_politely(scratch);
                    outcomes.extend(reason.and_then(|reason| self.failed(probing, reason, scene)));
                }
                None => {}
            }
        }
        outcomes
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Drops them all.
    pub(super) fn clear(&mut self) {
        self.slab.clear();
        self.marked.clear();
    }

    /// Connects to the next target, which there must be.
    fn attempt(&mut self, probing: Probing, scene: &Scene<'_>) -> Option<Outcome> {
        let target = probing.target()?;
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        let started = scene.polls.connect(probing.number, target).and_then(|mut socket| {
            socket.register(scene.registry, Source::Probe(slot).into())?;
            Ok(socket)
        });
        match started {
            Ok(socket) => {
                let deadline = scene.now + probing.timeout;
                let conversation = scene.polls.question(probing.number).open();
                let stage = Stage::Connecting;
                let unsent = scene.polls.header(probing.number).to_vec();
                entry.insert(Probe { socket, probing, conversation, stage, unsent, deadline });
                self.timers.arm(slot, deadline);
                None
            }
            Err(error) if is_our_fault(&error, target) => {
                Some(probing.outcome(Verdict::Unknown(words(&error)), scene.now))
            }
            Err(error) => self.failed(probing, words(&error), scene),
        }
    }

    fn progress(
        &mut self,
        slot: usize,
        ready: Ready,
        scene: &Scene<'_>,
        scratch: &mut [u8],
    ) -> Option<Outcome> {
        let probe = self.slab.get_mut(slot)?;
        let verdict = match probe.stage {
            Stage::Connecting => match probe.connected(ready, scene) {
                Ok(false) => return None,
                Ok(true) => probe.converse(scratch),
                Err(reason) => Some(Err(reason)),
            },
            Stage::Talking => probe.converse(scratch),
            Stage::Parting => None,
        };
        let outcome = match verdict {
            None => None,
            Some(Err(reason)) if probe.stage == Stage::Connecting || probe.has_alternative() => {
                let Probe { socket, probing, .. } = self.slab.remove(slot);
                socket.close_politely(scratch);
                return self.failed(probing, reason, scene);
            }
            Some(verdict) => {
                probe.part(scene.now);
                self.timers.arm(slot, probe.deadline);
                let verdict = verdict.map_or_else(Verdict::Failed, Verdict::Passed);
                Some(probe.probing.clone().outcome(verdict, scene.now))
            }
        };
        if probe.stage == Stage::Parting && probe.is_over(scratch) {
            self.slab.remove(slot);
        }
        outcome
    }

    /// One address has failed: try the next, or report.
    fn failed(&mut self, probing: Probing, reason: String, scene: &Scene<'_>) -> Option<Outcome> {
        let mut next = probing.clone();
        next.targets.pop();
        if !next.targets.is_empty() {
            return self.attempt(next, scene);
        }
        Some(probing.outcome(Verdict::Failed(reason), scene.now))
    }
}

/// What the loop shows to the probes for a turn.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) now: Instant,
    pub(super) registry: &'a Registry,
    pub(super) polls: &'a Polls,
    pub(super) source_ports: &'a SourcePorts,
}

/// The result of a probe.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) number: usize,
    pub(super) verdict: Verdict,
    /// The address that was tried last: the one that passed.
    pub(super) target: Option<Target>,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Passed(Found),
    Failed(String),
    /// The probe could not be made; that says nothing about the backend.
    Unknown(String),
}

#[derive(Debug)]
struct Probe {
    socket: Socket,
    probing: Probing,
    conversation: Box<dyn Conversation>,
    stage: Stage,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
    deadline: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Connecting,
    Talking,
    /// The verdict is known.
    Parting,
}

impl Probe {
    /// Whether the connection stands by now, or why it never will.
    fn connected(&mut self, ready: Ready, scene: &Scene<'_>) -> Result<bool, String> {
        if ready.has(Ready::ERROR) {
            self.socket.establish().map_err(|error| words(&error))?;
        }
        if !ready.has(Ready::WRITABLE) {
            return Ok(false);
        }
        let target = self.probing.target();
        if target
            .is_some_and(|target| self.socket.is_connected_to_itself(target, scene.source_ports))
        {
            return Err("connection refused".into());
        }
        Ok(true)
    }

    /// Says and hears what can be said and heard now.
    fn converse(&mut self, scratch: &mut [u8]) -> Option<Result<Found, String>> {
        if self.stage == Stage::Connecting {
            self.stage = Stage::Talking;
            let heard = self.conversation.begin();
            if let Some(verdict) = self.follow(heard) {
                return Some(verdict);
            }
        }
        self.flush();
        // Every conversation comes to a verdict within a bounded number of bytes.
        loop {
            match self.socket.read(scratch) {
                Ok(0) => return Some(self.conversation.end()),
                Ok(count) => {
                    let mut input = &scratch[..count];
                    while !input.is_empty() {
                        let heard = self.conversation.hear(&mut input);
                        if let Some(verdict) = self.follow(heard) {
                            return Some(verdict);
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let awaited = self.conversation.awaited();
                    return Some(Err(format!("{} while waiting for {awaited}", words(&error))));
                }
            }
        }
    }

    fn follow(&mut self, heard: Heard) -> Option<Result<Found, String>> {
        let (bytes, verdict) = match heard {
            Ok(Next::Listen) => return None,
            Ok(Next::Say(bytes)) => (bytes, None),
            Ok(Next::Passed { found, farewell }) => (farewell, Some(Ok(found))),
            Err(reason) => (Vec::new(), Some(Err(reason))),
        };
        self.unsent.extend(bytes);
        self.flush();
        verdict
    }

    /// Sends what can be sent. A broken connection is told by reading, after what came before.
    fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.socket.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.unsent.clear(),
            }
        }
    }

    /// Whether another address is left to try.
    fn has_alternative(&self) -> bool {
        self.probing.targets.len() > 1
    }

    /// Nothing more is to be learned: from here on it is about leaving in order.
    fn part(&mut self, now: Instant) {
        self.stage = Stage::Parting;
        self.deadline = now + self.probing.timeout;
        if !self.conversation.waits_for_the_end() {
            // On a connection that has ended already there is nothing to finish.
            let _ = self.socket.finish();
        }
    }

    /// Reads away what the backend said; true when it has finished too.
    fn is_over(&mut self, scratch: &mut [u8]) -> bool {
        for _ in 0..MOST_READS {
            match self.socket.read(scratch) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Why it has failed now that its time is over, if it has.
    fn lateness(&self) -> Option<String> {
        match self.stage {
            Stage::Connecting => Some("timed out".into()),
            Stage::Talking => {
                Some(format!("timed out waiting for {}", self.conversation.awaited()))
            }
            Stage::Parting => None,
        }
    }
}

#[derive(Debug, Clone)]
struct Probing {
    number: usize,
    /// Where to try, the next one last.
    targets: Vec<Target>,
    timeout: Duration,
    started: Instant,
}

impl Probing {
    fn target(&self) -> Option<&Target> {
        self.targets.last()
    }

    fn outcome(mut self, verdict: Verdict, now: Instant) -> Outcome {
        let took = now.saturating_duration_since(self.started);
        Outcome { number: self.number, verdict, target: self.targets.pop(), took }
    }
}

/// Reads of a talkative backend before its probe is closed all the same.
const MOST_READS: usize = 16;
