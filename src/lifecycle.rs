//! From running to draining to ended: one machine, fed with signals and the clock.
//!
//! It decides; closing listeners, cutting pairs and leaving the loop are done by the reactor.

use std::time::{Duration, Instant};

/// Where the process is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// Accepting.
    Running,
    /// Not accepting; live connections go on until `deadline`, or for ever.
    Draining {
        /// When what is left is cut.
        deadline: Option<Instant>,
    },
    /// Leaving at once; what is left is cut.
    Ending,
}

impl Lifecycle {
    /// A request to shut down: the first drains, a second ends.
    pub fn shut_down(&mut self, now: Instant, drain_deadline: Option<Duration>) {
        *self = match self {
            Self::Running => Self::Draining { deadline: drain_deadline.map(|wait| now + wait) },
            Self::Draining { .. } | Self::Ending => Self::Ending,
        };
    }

    /// A request to end at once.
    pub fn end(&mut self) {
        *self = Self::Ending;
    }

    /// What to do now, with `live` connections left.
    #[must_use]
    pub fn verdict(self, now: Instant, live: usize) -> Verdict {
        match self {
            Self::Running => Verdict::GoOn,
            Self::Draining { .. } | Self::Ending if live == 0 => Verdict::Leave,
            Self::Draining { deadline: Some(deadline) } if deadline <= now => Verdict::Cut,
            Self::Draining { .. } => Verdict::GoOn,
            Self::Ending => Verdict::Cut,
        }
    }

    /// When the verdict may change by itself.
    #[must_use]
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Draining { deadline } => deadline,
            Self::Running | Self::Ending => None,
        }
    }

    /// Whether new clients are welcome.
    #[must_use]
    pub fn is_running(self) -> bool {
        self == Self::Running
    }
}

/// What the loop is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Take another turn.
    GoOn,
    /// Nothing is left: return.
    Leave,
    /// Cut what is left, then return.
    Cut,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_drains_and_the_second_ends() {
        let now = Instant::now();
        let mut life = Lifecycle::Running;
        life.shut_down(now, Some(Duration::from_secs(30)));
        assert_eq!(life.verdict(now, 1), Verdict::GoOn);
        assert_eq!(life.verdict(now, 0), Verdict::Leave);
        life.shut_down(now, Some(Duration::from_secs(30)));
        assert_eq!(life.verdict(now, 1), Verdict::Cut);
        assert_eq!(life.verdict(now, 0), Verdict::Leave);
    }

    #[test]
    fn the_deadline_cuts_what_is_left() {
        let now = Instant::now();
        let mut life = Lifecycle::Running;
        life.shut_down(now, Some(Duration::from_secs(30)));
        assert_eq!(life.verdict(now + Duration::from_secs(29), 1), Verdict::GoOn);
        assert_eq!(life.verdict(now + Duration::from_secs(30), 1), Verdict::Cut);
    }

    #[test]
    fn without_a_deadline_it_waits_for_ever() {
        let now = Instant::now();
        let mut life = Lifecycle::Running;
        life.shut_down(now, None);
        assert_eq!(life.verdict(now + Duration::from_secs(1_000_000), 1), Verdict::GoOn);
    }

    #[test]
    fn running_without_connections_is_no_reason_to_leave() {
        assert_eq!(Lifecycle::Running.verdict(Instant::now(), 0), Verdict::GoOn);
    }
}
