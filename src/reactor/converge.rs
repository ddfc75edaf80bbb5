//! From what runs to what is configured, without touching what is the same in both.
//!
//! The start is the same thing, from nothing. First everything is done that can fail, so that a
//! configuration that cannot be had changes nothing. Listeners, pools and backends are known by
//! their names. What is not configured any more takes nothing new and stays until its last
//! connection has ended; if it is configured again before that, it goes on as what it was.

use std::collections::{HashMap, HashSet};

use super::doorways::Place;
use super::gate;
use super::listener::Listening;
use super::manners::Manners;
use super::resolver::User;
use super::{Listener, Passage, Reactor, Service, StartError, polls, start, terms};
use crate::config::{self, BackendAddress, BindAddress, Config};
use crate::edge::gate::Gate;
use crate::pair::Phase;
use crate::pool::backend::Target;
use crate::pool::{Pool, waiting};

/// Where the listeners and the pools of a configuration are, in its order.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) listeners: Vec<usize>,
    pub(super) pools: Vec<usize>,
}

/// Sockets that are new in a configuration, by the number of its listener.
type Fresh = Vec<(usize, Place, Vec<Listening>)>;

impl Reactor {
    /// Makes the running state what `config` says.
    ///
    /// # Errors
    /// An address that cannot be bound; nothing has changed then.
    pub(super) fn converge(&mut self, config: Config) -> Result<(), StartError> {
        self.check_room(&config)?;
        let fresh = self.bind(&config)?;
        let before: HashSet<usize> = self.places.pools.iter().copied().collect();
        let pools: Vec<usize> = config.pools.iter().map(|pool| self.take_pool(pool)).collect();
        for number in before.into_iter().filter(|number| !pools.contains(number)) {
            self.manners[number].retired = true;
            self.decisions.retire(self.pools[number].name());
        }
        self.is_tidy = false;
        let before = std::mem::take(&mut self.places.listeners);
        let take = |reactor: &mut Self, listener: &config::Listener| {
            reactor.take_listener(listener, pools[listener.pool])
        };
        let listeners: Vec<usize> = config.listeners.iter().map(|l| take(self, l)).collect();
        for number in before.into_iter().filter(|number| !listeners.contains(number)) {
            self.listeners[number].retired = true;
            self.decisions.retire(&self.listeners[number].name);
        }
        self.places = Places { listeners, pools };
        self.take_doorways(&config);
        self.open(fresh).map_err(StartError::System)?;
        self.config = config;
        Ok(())
    }

    /// Listeners and pools have numbers, which those that are going keep until they are gone.
    fn check_room(&self, config: &Config) -> Result<(), StartError> {
        let listeners = self.listeners.len() + config.listeners.len();
        let pools = self.pools.len() + config.pools.len();
        if listeners.max(pools) <= MOST_NUMBERS {
            return Ok(());
        }
        let message = "too many listeners and pools that were taken away still have connections; \
                       wait until some have ended";
        Err(StartError::System(std::io::Error::other(message)))
    }

    /// Binds the addresses that are not bound yet.
    fn bind(&self, config: &Config) -> Result<Fresh, StartError> {
        let mut fresh = Vec::new();
        for (number, listener) in config.listeners.iter().enumerate() {
            for place in Place::all(&listener.bind) {
                if self.doorways_at(&listener.name, &place).next().is_some() {
                    continue;
                }
                let address = &place.address;
                let sockets = Listening::bind(address, listener.backlog, listener.reuse_port)
                    .map_err(|error| self.cannot_bind(address, error))?;
                fresh.push((number, place, sockets));
            }
        }
        Ok(fresh)
    }

    /// An address in use may be in use here.
    fn cannot_bind(&self, address: &BindAddress, error: std::io::Error) -> StartError {
        let mut places = self.doorways.iter().filter_map(|doorway| doorway.place.as_ref());
        match places.find(|own| own.address.clashes_with(address)) {
            Some(own) if error.kind() == std::io::ErrorKind::AddrInUse => {
                StartError::Overlap { address: address.to_string(), own: own.address.to_string() }
            }
            Some(_) | None => StartError::bind(address, error, start::BIND),
        }
    }

    /// The doorways that serve as those of this listener at this place.
    fn doorways_at(&self, listener: &str, place: &Place) -> impl Iterator<Item = usize> {
        let serves = move |number: &usize| {
            self.doorways.get(*number).is_some_and(|doorway| {
                let own = self.listeners[doorway.listener].name == listener;
                doorway.place.as_ref() == Some(place) && (own || !place.is_any_port())
            })
        };
        (0..self.doorways.count()).filter(serves)
    }

