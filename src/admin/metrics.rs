//! The running state in the text format of Prometheus, version 0.0.4.
//!
//! Every family has its HELP and TYPE once, above all its samples. Labels are bounded by the
//! configuration: listeners, pools and their backends, and fixed lists of reasons and bounds.
//! What has one sample for each backend is written backend by backend, each family in a place of
//! its own, so that it can be done a part at a time; in the end the families are joined.

use std::fmt::{self, Display, Write};

use super::overview::Figures;
use super::rope::Rope;
use super::snapshot::{Listener, Pool, Snapshot, Waits};
use crate::measure::Histogram;

/// An exposition that is being written.
#[derive(Debug)]
pub struct Exposition {
    whole: Text,
    families: Vec<Text>,
}

impl Exposition {
    /// All but what there is to tell of each backend.
    #[must_use]
    pub fn new(overview: &Snapshot) -> Self {
        let mut text = Text::default();
        connections(overview, &mut text);
        pools(&overview.pools, &mut text);
        let checks = &overview.health_checks;
        text.family("health_checks_total", COUNTER, "Results of health checks.");
        text.sample(&[("result", "passed")], checks.passed);
        text.sample(&[("result", "failed")], checks.failed);
        let what = "Time for which accepting was paused for want of descriptors or memory.";
        text.family("accept_paused_seconds_total", COUNTER, what);
        text.sample(&[], overview.accept_paused_seconds);
        let what = "How long it has been running.";
        text.family("uptime_seconds", GAUGE, what);
        text.sample(&[], Seconds(overview.uptime_milliseconds));
        text.family("build_info", GAUGE, "What is running; always 1.");
        text.sample(&[("version", &overview.version)], 1);
        Self { whole: text, families: Vec::new() }
    }

    /// The same, and the beginnings of what is told of each backend.
    #[must_use]
    pub fn with_backends(self) -> Self {
        let families = FAMILIES.map(|Family { name, kind, help, .. }| {
            let mut text = Text::default();
            text.family(name, kind, help);
            text
        });
        Self { families: families.into(), ..self }
    }

    /// Tells of one more backend.
    pub fn add(&mut self, figures: &Figures<'_>) {
        let mut labels = String::from("{pool=\"");
        escape(figures.pool, &mut labels);
        labels.push_str("\",backend=\"");
        escape(figures.address, &mut labels);
        labels.push('"');
        for (text, family) in self.families.iter_mut().zip(&FAMILIES) {
            match family.values {
                Values::One(value) => text.labelled(&labels, value(figures)),
                Values::Waits => text.waits(&labels, &figures.waits),
            }
        }
    }

    /// The whole.
    pub(super) fn finish(&mut self) -> Rope {
        let mut whole = std::mem::take(&mut self.whole.written);
        self.families.drain(..).for_each(|family| whole.append(family.written));
        whole
    }
}

fn connections(overview: &Snapshot, text: &mut Text) {
    let mut family = |name, kind, help, value: fn(&Listener) -> u64| {
        text.family(name, kind, help);
        for listener in &overview.listeners {
            text.sample(&[("listener", &listener.name)], value(listener));
        }
    };
    let what = "Connections of clients now.";
    family("connections_active", GAUGE, what, |listener| listener.active);
    let what = "Connections accepted from clients.";
    family("connections_total", COUNTER, what, |listener| listener.total);
    let what = "Bytes that clients sent and backends took.";
    family("bytes_received_total", COUNTER, what, |listener| listener.bytes_received);
    let what = "Bytes that backends sent and clients took.";
    family("bytes_sent_total", COUNTER, what, |listener| listener.bytes_sent);
    let what = "Connections that the listener may have at one time, where it has a limit.";
    text.family("listener_connections_limit", GAUGE, what);
    for listener in &overview.listeners {
        if let Some(limit) = listener.limit {
            text.sample(&[("listener", &listener.name)], limit);
        }
    }
    let what = "How long connections lasted that have ended.";
    text.family("connection_duration_seconds", HISTOGRAM, what);
    for listener in &overview.listeners {
        text.histogram(("listener", &listener.name), listener.lives.as_ref());
    }
    let what = "Connections that ended, by the reason that access lines name.";
    text.family("connections_ended_total", COUNTER, what);
    for (reason, count) in &overview.connections.ended {
        text.sample(&[("reason", reason)], count);
    }
    text.family("connections_limit", GAUGE, "Connections there may be at one time.");
    text.sample(&[], overview.connections.limit);
}

