//! What is wrong, where, and what to do about it; and how that is shown.
//!
//! A [`Complaint`] is a message and a cure without a place; a [`Problem`] is one with a place in
//! a text. Rendering never fails: whatever the span and the text are, a line and at least one
//! caret come out. Long lines are windowed, control characters never reach the terminal.
//! Columns count characters, not display cells: after wide characters a caret sits too far left.

use std::fmt;
use std::ops::Range;

/// Byte positions in the text that was read, half open.
pub type Span = Range<usize>;

/// A message and its cure, before it is known where they belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong, naming the culprit; no final full stop.
    pub message: String,
    /// What to write instead; no final full stop.
    pub cure: String,
}

impl Complaint {
    /// Joins a message and its cure.
    pub fn new(message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { message: message.into(), cure: cure.into() }
    }

    /// Puts the complaint in its place, as an error.
    #[must_use]
    pub fn at(self, span: Span) -> Problem {
        Problem {
            severity: Severity::Error,
            span,
            first: None,
            message: self.message,
            cure: self.cure,
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.cure)
    }
}

impl std::error::Error for Complaint {}

/// Whether a configuration with this problem can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but probably somebody meant something else.
    Warning,
}

/// One thing wrong at one place of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// Where, in bytes.
    pub span: Span,
    /// Where its counterpart stands, for things that may stand only once.
    pub first: Option<Span>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub cure: String,
}

impl Problem {
    /// Makes the error a warning.
    #[must_use]
    pub fn as_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// Names the place of the counterpart, whose line the message will give.
    #[must_use]
    pub fn after(self, first: Span) -> Self {
        Self { first: Some(first), ..self }
    }
}

/// Shows problems of a file, each with place, line, caret and cure, blank lines between them.
///
/// At most 100 are shown in full; the rest are counted.
#[must_use]
pub fn render(file_name: &str, text: &str, problems: &[Problem]) -> String {
    let lines = Lines::new(text);
    render_each(problems, |problem, out| {
        let place = lines.place(problem.span.start);
        let warning = warning(problem);
        out.push_str(&format!(
            "{file_name}:{}:{}: {warning}{}",
            place.number, place.column, problem.message
        ));
        if let Some(first) = &problem.first {
            let number = lines.place(first.start).number;
            out.push_str(&format!(", first on line {number}"));
        }
        show_line(&place, problem, &place.number.to_string(), out);
    })
}

/// The same in one line each, without the text they are about.
pub(super) fn one_lines(file_name: &str, text: &str, problems: &[Problem]) -> Vec<String> {
    let lines = Lines::new(text);
    let one = |problem: &Problem| {
        let Place { number, column, .. } = lines.place(problem.span.start);
        let Problem { message, cure, .. } = problem;
        format!("{file_name}:{number}:{column}: {}{message}; {cure}", warning(problem))
    };
    problems.iter().take(SHOWN).map(one).collect()
}

/// Shows problems of a command line, which is one line and needs no numbers.
#[must_use]
pub(super) fn render_arguments(text: &str, problems: &[Problem]) -> String {
    let lines = Lines::new(text);
    render_each(problems, |problem, out| {
        let warning = warning(problem);
        out.push_str(&format!("command line: {warning}{}", problem.message));
        show_line(&lines.place(problem.span.start), problem, "", out);
    })
}

/// The text between backticks, shortened and without control characters, for a message.
pub(super) fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTED).map(visible).collect();
    if text.chars().nth(QUOTED).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Where lines begin; the only thing that turns byte positions into lines and columns.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

/// One position, and the line it is on without its line ending.
struct Place<'a> {
    number: usize,
    column: usize,
    line: &'a str,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // A byte order mark is no part of the first line: nobody sees it, no column counts it.
        let first = if text.starts_with('\u{feff}') { 3 } else { 0 };
        let following = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(first).chain(following).collect() }
    }

    /// The line number, from 1, of a byte position; positions past the end are on the last line.
    pub(super) fn number(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at).max(1)
    }

    /// The line of a byte position, without its ending.
    pub(super) fn line(&self, at: usize) -> &'a str {
        let rest = &self.text[self.starts[self.number(at) - 1]..];
        let line = rest.split('\n').next().unwrap_or(rest);
        line.strip_suffix('\r').unwrap_or(line)
    }

    fn place(&self, at: usize) -> Place<'a> {
        let number = self.number(at);
        let start = self.starts[number - 1];
        let line = self.line(at);
        let within = at.saturating_sub(start);
        let column = 1 + line.char_indices().filter(|&(at, _)| at < within).count();
        Place { number, column, line }
    }
}

fn render_each(problems: &[Problem], mut show: impl FnMut(&Problem, &mut String)) -> String {
    let mut out = String::new();
    for (index, problem) in problems.iter().take(SHOWN).enumerate() {
        if index > 0 {
            out.push('\n');
        }
        show(problem, &mut out);
    }
    if let Some(hidden) = problems.len().checked_sub(SHOWN + 1) {
        out.push_str(&format!("\n… and {} more\n", hidden + 1));
    }
    out
}

fn warning(problem: &Problem) -> &'static str {
    match problem.severity {
        Severity::Error => "",
        Severity::Warning => "warning: ",
    }
}

