//! A change to one backend: how it is asked for, and what is answered.
//!
//! `PATCH /api/v1/pools/{pool}/backends/{address}` with a weight, a state, or both. All of it is
//! understood before any of it is done, so a request that is refused has changed nothing. The
//! content type is asked for because a page of another origin can send a form here without asking,
//! but not JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Refused;
use super::snapshot::Backend;
use crate::config::BackendAddress;
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
    /// What a request to [`backend_of`] its path asks for.
    ///
    /// # Errors
    /// When it is of another content type, not JSON, or asks for what cannot be.
    pub fn read(request: &Request) -> Result<Self, Refused> {
        let Some((pool, address)) = backend_of(request.path()) else {
            return Err(Refused::new(Status::NOT_FOUND, "there is nothing at this path"));
        };
        check_content_type(request)?;
        let (Some(pool), Some(address)) = (decode(pool), decode(address)) else {
            let message = "the path has a `%` without two hexadecimal digits, or is not UTF-8";
            return Err(Refused::new(Status::BAD_REQUEST, message));
        };
        let wishes = Wishes::read(&request.body)?;
        // An address may be written in several ways; the configuration's is compared.
        let usual = address.parse::<BackendAddress>().map(|address| address.to_string());
        Ok(Self { pool, address: usual.unwrap_or(address), wishes })
    }

    /// Where this is asked for.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{POOLS}{}{BACKENDS}{}", encode(&self.pool), encode(&self.address))
    }
}

