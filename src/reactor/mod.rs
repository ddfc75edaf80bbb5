//! The shell around the pure parts: the only code that touches the kernel.
//!
//! A turn has fixed phases, and only the second looks at events. Events set bits and queue; nothing
//! is created, closed, read or written while they are looked at. So no event can meet a slot that
//! was freed and given to somebody else in the same batch, and no edge is lost: a bit stays set
//! until the kernel says would-block.

mod abandoned;
mod admin;
mod asking;
mod changes;
mod connect;
mod console;
mod converge;
mod doorways;
mod explain;
mod gate;
mod guests;
mod keeper;
mod limits;
mod listener;
mod manners;
mod membership;
mod news;
mod notify;
mod pairs;
mod parting;
mod pipe;
mod polls;
mod probes;
mod relay;
mod reload;
mod report;
mod resolver;
mod service;
mod sessions;
mod signals;
mod silence;
mod socket;
mod source;
mod stalls;
mod start;
mod survey;
mod terms;
mod token;
mod verdicts;
mod view;
mod waiting;

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Poll};

use crate::answer::Answerer;
use crate::config::{AccessLog, Amendments, Config, Origin};
use crate::decisions::Decisions;
use crate::lifecycle::{Lifecycle, Verdict};
use crate::pair::{CloseReason, Side};
use crate::pool::Pool;
use crate::pool::prober::Prober;
use crate::pool::waiting::Room;
use crate::stats::Stats;
use admin::Admin;
use converge::Places;
use doorways::{Doorway, Doorways};
use guests::Guests;
use keeper::Keeper;
use manners::Manners;
use news::News;
use notify::Notify;
use pairs::Pairs;
use parting::Parting;
use polls::Polls;
use probes::Probes;
use relay::Farewell;
use report::Sparing;
use resolver::Resolver;
use service::{Counts, Listener, Passage, Route, Service};
use signals::{Request, Signals};
use socket::SourcePorts;
use stalls::Look;
use token::Source;
use waiting::LineNotes;

pub use asking::{Answered, Question, ask};
pub use console::{Pace, show};
pub use limits::raise_descriptor_limit;
pub use listener::listening_descriptor;
pub use resolver::look_up;
pub use start::{Door, StartError};
pub use survey::survey;

/// The event loop and all it owns.
#[derive(Debug)]
pub struct Reactor {
    poll: Poll,
    events: Events,
    now: Instant,
    /// Now, in the unit of [`crate::measure::waits`].
    tick: u32,
    started: Instant,
    lifecycle: Lifecycle,
    signals: Signals,
    signalled: bool,
    notify: Notify,
    resolver: Resolver,
    doorways: Doorways,
    first_doorway: usize,
    listeners: Vec<Listener>,
    pools: Vec<Pool>,
    /// One for each pool.
    manners: Vec<Manners>,
    /// Where the configuration comes from, if that is a file.
    origin: Option<Origin>,
    /// What that says, as far as it can be had without a restart.
    base: Config,
    /// What the operator has changed.
    amendments: Amendments,
    keeper: Keeper,
    /// Both together: what runs.
    config: Config,
    /// Where the listeners and pools of that are, in its order.
    places: Places,
    /// What listeners have counted that are gone.
    former: Counts,
    /// Whether no pool still has backends that is not configured any more.
    is_tidy: bool,
    pairs: Pairs,
    look: Look,
    room: Room,
    line_notes: LineNotes,
    abandoned: Vec<(usize, u64)>,
    parting: Parting,
    guests: Guests<Answerer>,
    admin: Admin,
    /// Descriptors of the process itself, without doorways.
    own_descriptors: usize,
    /// Those that the admin address may take.
    admin_descriptors: usize,
    /// Whether the admin address has another token by now.
    is_admin_stale: bool,
    prober: Prober<polls::User>,
    polls: Polls,
    probes: Probes,
    stats: Stats,
    news: News,
    decisions: Decisions,
    next_id: u64,
    source_ports: SourcePorts,
    max_connections: usize,
    drain_deadline: Option<Duration>,
    access_log: AccessLog,
    shortage: Sparing,
    ports: Sparing,
    drain_note: Option<Instant>,
    closing: Option<Closing>,
    fullness: Sparing,
    unreachable: Sparing,
}

