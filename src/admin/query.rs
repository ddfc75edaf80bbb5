//! What stands behind the `?` of a request: names and values, each at most once, none unknown.
//!
//! A name that is misspelt would otherwise be a question that was never asked.

use std::str::FromStr;

use super::Refused;
use super::asked::decoded;
use crate::config::nearest;
use crate::http::head::Request;
use crate::http::reply::Status;

/// The parameters of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    values: Vec<(String, String)>,
}

impl Query {
    /// Those of a request, which may have these names.
    ///
    /// # Errors
    /// When one is unknown, comes twice, or is not written as it must be.
    pub fn of(request: &Request, known: &[&str]) -> Result<Self, Refused> {
        let refused = |message: String| Refused::new(Status::BAD_REQUEST, &message);
        let target = request.target.split('#').next().unwrap_or_default();
        let text = target.split_once('?').map_or("", |(_, query)| query);
        let mut values: Vec<(String, String)> = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
                let message = "the query has a `%` without two hexadecimal digits, or is not UTF-8";
                return Err(refused(message.to_owned()));
            };
            if !known.contains(&name.as_str()) {
                let name: String = name.chars().take(SHORT).collect();
                let hint = match nearest(&name, known.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("this path takes {}", known.join(", ")),
                };
                return Err(refused(format!("there is no parameter {name:?}; {hint}")));
            }
            if values.iter().any(|(other, _)| *other == name) {
                return Err(refused(format!("{name:?} is given twice")));
            }
            values.push((name, value));
        }
        Ok(Self { values })
    }

    /// The value of a parameter, as text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(of, _)| of == name).map(|(_, value)| &**value)
    }

    /// The value of a parameter, read as what it must be.
    ///
    /// # Errors
    /// When it is nothing of the kind.
    pub fn value<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, Refused> {
        let read = |text: &str| {
            text.parse().map_err(|_| {
                let text: String = text.chars().take(SHORT).collect();
                let message = format!("{name}={text} is no {what}");
                Refused::new(Status::BAD_REQUEST, &message)
            })
        };
        self.text(name).map(read).transpose()
    }

    /// How many are asked for: from 1 to `most`, or `usual`.
    ///
    /// # Errors
    /// When it is no such number.
    pub fn limit(&self, usual: usize, most: usize) -> Result<usize, Refused> {
        let limit = self.value("limit", "number")?.unwrap_or(usual);
        if limit == 0 || limit > most {
            let message = format!("limit={limit} is out of range; give 1 to {most}");
            return Err(Refused::new(Status::BAD_REQUEST, &message));
        }
        Ok(limit)
    }
}

/// In characters.
const SHORT: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::HeadReader;

    fn query(target: &str) -> Result<Query, String> {
        let head = format!("GET {target} HTTP/1.0\r\n\r\n");
        let (_, request) = HeadReader::default().read(head.as_bytes()).unwrap();
        let known = ["limit", "pool", "client"];
        Query::of(&request.unwrap(), &known).map_err(|refused| {
            assert_eq!(refused.status, Status::BAD_REQUEST);
            refused.message
        })
    }

    #[test]
    fn parameters_are_read_as_they_were_meant() {
        let some = query("/x?pool=a%26b&&limit=5&client#pool=no").unwrap();
        assert_eq!((some.text("pool"), some.limit(1, 9)), (Some("a&b"), Ok(5)));
        assert_eq!((some.text("client"), some.text("nothing")), (Some(""), None));
        let none = query("/x").unwrap();
        assert_eq!((none.limit(7, 9), none.value::<u64>("pool", "number")), (Ok(7), Ok(None)));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_reason() {
        for (target, reason) in [
            ("/x?limt=5", "\"limt\"; did you mean \"limit\"?"),
            ("/x?something=5", "this path takes limit, pool, client"),
            ("/x?limit=5&limit=6", "\"limit\" is given twice"),
            ("/x?pool=%2", "two hexadecimal digits"),
            ("/x?%ff=1", "not UTF-8"),
        ] {
            assert!(query(target).unwrap_err().contains(reason), "{target}");
        }
        for (target, reason) in [
            ("/x?limit=0", "limit=0 is out of range; give 1 to 9"),
            ("/x?limit=10", "give 1 to 9"),
            ("/x?limit=", "limit= is no number"),
            ("/x?limit=-1", "is no number"),
            ("/x?limit=1e9", "is no number"),
        ] {
            let refused = query(target).unwrap().limit(7, 9).unwrap_err();
            assert!(refused.message.contains(reason), "{}", refused.message);
        }
    }
}
