//! Clients that this process answers itself: of the test backends, and of the admin address.
//!
//! A guest is one socket and one [`Answer`]er. What it sends is fed to the answerer, and the answer
//! is written before anything else is read, so a guest's memory is bounded by one answer. With a
//! delay, each answer waits that long before it is written. With patience, a guest that has not
//! sent a request or taken its answer in that time is closed. Some questions only the reactor can
//! answer: whoever has one stands in line until [`Guests::reply`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mio::Registry;
use slab::Slab;

use super::socket::Socket;
use super::token::Source;
use crate::answer::{Answer, Next};
use crate::pair::endpoint::{Endpoint, Ready, Received};
use crate::timers::Timers;

/// All guests of one kind.
#[derive(Debug)]
pub(super) struct Guests<A> {
    slab: Slab<Guest<A>>,
    queue: VecDeque<usize>,
    asking: VecDeque<usize>,
    timers: Timers,
    terms: Terms,
}

/// What holds for all guests of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// What their events are named.
    pub(super) source: fn(usize) -> Source,
    /// How long a guest may take to send a request, and to take an answer.
    pub(super) patience: Option<Duration>,
}

impl<A: Answer> Guests<A> {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            slab: Slab::new(),
            queue: VecDeque::new(),
            asking: VecDeque::new(),
            timers: Timers::default(),
            terms,
        }
    }

    /// Takes a client in.
    pub(super) fn admit(
        &mut self,
        mut socket: Socket,
        answer: A,
        delay: Duration,
        (now, registry): (Instant, &Registry),
    ) {
        let entry = self.slab.vacant_entry();
        let slot = entry.key();
        if socket.register(registry, (self.terms.source)(slot).into()).is_err() {
            return;
        }
        let deadline = self.terms.patience.map(|patience| now + patience);
        entry.insert(Guest {
            end: Endpoint::new(socket, Ready::WRITABLE),
            answer,
            delay,
            patience: self.terms.patience,
            output: Vec::new(),
            written: 0,
            stage: Stage::Talking(Next::Continue),
            wake: None,
            deadline,
            queued: false,
        });
        if let Some(deadline) = deadline {
            self.timers.arm(slot, deadline);
        }
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
            let progress = guest.work(now, &mut scratch[..space]);
            if let Some(due) = guest.next_deadline(now) {
                self.timers.arm(slot, due);
            }
            match progress {
                Progress::Waiting => {}
                Progress::Asking if self.asking.contains(&slot) => {}
                Progress::Asking => self.asking.push_back(slot),
                Progress::Again => self.mark(slot, Ready::NONE),
                Progress::Over => drop(self.slab.remove(slot)),
            }
        }
    }

    /// Bytes of answers that are not taken yet; of what is not in the output `more` tells.
    pub(super) fn untaken(&self, more: impl Fn(&A) -> usize) -> usize {
        let of = |guest: &Guest<A>| guest.output.len() - guest.written + more(&guest.answer);
        self.slab.iter().map(|(_, guest)| of(guest)).sum()
    }

    /// Lets the first in line be answered, or a part of that; false if nobody is.
    pub(super) fn reply(
        &mut self,
        now: Instant,
        answer: impl FnOnce(&mut A, &mut Vec<u8>) -> Next,
    ) -> bool {
        while let Some(slot) = self.asking.pop_front() {
            // One that has left meanwhile may have a successor, who asks nothing yet.
            let Some(guest) = self.slab.get_mut(slot).filter(|guest| guest.is_asking()) else {
                continue;
            };
            let next = answer(&mut guest.answer, &mut guest.output);
            guest.reply(next, now);
            guest.deadline = guest.patience.map(|patience| now + patience);
            if guest.is_asking() {
                // It is answered in parts: the others wait until there is all of it.
                self.asking.push_front(slot);
            } else {
                self.mark(slot, Ready::NONE);
            }
            return true;
        }
        false
    }

    /// When the one that has asked nothing for longest may be closed for another.
    pub(super) fn room_at(&self) -> Option<Instant> {
        let idlest = self.slab.get(self.idlest()?)?;
        Some(idlest.deadline? - (self.terms.patience?.saturating_sub(GRACE)))
    }

    /// Closes the one that has asked nothing for longest.
    pub(super) fn make_room(&mut self) {
        if let Some(slot) = self.idlest() {
            self.slab.remove(slot);
        }
    }

    fn idlest(&self) -> Option<usize> {
        let idle = self.slab.iter().filter(|(_, guest)| guest.is_idle());
        idle.min_by_key(|(_, guest)| guest.deadline).map(|(slot, _)| slot)
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// How many stand in line for an answer, at most.
    pub(super) fn asking(&self) -> usize {
        self.asking.len()
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }
}

#[derive(Debug)]
struct Guest<A> {
    end: Endpoint<Socket>,
    answer: A,
    delay: Duration,
    patience: Option<Duration>,
    output: Vec<u8>,
    written: usize,
    stage: Stage,
    /// When a delayed answer may go, or a farewell has lasted long enough.
    wake: Option<Instant>,
    /// When our patience ends.
    deadline: Option<Instant>,
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
    Asking,
    Again,
    Over,
}

impl<A: Answer> Guest<A> {
    fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Talking(Next::Ask))
    }

    /// Whether we owe it nothing, and it has not asked anything yet.
    fn is_idle(&self) -> bool {
        let is_listened_to = matches!(self.stage, Stage::Talking(Next::Continue));
        is_listened_to && !self.queued && self.written == self.output.len()
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        [self.wake.filter(|&wake| wake > now), self.deadline].into_iter().flatten().min()
    }

    fn work(&mut self, now: Instant, space: &mut [u8]) -> Progress {
        for _ in 0..ROUNDS {
            match self.stage {
                Stage::Leaving(until) if until <= now => return Progress::Over,
                Stage::Talking(_) if self.deadline.is_some_and(|deadline| deadline <= now) => {
                    return Progress::Over;
                }
                Stage::Talking(_) if self.wake.is_some_and(|wake| wake > now) => {
                    return Progress::Waiting;
                }
                Stage::Talking(_) | Stage::Leaving(_) => {}
            }
            if self.written < self.output.len() {
                match self.write() {
                    Some(true) => self.deadline = self.patience.map(|patience| now + patience),
                    Some(false) => return Progress::Waiting,
                    None => return Progress::Over,
                }
            }
            match self.stage {
                Stage::Talking(Next::Ask) => return Progress::Asking,
                Stage::Talking(Next::Again) => {
                    let next = self.answer.receive(&[], &mut self.output);
                    self.reply(next, now);
                }
                Stage::Talking(Next::Close) => {
                    self.end.finish();
                    self.stage = Stage::Leaving(now + FAREWELL);
                    (self.wake, self.deadline) = (Some(now + FAREWELL), None);
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
                    next = self.answer.end(&mut self.output);
                }
                self.reply(next, now);
                false
            }
            (Received::End, Stage::Talking(_)) => {
                let next = self.answer.end(&mut self.output);
                self.reply(next, now);
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
/// How long one may take to ask, however many others would like to come in.
const GRACE: Duration = Duration::from_secs(1);
/// How long what a peer still sends is read away after our last word.
const FAREWELL: Duration = Duration::from_secs(2);
