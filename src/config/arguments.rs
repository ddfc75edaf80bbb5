//! A configuration from command line arguments: one listener and one pool, both named `web`.
//!
//! The arguments are laid out as the line somebody might have typed, so that they go through the
//! same checks as a file and problems point into that line.

use std::str::FromStr;

use super::draft::{Draft, HealthPlaces, ListenerDraft, PoolDraft, Report, Written};
use super::problem::{Complaint, Span, quote, render_arguments};
use super::semantics;
use super::{
    AccessLog, Backend, BindAddress, Config, Listener, LoadError, LogFormat, Policy, Pool,
};

/// What options of the command line say over the file or the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--balance`, for every pool.
    pub policy: Option<Policy>,
    /// `--access-log`.
    pub access_log: Option<AccessLog>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
}

impl Config {
    /// Listens on `listen` and balances over `backends`; everything else is the default.
    ///
    /// # Errors
    ///
    /// What the file would be refused for, each problem naming its argument: an address twice
    /// or in another's way, a backend that is this listener, only weights of 0.
    pub fn from_arguments(listen: &[BindAddress], backends: &[Backend]) -> Result<Self, LoadError> {
        let mut line = Line::default();
        let bind = line.items("-l ", listen.iter().map(BindAddress::to_string));
        let written = line.items("", backends.iter().map(argument));
        let name = "web".to_owned();
        let mut draft = Draft {
            listeners: vec![ListenerDraft {
                title: "the listener".to_owned(),
                listener: Listener {
                    name: name.clone(),
                    bind: listen.to_vec(),
                    ..Listener::default()
                },
                name: 0..0,
                bind,
                pool: None,
                pool_refused: false,
                max_connections: None,
            }],
            pools: vec![PoolDraft {
                title: "the pool".to_owned(),
                pool: Pool { name, backends: backends.to_vec(), ..Pool::default() },
                name: 0..0,
                backends: written,
                health: HealthPlaces::default(),
            }],
            ..Draft::default()
        };
        let mut report = Report::default();
        semantics::check(&mut draft, &mut report);
        let problems = report.problems;
        if problems.is_empty() {
            return Ok(draft.into());
        }
        let rendered = render_arguments(&line.text, &problems);
        Err(LoadError::Invalid { problems, rendered })
    }

    /// Puts options of the command line over what is there.
    pub fn apply(&mut self, overrides: &Overrides) {
        if let Some(policy) = overrides.policy {
            for pool in &mut self.pools {
                pool.policy = policy;
            }
        }
        if let Some(access_log) = overrides.access_log {
            self.global.access_log = access_log;
        }
        if let Some(log_format) = overrides.log_format {
            self.global.log_format = log_format;
        }
    }
}

/// A backend as an argument: `HOST:PORT[,weight=N]` or `unix:PATH[,weight=N]`.
impl FromStr for Backend {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let mut parts = text.split(',');
        let mut backend = Self::new(parts.next().unwrap_or(text).parse()?);
        let mut weighted = false;
        for option in parts {
            let Some(weight) = option.strip_prefix("weight=") else {
                return Err(unknown_option(option));
            };
            if weighted {
                let message = format!("{} gives the weight twice", quote(text));
                return Err(Complaint::new(message, "remove one"));
            }
            weighted = true;
            backend.weight = parse_weight(weight)?;
        }
        Ok(backend)
    }
}

/// Arguments as one line of text, remembering where each stands.
#[derive(Default)]
struct Line {
    text: String,
}

impl Line {
    fn items(&mut self, prefix: &str, items: impl Iterator<Item = String>) -> Written {
        let mut spans: Vec<Span> = Vec::new();
        let key = self.text.len();
        for item in items {
            if !self.text.is_empty() {
                self.text.push(' ');
            }
            self.text.push_str(prefix);
            let start = self.text.len();
            self.text.push_str(&item);
            spans.push(start..self.text.len());
        }
        let first = spans.first().cloned();
        Written::List { key: first.unwrap_or(key..key), items: spans, refused: 0 }
    }
}

fn argument(backend: &Backend) -> String {
    let address = &backend.address;
    if *backend == Backend::new(address.clone()) {
        return address.to_string();
    }
    format!("{address},weight={}", backend.weight)
}

fn parse_weight(text: &str) -> Result<u16, Complaint> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let weight = text.parse::<u16>().ok().filter(|&weight| digits && weight <= 256);
    weight.ok_or_else(|| {
        Complaint::new(
            format!("the weight {} is out of range", quote(text)),
            "write a whole number from 0 to 256, as in \"localhost:5001,weight=2\"",
        )
    })
}

fn unknown_option(option: &str) -> Complaint {
    if option == "backup" {
        return Complaint::new(
            "`backup` is not available in this version",
            "this version has \",weight=N\"",
        );
    }
    Complaint::new(
        format!("{} after the comma is no option of a backend", quote(option)),
        "write \",weight=N\" or nothing; a path with a comma needs a configuration file",
    )
}
