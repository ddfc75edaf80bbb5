//! The running state as plain values, taken at one instant: the JSON of `GET /api/v1/status`.
//!
//! Its field names are the contract with scripts. Whatever a reader does not find is the default,
//! so that programs of different versions understand each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::{Histogram, Wait, WaitTotals};

/// Everything that is told of the process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The program.
    pub service: String,
    /// Its version.
    pub version: String,
    /// `running` or `draining`.
    pub state: String,
    /// Since its start.
    pub uptime_seconds: u64,
    /// The same more precisely, for rates: what was counted between two of these.
    pub uptime_milliseconds: u64,
    /// Differs from that of any other process: counters begin anew with it.
    pub instance: String,
    /// Connections of clients, all listeners together.
    pub connections: Connections,
    /// Bytes that clients sent and backends took.
    pub bytes_received: u64,
    /// Bytes that backends sent and clients took.
    pub bytes_sent: u64,
    /// Probe results.
    pub health_checks: HealthChecks,
    /// How long acceptors were told to pause for want of descriptors or memory, in sum.
    pub accept_paused_seconds: f64,
    /// In configured order.
    pub listeners: Vec<Listener>,
    /// In configured order.
    pub pools: Vec<Pool>,
    /// What has happened lately, the newest first; so many at most.
    pub events: Vec<Event>,
}

/// Something that was told in the log too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Events count from 1.
    pub number: u64,
    /// How long ago it happened, the last time if it happened several times.
    pub seconds_ago: u64,
    /// `info` or `warn`.
    pub level: String,
    /// For people.
    pub text: String,
    /// How often in a row.
    pub times: u64,
}

/// Connections of clients.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Now.
    pub active: u64,
    /// At one time at most.
    pub limit: u64,
    /// Accepted since the start.
    pub total: u64,
    /// Ended since the start, by the reason in words; every reason is there.
    pub ended: BTreeMap<String, u64>,
}

/// Probe results since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthChecks {
    /// Those that passed.
    pub passed: u64,
    /// Those that failed.
    pub failed: u64,
}

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Listener {
    /// What it is called.
    pub name: String,
    /// The pool it leads to.
    pub pool: String,
    /// Where it listens; empty once it does no more.
    pub addresses: Vec<String>,
    /// Connections now.
    pub active: u64,
    /// Connections at one time at most, if it has a limit of its own.
    pub limit: Option<u64>,
    /// Connections accepted since the start.
    pub total: u64,
    /// Bytes that its clients sent and backends took.
    pub bytes_received: u64,
    /// Bytes that backends sent and its clients took.
    pub bytes_sent: u64,
    /// How long its connections lasted; among the metrics only.
    #[serde(skip)]
    pub lives: Option<Histogram>,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// What it is called.
    pub name: String,
    /// How a backend is chosen, as the configuration calls it.
    pub balance: String,
    /// Whether any backend could serve.
    pub available: bool,
    /// Clients that wait for a backend, or for a place at one.
    pub waiting: u64,
    /// What clients have waited in line since the start, in sum.
    pub queue_ms: u64,
    /// What its connections have waited for, those of backends that are gone included.
    pub waits_ms: Waits,
    /// How many backends there are.
    pub targets: u64,
    /// How many of them are in rotation.
    pub healthy: u64,
    /// How long connects to them took; among the metrics only.
    #[serde(skip)]
    pub connects: Option<Histogram>,
    /// In configured order.
    pub backends: Vec<Backend>,
}

/// One backend of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Backend {
    /// As configured.
    pub address: String,
    /// In one word of the contract.
    pub state: String,
    /// How long it has been in that state.
    pub state_seconds: u64,
    /// Why, for people.
    pub reason: String,
    /// Its share of new connections.
    pub weight: u16,
    /// How much of its weight counts now.
    pub weight_percent: u16,
    /// Whether it serves only while no other backend can.
    pub backup: bool,
    /// Connections now, those still connecting included.
    pub active: u64,
    /// Connections it may have now, if there is a limit.
    pub limit: Option<u64>,
    /// Connections ever made.
    pub total: u64,
    /// Connects that failed at every address.
    pub connect_failures: u64,
    /// How often its probes found it up or down when it was not before.
    pub health_transitions: u64,
    /// How often it has gone down again lately, soon after it had come back.
    pub flaps: u64,
    /// What its agent says, if there is one.
    pub agent: Option<String>,
    /// In which ways it is not as the file has it: `added`, `weight`, `state`.
    pub overrides: Vec<String>,
    /// What its connections have waited for.
    pub waits_ms: Waits,
    /// Its last probes.
    pub probes: Probes,
}

