//! A snapshot in the text format of Prometheus, version 0.0.4.
//!
//! Every family has its HELP and TYPE once, above all its samples. Labels are bounded by the
//! configuration: listeners, pools and their backends, and the fixed list of reasons.

use std::fmt::{self, Display, Write};

use super::snapshot::Snapshot;

/// The whole exposition.
#[must_use]
pub fn write(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    connections(snapshot, &mut text);
    bytes(snapshot, &mut text);
    backends(snapshot, &mut text);
    let checks = &snapshot.health_checks;
    text.family("health_checks_total", COUNTER, "Results of health checks.");
    text.sample(&[("result", "passed")], checks.passed);
    text.sample(&[("result", "failed")], checks.failed);
    let what = "Time for which accepting was paused for want of descriptors or memory.";
    text.family("accept_paused_seconds_total", COUNTER, what);
    text.sample(&[], snapshot.accept_paused_seconds);
    text.family("build_info", GAUGE, "What is running; always 1.");
    text.sample(&[("version", &snapshot.version)], 1);
    text.written
}

fn connections(snapshot: &Snapshot, text: &mut Text) {
    text.family("connections_active", GAUGE, "Connections of clients now.");
    for listener in &snapshot.listeners {
        text.sample(&[("listener", &listener.name)], listener.active);
    }
    text.family("connections_total", COUNTER, "Connections accepted from clients.");
    for listener in &snapshot.listeners {
        text.sample(&[("listener", &listener.name)], listener.total);
    }
    let what = "Connections that ended, by the reason that access lines name.";
    text.family("connections_ended_total", COUNTER, what);
    for (reason, count) in &snapshot.connections.ended {
        text.sample(&[("reason", reason)], count);
    }
}

fn bytes(snapshot: &Snapshot, text: &mut Text) {
    text.family("bytes_received_total", COUNTER, "Bytes that clients sent and backends took.");
    for listener in &snapshot.listeners {
        text.sample(&[("listener", &listener.name)], listener.bytes_received);
    }
    text.family("bytes_sent_total", COUNTER, "Bytes that backends sent and clients took.");
    for listener in &snapshot.listeners {
        text.sample(&[("listener", &listener.name)], listener.bytes_sent);
    }
}

fn backends(snapshot: &Snapshot, text: &mut Text) {
    let mut family = |name, kind, what, value: fn(&super::snapshot::Backend) -> u64| {
        text.family(name, kind, what);
        for (pool, backend) in snapshot.backends() {
            text.sample(&[("pool", &pool.name), ("backend", &backend.address)], value(backend));
        }
    };
    let what = "Whether a backend is in rotation: 1 in state up, 0 in any other.";
    family("backend_up", GAUGE, what, |backend| backend.is_healthy().into());
    let what = "The weight of a backend.";
    family("backend_weight", GAUGE, what, |backend| backend.weight.into());
    let what = "Connects to a backend that failed at every address.";
    family("backend_connect_failures_total", COUNTER, what, |backend| backend.connect_failures);
    let what = "How often health checks turned a backend up or down.";
    family("health_transitions_total", COUNTER, what, |backend| backend.health_transitions);
    let what = "Time that connections of a backend have waited, by what for.";
    text.family("backend_wait_seconds_total", COUNTER, what);
    for (pool, backend) in snapshot.backends() {
        for (reason, waited) in backend.waits_ms.all() {
            let labels =
                [("pool", &*pool.name), ("backend", &*backend.address), ("reason", reason)];
            text.sample(&labels, Seconds(waited));
        }
    }
}

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
    written: String,
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
        self.written.extend([PREFIX, self.family]);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.written.push_str(if index == 0 { "{" } else { "," });
            self.written.extend([*name, "=\""]);
            self.escape(value);
            self.written.push('"');
        }
        self.written.push_str(if labels.is_empty() { " " } else { "} " });
        // Writing to a string cannot fail.
        let _ = writeln!(self.written, "{value}");
    }

    fn escape(&mut self, value: &str) {
        for letter in value.chars() {
            match letter {
                '\\' => self.written.push_str("\\\\"),
                '"' => self.written.push_str("\\\""),
                '\n' => self.written.push_str("\\n"),
                other => self.written.push(other),
            }
        }
    }
}

/// What the answer is called.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const PREFIX: &str = "evenkeel_";
const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

#[cfg(test)]
mod tests {
    use super::super::snapshot::tests::sample;
    use super::*;

    #[test]
    fn every_number_of_the_snapshot_has_its_sample() {
        let text = write(&sample());
        for line in [
            "evenkeel_connections_active{listener=\"web\"} 2",
            "evenkeel_connections_total{listener=\"web\"} 14",
            "evenkeel_connections_ended_total{reason=\"client closed\"} 12",
            "evenkeel_connections_ended_total{reason=\"idle timeout\"} 0",
            "evenkeel_bytes_received_total{listener=\"web\"} 10",
            "evenkeel_bytes_sent_total{listener=\"web\"} 20",
            "evenkeel_backend_up{pool=\"web\",backend=\"127.0.0.1:5001\"} 1",
            "evenkeel_backend_up{pool=\"web\",backend=\"127.0.0.1:5002\"} 0",
            "evenkeel_backend_weight{pool=\"web\",backend=\"127.0.0.1:5001\"} 2",
            "evenkeel_backend_connect_failures_total{pool=\"web\",backend=\"127.0.0.1:5001\"} 3",
            "evenkeel_health_transitions_total{pool=\"web\",backend=\"127.0.0.1:5001\"} 2",
            "evenkeel_backend_wait_seconds_total\
             {pool=\"web\",backend=\"127.0.0.1:5001\",reason=\"client_send\"} 1.500",
            "evenkeel_health_checks_total{result=\"passed\"} 5",
            "evenkeel_health_checks_total{result=\"failed\"} 6",
            "evenkeel_accept_paused_seconds_total 1.5",
            "evenkeel_build_info{version=\"0.1.0\"} 1",
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
    }

    #[test]
    fn every_family_is_announced_once_and_right_above_its_samples() {
        let text = write(&sample());
        let (mut current, mut seen) = (String::new(), Vec::new());
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
                    let is_counter = words.next() == Some(COUNTER);
                    assert_eq!(is_counter, current.ends_with("_total"), "{current}");
                }
                (Some(name), _) => assert_eq!(name.split('{').next(), Some(&*current)),
                (None, _) => panic!("an empty line"),
            }
        }
        assert_eq!(seen.len(), 13);
    }

    #[test]
    fn what_ends_a_label_is_escaped() {
        let mut snapshot = sample();
        snapshot.pools[0].backends[0].address = "unix:/a\"b\\c\nd".to_owned();
        let text = write(&snapshot);
        let line = "evenkeel_backend_up{pool=\"web\",backend=\"unix:/a\\\"b\\\\c\\nd\"} 1";
        assert!(text.lines().any(|written| written == line), "{text}");
    }
}
