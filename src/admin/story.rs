//! Explanations and sessions for people, 80 columns wide.
//!
//! As with the table of the status: nothing that came over the network can write to the terminal,
//! and whoever needs the exact values asks for the JSON.

use super::explain::{Attempt, Choice, Decision, Decisions, End, Peek, Waited};
use super::sessions::{Cut, Session};
use super::table::{WIDTH, bytes, clip, duration, line};

/// The newest connections, one in a line.
#[must_use]
pub fn decisions(answer: &Decisions) -> String {
    let mut out = String::new();
    if answer.remembers == 0 {
        return "nothing is remembered by this balancer\n".to_owned();
    }
    line(&mut out, &row(["ID", "AGO", "CLIENT", "POOL/BACKEND", "ENDED"]));
    for decision in &answer.decisions {
        let ended = decision.end.as_ref().map_or("lives", |end| &end.reason);
        let tried = decision.attempts.iter().rev().find(|attempt| !failed(attempt));
        let backend = tried.map_or("-", |attempt| &attempt.backend);
        let place = format!("{}/{backend}", decision.pool);
        let (id, ago) = (decision.id.to_string(), duration(decision.age_ms / 1000));
        line(&mut out, &row([&id, &ago, &decision.client, &place, ended]));
    }
    out
}

/// Everything about one connection.
#[must_use]
pub fn decision(decision: &Decision) -> String {
    let mut out = String::new();
    let Decision { id, client, listener, pool, age_ms, .. } = decision;
    let named = if decision.client_from_header { " (named by its PROXY header)" } else { "" };
    let ago = duration(age_ms / 1000);
    let first = format!(
        "connection {id} from {client}{named}, {ago} ago, over listener {listener} to pool {pool}"
    );
    wrap(&mut out, &first, 2);
    for (number, choice) in decision.choices.iter().enumerate() {
        let made = decision.choices_made;
        let which = match (number, made) {
            (_, ..=1) => "choice".to_owned(),
            (0, _) => format!("the first of {made} choices"),
            (_, _) => format!("the latest choice, after {}", millis(choice.after_ms)),
        };
        out.push('\n');
        self::choice(&mut out, &which, choice);
    }
    attempts(&mut out, decision);
    if let Some(waited) = &decision.waited {
        out.push('\n');
        wrap(&mut out, &wait(waited), 2);
    }
    out.push('\n');
    match &decision.end {
        Some(end) => {
            wrap(&mut out, &ended(end), 2);
            let mut waits: Vec<_> = end.waited_ms.iter().filter(|(_, time)| **time > 0).collect();
            waits.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
            let told = waits.iter().map(|(what, time)| format!("{what} {}", millis(**time)));
            if !waits.is_empty() {
                wrap(&mut out, &format!("waited for {}", told.collect::<Vec<_>>().join(", ")), 2);
            }
        }
        None => line(&mut out, "it lives; `evenkeel sessions` shows how it fares"),
    }
    out
}

/// Whom the next client of a pool would be given.
#[must_use]
pub fn peek(peek: &Peek) -> String {
    let mut out = String::new();
    let client = peek.client.as_deref().map_or("a new client", |client| client);
    let which = format!("what pool {} would give {client} now", peek.pool);
    choice(&mut out, &which, &peek.choice);
    if peek.waiting > 0 {
        let stand = if peek.waiting == 1 { "client stands" } else { "clients stand" };
        let text = format!("{} {stand} in line already; a new one goes behind", peek.waiting);
        wrap(&mut out, &text, 2);
    }
    if !peek.note.is_empty() {
        out.push('\n');
        wrap(&mut out, &peek.note, 0);
    }
    out
}

/// The connections that live, one in a line.
#[must_use]
pub fn sessions(sessions: &[Session], next: Option<u64>) -> String {
    let mut out = String::new();
    let row = |cells: [&str; 7]| {
        let [id, age, client, place, waits, received, sent] = cells;
        let (client, place) = (clip(client, 21), clip(place, 19));
        format!("{id:>6} {age:>6} {client:21} {place:19} {waits:12} {received:>5} {sent:>5}")
    };
    line(&mut out, &row(["ID", "AGE", "CLIENT", "POOL/BACKEND", "WAITS FOR", "FROM", "TO"]));
    for session in sessions {
        let place = format!("{}/{}", session.pool, session.backend.as_deref().unwrap_or("-"));
        let cells = [
            session.id.to_string(),
            duration(session.age_ms / 1000).replace(' ', ""),
            session.client.clone(),
            place,
            clip(&session.waits_for, 12),
            short(session.received),
            short(session.sent),
        ];
        line(&mut out, &row(cells.each_ref().map(String::as_str)));
    }
    if let Some(next) = next {
        line(&mut out, &format!("and more; go on with --after {next}, or raise --limit"));
    }
    out
}

