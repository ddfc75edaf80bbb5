//! What was changed at run time, on top of what the file says.
//!
//! A change is about one backend and holds until it is taken back, also across reloads of the file
//! and, with a state file, across restarts. Backends are known by what their addresses lead to, so
//! that another spelling of one is no other one. What is kept is bounded by the backends that the
//! file has and those that were added: who comes and goes again leaves nothing behind.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::overlap::identity;
use super::{Backend, BackendAddress, Config, Pool};

/// What was changed at run time, by pool and backend.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Amendments {
    /// In the order in which they were first changed.
    pools: BTreeMap<String, Vec<Amendment>>,
}

/// What a backend is to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// New clients, as far as its health allows.
    #[default]
    Ready,
    /// No new clients; those it has may stay.
    Draining,
    /// No new clients and no probes.
    Maintenance,
}

impl Amendments {
    /// The backend is one of the pool from now on, as it is given.
    pub fn add(&mut self, pool: &str, backend: Backend) {
        let amendment = self.about(pool, &backend.address);
        let replaces = amendment.membership == Membership::Removed;
        *amendment = Amendment {
            membership: Membership::Added { backend: backend.clone(), replaces },
            ..Amendment::new(&backend.address)
        };
    }

    /// The backend is no longer one of the pool.
    pub fn remove(&mut self, pool: &str, address: &BackendAddress) {
        let amendment = self.about(pool, address);
        let was_added = matches!(amendment.membership, Membership::Added { replaces: false, .. });
        let membership = if was_added { Membership::AsConfigured } else { Membership::Removed };
        *amendment = Amendment { membership, ..Amendment::new(address) };
        self.tidy();
    }

    /// The backend has this share of new connections.
    pub fn set_weight(&mut self, pool: &str, address: &BackendAddress, weight: u16) {
        let amendment = self.about(pool, address);
        match &mut amendment.membership {
            Membership::Added { backend, .. } => backend.weight = weight,
            Membership::AsConfigured | Membership::Removed => amendment.weight = Some(weight),
        }
    }

    /// The backend is to be used for this.
    pub fn set_state(&mut self, pool: &str, address: &BackendAddress, state: Wanted) {
        self.about(pool, address).state = state;
        self.tidy();
    }

    /// The file's configuration with these changes: backends that were added stand behind those of
    /// the file. A pool from which all were removed is empty. What is about pools and backends that
    /// the file does not have is left aside.
    #[must_use]
    pub fn apply(&self, file: &Config) -> Config {
        let mut config = file.clone();
        for pool in &mut config.pools {
            if let Some(amendments) = self.pools.get(&pool.name) {
                amend(pool, amendments);
            }
        }
        config
    }

    /// What runs once the file is loaded: with what is left of these changes then.
    #[must_use]
    pub fn over(&self, file: &Config) -> Config {
        let mut settled = self.clone();
        settled.settle(file);
        settled.apply(file)
    }

    /// Forgets what the file says too, and what is about pools and backends that are gone. What was
    /// added here and is in the file now is the file's, but for a weight that was asked for.
    pub fn settle(&mut self, file: &Config) {
        let by_name: HashMap<&str, &Pool> =
            file.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
        for (name, amendments) in &mut self.pools {
            let backends = by_name.get(name.as_str()).map(|pool| by_identity(pool));
            for amendment in &mut *amendments {
                let configured = backends.as_ref().map(|all| all.get(&amendment.identity));
                amendment.settle(configured.map(Option::<&&Backend>::copied));
            }
        }
        self.tidy();
    }

    /// What the backend is to be used for.
    #[must_use]
    pub fn wanted(&self, pool: &str, address: &BackendAddress) -> Wanted {
        self.find(pool, address).map_or(Wanted::Ready, |amendment| amendment.state)
    }

    /// The same for each backend of a pool, in its order.
    #[must_use]
    pub fn wishes(&self, pool: &Pool) -> Vec<Wanted> {
        let amendments = self.pools.get(&pool.name).map_or(&[][..], Vec::as_slice);
        let wanted: HashMap<&str, Wanted> = amendments
            .iter()
            .map(|amendment| (amendment.identity.as_str(), amendment.state))
            .collect();
        let of = |backend: &Backend| wanted.get(identity(&backend.address).as_str()).copied();
        pool.backends.iter().map(|backend| of(backend).unwrap_or_default()).collect()
    }

