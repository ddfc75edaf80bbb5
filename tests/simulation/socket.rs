//! A stream socket as the Linux kernel keeps it, with the calls that the pair makes and the changes
//! that network and peer bring.
//!
//! What is modelled is what an edge-triggered reader can notice: a read takes what is queued and
//! stops short at an urgent mark; a splice takes a queue that begins with one for an empty one; an
//! end of stream is sticky; a reset leaves what was queued readable, reports its error once to
//! whichever call comes first, and looks like an end to reads after that; one that follows an end
//! of stream is told to writes only, as a broken pipe. A send buffer has room; a write that finds
//! too little is owed an event once a third is free. Events tell of changes only.

use std::io::{self, ErrorKind};

use evenkeel::pair::endpoint::Ready;

use crate::queues::{Incoming, Name, Outgoing, PIPE, Run, byte};
use crate::random::Random;
use crate::trace::Trace;

/// Both queues of a socket and the state of its connection.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) name: Name,
    pub(crate) link: Link,
    pub(crate) error: Option<ErrorKind>,
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    /// How our side closed it.
    pub(crate) parted: Option<Parting>,
    /// Counts whatever a pair has to take for progress.
    pub(crate) activity: u64,
    /// Whether our side was told that a direction has ended or is broken.
    pub(crate) told_end: bool,
    edge: Ready,
    /// What would-block has answered since the last event: asking again is a wasted call.
    vain: Ready,
    habits: Habits,
    calls: u32,
    random: Random,
    trace: Trace,
}

impl Socket {
    pub(crate) fn new(
        name: Name,
        link: Link,
        habits: Habits,
        mut random: Random,
        trace: Trace,
    ) -> Self {
        let outgoing_key = Name { backend: !name.backend, ..name }.key();
        Self {
            link,
            error: None,
            incoming: Incoming {
                key: name.key(),
                head: Vec::new(),
                arrived: 0,
                taken: 0,
                window: random.between(1, habits.queue),
                urgent: None,
                ended: false,
            },
            outgoing: Outgoing {
                key: outgoing_key,
                head: Vec::new(),
                written: 0,
                drained: 0,
                capacity: random.between(1, habits.queue),
                shut: false,
                starved: false,
            },
            name,
            parted: None,
            activity: 0,
            told_end: false,
            edge: if link == Link::Connected { Ready::WRITABLE } else { Ready::NONE },
            vain: Ready::NONE,
            habits,
            calls: 0,
            random,
            trace,
        }
    }

    /// The event waiting for this socket, if the kernel still finds it worth telling.
    pub(crate) fn take_event(&mut self) -> Option<Ready> {
        self.calls = 0;
        if self.edge == Ready::NONE {
            return None;
        }
        let edge = std::mem::take(&mut self.edge);
        let now = self.possible();
        let told = match self.habits.events {
            Events::Whole => now,
            Events::Narrow if self.error.is_none() => edge.without(Ready::ERROR),
            Events::Narrow => edge,
        };
        if self.habits.events == Events::Whole && !now.has(Ready::WRITABLE) {
            self.outgoing.starved = true;
        }
        self.vain = [Ready::READABLE, Ready::WRITABLE]
            .into_iter()
            .filter(|&bit| told.has(bit))
            .fold(self.vain, Ready::without);
        if told.has(Ready::ERROR) && !self.told_end {
            self.told_end = true;
            self.activity += 1;
        }
        (told != Ready::NONE).then_some(told)
    }

    pub(crate) fn has_event(&self) -> bool {
        self.edge != Ready::NONE && self.parted.is_none()
    }

    /// An event without a cause.
    pub(crate) fn startle(&mut self) {
        if self.link == Link::Connected {
            let bits = [Ready::READABLE, Ready::WRITABLE, Ready::READABLE.with(Ready::WRITABLE)];
            let bits = self.random.pick(&bits);
            self.rouse(bits);
        }
    }

    /// The connect came through.
    pub(crate) fn connected(&mut self) {
        self.link = Link::Connected;
        self.rouse(Ready::WRITABLE);
    }

    /// `count` bytes came from the peer, the `urgent`-th of them behind a mark.
    pub(crate) fn arrive(&mut self, count: u64, urgent: Option<u64>) {
        let start = self.incoming.arrived;
        self.incoming.arrived += count;
        self.rouse(Ready::READABLE);
        if let (Some(offset), None) = (urgent, self.incoming.urgent) {
            self.incoming.urgent = Some(start + offset);
            self.rouse(Ready::URGENT);
        }
    }