impl Wishes {
    fn read(body: &[u8]) -> Result<Self, Refused> {
        // In an array the values would be taken by their order.
        if body.trim_ascii_start().starts_with(b"[") {
            let message = format!("a change is an object; send {EXAMPLE}");
            return Err(Refused::new(Status::UNPROCESSABLE_CONTENT, &message));
        }
        let body: Body = serde_json::from_slice(body).map_err(|error| {
            let status =
                if error.is_data() { Status::UNPROCESSABLE_CONTENT } else { Status::BAD_REQUEST };
            let message = format!("the body is no change: {error}; send {EXAMPLE}");
            Refused::new(status, &message)
        })?;
        let cannot = |message: String| Refused::new(Status::UNPROCESSABLE_CONTENT, &message);
        let weight = body.weight.map(|value| {
            let weight = value.as_u64().and_then(|weight| u16::try_from(weight).ok());
            weight.filter(|&weight| weight <= MOST_WEIGHT).ok_or_else(|| {
                let value = short(&value);
                cannot(format!("{value} is no weight; give a whole number from 0 to {MOST_WEIGHT}"))
            })
        });
        let state = body.state.map(|value| {
            value.as_str().and_then(WantedState::by_name).ok_or_else(|| {
                let value = short(&value);
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

/// The pool and the backend that a path names, as they stand there.
#[must_use]
pub fn backend_of(path: &str) -> Option<(&str, &str)> {
    let (pool, address) = path.strip_prefix(POOLS)?.split_once(BACKENDS)?;
    let is_one = !pool.is_empty() && !pool.contains('/') && !address.is_empty();
    is_one.then_some((pool, address))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    weight: Option<Value>,
    state: Option<Value>,
}

fn check_content_type(request: &Request) -> Result<(), Refused> {
    let mut types = request.values("content-type");
    let is_json = |value: &[u8]| {
        let name = value.split(|&byte| byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(JSON)
    };
    match (types.next(), types.next()) {
        (Some(value), None) if is_json(value) => Ok(()),
        (Some(_) | None, _) => {
            let message = "send the change with Content-Type: application/json";
            Err(Refused::new(Status::UNSUPPORTED_MEDIA_TYPE, message))
        }
    }
}

/// A part of a path as it was meant (RFC 3986, section 2.1).
fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        let is_code = code.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(code, 16).ok().filter(|_| is_code)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// The same the other way round: only what has no meaning in a path stays as it is.
fn encode(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

/// A value as it was sent, not at any length.
fn short(value: &Value) -> String {
    value.to_string().chars().take(SHORT).collect()
}

/// The most that a backend can weigh.
pub const MOST_WEIGHT: u16 = 256;
const POOLS: &str = "/api/v1/pools/";
const BACKENDS: &str = "/backends/";
const JSON: &[u8] = b"application/json";
const EXAMPLE: &str = r#"{"weight":2}, {"state":"draining"}, or both in one"#;
/// In characters.
const SHORT: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::requests::{Arrival, Requests};
    use proptest::prelude::*;

    fn request(path: &str, fields: &str, body: &str) -> Request {
        let text = format!(
            "PATCH {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{fields}\r\n{body}",
            body.len()
        );
        let mut requests = Requests::keeping(1000);
        let mut rest = text.as_bytes();
        loop {
            let (taken, arrival) = requests.read(rest);
            rest = &rest[taken..];
            match arrival {
                Arrival::Request(request) => return *request,
                Arrival::Nothing if !rest.is_empty() => {}
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    fn read(path: &str, body: &str) -> Result<Change, Refused> {
        Change::read(&request(path, "Content-Type: application/json\r\n", body))
    }

    fn refused(path: &str, body: &str) -> (u16, String) {
        let refused = read(path, body).expect_err(body);
        (refused.status.code, refused.message)
    }

    const PATH: &str = "/api/v1/pools/web/backends/127.0.0.1:5001";

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
    fn only_json_is_taken() {
        let body = r#"{"weight":2}"#;
        for fields in [
            "",
            "Content-Type: text/plain\r\n",
            "Content-Type: application/x-www-form-urlencoded\r\n",
            "Content-Type: text/plain;application/json\r\n",
            "Content-Type: application/json-seq\r\n",
            "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        ] {
            let refused = Change::read(&request(PATH, fields, body)).unwrap_err();
            assert_eq!(refused.status, Status::UNSUPPORTED_MEDIA_TYPE, "{fields}");
        }
        let fields = "content-type: Application/JSON ; charset=utf-8\r\n";
        assert!(Change::read(&request(PATH, fields, body)).is_ok());
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
        for bad in ["%", "a%2", "a%zz", "%+1", "%ff", "%é"] {
            let path = format!("/api/v1/pools/web/backends/{bad}");
            let decoded = decode(bad);
            assert_eq!(decoded, None, "{path}");
        }
        let path = "/api/v1/pools/web/backends/a%2";
        assert_eq!(refused(path, r#"{"weight":2}"#).0, 400);
    }

    #[test]
    fn a_path_names_one_pool_and_one_backend() {
        assert_eq!(backend_of(PATH), Some(("web", "127.0.0.1:5001")));
        for path in [
            "/api/v1/pools/web/backends/",
            "/api/v1/pools/web/backends",
            "/api/v1/pools//backends/a:1",
            "/api/v1/pools/a/b/backends/a:1",
            "/api/v1/pools/web",
            "/api/v1/status",
        ] {
            assert_eq!(backend_of(path), None, "{path}");
        }
    }

    #[test]
    fn who_is_unknown_may_have_been_meant_as_another() {
        let message = Refused::no_pool("wbe", ["web", "other"]).message;
        assert!(message.contains("\"wbe\"; did you mean \"web\"?"), "{message}");
        let refused = Refused::no_backend("web", "nothing", ["127.0.0.1:5001"]);
        assert!(refused.message.contains("the status has them all"), "{}", refused.message);
        assert_eq!(refused.status, Status::NOT_FOUND);
    }

    proptest! {
        #[test]
        fn what_is_written_into_a_path_is_read_from_it(
            pool in "[A-Za-z0-9_.-]{1,9}",
            path in ".{1,40}",
        ) {
            let address = format!("unix:/{path}");
            let wishes = Wishes { weight: Some(2), state: Some(WantedState::Ready) };
            let change = Change { pool, address, wishes };
            let written = change.path();
            prop_assert!(written.bytes().all(|byte| byte.is_ascii_graphic()));
            let (pool, address) = backend_of(&written).unwrap();
            prop_assert_eq!(decode(pool), Some(change.pool));
            prop_assert_eq!(decode(address), Some(change.address));
            let body = serde_json::to_vec(&wishes).unwrap();
            prop_assert_eq!(Wishes::read(&body), Ok(wishes));
        }
    }
}
