//! The line: clients for whom there is no backend now, where the plan lets them wait.

use std::time::Duration;

use evenkeel::pair::CloseReason;
use evenkeel::pool::waiting::{Allowance, Room, Terms, Want};

use crate::plan::Plan;
use crate::world::World;

/// A room with one line.
pub(crate) fn room(plan: &Plan) -> Room {
    let mut room = Room::default();
    let place = Allowance { most: 0, time: Some(Duration::ZERO) };
    assert_eq!(room.add_line(Terms { place, backend: plan.hold }), 0);
    room
}

impl World {
    /// No backend was to be had: the client waits, or ends. True if it is to be stepped again.
    pub(crate) fn wait_or_end(&mut self, slot: usize, reason: CloseReason) -> bool {
        let entry = &self.pairs[slot];
        let longest = self.room.terms(0).longest();
        let had_its_time = longest.is_some_and(|longest| entry.opened + longest <= self.now);
        let may_wait = if entry.pair.was_connected() && had_its_time {
            false
        } else if self.room.is_called(slot) {
            self.room.put_back(slot, Want::Backend, self.now);
            true
        } else {
            self.room.join(0, slot, Want::Backend, self.now).is_ok()
        };
        if !may_wait {
            self.end(slot, reason);
            return false;
        }
        self.room.discourage(0, self.now);
        self.begin_to_wait(slot);
        true
    }

    /// Who comes while others wait goes behind them, unless the line is full.
    pub(crate) fn stands_behind(&mut self, slot: usize) -> bool {
        let is_new = !self.room.is_called(slot) && self.pairs[slot].tried.is_empty();
        let waits = is_new
            && self.pairs[slot].choice.is_none()
            && self.room.want(0).is_some()
            && self.room.join(0, slot, Want::Backend, self.now).is_ok();
        if waits {
            self.begin_to_wait(slot);
        }
        waits
    }

    fn begin_to_wait(&mut self, slot: usize) {
        let entry = &mut self.pairs[slot];
        self.trace.say(|| format!("wait {}", entry.id));
        entry.pair.wait();
        entry.tried.clear();
        entry.waiting.get_or_insert(self.now);
    }

    /// Some have waited enough, some can be tried again.
    pub(crate) fn attend(&mut self) {
        while let Some((slot, want)) = self.room.pop_expired(self.now) {
            assert_eq!(want, Want::Backend, "nobody waits for a place here");
            self.end(slot, CloseReason::HoldTimeout);
        }
        while let Some(slot) = self.room.call(0, self.now) {
            self.trace.say(|| format!("call {}", self.pairs[slot].id));
            self.pairs[slot].pair.resume();
            self.step(slot);
            if self.room.is_standing(slot) {
                break;
            }
        }
    }
}
