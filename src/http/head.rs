//! A request head: gathered from pieces, checked once, and turned into facts.
//!
//! The grammar is `httparse`'s; the rules about several fields together (RFC 9112 sections 3.2, 6
//! and 9.3) are here. A head is looked at when its first byte is there, when its first line ends
//! and when it ends, never in between: so the verdict does not depend on how the bytes were cut,
//! and a peer that sends byte by byte causes no more work than any other.
//!
//! Line ends may be a bare LF, as RFC 9112 section 2.2 allows, so that a request typed into `nc`
//! works.

use super::body::{Framing, members};
use super::refusal::Refusal;

/// What a complete and acceptable head says.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method, as sent: methods are case-sensitive.
    pub method: String,
    /// The request target, as sent.
    pub target: String,
    /// The version.
    pub version: Version,
    /// Where the body ends.
    pub framing: Framing,
    /// Whether the sender expects to go on with this connection.
    pub persistence: Persistence,
    /// What came behind the head, where bodies are kept; see
    /// [`Requests::keeping`](super::requests::Requests::keeping).
    pub body: Vec<u8>,
    fields: Vec<Field>,
}

/// The versions that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// What becomes of the connection after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// It stays, as HTTP/1.1 has it, without a word.
    Implied,
    /// It stays because an HTTP/1.0 client asked for that, and the answer must confirm it.
    Announced,
    /// It is closed.
    Close,
}

impl Request {
    /// The values of all fields with this name, in order, without the blanks around them.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |field| field.is(name)).map(|field| &*field.value)
    }

    /// The path of the target, without the query, also when the target is a whole URL.
    pub fn path(&self) -> &str {
        let target = match self.target.split_once("://") {
            Some((scheme, rest)) if !scheme.contains(['/', '?']) => {
                rest.find(['/', '?']).map_or("/", |at| &rest[at..])
            }
            _ => &self.target,
        };
        match target.split(['?', '#']).next() {
            None | Some("") => "/",
            Some(path) => path,
        }
    }

    /// Whether the body is held back until an interim answer asks for it.
    pub fn awaits_continue(&self) -> bool {
        self.version == Version::Http11
            && self.framing != Framing::Length(0)
            && any_member(self.values("expect"), "100-continue")
    }

    /// `bytes` is a head with its blank line.
    fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        if parse(&mut parsed, bytes)? != httparse::Status::Complete(bytes.len()) {
            return Err(Refusal::Malformed(httparse::Error::NewLine));
        }
        let (Some(method), Some(target), Some(minor)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Err(Refusal::Malformed(httparse::Error::Token));
        };
        let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        let mut request = Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version,
            framing: Framing::Length(0),
            persistence: Persistence::Close,
            body: Vec::new(),
            fields: parsed.headers.iter().map(Field::from).collect(),
        };
        request.check_host()?;
        request.framing = request.declared_framing()?;
        request.persistence = request.wished_persistence();
        Ok(request)
    }

    fn check_host(&self) -> Result<(), Refusal> {
        let mut hosts = self.values("host");
        match (hosts.next(), hosts.next(), self.version) {
            (None, _, Version::Http10) => Ok(()),
            (Some(host), None, _) if host.iter().all(|&byte| may_be_in_host(byte)) => Ok(()),
            (None, _, Version::Http11) | (Some(_), _, _) => Err(Refusal::Host),
        }
    }

    fn declared_framing(&self) -> Result<Framing, Refusal> {
        if self.version == Version::Http10 && self.values("transfer-encoding").next().is_some() {
            return Err(Refusal::CodingTooEarly);
        }
        Framing::declared(self.values("content-length"), self.values("transfer-encoding"))
    }

    fn wished_persistence(&self) -> Persistence {
        let asks = |option| any_member(self.values("connection"), option);
        match self.version {
            _ if asks("close") => Persistence::Close,
            Version::Http11 => Persistence::Implied,
            Version::Http10 if asks("keep-alive") => Persistence::Announced,
            Version::Http10 => Persistence::Close,
        }
    }
}

/// A head on its way. Holds at most [`MAX_HEAD`] bytes.
#[derive(Debug, Clone, Default)]
pub struct HeadReader {
    bytes: Vec<u8>,
    /// Where in `bytes` the current line begins.
    line: usize,
    /// Bytes of empty lines before the head. They are dropped (RFC 9112 section 2.2), but count.
    skipped: usize,
}

