//! Reloading the configuration: what is asked for, and what is answered.

use serde::{Deserialize, Serialize};

use crate::config::{Action, Item};

/// A configuration that somebody would like to know about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// What problems call it.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// What a reload does, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Each change; none when everything is so already.
    pub changes: Vec<PlanItem>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanItem {
    /// What is changed, as in `backend web/127.0.0.1:5001`.
    pub subject: String,
    /// `add`, `remove` or `change`; `restart` for what is not done before the next start.
    pub action: String,
    /// From what, to what, for people.
    pub text: String,
    /// Live connections that the change is about.
    pub connections: u64,
}

impl PlanItem {
    /// A change that is about so many live connections.
    #[must_use]
    pub fn new(item: &Item, connections: u64) -> Self {
        Self {
            subject: item.subject.to_string(),
            action: item.action.word().to_owned(),
            text: item.text.clone(),
            connections,
        }
    }

    /// Whether it waits for the next start of the program.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        self.action == Action::Restart.word()
    }
}
