//! One client of the admin address: its requests, answered in their order.
//!
//! A request that has come as a whole is kept until the owner of the running state answers it, in
//! as many parts as that takes; nothing behind it is looked at before that. So a client that sends
//! many requests at once has one answer in memory at a time. What cannot be understood is answered
//! here, and ends it all.

use std::mem;

use super::Balancer;
use super::gate::Gate;
use super::reload::{MOST_OF_PROPOSAL, PLAN};
use super::rope::Rope;
use super::route::Response;
use crate::answer::{Answer, Backlog, Next};
use crate::http::head::{Persistence, Request};
use crate::http::reply::CONTINUE;
use crate::http::requests::{Arrival, Requests};

/// Requests of one client.
#[derive(Debug)]
pub struct Conversation {
    client: String,
    /// Who may send much; whoever is answered is looked at again then.
    gate: Gate,
    requests: Requests,
    state: State,
    backlog: Backlog,
    /// The client has finished sending.
    ended: bool,
}

impl Conversation {
    /// Before the first request of this client, who may send much if the gate lets it in.
    #[must_use]
    pub fn new(client: String, gate: Gate) -> Self {
        Self {
            client,
            gate,
            requests: Requests::keeping(MAX_BODY),
            state: State::Listening,
            backlog: Backlog::default(),
            ended: false,
        }
    }

    /// Answers the request that stands, after [`Next::Ask`].
    pub fn answer(
        &mut self,
        gate: &Gate,
        balancer: &mut impl Balancer,
        output: &mut Vec<u8>,
    ) -> Next {
        let (mut response, manner) = match mem::replace(&mut self.state, State::Closed) {
            State::Asking(request) => {
                let response = Response::to(&request, gate, balancer, &self.client);
                let is_head = request.method == "HEAD";
                (Box::new(response), Manner { persistence: request.persistence, is_head })
            }
            State::Answering(response, manner) => (response, manner),
            State::Listening | State::Sending(_, _) | State::Closed => return Next::Close,
        };
        if !response.go_on(balancer) {
            self.state = State::Answering(response, manner);
            return Next::Ask;
        }
        self.send(*response, manner, output);
        match self.state {
            State::Closed => Next::Close,
            State::Listening | State::Asking(_) | State::Answering(_, _) | State::Sending(_, _) => {
                Next::Again
            }
        }
    }

    /// Bytes of an answer that are still to be sent.
    #[must_use]
    pub fn untaken(&self) -> usize {
        match &self.state {
            State::Sending(rest, _) => rest.len(),
            State::Listening | State::Asking(_) | State::Answering(_, _) | State::Closed => 0,
        }
    }

    fn send(&mut self, response: Response, manner: Manner, output: &mut Vec<u8>) {
        response.head(manner.persistence, output);
        let body = if manner.is_head { Rope::default() } else { response.body };
        self.send_more(body, manner.persistence, output);
    }

    /// Sends one more piece, and remembers what is left.
    fn send_more(&mut self, mut rest: Rope, persistence: Persistence, output: &mut Vec<u8>) {
        output.extend(rest.pop().unwrap_or_default());
        self.state = match persistence {
            _ if !rest.is_empty() => State::Sending(rest, persistence),
            Persistence::Close => State::Closed,
            Persistence::Implied | Persistence::Announced => State::Listening,
        };
    }

