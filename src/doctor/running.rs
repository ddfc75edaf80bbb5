//! What a running balancer's status tells of its configuration.

use super::{Origin, Subject};
use crate::admin::Snapshot;
use crate::config::{Backend, Config, Global, Listener, Pool};

/// What stands in a status; for the rest the defaults.
#[must_use]
pub fn subject(snapshot: &Snapshot) -> Subject {
    let limit = usize::try_from(snapshot.connections.limit).ok().filter(|&limit| limit > 0);
    let pools: Vec<Pool> = snapshot
        .pools
        .iter()
        .map(|pool| Pool {
            name: pool.name.clone(),
            backends: pool
                .backends
                .iter()
                .filter_map(|backend| backend.address.parse().ok().map(Backend::new))
                .collect(),
            ..Pool::default()
        })
        .collect();
    let listeners = snapshot
        .listeners
        .iter()
        .map(|listener| Listener {
            name: listener.name.clone(),
            bind: listener.addresses.iter().filter_map(|address| address.parse().ok()).collect(),
            pool: pools.iter().position(|pool| pool.name == listener.pool).unwrap_or(0),
            ..Listener::default()
        })
        .collect();
    let global = Global { max_connections: limit, ..Global::default() };
    let config = Config { global, admin: None, listeners, pools };
    Subject { config, origin: Origin::Running }
}

/// Nothing is configured.
#[must_use]
pub fn nothing() -> Subject {
    let config =
        Config { global: Global::default(), admin: None, listeners: Vec::new(), pools: Vec::new() };
    Subject { config, origin: Origin::Nothing }
}
