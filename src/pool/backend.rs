//! One destination: where it is, how it fares, and what it carries.
//!
//! Several facts, each kept apart, decide whether new clients go there: where it is, what the
//! probes say ([`Health`]), what real traffic says ([`Fault`]), what its agent says, and what it is
//! wanted for ([`Admin`]). A backend whose connects keep failing is *ejected* for a growing time,
//! whatever the probes say; a connect or a probe that turned it up lifts that. One that resets what
//! it has taken is ejected likewise, and neither lifts that. What the facts come
//! to is worked out here; the pool keeps it and acts on it.

mod wanted;

use std::time::{Duration, Instant};

use super::admin::Admin;
use super::agent::Memory;
use super::damping::Damping;
use super::health::{Health, Thresholds, Turn};
use super::history::History;
use super::picker::WHOLE;
use super::places::Places;
pub use super::places::{Attempt, Target};
use super::ramp::Ramp;
use super::roster::{Place, Rank};
use super::standing::{Fault, Standing};
pub use super::state::BackendState;
use crate::measure::WaitTotals;

/// One destination of a pool.
#[derive(Debug)]
pub struct Backend {
    label: String,
    weight: u16,
    most: Option<u32>,
    backup: bool,
    pub(super) places: Places,
    pub(super) health: Health,
    damping: Damping,
    standing: Standing,
    wanted: Admin,
    /// It was taken out of the list; its connections go on.
    removed: bool,
    agent: Memory,
    ramp: Option<Ramp>,
    rotation: Rotation,
    /// Of the last turn; `None` until the result that made it is told.
    words: Option<String>,
    state: Option<(BackendState, Instant)>,
    counters: Counters,
    pub(super) history: History,
    pub(super) waits: WaitTotals,
    /// Whether it spoke before its client, the last time that was seen.
    pub(super) speaks_first: bool,
}

impl Backend {
    /// A backend called `label`, with nothing known of where it is.
    #[must_use]
    pub fn new(label: String, weight: u16, health: Health) -> Self {
        Self {
            label,
            weight,
            most: None,
            backup: false,
            places: Places::default(),
            health,
            damping: Damping::default(),
            standing: Standing::default(),
            wanted: Admin::default(),
            removed: false,
            agent: Memory::default(),
            ramp: None,
            rotation: Rotation::New,
            words: None,
            state: None,
            counters: Counters::default(),
            history: History::default(),
            waits: WaitTotals::default(),
            speaks_first: false,
        }
    }

    /// The same with a limit to its connections.
    #[must_use]
    pub fn with_most(self, most: Option<u32>) -> Self {
        Self { most, ..self }
    }

    /// The same as a backup, or not.
    #[must_use]
    pub fn with_backup(self, backup: bool) -> Self {
        Self { backup, ..self }
    }

    /// The first attempt to connect: at the address that worked last.
    #[must_use]
    pub fn first_attempt(&self) -> Attempt {
        self.places.first_attempt()
    }

    /// The address of an attempt; `None` when every address was tried.
    #[must_use]
    pub fn target(&self, attempt: Attempt) -> Option<&Target> {
        self.places.target(attempt)
    }

    /// Every address, in the order in which they are tried.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.places.targets()
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

    /// Whether it serves only while no other backend can.
    #[must_use]
    pub fn is_backup(&self) -> bool {
        self.backup
    }

    /// What it carries and has carried.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What its agent has said.
    #[must_use]
    pub fn agent(&self) -> &Memory {
        &self.agent
    }

    /// What it is at `now`, in one word of the contract.
    #[must_use]
    pub fn state(&self, now: Instant) -> BackendState {
        match self.admin().0 {
            _ if self.removed => BackendState::Draining,
            Admin::Ready => self.condition(now),
            Admin::Draining => BackendState::Draining,
            Admin::Maintenance => BackendState::Maintenance,
        }
    }

    /// What it is at `now` whatever it is wanted for.
    #[must_use]
    pub fn condition(&self, now: Instant) -> BackendState {
        if self.places.is_empty() {
            return BackendState::Unresolved;
        }
        match self.health {
            Health::Down { .. } => BackendState::Down,
            Health::Checking | Health::Up { .. } if self.agent.is_against() => BackendState::Down,
            Health::Checking | Health::Up { .. } if self.ejected(now).is_some() => {
                BackendState::Ejected
            }
            Health::Checking => BackendState::Checking,
            Health::Up { .. } => BackendState::Up,
        }
    }

