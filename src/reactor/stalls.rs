//! What connections wait for, charged to them and to their backends.
//!
//! A pair is charged when it takes a step after a tick has passed, and when it ends. One that takes
//! none is charged when somebody looks: as many of them as a turn can bear, each time going on
//! where the last look ended, so that counters of a backend that is stuck go on as time does.

use std::time::{Duration, Instant};

use super::Reactor;
use super::pairs::Entry;
use crate::measure::waits::TICKS;
use crate::measure::{Outlook, Wait};

/// The pairs that were looked at last.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Where the next look begins.
    slot: usize,
    last: Option<Instant>,
}

impl Reactor {
    /// What a pair has waited for since it was charged last, if a tick has passed.
    pub(super) fn uncharged(&self, slot: usize) -> Option<Outlook> {
        let entry = self.pairs.get(slot);
        (!entry.waits.is_charged(self.tick)).then(|| entry.pair.outlook())
    }

    /// Charges what a pair has waited for before a step, now that the step shows what it was;
    /// `before` is what it had moved then.
    pub(super) fn charge(&mut self, slot: usize, outlook: Outlook, before: (u64, u64)) {
        let (up, down) = self.moved(slot);
        let entry = self.pairs.get_mut(slot);
        let outlooks = (outlook, entry.pair.outlook());
        let charged = entry.waits.stepped(self.tick, outlooks, (up > before.0, down > before.1));
        self.note_wait(slot, charged);
    }

    /// Remembers who spoke first, if anybody has now: it tells whom the next one waits for.
    pub(super) fn note_first_word(&mut self, slot: usize) {
        let ((up, down), pool) = (self.moved(slot), self.pool_of(slot));
        if let Some(choice) = self.pairs.get(slot).backend.filter(|_| up + down > 0) {
            self.pools[pool].spoke_first(choice.backend(), up == 0);
        }
    }

    /// A pair is connected: whoever is expected to speak is waited for.
    pub(super) fn expect_first_word(&mut self, slot: usize) {
        let pool = self.pool_of(slot);
        let entry = self.pairs.get_mut(slot);
        if entry.backend.is_some_and(|choice| self.pools[pool].speaks_first(choice.backend())) {
            entry.pair.expect_backend();
        }
    }

    /// Charges what is left of a pair that ends.
    pub(super) fn charge_rest(&mut self, slot: usize) {
        let entry = self.pairs.get_mut(slot);
        let outlook = entry.pair.outlook();
        let charged = entry.waits.ended(self.tick, outlook);
        self.note_wait(slot, charged);
    }

    /// Charges pairs of which nothing is heard, as many as a turn can bear.
    pub(super) fn look_at_waits(&mut self) {
        if self.look.last.is_some_and(|last| self.now < last + BETWEEN_LOOKS) {
            return;
        }
        self.look.last = Some(self.now);
        let slots = self.pairs.highest();
        for _ in 0..slots.min(LOOKED_AT) {
            let slot = if self.look.slot < slots { self.look.slot } else { 0 };
            self.look.slot = slot + 1;
            if self.pairs.find(slot).is_some() {
                self.look_at_wait(slot);
            }
        }
    }

    /// Charges a pair of which nothing is heard, or that is about to give something up.
    pub(super) fn look_at_wait(&mut self, slot: usize) {
        let entry = self.pairs.get_mut(slot);
        let charged = entry.waits.looked_at(self.tick, entry.pair.outlook());
        self.note_wait(slot, charged);
    }

    fn note_wait(&mut self, slot: usize, charged: Option<(Wait, u32)>) {
        if let Some((wait, ticks)) = charged {
            let pool = self.pool_of(slot);
            let Entry { backend, .. } = self.pairs.get(slot);
            self.pools[pool].waited(backend.map(|choice| choice.backend()), wait, ticks);
        }
    }
}

/// An instant in ticks since the start, which begin anew after 49 days.
#[expect(clippy::cast_possible_truncation, reason = "ticks begin anew")]
pub(super) fn tick(started: Instant, now: Instant) -> u32 {
    ticks(started, now) as u32
}

/// How long something lasted, in ticks that passed.
pub(super) fn life(started: Instant, opened: Instant, now: Instant) -> u64 {
    ticks(started, now) - ticks(started, opened)
}

fn ticks(started: Instant, now: Instant) -> u64 {
    let since = now.saturating_duration_since(started);
    since.as_secs() * u64::from(TICKS) + u64::from(since.subsec_millis())
}

/// Pairs looked at in one turn.
const LOOKED_AT: usize = 4096;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
