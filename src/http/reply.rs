//! An answer as bytes: status line, fields, and the body.
//!
//! The length is always stated, so the end of an answer never depends on closing the connection.
//! There is no Date field: nothing here knows a clock, and RFC 9110 section 6.6.1 asks a server
//! without one to leave it out.

use super::head::Persistence;

/// A complete answer that is yet to be written.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// The outcome.
    pub status: Status,
    /// The value of Content-Type.
    pub content_type: &'a str,
    /// Further fields, with their values.
    pub fields: &'a [(&'a str, &'a str)],
    /// The content, whose length is stated in any case.
    pub body: &'a [u8],
}

impl Reply<'_> {
    /// Appends head and body.
    pub fn whole(&self, persistence: Persistence, output: &mut Vec<u8>) {
        self.head(persistence, output);
        output.extend_from_slice(self.body);
    }

    /// Appends the head alone, as an answer to `HEAD`.
    pub fn head(&self, persistence: Persistence, output: &mut Vec<u8>) {
        self.announce(self.body.len(), persistence, output);
    }

    /// Appends the head of an answer whose content is so long and comes from elsewhere.
    pub fn announce(&self, length: usize, persistence: Persistence, output: &mut Vec<u8>) {
        let Self { status: Status { code, reason }, content_type, fields, body: _ } = *self;
        let connection = match persistence {
            Persistence::Implied => "",
            Persistence::Announced => "Connection: keep-alive\r\n",
            Persistence::Close => "Connection: close\r\n",
        };
        let mut head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: {content_type}\r\n\
             Content-Length: {length}\r\n"
        );
        for (name, value) in fields {
            head.extend([*name, ": ", *value, "\r\n"]);
        }
        head.extend([connection, "\r\n"]);
        output.extend_from_slice(head.as_bytes());
    }
}

/// A status code and the words that go with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Three digits.
    pub code: u16,
    /// The phrase of RFC 9110 section 15.
    pub reason: &'static str,
}

impl Status {
    /// The request was answered.
    pub const OK: Self = Self::new(200, "OK");
    /// What was asked for is there now.
    pub const CREATED: Self = Self::new(201, "Created");
    /// The request is malformed or contradicts itself.
    pub const BAD_REQUEST: Self = Self::new(400, "Bad Request");
    /// The request lacks a valid token.
    pub const UNAUTHORIZED: Self = Self::new(401, "Unauthorized");
    /// The request is understood, and not answered for the way it came.
    pub const FORBIDDEN: Self = Self::new(403, "Forbidden");
    /// Nothing is there.
    pub const NOT_FOUND: Self = Self::new(404, "Not Found");
    /// Something is there, for another method.
    pub const METHOD_NOT_ALLOWED: Self = Self::new(405, "Method Not Allowed");
    /// What is asked for does not go with what is there.
    pub const CONFLICT: Self = Self::new(409, "Conflict");
    /// The body is over a limit.
    pub const CONTENT_TOO_LARGE: Self = Self::new(413, "Content Too Large");
    /// The body is of a kind that is not taken.
    pub const UNSUPPORTED_MEDIA_TYPE: Self = Self::new(415, "Unsupported Media Type");
    /// The body is well formed and asks for what cannot be.
    pub const UNPROCESSABLE_CONTENT: Self = Self::new(422, "Unprocessable Content");
    /// The head is over a limit (RFC 6585).
    pub const HEAD_TOO_LARGE: Self = Self::new(431, "Request Header Fields Too Large");
    /// The request needs something that is not built here.
    pub const NOT_IMPLEMENTED: Self = Self::new(501, "Not Implemented");
    /// No service for now.
    pub const SERVICE_UNAVAILABLE: Self = Self::new(503, "Service Unavailable");
    /// The HTTP version is not spoken here.
    pub const VERSION_NOT_SUPPORTED: Self = Self::new(505, "HTTP Version Not Supported");

    const fn new(code: u16, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

/// The interim answer to `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_persistence_has_its_words() {
        let fields: &[_] = &[("Allow", "GET")];
        let content_type = "text/plain";
        let reply = Reply { status: Status::OK, content_type, fields, body: b"hi" };
        for (persistence, connection) in [
            (Persistence::Implied, ""),
            (Persistence::Announced, "Connection: keep-alive\r\n"),
            (Persistence::Close, "Connection: close\r\n"),
        ] {
            let mut written = Vec::new();
            reply.whole(persistence, &mut written);
            let expected = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\
                 Allow: GET\r\n{connection}\r\nhi"
            );
            assert_eq!(String::from_utf8_lossy(&written), expected);
        }
    }

    #[test]
    fn the_head_alone_still_states_the_length() {
        let content_type = "text/plain";
        let reply = Reply { status: Status::OK, content_type, fields: &[], body: b"hello" };
        let mut written = Vec::new();
        reply.head(Persistence::Implied, &mut written);
        let written = String::from_utf8_lossy(&written);
        assert!(written.contains("Content-Length: 5\r\n"), "{written}");
        assert!(written.ends_with("\r\n\r\n"), "{written}");
    }
}
