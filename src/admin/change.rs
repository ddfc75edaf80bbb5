//! A change to one backend: how it is asked for, and what is answered.
//!
//! `PATCH /api/v1/pools/{pool}/backends/{address}` with a weight, a state, or both. All of it is
//! understood before any of it is done, so a request that is refused has changed nothing. The
//! content type is asked for because a page of another origin can send a form here without asking,
//! but not JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::snapshot::Backend;
use super::{Refused, asked};
use crate::http::head::Request;
use crate::http::reply::Status;

/// What is to become of which backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The pool, by name.
    pub pool: String,
    /// The backend, by its address.
    pub address: String,
    /// What is wanted of it.
    pub wishes: Wishes,
}

/// What is wanted of a backend; what is `None` stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Wishes {
    /// Its share of new connections, from 0 to [`MOST_WEIGHT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// What it is to be used for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<WantedState>,
}

/// What a backend is to be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WantedState {
    /// New clients, as far as its health allows.
    Ready,
    /// No new clients; those it has may stay.
    Draining,
    /// No new clients and no probes.
    Maintenance,
}

/// What has become of the backend.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Changed {
    /// The pool, by name.
    pub pool: String,
    /// Whether any backend of the pool could serve now.
    pub pool_available: bool,
    /// The backend as it is now.
    #[serde(flatten)]
    pub backend: Backend,
}

impl Change {
    /// What a request to the path of a backend asks for.
    ///
    /// # Errors
    /// When it is of another content type, not JSON, or asks for what cannot be.
    pub fn read(request: &Request) -> Result<Self, Refused> {
        asked::check_content_type(request)?;
        let (pool, address) = asked::backend(request)?;
        let wishes = Wishes::read(&request.body)?;
        Ok(Self { pool, address, wishes })
    }

    /// Where this is asked for.
    #[must_use]
    pub fn path(&self) -> String {
        asked::backend_path(&self.pool, &self.address)
    }
}

impl Wishes {
    fn read(body: &[u8]) -> Result<Self, Refused> {
        let body: Body = asked::read(body, "change", EXAMPLE)?;
        let cannot = |message: String| Refused::new(Status::UNPROCESSABLE_CONTENT, &message);
        let weight = body.weight.as_ref().map(asked::weight);
        let state = body.state.map(|value| {
            value.as_str().and_then(WantedState::by_name).ok_or_else(|| {
                let value = asked::short(&value);
                cannot(format!(
                    "{value} is no state; give \"ready\", \"draining\" or \"maintenance\""
                ))
            })
        });
        let wishes = Self { weight: weight.transpose()?, state: state.transpose()? };
        if wishes == Self::default() {
            return Err(cannot(format!("nothing is to be changed; send {EXAMPLE}")));
        }
        Ok(wishes)
    }
}

impl WantedState {
    fn by_name(name: &str) -> Option<Self> {
        match name {
            "ready" => Some(Self::Ready),
            "draining" => Some(Self::Draining),
            "maintenance" => Some(Self::Maintenance),
            _ => None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    weight: Option<Value>,
    state: Option<Value>,
}

/// The most that a backend can weigh.
pub const MOST_WEIGHT: u16 = 256;
const EXAMPLE: &str = r#"{"weight":2}, {"state":"draining"}, or both in one"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::asked::tests::{PATH, json};

    fn read(path: &str, body: &str) -> Result<Change, Refused> {
        Change::read(&json(&format!("PATCH {path}"), body))
    }

    fn refused(path: &str, body: &str) -> (u16, String) {
        let refused = read(path, body).expect_err(body);
        (refused.status.code, refused.message)
    }

    #[test]
    fn a_change_is_a_weight_or_a_state_or_both() {
        let (weight, state) = (Some(256), Some(WantedState::Maintenance));
        for (body, wishes) in [
            (r#"{"weight":256}"#, Wishes { weight, state: None }),
            (r#"{"state":"maintenance"}"#, Wishes { weight: None, state }),
            (r#" {"state":"maintenance", "weight":256} "#, Wishes { weight, state }),
            (r#"{"weight":0,"state":null}"#, Wishes { weight: Some(0), state: None }),
        ] {
            let change = read(PATH, body).unwrap();
            assert_eq!((change.wishes, change.pool.as_str()), (wishes, "web"), "{body}");
            assert_eq!(change.address, "127.0.0.1:5001");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_reason() {
        for (body, status, reason) in [
            ("", 400, "EOF"),
            ("{", 400, "EOF"),
            ("weight=2", 400, "expected value"),
            (r#"{"weight":2}{"weight":3}"#, 400, "trailing characters"),
            ("[2,null]", 422, "is an object"),
            ("2", 422, "invalid type"),
            ("{}", 422, "nothing is to be changed"),
            (r#"{"weight":null}"#, 422, "nothing is to be changed"),
            (r#"{"wieght":2}"#, 422, "unknown field `wieght`, expected `weight` or `state`"),
            (r#"{"weight":2,"weight":3}"#, 422, "duplicate field"),
            (r#"{"weight":257}"#, 422, "257 is no weight; give a whole number from 0 to 256"),
            (r#"{"weight":-1}"#, 422, "-1 is no weight"),
            (r#"{"weight":1.5}"#, 422, "1.5 is no weight"),
            (r#"{"weight":"2"}"#, 422, "\"2\" is no weight"),
            (r#"{"weight":65537}"#, 422, "65537 is no weight"),
            (r#"{"state":"drain"}"#, 422, "\"drain\" is no state; give \"ready\""),
            (r#"{"state":1}"#, 422, "1 is no state"),
            (r#"{"weight":2,"state":"up"}"#, 422, "\"up\" is no state"),
        ] {
            let (code, message) = refused(PATH, body);
            assert!(code == status && message.contains(reason), "{body}: {code} {message}");
        }
        let long = format!(r#"{{"state":"{}"}}"#, "x".repeat(900));
        assert!(refused(PATH, &long).1.len() < 200);
    }

    #[test]
    fn an_address_may_be_written_in_several_ways() {
        for (written, address) in [
            ("127.0.0.1%3A5001", "127.0.0.1:5001"),
            ("[::1]:5001", "[::1]:5001"),
            ("%5B0:0:0::1%5d:5001", "[::1]:5001"),
            ("unix:%2Frun%2Fa.sock", "unix:/run/a.sock"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            ("unix:/a%20b%25", "unix:/a b%"),
            ("what", "what"),
        ] {
            let path = format!("/api/v1/pools/web/backends/{written}");
            assert_eq!(read(&path, r#"{"weight":2}"#).unwrap().address, address, "{written}");
        }
        let path = "/api/v1/pools/web/backends/a%2";
        assert_eq!(refused(path, r#"{"weight":2}"#).0, 400);
    }
}
