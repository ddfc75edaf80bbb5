//! The reactor's part, played over fake streams: turns with their phases, a run queue, timers,
//! pool, prober and lifecycle, and a clock that stands still unless nothing else can happen.
//!
//! Chance decides what network and peers do between two turns, which events come late, and what a
//! connect meets. What must hold after every turn and at every end is in `check`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel::edge::proxy::Ends;
use evenkeel::edge::proxy::read::Reading;
use evenkeel::edge::proxy::write::write;
use evenkeel::lifecycle::{Lifecycle, Verdict};
use evenkeel::pair::buffer::BufferPool;
use evenkeel::pair::endpoint::Ready;
use evenkeel::pair::flow::Stores;
use evenkeel::pair::pipe::PipeStock;
use evenkeel::pair::{CloseReason, Pair, Side};
use evenkeel::pool::backend::Attempt;
use evenkeel::pool::waiting::Room;
use evenkeel::timers::Timers;
use slab::Slab;

use crate::check;
use crate::control::Control;
use crate::fake_stream::{FakeStream, Shared};
use crate::greeting;
use crate::ledger::Ledger;
use crate::peer::{Peer, Script};
use crate::plan::{Kind, Plan};
use crate::queues::{Name, Run};
use crate::random::Random;
use crate::socket::{Link, Socket};
use crate::trace::Trace;
use crate::waiting;

/// One schedule, from the first client to the last.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Instant,
    pub(crate) pairs: Slab<Entry>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) stores: Stores<Option<Run>>,
    pub(crate) control: Control,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) queue: VecDeque<(usize, u64)>,
    pub(crate) trace: Trace,
    begun: Instant,
    pub(crate) timers: Timers,
    pub(crate) room: Room,
    coming: u64,
    pub(crate) serial: u64,
    /// When the process was told to leave.
    leaving: Option<Instant>,
    pub(crate) random: Random,
}

/// A pair, and what its surroundings know about it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) pair: Pair<FakeStream>,
    pub(crate) id: u64,
    pub(crate) client: Shared<Socket>,
    pub(crate) backend: Option<Shared<Socket>>,
    /// What its first bytes mean, if it has to send a header.
    pub(crate) greeting: Option<Reading>,
    /// What its backend is to be told first.
    pub(crate) told: Vec<u8>,
    /// The backend in use or being tried, and which of its addresses that is.
    pub(crate) choice: Option<(usize, Attempt)>,
    pub(crate) attached: Instant,
    pub(crate) opened: Instant,
    pub(crate) ledger: Ledger,
    /// When it began to wait for a backend.
    pub(crate) waiting: Option<Instant>,
    /// When anything happened that may count as progress, and how often; when bytes last moved.
    pub(crate) active: (Instant, u64),
    pub(crate) moved: (Instant, u64),
    pub(crate) tried: Vec<usize>,
    pub(crate) script: Script,
    pub(crate) expects: Option<u64>,
    pub(crate) queued: bool,
}

impl World {
    pub(crate) fn new(kind: Kind, seed: u64, base: Instant, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(kind, &mut random);
        trace.say(|| format!("{plan:?}"));
        Self {
            now: base,
            pairs: Slab::new(),
            peers: Vec::new(),
            stores: Stores {
                scratch: vec![0; plan.buffer].into_boxed_slice(),
                buffers: BufferPool::new(plan.buffer, 2),
                pipes: PipeStock::new(plan.pipes),
            },
            control: Control::new(&plan, random.fork(), base, trace.clone()),
            lifecycle: Lifecycle::Running,
            queue: VecDeque::new(),
            begun: base,
            timers: Timers::default(),
            room: waiting::room(&plan),
            coming: plan.clients,
            serial: 0,
            leaving: None,
            random,
            plan,
            trace,
        }
    }

    /// Takes turns until everything is over.
    pub(crate) fn run(&mut self) {
        for _ in 0..TURNS {
            let acted = self.network();
            let ended = self.turn();
            check::after_turn(self);
            if ended {
                return check::after_all(self);
            }
            if !acted && self.is_quiet() {
                check::at_rest(self);
                self.advance();
            }
        }
        panic!("no end after {TURNS} turns");
    }

