//! The shell around the pure parts: the only code that touches the kernel.
//!
//! A turn has fixed phases, and only the second looks at events. Events set bits and queue; nothing
//! is created, closed, read or written while they are looked at. So no event can meet a slot that
//! was freed and given to somebody else in the same batch, and no edge is lost: a bit stays set
//! until the kernel says would-block.

mod guests;
mod limits;
mod listener;
mod pairs;
mod parting;
mod probes;
mod relay;
mod report;
mod resolver;
mod signals;
mod socket;
mod token;
mod verdicts;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mio::{Events, Poll};

use crate::answer::Answerer;
use crate::config::{self, AccessLog, BackendAddress, BindAddress, Config, HealthKind, Initial};
use crate::lifecycle::{Lifecycle, Verdict};
use crate::pair::{CloseReason, Limits, Side};
use crate::pool::Pool;
use crate::pool::backend::{Backend, Target};
use crate::pool::health::{DOWN, Health, Thresholds, UP};
use crate::pool::prober::{Pace, Prober};
use crate::stats::Stats;
use guests::Guests;
use listener::{Acceptor, Listening};
use pairs::Pairs;
use parting::Parting;
use probes::Probes;
use report::Sparing;
use resolver::{Resolver, User};
use signals::{Request, Signals};
use token::Source;

pub use limits::{open_descriptors, raise_descriptor_limit};
pub use listener::listening_descriptor;
pub use resolver::look_up;

/// The event loop and all it owns.
#[derive(Debug)]
pub struct Reactor {
    poll: Poll,
    events: Events,
    now: Instant,
    started: Instant,
    lifecycle: Lifecycle,
    signals: Signals,
    signalled: bool,
    resolver: Resolver,
    acceptors: Vec<(Acceptor, usize)>,
    listeners: Vec<Listener>,
    pools: Vec<Pool>,
    pairs: Pairs,
    parting: Parting,
    guests: Guests,
    prober: Prober,
    probes: Probes,
    stats: Stats,
    next_id: u64,
    max_connections: usize,
    drain_deadline: Option<Duration>,
    access_log: AccessLog,
    shortage: Sparing,
    ports: Sparing,
    drain_note: Option<Instant>,
    full: bool,
}

impl Reactor {
    /// A loop that balances as `config` says. Every listening socket is bound when this returns.
    ///
    /// # Errors
    /// An address that cannot be bound, or a kernel facility that cannot be had.
    pub fn balancing(config: &Config) -> Result<Self, StartError> {
        let mut reactor = Self::new(&config.global).map_err(StartError::System)?;
        for pool in &config.pools {
            reactor.add_pool(pool);
        }
        for listener in &config.listeners {
            let pool = &config.pools[listener.pool];
            let service = Service::Balance {
                pool: listener.pool,
                attempts: pool.connect_attempts as usize,
                limits: Limits {
                    connect: pool.connect_timeout,
                    idle: listener.idle_timeout,
                    half_close: listener.half_close_timeout,
                },
            };
            let most = listener.max_connections.unwrap_or(usize::MAX);
            let number = reactor.add_listener(&listener.name, service, most);
            for address in &listener.bind {
                let sockets = Listening::bind(address, listener.backlog)
                    .map_err(|error| StartError::bind(address, error))?;
                reactor.open(number, sockets).map_err(StartError::System)?;
            }
        }
        reactor.prepare(config.global.max_connections)?;
        Ok(reactor)
    }

