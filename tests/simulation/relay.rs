//! What the reactor does about pairs: steps them, obeys what they answer, connects and ends them.

use std::io::ErrorKind;

use evenkeel::edge::proxy::read::{Header, Reading};
use evenkeel::pair::flow::Pump;
use evenkeel::pair::{CloseReason, Direction, Step};
use evenkeel::pool::Picked;

use crate::check;
use crate::control::Meeting;
use crate::fake_stream::FakeStream;
use crate::peer::Peer;
use crate::socket::{Link, Parting};
use crate::world::World;

impl World {
    pub(crate) fn step(&mut self, slot: usize) {
        loop {
            let tick = self.tick();
            self.pairs[slot].before_step();
            let mut pump = Pump {
                stores: &mut self.stores,
                budget: self.plan.budget,
                closing: false,
                splice_after: self.plan.splice_after,
            };
            let step = self.pairs[slot].pair.step(self.now, &self.plan.limits, &mut pump);
            self.pairs[slot].after_step(tick);
            self.trace.say(|| format!("step {} -> {step:?}", self.pairs[slot].id));
            check::after_step(&self.pairs[slot]);
            if !self.obey(slot, step) {
                return;
            }
        }
    }

    pub(crate) fn expire(&mut self) {
        while let Some(slot) = self.timers.pop_due(self.now) {
            let Some(entry) = self.pairs.get_mut(slot) else { continue };
            let step = entry.pair.expire(self.now);
            self.trace.say(|| format!("expire {} -> {step:?}", entry.id));
            let overdue = entry.pair.deadline().is_some_and(|deadline| deadline <= self.now);
            assert!(!overdue || !matches!(step, Step::Waiting), "a deadline passes in silence");
            if self.obey(slot, step) {
                self.step(slot);
            }
        }
    }

    /// Does what a step asks for; true when the pair is to be stepped again at once.
    fn obey(&mut self, slot: usize, step: Step) -> bool {
        match step {
            Step::Greeted(ends) => {
                let header = ends.as_deref().map_or(Header::Local, |ends| Header::Proxied(*ends));
                let entry = &self.pairs[slot];
                let length = entry.client.get().incoming.head.len();
                assert_eq!(entry.greeting, Some(Reading::Whole { length, header }), "the header");
                self.precede(slot, ends.map(|ends| *ends));
                return true;
            }
            Step::NeedBackend => match self.connect(slot) {
                Ok(()) => return true,
                Err(reason) => return self.wait_or_end(slot, reason),
            },
            Step::Connected(took) => {
                let now = self.now;
                let entry = &mut self.pairs[slot];
                let (backend, attempt) = entry.choice.expect("a backend that was chosen");
                (entry.active.0, entry.moved.0) = (now, now);
                entry.waiting = None;
                self.control.connected(backend, attempt, took, now);
                self.room.served(0, slot);
                return true;
            }
            Step::ConnectFailed(error) => {
                self.connect_failed(slot, error.kind() == ErrorKind::ConnectionReset);
                return true;
            }
            Step::Again => {
                self.enqueue(slot);
                self.arm(slot);
            }
            Step::Waiting => self.arm(slot),
            Step::Done(reason) => self.end(slot, reason),
        }
        false
    }

    /// Begins a connect that does not fail at once.
    fn connect(&mut self, slot: usize) -> Result<(), CloseReason> {
        if self.stands_behind(slot)? {
            return Ok(());
        }
        loop {
            let entry = &mut self.pairs[slot];
            let (backend, attempt) = match entry.choice {
                Some(choice) => choice,
                None if entry.tried.len() == self.plan.attempts => {
                    return Err(CloseReason::ConnectFailed);
                }
                None => match self.control.pick(self.now, &entry.tried) {
                    Picked::Backend(backend) => {
                        (backend, self.control.pool.backend(backend).first_attempt())
                    }
                    Picked::Full => return Err(CloseReason::QueueFull),
                    Picked::Nobody if entry.tried.is_empty() => return Err(CloseReason::NoBackend),
                    Picked::Nobody => return Err(CloseReason::ConnectFailed),
                },
            };
            entry.choice = Some((backend, attempt));
            let (id, script, expects) = (entry.id, entry.script, entry.expects);
            let link = match self.control.connect(backend, attempt) {
                Some(Meeting::AtOnce) => Link::Connected,
                Some(Meeting::Later(fate)) => Link::Connecting(fate),
                None => {
                    self.connect_failed(slot, false);
                    continue;
                }
            };
            self.trace.say(|| format!("connect {id} to b{backend}, {attempt:?}: {link:?}"));
            let socket = self.socket(true, id, link);
            self.peers.push(Peer::new(socket.clone(), script, expects));
            let entry = &mut self.pairs[slot];
            socket.get().outgoing.head.clone_from(&entry.told);
            entry.pair.attach(FakeStream(socket.clone()), self.now, &self.plan.limits);
            (entry.backend, entry.attached) = (Some(socket), self.now);
            return Ok(());
        }
    }

    /// The next address of the same backend is next, or another backend.
    fn connect_failed(&mut self, slot: usize, reset: bool) {
        let entry = &mut self.pairs[slot];
        check::assert_untouched(&entry.client.get(), self.plan.buffer);
        entry.backend = None;
        let (backend, attempt) = entry.choice.expect("a backend that was chosen");
        let another = self.control.pool.backend(backend).target(attempt.next()).is_some();
        entry.choice = another.then_some((backend, attempt.next()));
        if !another {
            entry.tried.push(backend);
            self.control.connect_failed(backend, reset, self.now);
        }
    }

    pub(crate) fn end(&mut self, slot: usize, reason: CloseReason) {
        self.trace.say(|| format!("end {} {reason:?}", self.pairs[slot].id));
        check::at_end(self, slot, reason);
        let (mut entry, tick) = (self.pairs.remove(slot), self.tick());
        entry.charge_rest(tick);
        self.room.leave(slot);
        if let Some((backend, _)) = entry.choice {
            self.control.pool.closed(backend);
            if entry.pair.bytes(Direction::ToClient) > 0 {
                self.control.pool.served(backend, entry.opened);
            }
        }
        let cut = reason.is_abortive() || entry.pair.holds_bytes();
        let parting = if cut { Parting::Reset } else { Parting::Polite };
        let (client, backend) = entry.pair.dissolve(&mut self.stores);
        client.0.get().close(parting);
        if let Some(backend) = backend {
            backend.0.get().close(parting);
        }
    }

    fn arm(&mut self, slot: usize) {
        if let Some(deadline) = self.pairs[slot].pair.deadline() {
            self.timers.arm(slot, deadline);
        }
    }
}
