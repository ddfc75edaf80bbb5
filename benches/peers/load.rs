//! The load: closed loops over many connections, on the calling thread.
//!
//! A [`Load`] warms up, takes a reading of what is measured, goes on for the window, and takes
//! another. Latencies are those of exchanges that ended inside the window. Anything unexpected (a
//! stream that ends, a refused connect) is an error: such a measurement says nothing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::support::poll::{Interest, Poll};
use crate::support::{CHUNK, DISCARD, ECHO, MESSAGE, SOURCE, clock, discard};

/// How long is warmed up and measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) warm: Duration,
    pub(crate) length: Duration,
}

/// Counters at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    /// CPU time the proxy has used; `None` where there is no proxy.
    pub(crate) cpu: Option<Duration>,
    /// Bytes thrown away by the backends.
    pub(crate) received: u64,
}

/// What a window brought.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// Bytes, requests or connections.
    pub(crate) units: u64,
    pub(crate) seconds: f64,
    /// CPU seconds of the proxy.
    pub(crate) cpu: Option<f64>,
    /// Sorted; empty for streams.
    pub(crate) latencies: Vec<Duration>,
}

/// The way of a bulk stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the backend.
    Up,
    /// From the backend to the client.
    Down,
}

/// A generator of load against `targets` in turn.
pub(crate) struct Load<'a> {
    pub(crate) targets: &'a [SocketAddr],
    pub(crate) window: Window,
    pub(crate) read: &'a dyn Fn() -> io::Result<Reading>,
}

impl Load<'_> {
    /// Streams at full speed.
    pub(crate) fn bulk(&self, streams: usize, direction: Direction) -> io::Result<Measured> {
        let poll = Poll::new()?;
        let (first, interest) = match direction {
            Direction::Up => (DISCARD, Interest::OUT),
            Direction::Down => (SOURCE, Interest::IN),
        };
        let mut clients = Vec::new();
        for key in 0..streams {
            let mut stream = TcpStream::connect(self.target(key))?;
            stream.write_all(&[first])?;
            stream.set_nonblocking(true)?;
            poll.watch(&stream, key, interest)?;
            clients.push(stream);
        }
        let mut space = vec![first; CHUNK];
        self.drive(&poll, direction == Direction::Up, |key| {
            let moved = match direction {
                // What the backends have received is what counts.
                Direction::Up => clients[key].write(&space).map(|_| 0),
                Direction::Down => discard(&clients[key], &mut space).and_then(ended),
            };
            Ok(Served { units: tolerant(moved)?, took: None })
        })
    }

    /// Requests and answers of 64 bytes over connections that stay.
    pub(crate) fn round_trips(&self, connections: usize) -> io::Result<Measured> {
        let poll = Poll::new()?;
        let mut clients = Vec::new();
        for key in 0..connections {
            let stream = TcpStream::connect(self.target(key))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            poll.watch(&stream, key, Interest::IN)?;
            let mut client = Exchange { stream, begun: clock(), received: 0 };
            client.ask()?;
            clients.push(client);
        }
        self.drive(&poll, false, |key| {
            let client = &mut clients[key];
            let took = client.hear()?;
            if took.is_some() {
                client.begun = clock();
                client.ask()?;
            }
            Ok(Served { units: took.iter().count() as u64, took })
        })
    }

    /// Connect, exchange 64 bytes, close; so many at once.
    pub(crate) fn churn(&self, at_once: usize) -> io::Result<Measured> {
        let poll = Poll::new()?;
        let mut clients = Vec::new();
        for key in 0..at_once {
            clients.push(Visit::begin(&poll, key, key, self.target(key))?);
        }
        let mut visits = at_once;
        self.drive(&poll, false, |key| {
            let client = &mut clients[key];
            let took = client.go_on(&poll, key)?;
            if took.is_some() {
                *client = Visit::begin(&poll, key, visits, self.target(visits))?;
                visits += 1;
            }
            Ok(Served { units: took.iter().count() as u64, took })
        })
    }

    fn target(&self, turn: usize) -> SocketAddr {
        self.targets[turn % self.targets.len()]
    }

    /// Serves events until the window has passed.
    fn drive(
        &self,
        poll: &Poll,
        count_received: bool,
        mut serve: impl FnMut(usize) -> io::Result<Served>,
    ) -> io::Result<Measured> {
        let warm = clock() + self.window.warm;
        let mut start: Option<Reading> = None;
        let mut measured = Measured::default();
        let mut keys = Vec::new();
        loop {
            poll.wait(&mut keys, Duration::from_millis(10))?;
            let now = clock();
            match start {
                None if now >= warm => start = Some((self.read)()?),
                Some(start) if now >= start.at + self.window.length => {
                    let end = (self.read)()?;
                    if count_received {
                        measured.units = end.received - start.received;
                    }
                    measured.seconds = (end.at - start.at).as_secs_f64();
                    let used = end.cpu.zip(start.cpu).map(|(end, start)| end.saturating_sub(start));
                    measured.cpu = used.map(|used| used.as_secs_f64());
                    measured.latencies.sort_unstable();
                    return match measured.units {
                        0 => Err(io::Error::other("nothing moved while it was measured")),
                        _ => Ok(measured),
                    };
                }
                None | Some(_) => {}
            }
            for &key in &keys {
                let served = serve(key)?;
                if start.is_some() {
                    measured.units += served.units;
                    measured.latencies.extend(served.took);
                }
            }
        }
    }
}