    /// Lets peers and network do a few things; false if there was nothing to do.
    fn network(&mut self) -> bool {
        let wanted = self.random.between(1, 8);
        let mut done = 0;
        while done < wanted && self.act_once() {
            done += 1;
        }
        if self.random.chance(self.plan.spurious) && !self.peers.is_empty() {
            let index = self.some_peer();
            self.peers[index].socket.get().startle();
        }
        done > 0
    }

    fn act_once(&mut self) -> bool {
        let count = self.peers.len();
        let first = if count == 0 { 0 } else { self.some_peer() };
        for step in 0..count {
            let index = (first + step) % count;
            if self.peers[index].act(self.now, &mut self.random, &self.trace) {
                if self.peers[index].is_over() {
                    self.peers.swap_remove(index);
                }
                return true;
            }
        }
        false
    }

    fn some_peer(&mut self) -> usize {
        usize::try_from(self.random.below(self.peers.len() as u64)).expect("an index")
    }

    /// Now, as connections are charged for it.
    pub(crate) fn tick(&self) -> u32 {
        let since = (self.now - self.begun).as_millis();
        u32::try_from(since).expect("no schedule lasts so long")
    }

    fn is_quiet(&self) -> bool {
        let events = |e: &Entry| {
            e.client.get().has_event() || e.backend.as_ref().is_some_and(|b| b.get().has_event())
        };
        let welcome = self.coming > 0 && self.lifecycle.is_running();
        self.queue.is_empty()
            && !welcome
            && !self.pairs.iter().any(|(_, entry)| events(entry))
            && !self.peers.iter().any(|peer| peer.can_act(self.now))
    }

    /// Nothing can happen now: the clock moves to the next moment at which something may.
    fn advance(&mut self) {
        let leave = match self.lifecycle {
            Lifecycle::Running => self.plan.leaves.map(|wait| self.begun + wait),
            Lifecycle::Draining { deadline: None } => self.leaving.map(|at| at + IMPATIENCE),
            Lifecycle::Draining { .. } | Lifecycle::Ending => None,
        };
        let now = self.now;
        let wakes = self.peers.iter().filter_map(|peer| peer.wakes(now)).min();
        let moments = [
            self.timers.next(),
            self.room.next(now),
            self.control.next(),
            self.lifecycle.deadline(),
            leave,
            wakes,
        ];
        let next = moments.into_iter().flatten().min().expect("something is still to happen");
        self.now = self.now.max(next);
        if self.plan.jumps && self.random.chance(20) {
            self.now += self.random.millis(100_000);
        }
        self.trace.say(|| format!("clock {:?}", self.now - self.begun));
    }

    /// One turn of the reactor; true when it leaves.
    fn turn(&mut self) -> bool {
        self.signals();
        self.mark();
        if self.lifecycle.is_running() {
            self.accept();
        }
        for _ in 0..self.queue.len() {
            self.step_next();
        }
        if self.control.turn(self.now) {
            self.room.encourage(0);
        }
        self.expire();
        self.attend();
        if self.random.chance(10) {
            let tick = self.tick();
            self.pairs.iter_mut().for_each(|(_, entry)| entry.look(tick));
        }
        match self.lifecycle.verdict(self.now, self.pairs.len()) {
            Verdict::GoOn => false,
            Verdict::Leave => true,
            Verdict::Cut => {
                for slot in self.pairs.iter().map(|(slot, _)| slot).collect::<Vec<_>>() {
                    self.end(slot, CloseReason::Cut);
                }
                true
            }
        }
    }

    fn signals(&mut self) {
        let told = match self.lifecycle {
            Lifecycle::Running => {
                let due = self.plan.leaves.is_some_and(|wait| self.begun + wait <= self.now);
                due || (self.coming == 0 && self.pairs.is_empty())
            }
            Lifecycle::Draining { deadline: None } => {
                self.leaving.is_some_and(|at| at + IMPATIENCE <= self.now)
            }
            Lifecycle::Draining { .. } | Lifecycle::Ending => false,
        };
        if told {
            self.trace.say(|| "told to leave".into());
            self.leaving.get_or_insert(self.now);
            self.lifecycle.shut_down(self.now, self.plan.drain);
        }
    }

