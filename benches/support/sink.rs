//! The backends: three addresses, one thread, one step per event.
//!
//! The first byte of a connection decides what happens with it, see [`ECHO`], [`DISCARD`] and
//! [`SOURCE`]. A connection that ends without a word (a health probe) is just closed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use slab::Slab;

use super::poll::{Interest, Poll};
use super::{CHUNK, DISCARD, ECHO, SOURCE, discard};

/// Backends that serve until they are dropped.
#[derive(Debug)]
pub(crate) struct Sink {
    addresses: Vec<SocketAddr>,
    received: Arc<AtomicU64>,
    /// Its other end is with the thread, which leaves when this one closes.
    line: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Sink {
    pub(crate) fn start() -> io::Result<Self> {
        let poll = Poll::new()?;
        let (line, other_end) = UnixStream::pair()?;
        poll.watch(&other_end, LINE, Interest::IN)?;
        let mut doors = Vec::new();
        for key in 1..=BACKENDS {
            let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            // More may connect at once than the 128 that the standard library asks for.
            rustix::net::listen(&door, 4096)?;
            door.set_nonblocking(true)?;
            poll.watch(&door, key, Interest::IN)?;
            doors.push(door);
        }
        let addresses = doors.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
        let received = Arc::new(AtomicU64::new(0));
        let serving = Serving {
            poll,
            doors,
            guests: Slab::new(),
            space: vec![0; CHUNK],
            received: Arc::clone(&received),
            _line: other_end,
        };
        let thread = std::thread::spawn(move || serving.run());
        Ok(Self { addresses, received, line: Some(line), thread: Some(thread) })
    }

    /// Where the backends are.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Bytes thrown away so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.line = None;
        // A backend that failed has made the measurement fail; there is nobody left to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Serving {
    poll: Poll,
    doors: Vec<TcpListener>,
    guests: Slab<Guest>,
    space: Vec<u8>,
    received: Arc<AtomicU64>,
    _line: UnixStream,
}

impl Serving {
    fn run(mut self) -> io::Result<()> {
        let mut keys = Vec::new();
        loop {
            self.poll.wait(&mut keys, Duration::from_secs(3600))?;
            for &key in &keys {
                match key {
                    LINE => return Ok(()),
                    1..=BACKENDS => self.accept(key - 1)?,
                    key => self.serve(key - GUESTS)?,
                }
            }
        }
    }

    fn accept(&mut self, door: usize) -> io::Result<()> {
        for _ in 0..64 {
            match self.doors[door].accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let slot = self.guests.vacant_entry();
                    self.poll.watch(&stream, GUESTS + slot.key(), Interest::IN)?;
                    slot.insert(Guest { stream, manner: None });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn serve(&mut self, slot: usize) -> io::Result<()> {
        let Some(guest) = self.guests.get_mut(slot) else { return Ok(()) };
        let outcome = match guest.manner {
            None | Some(ECHO) => guest.echo(&mut self.space),
            Some(SOURCE) => guest.stream.write(&self.space).map(|_| ()),
            Some(_) => discard(&guest.stream, &mut self.space).and_then(|count| {
                self.received.fetch_add(count as u64, Ordering::Relaxed);
                if count == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
            }),
        };
        match outcome {
            Ok(()) if guest.manner == Some(SOURCE) => {
                self.poll.change(&guest.stream, GUESTS + slot, Interest::OUT)
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                self.guests.remove(slot);
                Ok(())
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

struct Guest {
    stream: TcpStream,
    manner: Option<u8>,
}

impl Guest {
    /// Sends back what came, which is a message or two and always fits; a first byte that asks for
    /// something else is obeyed instead.
    fn echo(&mut self, space: &mut [u8]) -> io::Result<()> {
        let count = self.stream.read(space)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let manner = *self.manner.get_or_insert(space[0]);
        if manner == DISCARD || manner == SOURCE {
            return Ok(());
        }
        self.stream.write_all(&space[..count])
    }
}

const BACKENDS: usize = 3;
const LINE: usize = 0;
const GUESTS: usize = BACKENDS + 1;
