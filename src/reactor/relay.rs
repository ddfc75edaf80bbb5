//! From an accepted client to the end of its pair: what the pairs ask for, done.

use std::io;

use super::connect::Sought;
use super::listener::Accepted;
use super::pairs::Entry;
use super::report::Access;
use super::socket::Socket;
use super::stalls;
use super::{Closing, Reactor, Route, Service};
use crate::config::AccessLog;
use crate::decisions::record::End;
use crate::pair::{CloseReason, Direction, Limits, Phase, Side, Step};

impl Reactor {
    /// Lets clients in, a bounded number from each socket. The socket after the one that let
    /// somebody in last has the first turn, or the first of two would take every place that gets
    /// free at the limit.
    pub(super) fn accept(&mut self) {
        if self.is_waiting_for_names() {
            return;
        }
        let (first, count) = (self.first_doorway, self.doorways.count());
        for number in (first..count).chain(0..first.min(count)) {
            for _ in 0..ACCEPTS {
                if !self.may_accept(number) {
                    break;
                }
                let Some(doorway) = self.doorways.get_mut(number) else { break };
                match doorway.acceptor.accept(self.now) {
                    Accepted::Client(socket, peer) => {
                        self.first_doorway = (number + 1) % count;
                        self.admit(number, socket, peer);
                    }
                    Accepted::Nobody => break,
                    Accepted::Failed => {}
                    Accepted::Exhausted(error) => {
                        self.stats.accept_pauses += 1;
                        let until = doorway.acceptor.paused_until(self.now).unwrap_or(self.now);
                        self.stats.accept_paused += until.saturating_duration_since(self.now);
                        self.tell_shortage(&error);
                    }
                }
            }
        }
        for address in self.doorways.close(self.now) {
            log::info!("no longer listening on {address}");
        }
        self.tell_full();
    }

    /// The doors are about to close: those who are connected already are let in first, a batch a
    /// turn, so that the others do not wait. Who finds no place is reset by the kernel.
    pub(super) fn accept_the_last(&mut self) {
        let Some(Closing { signal, batches }) = &mut self.closing else { return };
        *batches = batches.saturating_sub(1);
        let (signal, is_over) = (*signal, *batches == 0);
        if is_over || !self.can_accept() {
            self.closing = None;
            self.doorways.clear();
            let left = self.live();
            let line = format_args!("{signal}: no longer accepting, {left} connections left");
            self.news.info(self.now, line);
        }
    }

    fn is_waiting_for_names(&self) -> bool {
        self.lifecycle.is_running() && self.warming_until().is_some()
    }

    /// Whether some socket has clients waiting that may come in.
    pub(super) fn can_accept(&self) -> bool {
        !self.is_waiting_for_names()
            && (0..self.doorways.count()).any(|number| self.may_accept(number))
    }

    fn may_accept(&self, number: usize) -> bool {
        let Some(doorway) = self.doorways.get(number) else { return false };
        let listener = &self.listeners[doorway.listener];
        doorway.acceptor.is_ready(self.now)
            && listener.gate.is_open(self.now)
            && listener.active < listener.most
            && self.live() < self.max_connections
    }

    /// Gives every pair whose turn it is one step; those queued meanwhile have the next turn.
    pub(super) fn relay(&mut self) {
        let turns = self.pairs.take_turns();
        for &(slot, id) in &turns {
            if self.pairs.begin_turn(slot, id) {
                self.advance(slot);
            }
        }
        self.pairs.end_turns(turns);
        self.guests.work(self.now, &mut self.pairs.stores.scratch);
    }

    /// Does what pairs whose deadline has come ask for.
    pub(super) fn expire(&mut self) {
        for _ in 0..EXPIRIES {
            let Some(slot) = self.pairs.pop_due(self.now) else { break };
            self.switch_keepalive(slot);
            self.look_at_wait(slot);
            match self.pairs.get_mut(slot).pair.expire(self.now) {
                Step::Done(reason) => self.end(slot, reason, Farewell::Short),
                step => {
                    if self.carry_out(slot, step) {
                        self.advance(slot);
                    }
                }
            }
        }
        self.expire_silence();
        self.parting.settle(self.now);
        self.tell_drain();
    }

    pub(super) fn advance(&mut self, slot: usize) {
        loop {
            let route = self.route(slot);
            let before = self.moved(slot);
            let outlook = self.uncharged(slot);
            let step = self.pairs.step(slot, self.now, &route);
            self.count_bytes(slot, before);
            if let Some(outlook) = outlook {
                self.charge(slot, outlook, before);
            }
            if before == (0, 0) {
                self.note_first_word(slot);
            }
            self.note_answer(slot);
            if !self.carry_out(slot, step) {
                return;
            }
        }
    }

    /// Bytes that a pair has moved, towards its backend and towards its client.
    pub(super) fn moved(&self, slot: usize) -> (u64, u64) {
        let pair = &self.pairs.get(slot).pair;
        (pair.bytes(Direction::ToBackend), pair.bytes(Direction::ToClient))
    }

    /// Counts as they move, not when a connection ends: some last for days.
    fn count_bytes(&mut self, slot: usize, (received, sent): (u64, u64)) {
        let (all_received, all_sent) = self.moved(slot);
        let listener = &mut self.listeners[self.pairs.get(slot).listener()];
        listener.counts.bytes_received += all_received - received;
        listener.counts.bytes_sent += all_sent - sent;
    }