    /// In which ways the backend is not as the file has it: `added`, `weight`, `state`.
    #[must_use]
    pub fn words(&self, pool: &str, address: &BackendAddress) -> Vec<&'static str> {
        let Some(amendment) = self.find(pool, address) else { return Vec::new() };
        let is_added = matches!(amendment.membership, Membership::Added { .. });
        let words = [
            (is_added, "added"),
            (amendment.weight.is_some(), "weight"),
            (amendment.state != Wanted::Ready, "state"),
        ];
        words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
    }

    /// Those that the file has in the pool, but that were removed.
    pub fn removed(&self, pool: &str) -> impl Iterator<Item = &BackendAddress> {
        let amendments = self.pools.get(pool).map_or(&[][..], Vec::as_slice);
        let removed = amendments.iter().filter(|one| one.membership == Membership::Removed);
        removed.map(|amendment| &amendment.address)
    }

    /// Whether nothing was changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// The number of backends that are not as the file has them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pools.values().map(Vec::len).sum()
    }

    fn find(&self, pool: &str, address: &BackendAddress) -> Option<&Amendment> {
        let amendments = self.pools.get(pool)?;
        let identity = identity(address);
        amendments.iter().find(|amendment| amendment.identity == identity)
    }

    fn about(&mut self, pool: &str, address: &BackendAddress) -> &mut Amendment {
        let amendments = self.pools.entry(pool.to_owned()).or_default();
        let identity = identity(address);
        let found = amendments.iter().position(|amendment| amendment.identity == identity);
        let at = found.unwrap_or_else(|| {
            amendments.push(Amendment::new(address));
            amendments.len() - 1
        });
        &mut amendments[at]
    }

    /// Drops what says nothing.
    fn tidy(&mut self) {
        for amendments in self.pools.values_mut() {
            amendments.retain(|amendment| !amendment.is_idle());
        }
        self.pools.retain(|_, amendments| !amendments.is_empty());
    }
}

/// What was changed about one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Amendment {
    address: BackendAddress,
    identity: String,
    membership: Membership,
    weight: Option<u16>,
    state: Wanted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Membership {
    AsConfigured,
    Added {
        backend: Backend,
        /// Whether it stands for one of the file, which was removed before.
        replaces: bool,
    },
    Removed,
}

impl Amendment {
    /// Nothing was changed yet.
    fn new(address: &BackendAddress) -> Self {
        Self {
            address: address.clone(),
            identity: identity(address),
            membership: Membership::AsConfigured,
            weight: None,
            state: Wanted::Ready,
        }
    }

    /// Whether it says nothing.
    fn is_idle(&self) -> bool {
        self.membership == Membership::AsConfigured
            && self.weight.is_none()
            && self.state == Wanted::Ready
    }

    /// `configured` is what the file says about it; `None`: there is no such pool.
    fn settle(&mut self, configured: Option<Option<&Backend>>) {
        let is_added = matches!(self.membership, Membership::Added { .. });
        match configured {
            None => *self = Self::new(&self.address),
            Some(None) if is_added => self.no_longer_replaces(),
            Some(None) => *self = Self::new(&self.address),
            Some(Some(configured)) => {
                if let Membership::Added { backend, .. } = &self.membership {
                    self.weight = Some(backend.weight).filter(|weight| *weight != DEFAULT_WEIGHT);
                    self.membership = Membership::AsConfigured;
                }
                self.weight = self.weight.filter(|weight| *weight != configured.weight);
            }
        }
    }

    fn no_longer_replaces(&mut self) {
        if let Membership::Added { replaces, .. } = &mut self.membership {
            *replaces = false;
        }
    }
}

fn by_identity(pool: &Pool) -> HashMap<String, &Backend> {
    pool.backends.iter().map(|backend| (identity(&backend.address), backend)).collect()
}

