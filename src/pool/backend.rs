//! One destination: where it is, how it fares, and what it carries.
//!
//! Two facts decide whether new clients go there: what the probes say ([`Health`]) and what real
//! traffic says (its standing). A backend whose connects keep failing is *ejected* for a growing
//! time, whatever the probes say; a connect or a probe that turned it up lifts that.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::health::Health;

/// One destination of a pool.
#[derive(Debug)]
pub struct Backend {
    label: String,
    weight: u16,
    targets: Vec<Target>,
    preferred: usize,
    pub(super) health: Health,
    standing: Standing,
    counters: Counters,
}

impl Backend {
    /// A backend called `label`, with nothing known of where it is.
    #[must_use]
    pub fn new(label: String, weight: u16, health: Health) -> Self {
        Self {
            label,
            weight,
            targets: Vec::new(),
            preferred: 0,
            health,
            standing: Standing::default(),
            counters: Counters::default(),
        }
    }

    /// Sets where the backend is. The address that worked last stays the first to be tried.
    /// Returns true when that changed anything.
    pub fn relocate(&mut self, targets: Vec<Target>) -> bool {
        if targets == self.targets {
            return false;
        }
        let last_good = self.targets.get(self.preferred);
        self.preferred = targets.iter().position(|t| Some(t) == last_good).unwrap_or(0);
        self.targets = targets;
        true
    }

    /// The first attempt to connect: at the address that worked last.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "no name has billions of addresses")]
    pub fn first_attempt(&self) -> Attempt {
        Attempt { first: self.preferred as u32, turn: 0 }
    }

    /// The address of an attempt; `None` when every address was tried.
    #[must_use]
    pub fn target(&self, attempt: Attempt) -> Option<&Target> {
        self.place(attempt).map(|place| &self.targets[place])
    }

    /// Notes that an attempt connected: its address is the first to be tried from now on.
    pub fn prefer(&mut self, attempt: Attempt) {
        if let Some(place) = self.place(attempt) {
            self.preferred = place;
        }
    }

    /// Every address, in the order in which they are tried.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let attempts = std::iter::successors(Some(self.first_attempt()), |last| Some(last.next()));
        attempts.map_while(|attempt| self.target(attempt))
    }

    /// What it is called: its address as configured.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its share of new connections.
    #[must_use]
    pub fn weight(&self) -> u16 {
        self.weight
    }

    /// What it carries and has carried.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What it is at `now`, in one word of the contract.
    #[must_use]
    pub fn state(&self, now: Instant) -> BackendState {
        if self.targets.is_empty() {
            return BackendState::Unresolved;
        }
        match self.health {
            Health::Down { .. } => BackendState::Down,
            Health::Checking | Health::Up { .. } if self.standing.is_ejected(now) => {
                BackendState::Ejected
            }
            Health::Checking => BackendState::Checking,
            Health::Up { .. } => BackendState::Up,
        }
    }

    /// Whether new clients may be sent there, ejected or not.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.weight > 0 && !self.targets.is_empty() && self.health.is_usable()
    }

    /// Whether new clients should be sent there.
    #[must_use]
    pub fn is_eligible(&self, now: Instant) -> bool {
        self.is_usable() && !self.standing.is_ejected(now)
    }

    fn place(&self, attempt: Attempt) -> Option<usize> {
        let count = self.targets.len();
        let (first, turn) = (attempt.first as usize, attempt.turn as usize);
        (turn < count).then(|| (first + turn) % count)
    }

    pub(super) fn opened(&mut self) {
        self.counters.active += 1;
    }

    pub(super) fn closed(&mut self) {
        assert!(self.counters.active > 0, "a connection ended that was never counted");
        self.counters.active -= 1;
    }

    pub(super) fn connected(&mut self, now: Instant) -> bool {
        self.counters.total += 1;
        self.prove(now)
    }

    /// A connect or a probe that worked wipes the slate; true if that ends an ejection.
    pub(super) fn prove(&mut self, now: Instant) -> bool {
        self.standing.succeed(now)
    }

    pub(super) fn failed(&mut self) -> bool {
        self.counters.failures += 1;
        self.standing.fail()
    }

    pub(super) fn eject(&mut self, now: Instant) -> Duration {
        self.standing.eject(now)
    }
}

