//! The HTTP backend: every request gets a small page that says who answered it.
//!
//! A request is answered when its body has been read (and dropped): then the connection stands at
//! the next request. A request that cannot be understood is told why, and the connection closed,
//! since where the next one begins is unknown. The grammar and the limits are those of
//! [`crate::http`]; the words are in [`page`].

use super::{Answer, Backlog, Next, OUTPUT_MARK, page};
use crate::http::head::{Persistence, Request};
use crate::http::refusal::Refusal;
use crate::http::reply::{CONTINUE, Reply, Status};
use crate::http::requests::{Arrival, Requests};

/// Answers any request with a page, and `GET /health` with a line of JSON.
///
/// Its longest answer is 1 KiB, six times [`MAX_HEAD`](crate::http::head::MAX_HEAD), since every
/// character of a target may have to be escaped, and 18 times the name.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    name: String,
    port: Option<u16>,
    requests: Requests,
    /// The last answer is out.
    closed: bool,
    backlog: Backlog,
}

impl HttpAnswer {
    /// `name` is how the backend is called in `/health`; the page is headed by the `port`, or by
    /// the name where there is no port (a unix socket).
    pub fn new(name: &str, port: Option<u16>) -> Self {
        Self {
            name: name.to_owned(),
            port,
            requests: Requests::new(u64::MAX),
            closed: false,
            backlog: Backlog::default(),
        }
    }

    /// Takes bytes from the front of `input`, at most to the end of one request, and returns how
    /// many.
    fn step(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let (taken, arrival) = self.requests.read(input);
        match arrival {
            Arrival::Nothing => {}
            Arrival::AwaitsContinue => output.extend_from_slice(CONTINUE),
            Arrival::Request(request) => self.respond(&request, output),
            Arrival::Refused { refusal, is_head } => {
                refuse(refusal, is_head, output);
                self.closed = true;
            }
        }
        taken
    }

    /// The whole request is there.
    fn respond(&mut self, request: &Request, output: &mut Vec<u8>) {
        let is_head = request.method == "HEAD";
        let asks_for_health = request.path() == "/health" && (is_head || request.method == "GET");
        let (content_type, body) = if asks_for_health {
            (page::JSON, page::health(&self.name))
        } else {
            (page::HTML, page::greeting(&self.name, self.port, request))
        };
        let fields = &[];
        let reply = Reply { status: Status::OK, content_type, fields, body: body.as_bytes() };
        send(reply, request.persistence, is_head, output);
        self.closed = request.persistence == Persistence::Close;
    }
}

impl Answer for HttpAnswer {
    fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Next {
        let waiting = self.backlog.join(input);
        let enough = output.len() + OUTPUT_MARK;
        let mut rest = &*waiting;
        while !rest.is_empty() && !self.closed && output.len() < enough {
            rest = &rest[self.step(rest, output)..];
        }
        if self.closed { Next::Close } else { self.backlog.keep(rest) }
    }

    /// A request that was not finished gets no answer.
    fn end(&mut self, output: &mut Vec<u8>) -> Next {
        while self.receive(&[], output) == Next::Again {}
        self.closed = true;
        Next::Close
    }
}

fn refuse(refusal: Refusal, is_head: bool, output: &mut Vec<u8>) {
    let status = refusal.status();
    let body = format!("{} {}: {refusal}\n", status.code, status.reason);
    let reply = Reply { status, content_type: page::TEXT, fields: &[], body: body.as_bytes() };
    send(reply, Persistence::Close, is_head, output);
}

