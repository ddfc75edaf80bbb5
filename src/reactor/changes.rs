//! What the operator changes while everything runs.
//!
//! A change holds before the next client is given to anybody, and is told in the log with who asked
//! for it, also when it comes to nothing. Connections that stand are never touched, nor are those
//! being made: they end when they end. Any change is done that was asked for, even one that leaves
//! a pool without a backend; its clients then fare as `on_unavailable` says, and the answer tells.

use super::membership::admin;
use super::report::BackendName;
use super::{Reactor, polls};
use crate::admin::change::{WantedState, Wishes};
use crate::admin::explain::{Explanation, Riddle};
use crate::admin::sessions::{Cut, Sessions, Which};
use crate::admin::{
    Addition, Balancer, Change, Changed, Figures, Health, Overview, Plan, Proposal, Refused,
    Removal, Spot, snapshot,
};
use crate::config::{BackendAddress, Wanted};

impl Balancer for Reactor {
    fn overview(&self) -> Overview {
        self.overall_view()
    }

    fn backend(&self, spot: Spot) -> Option<(String, snapshot::Backend)> {
        let pool = self.pools.get(spot.pool)?;
        pool.get(spot.backend)?;
        Some((pool.name().to_owned(), self.backend_view(pool, spot.backend)))
    }

    fn figures(&self, spot: Spot) -> Option<Figures<'_>> {
        self.figures_view(spot)
    }

    fn health(&self) -> Health {
        self.health_view()
    }

    fn look(&self, pool: &str, address: &str) -> Result<Changed, Refused> {
        let pool = self.pool_asked_for(Some(pool))?;
        let found = self.pools[pool].find(address);
        let index = found.map_or_else(|| self.backend_asked_for(pool, address), Ok)?;
        Ok(self.changed(pool, index))
    }

    fn change(&mut self, change: &Change, client: &str) -> Result<Changed, Refused> {
        let pool = self.pool_asked_for(Some(&change.pool))?;
        let backend = self.backend_asked_for(pool, &change.address)?;
        let Wishes { weight, state } = change.wishes;
        if let Some(weight) = weight {
            self.note(pool, backend, &format!("weight {weight}"), client);
            let change = self.pools[pool].set_weight(backend, weight, self.now);
            self.tell_change(pool, backend, change, "by the operator");
        }
        if let Some(state) = state {
            self.note(pool, backend, &format!("state {}", admin(state.into())), client);
            let change = self.pools[pool].set_state(backend, admin(state.into()), self.now);
            self.tell_change(pool, backend, change, "by the operator");
            // One that leaves maintenance was not probed for a while.
            self.prober.hurry(polls::User::health(pool, backend), self.now);
        }
        self.remember(change);
        self.tell_availability();
        Ok(self.changed(pool, backend))
    }

    fn add(&mut self, addition: &Addition, client: &str) -> Result<Changed, Refused> {
        self.add_backend(addition, client)
    }

    fn remove(&mut self, removal: &Removal, client: &str) -> Result<Changed, Refused> {
        self.remove_backend(removal, client)
    }

    fn reload(&mut self, client: &str) -> Result<Plan, Refused> {
        self.reload_file(&format!("Admin client {client}"))
    }

    fn plan(&self, proposal: Option<&Proposal>) -> Result<Plan, Refused> {
        self.plan_for(proposal)
    }

    fn explain(&self, riddle: &Riddle) -> Result<Explanation, Refused> {
        self.solve(riddle)
    }

    fn sessions(&self, which: &Which) -> Result<Sessions, Refused> {
        self.list(which)
    }

    fn cut_session(&mut self, id: u64, client: &str) -> Result<Cut, Refused> {
        self.cut_one(id, client)
    }
}

impl Reactor {
    /// Keeps what is wanted over a reload.
    fn remember(&mut self, change: &Change) {
        let Ok(address) = change.address.parse::<BackendAddress>() else { return };
        let Wishes { weight, state } = change.wishes;
        if let Some(weight) = weight {
            self.amendments.set_weight(&change.pool, &address, weight);
        }
        if let Some(state) = state {
            self.amendments.set_state(&change.pool, &address, state.into());
        }
        self.amended();
    }

    fn note(&mut self, pool: usize, backend: usize, what: &str, client: &str) {
        let name = BackendName(&self.pools[pool], backend);
        self.news.info(self.now, format_args!("Admin client {client} asks for {what} of {name}"));
    }
}

impl From<WantedState> for Wanted {
    fn from(state: WantedState) -> Self {
        match state {
            WantedState::Ready => Self::Ready,
            WantedState::Draining => Self::Draining,
            WantedState::Maintenance => Self::Maintenance,
        }
    }
}
