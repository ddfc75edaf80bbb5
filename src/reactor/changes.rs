//! What the operator changes while everything runs.
//!
//! A change holds before the next client is given to anybody, and is told in the log with who asked
//! for it, also when it comes to nothing. Connections that stand are never touched, nor are those
//! being made: they end when they end. Any change is done that was asked for, even one that leaves
//! a pool without a backend; its clients then fare as `on_unavailable` says, and the answer tells.

use super::report::BackendName;
use super::{Reactor, polls};
use crate::admin::change::{WantedState, Wishes};
use crate::admin::{
    Addition, Balancer, Change, Changed, Figures, Health, Overview, Plan, Proposal, Refused,
    Removal, Spot, snapshot,
};
use crate::pool::admin::Admin;

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

    fn change(&mut self, change: &Change, client: &str) -> Result<Changed, Refused> {
        let (pool, backend) = self.find(change)?;
        let Wishes { weight, state } = change.wishes;
        if let Some(weight) = weight {
            self.note(pool, backend, &format!("weight {weight}"), client);
            let change = self.pools[pool].set_weight(backend, weight, self.now);
            self.tell_change(pool, backend, change, "by the operator");
        }
        if let Some(state) = state {
            let wanted = wanted(state);
            self.note(pool, backend, &format!("state {wanted}"), client);
            let change = self.pools[pool].set_state(backend, wanted, self.now);
            self.tell_change(pool, backend, change, "by the operator");
            // One that leaves maintenance was not probed for a while.
            self.prober.hurry(polls::User::health(pool, backend), self.now);
        }
        self.tell_availability();
        let pool = &self.pools[pool];
        Ok(Changed {
            pool: pool.name().to_owned(),
            pool_available: pool.is_available(),
            backend: self.backend_view(pool, backend),
        })
    }

    fn add(&mut self, addition: &Addition, client: &str) -> Result<Changed, Refused> {
        self.add_backend(addition, client)
    }

    fn remove(&mut self, removal: &Removal, client: &str) -> Result<Changed, Refused> {
        self.remove_backend(removal, client)
    }

    fn reload(&mut self, client: &str) -> Result<Plan, Refused> {
        self.reload_file(client)
    }

    fn plan(&self, proposal: Option<&Proposal>) -> Result<Plan, Refused> {
        self.plan_for(proposal)
    }
}

impl Reactor {
    fn find(&self, change: &Change) -> Result<(usize, usize), Refused> {
        let Change { pool: asked, address, .. } = change;
        let mut pools = self.places.pools.iter().copied();
        let Some(index) = pools.find(|&pool| self.pools[pool].name() == asked) else {
            let names = self.places.pools.iter().map(|&pool| self.pools[pool].name());
            return Err(Refused::no_pool(asked, names));
        };
        let pool = &self.pools[index];
        match pool.find(address).filter(|&backend| !pool.backend(backend).is_removed()) {
            Some(backend) => Ok((index, backend)),
            None => {
                let labels = pool.order().iter().map(|&index| pool.backend(index).label());
                Err(Refused::no_backend(asked, address, labels))
            }
        }
    }

    fn note(&mut self, pool: usize, backend: usize, what: &str, client: &str) {
        let name = BackendName(&self.pools[pool], backend);
        self.news.info(self.now, format_args!("Admin client {client} asks for {what} of {name}"));
    }
}

fn wanted(state: WantedState) -> Admin {
    match state {
        WantedState::Ready => Admin::Ready,
        WantedState::Draining => Admin::Draining,
        WantedState::Maintenance => Admin::Maintenance,
    }
}
