//! Addresses as operators write them: where to connect to and where to listen.
//!
//! Both types print exactly what parses back to them. A name stays a name here: resolving is the
//! reactor's business, and how two addresses relate is the business of `overlap.rs`.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::str::FromStr;

use super::overlap;
use super::problem::{Complaint, quote};

/// Where a backend is reached: `HOST:PORT`, `[V6]:PORT` or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BackendAddress {
    /// A literal address; the port is never 0.
    Inet(SocketAddr),
    /// A host name to be resolved.
    Name {
        /// The name as written.
        host: String,
        /// Never 0.
        port: u16,
    },
    /// A Unix socket; the path is at most 107 bytes.
    Unix(PathBuf),
}

/// Where a listener accepts: `HOST:PORT`, `[V6]:PORT`, `:PORT` or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindAddress {
    /// A literal address; port 0 takes a free port.
    Inet(SocketAddr),
    /// All interfaces, IPv4 and IPv6; port 0 takes a free port.
    Any(u16),
    /// A host name, resolved when it is bound.
    Name {
        /// The name as written.
        host: String,
        /// Port 0 takes a free port.
        port: u16,
    },
    /// A Unix socket; the path is at most 107 bytes.
    Unix(PathBuf),
}

impl FromStr for BackendAddress {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        let address = match parse(text, &BACKEND)? {
            Written::Unix(path) => Self::Unix(path),
            Written::Ip(address) => Self::Inet(address),
            Written::Name { host, port } => Self::Name { host, port },
            Written::NoHost(port) => {
                return Err(Complaint::new(
                    format!("{} has no host", quote(text)),
                    format!("write \"localhost:{port}\" for a backend on this machine"),
                ));
            }
        };
        if address.port() == Some(0) {
            return Err(Complaint::new(
                format!("{} has port 0, which no backend can have", quote(text)),
                "write the port the backend listens on, from 1 to 65535",
            ));
        }
        Ok(address)
    }
}

impl BackendAddress {
    /// Whether the two are spellings of one address.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        overlap::identity(self) == overlap::identity(other)
    }

    /// The port; Unix sockets have none.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Inet(address) => Some(address.port()),
            Self::Name { port, .. } => Some(*port),
            Self::Unix(_) => None,
        }
    }
}

impl FromStr for BindAddress {
    type Err = Complaint;

    fn from_str(text: &str) -> Result<Self, Complaint> {
        if let Some(port) = text.strip_prefix("*:") {
            return Err(Complaint::new(
                format!("{} has a `*` for its host", quote(text)),
                format!("write \":{}\" for all interfaces", shortened(port)),
            ));
        }
        Ok(match parse(text, &BIND)? {
            Written::Unix(path) => Self::Unix(path),
            Written::Ip(address) => Self::Inet(address),
            Written::Name { host, port } => Self::Name { host, port },
            Written::NoHost(port) => Self::Any(port),
        })
    }
}

impl BindAddress {
    /// Whether the two cannot both be bound.
    #[must_use]
    pub fn clashes_with(&self, other: &Self) -> bool {
        overlap::clash(self, other)
    }

    /// The port; Unix sockets have none.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Inet(address) => Some(address.port()),
            Self::Any(port) | Self::Name { port, .. } => Some(*port),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for BackendAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(f, "{address}"),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(f, "{address}"),
            Self::Any(port) => write!(f, ":{port}"),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// The port in `:PORT`, where the host is known already.
pub(super) fn parse_port_alone(text: &str) -> Result<u16, Complaint> {
    let port = parse_port(text, text.trim_start_matches(':'), &BACKEND)?;
    Some(port).filter(|&port| port > 0).ok_or_else(|| {
        let message = format!("{} has port 0, which nothing listens on", quote(text));
        Complaint::new(message, "write a port from 1 to 65535")
    })
}

/// What was written, before it is known whether it is to be listened on or connected to.
enum Written {
    Unix(PathBuf),
    Ip(SocketAddr),
    Name { host: String, port: u16 },
    NoHost(u16),
}

/// Reads an address; `usual` completes the examples in the cures.
fn parse(text: &str, usual: &Usual) -> Result<Written, Complaint> {
    if let Some(path) = text.strip_prefix(UNIX) {
        return unix(path).map(Written::Unix);
    }
    if let Some((_, rest)) = text.split_once("://") {
        return Err(Complaint::new(
            format!("{} has a scheme, which an address has not", quote(text)),
            format!("write {:?}", shortened(rest.trim_end_matches('/'))),
        ));
    }
    if text.starts_with('[') {
        return bracketed(text, usual).map(Written::Ip);
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(without_port(text, usual));
    };
    if host.contains(':') {
        return Err(without_brackets(text, (host, port), usual));
    }
    let port = parse_port(text, port, usual)?;
    if host.is_empty() {
        return Ok(Written::NoHost(port));
    }
    if host.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return match host.parse::<Ipv4Addr>() {
            Ok(ip) => Ok(Written::Ip((ip, port).into())),
            Err(_) => Err(Complaint::new(
                format!("{} is not an IPv4 address", quote(host)),
                "write four numbers from 0 to 255, such as \"192.0.2.1\"",
            )),
        };
    }
    check_host(host)?;
    let host = host.to_owned();
    Ok(Written::Name { host, port })
}