fn pools(pools: &[Pool], text: &mut Text) {
    let mut family = |name, help, value: fn(&Pool) -> u64| {
        text.family(name, GAUGE, help);
        for pool in pools {
            text.sample(&[("pool", &pool.name)], value(pool));
        }
    };
    let what = "Whether any backend of the pool could serve.";
    family("pool_available", what, |pool| pool.available.into());
    family("pool_backends", "Backends of the pool.", |pool| pool.targets);
    family("pool_backends_up", "Backends of the pool in state up.", |pool| pool.healthy);
    let what = "Clients that wait in line for a backend now.";
    family("pool_queue_clients", what, |pool| pool.waiting);
    let what = "Time that clients have waited in line for a backend.";
    text.family("pool_queue_seconds_total", COUNTER, what);
    for pool in pools {
        text.sample(&[("pool", &pool.name)], Seconds(pool.queue_ms));
    }
    let what = "Time that connections of a pool have waited, by what for.";
    text.family("pool_wait_seconds_total", COUNTER, what);
    for pool in pools {
        let mut labels = String::from("{pool=\"");
        escape(&pool.name, &mut labels);
        labels.push('"');
        text.waits(&labels, &pool.waits_ms);
    }
    let what = "How long connects to backends took that succeeded.";
    text.family("backend_connect_seconds", HISTOGRAM, what);
    for pool in pools {
        text.histogram(("pool", &pool.name), pool.connects.as_ref());
    }
}

/// What there is to tell of each backend.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    values: Values,
}

