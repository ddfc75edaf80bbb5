//! The two queues of a socket. They store no bytes, only how many there are: byte `i` of a
//! direction is a function of `i` and the direction's key, so whoever is given it can tell. A header
//! may go before them.

use std::fmt;

/// What a pipe holds: a run of bytes of one direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) key: u64,
    pub(crate) start: u64,
    pub(crate) count: u64,
}

/// The queue towards us.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) key: u64,
    /// The header that the peer begins with; the counts below include it.
    pub(crate) head: Vec<u8>,
    pub(crate) arrived: u64,
    pub(crate) taken: u64,
    pub(crate) window: u64,
    pub(crate) urgent: Option<u64>,
    pub(crate) ended: bool,
}

impl Incoming {
    pub(crate) fn unread(&self) -> u64 {
        self.arrived - self.taken
    }

    /// Of what follows the header, so much has arrived.
    pub(crate) fn arrived_behind_head(&self) -> u64 {
        self.arrived.saturating_sub(self.head.len() as u64)
    }

    /// Of what follows the header, so much was read.
    pub(crate) fn taken_behind_head(&self) -> u64 {
        self.taken.saturating_sub(self.head.len() as u64)
    }

    /// How much more the peer may send.
    pub(crate) fn window(&self) -> u64 {
        self.window.saturating_sub(self.unread())
    }
}

/// The queue towards the peer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) key: u64,
    /// The header that we must begin with; the counts below include it.
    pub(crate) head: Vec<u8>,
    pub(crate) written: u64,
    pub(crate) drained: u64,
    pub(crate) capacity: u64,
    pub(crate) shut: bool,
    /// A write found too little room: an event is owed.
    pub(crate) starved: bool,
}

impl Outgoing {
    pub(crate) fn queued(&self) -> u64 {
        self.written - self.drained
    }

    /// Of what follows the header, so much was written.
    pub(crate) fn written_behind_head(&self) -> u64 {
        self.written.saturating_sub(self.head.len() as u64)
    }

    /// Of what follows the header, the peer has so much.
    pub(crate) fn drained_behind_head(&self) -> u64 {
        self.drained.saturating_sub(self.head.len() as u64)
    }

    /// Whether the peer was told the header.
    pub(crate) fn has_head(&self) -> bool {
        self.written >= self.head.len() as u64
    }

    pub(crate) fn room(&self) -> u64 {
        self.capacity - self.queued()
    }

    /// Linux calls a socket writable when a third of its buffer is free.
    pub(crate) fn is_roomy(&self) -> bool {
        self.room() * 3 >= self.capacity
    }
}

/// Which socket of which pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) pair: u64,
    pub(crate) backend: bool,
}

impl Name {
    pub(crate) fn key(self) -> u64 {
        self.pair * 2 + u64::from(self.backend)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", if self.backend { "backend" } else { "client" }, self.pair)
    }
}

/// The byte at an offset of a direction that begins with a header.
pub(crate) fn byte(head: &[u8], key: u64, offset: u64) -> u8 {
    let of_head = usize::try_from(offset).ok().and_then(|at| head.get(at));
    of_head.copied().unwrap_or_else(|| content(key, offset - head.len() as u64))
}

/// The byte at an offset of a direction.
fn content(key: u64, offset: u64) -> u8 {
    (offset.wrapping_add(key.wrapping_mul(77)).wrapping_mul(0x9e37_79b9) >> 13).to_le_bytes()[0]
}

/// The most that a pipe takes at once.
pub(crate) const PIPE: u64 = 24;
