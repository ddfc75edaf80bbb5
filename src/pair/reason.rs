//! Why a pair ended, and what its flows say about it.

use super::Side;
use super::flow::{End, State};
use crate::edge::gate::Refusal;
use crate::edge::proxy::read::Fault;

/// Why a pair ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides finished, the client first.
    ClientFinished,
    /// Both sides finished, the backend first.
    BackendFinished,
    /// The client's stream broke.
    ClientReset,
    /// The backend's stream broke.
    BackendReset,
    /// No byte in either direction for too long.
    IdleTimeout,
    /// One side had ended and the other was silent for too long.
    HalfCloseTimeout,
    /// The client left before a backend was connected.
    ClientGone,
    /// No backend could be connected.
    ConnectFailed,
    /// There was no backend to try.
    NoBackend,
    /// Every backend was at its limit, and no more clients may wait.
    QueueFull,
    /// No place at a backend became free in time.
    QueueTimeout,
    /// There was no backend, and no more clients may wait for one.
    HoldFull,
    /// No backend came back in time.
    HoldTimeout,
    /// The backend failed its health check, and is configured to be cut then.
    BackendDown,
    /// We had no descriptor or port left for a connection to a backend.
    OutOfResources,
    /// The drain deadline passed, or we were told to end at once.
    Cut,
    /// The operator had this one connection cut.
    CutByOperator,
    /// Its address is denied.
    Denied,
    /// Its address is not among those allowed.
    NotAllowed,
    /// Its source had as many connections as it may.
    SourceFull,
    /// It had to send a PROXY header and did not in time.
    HeaderTimeout,
    /// It had to send a PROXY header and sent something else, or an end.
    HeaderMissing,
    /// Its PROXY header broke the rules.
    HeaderMalformed,
    /// Its PROXY header was longer than we read.
    HeaderTooLong,
}

impl CloseReason {
    /// Why a pair with such flows ends now; `None` if it goes on. `first` is the side that ended
    /// first.
    pub(super) fn of(to_backend: State, to_client: State, first: Option<Side>) -> Option<Self> {
        match (to_backend, to_client) {
            (State::Done(End::SourceReset), _) => Some(Self::ClientReset),
            (_, State::Done(End::SourceReset)) => Some(Self::BackendReset),
            (State::Done(End::SinkReset), State::Done(_)) => Some(Self::BackendReset),
            (State::Done(_), State::Done(End::SinkReset)) => Some(Self::ClientReset),
            (State::Done(End::Finished), State::Done(End::Finished)) => match first {
                Some(Side::Backend) => Some(Self::BackendFinished),
                Some(Side::Client) | None => Some(Self::ClientFinished),
            },
            (State::Open | State::Ending(_), _) | (_, State::Open | State::Ending(_)) => None,
        }
    }

    /// Every reason, for counters.
    pub const ALL: [Self; 24] = [
        Self::ClientFinished,
        Self::BackendFinished,
        Self::ClientReset,
        Self::BackendReset,
        Self::IdleTimeout,
        Self::HalfCloseTimeout,
        Self::ClientGone,
        Self::ConnectFailed,
        Self::NoBackend,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::HoldFull,
        Self::HoldTimeout,
        Self::BackendDown,
        Self::OutOfResources,
        Self::Cut,
        Self::CutByOperator,
        Self::Denied,
        Self::NotAllowed,
        Self::SourceFull,
        Self::HeaderTimeout,
        Self::HeaderMissing,
        Self::HeaderMalformed,
        Self::HeaderTooLong,
    ];

