//! The data plane: a client and a backend, and the bytes between them.
//!
//! A [`Pair`] is a state machine without I/O of its own. It is generic over [`Stream`], so the
//! program runs it over sockets and the simulation over scripted streams. Events only mark
//! endpoints ready ([`Pair::mark`]); all work happens in [`Pair::step`], which answers with what
//! the surroundings must do. Choosing and connecting a backend is theirs; a pair only says that it
//! needs one. The client is not read before a backend is connected, so another attempt loses
//! nothing.
//!
//! Progress moves the pair's deadline; nobody is told. A timer that fires compares and re-arms.

pub mod buffer;
pub mod endpoint;
pub mod flow;
pub mod pipe;

use std::io;
use std::time::{Duration, Instant};

use endpoint::{Endpoint, Ready, Stream};
use flow::{End, Flow, Progress, Pump, State, Stores};

/// A client, its backend once there is one, and the two flows between them.
#[derive(Debug)]
pub struct Pair<S: Stream> {
    client: Endpoint<S>,
    backend: Option<Endpoint<S>>,
    to_backend: Flow<S::Pipe>,
    to_client: Flow<S::Pipe>,
    phase: Phase,
    first_end: Option<Side>,
    deadline: Option<Instant>,
}

impl<S: Stream> Pair<S> {
    /// A pair for a client that was just accepted; `ready` is what is known of its stream.
    pub fn new(client: S, ready: Ready) -> Self {
        Self {
            client: Endpoint::new(client, ready),
            backend: None,
            to_backend: Flow::default(),
            to_client: Flow::default(),
            phase: Phase::Choosing,
            first_end: None,
            deadline: None,
        }
    }

    /// Adds what an event told about one side. An event for a backend already given up is ignored.
    pub fn mark(&mut self, side: Side, ready: Ready) {
        match side {
            Side::Client => self.client.mark(ready),
            Side::Backend => {
                if let Some(backend) = &mut self.backend {
                    backend.mark(ready);
                }
            }
        }
    }

    /// Gives the pair the backend it asked for: a stream whose connect is under way.
    ///
    /// # Panics
    /// If the pair did not ask for one.
    pub fn attach(&mut self, backend: S, now: Instant, limits: &Limits) {
        assert!(self.phase == Phase::Choosing, "a backend is attached only when asked for");
        self.backend = Some(Endpoint::new(backend, Ready::NONE));
        self.phase = Phase::Connecting;
        self.deadline = Some(now + limits.connect);
    }

    /// Does what can be done now, and says what is needed next.
    pub fn step(&mut self, now: Instant, limits: &Limits, pump: &mut Pump<'_, S::Pipe>) -> Step {
        match self.phase {
            Phase::Choosing if self.client_is_gone() => Step::Done(CloseReason::ClientGone),
            Phase::Choosing => Step::NeedBackend,
            Phase::Connecting if self.client_is_gone() => Step::Done(CloseReason::ClientGone),
            Phase::Connecting => self.connect_step(now, limits),
            Phase::Relaying => self.relay_step(now, limits, pump),
        }
    }

