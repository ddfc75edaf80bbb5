//! Probes in flight: non-blocking connects whose only purpose is their outcome.
//!
//! A probe passes as soon as it is connected. It then says goodbye with a FIN and stays until the
//! backend has said it too, so that a backend that speaks first is not answered with a reset; its
//! next probe, or the end of its time, drops it. A probe that fails tries the next address of its
//! backend; the backend has failed when all have.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use mio::Registry;
use slab::Slab;

use super::socket::{Socket, SourcePorts, is_our_fault, words};
use super::token::Source;
use crate::pair::endpoint::{Ready, Stream};
use crate::pool::Pool;
use crate::pool::backend::Attempt;
use crate::pool::prober::Prober;
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
    pub(super) fn start(&mut self, number: usize, scene: &Scene<'_>) -> Option<Outcome> {
        self.slab.retain(|_, probe| probe.probing.number != number);
        let (pool, backend) = scene.prober.target(number);
        let attempt = scene.pools[pool].backend(backend).first_attempt();
        self.attempt(Probing { number, attempt, started: scene.now }, scene)
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
                Some(probe) if probe.passed => drop(self.slab.remove(slot)),
                Some(_) => {
                    let probing = self.slab.remove(slot).probing;
                    outcomes.extend(self.failed(probing, "timed out".into(), scene));
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

    fn attempt(&mut self, probing: Probing, scene: &Scene<'_>) -> Option<Outcome> {
        let (pool, backend) = scene.prober.target(probing.number);
        let Some(target) = scene.pools[pool].backend(backend).target(probing.attempt) else {
            return Some(probing.outcome(Verdict::Unknown("no address".into()), scene.now));
        };
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        let started = Socket::connect(target).and_then(|mut socket| {
            socket.register(scene.registry, Source::Probe(slot).into())?;
            Ok(socket)
        });
        match started {
            Ok(socket) => {
                let deadline = scene.now + scene.prober.timeout(probing.number);
                entry.insert(Probe { socket, probing, deadline, passed: false });
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
        if probe.passed {
            if probe.is_over(scratch) {
                self.slab.remove(slot);
            }
            return None;
        }
        if ready.has(Ready::ERROR)
            && let Err(error) = probe.socket.establish()
        {
            let probing = self.slab.remove(slot).probing;
            return self.failed(probing, words(&error), scene);
        }
        if !ready.has(Ready::WRITABLE) {
            return None;
        }
        if probe.met_itself(scene) {
            let probing = self.slab.remove(slot).probing;
            return self.failed(probing, "connection refused".into(), scene);
        }
        probe.passed = true;
        let outcome = probe.probing.outcome(Verdict::Passed, scene.now);
        if probe.socket.finish().is_err() || probe.is_over(scratch) {
            self.slab.remove(slot);
        }
        Some(outcome)
    }

    /// One address did not answer: try the next, or report.
    fn failed(&mut self, probing: Probing, reason: String, scene: &Scene<'_>) -> Option<Outcome> {
        let (pool, backend) = scene.prober.target(probing.number);
        let next = Probing { attempt: probing.attempt.next(), ..probing };
        if scene.pools[pool].backend(backend).target(next.attempt).is_some() {
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
    pub(super) prober: &'a Prober,
    pub(super) pools: &'a [Pool],
    pub(super) source_ports: &'a SourcePorts,
}

/// The result of a probe.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) number: usize,
    pub(super) attempt: Attempt,
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Passed,
    Failed(String),
    /// The probe could not be made; that says nothing about the backend.
    Unknown(String),
}

#[derive(Debug)]
struct Probe {
    socket: Socket,
    probing: Probing,
    deadline: Instant,
    passed: bool,
}

impl Probe {
    /// Whether the connect has met its own source port: nobody is there.
    fn met_itself(&self, scene: &Scene<'_>) -> bool {
        let (pool, backend) = scene.prober.target(self.probing.number);
        let target = scene.pools[pool].backend(backend).target(self.probing.attempt);
        target.is_some_and(|target| self.socket.is_connected_to_itself(target, scene.source_ports))
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
}

#[derive(Debug, Clone, Copy)]
struct Probing {
    number: usize,
    attempt: Attempt,
    started: Instant,
}

impl Probing {
    fn outcome(self, verdict: Verdict, now: Instant) -> Outcome {
        let took = now.saturating_duration_since(self.started);
        Outcome { number: self.number, attempt: self.attempt, verdict, took }
    }
}

/// Reads of a talkative backend before its probe is closed all the same.
const MOST_READS: usize = 16;
