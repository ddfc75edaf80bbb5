//! What the operator has changed, on its way to the state file.
//!
//! A disk may take its time, and the loop must not wait for it: the file is written by a thread of
//! its own, which does nothing else and is there only where there is a state file. Changes that
//! come while it writes are written together. Before the process ends, the last ones are written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

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
    while let Ok(mut latest) = changes.recv() {
        while let Ok(later) = changes.try_recv() {
            latest = later;
        }
        if let Err(error) = state_file::save(path, &latest) {
            log::warn!(
                "cannot write {}: {error}; what was changed at run time holds, but would not \
                 outlive a restart",
                path.display()
            );
        }
    }
}
