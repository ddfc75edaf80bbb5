//! Whether a pool that runs can have one more backend: the rules of the file that are about one.
//!
//! A file says everything at once and may be judged as a whole. Here the pool is as it is, so only
//! what the new backend brings is judged; a weight of 0 in a pool of nothing else is no mistake of
//! whoever is about to change the others.

use std::fmt;

use super::pool_rules::MOST_BACKENDS;
use super::problem::{Complaint, quote};
use super::{Agent, Amendments, Backend, BackendAddress, Config, LoadError, Pool, overlap};

/// Why a pool cannot have a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It has it already.
    Twice(Complaint),
    /// It does not go with the rest of the configuration.
    Cannot(Complaint),
}

impl Config {
    /// Whether this pool can have one more backend.
    ///
    /// # Errors
    ///
    /// It has it already, perhaps in another spelling; it has as many as possible; connections
    /// would come back to a listener of the pool; or its limit, its family or its kind do not go
    /// with what is configured.
    pub fn check_addition(&self, pool: &Pool, backend: &Backend) -> Result<(), Unfit> {
        let identity = overlap::identity(&backend.address);
        let same = |other: &&Backend| overlap::identity(&other.address) == identity;
        if let Some(there) = pool.backends.iter().find(same) {
            let message = format!("pool {} has the backend {} already", pool.name, there.address);
            let cure = "change its weight or state, or remove it first";
            return Err(Unfit::Twice(Complaint::new(message, cure)));
        }
        let wrong = check_number(pool)
            .or_else(|| self.check_limit(backend))
            .or_else(|| self.check_circle(pool, backend))
            .or_else(|| check_reach(pool, backend));
        wrong.map_or(Ok(()), |complaint| Err(Unfit::Cannot(complaint)))
    }

    /// Whether what was added at run time goes with this file.
    ///
    /// # Errors
    ///
    /// The file has a listener at the address of such a backend: connections would come back to it.
    pub fn check_amended(&self, amendments: &Amendments) -> Result<(), LoadError> {
        let amended = amendments.over(self);
        let circle = |pool: &Pool| {
            let complaint =
                pool.backends.iter().find_map(|backend| amended.check_circle(pool, backend))?;
            Some(LoadError::Unfit(format!(
                "pool {}, changed at run time: {}; remove the backend first, or choose another \
                 address for the listener\n",
                pool.name, complaint.message
            )))
        };
        amended.pools.iter().find_map(circle).map_or(Ok(()), Err)
    }

    fn check_limit(&self, backend: &Backend) -> Option<Complaint> {
        let global = self.global.max_connections?;
        let own = usize::try_from(backend.max_connections?).ok().filter(|&own| own > global)?;
        let message = format!(
            "`max_connections` {own} of {} can never be reached: [global] allows {global}",
            quote(&backend.address.to_string())
        );
        Some(Complaint::new(message, format!("write at most {global}")))
    }

    fn check_circle(&self, pool: &Pool, backend: &Backend) -> Option<Complaint> {
        let leads_here = |listener: &&super::Listener| {
            self.pools.get(listener.pool).is_some_and(|other| other.name == pool.name)
        };
        let mut listeners = self.listeners.iter().filter(leads_here);
        listeners.find_map(|listener| {
            let bind =
                listener.bind.iter().find(|bind| overlap::accepts(bind, &backend.address))?;
            let message = format!(
                "the backend {} is the address {} of listener {}: connections would go in a circle",
                quote(&backend.address.to_string()),
                quote(&bind.to_string()),
                listener.name
            );
            Some(Complaint::new(message, "name the server itself"))
        })
    }
}

fn check_number(pool: &Pool) -> Option<Complaint> {
    (pool.backends.len() >= MOST_BACKENDS).then(|| {
        let message = format!("pool {} has {} backends", pool.name, pool.backends.len());
        Complaint::new(message, "no more are possible; split the pool")
    })
}

/// Whether what the pool says about all of its backends can be done with this one.
fn check_reach(pool: &Pool, backend: &Backend) -> Option<Complaint> {
    let written = quote(&backend.address.to_string());
    let name = &pool.name;
    match &backend.address {
        BackendAddress::Inet(address) => {
            let ip = address.ip().to_canonical();
            let fits = |source: &std::net::IpAddr| source.is_ipv4() == ip.is_ipv4();
            (!pool.source.is_empty() && !pool.source.iter().any(fits)).then(|| {
                let message = format!("no `source` of pool {name} can reach the backend {written}");
                Complaint::new(message, "add an address of its family to `source`")
            })
        }
        BackendAddress::Unix(_) => {
            let health = &pool.health;
            let by_port = health.port.is_some() || matches!(health.agent, Some(Agent::Port(_)));
            by_port.then(|| {
                let message = format!(
                    "the backend {written} has no host for the port that pool {name} probes or asks"
                );
                Complaint::new(message, "put it into a pool of its own")
            })
        }
        BackendAddress::Name { .. } => None,
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(complaint) | Self::Cannot(complaint) => complaint.fmt(f),
        }
    }
}

