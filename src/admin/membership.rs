//! Backends that come and go: how that is asked for, in the two shapes that people know.
//!
//! `POST /api/v1/pools/{pool}/backends` and `DELETE` of one of them name their pool and write
//! addresses as the configuration does. `POST /addServer` and `DELETE /delete` are what small
//! balancers have: an address, perhaps as a URL, and a pool only where there are several; they
//! answer in words, and with 400 whatever is wrong with the address.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Refused, asked};
use crate::config::{Backend, BackendAddress};
use crate::http::head::Request;
use crate::http::reply::Status;

/// Who is to become a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// The name of the pool; may be left out where there is one.
    pub pool: Option<String>,
    /// The backend as it is to be.
    pub backend: Backend,
}

/// Who is to be a backend no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The name of the pool; may be left out where there is one.
    pub pool: Option<String>,
    /// The address of the backend.
    pub address: String,
}

/// A backend as it is sent to a pool that is to have it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NewBackend {
    /// Where it is reached.
    pub address: String,
    /// Its share of new connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Connections at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Whether it serves only while no other backend can.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backup: bool,
}

impl Addition {
    /// What a request to the backends of a pool asks for.
    ///
    /// # Errors
    /// When it is of another content type, not JSON, or no backend.
    pub fn read(request: &Request) -> Result<Self, Refused> {
        asked::check_content_type(request)?;
        let pool = asked::pool(request)?;
        let body: Body = asked::read(&request.body, "backend", ADD_EXAMPLE)?;
        if body.pool.is_some() {
            return Err(cannot("the pool stands in the path; leave it out of the body"));
        }
        let backend = body.backend(ADD_EXAMPLE, str::to_owned)?;
        Ok(Self { pool: Some(pool), backend })
    }

    /// What a request to `/addServer` asks for.
    ///
    /// # Errors
    /// The same.
    pub fn read_simple(request: &Request) -> Result<Self, Refused> {
        asked::check_content_type(request)?;
        let mut body: Body = asked::read(&request.body, "server", SIMPLE_EXAMPLE)?;
        let pool = body.pool.take();
        let backend = body.backend(SIMPLE_EXAMPLE, without_scheme)?;
        Ok(Self { pool, backend })
    }

    /// Where a backend is added to this pool.
    #[must_use]
    pub fn path(pool: &str) -> String {
        asked::backends_path(pool)
    }
}

impl Removal {
    /// What a request to the path of a backend asks for.
    ///
    /// # Errors
    /// When it is of another content type, or has something to say besides.
    pub fn read(request: &Request) -> Result<Self, Refused> {
        asked::check_content_type(request)?;
        let (pool, address) = asked::backend(request)?;
        if !request.body.trim_ascii().is_empty() {
            asked::read::<Nothing>(&request.body, "removal", "nothing, or {}")?;
        }
        Ok(Self { pool: Some(pool), address })
    }

