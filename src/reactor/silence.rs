//! Backends that take a connection and say nothing: the time to their first byte, told to the pool.
//!
//! Only pairs of pools that want to know are watched, and only those that were asked have a timer.
//! An entry of the timers is a hint, as everywhere: its slot may have a new pair by now.

use super::Reactor;
use crate::pair::News;
use crate::pool::Fault;

impl Reactor {
    /// A backend was connected: have its answer noted, if its pool times that or the backend has
    /// reset connections lately.
    pub(super) fn watch_answer(&mut self, slot: usize) {
        let pool = self.pool_of(slot);
        let entry = self.pairs.get_mut(slot);
        let has_resets = |backend| self.pools[pool].has_resets(backend);
        if self.pools[pool].terms().wants_first_byte()
            || entry.backend.is_some_and(|choice| has_resets(choice.backend()))
        {
            entry.pair.watch();
        }
    }

    /// Tells the pool what a step has shown of a backend's answer.
    pub(super) fn note_answer(&mut self, slot: usize) {
        let now = self.now;
        let entry = self.pairs.get_mut(slot);
        let (Some(news), Some(choice)) = (entry.pair.news(now), entry.backend) else { return };
        let came = entry.opened;
        let pool = self.pool_of(slot);
        match news {
            News::Asked => {
                if let Some(patience) = self.pools[pool].terms().first_byte_timeout {
                    self.pairs.silences.arm(slot, now + patience);
                }
            }
            News::Answered(took) => {
                if self.pools[pool].has_resets(choice.backend()) {
                    self.pools[pool].served(choice.backend(), came);
                    self.room.encourage(pool);
                }
                let change = self.pools[pool].first_byte(choice.backend(), took, now);
                self.tell_change(pool, choice.backend(), change, "it answers again");
            }
        }
    }

    /// Looks at pairs whose backend may have been silent for too long.
    pub(super) fn expire_silence(&mut self) {
        while let Some(slot) = self.pairs.silences.pop_due(self.now) {
            let Some(entry) = self.pairs.find(slot) else { continue };
            let (Some(since), Some(choice)) = (entry.pair.unanswered_since(), entry.backend) else {
                continue;
            };
            let pool = self.pool_of(slot);
            let Some(patience) = self.pools[pool].terms().first_byte_timeout else { continue };
            if since + patience > self.now {
                self.pairs.silences.arm(slot, since + patience);
                continue;
            }
            let change = self.pools[pool].silent(choice.backend(), self.now);
            self.tell_change(pool, choice.backend(), change, &Fault::Silence.to_string());
        }
    }
}