/// What connections have waited for since the start, in sum, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// A connect.
    pub connect: u64,
    /// The client to send.
    pub client_send: u64,
    /// The client to take what was there for it.
    pub client_read: u64,
    /// The backend to send.
    pub backend_send: u64,
    /// The backend to take what was there for it.
    pub backend_read: u64,
    /// The balancer itself.
    pub balancer: u64,
}

impl Waits {
    /// Each with its word.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 6] {
        [
            (Wait::Connect.word(), self.connect),
            (Wait::ClientSend.word(), self.client_send),
            (Wait::ClientRead.word(), self.client_read),
            (Wait::BackendSend.word(), self.backend_send),
            (Wait::BackendRead.word(), self.backend_read),
            (Wait::Balancer.word(), self.balancer),
        ]
    }
}

impl From<&WaitTotals> for Waits {
    fn from(totals: &WaitTotals) -> Self {
        Self {
            connect: totals.of(Wait::Connect),
            client_send: totals.of(Wait::ClientSend),
            client_read: totals.of(Wait::ClientRead),
            backend_send: totals.of(Wait::BackendSend),
            backend_read: totals.of(Wait::BackendRead),
            balancer: totals.of(Wait::Balancer),
        }
    }
}

/// The last probes of a backend, the oldest first: one place in each for each.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Probes {
    /// `+` for one that passed, `-` for one that failed.
    pub results: String,
    /// How long it took, up to 65535.
    pub milliseconds: Vec<u16>,
    /// How long ago it was.
    pub seconds_ago: Vec<u32>,
}

impl Backend {
    /// Whether it is in rotation.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.state == "up"
    }

    /// Whether it is wanted to take no new clients.
    #[must_use]
    pub fn takes_no_more(&self) -> bool {
        matches!(self.state.as_str(), "draining" | "maintenance")
    }
}

impl Snapshot {
    /// Whether no new clients are taken any more.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.state == DRAINING
    }

    /// Every backend, with its pool.
    pub fn backends(&self) -> impl Iterator<Item = (&Pool, &Backend)> {
        self.pools.iter().flat_map(|pool| pool.backends.iter().map(move |backend| (pool, backend)))
    }
}

/// The state of a process that takes clients.
pub const RUNNING: &str = "running";
/// The state of a process that is on its way out.
pub const DRAINING: &str = "draining";

#[cfg(test)]
pub(super) mod tests {
    use super::super::explain::{Decisions, Explanation, Riddle};
    use super::super::metrics::tests::figures;
    use super::super::sessions::{Cut, Session, Sessions, Which};
    use super::super::{Addition, Balancer, Change, Changed, Plan, Proposal, Refused, Removal};
    use super::super::{Figures, Health, Overview, Spot};
    use super::*;

    /// A pool with one backend up and one down, with two connections.
    pub(in crate::admin) fn sample() -> Snapshot {
        let backend = |port: u16, state: &str| Backend {
            address: format!("127.0.0.1:{port}"),
            state: state.to_owned(),
            weight: 2,
            weight_percent: 100,
            active: 1,
            total: 7,
            connect_failures: 3,
            health_transitions: 2,
            waits_ms: Waits { client_send: 1500, backend_send: 250, ..Waits::default() },
            probes: Probes {
                results: "+-".to_owned(),
                milliseconds: vec![1, 2000],
                seconds_ago: vec![4, 2],
            },
            ..Backend::default()
        };
        Snapshot {
            service: "evenkeel".to_owned(),
            version: "0.1.0".to_owned(),
            state: RUNNING.to_owned(),
            uptime_seconds: 61,
            uptime_milliseconds: 61_250,
            instance: "00c0ffee".to_owned(),
            connections: Connections {
                active: 2,
                limit: 1000,
                total: 14,
                ended: [("client closed".to_owned(), 12), ("idle timeout".to_owned(), 0)].into(),
            },
            bytes_received: 10,
            bytes_sent: 20,
            health_checks: HealthChecks { passed: 5, failed: 6 },
            accept_paused_seconds: 1.5,
            listeners: vec![Listener {
                name: "web".to_owned(),
                pool: "web".to_owned(),
                addresses: vec!["127.0.0.1:3030".to_owned()],
                active: 2,
                limit: None,
                total: 14,
                bytes_received: 10,
                bytes_sent: 20,
                lives: None,
            }],
            pools: vec![Pool {
                name: "web".to_owned(),
                balance: "round-robin".to_owned(),
                available: true,
                waiting: 0,
                queue_ms: 40,
                waits_ms: Waits { client_send: 3000, backend_send: 500, ..Waits::default() },
                targets: 2,
                healthy: 1,
                connects: None,
                backends: vec![backend(5001, "up"), backend(5002, "down")],
            }],
            events: vec![Event {
                number: 1,
                seconds_ago: 5,
                level: "info".to_owned(),
                text: "web/127.0.0.1:5002 is down".to_owned(),
                times: 1,
            }],
        }
    }

