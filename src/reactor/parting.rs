//! Sockets whose pair has ended by a reset, and that still have bytes to send.
//!
//! A reset throws away what the kernel has not sent yet. Bytes that were already passed on are to
//! be delivered first if they can be, so such a socket waits here until its send queue is out, or
//! for [`PATIENCE`] at most, and is then closed with a reset.

use std::time::{Duration, Instant};

use mio::Registry;
use slab::Slab;

use super::socket::Socket;
use super::token::Source;
use crate::pair::endpoint::Ready;
use crate::timers::Timers;

/// The sockets on their way out.
#[derive(Debug, Default)]
pub(super) struct Parting {
    sockets: Slab<Leaving>,
    marked: Vec<usize>,
    timers: Timers,
}

impl Parting {
    /// Resets a socket as soon as all it was given is sent.
    pub(super) fn reset(&mut self, mut socket: Socket, registry: &Registry, now: Instant) {
        if socket.report_when_sent() {
            socket.reset_on_close();
            return;
        }
        let entry = self.sockets.vacant_entry();
        let slot = entry.key();
        if socket.reregister(registry, Source::Parting(slot).into()).is_err() {
            socket.reset_on_close();
            return;
        }
        let deadline = now + PATIENCE;
        entry.insert(Leaving { socket, deadline });
        self.timers.arm(slot, deadline);
    }

    /// Notes that a socket has sent everything, or is broken.
    pub(super) fn mark(&mut self, slot: usize, ready: Ready) {
        if ready.has(Ready::WRITABLE) {
            self.marked.push(slot);
        }
    }

    /// Closes those that have sent everything or waited long enough.
    pub(super) fn settle(&mut self, now: Instant) {
        for slot in std::mem::take(&mut self.marked) {
            self.close(slot);
        }
        while let Some(slot) = self.timers.pop_due(now) {
            match self.sockets.get(slot).map(|leaving| leaving.deadline) {
                Some(deadline) if deadline > now => self.timers.arm(slot, deadline),
                Some(_) => self.close(slot),
                None => {}
            }
        }
    }

    /// Resets them all at once.
    pub(super) fn clear(&mut self) {
        for leaving in self.sockets.drain() {
            leaving.socket.reset_on_close();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.timers.next().filter(|_| !self.sockets.is_empty())
    }

    fn close(&mut self, slot: usize) {
        if let Some(leaving) = self.sockets.try_remove(slot) {
            leaving.socket.reset_on_close();
        }
    }
}

#[derive(Debug)]
struct Leaving {
    socket: Socket,
    deadline: Instant,
}

/// How long a reset may wait for bytes to be sent.
const PATIENCE: Duration = Duration::from_secs(5);
