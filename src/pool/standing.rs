//! What real traffic says of a backend: failures in a row, and being left alone because of them.
//!
//! [`FAILURES_TO_EJECT`] failures in a row eject a backend, for [`FIRST_EJECTION`] and twice as
//! long each time after that, up to [`LONGEST_EJECTION`]; one more failure does once that time is
//! over. A success wipes the slate. Failed connects, resets and silence are told apart: a connect
//! that works proves nothing about a backend that takes connections and then resets them, or says
//! nothing. While resets have it left alone, those whom it still serves came before, or had nobody
//! else: neither ends that early.

use std::fmt;
use std::time::{Duration, Instant};

/// One backend's record.
#[derive(Debug, Default)]
pub(super) struct Standing {
    connects: Record,
    answers: Record,
    resets: Record,
}

impl Standing {
    /// A connect or an answer failed; true when there are enough failures in a row to eject.
    pub(super) fn fail(&mut self, fault: Fault) -> bool {
        self.record(fault).fail()
    }

    /// A connect or an answer came; true if that ends an ejection.
    pub(super) fn succeed(&mut self, fault: Fault, now: Instant) -> bool {
        let was_ejected = self.ejected(now).is_some();
        *self.record(fault) = Record::default();
        was_ejected && self.ejected(now).is_none()
    }

    /// A client who came at `since` was served: no reset, unless resets have been the rule since.
    pub(super) fn serve(&mut self, since: Instant) {
        if self.resets.ejected_until.is_none_or(|until| until <= since) {
            self.resets = Record::default();
        }
    }

    /// Whether any reset is held against the backend.
    pub(super) fn has_resets(&self) -> bool {
        self.resets.failures > 0
    }

    /// Forgets resets: the backend was away, and what is there now is new.
    pub(super) fn forget_resets(&mut self) {
        self.resets = Record::default();
    }

    /// Leaves the backend alone for the time that is returned.
    pub(super) fn eject(&mut self, fault: Fault, now: Instant) -> Duration {
        self.record(fault).eject(now)
    }

    /// Why the backend is left alone at `now`, and until when; the longest if there are several.
    pub(super) fn ejected(&self, now: Instant) -> Option<(Fault, Instant)> {
        let records = [
            (Fault::Connect, &self.connects),
            (Fault::Silence, &self.answers),
            (Fault::Reset, &self.resets),
        ];
        let until = |(fault, record): (Fault, &Record)| Some((fault, record.ejected_until?));
        let running = records.into_iter().filter_map(until).filter(|&(_, until)| until > now);
        running.max_by_key(|&(_, until)| until)
    }

    fn record(&mut self, fault: Fault) -> &mut Record {
        match fault {
            Fault::Connect => &mut self.connects,
            Fault::Silence => &mut self.answers,
            Fault::Reset => &mut self.resets,
        }
    }
}

/// What real traffic holds against a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It could not be connected at any of its addresses.
    Connect,
    /// It was connected and asked, and did not say a byte in time.
    Silence,
    /// It took a connection and reset it before a byte went either way.
    Reset,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connect => "connects fail",
            Self::Silence => "connected, but it does not answer",
            Self::Reset => "connected, but it resets at once",
        })
    }
}

#[derive(Debug, Default)]
struct Record {
    failures: u32,
    ejections: u32,
    ejected_until: Option<Instant>,
}

impl Record {
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
}

/// Failures in a row after which a backend is left alone for a while.
const FAILURES_TO_EJECT: u32 = 3;
const FIRST_EJECTION: Duration = Duration::from_secs(10);
const LONGEST_EJECTION: Duration = Duration::from_secs(300);