    /// Whether new clients may be sent there, ejected or not.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.weight > 0
            && self.agent.percent() > 0
            && self.admin().0 == Admin::Ready
            && !self.removed
            && !self.places.is_empty()
            && self.health.is_usable()
            && !self.agent.is_against()
    }

    /// Whether new clients should be sent there.
    #[must_use]
    pub fn is_eligible(&self, now: Instant) -> bool {
        self.is_usable() && self.ejected(now).is_none()
    }

    /// Flaps that are not forgotten at `now`.
    #[must_use]
    pub fn flaps(&self, now: Instant) -> u32 {
        self.damping.flaps(now)
    }

    /// The limit to its connections when it does not start slowly.
    #[must_use]
    pub fn most(&self) -> Option<u32> {
        self.agent.most().unwrap_or(self.most)
    }

    /// Whether it has come back and takes up its load little by little.
    pub(super) fn starts_slowly(&self) -> bool {
        self.ramp.is_some()
    }

    /// Since when it is in its state.
    pub(super) fn since(&self) -> Option<Instant> {
        self.state.map(|(_, since)| since)
    }

    /// What its last turn was told with.
    pub(super) fn words(&self) -> &str {
        self.words.as_deref().unwrap_or("no probe result yet")
    }

    /// Whether its state has no reason yet but that nothing is known.
    pub(super) fn is_unexplained(&self) -> bool {
        self.words.is_none()
    }

    pub(super) fn explain(&mut self, words: &str) {
        self.words = Some(words.chars().take(MOST_WORDS).collect());
    }

    pub(super) fn thresholds(&self, usual: Thresholds, now: Instant) -> Thresholds {
        self.damping.thresholds(usual, now)
    }

    /// Why it is left alone, and until when.
    pub(super) fn ejected(&self, now: Instant) -> Option<(Fault, Instant)> {
        self.standing.ejected(now)
    }

    /// Its place among the others as of `now`, after a look at what has come of it since: one
    /// that has just become eligible begins a ramp, but not the first time, while the pool `is_new`
    /// with all that it has.
    pub(super) fn settle(&mut self, slow_start: Duration, is_new: bool, now: Instant) -> Place {
        let eligible = self.is_eligible(now);
        match (self.rotation, eligible) {
            (Rotation::In, true) => {}
            (Rotation::New, true) if is_new => {}
            (Rotation::New | Rotation::Out, true) => self.ramp = Ramp::begin(slow_start, now),
            (Rotation::New | Rotation::In | Rotation::Out, false) => self.ramp = None,
        }
        self.rotation = match (self.rotation, eligible) {
            (_, true) => Rotation::In,
            (Rotation::New, false) => Rotation::New,
            (Rotation::In | Rotation::Out, false) => Rotation::Out,
        };
        self.ramp = self.ramp.filter(|ramp| ramp.share(now) < WHOLE);
        let state = self.state(now);
        if self.state.is_none_or(|(before, _)| before != state) {
            self.state = Some((state, now));
        }
        self.place(now)
    }

    /// When [`Self::settle`] comes to something else without any event.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let readmission = self.ejected(now).map(|(_, until)| until);
        let step = self.ramp.and_then(|ramp| ramp.next(now));
        [readmission, step].into_iter().flatten().min()
    }

    /// Takes a probe result; says if that changed whether the probes find it up.
    pub(super) fn observe(
        &mut self,
        passed: bool,
        usual: Thresholds,
        now: Instant,
    ) -> Option<Turn> {
        let thresholds = self.thresholds(usual, now);
        let turn = self.health.observe(passed, thresholds);
        if let Some(turn) = turn {
            self.damping.turned(turn, now);
            self.counters.turns += 1;
            self.words = None;
        }
        if turn == Some(Turn::Up) {
            self.standing.forget_resets();
        }
        turn
    }

    pub(super) fn opened(&mut self) {
        self.counters.active += 1;
    }

    pub(super) fn closed(&mut self) {
        assert!(self.counters.active > 0, "a connection ended that was never counted");
        self.counters.active -= 1;
    }

    pub(super) fn connected(&mut self) {
        self.counters.total += 1;
    }

    pub(super) fn failed(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Connect | Fault::Reset => self.counters.failures += 1,
            Fault::Silence => self.counters.silences += 1,
        }
        self.standing.fail(fault)
    }

    /// Wipes the slate; true if that ends an ejection.
    pub(super) fn prove(&mut self, fault: Fault, now: Instant) -> bool {
        self.standing.succeed(fault, now)
    }

    /// A client who came at `since` was served.
    pub(super) fn served(&mut self, since: Instant) {
        self.standing.serve(since);
    }

    /// Whether resets are held against it.
    pub(super) fn has_resets(&self) -> bool {
        self.standing.has_resets()
    }

    pub(super) fn eject(&mut self, fault: Fault, now: Instant) -> Duration {
        self.standing.eject(fault, now)
    }

    fn place(&self, now: Instant) -> Place {
        let rank = match (self.is_usable(), self.ejected(now).is_some(), self.backup) {
            (false, _, _) => None,
            (true, true, _) => Some(Rank::Ejected),
            (true, false, true) => Some(Rank::Backup),
            (true, false, false) => Some(Rank::Primary),
        };
        let ramp = self.ramp.map_or(WHOLE, |ramp| ramp.share(now));
        let share = u32::from(ramp) * u32::from(self.agent.percent()) / 100;
        let part = |most: u32| u64::from(most) * u64::from(ramp) / u64::from(WHOLE);
        Place {
            rank,
            share: u16::try_from(share).unwrap_or(WHOLE).max(1),
            cap: self.most().map(|most| u32::try_from(part(most)).unwrap_or(most).max(1)),
        }
    }
}

/// What a backend carries and has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Connections now, those still connecting included.
    pub active: u64,
    /// Connections ever made.
    pub total: u64,
    /// Connects that failed at every address, those reset at once included.
    pub failures: u64,
    /// Connections on which it did not say a byte in time.
    pub silences: u64,
    /// How often its probes found it up or down when it was not before.
    pub turns: u64,
}

/// Whether it is among those that should get clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rotation {
    /// It never was.
    New,
    In,
    Out,
}

/// Why one is up that nobody asks.
pub(super) const NOT_PROBED: &str = "not probed";
/// Characters of an explanation that are kept.
const MOST_WORDS: usize = 160;
