//! Where a backend is: the addresses of its name, and which of them is tried first.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The addresses of one backend. The one that worked last comes first.
#[derive(Debug, Default)]
pub(super) struct Places {
    targets: Vec<Target>,
    preferred: usize,
}

impl Places {
    /// Sets where the backend is. The address that worked last stays the first to be tried.
    /// Returns true when that changed anything.
    pub(super) fn relocate(&mut self, targets: Vec<Target>) -> bool {
        if targets == self.targets {
            return false;
        }
        let last_good = self.targets.get(self.preferred);
        self.preferred = targets.iter().position(|t| Some(t) == last_good).unwrap_or(0);
        self.targets = targets;
        true
    }

    #[expect(clippy::cast_possible_truncation, reason = "no name has thousands of addresses")]
    pub(super) fn first_attempt(&self) -> Attempt {
        Attempt { first: self.preferred as u16, turn: 0 }
    }

    /// The address of an attempt; `None` when every address was tried.
    pub(super) fn target(&self, attempt: Attempt) -> Option<&Target> {
        self.place(attempt).map(|place| &self.targets[place])
    }

    /// Notes that an attempt connected: its address is the first to be tried from now on.
    pub(super) fn prefer(&mut self, attempt: Attempt) {
        if let Some(place) = self.place(attempt) {
            self.preferred = place;
        }
    }

    /// Every address, in the order in which they are tried.
    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        let attempts = std::iter::successors(Some(self.first_attempt()), |last| Some(last.next()));
        attempts.map_while(|attempt| self.target(attempt))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    fn place(&self, attempt: Attempt) -> Option<usize> {
        let count = self.targets.len();
        let (first, turn) = (usize::from(attempt.first), usize::from(attempt.turn));
        (turn < count).then(|| (first + turn) % count)
    }
}

/// A walk through the addresses of a backend: where it began, and how far it is. It goes on
/// undisturbed when another connect finds out meanwhile which address is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    first: u16,
    turn: u16,
}

impl Attempt {
    /// The attempt after this one, at the next address.
    #[must_use]
    pub fn next(self) -> Self {
        Self { turn: self.turn + 1, ..self }
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

impl Target {
    /// The address, if it is one of TCP.
    #[must_use]
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(text: &str) -> Target {
        Target::Inet(text.parse().unwrap())
    }

    #[test]
    fn the_address_that_worked_is_tried_first_and_survives_a_new_answer() {
        let mut places = Places::default();
        let (a, b, c) = (inet("[::1]:1"), inet("127.0.0.1:1"), inet("127.0.0.2:1"));
        assert!(places.relocate(vec![a.clone(), b.clone()]));
        let first = places.first_attempt();
        assert_eq!(places.target(first), Some(&a));
        places.prefer(first.next());
        assert!(places.targets().eq([&b, &a]));
        assert!(places.relocate(vec![c.clone(), a.clone(), b.clone()]));
        assert!(places.targets().eq([&b, &c, &a]));
    }

    #[test]
    fn a_walk_reaches_every_address_though_the_preferred_one_changes() {
        let mut places = Places::default();
        let (a, b) = (inet("[::1]:1"), inet("127.0.0.1:1"));
        places.relocate(vec![a.clone(), b.clone()]);
        let walk = places.first_attempt();
        places.prefer(walk.next());
        assert_eq!(places.target(walk), Some(&a));
        assert_eq!(places.target(walk.next()), Some(&b));
        assert_eq!(places.target(walk.next().next()), None);
    }
}