/// A connection that was cut.
#[must_use]
pub fn cut(cut: &Cut) -> String {
    let Session { id, client, pool, backend, age_ms, received, sent, .. } = &cut.session;
    let mut out = String::new();
    let backend = backend.as_deref().unwrap_or("-");
    let text = format!(
        "connection {id} from {client} to {pool}/{backend} was {}, {} old; {} received, {} sent",
        cut.reason,
        duration(age_ms / 1000),
        bytes(*received),
        bytes(*sent)
    );
    wrap(&mut out, &text, 2);
    out
}

fn choice(out: &mut String, which: &str, choice: &Choice) {
    let whom = match &choice.backend {
        Some(backend) => backend.as_str(),
        None => "none",
    };
    wrap(out, &format!("{which}, by {}: {whom}", choice.algorithm), 2);
    wrap(out, &format!("  why          {}", choice.why), 15);
    let names = choice.candidates.iter().map(|candidate| candidate.backend.chars().count());
    let width = names.max().unwrap_or_default().min(WIDEST_NAME);
    for candidate in &choice.candidates {
        let name = clip(&candidate.backend, width);
        let text = format!("  {:11}  {name:width$}  {}", candidate.verdict, candidate.why);
        wrap(out, &text, 11 + width + 6);
    }
    if choice.more > 0 {
        let Choice { more, backends, eligible, .. } = choice;
        let text = format!(
            "  and {more} more that are not noted; {eligible} of {backends} could have been chosen"
        );
        wrap(out, &text, 4);
    }
}

fn attempts(out: &mut String, decision: &Decision) {
    if decision.attempts.is_empty() {
        return;
    }
    out.push_str("\nattempts to connect\n");
    let left_out = decision.attempts_made.saturating_sub(decision.attempts.len() as u64);
    for (number, attempt) in decision.attempts.iter().enumerate() {
        if left_out > 0 && number + 1 == decision.attempts.len() {
            line(out, &format!("  and {left_out} more that are not noted"));
        }
        let Attempt { backend, address, after_ms, took_ms, outcome, error } = attempt;
        let at = match address {
            Some(address) if address != backend => format!(" at {address}"),
            Some(_) | None => String::new(),
        };
        let error = error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        let took = took_ms.map_or(String::new(), |took| format!(" after {took:.1} ms"));
        let text = format!("  at {}  {backend}{at}  {outcome}{took}{error}", millis(*after_ms));
        wrap(out, &text, 4);
    }
}

fn wait(waited: &Waited) -> String {
    let Waited { times, total_ms, waited_for, waiting } = waited;
    let times = if *times == 1 { "once".to_owned() } else { format!("{times} times") };
    let still = if *waiting { "; it still waits" } else { "" };
    format!("stood in line {times}, for {} in all, for {waited_for}{still}", millis(*total_ms))
}

fn ended(end: &End) -> String {
    let End { reason, by, duration_ms, received, sent, .. } = end;
    format!(
        "ended after {} by the {by}: {reason}; {} received, {} sent",
        millis(*duration_ms),
        bytes(*received),
        bytes(*sent)
    )
    .replace("by the evenkeel", "by evenkeel")
}

fn row(cells: [&str; 5]) -> String {
    let [id, ago, client, place, ended] = cells;
    let (client, place) = (clip(client, 21), clip(place, 24));
    format!("{id:>8} {ago:>7}  {client:21}  {place:24}  {ended}")
}

/// Whether an attempt led nowhere.
fn failed(attempt: &Attempt) -> bool {
    matches!(attempt.outcome.as_str(), "failed" | "reset at once")
}

fn millis(millis: u64) -> String {
    match millis {
        ..1000 => format!("{millis} ms"),
        1000..120_000 => format!("{}.{} s", millis / 1000, millis / 100 % 10),
        _ => duration(millis / 1000),
    }
}

/// Bytes in five characters, rounded down.
fn short(number: u64) -> String {
    let text = bytes(number).replace("iB", "").replace(' ', "");
    match text.split_once('.') {
        Some((whole, _)) if text.chars().count() > 5 => {
            format!("{whole}{}", text.chars().next_back().unwrap_or_default())
        }
        Some(_) | None => text,
    }
}

/// A text in as many lines as it takes; all but the first begin further right.
fn wrap(out: &mut String, text: &str, indent: usize) {
    let mut current = String::new();
    for word in clip(text, usize::MAX).split_inclusive(' ') {
        let fits = current.chars().count() + word.trim_end().chars().count() <= WIDTH;
        if !fits && !current.trim().is_empty() {
            line(out, current.trim_end());
            current = " ".repeat(indent);
        }
        current.push_str(word);
    }
    line(out, current.trim_end());
}

const WIDEST_NAME: usize = 30;

#[cfg(test)]
mod tests {
    use super::super::explain::Candidate;
    use super::*;