impl std::error::Error for Unfit {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn check(more: &str, backend: &str) -> Result<(), String> {
        let text = format!(
            "[listener.web]\nbind = [':3030', 'unix:/front']\n[pool.web]\n\
             backends = ['db.example:5432', '192.0.2.1:80']\n{more}"
        );
        let config = parse("x", &text).unwrap().config;
        let checked = config.check_addition(&config.pools[0], &backend.parse().unwrap());
        checked.map_err(|unfit| match unfit {
            Unfit::Twice(_) => format!("409 {unfit}"),
            Unfit::Cannot(_) => format!("422 {unfit}"),
        })
    }

    #[test]
    fn a_file_that_makes_a_circle_with_what_was_added_is_refused() {
        let file = |bind: &str| {
            let text = format!("[listener.web]\nbind = '{bind}'\n[pool.web]\nbackends = ['a:1']\n");
            parse("x", &text).unwrap().config
        };
        let mut amendments = Amendments::default();
        amendments.add("web", "127.0.0.1:3031".parse().unwrap());
        assert_eq!(file(":3030").check_amended(&amendments), Ok(()));
        let error = file(":3031").check_amended(&amendments).unwrap_err().to_string();
        assert!(error.contains("go in a circle; remove the backend first"), "{error}");
        amendments.remove("web", &"127.0.0.1:3031".parse().unwrap());
        assert_eq!(file(":3031").check_amended(&amendments), Ok(()));
    }

    #[test]
    fn what_the_file_could_say_can_be_added() {
        for backend in ["db.example:5433", "[2001:db8::1]:80", "unix:/back", "a:1,weight=0"] {
            assert_eq!(check("", backend), Ok(()), "{backend}");
        }
        assert_eq!(check("source = '192.0.2.9'", "192.0.2.2:80"), Ok(()));
    }

    #[test]
    fn what_the_file_could_not_say_is_refused() {
        let limit = "[global]\nmax_connections = 5";
        for (more, backend, reason) in [
            ("", "DB.example.:5432", "409 pool web has the backend db.example:5432 already"),
            ("", "[::ffff:192.0.2.1]:80", "409 pool web has the backend 192.0.2.1:80 already"),
            ("", "localhost:3030", "422 the backend `localhost:3030` is the address `:3030` of"),
            ("", "unix:/./front", "go in a circle"),
            ("source = '192.0.2.9'", "[2001:db8::1]:80", "422 no `source` of pool web"),
            ("health = { port = 1 }", "unix:/back", "422 the backend `unix:/back` has no host"),
            ("health = { agent = ':1' }", "unix:/back", "has no host"),
        ] {
            let refused = check(more, backend).unwrap_err();
            assert!(refused.contains(reason), "{backend}: {refused}");
        }
        let text = format!("{limit}\n[listener.a]\nbind = ':1'\n[pool.a]\nbackends = ['a:1']");
        let config = parse("x", &text).unwrap().config;
        let backend = Backend { max_connections: Some(6), ..Backend::new("b:2".parse().unwrap()) };
        let refused = config.check_addition(&config.pools[0], &backend).unwrap_err();
        assert!(refused.to_string().contains("[global] allows 5; write at most 5"), "{refused}");
    }

    #[test]
    fn a_pool_is_full_at_some_number() {
        let config = parse("x", "[listener.a]\nbind = ':1'\n[pool.a]\nbackends = ['a:1']");
        let config = config.unwrap().config;
        let mut pool = config.pools[0].clone();
        let many = (1..=MOST_BACKENDS).map(|n| Backend::new(format!("b-{n}:1").parse().unwrap()));
        pool.backends = many.collect();
        let refused = config.check_addition(&pool, &pool.backends[0]).unwrap_err();
        assert!(matches!(refused, Unfit::Twice(_)));
        let refused = config.check_addition(&pool, &config.pools[0].backends[0]).unwrap_err();
        assert!(refused.to_string().contains("has 10000 backends; no more are possible"));
    }
}
