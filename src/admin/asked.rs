//! What all requests that change something have in common: their paths, their type, their body.
//!
//! All of a request is understood before any of it is done, so one that is refused has changed
//! nothing.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Refused;
use super::change::MOST_WEIGHT;
use crate::config::BackendAddress;
use crate::http::head::Request;
use crate::http::reply::Status;

/// The pool and the backend that a path names, as they stand there.
#[must_use]
pub(super) fn backend_of(path: &str) -> Option<(&str, &str)> {
    let (pool, address) = path.strip_prefix(POOLS)?.split_once(BACKENDS)?;
    let is_one = !pool.is_empty() && !pool.contains('/') && !address.is_empty();
    is_one.then_some((pool, address))
}

/// The pool whose backends a path names, as it stands there.
pub(super) fn pool_of(path: &str) -> Option<&str> {
    let pool = path.strip_prefix(POOLS)?.strip_suffix(BACKENDS.trim_end_matches('/'))?;
    (!pool.is_empty() && !pool.contains('/')).then_some(pool)
}

/// Where a backend is changed.
pub(super) fn backend_path(pool: &str, address: &str) -> String {
    format!("{POOLS}{}{BACKENDS}{}", encode(pool), encode(address))
}

/// Where a pool gets one more.
pub(super) fn backends_path(pool: &str) -> String {
    format!("{POOLS}{}{}", encode(pool), BACKENDS.trim_end_matches('/'))
}

/// The pool and the backend that a request is about, the latter as the configuration writes it.
pub(super) fn backend(request: &Request) -> Result<(String, String), Refused> {
    let (pool, address) = backend_of(request.path()).ok_or_else(nothing)?;
    Ok((decode(pool)?, usual(decode(address)?)))
}

/// The pool that a request is about.
pub(super) fn pool(request: &Request) -> Result<String, Refused> {
    decode(pool_of(request.path()).ok_or_else(nothing)?)
}

/// An address may be written in several ways; the configuration's is compared.
pub(super) fn usual(address: String) -> String {
    let usual = address.parse::<BackendAddress>().map(|address| address.to_string());
    usual.unwrap_or(address)
}

/// A page of another origin can send a form here without asking, but not JSON.
pub(super) fn check_content_type(request: &Request) -> Result<(), Refused> {
    let mut types = request.values("content-type");
    let is_json = |value: &[u8]| {
        let name = value.split(|&byte| byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(JSON)
    };
    match (types.next(), types.next()) {
        (Some(value), None) if is_json(value) => Ok(()),
        (Some(_) | None, _) => {
            let message = "send this with Content-Type: application/json";
            Err(Refused::new(Status::UNSUPPORTED_MEDIA_TYPE, message))
        }
    }
}

/// A body of JSON, which is an object: in an array the values would be taken by their order.
pub(super) fn read<T: DeserializeOwned>(
    body: &[u8],
    what: &str,
    example: &str,
) -> Result<T, Refused> {
    if body.trim_ascii_start().starts_with(b"[") {
        let message = format!("a {what} is an object; send {example}");
        return Err(Refused::new(Status::UNPROCESSABLE_CONTENT, &message));
    }
    serde_json::from_slice(body).map_err(|error| {
        let status =
            if error.is_data() { Status::UNPROCESSABLE_CONTENT } else { Status::BAD_REQUEST };
        Refused::new(status, &format!("the body is no {what}: {error}; send {example}"))
    })
}

/// A share of new connections.
pub(super) fn weight(value: &Value) -> Result<u16, Refused> {
    let weight = value.as_u64().and_then(|weight| u16::try_from(weight).ok());
    weight.filter(|&weight| weight <= MOST_WEIGHT).ok_or_else(|| {
        let value = short(value);
        let message = format!("{value} is no weight; give a whole number from 0 to {MOST_WEIGHT}");
        Refused::new(Status::UNPROCESSABLE_CONTENT, &message)
    })
}

/// A value as it was sent, not at any length.
pub(super) fn short(value: &Value) -> String {
    value.to_string().chars().take(SHORT).collect()
}

fn nothing() -> Refused {
    Refused::new(Status::NOT_FOUND, "there is nothing at this path")
}

/// A part of a path as it was meant (RFC 3986, section 2.1).
fn decode(text: &str) -> Result<String, Refused> {
    decoded(text).ok_or_else(|| {
        let message = "the path has a `%` without two hexadecimal digits, or is not UTF-8";
        Refused::new(Status::BAD_REQUEST, message)
    })
}

pub(super) fn decoded(text: &str) -> Option<String> {
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
pub(super) fn encode(text: &str) -> String {
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

const POOLS: &str = "/api/v1/pools/";
const BACKENDS: &str = "/backends/";
const JSON: &[u8] = b"application/json";
/// In characters.
const SHORT: usize = 60;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::http::requests::{Arrival, Requests};
    use proptest::prelude::*;

    pub(in crate::admin) const PATH: &str = "/api/v1/pools/web/backends/127.0.0.1:5001";

    /// A request with a body of JSON.
    pub(in crate::admin) fn json(line: &str, body: &str) -> Request {
        request(line, "Content-Type: application/json\r\n", body)
    }

    /// A request; `line` is its method and path.
    pub(in crate::admin) fn request(line: &str, fields: &str, body: &str) -> Request {
        request_to("localhost", line, fields, body)
    }

    pub(in crate::admin) fn request_to(
        host: &str,
        line: &str,
        fields: &str,
        body: &str,
    ) -> Request {
        let text = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n{fields}\r\n{body}",
            body.len()
        );
        let mut requests = Requests::keeping(10_000);
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
    fn a_path_names_the_backends_of_one_pool() {
        assert_eq!(pool_of("/api/v1/pools/web/backends"), Some("web"));
        assert_eq!(pool_of(&backends_path("a b")), Some("a%20b"));
        for path in [PATH, "/api/v1/pools//backends", "/api/v1/pools/a/b/backends", "/backends"] {
            assert_eq!(pool_of(path), None, "{path}");
        }
    }

    #[test]
    fn a_percent_sign_has_two_digits_behind_it() {
        for bad in ["%", "a%2", "a%zz", "%+1", "%ff", "%é"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
        assert_eq!(decoded("a%2Fb%20").as_deref(), Some("a/b "));
    }

    #[test]
    fn only_json_is_taken() {
        for fields in [
            "",
            "Content-Type: text/plain\r\n",
            "Content-Type: application/x-www-form-urlencoded\r\n",
            "Content-Type: text/plain;application/json\r\n",
            "Content-Type: application/json-seq\r\n",
            "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        ] {
            let refused = check_content_type(&request("PATCH /", fields, "{}")).unwrap_err();
            assert_eq!(refused.status, Status::UNSUPPORTED_MEDIA_TYPE, "{fields}");
        }
        let fields = "content-type: Application/JSON ; charset=utf-8\r\n";
        assert_eq!(check_content_type(&request("PATCH /", fields, "{}")), Ok(()));
    }

    proptest! {
        #[test]
        fn what_is_written_into_a_path_is_read_from_it(
            pool in "[A-Za-z0-9_.-]{1,9}",
            path in ".{1,40}",
        ) {
            let address = format!("unix:/{path}");
            let written = backend_path(&pool, &address);
            prop_assert!(written.bytes().all(|byte| byte.is_ascii_graphic()));
            let (read_pool, read_address) = backend_of(&written).unwrap();
            prop_assert_eq!(decoded(read_pool), Some(pool));
            prop_assert_eq!(decoded(read_address), Some(address));
        }
    }
}
