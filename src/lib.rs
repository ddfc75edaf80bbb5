//! `evenkeel`, a TCP load balancer: one process, one event loop, no thread on the data path.
//!
//! # The map
//!
//! Five walks, each readable top to bottom without jumping back:
//!
//! - **Bytes**: `reactor::listener` accepts, `reactor::pairs` inserts, [`pair::Pair::step`] runs,
//!   [`pair::flow::Flow::pump`] moves, [`pair::buffer`] holds, [`pair::endpoint`] writes.
//! - **Readiness**: the reactor's turn, `reactor::token`, [`pair::Pair::mark`], the run queue, a
//!   step.
//! - **Probe**: [`pool::prober`] says who is due, `reactor::probes` connects,
//!   [`pool::Pool::observe`] feeds [`pool::health`], a [`pool::Change`] is told, the next pick
//!   sees it.
//! - **Signal**: `reactor::signals`, [`lifecycle`], listeners dropped, turns go on until the pairs
//!   are gone or the deadline has passed, `run` returns.
//! - **Why**: `reactor::connect` picks, [`pool::Pool::note`] notes what spoke for and against each,
//!   [`decisions`] remembers it with attempts and end, `reactor::explain` gives names and words.
//!
//! # Invariants
//!
//! - Only `reactor` and `main.rs` name mio, open a socket or read the clock. Everything else takes
//!   `now` and events and answers with what is to be done.
//! - Events only mark; accepting, moving and closing happen in later phases of the same turn.
//! - A readiness bit is cleared only when the kernel said would-block, or showed it.
//! - While a flow holds bytes its source is not read: memory is bounded by what is open.

pub mod admin;
pub mod answer;
pub mod check;
pub mod cli;
pub mod config;
pub mod decisions;
pub mod demo;
pub mod doctor;
pub mod edge;
pub mod http;
pub mod lifecycle;
pub mod logging;
pub mod measure;
pub mod pair;
pub mod pool;
pub mod reactor;
pub mod stats;
pub mod timers;
pub mod top;
