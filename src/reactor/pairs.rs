//! The pairs: a slab of them, the queues of those that have something to do, and their timers.
//!
//! There are two queues. A pair that spent its byte budget has a stream at full speed; it goes to
//! the bulk queue, of which only a few are served in a turn, after all the others. So a small
//! request waits for one bulk step at most, however many streams there are, and the streams lose
//! nothing but a look at the events between their steps.

use std::collections::VecDeque;
use std::ops::Deref;
use std::time::{Duration, Instant};

use slab::Slab;

use super::Route;
use super::pipe::KernelPipe;
use super::socket::{Peer, Socket};
use crate::measure::Waits;
use crate::pair::buffer::BufferPool;
use crate::pair::endpoint::Ready;
use crate::pair::flow::{Pump, Stores};
use crate::pair::pipe::PipeStock;
use crate::pair::{CloseReason, Pair, Side, Step};
use crate::pool::backend::Attempt;
use crate::timers::Timers;

/// All live pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    slab: Slab<Entry>,
    queue: VecDeque<(usize, u64)>,
    bulk: VecDeque<(usize, u64)>,
    spare: Vec<(usize, u64)>,
    timers: Timers,
    /// Of pairs whose backend owes its first byte.
    pub(super) silences: Timers,
    pub(super) stores: Stores<KernelPipe>,
}

impl Pairs {
    /// An empty slab; its flows may have `pipes` pipes at one time.
    pub(super) fn new(pipes: usize) -> Self {
        Self {
            slab: Slab::new(),
            queue: VecDeque::new(),
            bulk: VecDeque::new(),
            spare: Vec::new(),
            timers: Timers::default(),
            silences: Timers::default(),
            stores: Stores {
                scratch: vec![0; SCRATCH].into_boxed_slice(),
                buffers: BufferPool::new(SCRATCH, STOCK),
                pipes: PipeStock::new(pipes),
            },
        }
    }

