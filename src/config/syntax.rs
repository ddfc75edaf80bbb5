//! What the TOML parser complains about, in the words of the other problems.
//!
//! The parser goes on after an error and then often stumbles over what it made of the rest, so
//! only its first complaint on each line is kept, and of a list that is not closed only the first
//! line after it. Of what was read from such a line nothing else
//! is reported either: it is not what was written.

use std::collections::HashSet;

use toml::de::Error;

use super::problem::{Complaint, Lines, Problem, Span, quote};

/// The parser's complaints as problems, and the lines they are on.
pub(super) fn problems(text: &str, errors: &[Error]) -> (Vec<Problem>, HashSet<usize>) {
    let lines = Lines::new(text);
    let mut seen = HashSet::new();
    let mut problems = Vec::new();
    let mut in_list = false;
    if let Some(at) = text.find('\0') {
        seen.insert(lines.number(at));
        let complaint = Complaint::new("this is a NUL, which no text has", "remove it");
        problems.push(complaint.at(at..at + 1));
    }
    for error in errors {
        let span = inside(text, error.span().unwrap_or(0..0));
        let is_new_line = seen.insert(lines.number(span.start));
        let is_echo = in_list && error.message().starts_with(IN_LIST);
        in_list |= error.message().starts_with(IN_LIST);
        if is_new_line && !is_echo {
            problems.push(complaint(text, error.message(), &span, &lines).at(span));
        }
    }
    (problems, seen)
}

fn complaint(text: &str, message: &str, span: &Span, lines: &Lines<'_>) -> Complaint {
    if message.starts_with("duplicate key") {
        return Complaint::new(
            format!("{} is written twice", quote(&text[span.clone()])),
            "put everything into one, under one header",
        );
    }
    if let Some(complaint) = unquoted(text, span, lines) {
        return complaint;
    }
    if message.starts_with(IN_LIST) {
        return Complaint::new(
            "this is not TOML: a list does not end before this",
            "close it with `]`, or put a comma between its values",
        );
    }
    let (message, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let cure = if expected.is_empty() {
        "write it as TOML: [table], then key = value on a line of its own".to_owned()
    } else {
        format!("expected {expected}")
    };
    Complaint::new(format!("this is not TOML: {message}"), cure)
}

/// The most common slip by far: a value without its quotes, as in `interval = 2s`.
fn unquoted(text: &str, span: &Span, lines: &Lines<'_>) -> Option<Complaint> {
    let line = lines.line(span.start);
    let (key, value) = line.split_once('=')?;
    let line_start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    if span.start <= line_start + key.len() {
        return None;
    }
    let value = value.split('#').next()?.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '/');
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let key = key.trim();
    let fits = !key.is_empty() && key.chars().all(is_key);
    let is_word = value.chars().any(|c| c.is_ascii_alphabetic() || c == ':');
    if !fits || !is_word || !value.chars().all(is_plain) {
        return None;
    }
    Some(Complaint::new(
        format!("the value {} needs quotes", quote(value)),
        format!("write {key} = {:?}", value.chars().take(60).collect::<String>()),
    ))
}

/// How the parser complains about every line after a list that was not closed.
const IN_LIST: &str = "missing comma between array elements";

/// The same span, within the text and between characters, whatever the parser said.
fn inside(text: &str, span: Span) -> Span {
    let boundary = |at: usize| (0..=at.min(text.len())).rfind(|&at| text.is_char_boundary(at));
    let start = boundary(span.start).unwrap_or(0);
    start..boundary(span.end).unwrap_or(0).max(start)
}
