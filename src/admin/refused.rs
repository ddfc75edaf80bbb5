//! Why nothing was changed.

use crate::config::{LoadError, nearest};
use crate::http::reply::Status;

/// Why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The status to answer with.
    pub status: Status,
    /// For people.
    pub message: String,
    /// What is wrong with a configuration, if that is why.
    pub problems: Option<Problems>,
}

/// What is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// One line for each, with its place and its cure.
    pub lines: Vec<String>,
    /// The same as `check` shows them.
    pub rendered: String,
}

impl Refused {
    /// With a status and a message for people.
    #[must_use]
    pub fn new(status: Status, message: &str) -> Self {
        Self { status, message: message.to_owned(), problems: None }
    }

    /// There is no such pool among these.
    pub fn no_pool<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::unknown(&format!("there is no pool {asked:?}"), asked, known)
    }

    /// There is no such backend among these, of a pool.
    pub fn no_backend<'a>(
        pool: &str,
        asked: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::unknown(&format!("pool {pool} has no backend {asked:?}"), asked, known)
    }

    fn unknown<'a>(what: &str, asked: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let message = match nearest(asked, known) {
            Some(near) => format!("{what}; did you mean {near:?}?"),
            None => format!("{what}; the status has them all"),
        };
        Self::new(Status::NOT_FOUND, &message)
    }
}

/// A configuration that cannot be used.
impl From<LoadError> for Refused {
    fn from(error: LoadError) -> Self {
        let rendered = error.to_string();
        let (message, lines) = match error {
            LoadError::Unreadable(message) | LoadError::Unfit(message) => {
                let message = message.trim_end().to_owned();
                (message.clone(), vec![message])
            }
            LoadError::Invalid { problems, lines, .. } => {
                let message = match (problems.len(), lines.first()) {
                    (1, Some(line)) => line.clone(),
                    (number, _) => format!("the configuration has {number} problems"),
                };
                (message, lines)
            }
        };
        let problems = Some(Problems { lines, rendered });
        Self { status: Status::UNPROCESSABLE_CONTENT, message, problems }
    }
}
