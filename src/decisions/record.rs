//! What is remembered of one connection, in a fixed space.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::measure::waits::Waits;
use crate::pair::CloseReason;
use crate::pool::choice::Choice;
use crate::pool::waiting::Want;

/// One connection. What every connection has comes first and close together, because a record that
/// is begun anew is in no cache: each line of it that is touched costs a wait for memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Record {
    /// Its number; 0: of none yet.
    pub id: u64,
    /// When it came.
    pub opened: Instant,
    /// The name of its listener, as a number.
    pub listener: u64,
    /// The name of its pool, as a number.
    pub pool: u64,
    /// How often a backend was looked for.
    pub choices_made: u32,
    /// How often a connect was begun.
    pub attempts_made: u32,
    /// Its times in line.
    pub line: Standing,
    /// Whether the client is the one that a PROXY header named.
    pub by_header: bool,
    /// The client; `None` for one of a unix socket.
    pub client: Option<SocketAddr>,
    /// How it ended, if it has.
    pub end: Option<End>,
    first: Dated,
    attempts: [Attempt; MOST_ATTEMPTS],
    latest: Dated,
}

/// A choice, and how many milliseconds after the beginning it was made.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Dated {
    after_millis: u32,
    choice: Choice,
}

/// One connect, to one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The name of the backend, as a number.
    pub backend: u64,
    /// The address; `None` for a unix socket.
    pub target: Option<SocketAddr>,
    /// When it began, after the connection did.
    pub after_millis: u32,
    /// How long it took.
    pub took_micros: u32,
    /// What came of it.
    pub trial: Trial,
}

/// What came of a connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// It goes on, or was given up because the client left.
    Open,
    /// It succeeded.
    Connected,
    /// It failed.
    Failed {
        /// How.
        kind: io::ErrorKind,
        /// The number of the kernel's error; 0: it was our own verdict.
        code: i32,
    },
    /// It succeeded, and was reset before a byte went either way.
    ResetAtOnce,
}

/// The time that a connection stood in line, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standing {
    since: Option<u32>,
    total: u32,
    /// How often.
    pub times: u16,
    /// For what, the last time.
    pub want: Option<Want>,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Why.
    pub reason: CloseReason,
    /// After how long, in ticks of a millisecond.
    pub lasted: u64,
    /// What it had waited for.
    pub waits: Waits,
    /// Bytes that the client sent and the backend took.
    pub received: u64,
    /// Bytes that the backend sent and the client took.
    pub sent: u64,
}

impl Record {
    /// A place for a record.
    pub(super) fn nobody(now: Instant) -> Self {
        Self {
            id: 0,
            client: None,
            by_header: false,
            opened: now,
            listener: 0,
            pool: 0,
            choices_made: 0,
            attempts_made: 0,
            line: Standing::default(),
            end: None,
            first: Dated::default(),
            latest: Dated::default(),
            attempts: [NONE; MOST_ATTEMPTS],
        }
    }

    pub(super) fn begin(&mut self, id: u64, client: Option<SocketAddr>, now: Instant) {
        (self.id, self.client, self.by_header, self.opened) = (id, client, false, now);
        (self.choices_made, self.attempts_made) = (0, 0);
        (self.line, self.end) = (Standing::default(), None);
    }

    pub(super) fn choose(&mut self, now: Instant) -> &mut Choice {
        self.choices_made = self.choices_made.saturating_add(1);
        let after_millis = self.millis(now);
        let dated = if self.choices_made == 1 { &mut self.first } else { &mut self.latest };
        dated.after_millis = after_millis;
        &mut dated.choice
    }

    pub(super) fn attempt(&mut self, backend: u64, target: Option<SocketAddr>, now: Instant) {
        self.attempts_made = self.attempts_made.saturating_add(1);
        let after_millis = self.millis(now);
        if let Some(place) = self.latest_attempt() {
            *place = Attempt { backend, target, after_millis, took_micros: 0, trial: Trial::Open };
        }
    }

    pub(super) fn connected(&mut self, took: Duration) {
        if let Some(attempt) = self.latest_attempt() {
            (attempt.trial, attempt.took_micros) = (Trial::Connected, micros(took));
        }
    }

    pub(super) fn failed(&mut self, error: &io::Error, now: Instant) {
        let began = self.opened;
        let Some(attempt) = self.latest_attempt() else { return };
        if attempt.trial == Trial::Connected {
            attempt.trial = Trial::ResetAtOnce;
            return;
        }
        let before = Duration::from_millis(attempt.after_millis.into());
        let passed = now.saturating_duration_since(began).saturating_sub(before);
        attempt.took_micros = micros(passed);
        let code = error.raw_os_error().unwrap_or(0);
        attempt.trial = Trial::Failed { kind: error.kind(), code };
    }

    /// The choices that are remembered, and how many milliseconds after the beginning each was.
    pub fn choices(&self) -> impl Iterator<Item = (u32, &Choice)> {
        let kept = self.choices_made.min(2) as usize;
        let all = [&self.first, &self.latest].into_iter().take(kept);
        all.map(|dated| (dated.after_millis, &dated.choice))
    }

    /// The attempts that are remembered: the first ones, and the latest.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts[..MOST_ATTEMPTS.min(self.attempts_made as usize)]
    }

    /// Milliseconds that it has stood in line, all its times together.
    #[must_use]
    pub fn stood(&self, now: Instant) -> u32 {
        self.line.total_by(self.millis(now))
    }

    fn latest_attempt(&mut self) -> Option<&mut Attempt> {
        let made = MOST_ATTEMPTS.min(self.attempts_made as usize);
        self.attempts[..made].last_mut()
    }

    /// Since it began.
    pub(super) fn millis(&self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.opened).as_millis();
        u32::try_from(passed).unwrap_or(u32::MAX)
    }
}

impl Standing {
    /// Times are counted from the beginning of the connection.
    pub(super) fn begin(&mut self, want: Want, millis: u32) {
        self.end(millis);
        self.times = self.times.saturating_add(1);
        (self.want, self.since) = (Some(want), Some(millis));
    }

    pub(super) fn end(&mut self, millis: u32) {
        self.total = self.total_by(millis);
        self.since = None;
    }

    /// Whether it stands in line.
    #[must_use]
    pub fn is_going_on(&self) -> bool {
        self.since.is_some()
    }

    fn total_by(&self, millis: u32) -> u32 {
        let lasts = |since| millis.saturating_sub(since);
        self.total.saturating_add(self.since.map_or(0, lasts))
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Attempts that are remembered of one connection: the first ones, and the latest.
pub const MOST_ATTEMPTS: usize = 6;
const NONE: Attempt =
    Attempt { backend: 0, target: None, after_millis: 0, took_micros: 0, trial: Trial::Open };
