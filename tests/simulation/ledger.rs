//! What the reactor does about time: charges every tick of a pair's life to what it waited for.
//!
//! Whenever a pair ends, all that it was charged with must be as long as it lived.

use evenkeel::measure::{Outlook, Wait, WaitTotals, Waits};
use evenkeel::pair::Direction;

use crate::world::Entry;

/// What a pair was charged with, written down twice.
#[derive(Debug)]
pub(crate) struct Ledger {
    waits: Waits,
    charged: WaitTotals,
    begun: u32,
    before: (Outlook, [u64; 2]),
}

impl Ledger {
    pub(crate) fn new(tick: u32) -> Self {
        Self {
            waits: Waits::new(tick),
            charged: WaitTotals::default(),
            begun: tick,
            before: (Outlook::Sure(Wait::Queue), [0; 2]),
        }
    }

    fn note(&mut self, charged: Option<(Wait, u32)>) {
        if let Some((wait, ticks)) = charged {
            self.charged.add(wait, ticks.into());
        }
    }
}

impl Entry {
    pub(crate) fn before_step(&mut self) {
        self.ledger.before = (self.pair.outlook(), self.bytes());
    }

    pub(crate) fn after_step(&mut self, tick: u32) {
        if self.ledger.waits.is_charged(tick) {
            return;
        }
        let (outlook, [up, down]) = self.ledger.before;
        let (after, [all_up, all_down]) = (self.pair.outlook(), self.bytes());
        let moved = (all_up > up, all_down > down);
        let charged = self.ledger.waits.stepped(tick, (outlook, after), moved);
        self.ledger.note(charged);
    }

    pub(crate) fn look(&mut self, tick: u32) {
        let outlook = self.pair.outlook();
        let charged = self.ledger.waits.looked_at(tick, outlook);
        self.ledger.note(charged);
    }

    pub(crate) fn charge_rest(&mut self, tick: u32) {
        let outlook = self.pair.outlook();
        let charged = self.ledger.waits.ended(tick, outlook);
        self.ledger.note(charged);
        let life = u64::from(tick - self.ledger.begun);
        assert_eq!(self.ledger.waits.totals(life), self.ledger.charged, "pair {}", self.id);
        let sum: u64 = Wait::ALL.into_iter().map(|wait| self.ledger.charged.of(wait)).sum();
        assert_eq!(sum, life, "pair {}: the parts of its life are not the whole", self.id);
    }

    fn bytes(&self) -> [u64; 2] {
        [Direction::ToBackend, Direction::ToClient].map(|direction| self.pair.bytes(direction))
    }
}
