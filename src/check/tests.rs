//! Every kind of conversation against scripted servers: what passes, what fails and why; that no
//! cut of the bytes changes a verdict; that garbage always leads to one.

use std::ops::RangeInclusive;

use proptest::prelude::*;

use super::*;

fn http(expect: RangeInclusive<u16>, body: Option<&str>) -> Question {
    Question::Http(HttpQuestion {
        path: "/health".into(),
        host: "db:80".into(),
        expect: vec![expect],
        body: body.map(str::to_owned),
    })
}

fn exchange(send: &str, expect: &str) -> Question {
    Question::Exchange { send: send.into(), expect: expect.into() }
}

fn mysql() -> Question {
    Question::Mysql { user: "me".into() }
}

fn postgres(user: Option<&str>) -> Question {
    Question::Postgres { user: user.map(str::to_owned) }
}

fn questions() -> Vec<Question> {
    vec![
        Question::Connect,
        http(200..=299, None),
        http(200..=299, Some("fine")),
        exchange("", "hello"),
        Question::Redis,
        mysql(),
        postgres(None),
        postgres(Some("me")),
        Question::Smtp,
        Question::Agent,
    ]
}

/// What was said, and the verdict once there is one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Talk {
    said: Vec<u8>,
    verdict: Option<Result<Found, String>>,
}

impl Talk {
    fn take(&mut self, heard: Heard) {
        match heard {
            Ok(Next::Listen) => {}
            Ok(Next::Say(bytes)) => self.said.extend(bytes),
            Ok(Next::Passed { found, farewell }) => {
                self.said.extend(farewell);
                self.verdict = Some(Ok(found));
            }
            Err(reason) => self.verdict = Some(Err(reason)),
        }
    }
}

/// The whole conversation with a server that says `pieces`.
fn talk(question: &Question, pieces: &[&[u8]]) -> (Box<dyn Conversation>, Talk) {
    let (mut conversation, mut talk) = (question.open(), Talk::default());
    talk.take(conversation.begin());
    for piece in pieces {
        let mut input = *piece;
        while !input.is_empty() && talk.verdict.is_none() {
            let before = (input.len(), talk.said.len());
            talk.take(conversation.hear(&mut input));
            let is_further = input.len() < before.0 || talk.verdict.is_some();
            assert!(is_further, "no progress: {conversation:?}");
        }
    }
    (conversation, talk)
}

/// The verdict about a server that says this and closes.
fn verdict(question: &Question, answer: &[u8]) -> Result<Found, String> {
    let (mut conversation, talk) = talk(question, &[answer]);
    talk.verdict.unwrap_or_else(|| conversation.end())
}

fn passes(question: &Question, answer: &[u8], found: &str) {
    assert_eq!(verdict(question, answer), Ok(found.into()), "{}", answer.escape_ascii());
}

fn fails(question: &Question, answer: &[u8], reason: &str) {
    assert_eq!(verdict(question, answer), Err(reason.into()), "{}", answer.escape_ascii());
}

#[test]
fn a_connection_is_enough_for_connect() {
    assert_eq!(talk(&Question::Connect, &[]).1.verdict, Some(Ok("connected".into())));
}

#[test]
fn an_http_check_asks_as_a_client_does_and_judges_the_status() {
    let question = http(200..=299, None);
    let request = "GET /health HTTP/1.1\r\nHost: db:80\r\nUser-Agent: evenkeel\r\n\
                   Accept: */*\r\nConnection: close\r\n\r\n";
    assert_eq!(String::from_utf8(talk(&question, &[]).1.said).unwrap(), request);
    passes(&question, b"HTTP/1.1 204 No Content\r\n\r\n", "status 204");
    passes(&question, b"HTTP/1.0 299\n\n", "status 299");
    passes(
        &question,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        "status 200",
    );
    let unavailable = b"HTTP/1.1 503 Service Unavailable\r\n\r\n";
    fails(&question, unavailable, "status 503, expected 200-299");
    let several = Question::Http(HttpQuestion {
        path: "/".into(),
        host: String::new(),
        expect: vec![200..=200, 301..=302],
        body: None,
    });
    fails(&several, unavailable, "status 503, expected 200, 301-302");
    passes(&several, b"HTTP/1.1 302 Found\r\n\r\n", "status 302");
}