/// A walk through the addresses of a backend: where it began, and how far it is. It goes on
/// undisturbed when another connect finds out meanwhile which address is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    first: u32,
    turn: u32,
}

impl Attempt {
    /// The attempt after this one, at the next address.
    #[must_use]
    pub fn next(self) -> Self {
        Self { turn: self.turn + 1, ..self }
    }
}

/// What a backend carries and has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Connections now, those still connecting included.
    pub active: u64,
    /// Connections ever made.
    pub total: u64,
    /// Connects that failed at every address.
    pub failures: u64,
}

/// What real connects say of a backend.
#[derive(Debug, Default)]
struct Standing {
    failures: u32,
    ejections: u32,
    ejected_until: Option<Instant>,
}

impl Standing {
    /// Forgets all failures; true if that ends an ejection.
    fn succeed(&mut self, now: Instant) -> bool {
        let was_ejected = self.is_ejected(now);
        *self = Self::default();
        was_ejected
    }

    /// Counts a failure; true when there are enough in a row to eject.
    fn fail(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures >= FAILURES_TO_EJECT
    }

    fn eject(&mut self, now: Instant) -> Duration {
        let time = FIRST_EJECTION.saturating_mul(1 << self.ejections.min(16)).min(LONGEST_EJECTION);
        self.ejections += 1;
        self.ejected_until = Some(now + time);
        time
    }

    fn is_ejected(&self, now: Instant) -> bool {
        self.ejected_until.is_some_and(|until| until > now)
    }
}

/// A place to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A TCP address.
    Inet(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The state of a backend, in the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendState {
    /// In rotation.
    Up,
    /// Its probes fail.
    Down,
    /// No probe result yet.
    Checking,
    /// Real connects failed.
    Ejected,
    /// Its name has no address.
    Unresolved,
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Checking => "checking",
            Self::Ejected => "ejected",
            Self::Unresolved => "unresolved",
        })
    }
}

/// Failed connects in a row after which a backend is left alone for a while.
const FAILURES_TO_EJECT: u32 = 3;
const FIRST_EJECTION: Duration = Duration::from_secs(10);
const LONGEST_EJECTION: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::super::health::UP;
    use super::*;

    fn inet(text: &str) -> Target {
        Target::Inet(text.parse().unwrap())
    }

    #[test]
    fn the_address_that_worked_is_tried_first_and_survives_a_new_answer() {
        let mut backend = Backend::new("db:1".into(), 1, UP);
        let (a, b, c) = (inet("[::1]:1"), inet("127.0.0.1:1"), inet("127.0.0.2:1"));
        assert!(backend.relocate(vec![a.clone(), b.clone()]));
        let first = backend.first_attempt();
        assert_eq!(backend.target(first), Some(&a));
        backend.prefer(first.next());
        assert!(backend.targets().eq([&b, &a]));
        assert!(backend.relocate(vec![c.clone(), a.clone(), b.clone()]));
        assert!(backend.targets().eq([&b, &c, &a]));
    }

    #[test]
    fn a_walk_reaches_every_address_though_the_preferred_one_changes() {
        let mut backend = Backend::new("db:1".into(), 1, UP);
        let (a, b) = (inet("[::1]:1"), inet("127.0.0.1:1"));
        backend.relocate(vec![a.clone(), b.clone()]);
        let walk = backend.first_attempt();
        backend.prefer(walk.next());
        assert_eq!(backend.target(walk), Some(&a));
        assert_eq!(backend.target(walk.next()), Some(&b));
        assert_eq!(backend.target(walk.next().next()), None);
    }

    #[test]
    fn a_backend_without_an_address_is_unresolved() {
        let backend = Backend::new("db:1".into(), 1, UP);
        assert!(!backend.is_usable());
        assert_eq!(backend.target(backend.first_attempt()), None);
    }
}
