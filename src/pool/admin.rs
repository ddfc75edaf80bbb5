//! What a backend is to be used for, whatever its health: a second fact beside it.
//!
//! The operator and the backend's agent each have a say, and each takes back only its own: the
//! stronger of the two holds. An agent that says `ready` does not end an operator's maintenance.

use std::fmt;

/// What is wanted of a backend; a later one outdoes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Admin {
    /// To be used as far as its health allows.
    #[default]
    Ready,
    /// No new clients; those it has may stay.
    Draining,
    /// No new clients and no probes.
    Maintenance,
}

impl Admin {
    /// What an agent calls it.
    pub(super) fn agent_word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "drain",
            Self::Maintenance => "maint",
        }
    }
}

impl fmt::Display for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
        })
    }
}

/// Whose wish holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// Who runs the balancer.
    Operator,
    /// The agent on the backend's machine.
    Agent,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Operator => "by the operator",
            Self::Agent => "by its agent",
        })
    }
}