    /// The reason in words, for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::ClientFinished => "client closed",
            Self::BackendFinished => "backend closed",
            Self::ClientReset => "client reset the connection",
            Self::BackendReset => "backend reset the connection",
            Self::IdleTimeout => "idle timeout",
            Self::HalfCloseTimeout => "half-close timeout",
            Self::ClientGone => "client left before a backend was connected",
            Self::ConnectFailed => "no backend could be connected",
            Self::NoBackend => "no available backend",
            Self::QueueFull => "every backend and the queue were full",
            Self::QueueTimeout => "no place at a backend in time",
            Self::HoldFull => "no available backend, and too many clients held",
            Self::HoldTimeout => "no available backend in time",
            Self::BackendDown => "backend failed its health check",
            Self::OutOfResources => "out of local ports or descriptors",
            Self::Cut => "cut by shutdown",
            Self::CutByOperator => "cut by the operator",
            Self::Denied => "address denied",
            Self::NotAllowed => "address not allowed",
            Self::SourceFull => "too many connections from this source",
            Self::HeaderTimeout => "no PROXY header in time",
            Self::HeaderMissing => "no PROXY header",
            Self::HeaderMalformed => "malformed PROXY header",
            Self::HeaderTooLong => "PROXY header too long",
        }
    }

    /// Whether the streams were cut short, so that their ends must not look like orderly ones.
    #[must_use]
    pub fn is_abortive(self) -> bool {
        match self {
            Self::ClientReset
            | Self::BackendReset
            | Self::ClientGone
            | Self::BackendDown
            | Self::Cut
            | Self::CutByOperator
            | Self::Denied
            | Self::NotAllowed
            | Self::SourceFull
            | Self::HeaderMissing
            | Self::HeaderMalformed
            | Self::HeaderTooLong => true,
            Self::ClientFinished
            | Self::BackendFinished
            | Self::IdleTimeout
            | Self::HalfCloseTimeout
            | Self::ConnectFailed
            | Self::NoBackend
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::HoldFull
            | Self::HoldTimeout
            | Self::OutOfResources
            | Self::HeaderTimeout => false,
        }
    }

    /// Whether the client was turned away at the door, by the rules of its listener.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        match self {
            Self::Denied
            | Self::NotAllowed
            | Self::SourceFull
            | Self::HeaderTimeout
            | Self::HeaderMissing
            | Self::HeaderMalformed
            | Self::HeaderTooLong => true,
            Self::ClientFinished
            | Self::BackendFinished
            | Self::ClientReset
            | Self::BackendReset
            | Self::IdleTimeout
            | Self::HalfCloseTimeout
            | Self::ClientGone
            | Self::ConnectFailed
            | Self::NoBackend
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::HoldFull
            | Self::HoldTimeout
            | Self::BackendDown
            | Self::OutOfResources
            | Self::Cut
            | Self::CutByOperator => false,
        }
    }

    /// Who ended it, in a word: who left, or whose rule or order it was.
    #[must_use]
    pub fn ended_by(self) -> &'static str {
        match self {
            Self::ClientFinished | Self::ClientReset | Self::ClientGone => "client",
            Self::BackendFinished | Self::BackendReset => "backend",
            Self::CutByOperator => "operator",
            Self::IdleTimeout
            | Self::HalfCloseTimeout
            | Self::ConnectFailed
            | Self::NoBackend
            | Self::QueueFull
            | Self::QueueTimeout
            | Self::HoldFull
            | Self::HoldTimeout
            | Self::BackendDown
            | Self::OutOfResources
            | Self::Cut
            | Self::Denied
            | Self::NotAllowed
            | Self::SourceFull
            | Self::HeaderTimeout
            | Self::HeaderMissing
            | Self::HeaderMalformed
            | Self::HeaderTooLong => "evenkeel",
        }
    }
}

impl From<Refusal> for CloseReason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Denied => Self::Denied,
            Refusal::NotAllowed => Self::NotAllowed,
            Refusal::SourceFull => Self::SourceFull,
        }
    }
}

impl From<Fault> for CloseReason {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Missing => Self::HeaderMissing,
            Fault::Malformed => Self::HeaderMalformed,
            Fault::TooLong => Self::HeaderTooLong,
        }
    }
}