    /// What a request to `/delete` asks for.
    ///
    /// # Errors
    /// When it is of another content type, not JSON, or names no backend.
    pub fn read_simple(request: &Request) -> Result<Self, Refused> {
        asked::check_content_type(request)?;
        let body: SimpleRemoval = asked::read(&request.body, "server", SIMPLE_EXAMPLE)?;
        let address = body.address.ok_or_else(|| no_address(SIMPLE_EXAMPLE))?;
        Ok(Self { pool: body.pool, address: asked::usual(without_scheme(&address)) })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    address: Option<String>,
    pool: Option<String>,
    weight: Option<Value>,
    max_connections: Option<Value>,
    backup: Option<bool>,
}

impl Body {
    fn backend(
        self,
        example: &str,
        meant: impl FnOnce(&str) -> String,
    ) -> Result<Backend, Refused> {
        let address = meant(&self.address.ok_or_else(|| no_address(example))?);
        let address: BackendAddress =
            address.parse().map_err(|complaint| cannot(&format!("{complaint}")))?;
        let mut backend = Backend::new(address);
        if let Some(weight) = &self.weight {
            backend.weight = asked::weight(weight)?;
        }
        if let Some(most) = &self.max_connections {
            backend.max_connections = Some(limit(most)?);
        }
        backend.backup = self.backup.unwrap_or_default();
        Ok(backend)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SimpleRemoval {
    address: Option<String>,
    pool: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn limit(value: &Value) -> Result<u32, Refused> {
    let most = value.as_u64().filter(|most| (1..=MOST_CONNECTIONS).contains(most));
    most.and_then(|most| u32::try_from(most).ok()).ok_or_else(|| {
        let value = asked::short(value);
        cannot(&format!(
            "{value} is no `max_connections`; give a whole number from 1 to {MOST_CONNECTIONS}"
        ))
    })
}

/// The address in a URL of a server: its port may be the usual one of the scheme.
fn without_scheme(text: &str) -> String {
    let text = text.trim();
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" => ":80",
        "https" => ":443",
        "tcp" => "",
        _ => return text.to_owned(),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let behind_brackets = rest.rsplit(']').next().unwrap_or(rest);
    let port = if behind_brackets.contains(':') { "" } else { port };
    format!("{rest}{port}")
}

fn no_address(example: &str) -> Refused {
    cannot(&format!("there is no `address`; send {example}"))
}

fn cannot(message: &str) -> Refused {
    Refused::new(Status::UNPROCESSABLE_CONTENT, message)
}

const ADD_EXAMPLE: &str = r#"{"address":"127.0.0.1:5004","weight":1}"#;
const SIMPLE_EXAMPLE: &str = r#"{"address":"127.0.0.1:5004"}"#;
/// As in the configuration.
const MOST_CONNECTIONS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::super::asked::tests::{json, request};
    use super::*;

    const POST: &str = "POST /api/v1/pools/a%20b/backends";

    fn simple(body: &str) -> Result<Addition, Refused> {
        Addition::read_simple(&json("POST /addServer", body))
    }

    #[test]
    fn a_backend_is_an_address_and_what_else_is_known_of_it() {
        let add = |body: &str| Addition::read(&json(POST, body)).unwrap();
        let plain = add(r#"{"address":"[0::1]:80"}"#);
        assert_eq!(plain.pool.as_deref(), Some("a b"));
        assert_eq!(plain.backend, Backend::new("[::1]:80".parse().unwrap()));
        let new = NewBackend {
            address: "unix:/a".to_owned(),
            weight: Some(0),
            max_connections: Some(7),
            backup: true,
        };
        let Backend { address, weight, max_connections, backup } =
            add(&serde_json::to_string(&new).unwrap()).backend;
        assert_eq!((address.to_string(), weight), (new.address, 0));
        assert_eq!((max_connections, backup), (Some(7), true));
    }

    #[test]
    fn what_is_no_backend_is_refused_with_its_cure() {
        for (body, status, reason) in [
            ("", 400, "send {\"address\""),
            ("['127.0.0.1:1']", 422, "is an object"),
            ("{}", 422, "there is no `address`; send"),
            ("{'address':null}", 422, "there is no `address`; send"),
            ("{'address':5001}", 422, "invalid type"),
            ("{'address':'5001'}", 422, "`5001` is only a port; write \"localhost:5001\""),
            ("{'address':'http://h:1'}", 422, "has a scheme"),
            ("{'adress':'h:1'}", 422, "unknown field `adress`, expected"),
            ("{'address':'h:1','pool':'a b'}", 422, "the pool stands in the path"),
            ("{'address':'h:1','weight':257}", 422, "257 is no weight"),
            ("{'address':'h:1','max_connections':0}", 422, "0 is no `max_connections`"),
            ("{'address':'h:1','backup':1}", 422, "invalid type"),
        ] {
            let refused = Addition::read(&json(POST, &body.replace('\'', "\""))).unwrap_err();
            let Refused { status: is, message, .. } = refused;
            assert!(is.code == status && message.contains(reason), "{body}: {is:?} {message}");
        }
        let refused = Addition::read(&request(POST, "", "{}")).unwrap_err();
        assert_eq!(refused.status, Status::UNSUPPORTED_MEDIA_TYPE);
    }

    #[test]
    fn small_balancers_are_told_urls() {
        for (written, address) in [
            ("127.0.0.1:5004", "127.0.0.1:5004"),
            (" localhost:5004 ", "localhost:5004"),
            ("http://localhost:5004", "localhost:5004"),
            ("HTTP://localhost:5004/", "localhost:5004"),
            ("http://app.example", "app.example:80"),
            ("https://app.example/", "app.example:443"),
            ("https://[::1]", "[::1]:443"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("tcp://10.0.0.1:9", "10.0.0.1:9"),
        ] {
            let body = serde_json::json!({ "address": written }).to_string();
            let addition = simple(&body).unwrap();
            assert_eq!(addition.backend.address.to_string(), address);
            assert_eq!(addition.pool, None);
            let removal = Removal::read_simple(&json("DELETE /delete", &body)).unwrap();
            assert_eq!(removal, Removal { pool: None, address: address.to_owned() });
        }
        for written in ["http://h:1/path", "ftp://h:21", "http://user@h:1", "http://", "tcp://h"] {
            let body = serde_json::json!({ "address": written }).to_string();
            assert!(simple(&body).is_err(), "{written}");
        }
        let named = simple(r#"{"pool":"web","address":"h:1"}"#).unwrap();
        assert_eq!(named.pool.as_deref(), Some("web"));
    }

    #[test]
    fn a_removal_names_one_backend() {
        let path = "DELETE /api/v1/pools/web/backends/%5B0::1%5D:80";
        for body in ["", " ", "{}"] {
            let removal = Removal::read(&json(path, body)).unwrap();
            let expected = Removal { pool: Some("web".to_owned()), address: "[::1]:80".to_owned() };
            assert_eq!(removal, expected);
        }
        assert_eq!(Removal::read(&json(path, r#"{"force":1}"#)).unwrap_err().status.code, 422);
        let refused = Removal::read(&request(path, "", "")).unwrap_err();
        assert_eq!(refused.status, Status::UNSUPPORTED_MEDIA_TYPE);
        for (body, code) in [("", 400), ("{}", 422), ("{\"address\":1}", 422)] {
            let refused = Removal::read_simple(&json("DELETE /delete", body)).unwrap_err();
            assert_eq!(refused.status.code, code, "{body}");
        }
    }
}