    /// Does what a step asks for; true when the pair is to be stepped again at once.
    fn carry_out(&mut self, slot: usize, step: Step) -> bool {
        match step {
            Step::Greeted(ends) => return self.greeted(slot, ends),
            Step::NeedBackend => match self.connect(slot) {
                Ok(Sought::Connecting) => self.pairs.arm(slot),
                Ok(Sought::Waits) => return true,
                Err(reason) => self.finish(slot, reason),
            },
            Step::Connected(_) if self.met_itself(slot) => {
                let refused = io::ErrorKind::ConnectionRefused.into();
                let step = self.pairs.get_mut(slot).pair.give_up_backend(refused);
                return self.carry_out(slot, step);
            }
            Step::Connected(took) => {
                self.connected(slot, took);
                self.expect_first_word(slot);
                self.watch_answer(slot);
                return true;
            }
            Step::ConnectFailed(error) => {
                self.attempt_failed(slot, &error);
                return true;
            }
            Step::Waiting => self.pairs.arm(slot),
            Step::Again => {
                self.pairs.arm(slot);
                self.pairs.enqueue(slot);
            }
            Step::Done(reason) => self.finish(slot, reason),
        }
        false
    }

    /// Long-lived connections get keepalive on the backend's side; short ones do not pay for it.
    /// A backend that has kept one for so long does not reset what it takes.
    fn switch_keepalive(&mut self, slot: usize) {
        let entry = self.pairs.get_mut(slot);
        if entry.keepalive_at().is_some_and(|at| at <= self.now) {
            entry.lacks_keepalive = false;
            if let Some(socket) = entry.pair.stream(Side::Backend) {
                socket.keep_alive();
            }
            let (came, lasts) = (entry.opened, entry.pair.is_lasting(self.now));
            if let Some(choice) = entry.backend.filter(|_| lasts) {
                let pool = self.pool_of(slot);
                self.pools[pool].served(choice.backend(), came);
            }
        }
    }

    /// Ends a pair; what its sides were given may still reach them.
    pub(super) fn finish(&mut self, slot: usize, reason: CloseReason) {
        self.end(slot, reason, Farewell::Long);
    }

    /// Ends a pair: counts, tells, and closes both sides in the way that the reason asks for.
    pub(super) fn end(&mut self, slot: usize, reason: CloseReason, farewell: Farewell) {
        let pool = self.pool_of(slot);
        self.charge_rest(slot);
        let entry = self.pairs.remove(slot);
        self.room.leave(slot);
        if let Some(choice) = entry.backend {
            self.pools[pool].closed(choice.backend());
            if self.pools[pool].has_resets(choice.backend()) && was_served(&entry, reason) {
                self.pools[pool].served(choice.backend(), entry.opened);
            }
        }
        self.manners[pool].live -= 1;
        let listener = &mut self.listeners[entry.listener()];
        listener.active -= 1;
        listener.lives.observe(self.now.saturating_duration_since(entry.opened));
        // One that was still to say who its client is has not been counted.
        if entry.pair.phase() != Phase::Greeting && reason != CloseReason::SourceFull {
            listener.gate.leave(entry.client.ip());
        }
        self.stats.count_end(reason);
        let life = stalls::life(self.started, entry.opened, self.now);
        let end = End {
            reason,
            lasted: life,
            waits: entry.waits,
            received: entry.pair.bytes(Direction::ToBackend),
            sent: entry.pair.bytes(Direction::ToClient),
        };
        self.decisions.ended(entry.id, end, self.now);
        if reason.is_refusal() {
            self.tell_refusal(entry.listener(), entry.client, reason);
        }
        if self.access_log != AccessLog::Off {
            let name = &self.listeners[entry.listener()].name;
            Access::new(&entry, name, &self.pools[pool]).ended(reason, life);
        }
        let began = entry.pair.phase() == Phase::Relaying;
        // What came with a header and never had a backend is like what was never read.
        let abort = reason.is_abortive() || (began && entry.pair.holds_bytes());
        let (client, backend) = entry.pair.dissolve(&mut self.pairs.stores);
        // Before relaying nothing was sent that a reset could overtake.
        if abort && (farewell == Farewell::Short || !began) {
            client.reset_on_close();
            backend.iter().for_each(Socket::reset_on_close);
        } else if abort {
            for socket in std::iter::once(client).chain(backend) {
                self.parting.reset(socket, self.poll.registry(), self.now);
            }
        } else if !began {
            client.close_politely(&mut self.pairs.stores.scratch);
        }
    }

    pub(super) fn pool_of(&self, slot: usize) -> usize {
        self.pairs.get(slot).pool()
    }

    pub(super) fn route(&self, slot: usize) -> Route {
        let entry = self.pairs.get(slot);
        let Service::Balance(passage) = self.listeners[entry.listener()].service else {
            unreachable!("guests are not paired")
        };
        let pool = entry.pool();
        let manners = &self.manners[pool];
        Route {
            pool,
            attempts: manners.attempts,
            limits: Limits {
                connect: manners.connect,
                idle: passage.idle,
                half_close: passage.half_close,
            },
            splice: passage.splice,
            header: manners.header,
        }
    }
}

/// Whether a pair that ended so had something of its backend. An end in order is worth as much as
/// an answer where the client had something to say and wanted none.
fn was_served(entry: &Entry, reason: CloseReason) -> bool {
    let in_order = matches!(reason, CloseReason::ClientFinished | CloseReason::BackendFinished);
    let moved = |direction| entry.pair.bytes(direction) > 0;
    moved(Direction::ToClient) || (in_order && moved(Direction::ToBackend))
}

/// How much time a side that is to be reset has for what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Until all is sent, within limits.
    Long,
    /// None: it had its time.
    Short,
}

/// Clients taken from one socket in one turn.
const ACCEPTS: usize = 256;
/// Deadlines looked at in one turn.
const EXPIRIES: usize = 1024;
