//! The data plane: a client and a backend, and the bytes between them.
//!
//! A [`Pair`] is a state machine without I/O of its own. It is generic over [`Stream`], so the
//! program runs it over sockets and the simulation over scripted streams. Events only mark
//! endpoints ready ([`Pair::mark`]); all work happens in [`Pair::step`], which answers with what
//! the surroundings must do. Choosing and connecting a backend is theirs; a pair only says that it
//! needs one. But for a PROXY header, and what comes in one piece with it, the client is not read
//! before a backend is connected, so another attempt loses nothing.
//!
//! Progress moves the pair's deadline; nobody is told. A timer that fires compares and re-arms.

pub mod buffer;
pub mod endpoint;
pub mod flow;
mod opening;
mod outlook;
pub mod pipe;
mod reason;
mod step;
mod watch;

use std::io;
use std::time::{Duration, Instant};

use endpoint::{Endpoint, Ready, Stream};
use flow::{End, Flow, Progress, Pump, State, Stores};
use opening::Opening;
pub use reason::CloseReason;
pub use step::{Direction, Limits, Phase, Side, Step};
pub use watch::News;
use watch::Watch;

/// A client, its backend once there is one, and the two flows between them.
#[derive(Debug)]
pub struct Pair<S: Stream> {
    client: Endpoint<S>,
    backend: Option<Endpoint<S>>,
    to_backend: Flow<S::Pipe>,
    to_client: Flow<S::Pipe>,
    opening: Option<Box<Opening>>,
    phase: Phase,
    first_end: Option<Side>,
    /// Whose bytes were delivered last.
    last_word: Option<Side>,
    /// Whether the last step spent its budget.
    spent: bool,
    deadline: Option<Instant>,
    /// Or, while the pair is watched, when the backend was asked.
    connected_at: Option<Instant>,
    watch: Watch,
}