    /// A loop that answers clients itself, on a socket to be bound or one that already listens.
    /// `answerer` is told the port, if there is one.
    ///
    /// # Errors
    /// An address that cannot be bound, or a kernel facility that cannot be had.
    pub fn answering(
        door: Door,
        answerer: impl FnOnce(Option<u16>) -> Answerer,
        delay: Duration,
    ) -> Result<Self, StartError> {
        let mut reactor = Self::new(&config::Global::default()).map_err(StartError::System)?;
        let sockets = match door {
            Door::Bind(address) => Listening::bind(&address, GUEST_BACKLOG)
                .map_err(|error| StartError::bind(&address, error))?,
            Door::Inherit(descriptor) => {
                vec![Listening::inherit(descriptor).map_err(StartError::System)?]
            }
        };
        let answer = answerer(sockets.iter().find_map(Listening::port));
        let service = Service::Answer { answer, delay };
        let number = reactor.add_listener("backend", service, usize::MAX);
        reactor.open(number, sockets).map_err(StartError::System)?;
        reactor.prepare(None)?;
        Ok(reactor)
    }

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
        self.acceptors.iter().map(|(acceptor, _)| acceptor.address()).collect()
    }

    fn turn(&mut self) -> io::Result<()> {
        self.sleep()?;
        self.mark();
        self.obey();
        self.accept();
        self.relay();
        self.watch();
        self.expire();
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
        Ok(())
    }

    fn mark(&mut self) {
        for event in &self.events {
            let ready = socket::readiness(event);
            match Source::from_token(event.token()) {
                Some(Source::Signals) => self.signalled = true,
                Some(Source::Acceptor(number)) => self.acceptors[number].0.mark(),
                Some(Source::Client(slot)) => self.pairs.mark(slot, Side::Client, ready),
                Some(Source::Backend(slot)) => self.pairs.mark(slot, Side::Backend, ready),
                Some(Source::Probe(slot)) => self.probes.mark(slot, ready),
                Some(Source::Parting(slot)) => self.parting.mark(slot, ready),
                Some(Source::Guest(slot)) => self.guests.mark(slot, ready),
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
                Request::Reload => {
                    log::warn!(
                        "SIGHUP: reloading is not available in this version; nothing changed"
                    );
                }
                Request::HandOver => {
                    log::warn!("SIGUSR2 is reserved for handing over to a new binary; ignored");
                }
                Request::Report => self.report(),
            }
        }
    }

    fn shut_down(&mut self, signal: &str) {
        self.lifecycle.shut_down(self.now, self.drain_deadline);
        match self.lifecycle {
            Lifecycle::Draining { .. } => {
                log::info!("{signal}: no longer accepting, {} connections left", self.live());
                self.acceptors.clear();
                self.probes.clear();
                self.drain_note = Some(self.now + DRAIN_NOTE);
            }
            Lifecycle::Ending => log::info!("{signal} again: ending at once"),
            Lifecycle::Running => {}
        }
    }

    /// Cuts what is left; says how many connections that were.
    fn cut(&mut self) -> usize {
        let cut = self.live();
        for slot in self.pairs.slots() {
            self.finish(slot, CloseReason::Cut);
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
        self.pairs.queued() > 0
            || self.guests.queued() > 0
            || self.lifecycle == Lifecycle::Ending
            || (self.lifecycle != Lifecycle::Running && self.live() == 0)
            || self.can_accept()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let pauses =
            self.acceptors.iter().filter_map(|(acceptor, _)| acceptor.paused_until()).min();
        let probing = self.lifecycle.is_running().then(|| self.prober.next()).flatten();
        let deadlines = [
            self.pairs.next_deadline(),
            self.guests.next_deadline(),
            self.parting.next(),
            self.probes.next(),
            self.resolver.next(),
            self.lifecycle.deadline(),
            self.drain_note,
            self.warming_until(),
            probing,
            pauses,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Until when clients wait because names have no first answer yet.
    fn warming_until(&self) -> Option<Instant> {
        let until = self.started + WARM_UP;
        (!self.resolver.is_settled() && self.now < until).then_some(until)
    }
}

/// Building the parts.
impl Reactor {
    fn new(global: &config::Global) -> io::Result<Self> {
        let poll = Poll::new()?;
        let signals = Signals::register(poll.registry())?;
        let now = clock();
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            now,
            started: now,
            lifecycle: Lifecycle::Running,
            signals,
            signalled: false,
            resolver: Resolver::new(),
            acceptors: Vec::new(),
            listeners: Vec::new(),
            pools: Vec::new(),
            pairs: Pairs::new(),
            parting: Parting::default(),
            guests: Guests::default(),
            prober: Prober::new(seed()),
            probes: Probes::default(),
            stats: Stats::default(),
            next_id: 1,
            max_connections: 0,
            drain_deadline: global.drain_deadline,
            access_log: global.access_log,
            shortage: Sparing::default(),
            ports: Sparing::default(),
            drain_note: None,
            full: false,
        })
    }

    fn add_pool(&mut self, config: &config::Pool) {
        let number = self.pools.len();
        let health = match (config.health.kind, config.health.initial) {
            (HealthKind::None, _) | (HealthKind::Tcp, Initial::Up) => UP,
            (HealthKind::Tcp, Initial::Down) => DOWN,
            (HealthKind::Tcp, Initial::Checking) => Health::Checking,
        };
        let make = |b: &config::Backend| Backend::new(b.address.to_string(), b.weight, health);
        let thresholds = Thresholds { rise: config.health.rise, fall: config.health.fall };
        let backends = config.backends.iter().map(make).collect();
        let mut pool = Pool::new(config.name.clone(), backends, thresholds);
        for (backend, configured) in config.backends.iter().enumerate() {
            match &configured.address {
                BackendAddress::Inet(address) => {
                    pool.relocate(backend, vec![Target::Inet(*address)])
                }
                BackendAddress::Unix(path) => {
                    pool.relocate(backend, vec![Target::Unix(path.clone())])
                }
                BackendAddress::Name { host, port } => {
                    self.resolver.watch(host, *port, User { pool: number, backend });
                    None
                }
            };
            let pace = Pace {
                interval: config.health.interval,
                fast_interval: config.health.fast_interval,
                timeout: config.health.timeout,
            };
            if config.health.kind == HealthKind::Tcp {
                self.prober.add(number, backend, pace, self.now);
            }
        }
        self.pools.push(pool);
    }

    fn add_listener(&mut self, name: &str, service: Service, most: usize) -> usize {
        self.listeners.push(Listener { name: name.to_owned(), service, most, active: 0 });
        self.listeners.len() - 1
    }

    fn open(&mut self, listener: usize, sockets: Vec<Listening>) -> io::Result<()> {
        for socket in sockets {
            let mut acceptor = Acceptor::new(socket);
            let token = Source::Acceptor(self.acceptors.len()).into();
            acceptor.register(self.poll.registry(), token)?;
            self.acceptors.push((acceptor, listener));
        }
        Ok(())
    }

    /// Says what is listening, sets the limits that follow, and starts the helper thread.
    fn prepare(&mut self, wanted: Option<usize>) -> Result<(), StartError> {
        self.max_connections = limits::max_connections(wanted, self.prober.len())?;
        self.resolver.start(self.poll.registry()).map_err(StartError::System)?;
        self.resolver.refresh(self.now);
        for (acceptor, number) in &self.acceptors {
            let listener = &self.listeners[*number];
            let address = acceptor.address();
            match &listener.service {
                Service::Balance { pool, .. } => log::info!(
                    "listening on {address} (listener {} -> pool {})",
                    listener.name,
                    self.pools[*pool].name()
                ),
                Service::Answer { .. } => log::info!("listening on {address} (test backend)"),
            }
        }
        log::info!("at most {} connections at once", self.max_connections);
        Ok(())
    }
}