    /// Adds a pair and queues it.
    pub(super) fn insert(&mut self, entry: Entry) -> usize {
        let slot = self.slab.insert(entry);
        self.enqueue(slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: usize) -> Entry {
        self.slab.remove(slot)
    }

    /// The slot that the next insert will use.
    pub(super) fn vacant_slot(&self) -> usize {
        self.slab.vacant_key()
    }

    /// An event named one side of a pair: mark it and queue the pair.
    pub(super) fn mark(&mut self, slot: usize, side: Side, ready: Ready) {
        if let Some(entry) = self.slab.get_mut(slot) {
            entry.pair.mark(side, ready);
            self.enqueue(slot);
        }
    }

    /// Puts a pair at the back of its queue, unless it is queued.
    pub(super) fn enqueue(&mut self, slot: usize) {
        if let Some(entry) = self.slab.get_mut(slot)
            && !entry.queued
        {
            entry.queued = true;
            let queue = if entry.pair.is_spent() { &mut self.bulk } else { &mut self.queue };
            queue.push_back((slot, entry.id));
        }
    }

    /// The pairs whose turn it is now: all that are interactive, then a few of the others.
    pub(super) fn take_turns(&mut self) -> Vec<(usize, u64)> {
        let mut turns = std::mem::take(&mut self.spare);
        turns.extend(self.queue.drain(..));
        let some = self.bulk.len().min(BULK_STEPS);
        turns.extend(self.bulk.drain(..some));
        turns
    }

    /// Whether a pair is still the one that was queued. It may have ended since, and its slot may
    /// have a new owner, which the id tells.
    pub(super) fn begin_turn(&mut self, slot: usize, id: u64) -> bool {
        match self.slab.get_mut(slot) {
            Some(entry) if entry.id == id => {
                entry.queued = false;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Whether the pair in a slot is the one with this id.
    pub(super) fn is(&self, slot: usize, id: u64) -> bool {
        self.slab.get(slot).is_some_and(|entry| entry.id == id)
    }

    /// Gives the memory of a list of turns back.
    pub(super) fn end_turns(&mut self, mut turns: Vec<(usize, u64)>) {
        turns.clear();
        self.spare = turns;
    }

    /// Whether any pair has something to do.
    pub(super) fn is_busy(&self) -> bool {
        !self.queue.is_empty() || !self.bulk.is_empty()
    }

    /// Lets a pair do what it can.
    pub(super) fn step(&mut self, slot: usize, now: Instant, route: &Route) -> Step {
        let mut pump = Pump {
            stores: &mut self.stores,
            budget: BUDGET,
            closing: false,
            splice_after: route.splice.then_some(SPLICE_AFTER),
        };
        let entry = &mut self.slab[slot];
        entry.pair.step(now, &route.limits, &mut pump)
    }

    /// Makes sure that the pair's deadline is noticed.
    pub(super) fn arm(&mut self, slot: usize) {
        if let Some(deadline) = self.slab[slot].next_deadline() {
            self.timers.arm(slot, deadline);
        }
    }

    /// A pair was connected: what its connect could have taken at most is no matter any more.
    pub(super) fn connected(&mut self, slot: usize) {
        let entry = &mut self.slab[slot];
        entry.lacks_keepalive = true;
        if let Some(deadline) = entry.next_deadline() {
            self.timers.move_to(slot, deadline);
        }
    }

    /// A pair whose deadline, or its time for keepalive, has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<usize> {
        while let Some(slot) = self.timers.pop_due(now) {
            let Some(entry) = self.slab.get(slot) else { continue };
            match entry.next_deadline() {
                Some(deadline) if deadline <= now => return Some(slot),
                Some(deadline) => self.timers.arm(slot, deadline),
                None => {}
            }
        }
        None
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The pair in a slot that may be free.
    pub(super) fn find(&self, slot: usize) -> Option<&Entry> {
        self.slab.get(slot)
    }

    /// No pair has a slot as high as this.
    pub(super) fn highest(&self) -> usize {
        self.slab.capacity()
    }

    pub(super) fn get(&self, slot: usize) -> &Entry {
        &self.slab[slot]
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> &mut Entry {
        &mut self.slab[slot]
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.slab.iter()
    }

    pub(super) fn slots(&self) -> Vec<usize> {
        self.slab.iter().map(|(slot, _)| slot).collect()
    }
}

/// A pair, and what its surroundings know about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) pair: Pair<Socket>,
    /// Counts up for the life of the process.
    pub(super) id: u64,
    pub(super) client: Peer,
    pub(super) opened: Instant,
    listener: u16,
    pool: u16,
    /// The backend in use or being tried.
    pub(super) backend: Option<Choice>,
    /// Backends that could not be connected.
    pub(super) tried: Tried,
    /// Why the last attempt failed.
    pub(super) failure: Failure,
    /// What it has waited for.
    pub(super) waits: Waits,
    /// Whether keepalive is still to be switched on, when the pair is old enough.
    pub(super) lacks_keepalive: bool,
    queued: bool,
}

impl Entry {
    pub(super) fn new(
        pair: Pair<Socket>,
        id: u64,
        client: Peer,
        (opened, tick): (Instant, u32),
    ) -> Self {
        Self {
            pair,
            id,
            client,
            opened,
            listener: 0,
            pool: 0,
            backend: None,
            tried: Tried::default(),
            failure: Failure::Refused,
            waits: Waits::new(tick),
            lacks_keepalive: false,
            queued: false,
        }
    }

    /// The same, having come through this listener to this pool.
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 65536 of each")]
    pub(super) fn through(self, listener: usize, pool: usize) -> Self {
        Self { listener: listener as u16, pool: pool as u16, ..self }
    }

    /// The listener it came through.
    pub(super) fn listener(&self) -> usize {
        self.listener.into()
    }

    /// The pool that serves it, also when its listener leads to another one by now.
    pub(super) fn pool(&self) -> usize {
        self.pool.into()
    }

    /// When keepalive is due to be switched on; none once it is.
    pub(super) fn keepalive_at(&self) -> Option<Instant> {
        self.lacks_keepalive.then(|| self.opened + KEEPALIVE_AGE)
    }

    fn next_deadline(&self) -> Option<Instant> {
        match (self.pair.deadline(), self.keepalive_at()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// A backend, and which of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    backend: u32,
    pub(super) attempt: Attempt,
    /// The worst that its addresses have come to so far.
    pub(super) failure: Failure,
}

impl Choice {
    /// This backend, at this of its addresses.
    #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 10 000")]
    pub(super) fn new(backend: usize, attempt: Attempt) -> Self {
        Self { backend: backend as u32, attempt, failure: Failure::Refused }
    }

    /// The index of the backend in its pool.
    pub(super) fn backend(self) -> usize {
        self.backend as usize
    }
}

/// Backends that were tried in vain: one word while there is none, as for nearly every pair.
#[derive(Debug, Default)]
pub(super) struct Tried(
    #[expect(clippy::box_collection, reason = "a vector would be three words in every pair")]
    Option<Box<Vec<usize>>>,
);

impl Tried {
    pub(super) fn push(&mut self, backend: usize) {
        self.0.get_or_insert_default().push(backend);
    }

    /// All of them may be tried again.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

impl Deref for Tried {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

/// The age at which a connection to a backend gets keepalive.
const KEEPALIVE_AGE: Duration = Duration::from_secs(10);
/// Why a backend could not be connected; what tells more of it comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    /// It refused, or could not be reached.
    Refused,
    /// It reset the connection before a byte went either way.
    Reset,
    /// There was no local port left.
    Shortage,
}

impl Failure {
    /// Why a client is sent away when every attempt has failed, the last one like this.
    pub(super) fn reason(self) -> CloseReason {
        match self {
            Self::Refused => CloseReason::ConnectFailed,
            Self::Reset => CloseReason::BackendReset,
            Self::Shortage => CloseReason::OutOfResources,
        }
    }
}

/// One read takes at most so much.
const SCRATCH: usize = 64 * 1024;
/// Full reads in a row after which a flow is spliced.
const SPLICE_AFTER: u8 = 3;
/// Empty buffers kept for reuse.
const STOCK: usize = 64;
/// Bytes that one direction of a pair may move before the others have their turn.
const BUDGET: usize = 256 * 1024;
/// Steps of bulk streams in one turn.
const BULK_STEPS: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a pair costs while it is idle, in bytes: this, 28 for its timer and nothing else, for
    /// it holds neither buffer nor pipe. With that the process grows by less than 300 a pair. In a
    /// build with debug assertions mio's sockets are larger, by what they check their use with.
    #[test]
    fn a_pair_is_small() {
        let most = if cfg!(debug_assertions) { 288 } else { 248 };
        assert!(size_of::<Entry>() <= most, "{} bytes", size_of::<Entry>());
        assert_eq!(size_of::<Option<Entry>>(), size_of::<Entry>(), "a slot adds nothing");
    }

    #[test]
    fn what_was_tried_is_listed_in_order() {
        let mut tried = Tried::default();
        assert!(tried.is_empty());
        tried.push(3);
        tried.push(1);
        assert_eq!(&*tried, [3, 1]);
    }
}
