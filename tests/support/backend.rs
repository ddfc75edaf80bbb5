//! Backends inside the test process: a script, run for every connection in a thread of its own.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use super::PATIENCE;
use super::client::patient;

/// A listening socket with a script behind it.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    leaving: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Backend {
    /// On a free port of 127.0.0.1.
    pub(crate) fn new(script: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    pub(crate) fn on(
        listener: TcpListener,
        script: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let leaving = Arc::new(AtomicBool::new(false));
        let (count, left) = (Arc::clone(&accepted), Arc::clone(&leaving));
        let script = Arc::new(script);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if left.load(Ordering::SeqCst) {
                    return;
                }
                count.fetch_add(1, Ordering::SeqCst);
                patient(&stream);
                let script = Arc::clone(&script);
                thread::spawn(move || script(stream));
            }
        });
        Self { address, accepted, leaving, accepting: Some(accepting) }
    }

    /// Answers with its name, then returns what it got.
    pub(crate) fn named(name: &'static str) -> Self {
        Self::new(move |stream| greet(name, stream))
    }

    /// Returns what it gets, byte by byte.
    pub(crate) fn echo() -> Self {
        Self::new(|stream| greet("", stream))
    }

    /// Hands every connection to the test.
    pub(crate) fn handing_over() -> (Self, Guests) {
        let (give, take) = channel();
        let backend = Self::new(move |stream| {
            // A test that has ended takes no more connections.
            let _ = give.send(stream);
        });
        (backend, Guests(take))
    }

    /// Connections accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.leaving.store(true, Ordering::SeqCst);
        // Wakes the accept loop; whoever else connects does so too.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// The connections of a backend that hands them over.
#[derive(Debug)]
pub(crate) struct Guests(Receiver<TcpStream>);

impl Guests {
    /// The next connection.
    pub(crate) fn next(&self) -> TcpStream {
        self.0
            .recv_timeout(PATIENCE)
            .unwrap_or_else(|_| panic!("no connection reached the backend"))
    }

    /// A connection that is there already.
    pub(crate) fn waiting(&self) -> Option<TcpStream> {
        self.0.try_recv().ok()
    }
}

/// Sends `name`, then everything back; an end is answered with an end.
pub(crate) fn greet(name: &str, mut stream: TcpStream) {
    let mut space = vec![0; 64 * 1024];
    // A peer that breaks off is the business of the test, which sees it from the other side.
    let _ = stream.write_all(name.as_bytes());
    while let Ok(count @ 1..) = stream.read(&mut space) {
        if stream.write_all(&space[..count]).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}