enum Values {
    One(fn(&Figures<'_>) -> u64),
    /// One for each reason.
    Waits,
}

const FAMILIES: [Family; 7] = [
    Family {
        name: "backend_up",
        kind: GAUGE,
        help: "Whether a backend is in rotation: 1 in state up, 0 in any other.",
        values: Values::One(|backend| backend.is_up.into()),
    },
    Family {
        name: "backend_weight",
        kind: GAUGE,
        help: "The weight of a backend.",
        values: Values::One(|backend| backend.weight.into()),
    },
    Family {
        name: "backend_connections_active",
        kind: GAUGE,
        help: "Connections to a backend now, those being made included.",
        values: Values::One(|backend| backend.active),
    },
    Family {
        name: "backend_connections_total",
        kind: COUNTER,
        help: "Connections made to a backend.",
        values: Values::One(|backend| backend.total),
    },
    Family {
        name: "backend_connect_failures_total",
        kind: COUNTER,
        help: "Connects to a backend that failed at every address.",
        values: Values::One(|backend| backend.connect_failures),
    },
    Family {
        name: "health_transitions_total",
        kind: COUNTER,
        help: "How often health checks turned a backend up or down.",
        values: Values::One(|backend| backend.health_transitions),
    },
    Family {
        name: "backend_wait_seconds_total",
        kind: COUNTER,
        help: "Time that connections of a backend have waited, by what for.",
        values: Values::Waits,
    },
];

/// Milliseconds, written in seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// What has been written, and the family that samples belong to.
#[derive(Debug, Default)]
struct Text {
    written: Rope,
    family: &'static str,
}

impl Text {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        let lines =
            ["# HELP ", PREFIX, name, " ", help, "\n# TYPE ", PREFIX, name, " ", kind, "\n"];
        self.written.extend(lines);
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// One sample of a family that has several, told apart by how their names end.
    fn part(&mut self, ending: &str, labels: &[(&str, &str)], value: impl Display) {
        self.written.extend([PREFIX, self.family, ending]);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.written.extend([if index == 0 { "{" } else { "," }, name, "=\""]);
            escape(value, &mut self.written);
            self.written.extend(["\""]);
        }
        self.written.extend([if labels.is_empty() { " " } else { "} " }]);
        // Writing to memory cannot fail.
        let _ = writeln!(self.written, "{value}");
    }

    /// One sample whose labels are written already, but for the end.
    fn labelled(&mut self, labels: &str, value: impl Display) {
        self.written.extend([PREFIX, self.family, labels, "} "]);
        let _ = writeln!(self.written, "{value}");
    }

    fn waits(&mut self, labels: &str, waits: &Waits) {
        for (reason, waited) in waits.all() {
            self.written.extend([PREFIX, self.family, labels, ",reason=\"", reason, "\"} "]);
            let _ = writeln!(self.written, "{}", Seconds(waited));
        }
    }

    /// All buckets, their sum and their count; nothing where nothing is counted.
    fn histogram(&mut self, label: (&str, &str), histogram: Option<&Histogram>) {
        let Some(histogram) = histogram else { return };
        let count = histogram.count();
        for (bound, within) in histogram.buckets().chain([("+Inf", count)]) {
            self.part("_bucket", &[label, ("le", bound)], within);
        }
        self.part("_sum", &[label], histogram.seconds());
        self.part("_count", &[label], count);
    }
}

fn escape<'a>(value: &'a str, written: &mut impl Extend<&'a str>) {
    for part in value.split_inclusive(['\\', '"', '\n']) {
        let (plain, escaped) = match part.as_bytes().last() {
            Some(b'\\') => (&part[..part.len() - 1], "\\\\"),
            Some(b'"') => (&part[..part.len() - 1], "\\\""),
            Some(b'\n') => (&part[..part.len() - 1], "\\n"),
            Some(_) | None => (part, ""),
        };
        written.extend([plain, escaped]);
    }
}