    /// The peer has finished sending.
    pub(crate) fn peer_finished(&mut self) {
        self.incoming.ended = true;
        self.rouse(Ready::READABLE.with(Ready::READ_CLOSED));
    }

    /// A reset came, or the refusal of a connect.
    pub(crate) fn broken(&mut self) {
        self.error = Some(match self.link {
            Link::Connecting(_) => ErrorKind::ConnectionRefused,
            Link::Connected if self.incoming.ended => ErrorKind::BrokenPipe,
            Link::Connected | Link::Broken => ErrorKind::ConnectionReset,
        });
        self.link = Link::Broken;
        self.rouse(broken_bits());
    }

    /// The peer took `count` bytes of what we wrote.
    pub(crate) fn drain(&mut self, count: u64) {
        self.outgoing.drained += count;
        if self.outgoing.starved && self.outgoing.is_roomy() {
            self.outgoing.starved = false;
            self.rouse(Ready::WRITABLE);
        }
    }

    /// Closes our descriptor.
    pub(crate) fn close(&mut self, parting: Parting) {
        if self.parted.is_none() {
            self.trace.say(|| format!("  {} close {parting:?}", self.name));
            self.parted = Some(parting);
        }
    }

    /// What a poll would tell now.
    pub(crate) fn possible(&self) -> Ready {
        let mut ready = Ready::NONE;
        let mut add = |fact: bool, bits: Ready| {
            if fact {
                ready = ready.with(bits);
            }
        };
        let broken = self.link == Link::Broken;
        let roomy = self.link == Link::Connected && self.outgoing.is_roomy();
        add(self.incoming.unread() > 0 || self.incoming.ended || broken, Ready::READABLE);
        add(roomy || broken, Ready::WRITABLE);
        add(self.incoming.ended || broken, Ready::READ_CLOSED);
        add(self.error.is_some(), Ready::ERROR);
        add(self.incoming.urgent.is_some(), Ready::URGENT);
        ready
    }

    fn rouse(&mut self, bits: Ready) {
        self.edge = self.edge.with(bits);
    }

