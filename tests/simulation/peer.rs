//! The far ends: scripted clients and backends, and the network between them and us.
//!
//! A peer sends so many bytes, reads as it likes, and ends as its script says. Whatever it can do
//! next is an [`Action`]; the world draws one of all that are possible. A kernel's doing (a connect
//! that comes through, a reset that answers data nobody reads) is an action too, so that it may
//! happen at any moment or be late.

use std::time::Instant;

use crate::fake_stream::Shared;
use crate::random::Random;
use crate::socket::{Fate, Link, Parting, Socket};
use crate::trace::Trace;

/// What a peer is going to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    /// Bytes to send.
    pub(crate) sends: u64,
    /// Bytes to see before the first is sent.
    pub(crate) after: u64,
    pub(crate) reading: Reading,
    pub(crate) ending: Ending,
    /// How often it pauses instead of acting, in percent, and for how long at most.
    pub(crate) pauses: u64,
    pub(crate) pause_millis: u64,
    /// How many of a hundred chunks carry an urgent mark.
    pub(crate) urgent: u64,
}

/// How a peer reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Whole,
    /// A byte at a time.
    Slow,
    /// So many bytes, and then no more.
    Until(u64),
}

/// What a peer does after its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Finishes sending, and goes on reading.
    Finish,
    /// The same, but only after it has seen the end of the other direction.
    FinishLast,
    /// Closes, whatever the other side still sends.
    Close,
    /// Resets the connection.
    Reset,
    /// Finishes sending, and resets the connection some time later.
    FinishReset,
    /// Nothing, for ever.
    Silence,
}

/// A connection, and who is at the far end of it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) socket: Shared<Socket>,
    pub(crate) script: Script,
    pub(crate) sees_end: bool,
    /// Bytes it must have seen when it sees the end, if that is certain.
    pub(crate) expects: Option<u64>,
    sent: u64,
    life: Life,
    wakes: Option<Instant>,
}

impl Peer {
    pub(crate) fn new(socket: Shared<Socket>, script: Script, expects: Option<u64>) -> Self {
        Self { socket, script, sees_end: false, expects, sent: 0, life: Life::Talks, wakes: None }
    }

    /// Does something that is possible; false if nothing is.
    pub(crate) fn act(&mut self, now: Instant, random: &mut Random, trace: &Trace) -> bool {
        let mut possible = [Action::Read; 8];
        let count = self.possible(now, &mut possible);
        if count == 0 {
            return false;
        }
        let mut action = random.pick(&possible[..count]);
        if action.is_voluntary() && random.chance(self.script.pauses) {
            action = Action::Pause;
        }
        trace.say(|| format!("{} peer: {action:?}", self.socket.get().name));
        self.perform(action, now, random);
        true
    }

    /// Whether there is anything that it, or the network, can do now.
    pub(crate) fn can_act(&self, now: Instant) -> bool {
        self.possible(now, &mut [Action::Read; 8]) > 0
    }

