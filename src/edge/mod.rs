//! The front door: who may come in, how many, how fast, and who says whom they speak for.
//!
//! Pure. A [`gate::Gate`] belongs to a listener and decides about every client that was accepted;
//! [`proxy`] reads and writes the header by which one proxy tells another of the client behind it.
//!
//! Which address counts for what: `allow` and `deny` ask the socket's, before anything else is
//! done, for it is the only one that nobody can make up. Everything after that asks the address
//! from the PROXY header where there is one: the cap per source, the choice of a backend, the log.

pub mod gate;
pub mod networks;
pub mod proxy;
pub mod rate;
pub mod sources;