    fn listen(&mut self, input: &[u8], output: &mut Vec<u8>) -> Next {
        let waiting = self.backlog.join(input);
        let mut rest = &*waiting;
        while !rest.is_empty() && matches!(self.state, State::Listening) {
            let gate = &self.gate;
            let (taken, arrival) = self.requests.read_by(rest, |request| most_body(request, gate));
            rest = &rest[taken..];
            match arrival {
                Arrival::Nothing => {}
                Arrival::AwaitsContinue => output.extend_from_slice(CONTINUE),
                Arrival::Request(request) => self.state = State::Asking(request),
                Arrival::Refused { refusal, is_head } => {
                    let response = Response::to_refused(refusal);
                    let manner = Manner { persistence: Persistence::Close, is_head };
                    self.send(response, manner, output);
                }
            }
        }
        match self.state {
            State::Listening if self.ended => Next::Close,
            State::Listening => Next::Continue,
            State::Asking(_) | State::Answering(_, _) => {
                self.backlog.keep(rest);
                Next::Ask
            }
            State::Sending(_, _) => {
                self.backlog.keep(rest);
                Next::Again
            }
            State::Closed => Next::Close,
        }
    }
}

impl Answer for Conversation {
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Next {
        match mem::replace(&mut self.state, State::Closed) {
            State::Listening => {
                self.state = State::Listening;
                self.listen(input, output)
            }
            State::Sending(rest, persistence) => {
                self.backlog.keep(input);
                self.send_more(rest, persistence, output);
                if matches!(self.state, State::Closed) { Next::Close } else { Next::Again }
            }
            state @ (State::Asking(_) | State::Answering(_, _)) => {
                self.state = state;
                self.backlog.keep(input);
                Next::Ask
            }
            State::Closed => Next::Close,
        }
    }

    /// What was asked before the end is answered, then the conversation is over.
    fn end(&mut self, output: &mut Vec<u8>) -> Next {
        self.ended = true;
        self.receive(&[], output)
    }
}

#[derive(Debug)]
enum State {
    /// Before or within a request.
    Listening,
    /// A request waits for its answer.
    Asking(Box<Request>),
    /// There is more to come of its answer before that can be sent.
    Answering(Box<Response>, Manner),
    /// There is more of its answer than could be sent at once.
    Sending(Rope, Persistence),
    /// The last answer is out.
    Closed,
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy)]
struct Manner {
    persistence: Persistence,
    is_head: bool,
}

/// A whole configuration is taken from those who may send one.
fn most_body(request: &Request, gate: &Gate) -> u64 {
    let is_plan = request.method == "POST" && request.path() == PLAN;
    let is_known = || gate.check_place(request).is_ok() && gate.check_token(request).is_ok();
    if is_plan && is_known() { MOST_OF_PROPOSAL } else { MAX_BODY }
}

