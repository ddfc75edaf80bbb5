//! What the integration tests share: the real binary, scripted peers, and one way to wait.
//!
//! A test starts the program on free ports, learns the ports from its start-up lines, talks to it
//! through sockets, and waits for facts: a line in the log, a byte, an end of stream. Whatever does
//! not come within [`PATIENCE`] fails the test and says what was awaited. Nothing outlives a test:
//! processes are killed when dropped, also by a panic.

#![allow(dead_code, reason = "every test program uses a part of this")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper fails the test that called it")]

pub(crate) mod admin;
pub(crate) mod backend;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod crowd;
pub(crate) mod daemon;
pub(crate) mod noise;
pub(crate) mod ports;

use std::time::{Duration, Instant};

/// Polls until `look` finds something.
#[expect(clippy::disallowed_methods, reason = "the one place where tests look at the clock")]
pub(crate) fn wait_for<T>(fact: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {fact}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Polls until `look` says yes.
pub(crate) fn wait_until(fact: &str, mut look: impl FnMut() -> bool) {
    wait_for(fact, || look().then_some(()));
}

/// How long anything may take. Generous, since the machine may be slow and shared.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
