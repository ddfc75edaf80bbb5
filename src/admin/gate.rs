//! Who is answered: requests that are meant for this place, from those who know the token.
//!
//! A page in a browser can be made to ask us under a name that its author controls (DNS rebinding),
//! and would then read the answer. So a `Host` must be a literal address, `localhost`, or the name
//! that is listened on: no name that somebody else can point here.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::config::Token;
use crate::http::head::Request;

/// What is asked of every request.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    names: Vec<String>,
    token: Option<Token>,
}

impl Gate {
    /// Lets in who asks for one of `names`, `localhost` or an address, and knows `token`, if any.
    #[must_use]
    pub fn new(names: Vec<String>, token: Option<Token>) -> Self {
        Self { names, token }
    }

    /// Whether a request is meant for us.
    ///
    /// # Errors
    /// When it was sent to another name, or through a proxy.
    pub fn check_place(&self, request: &Request) -> Result<(), Denial> {
        if !request.target.starts_with('/') {
            return Err(Denial::Target);
        }
        // The head was checked: there is one, or none in a request of HTTP/1.0.
        let host = request.values("host").next();
        match host.map(std::str::from_utf8) {
            None => Ok(()),
            Some(Ok(host)) if self.is_known(host) => Ok(()),
            Some(Ok(_) | Err(_)) => Err(Denial::Host),
        }
    }

    /// Another token is asked for from now on, or none.
    pub fn set_token(&mut self, token: Option<Token>) {
        self.token = token;
    }

    /// Whether the sender of a request knows the token, if there is one.
    ///
    /// # Errors
    /// When the token is missing or another.
    pub fn check_token(&self, request: &Request) -> Result<(), Denial> {
        let Some(token) = &self.token else { return Ok(()) };
        let mut offers = request.values("authorization");
        match (offers.next().and_then(bearer), offers.next()) {
            (Some(offer), None) if token.matches(offer) => Ok(()),
            (Some(_) | None, _) => Err(Denial::Token),
        }
    }

    fn is_known(&self, host: &str) -> bool {
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(rest) = host.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else { return false };
            let address = address.split('%').next().unwrap_or_default();
            let port = port.strip_prefix(':').unwrap_or(port);
            return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return false,
            None => host,
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        is("localhost") || name.parse::<Ipv4Addr>().is_ok() || self.names.iter().any(|n| is(n))
    }
}

/// Why somebody is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The target is no path.
    Target,
    /// The name is none of ours.
    Host,
    /// The token is missing or another.
    Token,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Target => "ask for a path, such as /health; this is not a proxy",
            Self::Host => {
                "the Host of the request is unknown here; ask by address, by localhost, or by the \
                 name that is listened on"
            }
            Self::Token => "send the token of token_file as `Authorization: Bearer TOKEN`",
        })
    }
}

/// What follows the scheme, if it is the right one.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

const SCHEME: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::HeadReader;

    fn request(head: &str) -> Request {
        let (_, request) = HeadReader::default().read(head.as_bytes()).unwrap();
        request.unwrap()
    }

    fn gate(token: Option<&str>) -> Gate {
        let token = token.map(|text| text.parse().unwrap());
        Gate::new(vec!["lb.example".to_owned()], token)
    }

    #[test]
    fn only_names_that_nobody_else_can_point_here_are_known() {
        let asked = |host: &str| {
            gate(None).check_place(&request(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")))
        };
        for host in [
            "localhost",
            "LocalHost:9930",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:9930",
            "[::1]",
            "[::1]:9930",
            "[fe80::1%25eth0]:1",
            "192.0.2.1:80",
            "lb.example:9930",
            "LB.example.",
        ] {
            assert_eq!(asked(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:9930",
            "",
            ":9930",
            "[::1",
            "[evil.example]",
            "[::1]x",
            "[::1]:x",
            "::1",
            "127.1",
            "0x7f000001",
            "localhost:9930:1",
            "a.lb.example",
            "lb.example.evil",
        ] {
            assert_eq!(asked(host), Err(Denial::Host), "{host}");
        }
    }

    #[test]
    fn a_target_that_names_another_place_is_refused_whatever_the_host_says() {
        for target in ["http://evil.example/health", "http://localhost/health", "*", "evil:80"] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert_eq!(gate(None).check_place(&request(&head)), Err(Denial::Target), "{target}");
        }
        let old = request("GET /health HTTP/1.0\r\n\r\n");
        assert_eq!(gate(None).check_place(&old), Ok(()), "browsers always send one");
    }

    #[test]
    fn the_token_must_be_the_one_that_is_set() {
        let asked = |fields: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
            gate(Some("s3cret")).check_token(&request(&head))
        };
        for fields in ["Authorization: Bearer s3cret\r\n", "authorization: bearer  s3cret \r\n"] {
            assert_eq!(asked(fields), Ok(()), "{fields}");
        }
        for fields in [
            "",
            "Authorization: s3cret\r\n",
            "Authorization: Basic s3cret\r\n",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer \r\n",
            "Authorization: Bearer s3cre\r\n",
            "Authorization: Bearer s3crets\r\n",
            "Authorization: Bearer S3cret\r\n",
            "Authorization: Bearer s3cret s3cret\r\n",
            "Authorization: Bearer s3cret\r\nAuthorization: Bearer other\r\n",
            "Authorization: Bearer s3crets3cret\r\n",
        ] {
            assert_eq!(asked(fields), Err(Denial::Token), "{fields}");
        }
        let without = request("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(gate(None).check_token(&without), Ok(()));
    }
}
