//! Clients that this process answers itself: the test backends.
//!
//! A guest is one socket and one [`Answerer`]. What it sends is fed to the answerer, and the answer
//! is written before anything else is read, so a guest's memory is bounded by one answer. With a
//! delay, each answer waits that long before it is written.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mio::Registry;
use slab::Slab;

use super::socket::Socket;
use super::token::Source;
use crate::answer::{Answer, Answerer, Next};
use crate::pair::endpoint::{Endpoint, Ready, Received};
use crate::timers::Timers;

/// All guests.
#[derive(Debug, Default)]
pub(super) struct Guests {
    slab: Slab<Guest>,
    queue: VecDeque<usize>,
    timers: Timers,
}

impl Guests {
    /// Takes a client in.
    pub(super) fn admit(
        &mut self,
        mut socket: Socket,
        answer: Answerer,
        delay: Duration,
        registry: &Registry,
    ) {
        let entry = self.slab.vacant_entry();
        if socket.register(registry, Source::Guest(entry.key()).into()).is_err() {
            return;
        }
        entry.insert(Guest {
            end: Endpoint::new(socket, Ready::WRITABLE),
            answer,
            delay,
            output: Vec::new(),
            written: 0,
            stage: Stage::Talking(Next::Continue),
            wake: None,
            queued: false,
        });
    }

    pub(super) fn mark(&mut self, slot: usize, ready: Ready) {
        if let Some(guest) = self.slab.get_mut(slot) {
            guest.end.mark(ready);
            if !std::mem::replace(&mut guest.queued, true) {
                self.queue.push_back(slot);
            }
        }
    }

    /// Gives every guest that has something to do a bounded share of the turn.
    pub(super) fn work(&mut self, now: Instant, scratch: &mut [u8]) {
        while let Some(slot) = self.timers.pop_due(now) {
            self.mark(slot, Ready::NONE);
        }
        let space = scratch.len().min(READ);
        for _ in 0..self.queue.len() {
            let Some(slot) = self.queue.pop_front() else { return };
            let Some(guest) = self.slab.get_mut(slot) else { continue };
            guest.queued = false;
            match guest.work(now, &mut scratch[..space]) {
                Progress::Waiting => {
                    if let Some(wake) = guest.wake {
                        self.timers.arm(slot, wake);
                    }
                }
                Progress::Again => self.mark(slot, Ready::NONE),
                Progress::Over => drop(self.slab.remove(slot)),
            }
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }
}

#[derive(Debug)]
struct Guest {
    end: Endpoint<Socket>,
    answer: Answerer,
    delay: Duration,
    output: Vec<u8>,
    written: usize,
    stage: Stage,
    /// When a delayed answer may go, or a farewell has lasted long enough.
    wake: Option<Instant>,
    queued: bool,
}

/// Where the conversation is.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// What to do once the output is written.
    Talking(Next),
    /// Our last word is said; what still comes is read away until then.
    Leaving(Instant),
}

enum Progress {
    Waiting,
    Again,
    Over,
}

impl Guest {
    fn work(&mut self, now: Instant, space: &mut [u8]) -> Progress {
        for _ in 0..ROUNDS {
            match self.stage {
                Stage::Leaving(until) if until <= now => return Progress::Over,
                Stage::Talking(_) if self.wake.is_some_and(|wake| wake > now) => {
                    return Progress::Waiting;
                }
                Stage::Talking(_) | Stage::Leaving(_) => {}
            }
            if self.written < self.output.len() {
                match self.write() {
                    Some(true) => {}
                    Some(false) => return Progress::Waiting,
                    None => return Progress::Over,
                }
            }
            match self.stage {
                Stage::Talking(Next::Again) => {
                    let next = self.answer.receive(&[], &mut self.output);
                    self.reply(next, now);
                }
                Stage::Talking(Next::Close) => {
                    self.end.finish();
                    self.stage = Stage::Leaving(now + FAREWELL);
                    self.wake = Some(now + FAREWELL);
                }
                Stage::Talking(Next::Continue) | Stage::Leaving(_) => {
                    if !self.end.ready().has(Ready::READABLE) {
                        return Progress::Waiting;
                    }
                    if self.read(now, space) {
                        return Progress::Over;
                    }
                }
            }
        }
        Progress::Again
    }

    /// True when all output is written, `None` when nobody takes it any more.
    fn write(&mut self) -> Option<bool> {
        if !self.end.ready().has(Ready::WRITABLE) {
            return Some(false);
        }
        self.written += self.end.send(&self.output[self.written..]).ok()?;
        if self.written < self.output.len() {
            return Some(false);
        }
        self.output.clear();
        self.written = 0;
        Some(true)
    }

    /// Reads once and answers; true when the peer is done and nothing is left to say.
    fn read(&mut self, now: Instant, space: &mut [u8]) -> bool {
        let received = self.end.receive(space);
        match (received, self.stage) {
            (Received::Nothing, _) => false,
            (Received::Reset, _) | (Received::End, Stage::Leaving(_)) => true,
            (Received::Bytes { last, .. }, Stage::Leaving(_)) => last,
            (Received::Bytes { count, last }, Stage::Talking(_)) => {
                let mut next = self.answer.receive(&space[..count], &mut self.output);
                if last {
                    self.answer.end(&mut self.output);
                    next = Next::Close;
                }
                self.reply(next, now);
                false
            }
            (Received::End, Stage::Talking(_)) => {
                self.answer.end(&mut self.output);
                self.reply(Next::Close, now);
                false
            }
        }
    }

    fn reply(&mut self, next: Next, now: Instant) {
        self.stage = Stage::Talking(next);
        let delayed = !self.delay.is_zero() && self.written < self.output.len();
        self.wake = delayed.then(|| now + self.delay);
    }
}

/// Read at most so much before the answer is written.
const READ: usize = 16 * 1024;
/// Reads and answers of one guest in one turn.
const ROUNDS: usize = 16;
/// How long what a peer still sends is read away after our last word.
const FAREWELL: Duration = Duration::from_secs(2);