/// An answer to `HEAD` ends with its own head.
fn send(reply: Reply<'_>, persistence: Persistence, is_head: bool, output: &mut Vec<u8>) {
    if is_head {
        reply.head(persistence, output);
    } else {
        reply.whole(persistence, output);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{converse, cut_at};
    use super::*;
    use crate::http::head::MAX_HEAD;
    use proptest::prelude::*;

    const LONGEST: usize = 1024 + 6 * MAX_HEAD + 18 * "5001".len();

    fn backend() -> HttpAnswer {
        HttpAnswer::new("5001", Some(5001))
    }

    fn say(input: &str) -> (String, Next) {
        let (sent, next) = converse(&mut backend(), &[input.as_bytes()], LONGEST);
        (String::from_utf8(sent).unwrap(), next)
    }

    /// Status codes and bodies in `sent`, which must consist of whole answers.
    fn replies(mut sent: &[u8]) -> Vec<(u16, String)> {
        let mut replies = Vec::new();
        while !sent.is_empty() {
            let mut fields = [httparse::EMPTY_HEADER; 8];
            let mut head = httparse::Response::new(&mut fields);
            let Ok(httparse::Status::Complete(end)) = head.parse(sent) else {
                panic!("not an answer: {:?}", String::from_utf8_lossy(sent));
            };
            let length = head.headers.iter().find(|field| field.name == "Content-Length");
            let length = length.map_or("0", |field| std::str::from_utf8(field.value).unwrap());
            let (body, rest) = sent[end..].split_at(length.parse().unwrap());
            replies.push((head.code.unwrap(), String::from_utf8(body.to_vec()).unwrap()));
            sent = rest;
        }
        replies
    }

    #[test]
    fn a_request_is_answered_by_a_page() {
        let (sent, next) = say("GET /a/b?c=d HTTP/1.1\r\nHost: x\r\n\r\n");
        let page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
                    <title>Backend Server 5001</title></head>\n<body>\n\
                    <h1>Backend Server 5001</h1>\n<p>Name: 5001</p>\n<p>Port: 5001</p>\n\
                    <p>Path: /a/b?c=d</p>\n<p>Method: GET</p>\n</body>\n</html>\n";
        let length = page.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        assert_eq!(sent, head + page);
        assert_eq!(next, Next::Continue);
    }

    #[test]
    fn health_is_json_for_get_and_head_only() {
        let ask = |method| say(&format!("{method} /health?x HTTP/1.1\r\nHost: x\r\n\r\n")).0;
        let json = "{\"status\":\"ok\",\"backend\":\"5001\"}\n";
        assert_eq!(replies(ask("GET").as_bytes()), [(200, json.to_owned())]);
        assert!(ask("GET").contains("Content-Type: application/json\r\n"));
        assert_eq!(ask("HEAD") + json, ask("GET"));
        assert!(ask("POST").contains("<h1>"));
    }

    #[test]
    fn an_answer_to_head_has_the_length_but_not_the_page() {
        let (sent, next) = say("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
        let page = say("HEAX / HTTP/1.1\r\nHost: x\r\n\r\n").0;
        let head_of_page = page.split_inclusive("\r\n\r\n").next().unwrap();
        assert_eq!((&*sent, next), (head_of_page, Next::Continue));
        let (refused, _) = say("HEAD / HTTP/1.1\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
        assert!(refused.ends_with("Connection: close\r\n\r\n"), "{refused}");
    }

    #[test]
    fn what_the_peer_sent_is_escaped() {
        let (sent, _) = say("G'&T /<script>\"&' HTTP/1.0\r\n\r\n");
        assert!(sent.contains("<p>Path: /&lt;script&gt;&quot;&amp;&#39;</p>"), "{sent}");
        assert!(sent.contains("<p>Method: G&#39;&amp;T</p>"), "{sent}");
        let mut named = HttpAnswer::new("a\"<b>", None);
        let input: &[u8] = b"GET / HTTP/1.0\n\n";
        let (sent, _) = converse(&mut named.clone(), &[input], LONGEST);
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.contains("<h1>Backend Server a&quot;&lt;b&gt;</h1>"), "{sent}");
        let input: &[u8] = b"GET /health HTTP/1.0\n\n";
        let (sent, _) = converse(&mut named, &[input], LONGEST);
        assert!(sent.ends_with(b"\"backend\":\"a\\\"<b>\"}\n"));
    }

    #[test]
    fn the_longest_target_keeps_to_the_documented_bound() {
        let quotes = "\"".repeat(MAX_HEAD - "GET / HTTP/1.0\n\n".len());
        let (sent, _) = say(&format!("GET /{quotes} HTTP/1.0\n\n"));
        assert_eq!(replies(sent.as_bytes())[0].0, 200);
        assert!(sent.len() > 6 * quotes.len() && sent.len() <= LONGEST);
    }

    #[test]
    fn a_connection_that_stays_says_so_only_to_the_older_version() {
        let (sent, next) = say("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert!(sent.contains("\r\nConnection: keep-alive\r\n"));
        assert_eq!(next, Next::Continue);
        let (sent, next) = say("GET / HTTP/1.0\r\n\r\n");
        assert!(sent.contains("\r\nConnection: close\r\n"));
        assert_eq!(next, Next::Close);
    }

    #[test]
    fn nothing_is_answered_after_the_last_answer() {
        let input = "GET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n\
                     GET /2 HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut answer = backend();
        let (mut sent, next) = converse(&mut answer, &[input.as_bytes()], LONGEST);
        assert_eq!(next, Next::Close);
        assert_eq!(answer.receive(input.as_bytes(), &mut sent), Next::Close);
        assert_eq!(answer.end(&mut sent), Next::Close);
        assert_eq!(replies(&sent).len(), 1);
    }

    #[test]
    fn a_body_that_is_waited_for_is_asked_for_once() {
        let head = "PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        let mut answer = backend();
        let (sent, _) = converse(&mut answer, &[head.as_bytes()], LONGEST);
        assert_eq!(sent, b"HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(converse(&mut answer, &[b"ab"], LONGEST), (vec![], Next::Continue));
        let (sent, _) = converse(&mut answer, &[b"c"], LONGEST);
        assert_eq!(replies(&sent)[0].0, 200);
    }

    #[test]
    fn what_cannot_be_understood_is_refused_once_and_hides_no_request() {
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
        let large = format!("X: {}\r\n", "y".repeat(MAX_HEAD));
        let many = "X: y\r\n".repeat(101);
        for (fields, body, code) in [
            ("", "", 400),
            ("Host: x\r\nContent-Length: +3\r\n", "abc", 400),
            ("Host: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n", "abc", 400),
            ("Host: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
            ("Host: x\r\nTransfer-Encoding: gzip\r\n", "", 501),
            ("Host: x\r\nTransfer-Encoding: chunked\r\n", "3\nabc\r\n0\r\n\r\n", 400),
            ("Host: x\r\nTransfer-Encoding: chunked\r\n", "3\r\nabcd\r\n0\r\n\r\n", 400),
            ("Host: x\r\nBad Name: y\r\n", "", 400),
            (&large, "", 431),
            (&many, "", 431),
        ] {
            let (sent, next) = say(&format!("POST / HTTP/1.1\r\n{fields}\r\n{body}{smuggled}"));
            let codes: Vec<u16> = replies(sent.as_bytes()).iter().map(|reply| reply.0).collect();
            assert_eq!((codes, next), (vec![code], Next::Close), "{fields:?} {body:?}");
            assert!(sent.contains("\r\nConnection: close\r\n"));
        }
        for (line, code) in [
            ("GET / HTTP/3.0\r\n", 505),
            ("hello\n", 400),
            ("CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", 501),
        ] {
            let (sent, next) = say(&format!("{line}{smuggled}"));
            assert_eq!(replies(sent.as_bytes())[0].0, code);
            assert_eq!((replies(sent.as_bytes()).len(), next), (1, Next::Close), "{line:?}");
        }
    }

    #[test]
    fn an_end_within_a_request_gets_no_answer() {
        for begun in ["", "GET / HT", "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"] {
            let mut answer = backend();
            let (mut sent, next) = converse(&mut answer, &[begun.as_bytes()], LONGEST);
            assert_eq!(next, Next::Continue);
            assert_eq!((answer.end(&mut sent), sent), (Next::Close, vec![]));
        }
    }

    const TINY: &[u8] = b"GET / HTTP/1.1\nHost:\n\n";

    #[test]
    fn a_burst_of_tiny_requests_is_answered_in_several_turns() {
        let count = 16 * 1024 / TINY.len();
        let burst = TINY.repeat(count);
        let mut answer = backend();
        let mut first = Vec::new();
        assert_eq!(answer.receive(&burst, &mut first), Next::Again);
        assert!(answer.backlog.0.len() < burst.len());
        let (rest, next) = converse(&mut answer, &[b""], LONGEST);
        assert_eq!(next, Next::Continue);
        assert!(answer.backlog.0.is_empty());
        assert_eq!(replies(&[first, rest].concat()).len(), count);
    }

    #[test]
    fn an_early_end_still_answers_what_was_received() {
        let burst = TINY.repeat(700);
        let (mut answer, mut sent) = (backend(), Vec::new());
        assert_eq!(answer.receive(&burst, &mut sent), Next::Again);
        assert_eq!(answer.end(&mut sent), Next::Close);
        assert_eq!(replies(&sent).len(), 700);
    }

    #[test]
    fn nothing_is_answered_after_the_end() {
        let (mut answer, mut sent) = (backend(), Vec::new());
        assert_eq!(answer.end(&mut sent), Next::Close);
        assert_eq!((answer.receive(TINY, &mut sent), sent), (Next::Close, vec![]));
    }

    const CONVERSATIONS: &[&str] = &[
        "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nPUT /2 HTTP/1.1\r\nHost: x\r\n\
         Content-Length: 2\r\n\r\nhi",
        "\r\nGET /1 HTTP/1.1\r\nHost: x\r\n\r\n\nHEAD /2 HTTP/1.1\nHost: x\n\n\
         GET /health HTTP/1.0\r\n\r\n",
        "PUT /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\
         Expect: 100-continue\r\n\r\nhelloGET /2 HTTP/1.0\r\n\r\nx",
        "POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
         2;a\r\nhi\r\n0\r\nT: 1\r\n\r\nG@T",
        "POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\nhi!\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nBad\r\n\r\n",
        "GET / HTTP/9.9\r\n",
        "\r\r\n",
    ];

    #[test]
    fn a_conversation_is_the_same_wherever_it_is_cut() {
        for input in CONVERSATIONS {
            let expected = say(input);
            let input = input.as_bytes();
            for first in 0..=input.len() {
                for second in first..=input.len() {
                    let pieces = cut_at(input, [first, second]);
                    let (sent, next) = converse(&mut backend(), &pieces, LONGEST);
                    assert_eq!((String::from_utf8(sent).unwrap(), next), expected);
                }
            }
            let (sent, next) = converse(&mut backend(), &cut_at(input, 0..input.len()), LONGEST);
            assert_eq!((String::from_utf8(sent).unwrap(), next), expected);
        }
    }

    /// One request with the given number, its body framed in one of several ways.
    fn request(number: usize, body: &[u8], framing: u8) -> Vec<u8> {
        let start = format!("POST /{number}/ HTTP/1.1\r\nHost: x\r\n");
        let size = body.len();
        let mut bytes = match framing {
            0 => return format!("{start}\r\n").into_bytes(),
            1 => format!("{start}Content-Length: {size}\r\n\r\n").into_bytes(),
            _ => format!("{start}Transfer-Encoding: chunked\r\n\r\n").into_bytes(),
        };
        match (framing, size) {
            (1, _) => bytes.extend_from_slice(body),
            (_, 0) => bytes.extend_from_slice(b"0\r\n\r\n"),
            (_, size) => {
                bytes.extend_from_slice(format!("{size:x};e=1\r\n").as_bytes());
                bytes.extend_from_slice(body);
                bytes.extend_from_slice(b"\r\n0\r\nT: 1\r\n\r\n");
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn every_request_is_answered_in_order(
            requests in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..50), 0_u8..3), 0..300),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let input: Vec<u8> = requests
                .iter()
                .enumerate()
                .flat_map(|(number, (body, framing))| request(number, body, *framing))
                .collect();
            let cuts = cuts.iter().map(|cut| cut.index(input.len() + 1));
            let (sent, next) = converse(&mut backend(), &cut_at(&input, cuts), LONGEST);
            prop_assert_eq!(next, Next::Continue);
            let replies = replies(&sent);
            prop_assert_eq!(replies.len(), requests.len());
            for (number, (code, page)) in replies.iter().enumerate() {
                let path = format!("<p>Path: /{number}/</p>");
                prop_assert!(*code == 200 && page.contains(&path), "{}", page);
            }
        }

        #[test]
        fn damaged_conversations_keep_the_bounds_and_do_not_depend_on_cuts(
            which in 0..CONVERSATIONS.len(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            repeat in 1_usize..100,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut input = CONVERSATIONS[which].repeat(repeat).into_bytes();
            for (at, byte) in damage {
                let at = at.index(input.len());
                input[at] = byte;
            }
            let cuts = cuts.iter().map(|cut| cut.index(input.len() + 1));
            let (mut whole, mut pieces) = (backend(), backend());
            let expected = converse(&mut whole, &[&input], LONGEST);
            prop_assert_eq!(converse(&mut pieces, &cut_at(&input, cuts), LONGEST), expected);
        }

        #[test]
        fn any_bytes_keep_the_bounds(
            input in prop::collection::vec(any::<u8>(), 0..2000),
            size in 1_usize..3000,
        ) {
            let mut answer = backend();
            let (mut sent, mut held) = (0, 0);
            for piece in input.chunks(size) {
                let mut output = Vec::new();
                let _ = answer.receive(piece, &mut output);
                sent += output.len();
                held = held.max(answer.backlog.0.len());
            }
            prop_assert!(sent < OUTPUT_MARK + LONGEST && held <= size);
        }
    }
}