impl HeadReader {
    /// Takes bytes from the front of `input`: all of it, or up to the end of the head.
    ///
    /// Returns how many were taken, and the head when it is complete; the reader then stands
    /// before the next one.
    ///
    /// # Errors
    ///
    /// As soon as it is certain that the head is not acceptable. The reader is of no use
    /// afterwards but to ask what [the method was](Self::asks_for_head).
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Option<Request>), Refusal> {
        let mut rest = input;
        while !rest.is_empty() {
            let room = MAX_HEAD - self.skipped - self.bytes.len();
            let line = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (part, behind) = rest.split_at(line.min(room));
            self.bytes.extend_from_slice(part);
            rest = behind;
            if self.bytes.first().is_some_and(|&first| !may_begin(first)) {
                // Most likely a TLS client, which would wait for an answer to its first bytes.
                return Err(Refusal::Malformed(httparse::Error::Token));
            }
            if part.ends_with(b"\n")
                && let Some(request) = self.end_line()?
            {
                *self = Self::default();
                return Ok((input.len() - rest.len(), Some(request)));
            }
            if self.skipped + self.bytes.len() == MAX_HEAD {
                return Err(Refusal::HeadTooLarge);
            }
        }
        Ok((input.len(), None))
    }

    /// Whether the request that is being read or was refused is a `HEAD`.
    pub fn asks_for_head(&self) -> bool {
        self.bytes.starts_with(b"HEAD ")
    }

    fn end_line(&mut self) -> Result<Option<Request>, Refusal> {
        let line = &self.bytes[self.line..];
        let is_blank = line == b"\n" || line == b"\r\n";
        match (self.line, is_blank) {
            (0, true) => {
                self.skipped += line.len();
                self.bytes.clear();
                return Ok(None);
            }
            (0, false) => check_first_line(line)?,
            (_, true) => return Request::parse(&self.bytes).map(Some),
            (_, false) => {}
        }
        self.line = self.bytes.len();
        Ok(None)
    }
}

#[derive(Debug, Clone)]
struct Field {
    name: String,
    value: Vec<u8>,
}

impl Field {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl From<&httparse::Header<'_>> for Field {
    fn from(field: &httparse::Header<'_>) -> Self {
        Self { name: field.name.to_owned(), value: field.value.trim_ascii().to_vec() }
    }
}

/// Tells a client that speaks something else at its first line, not when it has sent a whole head.
fn check_first_line(line: &[u8]) -> Result<(), Refusal> {
    parse(&mut httparse::Request::new(&mut []), line).map(drop)
}

fn parse<'b>(
    request: &mut httparse::Request<'_, 'b>,
    bytes: &'b [u8],
) -> Result<httparse::Status<usize>, Refusal> {
    match request.parse(bytes) {
        Ok(status) => Ok(status),
        Err(httparse::Error::TooManyHeaders) => Err(Refusal::TooManyFields),
        Err(httparse::Error::Version) if names_a_version(bytes) => Err(Refusal::Version),
        Err(error) => Err(Refusal::Malformed(error)),
    }
}

/// Whether the first line ends in `HTTP/` and a number, so that the version is what is wrong.
fn names_a_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let last = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default().trim_ascii_end();
    match last.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        Some(_) | None => false,
    }
}

fn any_member<'a>(mut values: impl Iterator<Item = &'a [u8]>, wanted: &str) -> bool {
    values.any(|value| members(value).any(|one| one.eq_ignore_ascii_case(wanted.as_bytes())))
}

/// What a method, or an empty line before it, can begin with.
fn may_begin(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~\r\n".contains(&byte)
}

/// Letters of names, numeric addresses and ports (RFC 3986 section 3.2.2); no user, no path.
fn may_be_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(&byte)
}

/// Longest head in bytes, from the request line to the blank line, both included.
pub const MAX_HEAD: usize = 16 * 1024;

