//! HTTP/1.1 without sockets: bytes in, facts out.
//!
//! [`head`] gathers and checks a request head, [`body`] finds where a body ends and what is payload
//! in it, [`requests`] reads whole requests one after the other, [`reply`] writes an answer,
//! [`refusal`] names what is wrong with a request and the status that says so; [`response`] reads
//! the head of an answer. Everything works incrementally: the
//! result never depends on how the bytes were cut on their way, and everything a peer can make
//! longer has a limit.
//!
//! Not here: what to answer (that is the caller's), HTTP/2.

pub mod body;
pub mod head;
pub mod refusal;
pub mod reply;
pub mod requests;
pub mod response;