fn unix(path: &str) -> Result<PathBuf, Complaint> {
    if path.is_empty() {
        return Err(Complaint::new("`unix:` names no path", "write \"unix:/run/name.sock\""));
    }
    // One line of the log is one event, whatever names it tells of.
    if path.contains(char::is_control) {
        return Err(Complaint::new(
            format!("the path {} contains a control character", quote(path)),
            "write a path without it",
        ));
    }
    if path.len() > LONGEST_PATH {
        return Err(Complaint::new(
            format!("the path of the Unix socket is {} bytes long", path.len()),
            format!("choose one of at most {LONGEST_PATH} bytes; the kernel takes no more"),
        ));
    }
    Ok(PathBuf::from(path))
}

fn bracketed(text: &str, usual: &Usual) -> Result<SocketAddr, Complaint> {
    let (inside, after) = text[1..].split_once(']').ok_or_else(|| {
        Complaint::new(
            format!("{} has no closing bracket", quote(text)),
            "write an IPv6 address and port as \"[::1]:5001\"",
        )
    })?;
    let without_scope = inside.split_once('%').map_or(inside, |(ip, _)| ip);
    if without_scope.parse::<Ipv6Addr>().is_err() {
        return Err(Complaint::new(
            format!("{} is not an IPv6 address", quote(inside)),
            "brackets are for IPv6 addresses only, as in \"[::1]:5001\"",
        ));
    }
    let Some(port) = after.strip_prefix(':') else {
        return Err(no_port(text, &format!("[{inside}]"), usual));
    };
    parse_port(text, port, usual)?;
    text.parse::<SocketAddrV6>().map(SocketAddr::V6).map_err(|_| {
        Complaint::new(
            format!("{} has an unknown scope", quote(text)),
            "write the number of the interface after the %, as in \"[fe80::1%2]:5001\"",
        )
    })
}

fn parse_port(text: &str, port: &str, usual: &Usual) -> Result<u16, Complaint> {
    if port.is_empty() {
        let host = text.trim_end_matches(':');
        return Err(no_port(text, host, usual));
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Complaint::new(
            format!("the port {} of {} is not a number", quote(port), quote(text)),
            "write a port from 1 to 65535 in digits",
        ));
    }
    port.parse::<u16>().map_err(|_| {
        Complaint::new(
            format!("the port {} of {} is above 65535", quote(port), quote(text)),
            "write a port from 1 to 65535",
        )
    })
}

fn without_port(text: &str, usual: &Usual) -> Complaint {
    if text.is_empty() {
        return Complaint::new("the address is empty", "write HOST:PORT, [V6]:PORT or unix:PATH");
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Complaint::new(
            format!("{} is only a port", quote(text)),
            format!("write {:?}", format!("{}:{}", usual.host, shortened(text))),
        );
    }
    if text.contains('/') {
        return Complaint::new(
            format!("{} looks like a path", quote(text)),
            format!("write {:?}", shortened(&format!("{UNIX}{text}"))),
        );
    }
    no_port(text, text, usual)
}

fn no_port(text: &str, host: &str, usual: &Usual) -> Complaint {
    Complaint::new(
        format!("{} has no port", quote(text)),
        format!("add one, as in \"{}:{}\"", shortened(host), usual.port),
    )
}

