//! Why connections went where they went: what can be asked, and the JSON of the answer.
//!
//! `GET /api/v1/explain` tells of the newest connections, or of one (`id`); with `pool` it tells
//! whom the next client would be given, and why. The server writes these values, `evenkeel explain`
//! reads them back and shows them as [`super::story`] does. Whatever a reader does not find is the
//! default, so that programs of different versions understand each other.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Refused;
use super::query::Query;
use crate::http::head::Request;
use crate::http::reply::Status;

/// What is to be explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Riddle {
    /// The newest connections, so many.
    Newest(usize),
    /// One connection, by its number.
    One(u64),
    /// Whom a client at this address would be given next.
    Pool {
        /// The pool, by name.
        pool: String,
        /// The client.
        client: Option<IpAddr>,
    },
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Explanation {
    /// About connections.
    Decisions(Decisions),
    /// About a pool.
    Peek(Box<Peek>),
}

/// What is remembered of connections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Decisions {
    /// How many connections are remembered at most; older ones are forgotten.
    pub remembers: u64,
    /// The newest first.
    pub decisions: Vec<Decision>,
}

/// One connection. Times in milliseconds are counted from its beginning.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// Its number, as in access lines.
    pub id: u64,
    /// The client, `unix` without an address.
    pub client: String,
    /// Whether that is the one a PROXY header named.
    pub client_from_header: bool,
    /// The listener, by name.
    pub listener: String,
    /// The pool, by name.
    pub pool: String,
    /// How long ago it came.
    pub age_ms: u64,
    /// How often a backend was chosen, or looked for in vain.
    pub choices_made: u64,
    /// The first of these, and the latest.
    pub choices: Vec<Choice>,
    /// How often a connect was begun.
    pub attempts_made: u64,
    /// The first of these, and the latest.
    pub attempts: Vec<Attempt>,
    /// Its time in line, if it ever stood there.
    pub waited: Option<Waited>,
    /// How it ended; none while it lives.
    pub end: Option<End>,
}

/// One choice of a backend.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// When.
    pub after_ms: u64,
    /// How the pool chose at that time.
    pub algorithm: String,
    /// `chosen`, `full`, `nobody` or `attempts used up`.
    pub outcome: String,
    /// The one that was chosen.
    pub backend: Option<String>,
    /// Why, for people.
    pub why: String,
    /// How many backends the pool had.
    pub backends: u64,
    /// How many of them could have been chosen.
    pub eligible: u64,
    /// Those that are noted.
    pub candidates: Vec<Candidate>,
    /// How many there were besides.
    pub more: u64,
}

/// One backend at the time of a choice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Candidate {
    /// Its address, as configured.
    pub backend: String,
    /// `chosen`, `eligible` or `passed over`.
    pub verdict: String,
    /// Its score, or why it could not be chosen; for people.
    pub why: String,
    /// Connections it had.
    pub active: u64,
    /// Its share of new connections.
    pub weight: u16,
    /// How much of its weight counted.
    pub weight_percent: u16,
}

/// One connect.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempt {
    /// The backend.
    pub backend: String,
    /// The address it was tried at; none for a unix socket.
    pub address: Option<String>,
    /// When it began.
    pub after_ms: u64,
    /// How long it took; none while it goes on, and where it was given up.
    pub took_ms: Option<f64>,
    /// `connected`, `failed`, `reset at once`, `connecting` or `given up`.
    pub outcome: String,
    /// What went wrong.
    pub error: Option<String>,
}

/// Time in line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waited {
    /// How often.
    pub times: u64,
    /// All together.
    pub total_ms: u64,
    /// What it waited for, the last time: `a place` or `a backend`.
    pub waited_for: String,
    /// Whether it still does.
    pub waiting: bool,
}

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// Why, in the words of access lines.
    pub reason: String,
    /// Who ended it: `client`, `backend`, `operator` or `evenkeel`.
    pub by: String,
    /// After how long.
    pub duration_ms: u64,
    /// How much of that it waited for whom, in the words of the metrics; all parts of it are there.
    pub waited_ms: BTreeMap<String, u64>,
    /// Bytes that the client sent and the backend took.
    pub received: u64,
    /// Bytes that the backend sent and the client took.
    pub sent: u64,
}