fn amend(pool: &mut Pool, amendments: &[Amendment]) {
    let by_identity: HashMap<&str, &Amendment> =
        amendments.iter().map(|amendment| (amendment.identity.as_str(), amendment)).collect();
    let mut met = HashSet::new();
    pool.backends.retain_mut(|backend| {
        let identity = identity(&backend.address);
        let Some(amendment) = by_identity.get(identity.as_str()) else { return true };
        met.insert(identity);
        match &amendment.membership {
            Membership::AsConfigured => {}
            Membership::Added { backend: added, .. } => backend.clone_from(added),
            Membership::Removed => return false,
        }
        backend.weight = amendment.weight.unwrap_or(backend.weight);
        true
    });
    for amendment in amendments.iter().filter(|amendment| !met.contains(&amendment.identity)) {
        if let Membership::Added { backend, .. } = &amendment.membership {
            pool.backends.push(backend.clone());
        }
    }
}

/// The same as it is written into a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    pools: BTreeMap<String, Vec<WrittenAmendment>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAmendment {
    address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    added: Option<WrittenBackend>,
    #[serde(default, skip_serializing_if = "is_no")]
    removed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<u16>,
    #[serde(default, skip_serializing_if = "is_ready")]
    state: Wanted,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBackend {
    weight: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_connections: Option<u32>,
    #[serde(default, skip_serializing_if = "is_no")]
    backup: bool,
    #[serde(default, skip_serializing_if = "is_no")]
    replaces: bool,
}

fn is_no(flag: &bool) -> bool {
    !flag
}

fn is_ready(state: &Wanted) -> bool {
    *state == Wanted::Ready
}

impl From<Amendments> for Written {
    fn from(amendments: Amendments) -> Self {
        let all = amendments.pools.into_iter();
        let pools =
            all.map(|(pool, list)| (pool, list.into_iter().map(WrittenAmendment::from).collect()));
        Self { pools: pools.collect() }
    }
}

impl From<Amendment> for WrittenAmendment {
    fn from(amendment: Amendment) -> Self {
        let Amendment { address, identity: _, membership, weight, state } = amendment;
        let (removed, added) = match membership {
            Membership::AsConfigured => (false, None),
            Membership::Removed => (true, None),
            Membership::Added { backend, replaces } => {
                let Backend { address: _, weight, max_connections, backup } = backend;
                (false, Some(WrittenBackend { weight, max_connections, backup, replaces }))
            }
        };
        Self { address: address.to_string(), added, removed, weight, state }
    }
}

impl TryFrom<Written> for Amendments {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let mut pools = BTreeMap::new();
        for (name, list) in written.pools {
            let list: Result<Vec<_>, String> = list.into_iter().map(Amendment::try_from).collect();
            let list = list.map_err(|why| format!("pool {name:?}: {why}"))?;
            let mut seen = HashSet::new();
            if let Some(twice) = list.iter().find(|amendment| !seen.insert(&amendment.identity)) {
                return Err(format!("pool {name:?} has {} twice", twice.address));
            }
            pools.insert(name, list);
        }
        let mut amendments = Self { pools };
        amendments.tidy();
        Ok(amendments)
    }
}

impl TryFrom<WrittenAmendment> for Amendment {
    type Error = String;

    fn try_from(written: WrittenAmendment) -> Result<Self, String> {
        let WrittenAmendment { address, added, removed, weight, state } = written;
        let address: BackendAddress = address.parse().map_err(|why| format!("{why}"))?;
        let weights = [weight, added.as_ref().map(|added| added.weight)];
        if let Some(heavy) = weights.into_iter().flatten().find(|weight| *weight > MOST_WEIGHT) {
            return Err(format!("{address} has the weight {heavy}, above {MOST_WEIGHT}"));
        }
        if added.as_ref().is_some_and(|added| added.max_connections == Some(0)) {
            return Err(format!("{address} has a limit of 0 connections, and could serve nobody"));
        }
        let membership = match (added, removed) {
            (None, false) => Membership::AsConfigured,
            (None, true) => Membership::Removed,
            (Some(_), true) => return Err(format!("{address} is both added and removed")),
            (Some(added), false) => {
                let WrittenBackend { weight, max_connections, backup, replaces } = added;
                let address = address.clone();
                let backend = Backend { address, weight, max_connections, backup };
                Membership::Added { backend, replaces }
            }
        };
        Ok(Self { membership, weight, state, ..Self::new(&address) })
    }
}

/// What a backend weighs that nothing was said about.
const DEFAULT_WEIGHT: u16 = 1;
const MOST_WEIGHT: u16 = 256;
