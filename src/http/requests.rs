//! Requests off one connection, one after the other: a head, its body, the next head.
//!
//! A request is handed out when its last byte has been read, so the reader always stands before
//! the next one. Bodies are counted, and dropped unless they are to be kept. After a refusal it is
//! unknown where the next request begins: the reader then takes nothing seriously any more, and the
//! connection must be closed.

use std::mem;

use super::body::{BodyReader, Framing};
use super::head::{HeadReader, Request};
use super::refusal::Refusal;

/// The requests of one connection.
#[derive(Debug, Clone)]
pub struct Requests {
    state: State,
    most_body: u64,
    keeps_bodies: bool,
}

/// What reading brought.
#[derive(Debug)]
pub enum Arrival {
    /// Nothing yet: more input is needed.
    Nothing,
    /// The sender waits for [`CONTINUE`](super::reply::CONTINUE) before it sends the body.
    AwaitsContinue,
    /// A whole request.
    Request(Box<Request>),
    /// Something that is no acceptable request.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Whether it was a `HEAD`, whose answer has no body.
        is_head: bool,
    },
}

impl Requests {
    /// Reads requests whose bodies have at most `most_body` bytes of payload.
    #[must_use]
    pub fn new(most_body: u64) -> Self {
        let state = State::Head(HeadReader::default());
        Self { state, most_body, keeps_bodies: false }
    }

    /// The same, but bodies are handed out with their requests.
    #[must_use]
    pub fn keeping(most_body: u64) -> Self {
        Self { keeps_bodies: true, ..Self::new(most_body) }
    }

    /// Takes bytes from the front of `input`, at most to the end of one request, and returns how
    /// many. At least one is taken whenever there is input.
    pub fn read(&mut self, input: &[u8]) -> (usize, Arrival) {
        let most_body = self.most_body;
        self.read_by(input, |_| most_body)
    }

    /// The same, but `most_body` says how much payload a request may have whose head has come.
    pub fn read_by(
        &mut self,
        input: &[u8],
        most_body: impl FnOnce(&Request) -> u64,
    ) -> (usize, Arrival) {
        match mem::replace(&mut self.state, State::Broken) {
            State::Head(mut head) => match head.read(input) {
                Ok((taken, Some(request))) => {
                    let most_body = most_body(&request);
                    (taken, self.begin(request, most_body))
                }
                Ok((taken, None)) => {
                    self.state = State::Head(head);
                    (taken, Arrival::Nothing)
                }
                Err(refusal) => {
                    (input.len(), Arrival::Refused { refusal, is_head: head.asks_for_head() })
                }
            },
            State::Body { request, body, room } => self.go_on(request, body, room, input),
            State::Broken => (input.len(), Arrival::Nothing),
        }
    }

    /// The head of a request is complete.
    fn begin(&mut self, request: Request, most_body: u64) -> Arrival {
        if request.method == "CONNECT" {
            // Any success would turn the connection into a tunnel.
            return Arrival::Refused { refusal: Refusal::Tunnel, is_head: false };
        }
        match request.framing {
            Framing::Length(0) => {
                self.state = State::Head(HeadReader::default());
                return Arrival::Request(Box::new(request));
            }
            Framing::Length(length) if length > most_body => return too_large(&request),
            Framing::Length(_) | Framing::Chunked => {}
        }
        let awaits_continue = request.awaits_continue();
        let body = BodyReader::new(request.framing);
        self.state = State::Body { request: Box::new(request), body, room: most_body };
        if awaits_continue { Arrival::AwaitsContinue } else { Arrival::Nothing }
    }

