//! One line: its terms, what it waits for, and at what pace its clients are called.
//!
//! Who stands where is not known here, only how many.

use std::time::{Duration, Instant};

use super::NOBODY;

/// What a client can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Every backend is at its limit.
    Place,
    /// There is no backend, or none that can be connected.
    Backend,
}

/// Who may wait, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// For a place.
    pub place: Allowance,
    /// For a backend; without it nobody waits for one.
    pub backend: Option<Allowance>,
}

impl Terms {
    pub(super) fn allowance(&self, want: Want) -> Option<Allowance> {
        match want {
            Want::Place => Some(self.place),
            Want::Backend => self.backend,
        }
    }

    /// How long anybody waits for one thing.
    pub(super) fn patience(&self, want: Want) -> Option<Duration> {
        self.allowance(want).map_or(Some(Duration::ZERO), |allowance| allowance.time)
    }

    /// How long anybody waits in all, however often it turns what for.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        Some(self.patience(Want::Place)? + self.patience(Want::Backend)?)
    }
}

/// How many may wait for something, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// So many are let in; those who came for another reason count too, and stay.
    pub most: usize,
    /// `None`: for ever.
    pub time: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) terms: Terms,
    /// Why there is a line, if there is one.
    pub(super) cause: Option<Cause>,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) standing: usize,
    pub(super) called: usize,
    /// How many may be called at a time.
    pub(super) window: usize,
    pause: Option<Pause>,
    pub(super) waited: u64,
    pub(super) served: u64,
}

impl Line {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            cause: None,
            first: NOBODY,
            last: NOBODY,
            standing: 0,
            called: 0,
            window: WIDEST,
            pause: None,
            waited: 0,
            served: 0,
        }
    }

    /// Notes what is waited for now.
    pub(super) fn turn(&mut self, want: Want, now: Instant) {
        if self.cause.is_some_and(|cause| cause.want == want) {
            return;
        }
        match want {
            Want::Backend => self.window = 1,
            Want::Place => self.pause = None,
        }
        self.cause = Some(Cause { want, since: now });
    }

    pub(super) fn encourage(&mut self) {
        self.pause = None;
        self.window = self.window.max(self.called + 1).min(WIDEST);
    }

    pub(super) fn discourage(&mut self, now: Instant) {
        if self.cause.is_none() {
            return;
        }
        self.window = 1;
        if self.resumes(now).is_none() {
            let last = self.pause.map(|pause| pause.length);
            let length = last.map_or(FIRST_PAUSE, |length| (length * 2).min(LONGEST_PAUSE));
            self.pause = Some(Pause { until: now + length, length });
        }
    }

    pub(super) fn may_call(&self, now: Instant) -> bool {
        self.standing > 0 && self.called < self.window && self.resumes(now).is_none()
    }

    /// When a pause ends that is not over.
    pub(super) fn resumes(&self, now: Instant) -> Option<Instant> {
        self.pause.map(|pause| pause.until).filter(|&until| until > now)
    }

    /// A line that nobody stands in nor comes back to has no cause.
    pub(super) fn settle(&mut self) {
        if self.standing == 0 && self.called == 0 {
            (self.cause, self.pause, self.window) = (None, None, WIDEST);
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cause {
    pub(super) want: Want,
    /// Since when.
    pub(super) since: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

/// Most who are called at a time: fewer than wait in the smallest usual backlog (128).
pub(super) const WIDEST: usize = 64;
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
