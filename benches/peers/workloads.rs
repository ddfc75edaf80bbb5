//! What is measured: each workload gets a fresh proxy, fresh backends and fresh ports.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::load::{Direction, Load, Measured, Reading, Window};
use crate::proxies::{Peer, Proxy, free_address, is_listening, program};
use crate::support::process::{Process, find};
use crate::support::sink::Sink;
use crate::support::{ECHO, MESSAGE, clock, until};

/// A kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// So many streams at full speed.
    Bulk(usize, Direction),
    /// One stream of iperf3.
    Iperf(Direction),
    /// 64 connections, each with one request of 64 bytes under way.
    RoundTrips,
    /// 64 at a time: connect, exchange 64 bytes, close.
    Churn,
}

impl Workload {
    pub(crate) const ALL: [Self; 8] = [
        Self::Bulk(1, Direction::Up),
        Self::Bulk(1, Direction::Down),
        Self::Bulk(8, Direction::Up),
        Self::Bulk(8, Direction::Down),
        Self::Iperf(Direction::Up),
        Self::Iperf(Direction::Down),
        Self::RoundTrips,
        Self::Churn,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Bulk(streams, Direction::Up) => format!("bulk{streams}-up"),
            Self::Bulk(streams, Direction::Down) => format!("bulk{streams}-down"),
            Self::Iperf(Direction::Up) => "iperf3-up".to_owned(),
            Self::Iperf(Direction::Down) => "iperf3-down".to_owned(),
            Self::RoundTrips => "rr64".to_owned(),
            Self::Churn => "churn".to_owned(),
        }
    }

    /// What is not there to make this load.
    pub(crate) fn missing(self) -> Option<&'static str> {
        match self {
            Self::Iperf(_) => find("iperf3").is_none().then_some("iperf3"),
            Self::Bulk(..) | Self::RoundTrips | Self::Churn => None,
        }
    }

    /// Whether it can tell this peer from another: splicing is about streams.
    pub(crate) fn suits(self, peer: Peer) -> bool {
        self.is_bulk() || peer != Peer::EvenkeelCopy
    }

    fn is_bulk(self) -> bool {
        match self {
            Self::Bulk(..) | Self::Iperf(_) => true,
            Self::RoundTrips | Self::Churn => false,
        }
    }

    /// What is counted a second, and what of the proxy's CPU time a unit costs.
    pub(crate) fn units(self) -> (&'static str, &'static str) {
        match self {
            Self::Bulk(..) | Self::Iperf(_) => ("GB/s", "CPU s/GB"),
            Self::RoundTrips => ("requests/s", "CPU µs/request"),
            Self::Churn => ("connections/s", "CPU µs/connection"),
        }
    }

    /// How many bytes, requests or connections are one unit of the rate.
    fn unit(self) -> f64 {
        if self.is_bulk() { 1e9 } else { 1.0 }
    }

    /// Units a second.
    pub(crate) fn rate(self, measured: &Measured) -> f64 {
        measured.units as f64 / self.unit() / measured.seconds
    }

    /// CPU time of the proxy per unit.
    pub(crate) fn cost(self, measured: &Measured) -> Option<f64> {
        let scale = if self.is_bulk() { 1.0 } else { 1e6 };
        measured.cpu.map(|cpu| cpu * scale * self.unit() / measured.units as f64)
    }

    /// Measures one peer once.
    pub(crate) fn measure(self, peer: Peer, window: Window) -> io::Result<Measured> {
        let folder = tempfile::tempdir()?;
        if let Self::Iperf(direction) = self {
            return iperf(peer, folder.path(), direction, window.length);
        }
        let sink = Sink::start()?;
        let proxy = peer.start(folder.path(), sink.addresses(), true)?;
        until("an echo passes", || Ok(echo(proxy.targets[0]).ok()))?;
        let family = proxy.family()?;
        let read = || {
            let cpu = proxy.cpu(&family)?;
            Ok(Reading { at: clock(), cpu, received: sink.received() })
        };
        let load = Load { targets: &proxy.targets, window, read: &read };
        match self {
            Self::Bulk(streams, direction) => load.bulk(streams, direction),
            Self::RoundTrips => load.round_trips(64),
            Self::Churn => load.churn(64),
            Self::Iperf(_) => unreachable!("measured above"),
        }
    }
}

/// One exchange on a connection of its own.
fn echo(target: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(target)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(&[ECHO; MESSAGE])?;
    stream.read_exact(&mut [0; MESSAGE])
}

/// iperf3's control and data connections must meet the same server, so there is one backend, and
/// no health check, which the server would take for a client.
fn iperf(
    peer: Peer,
    folder: &Path,
    direction: Direction,
    length: Duration,
) -> io::Result<Measured> {
    let at = free_address()?;
    let (host, port) = (at.ip().to_string(), at.port().to_string());
    let words = [program("iperf3"), "-s".into(), "-B".into(), host, "-p".into(), port];
    let mut server = Process::start("iperf3", folder, &words)?;
    until("iperf3 listens", || {
        server.output()?;
        Ok(is_listening(at)?.then_some(()))
    })?;
    let proxy = peer.start(folder, &[at], false)?;
    let family = proxy.family()?;
    let before = proxy.cpu(&family)?;
    let report = iperf_client(&proxy, direction, length)?;
    let used = proxy.cpu(&family)?.zip(before).map(|(after, before)| after.saturating_sub(before));
    let received = &report["end"]["sum_received"];
    match (received["bytes"].as_u64(), received["seconds"].as_f64()) {
        (Some(units), Some(seconds)) if units > 0 && seconds > 0.0 => Ok(Measured {
            units,
            seconds,
            cpu: used.map(|used| used.as_secs_f64()),
            latencies: Vec::new(),
        }),
        _ => Err(io::Error::other(format!("iperf3: {}", report["error"]))),
    }
}

fn iperf_client(proxy: &Proxy, direction: Direction, length: Duration) -> io::Result<Value> {
    let (host, port) = (proxy.targets[0].ip().to_string(), proxy.targets[0].port().to_string());
    // A proxy that stalls must not stall the bench; iperf3 itself counts in whole seconds.
    let mut command = Command::new("timeout");
    command.arg((length.as_secs() + 20).to_string()).arg(program("iperf3"));
    command.args(["-J", "-c", &host, "-p", &port]);
    match length.as_secs() {
        0 => command.args(["-n", "8M"]),
        seconds => command.args(["-t", &seconds.to_string()]),
    };
    if direction == Direction::Down {
        command.arg("-R");
    }
    let output = command.output()?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| io::Error::other(format!("iperf3 ended with {}", output.status)))
}