    /// When it goes on after a pause.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        self.wakes.filter(|&wakes| wakes > now)
    }

    /// Whether it has nothing more to do, whatever we do.
    pub(crate) fn is_over(&self) -> bool {
        match self.life {
            Life::Gone => true,
            Life::Talks | Life::Finished | Life::Closed => {
                self.socket.get().parted.is_some()
                    && (self.sees_end || self.life == Life::Closed)
                    && self.life != Life::Talks
            }
        }
    }

    fn possible(&self, now: Instant, actions: &mut [Action; 8]) -> usize {
        let socket = self.socket.get();
        let mut count = 0;
        let mut add = |possible: bool, action: Action| {
            if possible {
                actions[count] = action;
                count += 1;
            }
        };
        match socket.link {
            Link::Connecting(Fate::Comes) => add(socket.parted.is_none(), Action::Establish),
            Link::Connecting(Fate::IsRefused) => add(socket.parted.is_none(), Action::Refuse),
            Link::Connecting(Fate::Silent) | Link::Broken => {}
            Link::Connected if self.life == Life::Gone => {}
            Link::Connected if socket.parted == Some(Parting::Reset) => add(true, Action::SeeReset),
            Link::Connected if self.life == Life::Closed => {
                add(socket.outgoing.queued() > 0, Action::Answer);
            }
            Link::Connected if self.wakes(now).is_some() => {}
            Link::Connected => {
                let talks = self.life == Life::Talks;
                let all = self.sent == socket.incoming.head.len() as u64 + self.script.sends;
                let window = socket.incoming.window() > 0 || socket.parted.is_some();
                let last = self.script.ending == Ending::FinishLast;
                let silent = self.script.ending == Ending::Silence;
                add(talks && self.may_send(&socket) > 0 && window, Action::Send);
                add(talks && all && !silent && (self.sees_end || !last), Action::End);
                let deserts = self.script.ending == Ending::FinishReset;
                add(deserts && self.life == Life::Finished, Action::End);
                add(socket.outgoing.queued() > 0 && self.reads(&socket), Action::Read);
                let ended = socket.outgoing.shut || socket.parted == Some(Parting::Polite);
                let emptied = socket.outgoing.queued() == 0;
                add(ended && emptied && !self.sees_end, Action::SeeEnd);
            }
        }
        count
    }

    /// How much it has to send now, its header first.
    fn may_send(&self, socket: &Socket) -> u64 {
        let begun = socket.outgoing.drained_behind_head() >= self.script.after;
        let sends = if begun { self.script.sends } else { 0 };
        (socket.incoming.head.len() as u64 + sends).saturating_sub(self.sent)
    }

    fn reads(&self, socket: &Socket) -> bool {
        match self.script.reading {
            Reading::Whole | Reading::Slow => true,
            Reading::Until(limit) => socket.outgoing.drained_behind_head() < limit,
        }
    }

    fn perform(&mut self, action: Action, now: Instant, random: &mut Random) {
        let mut socket = self.socket.get();
        match action {
            Action::Establish => socket.connected(),
            Action::Refuse | Action::Answer => {
                socket.broken();
                self.life = Life::Gone;
            }
            // Data for a descriptor that is closed is answered with a reset.
            Action::Send if socket.parted.is_some() => self.life = Life::Gone,
            Action::Send => {
                let most = socket.incoming.window().min(self.may_send(&socket));
                let count = random.between(1, most);
                let urgent = random.chance(self.script.urgent).then(|| random.below(count));
                self.sent += count;
                socket.arrive(count, urgent);
            }
            Action::Read => {
                let queued = socket.outgoing.queued();
                let most = if self.script.reading == Reading::Slow { 1 } else { queued };
                socket.drain(random.between(1, most));
            }
            Action::SeeEnd => {
                self.sees_end = true;
                if let Some(expected) = self.expects {
                    let seen = socket.outgoing.drained_behind_head();
                    assert!(seen == expected, "{} saw {seen} of {expected}", socket.name);
                }
            }
            Action::SeeReset => self.life = Life::Gone,
            Action::Pause => self.wakes = Some(now + random.millis(self.script.pause_millis)),
            Action::End if self.life == Life::Finished => {
                self.life = end(Ending::Reset, &mut socket)
            }
            Action::End => self.life = end(self.script.ending, &mut socket),
        }
    }
}

/// What happens at the end of a script; what has become of the peer.
fn end(ending: Ending, socket: &mut Socket) -> Life {
    match ending {
        Ending::Finish | Ending::FinishLast | Ending::FinishReset => {
            socket.peer_finished();
            Life::Finished
        }
        // A close with unread input is a reset.
        Ending::Close if socket.outgoing.queued() == 0 => {
            socket.peer_finished();
            Life::Closed
        }
        Ending::Close | Ending::Reset => {
            socket.broken();
            Life::Gone
        }
        Ending::Silence => Life::Talks,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Talks,
    /// Has finished sending.
    Finished,
    /// Has closed: reads no more.
    Closed,
    /// There is no connection any more.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Network: a connect comes through.
    Establish,
    /// Network: a connect is refused.
    Refuse,
    /// Network: data for a peer that has closed is answered with a reset.
    Answer,
    /// Network: our reset arrives.
    SeeReset,
    Send,
    End,
    Read,
    SeeEnd,
    Pause,
}

impl Action {
    fn is_voluntary(self) -> bool {
        match self {
            Self::Send | Self::End | Self::Read | Self::SeeEnd => true,
            Self::Establish | Self::Refuse | Self::Answer | Self::SeeReset | Self::Pause => false,
        }
    }
}