    pub(crate) fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.called()?;
        let incoming = &mut self.incoming;
        if incoming.unread() == 0 {
            return self.read_nothing();
        }
        let mut count = incoming.unread().min(space.len() as u64);
        match incoming.urgent {
            Some(mark) if mark > incoming.taken => count = count.min(mark - incoming.taken),
            Some(_) => incoming.urgent = None,
            None => {}
        }
        let count = usize::try_from(count).expect("no longer than the space");
        for (place, offset) in space[..count].iter_mut().zip(incoming.taken..) {
            *place = byte(&incoming.head, incoming.key, offset);
        }
        incoming.taken += count as u64;
        self.activity += 1;
        self.trace.say(|| format!("  {} read {count} of {}", self.name, space.len()));
        Ok(count)
    }

    /// A splice takes what it likes, never passes an urgent mark, and takes a queue that begins
    /// with one for an empty queue.
    pub(crate) fn fill(&mut self, pipe: &mut Option<Run>) -> io::Result<usize> {
        assert!(pipe.is_none(), "{}: a pipe is filled before it is empty", self.name);
        if !self.habits.splices {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.called()?;
        let incoming = &mut self.incoming;
        let mut most = incoming.unread().min(PIPE);
        if let Some(mark) = incoming.urgent {
            most = most.min(mark.saturating_sub(incoming.taken));
        }
        if most == 0 {
            return self.read_nothing();
        }
        let count = self.random.between(1, most);
        let start = incoming.taken.checked_sub(incoming.head.len() as u64);
        let start = start.expect("a header is read, not spliced");
        *pipe = Some(Run { key: incoming.key, start, count });
        incoming.taken += count;
        self.activity += 1;
        self.trace.say(|| format!("  {} fill {count}", self.name));
        Ok(usize::try_from(count).expect("a small count"))
    }

    pub(crate) fn splice_out(&mut self, pipe: &mut Option<Run>, count: usize) -> io::Result<usize> {
        let run = pipe.expect("only a pipe that holds bytes is drained");
        assert!(count as u64 == run.count, "{}: count of a pipe", self.name);
        let bytes: Vec<u8> = (run.start..).take(count).map(|at| byte(&[], run.key, at)).collect();
        // A signal ends it early, though there may be room for more.
        let most =
            if self.random.chance(12) { self.random.between(1, run.count) } else { run.count };
        let most = usize::try_from(most).expect("no more than there is");
        let taken = self.write(&bytes[..most])?;
        if taken > 0 {
            // A short count does not tell why, so another call is not in vain.
            self.vain = self.vain.without(Ready::WRITABLE);
        }
        let (start, count) = (run.start + taken as u64, run.count - taken as u64);
        *pipe = (count > 0).then_some(Run { start, count, ..run });
        Ok(taken)
    }

    fn read_nothing(&mut self) -> io::Result<usize> {
        let outcome = if self.incoming.ended {
            Ok(0)
        } else {
            self.report_error().and(match self.link {
                Link::Broken => Ok(0),
                Link::Connecting(_) | Link::Connected => Err(ErrorKind::WouldBlock.into()),
            })
        };
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            assert!(!self.vain.has(Ready::READABLE), "{} is read again in vain", self.name);
            self.vain = self.vain.with(Ready::READABLE);
        }
        if outcome.is_ok() && !self.told_end {
            self.told_end = true;
            self.activity += 1;
        }
        self.trace.say(|| format!("  {} read -> {outcome:?}", self.name));
        outcome
    }

    /// A look at the queue without reading.
    pub(crate) fn is_finished_unsaid(&self) -> bool {
        self.incoming.unread() == 0 && (self.incoming.ended || self.link == Link::Broken)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.called()?;
        assert!(!self.outgoing.shut, "{} is written to after its end", self.name);
        self.report_error()?;
        if self.link == Link::Broken {
            self.activity += 1;
            return Err(ErrorKind::BrokenPipe.into());
        }
        let outgoing = &mut self.outgoing;
        let room = if self.link == Link::Connected { outgoing.room() } else { 0 };
        let count = usize::try_from(room.min(bytes.len() as u64)).expect("no longer than given");
        if count < bytes.len() {
            assert!(!self.vain.has(Ready::WRITABLE), "{} is written to in vain", self.name);
            self.vain = self.vain.with(Ready::WRITABLE);
            outgoing.starved = true;
        }
        for (place, offset) in bytes[..count].iter().zip(outgoing.written..) {
            let right = byte(&outgoing.head, outgoing.key, offset);
            assert!(*place == right, "{}: byte {offset} is not the one that was sent", self.name);
        }
        outgoing.written += count as u64;
        self.activity += u64::from(count > 0);
        self.trace.say(|| format!("  {} write {} took {count}", self.name, bytes.len()));
        if count == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    pub(crate) fn finish(&mut self) -> io::Result<()> {
        assert!(!self.outgoing.shut, "{} is ended twice", self.name);
        self.trace.say(|| format!("  {} finish", self.name));
        if self.link != Link::Connected {
            return Err(ErrorKind::NotConnected.into());
        }
        self.outgoing.shut = true;
        self.activity += 1;
        if self.incoming.ended {
            self.rouse(Ready::READABLE.with(Ready::READ_CLOSED));
        }
        Ok(())
    }

    /// The kernel tells an error once.
    pub(crate) fn report_error(&mut self) -> io::Result<()> {
        let Some(kind) = self.error.take() else { return Ok(()) };
        self.trace.say(|| format!("  {} reports {kind:?}", self.name));
        self.told_end = true;
        self.activity += 1;
        Err(kind.into())
    }

    fn called(&mut self) -> io::Result<()> {
        self.calls += 1;
        assert!(self.calls < 5_000, "{} is called again and again without an event", self.name);
        if self.random.chance(self.habits.interrupts) {
            return Err(ErrorKind::Interrupted.into());
        }
        Ok(())
    }
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Connecting(Fate),
    Connected,
    Broken,
}

/// What becomes of a connect that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Comes,
    IsRefused,
    Silent,
}

/// How our side closed a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// The peer sees an end of stream after what was written.
    Polite,
    /// The peer sees a reset.
    Reset,
}

/// What all sockets of one schedule have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    /// The largest queue, in bytes.
    pub(crate) queue: u64,
    /// Interrupted calls, in percent.
    pub(crate) interrupts: u64,
    pub(crate) events: Events,
    /// Whether these streams can be spliced at all.
    pub(crate) splices: bool,
}

/// What an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Events {
    /// All that is possible when it is fetched, as Linux does.
    Whole,
    /// Only what has changed: the least that edge-triggered readiness promises.
    Narrow,
}

/// What a reset tells of.
fn broken_bits() -> Ready {
    let both = Ready::READABLE.with(Ready::WRITABLE);
    both.with(Ready::ERROR).with(Ready::READ_CLOSED)
}
