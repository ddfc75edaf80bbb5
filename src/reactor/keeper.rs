//! What the operator has changed, on its way to the state file.
//!
//! A disk may take its time, and the loop must not wait for it: the file is written by a thread of
//! its own, which does nothing else and is there only where there is a state file. Changes that
//! come while it writes are written together. What could not be written is tried again: now and
//! then, and before the process ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::config::{Amendments, state_file};

/// The line to the thread; nothing is kept where there is no state file.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    line: Option<Sender<Amendments>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// A keeper for this file.
    pub(super) fn start(path: PathBuf) -> io::Result<Self> {
        let (line, changes) = channel();
        let thread = thread::Builder::new()
            .name("state file".into())
            .spawn(move || write_all(&path, &changes))?;
        Ok(Self { line: Some(line), thread: Some(thread) })
    }

    /// Has these changes written, instead of those before.
    pub(super) fn keep(&self, amendments: &Amendments) {
        if let Some(line) = &self.line {
            // The thread is there as long as we are.
            let _ = line.send(amendments.clone());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.line = None;
        if let Some(thread) = self.thread.take() {
            // It would have said itself what is wrong.
            let _ = thread.join();
        }
    }
}

fn write_all(path: &Path, changes: &Receiver<Amendments>) {
    let mut unwritten = None;
    loop {
        let received = match unwritten {
            None => changes.recv().map_err(RecvTimeoutError::from),
            Some(_) => changes.recv_timeout(PAUSE),
        };
        let is_told = received == Err(RecvTimeoutError::Timeout);
        let is_over = received == Err(RecvTimeoutError::Disconnected);
        unwritten = changes.try_iter().last().or(received.ok()).or(unwritten);
        let Some(latest) = &unwritten else { return };
        match state_file::save(path, latest) {
            Ok(()) => unwritten = None,
            Err(error) if !is_told => log::warn!(
                "cannot write {}: {error}; what was changed at run time holds, but would not \
                 outlive a restart; it is tried again every {} s",
                path.display(),
                PAUSE.as_secs()
            ),
            Err(_) => {}
        }
        if is_over {
            return;
        }
    }
}

/// How long after a failure it is tried again, unless there is a change before.
const PAUSE: Duration = Duration::from_secs(10);
