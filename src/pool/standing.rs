//! What real traffic says of a backend: failures in a row, and being left alone because of them.
//!
//! [`FAILURES_TO_EJECT`] failures in a row eject a backend, for [`FIRST_EJECTION`] and twice as
//! long each time after that, up to [`LONGEST_EJECTION`]; one more failure does once that time is
//! over. A success wipes the slate. Failed connects and silence after a connect are told apart: a
//! connect that works proves nothing about a backend that takes connections and then says nothing.

use std::fmt;
use std::time::{Duration, Instant};

/// One backend's record.
#[derive(Debug, Default)]
pub(super) struct Standing {
    connects: Record,
    answers: Record,
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

    /// Leaves the backend alone for the time that is returned.
    pub(super) fn eject(&mut self, fault: Fault, now: Instant) -> Duration {
        self.record(fault).eject(now)
    }

    /// Why the backend is left alone at `now`, and until when; the longer of two ejections.
    pub(super) fn ejected(&self, now: Instant) -> Option<(Fault, Instant)> {
        let running = |record: &Record| record.ejected_until.filter(|&until| until > now);
        let connects = running(&self.connects).map(|until| (Fault::Connect, until));
        let answers = running(&self.answers).map(|until| (Fault::Silence, until));
        match (connects, answers) {
            (Some(a), Some(b)) => Some(if a.1 >= b.1 { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    fn record(&mut self, fault: Fault) -> &mut Record {
        match fault {
            Fault::Connect => &mut self.connects,
            Fault::Silence => &mut self.answers,
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
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connect => "connects fail",
            Self::Silence => "connected, but it does not answer",
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