/// What the answer is called.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const PREFIX: &str = "evenkeel_";
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";
const HISTOGRAM: &str = "histogram";

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::snapshot::Backend;
    use super::super::snapshot::tests::sample;
    use super::*;

    fn write(snapshot: &Snapshot) -> String {
        let mut exposition = Exposition::new(snapshot).with_backends();
        for (pool, backend) in snapshot.backends() {
            exposition.add(&figures(pool, backend));
        }
        exposition.finish().text()
    }

    pub(in crate::admin) fn figures<'a>(pool: &'a Pool, backend: &'a Backend) -> Figures<'a> {
        Figures {
            pool: &pool.name,
            address: &backend.address,
            is_up: backend.is_healthy(),
            weight: backend.weight,
            active: backend.active,
            total: backend.total,
            connect_failures: backend.connect_failures,
            health_transitions: backend.health_transitions,
            waits: backend.waits_ms,
        }
    }

    #[test]
    fn every_number_of_the_snapshot_has_its_sample() {
        let mut snapshot = sample();
        let mut connects = Histogram::of_connects();
        connects.observe(Duration::from_millis(2));
        snapshot.pools[0].connects = Some(connects);
        snapshot.listeners[0].lives = Some(Histogram::of_lives());
        snapshot.listeners[0].limit = Some(50);
        let text = write(&snapshot);
        for line in [
            "connections_active{listener=\"web\"} 2",
            "connections_total{listener=\"web\"} 14",
            "connections_limit 1000",
            "listener_connections_limit{listener=\"web\"} 50",
            "connections_ended_total{reason=\"client closed\"} 12",
            "connections_ended_total{reason=\"idle timeout\"} 0",
            "connection_duration_seconds_bucket{listener=\"web\",le=\"0.001\"} 0",
            "connection_duration_seconds_count{listener=\"web\"} 0",
            "bytes_received_total{listener=\"web\"} 10",
            "bytes_sent_total{listener=\"web\"} 20",
            "pool_available{pool=\"web\"} 1",
            "pool_backends{pool=\"web\"} 2",
            "pool_backends_up{pool=\"web\"} 1",
            "pool_queue_clients{pool=\"web\"} 0",
            "pool_queue_seconds_total{pool=\"web\"} 0.040",
            "pool_wait_seconds_total{pool=\"web\",reason=\"backend_send\"} 0.500",
            "backend_connect_seconds_bucket{pool=\"web\",le=\"0.001\"} 0",
            "backend_connect_seconds_bucket{pool=\"web\",le=\"0.0025\"} 1",
            "backend_connect_seconds_bucket{pool=\"web\",le=\"+Inf\"} 1",
            "backend_connect_seconds_sum{pool=\"web\"} 0.002",
            "backend_connect_seconds_count{pool=\"web\"} 1",
            "backend_up{pool=\"web\",backend=\"127.0.0.1:5001\"} 1",
            "backend_up{pool=\"web\",backend=\"127.0.0.1:5002\"} 0",
            "backend_weight{pool=\"web\",backend=\"127.0.0.1:5001\"} 2",
            "backend_connections_active{pool=\"web\",backend=\"127.0.0.1:5001\"} 1",
            "backend_connections_total{pool=\"web\",backend=\"127.0.0.1:5001\"} 7",
            "backend_connect_failures_total{pool=\"web\",backend=\"127.0.0.1:5001\"} 3",
            "backend_wait_seconds_total\
             {pool=\"web\",backend=\"127.0.0.1:5001\",reason=\"client_send\"} 1.500",
            "health_transitions_total{pool=\"web\",backend=\"127.0.0.1:5001\"} 2",
            "health_checks_total{result=\"passed\"} 5",
            "health_checks_total{result=\"failed\"} 6",
            "accept_paused_seconds_total 1.5",
            "uptime_seconds 61.250",
            "build_info{version=\"0.1.0\"} 1",
        ] {
            let line = [PREFIX, line].concat();
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
    }

    #[test]
    fn every_family_is_announced_once_and_right_above_its_samples() {
        let mut snapshot = sample();
        snapshot.pools[0].connects = Some(Histogram::of_connects());
        let text = write(&snapshot);
        let (mut current, mut kind, mut seen) = (String::new(), String::new(), Vec::new());
        for line in text.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next()) {
                (Some("#"), Some("HELP")) => {
                    current = words.next().unwrap().to_owned();
                    assert!(!seen.contains(&current), "{current} comes twice");
                    seen.push(current.clone());
                }
                (Some("#"), Some("TYPE")) => {
                    assert_eq!(words.next(), Some(&*current));
                    words.next().unwrap().clone_into(&mut kind);
                    assert_eq!(kind == COUNTER, current.ends_with("_total"), "{current}");
                }
                (Some(name), _) => {
                    let name = name.split('{').next().unwrap();
                    let ending = name.strip_prefix(&*current).unwrap();
                    let parts: &[&str] =
                        if kind == HISTOGRAM { &["_bucket", "_sum", "_count"] } else { &[""] };
                    assert!(parts.contains(&ending), "{name} in {current}");
                }
                (None, _) => panic!("an empty line"),
            }
        }
        assert_eq!(seen.len(), 26);
    }

    #[test]
    fn what_ends_a_label_is_escaped() {
        let mut snapshot = sample();
        snapshot.pools[0].backends[0].address = "unix:/a\"b\\c\nd".to_owned();
        let text = write(&snapshot);
        let line = "evenkeel_backend_up{pool=\"web\",backend=\"unix:/a\\\"b\\\\c\\nd\"} 1";
        assert!(text.lines().any(|written| written == line), "{text}");
    }

    #[test]
    fn backends_can_be_left_out() {
        let mut exposition = Exposition::new(&sample());
        let text = exposition.finish().text();
        assert!(!text.contains("backend=") && text.contains("pool_backends_up{"), "{text}");
    }
}
