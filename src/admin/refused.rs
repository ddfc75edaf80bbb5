//! Why nothing was changed.

use crate::config::{LoadError, Unfit, nearest};
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

    /// Which of these pools is meant: the one that is named, or the only one.
    ///
    /// # Errors
    /// When it is none of them, or nobody is named among several.
    pub fn unless_pool<'a>(
        asked: Option<&str>,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<usize, Self> {
        let Some(asked) = asked else {
            let number = known.clone().count();
            if number == 1 {
                return Ok(0);
            }
            let names: Vec<&str> = known.take(FEW).collect();
            let more = if number > FEW { ", …" } else { "" };
            let message = format!(
                "there are {number} pools; name one as \"pool\": {}{more}",
                names.join(", ")
            );
            return Err(Self::new(Status::UNPROCESSABLE_CONTENT, &message));
        };
        known.clone().position(|name| name == asked).ok_or_else(|| Self::no_pool(asked, known))
    }

    /// There is no such backend among these, of all pools.
    pub fn no_backend_anywhere<'a>(asked: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::unknown(&format!("no pool has a backend {asked:?}"), asked, known)
    }

    /// What is asked for is not there.
    #[must_use]
    pub fn not_found(message: &str) -> Self {
        Self::new(Status::NOT_FOUND, message)
    }

    fn unknown<'a>(what: &str, asked: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let message = match nearest(asked, known) {
            Some(near) => format!("{what}; did you mean {near:?}?"),
            None => format!("{what}; the status has them all"),
        };
        Self::not_found(&message)
    }
}

/// A pool that cannot have a backend.
impl From<Unfit> for Refused {
    fn from(unfit: Unfit) -> Self {
        let status = match &unfit {
            Unfit::Twice(_) => Status::CONFLICT,
            Unfit::Cannot(_) => Status::UNPROCESSABLE_CONTENT,
        };
        Self::new(status, &unfit.to_string())
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

/// Names in a message.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_named_unless_there_is_one() {
        let which = |asked, known: &[&str]| Refused::unless_pool(asked, known.iter().copied());
        assert_eq!(which(None, &["web"]), Ok(0));
        assert_eq!(which(Some("b"), &["a", "b"]), Ok(1));
        let refused = which(None, &["a", "b"]).unwrap_err();
        assert_eq!(refused.message, "there are 2 pools; name one as \"pool\": a, b");
        let refused = which(Some("wbe"), &["web", "b"]).unwrap_err();
        assert_eq!(refused.message, "there is no pool \"wbe\"; did you mean \"web\"?");
        assert_eq!(refused.status, Status::NOT_FOUND);
        let many: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        let refused = Refused::unless_pool(None, many.iter().map(String::as_str)).unwrap_err();
        assert!(refused.message.ends_with("6, 7, …"), "{}", refused.message);
    }

    #[test]
    fn who_is_unknown_may_have_been_meant_as_another() {
        let refused = Refused::no_backend("web", "nothing", ["127.0.0.1:5001"]);
        assert!(refused.message.contains("the status has them all"), "{}", refused.message);
        assert_eq!(refused.status, Status::NOT_FOUND);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_one_problem() {
        let refused = Refused::from(LoadError::Unreadable("a.toml: it is gone\n".to_owned()));
        let lines = refused.problems.unwrap().lines;
        assert_eq!((refused.message.as_str(), lines.len()), ("a.toml: it is gone", 1));
    }
}
