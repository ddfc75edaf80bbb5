//! Signals, through signal-hook's pipe: the handler writes a byte, the loop reads it in its turn.

use std::io;

use mio::net::UnixStream;
use mio::{Interest, Registry};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use super::token::Source;

/// What the operator asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    ShutDown(&'static str),
    End,
    Reload,
    Report,
    HandOver,
}

/// The reading end of the pipe.
#[derive(Debug)]
pub(super) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
}

impl Signals {
    /// Takes over the signals of the contract. SIGPIPE is ignored by the Rust runtime already.
    pub(super) fn register(registry: &Registry) -> io::Result<Self> {
        let (mut read, write) = UnixStream::pair()?;
        registry.register(&mut read, Source::Signals.into(), Interest::READABLE)?;
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, SIGNALS)?;
        Ok(Self { delivery })
    }

    /// What arrived since last asked. The same signal twice in one turn counts once.
    pub(super) fn take(&mut self) -> Vec<Request> {
        self.delivery.pending().filter_map(request).collect()
    }
}

fn request(signal: i32) -> Option<Request> {
    match signal {
        SIGTERM => Some(Request::ShutDown("SIGTERM")),
        SIGINT => Some(Request::ShutDown("SIGINT")),
        SIGQUIT => Some(Request::End),
        SIGHUP => Some(Request::Reload),
        SIGUSR1 => Some(Request::Report),
        SIGUSR2 => Some(Request::HandOver),
        _ => None,
    }
}

/// SIGXFSZ is caught and asks for nothing: a log file at its size limit is no reason to die.
const SIGNALS: [i32; 7] = [SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ];
/// Not among signal-hook's names (asm-generic/signal.h).
const SIGXFSZ: i32 = 25;
