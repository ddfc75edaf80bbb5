//! What happened last, for the report of a failure.
//!
//! Silent until switched on: a failing schedule is run again, and being deterministic fails again,
//! this time with a record.

use std::collections::VecDeque;

use crate::fake_stream::Shared;

/// The last lines, shared by everything in a world.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Option<Shared<VecDeque<String>>>);

impl Trace {
    pub(crate) fn off() -> Self {
        Self(None)
    }

    pub(crate) fn on() -> Self {
        Self(Some(Shared::new(VecDeque::new())))
    }

    /// Keeps a line, if anybody listens.
    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            let mut lines = lines.get();
            if lines.len() == LINES {
                lines.pop_front();
            }
            lines.push_back(line());
        }
    }

    pub(crate) fn text(&self) -> String {
        let Some(lines) = &self.0 else { return String::new() };
        lines.get().iter().map(|line| format!("{line}\n")).collect()
    }
}

const LINES: usize = 60;