/// Most fields in one head.
pub const MAX_FIELDS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(head: &str) -> Result<Request, Refusal> {
        let (taken, request) = HeadReader::default().read(head.as_bytes())?;
        assert_eq!(taken, head.len(), "{head:?}");
        Ok(request.unwrap_or_else(|| panic!("the head is incomplete: {head:?}")))
    }

    #[test]
    fn the_facts_of_a_head() {
        let request = read(
            "POST /a?b HTTP/1.1\r\nhOST: x:80\r\nTransfer-Encoding: chunked\r\n\
             X: 1\r\nx:  2 \r\nExpect: 100-Continue\r\n\r\n",
        )
        .unwrap();
        assert_eq!((&*request.method, &*request.target), ("POST", "/a?b"));
        assert_eq!(request.version, Version::Http11);
        assert_eq!(request.framing, Framing::Chunked);
        assert_eq!(request.persistence, Persistence::Implied);
        assert_eq!(request.values("X").collect::<Vec<_>>(), [b"1", b"2"]);
        assert!(request.awaits_continue());
    }

    #[test]
    fn the_reader_stops_behind_the_blank_line_and_starts_anew() {
        let first = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n";
        let input = format!("\r\n\n{first}GET /2 HTTP/1.0\n\nrest");
        let mut reader = HeadReader::default();
        let (taken, request) = reader.read(input.as_bytes()).unwrap();
        assert_eq!((taken, &*request.unwrap().target), (first.len() + 3, "/1"));
        let (more, request) = reader.read(&input.as_bytes()[taken..]).unwrap();
        assert_eq!((more, &*request.unwrap().target), (17, "/2"));
        assert!(reader.bytes.is_empty());
    }

    #[test]
    fn who_keeps_the_connection() {
        let persistence = |version: &str, fields: &str| {
            let head = format!("GET / HTTP/{version}\r\nHost: x\r\n{fields}\r\n");
            read(&head).unwrap().persistence
        };
        assert_eq!(persistence("1.1", ""), Persistence::Implied);
        assert_eq!(persistence("1.1", "Connection: keep-alive\r\n"), Persistence::Implied);
        assert_eq!(persistence("1.1", "Connection: te, Close\r\n"), Persistence::Close);
        assert_eq!(persistence("1.1", "Connection: closed\r\n"), Persistence::Implied);
        assert_eq!(persistence("1.0", ""), Persistence::Close);
        assert_eq!(persistence("1.0", "Connection: Keep-Alive\r\n"), Persistence::Announced);
        let both = "Connection: keep-alive\r\nConnection: close\r\n";
        assert_eq!(persistence("1.0", both), Persistence::Close);
    }

    #[test]
    fn what_is_refused_and_how() {
        use httparse::Error;
        let refusal = |head: &str| {
            let refusal = read(head).expect_err(head);
            (refusal, refusal.status().code)
        };
        for (head, expected, code) in [
            ("GET / HTTP/2.0\r\n", Refusal::Version, 505),
            ("GET / HTTP/1.2\r\n", Refusal::Version, 505),
            ("GET / HTTP/x.y\r\n", Refusal::Malformed(Error::Version), 400),
            ("hello there you\n", Refusal::Malformed(Error::Version), 400),
            ("\x16\x03\x01", Refusal::Malformed(Error::Token), 400),
            ("GET / HTTP/1.1\r\n\r\n", Refusal::Host, 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Refusal::Host, 400),
            ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Refusal::Host, 400),
            ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Refusal::Host, 400),
            ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", Refusal::Host, 400),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Refusal::Malformed(Error::HeaderName), 400),
            ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Refusal::Malformed(Error::HeaderName), 400),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::CodingTooEarly, 400),
            (
                "POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: br\r\n\r\n",
                Refusal::UnknownCoding,
                501,
            ),
        ] {
            assert_eq!(refusal(head), (expected, code), "{head:?}");
        }
    }

    #[test]
    fn a_head_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
        let around = "GET / HTTP/1.1\r\nHost: x\r\nX: \r\n\r\n".len();
        let head = |filler: usize| {
            let filler = "f".repeat(filler - around);
            format!("GET / HTTP/1.1\r\nHost: x\r\nX: {filler}\r\n\r\n")
        };
        assert!(read(&head(MAX_HEAD)).is_ok());
        assert_eq!(read(&head(MAX_HEAD + 1)).unwrap_err(), Refusal::HeadTooLarge);
        assert_eq!(read(&"\r\n".repeat(MAX_HEAD)).unwrap_err(), Refusal::HeadTooLarge);
        let after_blanks = format!("\n\n{}", head(MAX_HEAD - 2));
        assert!(read(&after_blanks).is_ok());
        let after_blanks = format!("\n\n{}", head(MAX_HEAD - 1));
        assert_eq!(read(&after_blanks).unwrap_err(), Refusal::HeadTooLarge);
    }

    #[test]
    fn a_hundred_fields_are_read_and_one_more_is_not() {
        let head = |fields: usize| {
            format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(fields - 1))
        };
        assert!(read(&head(MAX_FIELDS)).is_ok());
        assert_eq!(read(&head(MAX_FIELDS + 1)).unwrap_err(), Refusal::TooManyFields);
    }

    #[test]
    fn paths_of_all_forms_of_targets() {
        for (target, path) in [
            ("/", "/"),
            ("/health", "/health"),
            ("/health?x=http://y/z", "/health"),
            ("?x", "/"),
            ("*", "*"),
            ("http://host:1/health?q", "/health"),
            ("http://host", "/"),
            ("http://host?x/health", "/"),
            ("/a://b/health", "/a://b/health"),
        ] {
            let request = read(&format!("GET {target} HTTP/1.0\r\n\r\n")).unwrap();
            assert_eq!(request.path(), path, "{target}");
        }
    }

    #[test]
    fn only_a_body_is_waited_for_and_only_by_the_newer_version() {
        let awaits = |version: &str, fields: &str| {
            let head = format!(
                "PUT / HTTP/{version}\r\nHost: x\r\nExpect: 100-continue\r\n{fields}\r\n\r\n"
            );
            read(&head).unwrap().awaits_continue()
        };
        assert!(awaits("1.1", "Content-Length: 1"));
        assert!(!awaits("1.1", "Content-Length: 0"));
        assert!(!awaits("1.0", "Content-Length: 1"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_hold_more_than_the_limit(
            input in prop::collection::vec(any::<u8>(), 0..400),
            repeat in 1_usize..120,
            size in 1_usize..5000,
        ) {
            let mut reader = HeadReader::default();
            for piece in input.repeat(repeat).chunks(size) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let Ok((taken, request)) = reader.read(rest) else {
                        return Ok(());
                    };
                    prop_assert!(taken == rest.len() || request.is_some());
                    prop_assert!(reader.bytes.len() + reader.skipped < MAX_HEAD);
                    rest = &rest[taken..];
                }
            }
        }
    }
}
