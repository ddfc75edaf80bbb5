//! The words between a pair and its surroundings: what it may take, where it stands, what it needs.

use std::io;
use std::time::Duration;

use super::CloseReason;
use crate::edge::proxy::Ends;

/// What the surroundings of a pair must do after a step.
#[derive(Debug)]
pub enum Step {
    /// The client has sent its PROXY header, which names the ends of the connection it speaks for,
    /// or none but its own: note it and step again.
    Greeted(Option<Box<Ends>>),
    /// Choose a backend, begin a connect, and [`super::Pair::attach`] it.
    NeedBackend,
    /// The backend is connected, after so long: note it and step again.
    Connected(Duration),
    /// This backend could not be connected, or reset the connection (`ConnectionReset`) before a
    /// byte went either way. It was dropped: note it and step again.
    ConnectFailed(io::Error),
    /// Nothing, until an event or the deadline.
    Waiting,
    /// The byte budget is spent: step again after the others.
    Again,
    /// End the pair.
    Done(CloseReason),
}

/// Which part of its life a pair is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The client is to send a PROXY header first.
    Greeting,
    /// No backend yet, or the last attempt failed.
    Choosing,
    /// No backend, and none to be had for now.
    Waiting,
    /// A connect is under way.
    Connecting,
    /// Bytes move.
    Relaying,
}

/// An end of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that connected to us.
    Client,
    /// The one we connected to.
    Backend,
}

/// A way that bytes take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the backend.
    ToBackend,
    /// From the backend to the client.
    ToClient,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One connect.
    pub connect: Duration,
    /// Silence in both directions; `None` is for ever.
    pub idle: Option<Duration>,
    /// Silence after one side has ended; `None` leaves only `idle`.
    pub half_close: Option<Duration>,
}
