//! Backends that come and go while everything runs.
//!
//! What the operator has changed lies on top of what the file says, and is kept when that is read
//! again. The configuration that runs is always the one with the other applied.

use std::collections::HashMap;

use super::Reactor;
use super::report::BackendName;
use crate::admin::{Addition, Changed, Refused, Removal};
use crate::config::{self, BackendAddress, Wanted};
use crate::http::reply::Status;
use crate::pool::admin::Admin;

impl Reactor {
    pub(super) fn add_backend(
        &mut self,
        addition: &Addition,
        client: &str,
    ) -> Result<Changed, Refused> {
        self.check_running()?;
        let pool = self.pool_asked_for(addition.pool.as_deref())?;
        let backend = &addition.backend;
        let (name, label) = (self.pools[pool].name().to_owned(), backend.address.to_string());
        if let Some(configured) = self.config.pools.iter().find(|pool| pool.name == name) {
            self.config.check_addition(configured, backend)?;
        }
        let line = format_args!("Admin client {client} adds {name}/{label}");
        self.news.info(self.now, line);
        self.amendments.add(&name, backend.clone());
        self.amended();
        // One that the file has comes back as it is there.
        let backend = self.configured(&name, &backend.address).unwrap_or(backend).clone();
        let index = match self.pools[pool].find(&backend.address.to_string()) {
            Some(index) => {
                self.revise_backend(pool, index, &backend, true);
                self.pools[pool].set_state(index, Admin::Ready, self.now);
                index
            }
            None => self.bring_in(pool, &backend),
        };
        self.arrange(pool);
        self.room.encourage(pool);
        self.settle_limits();
        self.tell_availability();
        Ok(self.changed(pool, index))
    }

    pub(super) fn remove_backend(
        &mut self,
        removal: &Removal,
        client: &str,
    ) -> Result<Changed, Refused> {
        self.check_running()?;
        let pool = self.pool_asked_for(removal.pool.as_deref())?;
        let index = self.backend_asked_for(pool, &removal.address)?;
        let (name, label) = (self.pools[pool].name().to_owned(), removal.address.clone());
        let line = format!(
            "Admin client {client} removes {}; its {} connections go on",
            BackendName(&self.pools[pool], index),
            self.pools[pool].backend(index).counters().active
        );
        self.news.info(self.now, line);
        if let Ok(address) = label.parse::<BackendAddress>() {
            self.amendments.remove(&name, &address);
        }
        self.amended();
        self.take_out(pool, &[index]);
        self.tell_availability();
        Ok(self.changed(pool, index))
    }

    /// What runs is now what the file says with what was changed on top.
    pub(super) fn amended(&mut self) {
        self.amendments.settle(&self.base);
        self.config = self.amendments.apply(&self.base);
        self.keeper.keep(&self.amendments);
    }

    /// Puts the backends of a pool into the states that the operator wants.
    pub(super) fn take_wishes(&mut self) {
        for (at, &pool) in self.places.pools.iter().enumerate() {
            let wishes = self.amendments.wishes(&self.config.pools[at]);
            for (index, wanted) in self.pools[pool].order().to_vec().into_iter().zip(wishes) {
                self.pools[pool].set_state(index, admin(wanted), self.now);
            }
        }
    }

    /// The number of the pool of this name, or of the only one.
    pub(super) fn pool_asked_for(&self, name: Option<&str>) -> Result<usize, Refused> {
        let names = self.places.pools.iter().map(|&pool| self.pools[pool].name());
        Refused::unless_pool(name, names).map(|at| self.places.pools[at])
    }

    /// The index of a backend that is in the list of its pool.
    pub(super) fn backend_asked_for(&self, pool: usize, label: &str) -> Result<usize, Refused> {
        let pool = &self.pools[pool];
        pool.find(label).filter(|&index| !pool.backend(index).is_removed()).ok_or_else(|| {
            let labels = pool.order().iter().map(|&index| pool.backend(index).label());
            Refused::no_backend(pool.name(), label, labels)
        })
    }

    /// A change that could not come to anything any more is refused.
    pub(super) fn check_running(&self) -> Result<(), Refused> {
        if self.lifecycle.is_running() {
            return Ok(());
        }
        let message = "the balancer is about to end, and changes nothing any more";
        Err(Refused::new(Status::CONFLICT, message))
    }

    /// What has become of a backend.
    pub(super) fn changed(&self, pool: usize, index: usize) -> Changed {
        let pool = &self.pools[pool];
        Changed {
            pool: pool.name().to_owned(),
            pool_available: pool.is_available(),
            backend: self.backend_view(pool, index),
        }
    }

    /// A backend as it is configured.
    fn configured(&self, pool: &str, address: &BackendAddress) -> Option<&config::Backend> {
        let pool = self.config.pools.iter().find(|configured| configured.name == pool)?;
        pool.backends.iter().find(|backend| backend.address.is_same(address))
    }

    /// Gives the list of a pool the order of its configuration.
    fn arrange(&mut self, pool: usize) {
        let at = self.places.pools.iter().position(|&number| number == pool);
        let Some(configured) = at.map(|at| &self.config.pools[at]) else { return };
        let by_label: HashMap<&str, usize> = {
            let listed = self.pools[pool].order().iter();
            listed.map(|&index| (self.pools[pool].backend(index).label(), index)).collect()
        };
        let label = |backend: &config::Backend| backend.address.to_string();
        let place = |backend| by_label.get(label(backend).as_str()).copied();
        let order = configured.backends.iter().filter_map(place).collect();
        self.pools[pool].arrange(order);
    }
}

/// The same in the words of a pool.
pub(super) fn admin(wanted: Wanted) -> Admin {
    match wanted {
        Wanted::Ready => Admin::Ready,
        Wanted::Draining => Admin::Draining,
        Wanted::Maintenance => Admin::Maintenance,
    }
}