#[test]
fn what_is_no_whole_http_head_fails_with_that_reason() {
    let question = http(200..=299, None);
    fails(&question, b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP/1");
    fails(&question, b"", "closed without a response");
    fails(&question, b"HTTP/1.1 200 OK\r\nDate: ", "the response head was cut short");
    fails(&question, b"HTTP/1.1 100 Continue\r\n\r\n", "the response head was cut short");
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(20_000));
    fails(&question, long.as_bytes(), "the response head is longer than 16 KiB");
    let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(9);
    fails(&question, interim.as_bytes(), "nothing but interim responses");
    let malformed = verdict(&question, b"HTTP/1.1 abc\r\n\r\n").unwrap_err();
    assert!(malformed.starts_with("the response head is malformed: "), "{malformed}");
    let (conversation, _) = talk(&question, &[b"HTTP/1.1 200 OK\r\n"]);
    assert_eq!(conversation.awaited(), "the rest of the response head");
}

#[test]
fn an_expected_text_is_found_in_every_kind_of_body() {
    let question = http(200..=299, Some("all fine"));
    let found = "status 200, the expected text";
    let head = "HTTP/1.1 200 OK\r\n";
    let good = [
        "Content-Length: 12\r\n\r\nis all fine.",
        "\r\nis all fine",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nis all\r\n5\r\n fine\r\n0\r\n\r\n",
    ];
    for rest in good {
        passes(&question, format!("{head}{rest}").as_bytes(), found);
    }
    for rest in [
        "Content-Length: 11\r\n\r\nis all fine.all fine",
        "Content-Length: 0\r\n\r\nall fine",
        "\r\nall, fine",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nall,al\r\n0\r\n\r\nall fine",
    ] {
        let expected = if rest.starts_with("Content-Length: 11") {
            Ok(found.into())
        } else {
            Err("no \"all fine\" in the body".into())
        };
        assert_eq!(verdict(&question, format!("{head}{rest}").as_bytes()), expected, "{rest}");
    }
    let say = |rest: &str| verdict(&question, format!("{head}{rest}").as_bytes()).unwrap_err();
    assert_eq!(say("Content-Length: 12\r\n\r\nis all"), "the body was cut short");
    assert_eq!(say("Transfer-Encoding: chunked\r\n\r\n6\r\nis"), "the body was cut short");
    assert!(say("Transfer-Encoding: chunked\r\n\r\nxyz").contains("chunked body is malformed"));
    assert!(say("Content-Length: x\r\n\r\n").starts_with("the response is unclear: "));
}

#[test]
fn only_the_first_16_kib_of_a_body_are_searched() {
    let question = http(200..=299, Some("fine"));
    let with = |before: usize| {
        let body = format!("{}fine, and much more", "x".repeat(before));
        verdict(&question, format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes())
    };
    assert_eq!(with(16 * 1024 - 4), Ok("status 200, the expected text".into()));
    assert_eq!(with(16 * 1024 - 3), Err("no \"fine\" in the first 16 KiB of the body".into()));
}

#[test]
fn an_exchange_sends_and_searches() {
    let both = exchange("hi\n", "lo wo");
    assert_eq!(talk(&both, &[]).1.said, b"hi\n");
    passes(&both, b"hello world", "answered as expected");
    fails(&both, b"go away\n", "the answer was \"go away\", not the expected one");
    fails(&both, b"", "closed without an answer");
    fails(&both, &[b'x'; 20_000], "the expected answer is not in the first 16 KiB");
    let (_, only_sent) = talk(&exchange("hi\n", ""), &[]);
    assert_eq!(only_sent.said, b"hi\n");
    assert_eq!(only_sent.verdict, Some(Ok("connected and sent".into())));
}

#[test]
fn redis_is_alive_when_it_would_serve_somebody() {
    let question = Question::Redis;
    passes(&question, b"+PONG\r\n", "PONG");
    passes(&question, b"-NOAUTH Authentication required.\r\n", "alive, wants a login,");
    passes(&question, b"-NOPERM this user has no permissions\r\n", "alive, wants a login,");
    let loading = b"-LOADING Redis is loading the dataset in memory\r\n";
    let says = "the server says \"LOADING Redis is loading the dataset in memory\"";
    fails(&question, loading, says);
    fails(&question, b"-DENIED protected\r\n", "the server says \"DENIED protected\"");
    let wrong = "\"HTTP/1.1 400 Bad Request\" is no answer to a Redis PING";
    fails(&question, b"HTTP/1.1 400 Bad Request\r\n\r\n", wrong);
    fails(&question, b"+PO", "closed while waiting for PONG");
    fails(&question, b"+PONGO\r\n", "\"+PONGO\" is no answer to a Redis PING");
}

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![u8::try_from(payload.len()).unwrap(), 0, 0, number];
    packet.extend_from_slice(payload);
    packet
}