/// Payload of one request.
pub const MAX_BODY: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::super::snapshot::tests::Fixed;
    use super::*;
    use crate::http::head::MAX_HEAD;
    use proptest::prelude::*;

    /// Sends `input` in pieces of `size`, then an end; gives what was answered.
    fn say(input: &[u8], size: usize) -> String {
        say_at(&Gate::default(), input, size)
    }

    fn say_at(gate: &Gate, input: &[u8], size: usize) -> String {
        let mut conversation = Conversation::new("me".to_owned(), gate.clone());
        let mut sent = Vec::new();
        let mut pieces: Vec<Option<&[u8]>> = input.chunks(size).map(Some).collect();
        pieces.push(None);
        for piece in pieces {
            let mut next = match piece {
                Some(piece) => conversation.receive(piece, &mut sent),
                None => conversation.end(&mut sent),
            };
            loop {
                next = match next {
                    Next::Ask => {
                        let before = sent.len();
                        let next = conversation.answer(gate, &mut Fixed::default(), &mut sent);
                        assert_eq!(sent.len() > before, next != Next::Ask);
                        next
                    }
                    Next::Again => conversation.receive(&[], &mut sent),
                    Next::Continue => break,
                    Next::Close => return String::from_utf8(sent).unwrap(),
                };
            }
        }
        panic!("it goes on after the end of the stream")
    }

    fn codes(sent: &str) -> Vec<&str> {
        // Messages name the version too; only a status follows it with digits.
        let answers = sent.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]);
        answers.filter(|code| code.bytes().all(|byte| byte.is_ascii_digit())).collect()
    }

    fn get(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }

    #[test]
    fn pipelined_requests_are_answered_in_their_order() {
        let post = "POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
        let input = [&get("/health"), &get("/nothing"), post, &get("/targets")].concat();
        for size in [1, 50, 10_000] {
            assert_eq!(codes(&say(input.as_bytes(), size)), ["200", "404", "405", "200"]);
        }
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let sent = say(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000);
        let whole = say(get("/health").as_bytes(), 1000);
        assert!(sent.ends_with("\r\n\r\n") && whole.starts_with(&sent), "{sent}");
    }

    #[test]
    fn who_wants_to_leave_is_let_go() {
        let last = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let sent = say([last, &get("/targets")].concat().as_bytes(), 1000);
        assert_eq!(codes(&sent), ["200"]);
        assert!(sent.contains("Connection: close\r\n"), "{sent}");
    }

    #[test]
    fn what_cannot_be_understood_ends_it_with_an_error_in_json() {
        let long = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "x".repeat(MAX_HEAD));
        let big = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n".to_owned();
        let two = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\
                   Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            .to_owned();
        for (bad, code) in [
            (long, "431"),
            (big, "413"),
            (two, "400"),
            ("\x16\x03\x01".to_owned(), "400"),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
            ("GET / HTTP/2.0\r\n\r\n".to_owned(), "505"),
        ] {
            // What is smuggled behind it is never looked at.
            let sent = say([bad.as_str(), &get("/health")].concat().as_bytes(), 1000);
            assert_eq!(codes(&sent), [code], "{bad}");
            assert!(sent.contains("Connection: close\r\n") && sent.contains("{\"error\":\""));
        }
    }

    #[test]
    fn much_is_read_only_of_a_plan_and_only_from_those_who_may_ask_for_one() {
        let gate = Gate::new(Vec::new(), Some("s3cret".parse().unwrap()));
        let (known, stranger) = ("Authorization: Bearer s3cret\r\n", "");
        let (much, most) = (MAX_BODY + 1, MOST_OF_PROPOSAL);
        for (path, host, field, length, code) in [
            ("/api/v1/plan", "localhost", known, much, "422"),
            ("/api/v1/plan", "localhost", known, most, "422"),
            ("/api/v1/plan", "localhost", known, most + 1, "413"),
            ("/api/v1/plan", "localhost", stranger, much, "413"),
            ("/api/v1/plan", "localhost", stranger, MAX_BODY, "401"),
            ("/api/v1/plan", "evil.example", known, much, "413"),
            ("/api/v1/reload", "localhost", known, much, "413"),
        ] {
            let json = format!("{{\"x\":\"{}\"}}", "y".repeat(length.try_into().unwrap()));
            let body = &json[json.len() - usize::try_from(length).unwrap()..];
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
                 {field}Content-Length: {length}\r\n\r\n"
            );
            let sent = say_at(&gate, &[head.as_bytes(), body.as_bytes()].concat(), 65_536);
            let expected = if code == "422" { ["400"] } else { [code] };
            assert_eq!(codes(&sent), expected, "{path} {host} {field} {length}");
        }
    }

    #[test]
    fn a_request_inside_a_body_is_not_answered() {
        let inner = get("/targets");
        let outer = format!(
            "POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{inner}",
            inner.len()
        );
        assert_eq!(codes(&say(outer.as_bytes(), 1000)), ["405"]);
    }

    #[test]
    fn a_request_that_was_not_finished_gets_no_answer() {
        assert_eq!(say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n", 1000), "");
        assert_eq!(say(b"", 1), "");
    }

    proptest! {
        #[test]
        fn any_bytes_get_the_same_answer_however_they_are_cut(
            input in "(GET|PUT) /(health|x) HTTP/1.[01]\r\n[a-z:0-9\r\n ]{0,60}\r\n\r\n.{0,40}",
            size in 1usize..50,
        ) {
            prop_assert_eq!(say(input.as_bytes(), size), say(input.as_bytes(), 10_000));
        }
    }
}
