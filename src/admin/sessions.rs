//! The connections that live: what can be asked of them, and the JSON of the answer.
//!
//! `GET /api/v1/sessions` lists them in the order of their numbers, a page at a time; `next` is
//! what to send as `after` for the following one. `DELETE /api/v1/sessions/{id}` cuts one.

use serde::{Deserialize, Serialize};

use super::Refused;
use super::asked::check_content_type;
use super::query::Query;
use crate::http::head::Request;
use crate::http::reply::Status;

/// Which connections are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Which {
    /// Those of this pool.
    pub pool: Option<String>,
    /// Those of this backend, by its address.
    pub backend: Option<String>,
    /// Those with a higher number.
    pub after: u64,
    /// So many at most.
    pub limit: usize,
}

/// A page of connections.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sessions {
    /// In the order of their numbers.
    pub sessions: Vec<Session>,
    /// Where the next page begins, if there are more.
    pub next: Option<u64>,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// Its number, as in access lines.
    pub id: u64,
    /// The client, `unix` without an address.
    pub client: String,
    /// The listener, by name.
    pub listener: String,
    /// The pool, by name.
    pub pool: String,
    /// The backend it has, or is being connected to.
    pub backend: Option<String>,
    /// `greeting` (its PROXY header is awaited), `choosing`, `waiting` in line, `connecting` or
    /// `relaying`.
    pub phase: String,
    /// Whom it seems to wait for, in the words of the metrics, such as `client_send`.
    pub waits_for: String,
    /// How long ago it came.
    pub age_ms: u64,
    /// Bytes that the client sent and the backend took.
    pub received: u64,
    /// Bytes that the backend sent and the client took.
    pub sent: u64,
}

/// A connection that was cut, as it was then.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cut {
    /// Why it ended, in the words of access lines.
    pub reason: String,
    /// The connection.
    #[serde(flatten)]
    pub session: Session,
}

impl Which {
    /// What a request asks for.
    ///
    /// # Errors
    /// When its parameters are none of these.
    pub fn read(request: &Request) -> Result<Self, Refused> {
        let query = Query::of(request, &["limit", "after", "pool", "backend"])?;
        let text = |name| query.text(name).map(str::to_owned);
        let backend = text("backend").map(super::asked::usual);
        let after = query.value("after", "number of a connection")?.unwrap_or(0);
        Ok(Self { pool: text("pool"), backend, after, limit: query.limit(USUAL, MOST)? })
    }

    /// Where this is asked for.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = format!("{PATH}?limit={}&after={}", self.limit, self.after);
        for (name, value) in [("pool", &self.pool), ("backend", &self.backend)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", super::asked::encode(value)));
            }
        }
        path
    }
}

/// The number of the connection that a request wants cut.
///
/// # Errors
/// When it names none, or comes as a page in a browser could send it.
pub fn to_cut(request: &Request) -> Result<u64, Refused> {
    check_content_type(request)?;
    let id = id_of(request.path()).and_then(|id| id.parse().ok());
    id.ok_or_else(|| {
        let message = "a connection is named by its number, as the list of sessions has it";
        Refused::new(Status::NOT_FOUND, message)
    })
}

/// What a path of one connection has as its number.
#[must_use]
pub fn id_of(path: &str) -> Option<&str> {
    let id = path.strip_prefix(PATH)?.strip_prefix('/')?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// Where one connection is.
#[must_use]
pub fn path_of(id: u64) -> String {
    format!("{PATH}/{id}")
}

/// Where all of them are.
pub const PATH: &str = "/api/v1/sessions";
/// Connections on a page, unless asked for otherwise.
pub const USUAL: usize = 100;
/// Connections on a page at most.
pub const MOST: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::HeadReader;

    fn request(line: &str, fields: &str) -> Request {
        let head = format!("{line} HTTP/1.0\r\n{fields}\r\n");
        HeadReader::default().read(head.as_bytes()).unwrap().1.unwrap()
    }

    #[test]
    fn what_is_asked_is_understood_as_it_is_written() {
        let backend = Some("unix:/run/a b.sock".to_owned());
        for which in [
            Which { limit: MOST, ..Which::default() },
            Which { pool: Some("web&x".to_owned()), backend, after: 9, limit: 1 },
        ] {
            let asked = request(&format!("GET {}", which.path()), "");
            assert_eq!(Which::read(&asked), Ok(which.clone()), "{}", which.path());
        }
        let usual = Which::read(&request("GET /api/v1/sessions?backend=[0:0::1]:5", "")).unwrap();
        assert_eq!((usual.limit, usual.backend.as_deref()), (USUAL, Some("[::1]:5")));
        for query in ["limit=501", "limit=0", "after=x", "id=1"] {
            let asked = request(&format!("GET {PATH}?{query}"), "");
            assert_eq!(Which::read(&asked).unwrap_err().status.code, 400, "{query}");
        }
    }

    #[test]
    fn a_cut_names_one_connection_and_is_no_form() {
        let json = "Content-Type: application/json\r\n";
        let cut = |path: &str, fields| to_cut(&request(&format!("DELETE {path}"), fields));
        assert_eq!(cut(&path_of(17), json), Ok(17));
        assert_eq!(cut(&path_of(17), "").unwrap_err().status.code, 415);
        for id in ["x", "-1", "1.5", "99999999999999999999999"] {
            let refused = cut(&format!("{PATH}/{id}"), json).unwrap_err();
            assert_eq!(refused.status.code, 404, "{id}");
        }
        for path in [PATH, "/api/v1/sessions/", "/api/v1/sessions/1/2", "/api/v1/session/1"] {
            assert_eq!(id_of(path), None, "{path}");
        }
    }
}
