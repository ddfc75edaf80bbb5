//! Why a pair ended, and what its flows say about it.

use super::Side;
use super::flow::{End, State};

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
    pub const ALL: [Self; 16] = [
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
            | Self::Cut => true,
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
            | Self::OutOfResources => false,
        }
    }
}
