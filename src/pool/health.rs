//! Rise and fall: what a run of probe results means.
//!
//! The state and the length of the run against it are one value. A backend that is up goes down
//! after `fall` failures in a row; one that is down goes up after `rise` passes in a row; one of
//! which nothing is known is decided by its first result.

/// Thresholds of a pool's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Passes in a row that bring a backend up; at least 1.
    pub rise: u32,
    /// Failures in a row that take it down; at least 1.
    pub fall: u32,
}

/// What is known of a backend's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// No result yet.
    Checking,
    /// In rotation, with so many failures in a row.
    Up {
        /// Always below `fall`.
        failures: u32,
    },
    /// Out of rotation, with so many passes in a row.
    Down {
        /// Always below `rise`.
        passes: u32,
    },
}

impl Health {
    /// Takes one probe result; says if that changed whether the backend is up.
    pub fn observe(&mut self, passed: bool, thresholds: Thresholds) -> Option<Turn> {
        let (next, turn) = match (*self, passed) {
            (Self::Checking, true) => (UP, Some(Turn::Up)),
            (Self::Checking, false) => (DOWN, Some(Turn::Down)),
            (Self::Up { .. }, true) => (UP, None),
            (Self::Down { .. }, false) => (DOWN, None),
            (Self::Up { failures }, false) if failures + 1 >= thresholds.fall => {
                (DOWN, Some(Turn::Down))
            }
            (Self::Up { failures }, false) => (Self::Up { failures: failures + 1 }, None),
            (Self::Down { passes }, true) if passes + 1 >= thresholds.rise => (UP, Some(Turn::Up)),
            (Self::Down { passes }, true) => (Self::Down { passes: passes + 1 }, None),
        };
        *self = next;
        turn
    }

    /// Whether the next results may change the state, so that they should come soon.
    #[must_use]
    pub fn is_turning(self) -> bool {
        match self {
            Self::Checking => true,
            Self::Up { failures: run } | Self::Down { passes: run } => run > 0,
        }
    }

    /// Whether new clients may be sent there. Before the first result they may: a failed connect
    /// goes to another backend, while a backend left out for want of a result would refuse them.
    #[must_use]
    pub fn is_usable(self) -> bool {
        match self {
            Self::Checking | Self::Up { .. } => true,
            Self::Down { .. } => false,
        }
    }
}

/// A change between up and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// In rotation from now on.
    Up,
    /// Out of rotation from now on.
    Down,
}

/// Up, without a failure.
pub const UP: Health = Health::Up { failures: 0 };
/// Down, without a pass.
pub const DOWN: Health = Health::Down { passes: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the words of the definition: a run of `fall` or `rise` decides, nothing less.
        #[test]
        fn the_state_turns_exactly_at_the_end_of_a_run(
            results in prop::collection::vec(any::<bool>(), 1..200),
            rise in 1u32..6,
            fall in 1u32..6,
        ) {
            let mut health = Health::Checking;
            let mut up = None;
            let mut run = 0;
            for passed in results {
                let turn = health.observe(passed, Thresholds { rise, fall });
                let expected = match up {
                    None => Some(passed),
                    Some(state) if state == passed => { run = 0; None }
                    Some(_) => {
                        run += 1;
                        (run >= if passed { rise } else { fall }).then_some(passed)
                    }
                };
                if expected.is_some() {
                    up = expected;
                    run = 0;
                }
                let expected = expected.map(|up| if up { Turn::Up } else { Turn::Down });
                prop_assert_eq!(turn, expected);
                prop_assert_eq!(health.is_usable(), up == Some(true));
                prop_assert_eq!(health.is_turning(), run > 0);
            }
        }
    }
}