/// Adds the line, the carets under the part that is on it, and the cure.
fn show_line(place: &Place<'_>, problem: &Problem, label: &str, out: &mut String) {
    let from = place.column - 1;
    let covered = problem.span.end.saturating_sub(problem.span.start);
    let marked = place
        .line
        .char_indices()
        .skip(from)
        .scan(None, |first, (at, _)| Some(at - *first.get_or_insert(at)))
        .take_while(|&distance| distance < covered)
        .count();
    let window = Window::new(place.line, from, from + marked.max(1));
    let margin = " ".repeat(label.len());
    out.push_str(&format!("\n{margin} |\n"));
    out.push_str(format!("{label} | {}", window.shown).trim_end());
    out.push_str(&format!(
        "\n{margin} | {}{} {}\n",
        " ".repeat(window.before),
        "^".repeat(window.carets),
        problem.cure
    ));
}

/// The part of a line worth showing, with the carets placed under it.
struct Window {
    shown: String,
    before: usize,
    carets: usize,
}

impl Window {
    /// `from..to` are the marked characters of the line; `to` may lie one past its end.
    fn new(line: &str, from: usize, to: usize) -> Self {
        let total = line.chars().count();
        let (first, last) = if total <= WIDTH {
            (0, total)
        } else {
            let first = from.saturating_sub(LEAD).min(total - WIDTH);
            (first, first + WIDTH)
        };
        let cut = if first > 0 { "…" } else { "" };
        let mut window = Self { shown: cut.to_owned(), before: cut.chars().count(), carets: 0 };
        for (index, c) in line.chars().enumerate().take(last).skip(first) {
            let cells = if c == '\t' { TAB } else { 1 };
            if c == '\t' {
                window.shown.push_str(&" ".repeat(TAB));
            } else {
                window.shown.push(visible(c));
            }
            if index < from {
                window.before += cells;
            } else if index < to {
                window.carets += cells;
            }
        }
        if last < total {
            window.shown.push('…');
        }
        window.carets = window.carets.max(1);
        window
    }
}

/// Control and direction characters would let a file write to the operator's terminal.
fn visible(c: char) -> char {
    match c {
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

const SHOWN: usize = 100;
const QUOTED: usize = 60;
const WIDTH: usize = 100;
const LEAD: usize = 40;
const TAB: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, span: Span) -> String {
        render("f", text, &[Complaint::new("bad", "cure").at(span)])
    }

    #[test]
    fn the_place_is_counted_in_characters() {
        assert_eq!(
            shown("a = 1\nä = \"öö\" x\n", 11..17),
            "f:2:5: bad\n  |\n2 | ä = \"öö\" x\n  |     ^^^^ cure\n"
        );
    }

    #[test]
    fn tabs_are_as_wide_in_the_caret_line_as_in_the_line() {
        assert_eq!(
            shown("\tkey\t= 1", 1..7),
            "f:1:2: bad\n  |\n1 |     key    = 1\n  |     ^^^^^^^^^ cure\n"
        );
    }

    #[test]
    fn line_endings_are_not_part_of_a_line() {
        let expected = "f:2:1: bad\n  |\n2 | bb\n  | ^^ cure\n";
        assert_eq!(shown("a\r\nbb\r\ncc", 3..7), expected);
        assert_eq!(shown("a\nbb\ncc", 2..7), expected);
    }

    #[test]
    fn an_empty_text_has_a_first_line() {
        assert_eq!(shown("", 0..0), "f:1:1: bad\n  |\n1 |\n  | ^ cure\n");
        assert_eq!(shown("\n", 0..1), "f:1:1: bad\n  |\n1 |\n  | ^ cure\n");
    }

    #[test]
    fn the_end_of_the_text_can_be_pointed_at() {
        assert_eq!(shown("ab", 2..2), "f:1:3: bad\n  |\n1 | ab\n  |   ^ cure\n");
        assert_eq!(shown("ab\n", 9..99), "f:2:1: bad\n  |\n2 |\n  | ^ cure\n");
    }

    #[test]
    fn a_byte_order_mark_takes_no_column() {
        let expected = "f:1:1: bad\n  |\n1 | ab\n  | ^^ cure\n";
        assert_eq!(shown("\u{feff}ab", 3..5), expected);
        assert_eq!(shown("\u{feff}ab", 0..5), expected);
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let block = shown(&text, 500..501);
        let lines: Vec<&str> = block.lines().collect();
        assert_eq!(lines[0], "f:1:501: bad");
        assert_eq!(lines[2].chars().count(), "1 | ".len() + WIDTH + 2);
        let at = lines[2].chars().position(|c| c == 'X');
        assert_eq!(lines[3].chars().position(|c| c == '^'), at);
        assert!(lines[2].contains("| …a") && lines[2].ends_with("b…"));
    }

    #[test]
    fn control_characters_are_replaced() {
        let block = shown("a\u{1b}[31m\0\u{202e}", 0..1);
        assert!(block.contains("1 | a\u{fffd}[31m\u{fffd}\u{fffd}"), "{block}");
        assert_eq!(quote("a\u{7}\n"), "`a\u{fffd}\u{fffd}`");
    }

    #[test]
    fn hundreds_of_problems_are_counted_not_shown() {
        let one = Complaint::new("bad", "cure").at(0..1);
        let block = render("f", "a", &vec![one.clone(); 103]);
        assert_eq!(block.matches("bad").count(), 100);
        assert!(block.ends_with("\n… and 3 more\n"));
        assert!(!render("f", "a", &vec![one; 100]).contains("more"));
    }

    #[test]
    fn the_counterpart_is_named_by_its_line() {
        let problem = Complaint::new("b stands twice", "cure").at(4..5).after(2..3);
        let block = render("f", "a\nb\nb\n", &[problem]);
        assert!(block.starts_with("f:3:1: b stands twice, first on line 2\n"));
    }
}