    fn mark(&mut self) {
        for slot in 0..self.pairs.capacity() {
            for side in [Side::Client, Side::Backend] {
                let Some(entry) = self.pairs.get_mut(slot) else { continue };
                let socket = match side {
                    Side::Client => Some(&entry.client),
                    Side::Backend => entry.backend.as_ref(),
                };
                let Some(socket) = socket else { continue };
                if !socket.get().has_event() || self.random.chance(self.plan.late) {
                    continue;
                }
                let Some(ready) = socket.get().take_event() else { continue };
                self.trace.say(|| format!("event {} {ready:?}", socket.get().name));
                entry.pair.mark(side, ready);
                self.enqueue(slot);
            }
        }
    }

    fn accept(&mut self) {
        while self.coming > 0 && self.random.chance(50) {
            self.coming -= 1;
            self.serial += 1;
            let (mut client, backend) = self.plan.scripts(&mut self.random);
            let certain = self.plan.kind == Kind::Cooperative;
            let socket = self.socket(false, self.serial, Link::Connected);
            let known = self.random.pick(&[Ready::NONE, Ready::WRITABLE]);
            let stream = FakeStream(socket.clone());
            let (pair, greeting) = if self.plan.greets {
                let (bytes, meaning) = greeting::draw(certain, &mut self.random);
                socket.get().incoming.head = bytes;
                if meaning == Reading::Partial {
                    // What follows a header that is cut off must not complete it.
                    client.sends = 0;
                }
                (Pair::greeting(stream, known, self.now + self.plan.patience), Some(meaning))
            } else {
                (Pair::new(stream, known), None)
            };
            self.peers.push(Peer::new(socket.clone(), client, certain.then_some(backend.sends)));
            let slot = self.pairs.insert(Entry {
                pair,
                id: self.serial,
                client: socket,
                backend: None,
                greeting,
                told: Vec::new(),
                choice: None,
                attached: self.now,
                opened: self.now,
                ledger: Ledger::new(self.tick()),
                waiting: None,
                active: (self.now, 0),
                moved: (self.now, 0),
                tried: Vec::new(),
                script: backend,
                expects: certain.then_some(client.sends),
                queued: false,
            });
            self.trace.say(|| format!("accept {} {client:?} | {backend:?}", self.serial));
            if !self.plan.greets {
                let ends = greeting::ends(&mut self.random);
                self.precede(slot, Some(ends));
            }
            self.enqueue(slot);
        }
    }

    /// Has backends told between which ends the connection is, if they are told at all.
    pub(crate) fn precede(&mut self, slot: usize, ends: Option<Ends>) {
        if let Some(version) = self.plan.tells {
            let entry = &mut self.pairs[slot];
            entry.told = write(version, ends);
            entry.pair.precede(entry.told.clone());
        }
    }

    pub(crate) fn socket(&mut self, backend: bool, pair: u64, link: Link) -> Shared<Socket> {
        let name = Name { pair, backend };
        let random = self.random.fork();
        Shared::new(Socket::new(name, link, self.plan.habits, random, self.trace.clone()))
    }

    pub(crate) fn enqueue(&mut self, slot: usize) {
        let entry = &mut self.pairs[slot];
        if !std::mem::replace(&mut entry.queued, true) {
            self.queue.push_back((slot, entry.id));
        }
    }

    fn step_next(&mut self) {
        let Some((slot, id)) = self.queue.pop_front() else { return };
        if let Some(entry) = self.pairs.get_mut(slot)
            && entry.id == id
        {
            entry.queued = false;
            self.step(slot);
        }
    }

    /// Lets the peers take what is still on its way to them.
    pub(crate) fn settle_peers(&mut self) {
        loop {
            while self.act_once() {}
            let now = self.now;
            match self.peers.iter().filter_map(|peer| peer.wakes(now)).min() {
                Some(wakes) => self.now = wakes,
                None => return,
            }
        }
    }
}

impl Entry {
    /// Takes note of progress.
    pub(crate) fn refresh(&mut self, now: Instant) {
        let client = self.client.get();
        let backend = self.backend.as_ref().map(Shared::get);
        let sum = |count: fn(&Socket) -> u64| count(&client) + backend.as_deref().map_or(0, count);
        check::follow(&mut self.active, sum(|socket| socket.activity), now);
        check::follow(&mut self.moved, sum(|socket| socket.outgoing.written), now);
    }
}

/// More turns than any schedule needs.
const TURNS: u32 = 20_000;
/// After this, a drain without a deadline gets its second signal.
const IMPATIENCE: Duration = Duration::from_secs(200);
