//! The configuration, read again: what would change, and changing it.
//!
//! The file is read and checked as at the start. If anything is wrong with it, or an address cannot
//! be bound, nothing changes. What cannot be changed in a running process stays as it is and is
//! told as such. Reading takes as long as the file system does; it is a small file.

use std::collections::HashMap;

use super::limits::{self, Most};
use super::{Reactor, StartError};
use crate::admin::{Plan, PlanItem, Proposal, Refused};
use crate::config::{self, Config, Difference, Loaded, Origin, Subject, difference};
use crate::http::reply::Status;

impl Reactor {
    /// Reads the file again, because somebody asks for it: a signal, or a client.
    pub(super) fn reload_file(&mut self, client: &str) -> Result<Plan, Refused> {
        self.news.info(self.now, format_args!("{client} asks for a reload"));
        self.notify.reloading(self.now);
        let outcome = self.reload_now();
        match &outcome {
            Ok(plan) => self.tell_reload(plan),
            Err(refused) => {
                let reason = &refused.message;
                self.news.warn(self.now, format_args!("Reload refused, nothing changed: {reason}"));
                if let Some(problems) = &refused.problems {
                    log::warn!("{}", problems.rendered.trim_end());
                }
            }
        }
        self.announce();
        outcome
    }

    /// What a reload of the file, or of a proposal for it, would do.
    pub(super) fn plan_for(&self, proposal: Option<&Proposal>) -> Result<Plan, Refused> {
        let origin = self.origin()?;
        let loaded = match proposal {
            Some(Proposal { name, text }) => config::parse(name, text)?,
            None => origin.load_again()?,
        };
        let mut wanted = loaded.config;
        wanted.apply(&origin.overrides)?;
        wanted.check_amended(&self.amendments)?;
        Ok(self.planned(&wanted))
    }

    fn reload_now(&mut self) -> Result<Plan, Refused> {
        self.check_running()?;
        let origin = self.origin()?;
        let loaded = origin.load_again()?;
        warn_of(&loaded);
        let mut wanted = loaded.config;
        wanted.apply(&origin.overrides)?;
        wanted.check_amended(&self.amendments)?;
        let plan = self.planned(&wanted);
        let base = Difference::reachable(&self.base, &wanted);
        let config = self.amendments.over(&base);
        self.converge(config).map_err(cannot_be_had)?;
        self.base = base;
        self.amended();
        self.take_wishes();
        self.take_globals();
        self.tell_availability();
        Ok(plan)
    }

    /// Where the configuration comes from.
    fn origin(&self) -> Result<&Origin, Refused> {
        self.origin.as_ref().ok_or_else(|| {
            let message = "the balancer was started without a configuration file, so there is \
                           nothing to read again; change it with add, remove, weight and the like";
            Refused::new(Status::CONFLICT, message)
        })
    }

    fn planned(&self, wanted: &Config) -> Plan {
        let difference = difference(&self.config, &self.amendments.over(wanted));
        let live = self.live_by_backend();
        let item = |item: &config::Item| PlanItem::new(item, self.touched(item, &live));
        Plan { changes: difference.items.iter().map(item).collect() }
    }

    /// How many connections each backend has that has any.
    fn live_by_backend(&self) -> HashMap<(&str, &str), u64> {
        let mut live = HashMap::new();
        for pool in self.places.pools.iter().map(|&number| &self.pools[number]) {
            for (_, backend) in pool.backends().filter(|(_, one)| one.counters().active > 0) {
                live.insert((pool.name(), backend.label()), backend.counters().active);
            }
        }
        live
    }

    /// Live connections that a change is about.
    fn touched(&self, item: &config::Item, by_backend: &HashMap<(&str, &str), u64>) -> u64 {
        let count = match &item.subject {
            Subject::Global | Subject::Admin => 0,
            Subject::Listener(name) => {
                let mut listeners = self.places.listeners.iter().map(|&at| &self.listeners[at]);
                listeners.find(|listener| listener.name == *name).map_or(0, |found| found.active)
            }
            Subject::Pool(name) => {
                let mut pools = self.places.pools.iter();
                let found = pools.find(|&&pool| self.pools[pool].name() == name);
                found.map_or(0, |&pool| self.manners[pool].live)
            }
            Subject::Backend { pool, address } => {
                return by_backend.get(&(pool.as_str(), address.as_str())).copied().unwrap_or(0);
            }
        };
        count as u64
    }

    /// What is not about listeners and pools.
    fn take_globals(&mut self) {
        self.drain_deadline = self.config.global.drain_deadline;
        self.access_log = self.config.global.access_log;
        self.is_admin_stale = true;
        if let Some(most) = self.settle_limits() {
            most.warn();
        }
    }

    /// How many connections there may be depends on what else takes descriptors. What is known now,
    /// if anything is.
    pub(super) fn settle_limits(&mut self) -> Option<Most> {
        if let Err(error) = self.resolver.start(self.poll.registry()) {
            log::warn!("names cannot be resolved: {error}");
        }
        self.resolver.refresh(self.now);
        let wanted = self.config.global.max_connections;
        match limits::max_connections(wanted, self.other_descriptors()) {
            Ok(most) => {
                self.max_connections = most.connections;
                Some(most)
            }
            Err(error) => {
                log::warn!("the limit of connections stays as it is: {error}");
                None
            }
        }
    }

    /// Descriptors that are no connection's.
    pub(super) fn other_descriptors(&self) -> usize {
        self.own_descriptors
            + self.doorways.iter().count()
            + self.prober.len()
            + self.admin_descriptors
    }

    fn tell_reload(&mut self, plan: &Plan) {
        if plan.changes.is_empty() {
            self.news.info(self.now, "Reload: nothing has changed");
        }
        for change in plan.changes.iter().take(MOST_TOLD) {
            let later = if change.needs_restart() { " (after a restart)" } else { "" };
            let PlanItem { subject, text, connections, .. } = change;
            let live = match connections {
                0 => String::new(),
                1 => " (1 live connection)".to_owned(),
                _ => format!(" ({connections} live connections)"),
            };
            self.news.info(self.now, format_args!("Reload: {subject}: {text}{later}{live}"));
        }
        if let Some(more) = plan.changes.len().checked_sub(MOST_TOLD).filter(|&more| more > 0) {
            self.news.info(self.now, format_args!("Reload: {more} more changes"));
        }
    }
}

fn warn_of(loaded: &Loaded) {
    if !loaded.warnings.is_empty() {
        log::warn!("{}", loaded.render(&loaded.warnings).trim_end());
    }
}

/// An address that cannot be bound is usually somebody else's.
fn cannot_be_had(error: StartError) -> Refused {
    Refused::new(Status::CONFLICT, &format!("{error}; nothing was changed"))
}

/// Changes of one reload that are told one by one.
const MOST_TOLD: usize = 50;
