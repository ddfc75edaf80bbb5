//! The line: clients for whom there is no place or no backend now, where the plan lets them wait.

use evenkeel::pair::CloseReason;
use evenkeel::pool::waiting::{Room, Terms, Want};

use crate::plan::Plan;
use crate::world::World;

/// A room with one line.
pub(crate) fn room(plan: &Plan) -> Room {
    let mut room = Room::default();
    assert_eq!(room.add_line(Terms { place: plan.queue, backend: plan.hold }), 0);
    room
}

impl World {
    /// No backend was to be had: the client waits, or ends. True if it is to be stepped again.
    pub(crate) fn wait_or_end(&mut self, slot: usize, reason: CloseReason) -> bool {
        let want = if reason == CloseReason::QueueFull { Want::Place } else { Want::Backend };
        let entry = &self.pairs[slot];
        let longest = self.room.terms(0).longest();
        let had_its_time = longest.is_some_and(|longest| entry.opened + longest <= self.now);
        let may_wait = if entry.pair.was_connected() && had_its_time {
            false
        } else if !self.room.is_called(slot) {
            self.join_again(slot, want)
        } else if want == Want::Place || self.plan.hold.is_some() {
            self.room.put_back(slot, want, self.now);
            true
        } else {
            false
        };
        if !may_wait {
            self.end(slot, reason);
            return false;
        }
        if want == Want::Backend {
            self.pairs[slot].tried.clear();
            self.room.discourage(0, self.now);
        }
        self.begin_to_wait(slot);
        true
    }

    /// One that was connected to no purpose stands where it would if it had waited since it came.
    fn join_again(&mut self, slot: usize, want: Want) -> bool {
        let welcome = self.room.join(0, slot, want, self.now).is_ok();
        let entry = &mut self.pairs[slot];
        if welcome && entry.pair.was_connected() {
            entry.waiting = Some(entry.opened);
            self.room.backdate(slot, entry.opened);
        }
        welcome
    }

    /// Who comes while others wait goes behind them.
    pub(crate) fn stands_behind(&mut self, slot: usize) -> Result<bool, CloseReason> {
        let entry = &self.pairs[slot];
        let is_new = !self.room.is_called(slot) && entry.tried.is_empty();
        let Some(want) = self.room.want(0).filter(|_| is_new && entry.choice.is_none()) else {
            return Ok(false);
        };
        let welcome = self.room.join(0, slot, want, self.now).is_ok();
        if welcome {
            self.begin_to_wait(slot);
        } else if want == Want::Place {
            return Err(CloseReason::QueueFull);
        }
        Ok(welcome)
    }

    fn begin_to_wait(&mut self, slot: usize) {
        let entry = &mut self.pairs[slot];
        self.trace.say(|| format!("wait {}", entry.id));
        entry.pair.wait();
        entry.waiting.get_or_insert(self.now);
    }

    /// Some have waited enough, some can be tried again.
    pub(crate) fn attend(&mut self) {
        while let Some((slot, want)) = self.room.pop_expired(self.now) {
            let reason = match want {
                Want::Place => CloseReason::QueueTimeout,
                Want::Backend if self.plan.hold.is_some() => CloseReason::HoldTimeout,
                Want::Backend => CloseReason::NoBackend,
            };
            self.end(slot, reason);
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
