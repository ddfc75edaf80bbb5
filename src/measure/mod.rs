//! What is measured of connections: whom they wait for, and how long things take.
//!
//! Plain numbers in fixed space, without a clock: a time is told in, and costs an addition or two.

pub mod histogram;
pub mod waits;

pub use histogram::Histogram;
pub use waits::{Outlook, Wait, WaitTotals, Waits};
