//! Changes that keys ask for.

use super::{Act, Order, Top};
use crate::admin::Change;
use crate::admin::change::{MOST_WEIGHT, WantedState, Wishes};
use crate::admin::snapshot::Backend;

impl Top {
    /// What the chosen backend is to be used for.
    pub(super) fn ask_for(&mut self, state: WantedState) -> Act {
        self.ask(|_| Wishes { weight: None, state: Some(state) })
    }

    /// The weight shown moves at once, so that a key pressed again counts on.
    pub(super) fn ask_for_weight(&mut self, by: i32) -> Act {
        let mut wanted = 0;
        let act = self.ask(|backend| {
            let weight = i32::from(backend.weight).saturating_add(by);
            wanted = u16::try_from(weight.max(0)).unwrap_or(MOST_WEIGHT).min(MOST_WEIGHT);
            Wishes { weight: Some(wanted), state: None }
        });
        if let Act::Ask(Order::Change(change)) = &act {
            self.weight = Some((change.pool.clone(), change.address.clone(), wanted));
            self.show_weight();
        }
        act
    }

    /// A status may be from before the change.
    pub(super) fn show_weight(&mut self) {
        if let Some((pool, address, weight)) = self.weight.clone()
            && let Some(backend) = self.find(&pool, &address)
        {
            backend.weight = weight;
        }
    }

    /// A change is under way no more, one way or the other.
    pub(super) fn answered(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.under_way == 0 {
            self.weight = None;
        } else {
            self.show_weight();
        }
    }

    fn ask(&mut self, wishes: impl FnOnce(&Backend) -> Wishes) -> Act {
        let rows = self.rows();
        let Some(row) = rows.get(self.chosen(&rows)) else { return Act::Show };
        let (pool, address) = (row.pool.name.clone(), row.backend.address.clone());
        let wishes = wishes(row.backend);
        // The row stays chosen, wherever its new state may sort it to.
        self.selected = Some((pool.clone(), address.clone()));
        self.under_way += 1;
        Act::Ask(Order::Change(Change { pool, address, wishes }))
    }
}