/// A named door: what happens to the clients that come through it, and how many may be inside.
#[derive(Debug)]
struct Listener {
    name: String,
    service: Service,
    most: usize,
    active: usize,
}

#[derive(Debug)]
enum Service {
    Balance { pool: usize, attempts: usize, limits: Limits },
    Answer { answer: Answerer, delay: Duration },
}

/// Where a test backend finds its clients.
#[derive(Debug)]
pub enum Door {
    /// A new socket on this address.
    Bind(BindAddress),
    /// A socket that listens already.
    Inherit(OwnedFd),
}

/// How the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every connection had ended by itself.
    Drained,
    /// So many connections were cut.
    Cut(usize),
}

/// Why the loop could not start.
#[derive(Debug)]
pub enum StartError {
    /// This address could not be bound.
    Bind {
        /// The address as it was given.
        address: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// There are not enough descriptors for even one connection.
    Descriptors {
        /// What is allowed.
        limit: u64,
        /// What is needed.
        needed: u64,
    },
    /// Something else that the kernel refused.
    System(io::Error),
}

impl StartError {
    fn bind(address: &BindAddress, error: io::Error) -> Self {
        Self::Bind { address: address.to_string(), error }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => match error.kind() {
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {address}: the address is in use; end the program that \
                     listens there, or choose another address with -l/--listen or `bind`"
                ),
                io::ErrorKind::PermissionDenied => write!(
                    f,
                    "cannot listen on {address}: permission denied; ports below 1024 need \
                     CAP_NET_BIND_SERVICE, and a socket's folder must be writable"
                ),
                io::ErrorKind::AddrNotAvailable => write!(
                    f,
                    "cannot listen on {address}: this machine has no such address; choose one of \
                     its own (ip addr), or :PORT for all"
                ),
                _ => write!(f, "cannot listen on {address}: {error}"),
            },
            Self::Descriptors { limit, needed } => write!(
                f,
                "the descriptor limit of {limit} is too low: at least {needed} are needed; raise \
                 it with ulimit -n, or LimitNOFILE= in the systemd unit"
            ),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

/// The one place where the clock is read, once a turn.
#[expect(clippy::disallowed_methods, reason = "this is the reactor's clock")]
fn clock() -> Instant {
    Instant::now()
}

/// Differs from process to process, so that the probes of many balancers do not march in step.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Events taken from the kernel in one turn.
const EVENTS: usize = 1024;
const GUEST_BACKLOG: u32 = 4096;
/// How long clients wait at most for the first answers about names.
const WARM_UP: Duration = Duration::from_secs(2);
/// How often the connections left are told of while draining.
const DRAIN_NOTE: Duration = Duration::from_secs(5);
