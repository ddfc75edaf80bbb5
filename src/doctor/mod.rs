//! `evenkeel doctor`: whether this machine can do what a configuration asks of it.
//!
//! [`host`] reads the kernel's settings, the reactor finds out who can be reached, and both are
//! plain [`Facts`]. [`examine`] compares them with a configuration. A [`Finding`] says what was
//! read, what that means for this configuration in numbers, and what mends it. Nothing is changed.

mod capacity;
mod doors;
pub mod facts;
pub mod host;
mod places;
pub mod running;

use serde::Serialize;

use crate::config::Config;
use facts::Facts;

/// What the machine is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// What is wanted.
    pub config: Config,
    /// Where that is from.
    pub origin: Origin,
}

/// Where a configuration is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A file, word for word.
    File,
    /// The status of a running balancer, which does not tell everything.
    Running,
    /// There is none; only what holds for all is looked at.
    Nothing,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot work as configured.
    Error,
    /// It works worse than configured, or stops working under load.
    Warning,
    /// Good to know.
    Note,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about, in a word.
    pub topic: &'static str,
    /// What was read.
    pub read: String,
    /// What that means here.
    pub means: String,
    /// What mends it; nothing where nothing need be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mend: String,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What was looked at and is well.
    pub fine: Vec<String>,
}

/// Compares a machine with what is wanted of it.
#[must_use]
pub fn examine(subject: &Subject, facts: &Facts) -> Report {
    let mut report = Report::default();
    let checks = [
        capacity::descriptors,
        capacity::memory,
        capacity::local_ports,
        capacity::time_wait,
        capacity::conntrack,
        capacity::pipes,
        doors::backlog,
        doors::taken,
        doors::low_ports,
        doors::reserved,
        doors::addresses,
        places::names,
        places::backends,
        places::sources,
        places::token,
        places::state_file,
        places::kernel,
    ];
    for check in checks {
        check(subject, facts, &mut report);
    }
    report.findings.sort_by_key(|finding| finding.severity);
    report
}

impl Report {
    /// Whether nothing is worse than a note.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Note)
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let Finding { severity, topic, read, means, mend } = finding;
            text.push_str(&format!("{} {topic}\n  read   {read}\n", severity.word()));
            text.push_str(&format!("  means  {means}\n"));
            if !mend.is_empty() {
                text.push_str(&format!("  mend   {mend}\n"));
            }
            text.push('\n');
        }
        for fine in &self.fine {
            text.push_str(&format!("fine: {fine}\n"));
        }
        let count = |severity| self.findings.iter().filter(|f| f.severity == severity).count();
        let [errors, warnings, notes] =
            [Severity::Error, Severity::Warning, Severity::Note].map(count);
        let fine = self.fine.len();
        text.push_str(&format!(
            "errors {errors}, warnings {warnings}, notes {notes}, fine {fine}\n"
        ));
        // Names of files and programs are from outside.
        text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
    }

    /// Notes something that holds whatever the machine is like.
    pub fn note(&mut self, topic: &'static str, read: String, means: &str, mend: &str) {
        self.add(Severity::Note, topic, [read, means.to_owned(), mend.to_owned()]);
    }

    /// What was read, what it means, what mends it.
    fn add(&mut self, severity: Severity, topic: &'static str, words: [String; 3]) {
        let [read, means, mend] = words;
        self.findings.push(Finding { severity, topic, read, means, mend });
    }

    fn fine(&mut self, what: String) {
        self.fine.push(what);
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Note => "note",
        }
    }
}

/// The command that sets a value of the kernel, now and at every start.
fn sysctl(name: &str, value: impl std::fmt::Display) -> String {
    format!(
        "sysctl -w {name}={value}; to keep it: echo '{name} = {value}' >> \
         /etc/sysctl.d/90-evenkeel.conf"
    )
}

/// How many connections there may be at one time: as configured, or as descriptors allow.
fn most_connections(subject: &Subject, facts: &Facts) -> u64 {
    let limit = facts.descriptors.filter(|_| subject.origin != Origin::Running);
    let allowed = limit.map_or(u64::MAX, |descriptors| descriptors.connections());
    let wanted = subject.config.global.max_connections.map_or(u64::MAX, |most| most as u64);
    wanted.min(allowed)
}

#[cfg(test)]
mod tests;