impl<S: Stream> Pair<S> {
    /// A pair for a client that was just accepted; `ready` is what is known of its stream.
    pub fn new(client: S, ready: Ready) -> Self {
        Self {
            client: Endpoint::new(client, ready),
            backend: None,
            to_backend: Flow::default(),
            to_client: Flow::default(),
            opening: None,
            phase: Phase::Choosing,
            first_end: None,
            last_word: None,
            spent: false,
            deadline: None,
            connected_at: None,
            watch: Watch::Off,
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
        if let Some(opening) = &mut self.opening {
            opening.start_again();
        }
        self.phase = Phase::Connecting;
        self.deadline = Some(now + limits.connect);
    }

    /// Has a pair that asked for a backend wait for one. Its client is not read meanwhile.
    pub fn wait(&mut self) {
        assert!(self.phase == Phase::Choosing, "only who needs a backend waits for one");
        self.phase = Phase::Waiting;
    }

    /// The wait is over: the next step asks again.
    pub fn resume(&mut self) {
        assert!(self.phase == Phase::Waiting, "only who waits is called");
        self.phase = Phase::Choosing;
    }

    /// Does what can be done now, and says what is needed next.
    pub fn step(&mut self, now: Instant, limits: &Limits, pump: &mut Pump<'_, S::Pipe>) -> Step {
        let step = match self.phase {
            Phase::Greeting if self.client_is_gone() => Step::Done(CloseReason::ClientGone),
            Phase::Greeting => self.greet_step(pump.stores),
            Phase::Choosing if self.client_is_gone() => Step::Done(CloseReason::ClientGone),
            Phase::Choosing => Step::NeedBackend,
            Phase::Waiting if self.client_has_left() => Step::Done(CloseReason::ClientGone),
            Phase::Waiting => Step::Waiting,
            Phase::Connecting if self.client_is_gone() => Step::Done(CloseReason::ClientGone),
            Phase::Connecting => self.connect_step(now, limits),
            Phase::Relaying => self.relay_step(now, limits, pump),
        };
        self.spent = matches!(step, Step::Again);
        step
    }

    /// Called when the deadline may have passed: what is to be done about it.
    pub fn expire(&mut self, now: Instant) -> Step {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Step::Waiting;
        }
        match self.phase {
            Phase::Greeting => Step::Done(CloseReason::HeaderTimeout),
            Phase::Choosing => Step::NeedBackend,
            Phase::Waiting => Step::Waiting,
            Phase::Connecting => self.give_up_backend(io::ErrorKind::TimedOut.into()),
            Phase::Relaying if self.client.is_broken() => Step::Done(CloseReason::ClientReset),
            Phase::Relaying if self.backend_is_broken() => Step::Done(CloseReason::BackendReset),
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

    /// Whether the last step left something to do that only waits for its turn.
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Whether a backend was connected, be it one that is lost again.
    pub fn was_connected(&self) -> bool {
        self.connected_at.is_some()
    }

    /// Whether the backend has kept the connection for longer than one that resets at once.
    pub fn is_lasting(&self, now: Instant) -> bool {
        self.phase == Phase::Relaying && self.connected_at.is_some_and(|at| now > at + FRESH)
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
        let left = self.deadline.map_or(limits.connect, |at| at.saturating_duration_since(now));
        self.phase = Phase::Relaying;
        self.connected_at = Some(now);
        self.deadline = limits.idle.map(|idle| now + idle);
        Step::Connected(limits.connect.saturating_sub(left))
    }

    fn relay_step(&mut self, now: Instant, limits: &Limits, pump: &mut Pump<'_, S::Pipe>) -> Step {
        let mut progressed = false;
        loop {
            let Some((up, down)) = self.pump_both(pump) else { return Step::NeedBackend };
            if self.watch != Watch::Off && self.watch.note(up.moved, down.moved) {
                // A backend that has had bytes is not given up for another any more.
                self.connected_at = Some(now);
            }
            progressed |= up.moved + down.moved > 0 || up.changed || down.changed;
            match CloseReason::of(self.to_backend.state(), self.to_client.state(), self.first_end) {
                Some(CloseReason::BackendReset) if self.is_fresh(now) => {
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
        let told = if self.opening.is_some() { self.tell_backend() } else { None };
        let backend = self.backend.as_mut()?;
        pump.closing = self.to_client.state() == State::Done(End::Finished);
        let up = told.unwrap_or_else(|| self.to_backend.pump(&mut self.client, backend, pump));
        self.first_end = self.first_end.or(ended(&self.to_backend, Side::Client));
        pump.closing = self.to_backend.state() == State::Done(End::Finished);
        let down = self.to_client.pump(backend, &mut self.client, pump);
        self.first_end = self.first_end.or(ended(&self.to_client, Side::Backend));
        if down.moved > 0 {
            self.last_word = Some(Side::Backend);
        } else if up.moved > 0 {
            self.last_word = Some(Side::Client);
        }
        Some((up, down))
    }

    /// Moves the deadline after progress. Without progress it only comes nearer, when a side has
    /// ended since.
    fn touch(&mut self, progressed: bool, now: Instant, limits: &Limits) {
        let timeout = self.patience(limits);
        if progressed {
            self.deadline = timeout.map(|timeout| now + timeout);
        } else if let Some(timeout) = timeout
            && self.is_half_closed()
        {
            let latest = now + timeout;
            self.deadline = Some(self.deadline.map_or(latest, |deadline| deadline.min(latest)));
        }
    }

    /// How long silence may last now.
    fn patience(&self, limits: &Limits) -> Option<Duration> {
        let half_close = limits.half_close.filter(|_| self.is_half_closed());
        let broken = self.client.is_broken() || self.backend_is_broken();
        let last_words = broken.then_some(LAST_WORDS);
        [limits.idle, half_close, last_words].into_iter().flatten().min()
    }

    /// Whether the backend was connected just now, and neither side has had a byte of the other's
    /// nor the client an end.
    fn is_fresh(&self, now: Instant) -> bool {
        self.connected_at.is_some_and(|at| now <= at + FRESH)
            && self.to_backend.is_untouched()
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
        // An end that was read is read once more; one that no event has told of will be told.
        if self.client.ready().has(Ready::READ_CLOSED) {
            self.client.mark(Ready::READABLE);
        }
        self.give_up_backend(io::ErrorKind::ConnectionReset.into())
    }

    /// Drops the backend, which turned out to be none.
    pub fn give_up_backend(&mut self, error: io::Error) -> Step {
        self.backend = None;
        self.watch = Watch::Off;
        self.phase = Phase::Choosing;
        self.deadline = None;
        Step::ConnectFailed(error)
    }

    /// Before relaying: the client is broken. One that merely finished sending still wants its
    /// answer.
    fn client_is_gone(&self) -> bool {
        self.client.is_broken()
    }

    /// While waiting: the client is broken, or finished without having said anything. A line is no
    /// place to keep for one who only looked in; one who asked and finished wants its answer.
    fn client_has_left(&self) -> bool {
        let ended = self.client.ready().has(Ready::READ_CLOSED);
        let unsaid = || !self.to_backend.holds_bytes() && self.client.stream().is_finished_unsaid();
        self.client_is_gone() || ended && unsaid()
    }

    fn is_half_closed(&self) -> bool {
        self.to_backend.state() != State::Open
            || self.to_client.state() != State::Open
            || self.client.is_broken()
            || self.backend_is_broken()
    }

    fn backend_is_broken(&self) -> bool {
        self.backend.as_ref().is_some_and(Endpoint::is_broken)
    }
}

/// The side a flow comes from, once that side has ended.
fn ended<P>(flow: &Flow<P>, source: Side) -> Option<Side> {
    (flow.state() != State::Open).then_some(source)
}

/// A backend that resets later than so long after its connect has decided to.
const FRESH: Duration = Duration::from_secs(1);
/// How long a stream that broke may keep its pair, while what it sent before waits to be taken.
const LAST_WORDS: Duration = Duration::from_secs(5);
