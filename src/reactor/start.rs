//! From a configuration to a loop that is ready to run: every socket bound, every limit known.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use mio::{Events, Poll};

use super::admin::Admin;
use super::converge::Places;
use super::doorways::Doorways;
use super::guests::{self, Guests};
use super::keeper::Keeper;
use super::limits;
use super::listener::Listening;
use super::news::News;
use super::notify::Notify;
use super::pairs::Pairs;
use super::parting::Parting;
use super::polls::Polls;
use super::probes::Probes;
use super::report::Sparing;
use super::resolver::Resolver;
use super::signals::Signals;
use super::stalls::Look;
use super::token::Source;
use super::waiting::LineNotes;
use super::{Counts, Listener, Reactor, Service, clock};
use crate::answer::Answerer;
use crate::config::{self, Amendments, BindAddress, Config, Origin};
use crate::decisions::{Decisions, REMEMBERED};
use crate::lifecycle::Lifecycle;
use crate::pool::prober::Prober;
use crate::pool::waiting::Room;
use crate::stats::Stats;

impl Reactor {
    /// A loop that balances as `config` says, with what an operator has changed on top. Every
    /// listening socket is bound when this returns. It can be reloaded if it has an origin.
    ///
    /// # Errors
    /// An address that cannot be bound, or a kernel facility that cannot be had.
    pub fn balancing(
        config: Config,
        origin: Option<Origin>,
        amendments: Amendments,
    ) -> Result<Self, StartError> {
        let mut reactor = Self::new(&config.global).map_err(StartError::System)?;
        if let Some(admin) = &config.admin {
            reactor.admin = Admin::open(admin, reactor.poll.registry())?;
            // Without an admin address nobody could ask.
            reactor.decisions = Decisions::remembering(REMEMBERED, reactor.now);
        }
        reactor.admin_descriptors = reactor.admin.descriptors();
        reactor.converge(amendments.over(&config))?;
        (reactor.origin, reactor.base, reactor.amendments) = (origin, config, amendments);
        reactor.amended();
        reactor.take_wishes();
        if let Some(path) = reactor.base.global.state_file.clone() {
            reactor.keeper = Keeper::start(path).map_err(StartError::System)?;
        }
        reactor.prepare(reactor.base.global.max_connections)?;
        reactor.notify = Notify::from_environment(reactor.now);
        reactor.announce();
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
            Door::Bind(address) => Listening::bind(&address, GUEST_BACKLOG, false)
                .map_err(|error| StartError::bind(&address, error, BIND))?,
            Door::Inherit(descriptor) => {
                vec![Listening::inherit(descriptor).map_err(StartError::System)?]
            }
        };
        let answer = answerer(sockets.iter().find_map(Listening::port));
        let service = Service::Answer { answer, delay };
        reactor.listeners.push(Listener::new("backend", service));
        for socket in sockets {
            let registry = reactor.poll.registry();
            reactor.doorways.open(0, None, socket, registry).map_err(StartError::System)?;
        }
        for doorway in reactor.doorways.iter() {
            log::info!("listening on {} (test backend)", doorway.acceptor.address());
        }
        reactor.prepare(None)?;
        Ok(reactor)
    }

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
            notify: Notify::default(),
            resolver: Resolver::new(),
            doorways: Doorways::default(),
            first_doorway: 0,
            listeners: Vec::new(),
            pools: Vec::new(),
            tick: 0,
            look: Look::default(),
            manners: Vec::new(),
            origin: None,
            base: Config::empty(),
            amendments: Amendments::default(),
            keeper: Keeper::default(),
            config: Config::empty(),
            places: Places::default(),
            former: Counts::default(),
            is_tidy: true,
            pairs: Pairs::new(limits::most_pipes()),
            room: Room::default(),
            line_notes: LineNotes::default(),
            abandoned: Vec::new(),
            parting: Parting::default(),
            guests: Guests::new(GUESTS),
            admin: Admin::default(),
            own_descriptors: 0,
            admin_descriptors: 0,
            is_admin_stale: false,
            prober: Prober::new(seed()),
            polls: Polls::default(),
            probes: Probes::default(),
            stats: Stats::default(),
            news: News::new(seed()),
            decisions: Decisions::default(),
            next_id: 1,
            source_ports: limits::source_ports(),
            max_connections: 0,
            drain_deadline: global.drain_deadline,
            access_log: global.access_log,
            shortage: Sparing::default(),
            ports: Sparing::default(),
            drain_note: None,
            closing: None,
            fullness: Sparing::default(),
            unreachable: Sparing::default(),
        })
    }

    /// Sets the limits that follow, starts the helper thread, and says so.
    fn prepare(&mut self, wanted: Option<usize>) -> Result<(), StartError> {
        self.resolver.start(self.poll.registry()).map_err(StartError::System)?;
        self.resolver.refresh(self.now);
        for address in self.admin.addresses() {
            log::info!("listening on {address} (admin)");
        }
        self.own_descriptors = limits::open_descriptors() - self.doorways.iter().count();
        let most = limits::max_connections(wanted, self.other_descriptors())?;
        most.warn();
        self.max_connections = most.connections;
        log::info!("at most {} connections at once", self.max_connections);
        Ok(())
    }
}

/// Where a test backend finds its clients.
#[derive(Debug)]
pub enum Door {
    /// A new socket on this address.
    Bind(BindAddress),
    /// A socket that listens already.
    Inherit(OwnedFd),
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
        /// Where another address is written.
        place: &'static str,
    },
    /// This address overlaps with one that is bound here.
    Overlap {
        /// The address as it was given.
        address: String,
        /// The other one.
        own: String,
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
    pub(super) fn bind(address: &BindAddress, error: io::Error, place: &'static str) -> Self {
        Self::Bind { address: address.to_string(), error, place }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error, place } => match error.kind() {
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {address}: the address is in use; end the program that \
                     listens there, or choose another address with {place}"
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
            Self::Overlap { address, own } => write!(
                f,
                "cannot listen on {address}: it overlaps with {own}, which is open here until it \
                 is gone from the configuration; reload without either first, and then with the \
                 new one"
            ),
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

/// Differs from process to process, so that the probes of many balancers do not march in step.
pub(super) fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Where addresses for clients are written.
pub(super) const BIND: &str = "-l/--listen or `bind`";
/// Test backends wait for their clients as long as those like.
const GUESTS: guests::Terms = guests::Terms { source: Source::Guest, patience: None };
/// Events taken from the kernel in one turn.
const EVENTS: usize = 1024;
const GUEST_BACKLOG: u32 = 4096;