    fn go_on(
        &mut self,
        mut request: Box<Request>,
        mut body: BodyReader,
        room: u64,
        input: &[u8],
    ) -> (usize, Arrival) {
        let piece = match body.read(input) {
            Ok(piece) => piece,
            Err(refusal) => {
                let is_head = request.method == "HEAD";
                return (input.len(), Arrival::Refused { refusal, is_head });
            }
        };
        let Some(room) = room.checked_sub(piece.data.len() as u64) else {
            return (input.len(), too_large(&request));
        };
        if self.keeps_bodies {
            request.body.extend_from_slice(piece.data);
        }
        if body.is_complete() {
            self.state = State::Head(HeadReader::default());
            return (piece.taken, Arrival::Request(request));
        }
        self.state = State::Body { request, body, room };
        (piece.taken, Arrival::Nothing)
    }
}

fn too_large(request: &Request) -> Arrival {
    Arrival::Refused { refusal: Refusal::BodyTooLarge, is_head: request.method == "HEAD" }
}

#[derive(Debug, Clone)]
enum State {
    /// Before or within a head.
    Head(HeadReader),
    /// Within a body.
    Body {
        request: Box<Request>,
        body: BodyReader,
        /// Payload that is still tolerated.
        room: u64,
    },
    /// After a refusal.
    Broken,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that arrives, in short, with `input` cut into pieces of `size`.
    fn arrivals(input: &str, size: usize) -> Vec<String> {
        let mut requests = Requests::new(5);
        let mut found = Vec::new();
        for mut rest in input.as_bytes().chunks(size) {
            while !rest.is_empty() {
                let (taken, arrival) = requests.read(rest);
                rest = &rest[taken..];
                match arrival {
                    Arrival::Nothing => {}
                    Arrival::AwaitsContinue => found.push("continue".to_owned()),
                    Arrival::Request(request) => found.push(request.target),
                    Arrival::Refused { refusal, is_head } => {
                        found.push(format!("{} {is_head}", refusal.status().code));
                    }
                }
            }
        }
        found
    }

    #[test]
    fn requests_follow_each_other_however_they_are_cut() {
        let input = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n\
                     POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345\
                     PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                     2\r\n12\r\n3\r\n345\r\n0\r\n\r\nGET /d HTTP/1.1\r\nHost: x\r\n\r\n";
        for size in [1, 7, 64, input.len()] {
            assert_eq!(arrivals(input, size), ["/a", "/b", "/c", "/d"], "{size}");
        }
    }

    #[test]
    fn a_body_above_the_limit_is_refused_before_or_while_it_comes() {
        let declared = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n";
        let chunked = "HEAD / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3\r\n123\r\n3\r\n456\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
        for size in [1, 1000] {
            assert_eq!(arrivals(declared, size), ["413 false"]);
            assert_eq!(arrivals(chunked, size), ["413 true"], "and nothing is read behind it");
        }
    }

    #[test]
    fn a_body_is_kept_whole_where_that_is_asked_for() {
        let input = "PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                     2\r\n12\r\n3\r\n345\r\n0\r\n\r\n\
                     PUT /b HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
        for (keeps, expected) in [(true, ["12345", "ab"]), (false, ["", ""])] {
            for size in [1, 7, input.len()] {
                let new = if keeps { Requests::keeping } else { Requests::new };
                let (mut requests, mut bodies) = (new(5), Vec::new());
                for mut rest in input.as_bytes().chunks(size) {
                    while !rest.is_empty() {
                        let (taken, arrival) = requests.read(rest);
                        rest = &rest[taken..];
                        if let Arrival::Request(request) = arrival {
                            bodies.push(String::from_utf8(request.body).unwrap());
                        }
                    }
                }
                assert_eq!(bodies, expected);
            }
        }
    }

    #[test]
    fn who_waits_for_a_word_is_told_to_go_on() {
        let head =
            "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(arrivals(&format!("{head}x"), 1000), ["continue", "/a"]);
    }

    #[test]
    fn nothing_follows_a_refusal() {
        let next = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n";
        for (bad, expected) in [
            ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "501 false"),
            ("HEAD / HTTP/1.1\r\n\r\n", "400 true"),
            ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "400 false"),
        ] {
            assert_eq!(arrivals(&format!("{bad}{next}"), 1000), [expected], "{bad}");
        }
    }
}
