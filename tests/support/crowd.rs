//! Clients that come one after another, several at a time, until they are told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use super::client::try_ask;
use super::wait_until;

/// Threads that each connect, say hello, and want `[x] hello` back, over and over.
#[derive(Debug)]
pub(crate) struct Crowd {
    stop: Arc<AtomicBool>,
    served: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<usize>>,
}

impl Crowd {
    pub(crate) fn start(address: SocketAddr, size: usize) -> Self {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |_| {
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            thread::spawn(move || {
                let mut failed = 0;
                while !stop.load(Ordering::SeqCst) {
                    match try_ask(address, "hello\n") {
                        Ok(answer) if answer == "[x] hello\n" => {
                            served.fetch_add(1, Ordering::SeqCst);
                        }
                        Ok(_) | Err(_) => failed += 1,
                    }
                }
                failed
            })
        };
        let clients = (0..size).map(client).collect();
        Self { stop, served, clients }
    }

    /// Waits until so many more were served.
    pub(crate) fn go_on(&self, count: usize) {
        let goal = self.served.load(Ordering::SeqCst) + count;
        wait_until("clients go on being served", || self.served.load(Ordering::SeqCst) >= goal);
    }

    /// Ends it; how many were served, and how many were not.
    pub(crate) fn end(self) -> (usize, usize) {
        self.stop.store(true, Ordering::SeqCst);
        let failed = self.clients.into_iter().map(|client| client.join().unwrap()).sum();
        (self.served.load(Ordering::SeqCst), failed)
    }
}