/// What one event brought.
struct Served {
    units: u64,
    took: Option<Duration>,
}

/// A connection with a request under way.
struct Exchange {
    stream: TcpStream,
    begun: Instant,
    received: usize,
}

impl Exchange {
    fn ask(&mut self) -> io::Result<()> {
        self.received = 0;
        self.stream.write_all(&[ECHO; MESSAGE])
    }

    /// The time since it began, once the answer is complete.
    fn hear(&mut self) -> io::Result<Option<Duration>> {
        let mut space = [0; MESSAGE];
        let left = MESSAGE - self.received;
        let count = tolerant(self.stream.read(&mut space[..left]).and_then(ended))?;
        self.received += usize::try_from(count).unwrap_or(left);
        Ok((self.received == MESSAGE).then(|| clock() - self.begun))
    }
}

/// A connection for one exchange, and whether the request was sent.
struct Visit {
    exchange: Exchange,
    asked: bool,
}

impl Visit {
    fn begin(poll: &Poll, key: usize, turn: usize, target: SocketAddr) -> io::Result<Self> {
        let begun = clock();
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        socket.bind(&source(turn).into())?;
        match socket.connect(&target.into()) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut exchange = Exchange { stream: socket.into(), begun, received: 0 };
        // On loopback the connection is usually there by now.
        let asked = match exchange.ask() {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => return Err(error),
        };
        let interest = if asked { Interest::IN } else { Interest::OUT };
        poll.watch(&exchange.stream, key, interest)?;
        Ok(Self { exchange, asked })
    }

    fn go_on(&mut self, poll: &Poll, key: usize) -> io::Result<Option<Duration>> {
        if self.asked {
            return self.exchange.hear();
        }
        self.exchange.ask()?;
        self.asked = true;
        poll.change(&self.exchange.stream, key, Interest::IN)?;
        Ok(None)
    }
}

/// Connections come from many addresses, as closed ones keep their port for a minute.
fn source(turn: usize) -> SocketAddr {
    let host = u8::try_from(turn % 32).unwrap_or(0);
    SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, 1 + host), 0).into()
}

/// A count, unless it says that the stream has ended.
fn ended(count: usize) -> io::Result<u64> {
    match count {
        0 => Err(io::Error::new(ErrorKind::UnexpectedEof, "a connection was closed on us")),
        count => Ok(count as u64),
    }
}

/// Would-block is no count, but no error either.
fn tolerant(outcome: io::Result<u64>) -> io::Result<u64> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        outcome => outcome,
    }
}

/// EINPROGRESS.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();
