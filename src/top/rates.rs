//! What happened in a second: the difference between two statuses of one process.

use std::collections::HashMap;

use serde::Serialize;

use crate::admin::Snapshot;

/// Rates between two statuses, per second.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Rates {
    /// How far they were apart.
    pub seconds: f64,
    /// All listeners together.
    pub total: Flow,
    /// By name.
    pub listeners: HashMap<String, Flow>,
    /// New connections, by pool and address.
    pub backends: HashMap<String, HashMap<String, f64>>,
}

/// What came and went in a second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Flow {
    /// Connections accepted.
    pub connections: f64,
    /// Bytes that clients sent.
    pub bytes_received: f64,
    /// Bytes that backends sent.
    pub bytes_sent: f64,
}

impl Rates {
    /// `None`: the two are not of one process, or no time lies between them.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot) -> Option<Self> {
        let millis = after.uptime_milliseconds.checked_sub(before.uptime_milliseconds)?;
        if millis == 0 || before.instance != after.instance {
            return None;
        }
        let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 * 1000.0 / millis as f64;
        let total = Flow {
            connections: rate(before.connections.total, after.connections.total),
            bytes_received: rate(before.bytes_received, after.bytes_received),
            bytes_sent: rate(before.bytes_sent, after.bytes_sent),
        };
        let known: HashMap<_, _> =
            before.listeners.iter().map(|listener| (listener.name.as_str(), listener)).collect();
        let listeners = after.listeners.iter().filter_map(|listener| {
            let from = known.get(listener.name.as_str())?;
            let flow = Flow {
                connections: rate(from.total, listener.total),
                bytes_received: rate(from.bytes_received, listener.bytes_received),
                bytes_sent: rate(from.bytes_sent, listener.bytes_sent),
            };
            Some((listener.name.clone(), flow))
        });
        let known: HashMap<_, _> = before
            .backends()
            .map(|(pool, backend)| ((pool.name.as_str(), backend.address.as_str()), backend.total))
            .collect();
        let mut backends: HashMap<String, HashMap<String, f64>> = HashMap::new();
        for (pool, backend) in after.backends() {
            if let Some(from) = known.get(&(pool.name.as_str(), backend.address.as_str())) {
                let of_pool = backends.entry(pool.name.clone()).or_default();
                of_pool.insert(backend.address.clone(), rate(*from, backend.total));
            }
        }
        let seconds = millis as f64 / 1000.0;
        Some(Self { seconds, total, listeners: listeners.collect(), backends })
    }

    /// New connections of a backend; `None` if it was not there before.
    #[must_use]
    pub fn of_backend(&self, pool: &str, address: &str) -> Option<f64> {
        self.backends.get(pool)?.get(address).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn what_was_counted_in_between_is_divided_by_the_time() {
        let before = sample();
        let mut after = before.clone();
        after.uptime_milliseconds += 2000;
        after.connections.total += 10;
        after.bytes_sent += 4096;
        after.listeners[0].total += 6;
        after.pools[0].backends[1].total += 3;
        let rates = Rates::between(&before, &after).unwrap();
        assert_eq!(
            (rates.seconds, rates.total.connections, rates.total.bytes_sent),
            (2., 5., 2048.)
        );
        assert_eq!(rates.listeners["web"].connections, 3.);
        let address = &after.pools[0].backends[1].address;
        assert_eq!(rates.of_backend("web", address), Some(1.5));
        assert_eq!(rates.of_backend("web", "elsewhere"), None);
    }

    #[test]
    fn another_process_and_no_time_have_no_rates() {
        let before = sample();
        assert_eq!(Rates::between(&before, &before), None);
        let mut after = before.clone();
        after.uptime_milliseconds += 1000;
        assert!(Rates::between(&before, &after).is_some());
        assert_eq!(Rates::between(&after, &before), None, "it was started again");
        after.instance = "another".to_owned();
        assert_eq!(Rates::between(&before, &after), None);
    }

    #[test]
    fn a_counter_that_went_back_is_no_negative_rate() {
        let before = sample();
        let mut after = before.clone();
        after.uptime_milliseconds += 1000;
        after.pools[0].backends[0].total = 0;
        let rates = Rates::between(&before, &after).unwrap();
        assert_eq!(rates.of_backend("web", &after.pools[0].backends[0].address), Some(0.));
    }
}