/// More than one colon outside brackets: most likely IPv6, so the cure guesses which colon
/// was meant to come before the port.
fn without_brackets(text: &str, (host, port): (&str, &str), usual: &Usual) -> Complaint {
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    let guess = if is_port && host.parse::<Ipv6Addr>().is_ok() {
        format!("write \"[{host}]:{port}\"")
    } else if text.parse::<Ipv6Addr>().is_ok() {
        format!("write \"[{text}]:{}\", with your port", usual.port)
    } else {
        return Complaint::new(
            format!("{} has too many colons", quote(text)),
            "write HOST:PORT, or [V6]:PORT with the IPv6 address in brackets",
        );
    };
    let message = format!("the IPv6 address in {} has no brackets", quote(text));
    Complaint::new(message, guess)
}

/// Host names as in RFC 1123 section 2.1, and the underscore that container networks use.
fn check_host(host: &str) -> Result<(), Complaint> {
    let bad = |why: String, cure: &str| {
        Err(Complaint::new(format!("{} is not a host name: {why}", quote(host)), cure))
    };
    let wrong =
        host.chars().find(|&c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')));
    if let Some(c) = wrong {
        let cure = if c.is_ascii() {
            "use letters, digits, hyphens and dots"
        } else {
            "write the ASCII form of the name, which begins with xn--"
        };
        return bad(format!("it contains {}", quote(&c.to_string())), cure);
    }
    if host.len() > 253 {
        return bad("it is longer than 253 characters".into(), "shorten it");
    }
    for label in host.strip_suffix('.').unwrap_or(host).split('.') {
        if label.is_empty() {
            return bad("a part between dots is empty".into(), "remove the extra dot");
        }
        if label.len() > 63 {
            return bad("a part is longer than 63 characters".into(), "shorten it");
        }
        if label.starts_with('-') || label.ends_with('-') {
            let why = format!("{} begins or ends with a hyphen", quote(label));
            return bad(why, "remove the hyphen");
        }
    }
    Ok(())
}

/// Long input must not come back whole in a cure.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// What examples are made of.
struct Usual {
    host: &'static str,
    port: u16,
}

const BACKEND: Usual = Usual { host: "localhost", port: 5001 };

const BIND: Usual = Usual { host: "", port: 3030 };

const UNIX: &str = "unix:";

/// `sun_path` has 108 bytes, the last of them for the terminating NUL (unix(7)).
const LONGEST_PATH: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inet(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn named(host: &str, port: u16) -> BackendAddress {
        let host = host.to_owned();
        BackendAddress::Name { host, port }
    }

    #[test]
    fn backends_are_read_and_print_as_written() {
        for (text, expected) in [
            ("127.0.0.1:5001", BackendAddress::Inet(inet("127.0.0.1:5001"))),
            ("[::1]:5001", BackendAddress::Inet(inet("[::1]:5001"))),
            ("[fe80::1%2]:80", BackendAddress::Inet(inet("[fe80::1%2]:80"))),
            ("localhost:1", named("localhost", 1)),
            ("Db_1.Example-2.com.:65535", named("Db_1.Example-2.com.", 65535)),
            ("1password:80", named("1password", 80)),
            ("unix:/run/a b,c.sock", BackendAddress::Unix("/run/a b,c.sock".into())),
            ("unix:relative", BackendAddress::Unix("relative".into())),
        ] {
            assert_eq!(text.parse().as_ref(), Ok(&expected), "{text}");
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn listening_addresses_are_read_and_print_as_written() {
        let host = "localhost".to_owned();
        for (text, expected) in [
            (":3030", BindAddress::Any(3030)),
            (":0", BindAddress::Any(0)),
            ("0.0.0.0:3030", BindAddress::Inet(inet("0.0.0.0:3030"))),
            ("[::]:0", BindAddress::Inet(inet("[::]:0"))),
            ("localhost:0", BindAddress::Name { host, port: 0 }),
            ("unix:/run/x.sock", BindAddress::Unix("/run/x.sock".into())),
        ] {
            assert_eq!(text.parse().as_ref(), Ok(&expected), "{text}");
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn what_no_address_can_be_is_refused_with_a_cure() {
        let long_path = format!("unix:{}", "p".repeat(108));
        let long_label = format!("{}:80", "a".repeat(64));
        let long_name = format!("{}:80", "a.".repeat(127));
        for (text, message, cure) in [
            ("", "is empty", "HOST:PORT"),
            ("localhost", "has no port", "\"localhost:5001\""),
            ("localhost:", "has no port", "\"localhost:5001\""),
            ("[::1]", "has no port", "\"[::1]:5001\""),
            ("[::1]5001", "has no port", "\"[::1]:5001\""),
            ("h:65536", "`65536` of `h:65536` is above 65535", "1 to 65535"),
            ("h:99999999999", "above 65535", "1 to 65535"),
            ("h:-1", "`-1` of `h:-1` is not a number", "in digits"),
            ("h:+1", "not a number", "in digits"),
            ("h:abc", "not a number", "in digits"),
            ("h:8080x", "not a number", "in digits"),
            ("h:80 ", "not a number", "in digits"),
            ("[::1]:65536", "above 65535", "1 to 65535"),
            ("[::1:5001", "no closing bracket", "\"[::1]:5001\""),
            ("[localhost]:80", "not an IPv6 address", "brackets are for"),
            ("[127.0.0.1]:80", "not an IPv6 address", "brackets are for"),
            ("[]:80", "not an IPv6 address", "brackets are for"),
            ("[fe80::1%eth0]:80", "unknown scope", "number of the interface"),
            ("::1:5001", "no brackets", "\"[::1]:5001\""),
            ("fe80::1", "no brackets", "\"[fe80::1]:5001\""),
            ("a:b:80", "too many colons", "in brackets"),
            ("256.0.0.1:80", "`256.0.0.1` is not an IPv4", "0 to 255"),
            ("1.2.3:80", "not an IPv4", "four numbers"),
            ("127.0.0.01:80", "not an IPv4", "four numbers"),
            ("ex ample:80", "contains ` `", "letters, digits"),
            ("müller:80", "contains `ü`", "xn--"),
            ("a..b:80", "is empty", "extra dot"),
            ("-a:80", "hyphen", "remove"),
            ("a-.b:80", "hyphen", "remove"),
            (&long_label, "63 characters", "shorten"),
            (&long_name, "253 characters", "shorten"),
            ("http://a:80/", "has a scheme", "\"a:80\""),
            ("/run/x.sock", "looks like a path", "\"unix:/run/x.sock\""),
            ("unix:", "names no path", "unix:/run"),
            ("unix:a\0b", "control character", "without"),
            ("unix:a\nb", "control character", "without"),
            ("unix:\u{1b}[31m", "control character", "without"),
            (&long_path, "108 bytes", "at most 107"),
        ] {
            let as_backend = text.parse::<BackendAddress>().expect_err(text);
            assert!(as_backend.message.contains(message), "{text}: {as_backend}");
            assert!(as_backend.cure.contains(cure), "{text}: {as_backend}");
            assert!(text.parse::<BindAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_two_kinds_differ_in_what_may_be_left_out() {
        let backend = |text: &str| text.parse::<BackendAddress>().expect_err(text).to_string();
        let bind = |text: &str| text.parse::<BindAddress>().expect_err(text).to_string();
        assert!(backend(":80").contains("has no host; write \"localhost:80\""));
        assert!(backend("h:0").contains("port 0"));
        assert!(backend("[::1]:0").contains("port 0"));
        assert!(backend("5001").contains("only a port; write \"localhost:5001\""));
        assert!(bind("3030").contains("only a port; write \":3030\""));
        assert!(bind("*:3030").contains("write \":3030\""));
    }

    #[test]
    fn the_longest_path_fits() {
        let text = format!("unix:{}", "p".repeat(107));
        assert!(text.parse::<BindAddress>().is_ok());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic_and_what_is_read_round_trips(text in ".{0,40}") {
            if let Ok(address) = text.parse::<BackendAddress>() {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
            if let Ok(address) = text.parse::<BindAddress>() {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }

        #[test]
        fn near_misses_do_not_panic_either(
            text in "(unix:|http://|\\[)?[a-z0-9.:%*-]{0,12}[\\]:]{0,2}[0-9x-]{0,6}",
        ) {
            if let Ok(address) = text.parse::<BindAddress>() {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }
}
