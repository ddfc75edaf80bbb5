//! One direction of a pair, pumped between streams in memory: what the balancer itself costs.
//!
//! `message` is a lone message that the sink takes at once, `bulk` a long stream through a scratch
//! buffer of a given size, and `slow_sink` one whose sink takes half of every write, so that the
//! other half waits in a pooled buffer.

use std::hint::black_box;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use evenkeel::pair::buffer::BufferPool;
use evenkeel::pair::endpoint::{Endpoint, Ready, Stream};
use evenkeel::pair::flow::{Flow, Pump, Stores};
use evenkeel::pair::pipe::PipeStock;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .configure_from_args();
    messages(&mut criterion);
    bulk(&mut criterion);
    slow_sink(&mut criterion);
    criterion.final_summary();
}

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flow/message");
    for size in [1, 64, 1024, 16 * KIB, 63 * KIB] {
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_with_input(BenchmarkId::from_parameter(size), &size, |bencher, &size| {
            let mut line = Line::new(64 * KIB, usize::MAX);
            bencher.iter(|| line.carry(size));
        });
    }
    group.finish();
}

fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flow/bulk");
    group.throughput(Throughput::Bytes(MIB as u64));
    for buffer in [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB] {
        group.bench_with_input(BenchmarkId::from_parameter(buffer), &buffer, |bencher, &buffer| {
            let mut line = Line::new(buffer, usize::MAX);
            bencher.iter(|| line.carry(MIB));
        });
    }
    group.finish();
}

fn slow_sink(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("flow/slow_sink");
    group.throughput(Throughput::Bytes(MIB as u64));
    for buffer in [4 * KIB, 16 * KIB, 64 * KIB] {
        group.bench_with_input(BenchmarkId::from_parameter(buffer), &buffer, |bencher, &buffer| {
            let mut line = Line::new(buffer, buffer / 2);
            bencher.iter(|| line.carry(MIB));
        });
    }
    group.finish();
}

/// A flow with both its ends and all it borrows.
struct Line {
    flow: Flow<()>,
    source: Endpoint<Memory>,
    sink: Endpoint<Memory>,
    stores: Stores<()>,
}

impl Line {
    /// Reads go through `buffer` bytes; the sink takes at most `room` bytes of a write.
    fn new(buffer: usize, room: usize) -> Self {
        Self {
            flow: Flow::default(),
            source: Endpoint::new(Memory::new(buffer, 0), Ready::NONE),
            sink: Endpoint::new(Memory::new(buffer, room), Ready::WRITABLE),
            stores: Stores {
                scratch: vec![0; buffer].into_boxed_slice(),
                buffers: BufferPool::new(buffer, 1),
                pipes: PipeStock::new(0),
            },
        }
    }

    /// Has `count` bytes arrive, and tells the endpoints of news until all are delivered.
    fn carry(&mut self, count: usize) {
        let before = self.flow.bytes();
        self.source.stream_mut().unread = count;
        self.source.mark(Ready::READABLE);
        while self.flow.bytes() - before < count as u64 {
            let mut pump = Pump {
                stores: &mut self.stores,
                budget: usize::MAX,
                closing: false,
                splice_after: None,
            };
            let progress = self.flow.pump(&mut self.source, &mut self.sink, &mut pump);
            assert!(progress.moved > 0, "the flow stands still with bytes to move");
            self.sink.mark(Ready::WRITABLE);
        }
    }
}

/// A stream without a kernel: what it gives comes from memory, what it takes goes there.
struct Memory {
    space: Box<[u8]>,
    unread: usize,
    room: usize,
}

impl Memory {
    fn new(size: usize, room: usize) -> Self {
        Self { space: vec![b'x'; size].into_boxed_slice(), unread: 0, room }
    }
}

impl Read for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.unread.min(into.len());
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into[..count].copy_from_slice(&self.space[..count]);
        self.unread -= count;
        Ok(count)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room);
        self.space[..count].copy_from_slice(&bytes[..count]);
        black_box(&self.space);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Memory {
    type Pipe = ();

    fn make_pipe() -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn fill(&mut self, (): &mut ()) -> io::Result<usize> {
        Err(ErrorKind::InvalidInput.into())
    }

    fn drain(&mut self, (): &mut (), _: usize) -> io::Result<usize> {
        Err(ErrorKind::InvalidInput.into())
    }

    fn establish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
