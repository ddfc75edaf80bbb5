//! From a configuration to a loop that is ready to run: every socket bound, every limit known.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use mio::{Events, Poll};

use super::admin::Admin;
use super::gate::{self, TurnedAway};
use super::guests::{self, Guests};
use super::limits;
use super::listener::{Acceptor, Listening};
use super::news::News;
use super::notify::Notify;
use super::pairs::Pairs;
use super::parting::Parting;
use super::polls::{self, Polls};
use super::probes::Probes;
use super::report::Sparing;
use super::resolver::{Resolver, User};
use super::signals::Signals;
use super::source::Sources;
use super::stalls::Look;
use super::terms;
use super::token::Source;
use super::waiting::LineNotes;
use super::{Listener, Reactor, Route, Service, clock};
use crate::answer::Answerer;
use crate::config::{self, BackendAddress, BindAddress, Config, OnDown};
use crate::edge::gate::Gate;
use crate::lifecycle::Lifecycle;
use crate::measure::Histogram;
use crate::pair::Limits;
use crate::pool::Pool;
use crate::pool::backend::Target;
use crate::pool::prober::Prober;
use crate::pool::waiting::Room;
use crate::stats::Stats;

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
        if let Some(admin) = &config.admin {
            reactor.admin = Admin::open(admin, reactor.poll.registry())?;
        }
        for listener in &config.listeners {
            let pool = &config.pools[listener.pool];
            let service = Service::Balance(Route {
                pool: listener.pool,
                attempts: pool.connect_attempts as usize,
                limits: Limits {
                    connect: pool.connect_timeout,
                    idle: listener.idle_timeout,
                    half_close: listener.half_close_timeout,
                },
                splice: listener.splice,
                header: pool.send_proxy_protocol.map(gate::version),
            });
            let most = listener.max_connections.unwrap_or(usize::MAX);
            let number = reactor.add_listener(&listener.name, service, most);
            reactor.listeners[number].gate = gate::new(listener, reactor.now);
            for address in &listener.bind {
                let sockets = Listening::bind(address, listener.backlog, listener.reuse_port)
                    .map_err(|error| StartError::bind(address, error, BIND))?;
                reactor.open(number, sockets).map_err(StartError::System)?;
            }
        }
        reactor.prepare(config.global.max_connections)?;
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
        let number = reactor.add_listener("backend", service, usize::MAX);
        reactor.open(number, sockets).map_err(StartError::System)?;
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
            acceptors: Vec::new(),
            first_acceptor: 0,
            listeners: Vec::new(),
            pools: Vec::new(),
            tick: 0,
            look: Look::default(),
            pairs: Pairs::new(limits::most_pipes()),
            room: Room::default(),
            line_notes: LineNotes::default(),
            sources: Vec::new(),
            cuts_down: Vec::new(),
            abandoned: Vec::new(),
            parting: Parting::default(),
            guests: Guests::new(GUESTS),
            admin: Admin::default(),
            prober: Prober::new(seed()),
            polls: Polls::default(),
            probes: Probes::default(),
            stats: Stats::default(),
            news: News::new(seed()),
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

    fn add_pool(&mut self, config: &config::Pool) {
        let number = self.pools.len();
        let make = |backend: &config::Backend| terms::backend(backend, &config.health);
        let backends = config.backends.iter().map(make).collect();
        self.sources.push(Sources::new(&config.source));
        for address in self.sources[number].missing() {
            log::warn!(
                "pool {}: {address} in `source` is no address of this machine (see ip addr)",
                config.name
            );
        }
        let mut pool = Pool::new(terms::of_pool(config, seed()), backends, self.now);
        for (backend, configured) in config.backends.iter().enumerate() {
            match &configured.address {
                BackendAddress::Inet(address) => {
                    pool.relocate(backend, vec![Target::Inet(*address)], self.now)
                }
                BackendAddress::Unix(path) => {
                    pool.relocate(backend, vec![Target::Unix(path.clone())], self.now)
                }
                BackendAddress::Name { host, port } => {
                    self.resolver.watch(host, *port, User::Backend { pool: number, backend });
                    None
                }
            };
            let user = polls::User::health(number, backend);
            let header = config.send_proxy_protocol.map(gate::version);
            self.poll(user, &configured.address, &config.health, header);
        }
        self.pools.push(pool);
        self.room.add_line(terms::of_line(config));
        self.line_notes.add_pool();
        self.cuts_down.push(config.on_down == OnDown::Close);
    }

    fn add_listener(&mut self, name: &str, service: Service, most: usize) -> usize {
        self.listeners.push(Listener {
            name: name.to_owned(),
            service,
            gate: Gate::default(),
            away: TurnedAway::default(),
            most,
            active: 0,
            accepted: 0,
            bytes_received: 0,
            bytes_sent: 0,
            lives: Histogram::of_lives(),
        });
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
        self.max_connections =
            limits::max_connections(wanted, self.prober.len() + self.admin.descriptors())?;
        self.resolver.start(self.poll.registry()).map_err(StartError::System)?;
        self.resolver.refresh(self.now);
        for (acceptor, number) in &self.acceptors {
            let listener = &self.listeners[*number];
            let address = acceptor.address();
            match &listener.service {
                Service::Balance(Route { pool, .. }) => log::info!(
                    "listening on {address} (listener {} -> pool {})",
                    listener.name,
                    self.pools[*pool].name()
                ),
                Service::Answer { .. } => log::info!("listening on {address} (test backend)"),
            }
        }
        for address in self.admin.addresses() {
            log::info!("listening on {address} (admin)");
        }
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
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Where addresses for clients are written.
const BIND: &str = "-l/--listen or `bind`";
/// Test backends wait for their clients as long as those like.
const GUESTS: guests::Terms = guests::Terms { source: Source::Guest, patience: None };
/// Events taken from the kernel in one turn.
const EVENTS: usize = 1024;
const GUEST_BACKLOG: u32 = 4096;