    fn sample() -> Decision {
        let candidate = |backend: &str, verdict: &str, why: &str| Candidate {
            backend: backend.to_owned(),
            verdict: verdict.to_owned(),
            why: why.to_owned(),
            ..Candidate::default()
        };
        Decision {
            id: 17,
            client: "192.0.2.7:40000".to_owned(),
            listener: "web".to_owned(),
            pool: "app".to_owned(),
            age_ms: 130_000,
            choices_made: 1,
            choices: vec![Choice {
                algorithm: "least-connections".to_owned(),
                outcome: "chosen".to_owned(),
                backend: Some("10.0.0.2:80".to_owned()),
                why: "the least load".to_owned(),
                backends: 10,
                eligible: 8,
                candidates: vec![
                    candidate("10.0.0.1:80", "passed over", "down for 3 min: its checks failed"),
                    candidate("10.0.0.2:80", "chosen", "load 1.00 (0 connections, weight 1)"),
                ],
                more: 8,
                ..Choice::default()
            }],
            attempts_made: 1,
            attempts: vec![Attempt {
                backend: "10.0.0.2:80".to_owned(),
                address: Some("10.0.0.2:80".to_owned()),
                took_ms: Some(0.42),
                outcome: "connected".to_owned(),
                ..Attempt::default()
            }],
            end: Some(End {
                reason: "client closed".to_owned(),
                by: "client".to_owned(),
                duration_ms: 1500,
                waited_ms: [("client_send", 200), ("backend_send", 1300), ("connect", 0)]
                    .map(|(what, time)| (what.to_owned(), time))
                    .into(),
                received: 517,
                sent: 2048,
            }),
            ..Decision::default()
        }
    }

    #[test]
    fn one_connection_is_told_from_its_beginning_to_its_end() {
        let expected = "\
connection 17 from 192.0.2.7:40000, 2 min ago, over listener web to pool app

choice, by least-connections: 10.0.0.2:80
  why          the least load
  passed over  10.0.0.1:80  down for 3 min: its checks failed
  chosen       10.0.0.2:80  load 1.00 (0 connections, weight 1)
  and 8 more that are not noted; 8 of 10 could have been chosen

attempts to connect
  at 0 ms  10.0.0.2:80  connected after 0.4 ms

ended after 1.5 s by the client: client closed; 517 B received, 2.0 KiB sent
waited for backend_send 1.3 s, client_send 200 ms
";
        assert_eq!(decision(&sample()), expected);
    }

    #[test]
    fn many_are_told_in_a_line_each() {
        let mut lives = sample();
        (lives.id, lives.end, lives.age_ms) = (18, None, 0);
        lives.attempts[0].outcome = "failed".to_owned();
        let answer = Decisions { remembers: 4096, decisions: vec![lives, sample()] };
        let expected = "      \
      ID     AGO  CLIENT                 POOL/BACKEND              ENDED
      18     0 s  192.0.2.7:40000        app/-                     lives
      17   2 min  192.0.2.7:40000        app/10.0.0.2:80           client closed
";
        assert_eq!(decisions(&answer), expected);
    }

    #[test]
    fn nothing_is_wider_than_the_screen_or_moves_the_cursor() {
        let long = format!("\x1b[2J{}", "é".repeat(300));
        let wordy = "several words \x07 ".repeat(40);
        let mut tale = sample();
        (tale.client, tale.pool, tale.age_ms) = (long.clone(), long.clone(), u64::MAX);
        tale.waited = Some(Waited {
            times: u64::MAX,
            total_ms: u64::MAX,
            waited_for: wordy.clone(),
            waiting: true,
        });
        let choice = &mut tale.choices[0];
        (choice.why, choice.backend) = (wordy.clone(), Some(long.clone()));
        choice.candidates[0].backend.clone_from(&long);
        choice.candidates[0].why.clone_from(&wordy);
        (tale.attempts[0].error, tale.attempts[0].address) =
            (Some(wordy.clone()), Some(long.clone()));
        let look = Peek { waiting: 5, note: wordy, choice: choice.clone(), ..Peek::default() };
        let session = Session {
            id: u64::MAX,
            client: long.clone(),
            backend: Some(long),
            received: u64::MAX,
            sent: u64::MAX,
            age_ms: u64::MAX,
            ..Session::default()
        };
        let answer = Decisions { remembers: 1, decisions: vec![tale.clone()] };
        let shown = [
            decision(&tale),
            decisions(&answer),
            peek(&look),
            sessions(std::slice::from_ref(&session), Some(u64::MAX)),
            cut(&Cut { session, ..Cut::default() }),
        ];
        for line in shown.iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn a_line_that_just_fits_is_left_whole() {
        let mut out = String::new();
        let (first, second) = ("x".repeat(WIDTH - 5), "y".repeat(4));
        wrap(&mut out, &format!("{first} {second} z"), 2);
        assert_eq!(out, format!("{first} {second}\n  z\n"));
    }

    #[test]
    fn sessions_have_a_line_each() {
        let session = Session {
            id: 4711,
            client: "192.0.2.7:40000".to_owned(),
            pool: "app".to_owned(),
            backend: Some("10.0.0.2:80".to_owned()),
            waits_for: "backend_send".to_owned(),
            age_ms: 61_000,
            received: 500 * 1024 * 1024 + 700_000,
            sent: 10,
            ..Session::default()
        };
        let row =
            "  4711    61s 192.0.2.7:40000       app/10.0.0.2:80     backend_send  500M   10B";
        let shown = sessions(&[session], None);
        assert_eq!(shown.lines().nth(1), Some(row), "{shown}");
    }
}