impl Reactor {
    /// Takes turns until told to leave and nothing is left, or what is left had to be cut.
    ///
    /// # Errors
    /// When the kernel refuses to report events; the process cannot go on then.
    pub fn run(mut self) -> io::Result<Ending> {
        loop {
            self.turn()?;
            match self.lifecycle.verdict(self.now, self.live()) {
                Verdict::GoOn => {}
                Verdict::Leave => {
                    log::info!("All connections have ended; leaving");
                    return Ok(Ending::Drained);
                }
                Verdict::Cut => return Ok(Ending::Cut(self.cut())),
            }
        }
    }

    /// The addresses that are listened on.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.doorways.iter().map(|doorway| doorway.acceptor.address()).collect()
    }

    fn turn(&mut self) -> io::Result<()> {
        self.sleep()?;
        self.mark();
        self.obey();
        self.tick();
        self.accept();
        self.accept_the_last();
        self.relay();
        self.watch();
        self.expire();
        self.administer();
        self.cut_abandoned();
        self.tidy();
        self.attend();
        self.notify.tick(self.now);
        Ok(())
    }

    /// Waits for events, until the next deadline at most, and reads the clock once.
    fn sleep(&mut self) -> io::Result<()> {
        let timeout = if self.has_work() {
            Some(Duration::ZERO)
        } else {
            self.next_deadline().map(|deadline| deadline.saturating_duration_since(self.now))
        };
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Err(_) => self.events.clear(),
            Ok(()) => {}
        }
        self.now = clock();
        self.tick = stalls::tick(self.started, self.now);
        self.stats.turns += 1;
        Ok(())
    }

    fn mark(&mut self) {
        for event in &self.events {
            let ready = socket::readiness(event);
            match Source::from_token(event.token()) {
                Some(Source::Signals) => self.signalled = true,
                Some(Source::Acceptor(number)) => {
                    // A socket that another process shares can be heard of after we closed it.
                    if let Some(doorway) = self.doorways.get_mut(number) {
                        doorway.acceptor.mark();
                    }
                }
                Some(Source::Client(slot)) => self.pairs.mark(slot, Side::Client, ready),
                Some(Source::Backend(slot)) => self.pairs.mark(slot, Side::Backend, ready),
                Some(Source::Probe(slot)) => self.probes.mark(slot, ready),
                Some(Source::Parting(slot)) => self.parting.mark(slot, ready),
                Some(Source::Guest(slot)) => self.guests.mark(slot, ready),
                Some(Source::Admin(slot)) => self.admin.mark(slot, ready),
                Some(Source::AdminAcceptor(number)) => self.admin.mark_acceptor(number),
                // The resolver's answers are looked for every turn; its event only ends the sleep.
                Some(Source::Resolver) | None => {}
            }
        }
    }

    /// Does what signals ask for.
    fn obey(&mut self) {
        if !std::mem::take(&mut self.signalled) {
            return;
        }
        for request in self.signals.take() {
            match request {
                Request::ShutDown(signal) => self.shut_down(signal),
                Request::End => {
                    log::info!("SIGQUIT: ending at once");
                    self.lifecycle.end();
                }
                // What comes of it is told in the log.
                Request::Reload => drop(self.reload_file("SIGHUP")),
                Request::HandOver => {
                    log::warn!("SIGUSR2 is reserved for handing over to a new binary; ignored");
                }
                Request::Report => self.report(),
            }
        }
    }

    fn shut_down(&mut self, signal: &'static str) {
        self.lifecycle.shut_down(self.now, self.drain_deadline);
        match self.lifecycle {
            Lifecycle::Draining { .. } => {
                self.doorways.iter_mut().for_each(|doorway| doorway.acceptor.mark());
                self.listeners.iter_mut().for_each(|listener| listener.gate.lift_rate());
                self.closing = Some(Closing { signal, batches: LAST_BATCHES });
                self.drain_note = Some(self.now + DRAIN_NOTE);
                self.notify.stopping(self.now);
                self.notify.draining(self.live(), self.now);
            }
            Lifecycle::Ending => log::info!("{signal} again: ending at once"),
            Lifecycle::Running => {}
        }
    }

    /// Cuts what is left; says how many connections that were.
    fn cut(&mut self) -> usize {
        let cut = self.live();
        for slot in self.pairs.slots() {
            self.end(slot, CloseReason::Cut, Farewell::Short);
        }
        self.parting.clear();
        if cut > 0 {
            log::warn!("{cut} connections were cut");
        }
        cut
    }

    fn live(&self) -> usize {
        self.pairs.len() + self.parting.len() + self.guests.len()
    }

    fn has_work(&self) -> bool {
        self.pairs.is_busy()
            || !self.abandoned.is_empty()
            || self.guests.queued() > 0
            || self.admin.has_work(self.now)
            || self.lifecycle == Lifecycle::Ending
            || (self.lifecycle != Lifecycle::Running && self.live() == 0)
            || self.can_accept()
            || self.closing.is_some()
    }

    /// The next time at which a phase has something to do by itself. A deadline that no phase will
    /// act on, now that it has passed, must not be among them, or the loop would never sleep.
    fn next_deadline(&self) -> Option<Instant> {
        let doorways = || self.doorways.iter();
        let pauses = doorways().filter_map(|doorway| doorway.acceptor.paused_until(self.now)).min();
        let watching = [self.prober.next(), self.probes.next(), self.resolver.next()];
        let watched = watching.into_iter().flatten().min();
        let waiting = doorways().filter(|doorway| doorway.acceptor.is_ready(self.now));
        let gate = |doorway: &Doorway| self.listeners[doorway.listener].gate.opens(self.now);
        let gates = waiting.filter_map(gate).min();
        let deadlines = [
            self.pairs.next_deadline(),
            self.pairs.silences.next(),
            self.guests.next_deadline(),
            self.admin.next_deadline(self.now),
            self.parting.next(),
            self.lifecycle.deadline(),
            self.drain_note,
            self.warming_until(),
            self.pools.iter().filter_map(Pool::next_deadline).min(),
            watched.filter(|_| self.is_watching()),
            self.room.next(self.now),
            self.notify.next(),
            self.doorways.next(),
            pauses,
            gates,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Whether backends are looked after: while clients may come, and for those who still wait.
    fn is_watching(&self) -> bool {
        self.lifecycle.is_running() || !self.room.is_empty()
    }

    /// Until when clients wait because names have no first answer yet.
    fn warming_until(&self) -> Option<Instant> {
        let until = self.started + WARM_UP;
        (!self.resolver.is_settled() && self.now < until).then_some(until)
    }
}

/// The listening sockets are about to be closed.
#[derive(Debug)]
struct Closing {
    signal: &'static str,
    /// How many more batches of clients are let in.
    batches: usize,
}

/// How the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every connection had ended by itself.
    Drained,
    /// So many connections were cut.
    Cut(usize),
}

/// The one place where the clock is read, once a turn.
#[expect(clippy::disallowed_methods, reason = "this is the reactor's clock")]
fn clock() -> Instant {
    Instant::now()
}

/// How long clients wait at most for the first answers about names.
const WARM_UP: Duration = Duration::from_secs(2);
/// Batches of clients that are let in when the doors are about to close: more than any backlog.
const LAST_BATCHES: usize = 256;
/// How often the connections left are told of while draining.
const DRAIN_NOTE: Duration = Duration::from_secs(5);
