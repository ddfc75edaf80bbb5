//! The real daemon over loopback, between a client and backends in this process.
//!
//! `up` and `down` are one long stream each way, with and without splicing; `round_trip` is 64
//! bytes there and back on a kept connection; `connection` connects, exchanges 64 bytes and closes.
//! They measure the time of the whole path, client and backend included. What the daemon alone
//! costs is measured by `peers`.

#![expect(clippy::expect_used, reason = "a bench that cannot go on says where")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use tempfile::TempDir;

mod support;

use support::process::{Process, configuration, evenkeel};
use support::sink::Sink;
use support::{CHUNK, DISCARD, ECHO, MESSAGE, SOURCE, discard, until};

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20)
        .configure_from_args();
    streams(&mut criterion);
    exchanges(&mut criterion);
    criterion.final_summary();
}

fn streams(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("relay");
    group.throughput(Throughput::Bytes(PIECE as u64));
    for (way, splice) in [("splice", true), ("copy", false)] {
        group.bench_function(BenchmarkId::new("up", way), |bencher| {
            let rig = Rig::new(splice);
            let mut stream = rig.connect();
            let chunk = vec![DISCARD; CHUNK];
            bencher.iter(|| {
                for _ in 0..PIECE / CHUNK {
                    stream.write_all(&chunk).expect("the daemon takes what is sent");
                }
            });
            stream.shutdown(Shutdown::Write).expect("the stream can be finished");
            let end = stream.read(&mut [0]).expect("the daemon finishes in turn");
            assert_eq!((end, rig.sink.received() > 0), (0, true), "bytes arrived, then the end");
        });
        group.bench_function(BenchmarkId::new("down", way), |bencher| {
            let rig = Rig::new(splice);
            let mut stream = rig.connect();
            stream.write_all(&[SOURCE]).expect("the daemon takes what is sent");
            let mut space = vec![0; CHUNK];
            bencher.iter(|| {
                let mut left = PIECE;
                while left > 0 {
                    let wanted = left.min(CHUNK);
                    let count = discard(&stream, &mut space[..wanted]).expect("bytes come");
                    assert!(count > 0, "the stream ended early");
                    left -= count;
                }
            });
        });
    }
    group.finish();
}

fn exchanges(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("relay");
    group.throughput(Throughput::Elements(1));
    group.bench_function("round_trip", |bencher| {
        let rig = Rig::new(true);
        let mut stream = rig.connect();
        bencher.iter(|| exchange(&mut stream));
    });
    group.bench_function("connection", |bencher| {
        let rig = Rig::new(true);
        bencher.iter(|| exchange(&mut rig.connect()));
    });
    group.finish();
}

fn exchange(stream: &mut TcpStream) {
    let mut answer = [0; MESSAGE];
    stream.write_all(&[ECHO; MESSAGE]).expect("the daemon takes what is sent");
    stream.read_exact(&mut answer).expect("an answer comes");
    assert_eq!(answer, [ECHO; MESSAGE]);
}

/// The daemon with its backends; all end with it.
struct Rig {
    address: SocketAddr,
    _daemon: Process,
    sink: Sink,
    _folder: TempDir,
}

impl Rig {
    fn new(splice: bool) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let sink = Sink::start().expect("backends can be started");
        let config = configuration(sink.addresses(), splice, "tcp");
        let (mut daemon, address) =
            evenkeel("relay", folder.path(), &config).expect("the daemon starts");
        until("every backend is up", || {
            let output = daemon.output()?;
            Ok((output.matches("Health check OK").count() >= sink.addresses().len()).then_some(()))
        })
        .expect("the backends pass their probes");
        Self { address, _daemon: daemon, sink, _folder: folder }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the daemon accepts");
        stream.set_nodelay(true).expect("the stream is connected");
        stream
    }
}

/// Bytes of one measured step: more than what sockets and pipes hold between client and backend.
const PIECE: usize = 16 * 1024 * 1024;