    /// Gives every doorway to the listener that it belongs to now, and closes those of nobody.
    fn take_doorways(&mut self, config: &Config) {
        let mut kept = HashSet::new();
        for (at, listener) in config.listeners.iter().enumerate() {
            for place in Place::all(&listener.bind) {
                let numbers: Vec<usize> = self.doorways_at(&listener.name, &place).collect();
                for number in numbers {
                    kept.insert(number);
                    let Some(doorway) = self.doorways.get_mut(number) else { continue };
                    doorway.listener = self.places.listeners[at];
                    doorway.closing = None;
                    if let Err(error) = doorway.acceptor.set_backlog(listener.backlog) {
                        log::warn!("cannot set the backlog of {}: {error}", place.address);
                    }
                }
            }
        }
        for number in (0..self.doorways.count()).filter(|number| !kept.contains(number)) {
            if let Some(doorway) = self.doorways.get_mut(number) {
                doorway.begin_to_close(self.now);
            }
        }
    }

    /// Opens new doorways and says so.
    fn open(&mut self, fresh: Fresh) -> std::io::Result<()> {
        for (at, place, sockets) in fresh {
            let number = self.places.listeners[at];
            for socket in sockets {
                let place = Some(place.clone());
                let door = self.doorways.open(number, place, socket, self.poll.registry())?;
                let Some(doorway) = self.doorways.get(door) else { continue };
                let listener = &self.listeners[number];
                if let Service::Balance(Passage { pool, .. }) = &listener.service {
                    log::info!(
                        "listening on {} (listener {} -> pool {})",
                        doorway.acceptor.address(),
                        listener.name,
                        self.pools[*pool].name()
                    );
                }
            }
        }
        Ok(())
    }

    /// The number of a listener, which is as configured from now on.
    fn take_listener(&mut self, config: &config::Listener, pool: usize) -> usize {
        let service = Service::Balance(Passage {
            pool,
            idle: config.idle_timeout,
            half_close: config.half_close_timeout,
            splice: config.splice,
        });
        let (rules, now) = (gate::rules(config), self.now);
        let number = match self.listeners.iter().position(|l| l.name == config.name) {
            Some(number) => {
                let inside = self.pairs.iter().map(|(_, entry)| entry).filter(|entry| {
                    entry.listener() == number && entry.pair.phase() != Phase::Greeting
                });
                let clients = inside.filter_map(|entry| entry.client.ip());
                self.listeners[number].gate.revise(rules, clients, now);
                self.listeners[number].service = service;
                number
            }
            None => {
                let mut listener = Listener::new(&config.name, service);
                listener.gate = Gate::new(rules, now);
                self.add_listener(listener)
            }
        };
        let listener = &mut self.listeners[number];
        listener.most = config.max_connections.unwrap_or(usize::MAX);
        listener.retired = false;
        number
    }

    fn add_listener(&mut self, listener: Listener) -> usize {
        let is_free = |listener: &Listener| listener.retired && listener.active == 0;
        // A doorway that is not closed yet may let somebody in.
        let is_left = |number: &usize| self.doorways.iter().all(|door| door.listener != *number);
        let mut free = (0..self.listeners.len()).filter(|&at| is_free(&self.listeners[at]));
        match free.find(is_left) {
            Some(number) => {
                let before = std::mem::replace(&mut self.listeners[number], listener);
                self.former.add(before.counts);
                number
            }
            None => {
                self.listeners.push(listener);
                self.listeners.len() - 1
            }
        }
    }

    /// The number of a pool, which is as configured from now on.
    fn take_pool(&mut self, config: &config::Pool) -> usize {
        match self.pools.iter().position(|pool| pool.name() == config.name) {
            Some(number) => {
                self.revise_pool(number, config);
                number
            }
            None => self.add_pool(config),
        }
    }

    fn add_pool(&mut self, config: &config::Pool) -> usize {
        let backends = config.backends.iter().map(|b| terms::backend(b, &config.health)).collect();
        let pool = Pool::new(terms::of_pool(config, start::seed()), backends, self.now);
        let (manners, line) = (Manners::new(config), terms::of_line(config));
        let is_free = |number: &usize| {
            self.manners[*number].is_over() && self.pools[*number].order().is_empty()
        };
        let number = match (0..self.pools.len()).find(is_free) {
            Some(number) => {
                self.pools[number] = pool;
                self.manners[number] = manners;
                self.room.reset_line(number, line);
                self.line_notes.reset_pool(number);
                number
            }
            None => {
                self.pools.push(pool);
                self.manners.push(manners);
                self.room.add_line(line);
                self.line_notes.add_pool();
                self.pools.len() - 1
            }
        };
        for (backend, configured) in config.backends.iter().enumerate() {
            self.attend_to(number, backend, configured);
        }
        number
    }

