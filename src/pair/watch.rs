//! How soon a backend answers, for pairs where somebody wants to know.
//!
//! The clock begins when the backend is connected, and anew when the client's first bytes reach it:
//! a client that is in no hurry says nothing about its backend. A backend that speaks first is
//! timed from its connect. Each pair is timed once, and one that is not watched pays a comparison.

use std::time::{Duration, Instant};

use super::Pair;
use super::endpoint::Stream;

impl<S: Stream> Pair<S> {
    /// Has the time to the backend's first byte taken, see [`Self::news`].
    pub fn watch(&mut self) {
        self.watch = Watch::Unasked;
    }

    /// What a step has shown of a watched pair.
    pub fn news(&mut self, now: Instant) -> Option<News> {
        match self.watch {
            Watch::Off | Watch::Unasked | Watch::Asked => None,
            Watch::JustAsked => {
                self.watch = Watch::Asked;
                Some(News::Asked)
            }
            Watch::Answered => {
                self.watch = Watch::Off;
                let since = self.connected_at?;
                Some(News::Answered(now.saturating_duration_since(since)))
            }
        }
    }

    /// Since when a watched pair's backend owes its first byte.
    pub fn unanswered_since(&self) -> Option<Instant> {
        self.connected_at.filter(|_| matches!(self.watch, Watch::JustAsked | Watch::Asked))
    }
}

/// How far a watched pair is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Watch {
    /// Nobody wants to know, or all is told.
    #[default]
    Off,
    /// Connected; neither side has had a byte.
    Unasked,
    /// The backend has had bytes, which is still to be told.
    JustAsked,
    /// It has had bytes and said nothing.
    Asked,
    /// It has said something, which is still to be told.
    Answered,
}

impl Watch {
    /// Takes what a step has moved either way; true when the clock begins anew.
    pub(super) fn note(&mut self, up: u64, down: u64) -> bool {
        match self {
            Self::Off | Self::Answered => return false,
            Self::Unasked | Self::JustAsked | Self::Asked if down > 0 => *self = Self::Answered,
            Self::Unasked if up > 0 => {
                *self = Self::JustAsked;
                return true;
            }
            Self::Unasked | Self::JustAsked | Self::Asked => {}
        }
        false
    }
}

/// What is told of a watched pair, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The backend has the client's first bytes.
    Asked,
    /// The backend's first byte was delivered, so long after it was connected or asked.
    Answered(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After steps that moved so much up and down: how far it is, and when the clock began anew.
    fn after(steps: &[(u64, u64)]) -> (Watch, Option<usize>) {
        let mut watch = Watch::Unasked;
        let began = steps.iter().enumerate().filter(|(_, (up, down))| watch.note(*up, *down));
        let began = began.map(|(step, _)| step).last();
        (watch, began)
    }

    #[test]
    fn the_clock_begins_with_the_clients_first_bytes_and_only_then() {
        assert_eq!(after(&[(0, 0), (0, 0)]), (Watch::Unasked, None), "a client in no hurry");
        assert_eq!(after(&[(0, 0), (5, 0), (5, 0)]), (Watch::JustAsked, Some(1)));
        assert_eq!(after(&[(5, 0), (0, 0), (5, 9)]), (Watch::Answered, Some(0)));
    }

    #[test]
    fn a_backend_that_speaks_first_has_answered() {
        assert_eq!(after(&[(0, 9), (5, 0)]), (Watch::Answered, None));
        assert_eq!(after(&[(5, 9)]), (Watch::Answered, None));
    }

    #[test]
    fn who_is_not_watched_never_is() {
        let mut watch = Watch::Off;
        assert!(!watch.note(5, 0) && !watch.note(0, 5));
        assert_eq!(watch, Watch::Off);
    }
}
