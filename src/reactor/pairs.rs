//! The pairs: a slab of them, the queue of those that have something to do, and their timers.

use std::collections::VecDeque;
use std::time::Instant;

use slab::Slab;

use super::socket::{Peer, Socket};
use crate::pair::buffer::BufferPool;
use crate::pair::endpoint::Ready;
use crate::pair::flow::Pump;
use crate::pair::{Limits, Pair, Side, Step};
use crate::pool::backend::Attempt;
use crate::timers::Timers;

/// All live pairs.
#[derive(Debug)]
pub(super) struct Pairs {
    slab: Slab<Entry>,
    queue: VecDeque<(usize, u64)>,
    timers: Timers,
    pub(super) scratch: Box<[u8]>,
    pub(super) buffers: BufferPool,
}

impl Pairs {
    pub(super) fn new() -> Self {
        Self {
            slab: Slab::new(),
            queue: VecDeque::new(),
            timers: Timers::default(),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            buffers: BufferPool::new(SCRATCH, STOCK),
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

    /// Puts a pair at the back of the queue, unless it is queued.
    pub(super) fn enqueue(&mut self, slot: usize) {
        if let Some(entry) = self.slab.get_mut(slot)
            && !entry.queued
        {
            entry.queued = true;
            self.queue.push_back((slot, entry.id));
        }
    }

    /// The pair at the front of the queue. One that has ended since it was queued is passed over;
    /// its slot may have a new owner, which the id tells.
    pub(super) fn dequeue(&mut self) -> Option<usize> {
        while let Some((slot, id)) = self.queue.pop_front() {
            if let Some(entry) = self.slab.get_mut(slot)
                && entry.id == id
            {
                entry.queued = false;
                return Some(slot);
            }
        }
        None
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Lets a pair do what it can.
    pub(super) fn step(&mut self, slot: usize, now: Instant, limits: &Limits) -> Step {
        let mut pump = Pump {
            scratch: &mut self.scratch,
            buffers: &mut self.buffers,
            budget: BUDGET,
            closing: false,
        };
        self.slab[slot].pair.step(now, limits, &mut pump)
    }

    /// Makes sure that the pair's deadline is noticed.
    pub(super) fn arm(&mut self, slot: usize) {
        if let Some(deadline) = self.slab[slot].next_deadline() {
            self.timers.arm(slot, deadline);
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
    pub(super) listener: usize,
    /// The backend in use or being tried.
    pub(super) backend: Option<Choice>,
    /// Backends that could not be connected.
    pub(super) tried: Vec<usize>,
    /// When keepalive is due to be switched on; none once it is.
    pub(super) keepalive_at: Option<Instant>,
    queued: bool,
}

impl Entry {
    pub(super) fn new(pair: Pair<Socket>, id: u64, client: Peer, opened: Instant) -> Self {
        Self {
            pair,
            id,
            client,
            opened,
            listener: 0,
            backend: None,
            tried: Vec::new(),
            keepalive_at: None,
            queued: false,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        match (self.pair.deadline(), self.keepalive_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// A backend, and which of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) backend: usize,
    pub(super) attempt: Attempt,
}

/// One read takes at most so much.
const SCRATCH: usize = 64 * 1024;
/// Empty buffers kept for reuse.
const STOCK: usize = 64;
/// Bytes that one direction of a pair may move before the others have their turn.
const BUDGET: usize = 256 * 1024;