/// What the next choice of a pool would be. Nothing was chosen to find that out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Peek {
    /// The pool, by name.
    pub pool: String,
    /// The client it was asked for.
    pub client: Option<String>,
    /// Always true: this is what would be, not what was.
    pub peek: bool,
    /// Clients that stand in line, and would come first.
    pub waiting: u64,
    /// What has to be known to understand it, for people.
    pub note: String,
    /// The choice.
    #[serde(flatten)]
    pub choice: Choice,
}

impl Riddle {
    /// What a request asks for.
    ///
    /// # Errors
    /// When its parameters are none of these, or do not fit together.
    pub fn read(request: &Request) -> Result<Self, Refused> {
        let query = Query::of(request, &["limit", "id", "pool", "client"])?;
        let refused = |message| Err(Refused::new(Status::BAD_REQUEST, message));
        let client = query.value("client", "IP address")?;
        let (id, pool) = (query.value("id", "number of a connection")?, query.text("pool"));
        match (id, pool) {
            (Some(_), Some(_)) => refused("ask for an id or for a pool, not for both"),
            (Some(_) | None, None) if client.is_some() => {
                refused("a client goes with a pool, as in ?pool=web&client=192.0.2.7")
            }
            (Some(_), None) | (None, Some(_)) if query.text("limit").is_some() => {
                refused("a limit goes with neither an id nor a pool")
            }
            (Some(id), None) => Ok(Self::One(id)),
            (None, Some(pool)) => Ok(Self::Pool { pool: pool.to_owned(), client }),
            (None, None) => query.limit(USUAL, MOST).map(Self::Newest),
        }
    }

    /// Where this is asked for.
    #[must_use]
    pub fn path(&self) -> String {
        let encode = super::asked::encode;
        match self {
            Self::Newest(limit) => format!("{PATH}?limit={limit}"),
            Self::One(id) => format!("{PATH}?id={id}"),
            Self::Pool { pool, client: None } => format!("{PATH}?pool={}", encode(pool)),
            Self::Pool { pool, client: Some(client) } => {
                format!("{PATH}?pool={}&client={client}", encode(pool))
            }
        }
    }
}

/// Where all of this is asked for.
pub const PATH: &str = "/api/v1/explain";
/// Connections that are told of at a time, unless asked for otherwise.
pub const USUAL: usize = 20;
/// Connections that are told of at a time at most.
pub const MOST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::HeadReader;

    fn read(target: &str) -> Result<Riddle, (u16, String)> {
        let head = format!("GET {target} HTTP/1.0\r\n\r\n");
        let (_, request) = HeadReader::default().read(head.as_bytes()).unwrap();
        Riddle::read(&request.unwrap()).map_err(|r| (r.status.code, r.message))
    }

    #[test]
    fn what_is_asked_is_understood_as_it_is_written() {
        let client = Some("2001:db8::7".parse().unwrap());
        for riddle in [
            Riddle::Newest(7),
            Riddle::One(u64::MAX),
            Riddle::Pool { pool: "a b&c".to_owned(), client: None },
            Riddle::Pool { pool: "web".to_owned(), client },
        ] {
            assert_eq!(read(&riddle.path()), Ok(riddle.clone()), "{}", riddle.path());
        }
        assert_eq!(read(PATH), Ok(Riddle::Newest(USUAL)));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (query, reason) in [
            ("id=1&pool=web", "not for both"),
            ("client=10.0.0.1", "goes with a pool"),
            ("id=1&client=10.0.0.1", "goes with a pool"),
            ("pool=web&client=me", "client=me is no IP address"),
            ("pool=web&limit=3", "neither an id nor a pool"),
            ("id=-1", "no number of a connection"),
            ("limit=101", "give 1 to 100"),
        ] {
            let (code, message) = read(&format!("{PATH}?{query}")).unwrap_err();
            assert!(code == 400 && message.contains(reason), "{query}: {code} {message}");
        }
    }
}
