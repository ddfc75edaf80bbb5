//! What real traffic tells a pool: connects, first bytes, resets, silence, and clients served.

use std::time::{Duration, Instant};

use super::backend::{Attempt, Backend};
use super::terms::Sampled;
use super::{Change, Fault, Pool};
use crate::measure::{Histogram, Wait, WaitTotals};

impl Pool {
    /// A connect of real traffic succeeded, and took so long.
    pub fn connected(
        &mut self,
        backend: usize,
        attempt: Attempt,
        took: Duration,
        now: Instant,
    ) -> Option<Change> {
        self.backends[backend].places.prefer(attempt);
        self.backends[backend].connected();
        self.connects.observe(took);
        if self.terms.sampled == Sampled::Connect {
            self.roster.sample(backend, took, now);
        }
        self.prove(backend, Fault::Connect, now)
    }

    /// The first byte of a backend came, so long after it was connected or asked.
    pub fn first_byte(&mut self, backend: usize, took: Duration, now: Instant) -> Option<Change> {
        if self.terms.sampled == Sampled::FirstByte {
            self.roster.sample(backend, took, now);
        }
        if self.terms.first_byte_timeout.is_some_and(|timeout| took > timeout) {
            return None;
        }
        self.prove(backend, Fault::Silence, now)
    }

    /// A connect failed at every address of the backend.
    pub fn connect_failed(&mut self, backend: usize, now: Instant) -> Option<Change> {
        self.blame(backend, Fault::Connect, now)
    }

    /// The backend was connected and asked, and did not say a byte in time.
    pub fn silent(&mut self, backend: usize, now: Instant) -> Option<Change> {
        if let Some(timeout) = self.terms.first_byte_timeout
            && self.terms.sampled == Sampled::FirstByte
        {
            self.roster.sample(backend, timeout, now);
        }
        self.blame(backend, Fault::Silence, now)
    }

    /// The backend was connected, and reset that before a byte went either way.
    pub fn reset(&mut self, backend: usize, now: Instant) -> Option<Change> {
        self.blame(backend, Fault::Reset, now)
    }

    /// A client who came at `since` was served, or has been connected for long enough.
    pub fn served(&mut self, backend: usize, since: Instant) {
        self.backends[backend].served(since);
    }

    /// Whether resets are held against every backend that could be chosen.
    #[must_use]
    pub fn is_resetting(&self) -> bool {
        let mut usable = self.backends.iter().filter(|backend| backend.is_usable()).peekable();
        usable.peek().is_some() && usable.all(Backend::has_resets)
    }

    /// Whether resets are held against the backend, so that it should be told of clients served.
    #[must_use]
    pub fn has_resets(&self, backend: usize) -> bool {
        self.backends[backend].has_resets()
    }

    /// A connection has waited for so many ticks, with this backend if it had one.
    pub fn waited(&mut self, backend: Option<usize>, wait: Wait, ticks: u32) {
        self.waits.add(wait, ticks.into());
        if let Some(backend) = backend {
            self.backends[backend].waits.add(wait, ticks.into());
        }
    }

    /// The first bytes of a connection came from the backend, or from the client.
    pub fn spoke_first(&mut self, backend: usize, itself: bool) {
        self.backends[backend].speaks_first = itself;
    }

    /// Whether the backend is one of those that speak before they are spoken to.
    #[must_use]
    pub fn speaks_first(&self, backend: usize) -> bool {
        self.backends[backend].speaks_first
    }

    /// What connections have waited for.
    #[must_use]
    pub fn waits(&self) -> &WaitTotals {
        &self.waits
    }

    /// What connections of a backend have waited for.
    #[must_use]
    pub fn waits_of(&self, backend: usize) -> &WaitTotals {
        &self.backends[backend].waits
    }

    /// How long connects took that succeeded.
    #[must_use]
    pub fn connects(&self) -> &Histogram {
        &self.connects
    }

    /// Real traffic had a success.
    fn prove(&mut self, backend: usize, fault: Fault, now: Instant) -> Option<Change> {
        if !self.backends[backend].prove(fault, now) {
            return None;
        }
        self.settle(backend, now);
        Some(Change::Readmitted)
    }

    /// Real traffic had a failure: too many in a row eject the backend, unless it is the last.
    fn blame(&mut self, backend: usize, fault: Fault, now: Instant) -> Option<Change> {
        let enough = self.backends[backend].failed(fault);
        let ejectable =
            enough && self.roster.has_others(backend) && self.backends[backend].is_eligible(now);
        if !ejectable {
            return None;
        }
        let time = self.backends[backend].eject(fault, now);
        self.settle(backend, now);
        Some(Change::Ejected(time))
    }
}