    /// Called when the deadline may have passed: what is to be done about it.
    pub fn expire(&mut self, now: Instant) -> Step {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Step::Waiting;
        }
        match self.phase {
            Phase::Choosing => Step::NeedBackend,
            Phase::Connecting => self.give_up_backend(io::ErrorKind::TimedOut.into()),
            Phase::Relaying if self.is_half_closed() => Step::Done(CloseReason::HalfCloseTimeout),
            Phase::Relaying => Step::Done(CloseReason::IdleTimeout),
        }
    }

    /// Gives back what was borrowed and the streams away: the client's and, if there is one, the
    /// backend's.
    pub fn dissolve(mut self, stores: &mut Stores<S::Pipe>) -> (S, Option<S>) {
        self.to_backend.release(stores);
        self.to_client.release(stores);
        (self.client.into_stream(), self.backend.map(Endpoint::into_stream))
    }

    /// When [`Self::expire`] is to be called at the latest, if ever.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Which part of its life the pair is in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Bytes delivered so far in one direction.
    pub fn bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::ToBackend => self.to_backend.bytes(),
            Direction::ToClient => self.to_client.bytes(),
        }
    }

    /// Whether bytes that were read wait for a side that does not take them.
    pub fn holds_bytes(&self) -> bool {
        self.to_backend.holds_bytes() || self.to_client.holds_bytes()
    }

    /// The stream of one side.
    pub fn stream(&self, side: Side) -> Option<&S> {
        match side {
            Side::Client => Some(self.client.stream()),
            Side::Backend => self.backend.as_ref().map(Endpoint::stream),
        }
    }

    fn connect_step(&mut self, now: Instant, limits: &Limits) -> Step {
        let Some(backend) = &mut self.backend else { return Step::NeedBackend };
        if backend.ready().has(Ready::ERROR)
            && let Err(error) = backend.establish()
        {
            return self.give_up_backend(error);
        }
        if !backend.ready().has(Ready::WRITABLE) {
            return Step::Waiting;
        }
        self.phase = Phase::Relaying;
        self.deadline = limits.idle.map(|idle| now + idle);
        Step::Connected
    }

    fn relay_step(&mut self, now: Instant, limits: &Limits, pump: &mut Pump<'_, S::Pipe>) -> Step {
        let mut progressed = false;
        loop {
            let Some((up, down)) = self.pump_both(pump) else { return Step::NeedBackend };
            progressed |= up.moved + down.moved > 0 || up.changed || down.changed;
            match close_reason(&self.to_backend, &self.to_client, self.first_end) {
                Some(CloseReason::BackendReset) if self.is_untouched() => {
                    return self.start_again();
                }
                Some(reason) => return Step::Done(reason),
                None => {}
            }
            if up.spent || down.spent {
                self.touch(progressed, now, limits);
                return Step::Again;
            }
            // A change of state (a side found broken) can give the other flow something to do.
            if !up.changed && !down.changed {
                self.touch(progressed, now, limits);
                return Step::Waiting;
            }
        }
    }

    fn pump_both(&mut self, pump: &mut Pump<'_, S::Pipe>) -> Option<(Progress, Progress)> {
        let backend = self.backend.as_mut()?;
        pump.closing = self.to_client.state() == State::Done(End::Finished);
        let up = self.to_backend.pump(&mut self.client, backend, pump);
        self.first_end = self.first_end.or(ended(&self.to_backend, Side::Client));
        pump.closing = self.to_backend.state() == State::Done(End::Finished);
        let down = self.to_client.pump(backend, &mut self.client, pump);
        self.first_end = self.first_end.or(ended(&self.to_client, Side::Backend));
        Some((up, down))
    }

    fn touch(&mut self, progressed: bool, now: Instant, limits: &Limits) {
        let timeout = match limits.half_close {
            Some(half) if self.is_half_closed() => {
                limits.idle.map_or(Some(half), |i| Some(i.min(half)))
            }
            Some(_) | None => limits.idle,
        };
        if progressed {
            self.deadline = timeout.map(|timeout| now + timeout);
        } else if let Some(timeout) = timeout
            && self.is_half_closed()
        {
            let latest = now + timeout;
            self.deadline = Some(self.deadline.map_or(latest, |deadline| deadline.min(latest)));
        }
    }

    /// Whether neither side has had a byte of the other's, nor the client an end.
    fn is_untouched(&self) -> bool {
        self.to_backend.is_untouched()
            && self.to_client.is_untouched()
            && !self.to_client.holds_bytes()
            && self.to_client.state() != State::Done(End::Finished)
            && !self.client.is_broken()
    }

    /// A backend that reset the connection before a byte went either way (it died between the
    /// kernel's accept and its own) is as good as one that refused it: another can take over.
    fn start_again(&mut self) -> Step {
        self.to_backend.rewind();
        self.to_client.rewind();
        self.first_end = None;
        self.client.mark(Ready::READABLE);
        self.give_up_backend(io::ErrorKind::ConnectionReset.into())
    }

    /// Drops the backend, which turned out to be none.
    pub fn give_up_backend(&mut self, error: io::Error) -> Step {
        self.backend = None;
        self.phase = Phase::Choosing;
        self.deadline = None;
        Step::ConnectFailed(error)
    }

    /// Before relaying: the client is broken. One that merely finished sending still wants its
    /// answer.
    fn client_is_gone(&self) -> bool {
        self.client.is_broken()
    }

    fn is_half_closed(&self) -> bool {
        self.to_backend.state() != State::Open
            || self.to_client.state() != State::Open
            || self.client.is_broken()
            || self.backend.as_ref().is_some_and(Endpoint::is_broken)
    }
}

