//! What was read, before it is known to be consistent: values with their places.
//!
//! A draft holds everything that could be read, also from a text with errors, so that one broken
//! value does not hide the others. It says what is absent and what was written and refused,
//! because only the first may be complained about as missing.

use super::problem::{Problem, Span};
use super::{Admin, Global, Listener, Pool};

/// Everything that was read from a file or a command line.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) global: Global,
    pub(super) admin: Option<AdminDraft>,
    pub(super) listeners: Vec<ListenerDraft>,
    pub(super) pools: Vec<PoolDraft>,
    /// Whether nothing can be concluded from what is absent, because part of the text could not
    /// be read or a misspelt table may have been meant.
    pub(super) incomplete: bool,
    /// Where more could be added: the end of the text.
    pub(super) end: usize,
}

/// The admin table as written.
#[derive(Debug)]
pub(super) struct AdminDraft {
    pub(super) admin: Admin,
    pub(super) places: Places,
}

/// One listener as written; the index of its pool is not known yet.
#[derive(Debug)]
pub(super) struct ListenerDraft {
    /// What messages call it, such as `[listener.web]`.
    pub(super) title: String,
    pub(super) listener: Listener,
    pub(super) name: Span,
    pub(super) bind: Written,
    /// The pool it names; `None`: the one of its own name.
    pub(super) pool: Option<(String, Span)>,
    /// Whether a pool was written, but not as a name.
    pub(super) pool_refused: bool,
    pub(super) allow: Written,
    pub(super) deny: Written,
    pub(super) proxies: Written,
    pub(super) places: Places,
}

/// One pool as written.
#[derive(Debug)]
pub(super) struct PoolDraft {
    /// What messages call it, such as `[pool.web]`.
    pub(super) title: String,
    pub(super) pool: Pool,
    pub(super) name: Span,
    pub(super) backends: Written,
    pub(super) source: Written,
    pub(super) places: Places,
    /// Where the keys of its health table stand.
    pub(super) health: Places,
}

/// Where the values of the keys of one table stand.
#[derive(Debug, Default)]
pub(super) struct Places {
    written: Vec<(&'static str, Span)>,
}

impl Places {
    pub(super) fn add(&mut self, key: &'static str, value: Span) {
        self.written.push((key, value));
    }

    /// The place of the value of `key`; `None` when the key was not written.
    pub(super) fn of(&self, key: &str) -> Option<Span> {
        let found = self.written.iter().find(|(written, _)| *written == key);
        found.map(|(_, span)| span.clone())
    }
}

/// How a list of values was written.
#[derive(Debug, Default)]
pub(super) enum Written {
    /// The key is not there.
    #[default]
    Absent,
    /// The key is there with something that is no list, or a misspelt key may be it.
    Refused,
    /// The key and the place of each value that could be read, in order.
    List {
        key: Span,
        items: Vec<Span>,
        /// Values that could not be read.
        refused: usize,
    },
}

impl Written {
    /// The places of the values that could be read.
    pub(super) fn items(&self) -> &[Span] {
        match self {
            Self::Absent | Self::Refused => &[],
            Self::List { items, .. } => items,
        }
    }
}

/// Collects problems in the order they are found.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) problems: Vec<Problem>,
}

impl Report {
    pub(super) fn add(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}
