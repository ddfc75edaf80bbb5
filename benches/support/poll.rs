//! Readiness of sockets, level-triggered: whoever was not read to the end is simply told again, so
//! backends and load generators take one step per event and are fair without a queue.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData};

pub(crate) use rustix::event::epoll::EventFlags as Interest;

/// A set of sockets with a key each.
#[derive(Debug)]
pub(crate) struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Adds a socket; it leaves when it is closed.
    pub(crate) fn watch(&self, socket: impl AsFd, key: usize, what: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(key as u64), what)?)
    }

    /// Waits for something else on a socket.
    pub(crate) fn change(&self, socket: impl AsFd, key: usize, what: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(key as u64), what)?)
    }

    /// Replaces `keys` by those of the sockets that have something to tell.
    pub(crate) fn wait(&self, keys: &mut Vec<usize>, timeout: Duration) -> io::Result<()> {
        keys.clear();
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let nothing = Event { flags: Interest::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; 128];
        match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
            Ok(count) => {
                let keyed = events[..count].iter().map(|event| event.data.u64());
                keys.extend(keyed.filter_map(|key| usize::try_from(key).ok()));
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