/// What the surroundings of a pair must do after a step.
#[derive(Debug)]
pub enum Step {
    /// Choose a backend, begin a connect, and [`Pair::attach`] it.
    NeedBackend,
    /// The backend is connected: note it and step again.
    Connected,
    /// This backend could not be connected, or reset the connection (`ConnectionReset`) before a
    /// byte went either way. It was dropped: note it and step again.
    ConnectFailed(io::Error),
    /// Nothing, until an event or the deadline.
    Waiting,
    /// The byte budget is spent: step again after the others.
    Again,
    /// End the pair.
    Done(CloseReason),
}

/// Which part of its life a pair is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No backend yet, or the last attempt failed.
    Choosing,
    /// A connect is under way.
    Connecting,
    /// Bytes move.
    Relaying,
}

/// An end of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that connected to us.
    Client,
    /// The one we connected to.
    Backend,
}

/// A way that bytes take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the backend.
    ToBackend,
    /// From the backend to the client.
    ToClient,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One connect.
    pub connect: Duration,
    /// Silence in both directions; `None` is for ever.
    pub idle: Option<Duration>,
    /// Silence after one side has ended; `None` leaves only `idle`.
    pub half_close: Option<Duration>,
}

/// Why a pair ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides finished, the client first.
    ClientFinished,
    /// Both sides finished, the backend first.
    BackendFinished,
    /// The client's stream broke.
    ClientReset,
    /// The backend's stream broke.
    BackendReset,
    /// No byte in either direction for too long.
    IdleTimeout,
    /// One side had ended and the other was silent for too long.
    HalfCloseTimeout,
    /// The client left before a backend was connected.
    ClientGone,
    /// No backend could be connected.
    ConnectFailed,
    /// There was no backend to try.
    NoBackend,
    /// We had no descriptor or port left for a connection to a backend.
    OutOfResources,
    /// The drain deadline passed, or we were told to end at once.
    Cut,
}

impl CloseReason {
    /// Every reason, for counters.
    pub const ALL: [Self; 11] = [
        Self::ClientFinished,
        Self::BackendFinished,
        Self::ClientReset,
        Self::BackendReset,
        Self::IdleTimeout,
        Self::HalfCloseTimeout,
        Self::ClientGone,
        Self::ConnectFailed,
        Self::NoBackend,
        Self::OutOfResources,
        Self::Cut,
    ];

    /// The reason in words, for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::ClientFinished => "client closed",
            Self::BackendFinished => "backend closed",
            Self::ClientReset => "client reset the connection",
            Self::BackendReset => "backend reset the connection",
            Self::IdleTimeout => "idle timeout",
            Self::HalfCloseTimeout => "half-close timeout",
            Self::ClientGone => "client left before a backend was connected",
            Self::ConnectFailed => "no backend could be connected",
            Self::NoBackend => "no available backend",
            Self::OutOfResources => "out of local ports or descriptors",
            Self::Cut => "cut by shutdown",
        }
    }

    /// Whether the streams were cut short, so that their ends must not look like orderly ones.
    #[must_use]
    pub fn is_abortive(self) -> bool {
        match self {
            Self::ClientReset | Self::BackendReset | Self::ClientGone | Self::Cut => true,
            Self::ClientFinished
            | Self::BackendFinished
            | Self::IdleTimeout
            | Self::HalfCloseTimeout
            | Self::ConnectFailed
            | Self::NoBackend
            | Self::OutOfResources => false,
        }
    }
}

/// The side a flow comes from, once that side has ended.
fn ended<P>(flow: &Flow<P>, source: Side) -> Option<Side> {
    (flow.state() != State::Open).then_some(source)
}

fn close_reason<P>(
    to_backend: &Flow<P>,
    to_client: &Flow<P>,
    first: Option<Side>,
) -> Option<CloseReason> {
    match (to_backend.state(), to_client.state()) {
        (State::Done(End::SourceReset), _) => Some(CloseReason::ClientReset),
        (_, State::Done(End::SourceReset)) => Some(CloseReason::BackendReset),
        (State::Done(End::SinkReset), State::Done(_)) => Some(CloseReason::BackendReset),
        (State::Done(_), State::Done(End::SinkReset)) => Some(CloseReason::ClientReset),
        (State::Done(End::Finished), State::Done(End::Finished)) => match first {
            Some(Side::Backend) => Some(CloseReason::BackendFinished),
            Some(Side::Client) | None => Some(CloseReason::ClientFinished),
        },
        (State::Open | State::Ending(_), _) | (_, State::Open | State::Ending(_)) => None,
    }
}