    /// A balancer whose state never changes, and which notes who wanted to change it.
    pub(in crate::admin) struct Fixed {
        pub(in crate::admin) snapshot: Snapshot,
        pub(in crate::admin) asked: Vec<(Change, String)>,
        pub(in crate::admin) members: Vec<String>,
        pub(in crate::admin) refusal: Option<Refused>,
    }

    impl Default for Fixed {
        fn default() -> Self {
            Self { snapshot: sample(), asked: Vec::new(), members: Vec::new(), refusal: None }
        }
    }

    impl Fixed {
        fn first(&self) -> Backend {
            self.snapshot.pools[0].backends[0].clone()
        }

        fn unless_refused<T>(&self, answer: T) -> Result<T, Refused> {
            self.refusal.clone().map_or(Ok(answer), Err)
        }
    }

    impl Balancer for Fixed {
        fn overview(&self) -> Overview {
            let mut snapshot = self.snapshot.clone();
            let pools = snapshot.pools.iter_mut().enumerate();
            let spots = pools.map(|(number, pool)| {
                let backends = std::mem::take(&mut pool.backends).into_iter().enumerate();
                backends.map(|(backend, _)| Spot { pool: number, backend }).collect()
            });
            Overview { spots: spots.collect(), snapshot, backend_metrics: true }
        }

        fn backend(&self, spot: Spot) -> Option<(String, Backend)> {
            let pool = self.snapshot.pools.get(spot.pool)?;
            Some((pool.name.clone(), pool.backends.get(spot.backend)?.clone()))
        }

        fn figures(&self, spot: Spot) -> Option<Figures<'_>> {
            let pool = self.snapshot.pools.get(spot.pool)?;
            Some(figures(pool, pool.backends.get(spot.backend)?))
        }

        fn health(&self) -> Health {
            Health {
                is_draining: self.snapshot.is_draining(),
                targets: self.snapshot.backends().count(),
                healthy: self.snapshot.backends().filter(|(_, b)| b.is_healthy()).count(),
            }
        }

        fn look(&self, pool: &str, address: &str) -> Result<Changed, Refused> {
            let backend = Backend { address: address.to_owned(), ..self.first() };
            self.unless_refused(Changed { pool: pool.to_owned(), pool_available: true, backend })
        }

        fn change(&mut self, change: &Change, client: &str) -> Result<Changed, Refused> {
            self.asked.push((change.clone(), client.to_owned()));
            let backend = self.first();
            Ok(Changed { pool: change.pool.clone(), pool_available: true, backend })
        }

        fn add(&mut self, addition: &Addition, client: &str) -> Result<Changed, Refused> {
            let address = addition.backend.address.to_string();
            let pool = addition.pool.as_deref().unwrap_or("-");
            self.members.push(format!("{pool} + {address} {client}"));
            let backend = Backend { address, ..self.first() };
            self.unless_refused(Changed { pool: pool.to_owned(), pool_available: true, backend })
        }

        fn remove(&mut self, removal: &Removal, client: &str) -> Result<Changed, Refused> {
            let pool = removal.pool.as_deref().unwrap_or("-");
            self.members.push(format!("{pool} - {} {client}", removal.address));
            let backend = self.first();
            self.unless_refused(Changed { pool: pool.to_owned(), pool_available: true, backend })
        }

        fn reload(&mut self, _: &str) -> Result<Plan, Refused> {
            self.unless_refused(Plan::default())
        }

        fn plan(&self, _: Option<&Proposal>) -> Result<Plan, Refused> {
            self.unless_refused(Plan::default())
        }

        fn explain(&self, riddle: &Riddle) -> Result<Explanation, Refused> {
            match riddle {
                Riddle::One(_) => Err(Refused::not_found("it is forgotten")),
                Riddle::Newest(_) => Ok(Explanation::Decisions(Decisions::default())),
                Riddle::Pool { .. } => Ok(Explanation::Peek(Box::default())),
            }
        }

        fn sessions(&self, which: &Which) -> Result<Sessions, Refused> {
            Ok(Sessions { sessions: Vec::new(), next: Some(which.after) })
        }

        fn cut_session(&mut self, id: u64, _: &str) -> Result<Cut, Refused> {
            Ok(Cut { session: Session { id, ..Session::default() }, ..Cut::default() })
        }
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), sample());
    }

    #[test]
    fn other_versions_may_say_more_or_less() {
        let text = r#"{"version":"9","new":[1],"pools":[{"name":"a","backends":[{"x":1}]}]}"#;
        let read: Snapshot = serde_json::from_str(text).unwrap();
        assert_eq!((read.version.as_str(), read.backends().count()), ("9", 1));
    }
}