    fn revise_pool(&mut self, number: usize, config: &config::Pool) {
        let asks_anew = self.manners[number].revise(config);
        let seed = self.pools[number].terms().seed;
        self.pools[number].set_terms(terms::of_pool(config, seed), self.now);
        self.room.set_terms(number, terms::of_line(config));
        let pool = &self.pools[number];
        let label = |(index, backend): (usize, &crate::pool::backend::Backend)| {
            (backend.label().to_owned(), index)
        };
        let mut known: HashMap<String, usize> = pool.backends().map(label).collect();
        let mut order = Vec::with_capacity(config.backends.len());
        for configured in &config.backends {
            order.push(match known.remove(&configured.address.to_string()) {
                Some(index) => {
                    self.revise_backend(number, index, configured, asks_anew);
                    index
                }
                None => self.bring_in(number, configured),
            });
        }
        let others: Vec<usize> = known.into_values().collect();
        self.take_out(number, &others);
        self.pools[number].arrange(order);
        self.room.encourage(number);
    }

    pub(super) fn revise_backend(
        &mut self,
        pool: usize,
        index: usize,
        configured: &config::Backend,
        asks_anew: bool,
    ) {
        let came_back = self.pools[pool].backend(index).is_removed();
        if came_back {
            self.pools[pool].restore(index, self.now);
        }
        let change = self.pools[pool].set_weight(index, configured.weight, self.now);
        self.tell_change(pool, index, change, "as configured");
        let (most, backup) = (configured.max_connections, configured.backup);
        self.pools[pool].revise(index, most, backup, self.now);
        if came_back || asks_anew {
            self.end_attention(pool, index);
            self.attend_to(pool, index, configured);
        }
    }

    /// Adds a backend behind the others of its pool.
    pub(super) fn bring_in(&mut self, pool: usize, configured: &config::Backend) -> usize {
        let backend = terms::backend(configured, &self.manners[pool].health);
        let index = self.pools[pool].add(backend, self.now);
        self.attend_to(pool, index, configured);
        index
    }

    /// Takes backends out of their pool, those that were not before; their connections go on.
    pub(super) fn take_out(&mut self, pool: usize, indices: &[usize]) {
        let is_listed = |index: &usize| !self.pools[pool].backend(*index).is_removed();
        let leaving: Vec<usize> = indices.iter().copied().filter(is_listed).collect();
        self.pools[pool].remove(&leaving, self.now);
        for index in leaving {
            self.end_attention(pool, index);
            self.decisions.retire(self.pools[pool].backend(index).label());
        }
    }

    /// Finds out where a backend is, and how it is.
    fn attend_to(&mut self, pool: usize, backend: usize, configured: &config::Backend) {
        let target = match &configured.address {
            BackendAddress::Inet(address) => Some(Target::Inet(*address)),
            BackendAddress::Unix(path) => Some(Target::Unix(path.clone())),
            BackendAddress::Name { host, port } => {
                self.resolver.watch(host, *port, User::Backend { pool, backend });
                None
            }
        };
        if let Some(target) = target {
            self.pools[pool].relocate(backend, vec![target], self.now);
        }
        let user = polls::User::health(pool, backend);
        let Manners { health, header, .. } = &self.manners[pool];
        let (health, header) = (health.clone(), *header);
        self.poll(user, &configured.address, &health, header);
    }

    fn end_attention(&mut self, pool: usize, backend: usize) {
        self.end_polls(pool, backend);
        self.resolver.unwatch(User::Backend { pool, backend });
    }

    /// Takes the backends out of pools that are not configured any more, once nobody can come in
    /// who is to be served there.
    pub(super) fn tidy(&mut self) {
        if self.is_tidy {
            return;
        }
        self.is_tidy = true;
        for number in 0..self.pools.len() {
            if !self.manners[number].retired {
                continue;
            }
            let leads_here = |service: &Service| match service {
                Service::Balance(passage) => passage.pool == number,
                Service::Answer { .. } => false,
            };
            if self.doorways.iter().any(|d| leads_here(&self.listeners[d.listener].service)) {
                self.is_tidy = false;
                continue;
            }
            let all = self.pools[number].order().to_vec();
            self.take_out(number, &all);
            // Nobody will ever come for whom those who wait there could be held.
            let terms = waiting::Terms { backend: None, ..self.room.terms(number) };
            self.room.set_terms(number, terms);
            self.room.encourage(number);
        }
    }
}

/// Listeners that there are or were and still have connections; likewise pools.
const MOST_NUMBERS: usize = 1 << 16;