#[test]
fn mysql_logs_in_and_quits() {
    let greeting = packet(0, b"\x0a8.0.36\0\x01\0\0\0challeng\0\xff\xff\x21\x02\0\xff\xdf\x15");
    let question = mysql();
    let said = |answers: &[&[u8]]| {
        let whole = [&[greeting.as_slice()], answers].concat().concat();
        let (_, talk) = talk(&question, &[&whole]);
        (talk.said, talk.verdict)
    };
    let (login, verdict) = said(&[]);
    assert!(login.ends_with(b"me\0\0mysql_native_password\0"));
    assert_eq!(verdict, None);
    let ok = packet(2, &[0, 0, 0, 2, 0, 0, 0]);
    let quit = [&login[..], &[1, 0, 0, 0, 1]].concat();
    assert_eq!(said(&[&ok]), (quit, Some(Ok("logged in".into()))));
    let switch = packet(2, b"\xfecaching_sha2_password\0challengechallenge1\0");
    let switched = [&login[..], &[0, 0, 0, 3], &[1, 0, 0, 0, 1]].concat();
    let ok = packet(4, &[0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(said(&[&switch, &ok]), (switched, Some(Ok("logged in".into()))));
    assert!(said(&[&switch, &switch]).1.unwrap().is_err(), "not for ever");
    let denied = packet(2, b"\xff\x15\x04#28000Access denied for user 'me'@'localhost'");
    assert_eq!(said(&[&denied]).1, Some(Ok("alive, me may not log in,".into())));
    let stopping = packet(2, b"\xff\x1d\x04#08S01Server shutdown in progress");
    let says = "the server says \"Server shutdown in progress\"";
    assert_eq!(said(&[&stopping]).1, Some(Err(says.into())));
    let full = packet(0, b"\xff\x10\x04Too many connections");
    fails(&question, &full, "the server says \"Too many connections\"");
    let denied = packet(0, b"\xff\x15\x04#28000Access denied");
    fails(&question, &denied, "the server says \"Access denied\"");
    fails(&question, b"SSH-2.0-OpenSSH_9.2\r\n", "\"SSH-\" is not what a MySQL server says");
    fails(&question, b"", "closed while waiting for the greeting");
}

#[test]
fn postgres_is_asked_without_and_with_a_login() {
    let shallow = postgres(None);
    assert_eq!(talk(&shallow, &[]).1.said, [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30]);
    passes(&shallow, b"N", "answered");
    passes(&shallow, b"G", "answered");
    fails(&shallow, b"220 mail", "\"220 m\" is not what a PostgreSQL server says");
    fails(&shallow, b"", "closed while waiting for an answer");

    let deep = postgres(Some("me"));
    let login = b"\0\0\0\x23\0\x03\0\0user\0me\0database\0postgres\0\0";
    assert_eq!(talk(&deep, &[]).1.said, login);
    passes(&deep, b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0", "asked for a password");
    let (_, trusted) = talk(&deep, &[b"R\0\0\0\x08\0\0\0\0"]);
    assert_eq!(trusted.verdict, Some(Ok("logged in".into())));
    assert!(trusted.said.ends_with(b"X\0\0\0\x04"));
    let error = |state: &str, text: &str| {
        let fields = format!("SFATAL\0VFATAL\0C{state}\0M{text}\0Fx.c\0\0");
        let length = u32::try_from(fields.len() + 4).unwrap();
        [b"E", &length.to_be_bytes()[..], fields.as_bytes()].concat()
    };
    let starting = error("57P03", "the database system is starting up");
    fails(&deep, &starting, "the server says \"the database system is starting up\"");
    let denied = error("28000", "role \"me\" does not exist");
    passes(&deep, &denied, "alive, says \"role \\\"me\\\" does not exist\",");
    fails(&shallow, &error("53300", "sorry"), "the server says \"sorry\"");
    let old = error("0A000", "unsupported frontend protocol 1234.5680: server supports 2.0 to 3.0");
    assert!(verdict(&shallow, &old).is_ok(), "before version 12");
    fails(&deep, b"N", "closed while waiting for the answer to the login");
    let huge = b"R\x7f\xff\xff\xff\0\0\0\0";
    fails(&deep, huge, "\"R\\u{7f}���\" is not what a PostgreSQL server says");
}

#[test]
fn smtp_is_greeted_and_left_in_order() {
    let question = Question::Smtp;
    let (_, good) = talk(&question, &[b"220-a\r\n220 b\r\n", b"250-c\r\n250 d\r\n"]);
    assert_eq!(good.said, b"EHLO localhost\r\nQUIT\r\n");
    assert_eq!(good.verdict, Some(Ok("ready".into())));
    let (_, old) = talk(&question, &[b"220 a\r\n", b"502 what\r\n", b"250 b\r\n"]);
    assert_eq!(old.said, b"EHLO localhost\r\nHELO localhost\r\nQUIT\r\n");
    assert_eq!(old.verdict, Some(Ok("ready".into())));
    fails(&question, b"554 go away\r\n", "the server greets with \"554 go away\"");
    let shut = b"220 a\r\n421 shutting down\r\n";
    fails(&question, shut, "the server answers EHLO with \"421 shutting down\"");
    fails(&question, b"+OK POP3\r\n", "\"+OK POP3\" is no SMTP answer");
    fails(&question, b"220 a\r\n", "closed while waiting for the answer to EHLO");
    let endless = b"220-a\r\n".repeat(101);
    fails(&question, &endless, "the server's answer has no end");
}

#[test]
fn an_agent_says_one_line_with_or_without_its_end() {
    let question = Question::Agent;
    assert_eq!(talk(&question, &[b"75% up\n"]).1.verdict, Some(Ok("75% up".into())));
    passes(&question, b"drain", "drain");
    fails(&question, b"", "the agent closed without a word");
    passes(&question, &[b'x'; MAX_LINE], &"x".repeat(MAX_LINE));
    fails(&question, &[b'x'; MAX_LINE + 1], "the agent's line is longer than 512 bytes");
}

/// Beginnings that lead deep into a conversation, for garbage to follow.
fn beginnings() -> Vec<&'static [u8]> {
    vec![
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfin",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nfin",
        b"HTTP/1.1 100 x\r\n\r\n",
        b"+PON",
        b"-NOAUTH",
        b"\x1d\0\0\0\x0a8.0.36\0\x01\0\0\0challeng\0\xff\xff\x21\x02\0\xff\xdf\x15",
        b"\x1d\0\0\0\x0a8.0.36\0\x01\0\0\0challeng\0\xff\xff\x21\x02\0\xff\xdf\x15\x09\0\0\x02\xff",
        b"R\0\0\0\x17",
        b"E\0\0\0\x30SFATAL\0C28",
        b"220 a\r\n250-b\r\n",
        b"hell",
    ]
}

proptest! {
    #[test]
    fn no_cut_changes_what_is_said_or_found(
        kind in any::<prop::sample::Index>(),
        beginning in any::<prop::sample::Index>(),
        tail in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r'), Just(0u8), b'0'..=b'9'], 0..60,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let question = kind.get(&questions()).clone();
        let input = [*beginning.get(&beginnings()), &tail[..]].concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.extend([0, input.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &input[cut[0]..cut[1]]).collect();
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        let finish = |pieces: &[&[u8]]| {
            let (mut conversation, mut talk) = talk(&question, pieces);
            let awaited = conversation.awaited();
            talk.verdict.get_or_insert_with(|| conversation.end());
            (talk, awaited)
        };
        let whole = finish(&[&input]);
        prop_assert_eq!(finish(&pieces), whole.clone());
        prop_assert_eq!(finish(&bytes), whole);
    }

    #[test]
    fn endless_input_leads_to_a_verdict(
        kind in any::<prop::sample::Index>(),
        beginning in any::<prop::sample::Index>(),
        unit in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        let question = kind.get(&questions()).clone();
        let beginning = *beginning.get(&beginnings());
        let input = [beginning, &unit.repeat(ENOUGH / unit.len() + 1)[..]].concat();
        let (conversation, talk) = talk(&question, &[&input]);
        prop_assert!(talk.verdict.is_some(), "{:?}", conversation);
        prop_assert!(talk.said.len() < 1024, "a few words at most");
        if let Some(Err(reason)) = talk.verdict {
            prop_assert!(reason.len() < 400 && !reason.contains(['\n', '\0']), "{}", reason);
        }
    }
}

#[test]
fn a_quotation_is_short_whatever_is_quoted() {
    for byte in 0..=u8::MAX {
        let quoted = quote(&[byte; MOST_QUOTED * 2]);
        assert!(quoted.len() < MOST_QUOTED + 16, "{quoted}");
        assert!(quoted.ends_with("...\""), "{quoted}");
    }
    assert_eq!(quote(b" no\r\n"), "\"no\"");
    assert_eq!(quote(b"a\x01\n"), "\"a\\u{1}\"");
}

/// More than any conversation may take.
const ENOUGH: usize = 256 * 1024;
