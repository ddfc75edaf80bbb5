//! The live table as lines of styled text, at any size.
//!
//! A small screen loses what matters least: first the listeners, then the words about the chosen
//! backend, the sums, the names of the columns, the title; columns likewise. The chosen backend is
//! always there if there is one line. No line is longer than the screen is wide.

use super::columns::{Columns, bytes_per_second, per_second, state_style};
use super::rates::Flow;
use super::{Mode, Row, Top};
use crate::admin::snapshot::{Listener, Snapshot};
use crate::admin::table::{clip, count, duration, notes};

/// A line, in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// From left to right.
    pub pieces: Vec<Piece>,
}

/// Some text that looks the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Without control characters.
    pub text: String,
    /// How it looks.
    pub style: Style,
}

/// How text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// As the terminal has it.
    #[default]
    Plain,
    /// A title.
    Bold,
    /// Of less interest.
    Dim,
    /// All is well.
    Good,
    /// Somebody wants it so, or it is not known yet.
    Mild,
    /// Something is wrong.
    Bad,
    /// Chosen.
    Chosen,
}

impl Line {
    fn new(text: &str, style: Style) -> Self {
        Self { pieces: vec![Piece { text: text.to_owned(), style }] }
    }

    /// Its text alone.
    #[must_use]
    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    /// In characters.
    #[must_use]
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|piece| piece.text.chars().count()).sum()
    }

    /// Cut to so many characters, none of which moves the cursor.
    fn cut(mut self, width: usize) -> Self {
        let mut left = width;
        for piece in &mut self.pieces {
            piece.text = clip(&piece.text, left);
            left -= piece.text.chars().count();
        }
        self.pieces.retain(|piece| !piece.text.is_empty());
        self
    }
}

/// The whole screen: at most `height` lines of at most `width` characters.
#[must_use]
pub fn screen(top: &Top, width: usize, height: usize) -> Vec<Line> {
    if top.mode == Mode::Help {
        let lines = HELP.lines().map(|line| Line::new(line, Style::Plain).cut(width));
        return lines.take(height).collect();
    }
    let rows = top.rows();
    let listeners = top.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.listeners);
    let space = Space::new(height, listeners.len());
    let columns = Columns::new(width, &rows);
    let chosen = top.chosen(&rows);
    let mut lines = Vec::new();
    if space.title {
        lines.push(title(top));
    }
    if space.sums {
        lines.push(sums(top));
    }
    if space.listeners > 0 {
        lines.push(Line::default());
        lines.extend(listener_lines(top, listeners, space.listeners));
        lines.push(Line::default());
    }
    if space.names {
        lines.push(Line::new(&columns.names(), Style::Bold));
    }
    if space.rows > 0 {
        // The chosen one is in the middle, unless an end of the list is in view.
        let first = chosen.saturating_sub(space.rows / 2);
        let first = first.min(rows.len().saturating_sub(space.rows));
        for (number, row) in rows.iter().enumerate().skip(first).take(space.rows) {
            lines.push(columns.row(row, number == chosen, width));
        }
        // What is at the bottom stays there.
        lines.resize(height - usize::from(space.words) - usize::from(space.foot), Line::default());
    }
    if space.words {
        lines.push(rows.get(chosen).map_or_else(|| nothing(top), words));
    }
    if space.foot {
        lines.push(foot(top));
    }
    lines.into_iter().take(height).map(|line| line.cut(width)).collect()
}

/// The same for a file or a pipe: everything, with nothing chosen.
#[must_use]
pub fn page(top: &Top, width: usize) -> String {
    let rows = top.rows();
    let columns = Columns::new(width, &rows);
    let listeners = top.snapshot.as_ref().map_or(&[][..], |snapshot| &snapshot.listeners);
    let mut lines = vec![title(top), sums(top), Line::default()];
    lines.extend(listener_lines(top, listeners, listeners.len() + 1));
    lines.push(Line::default());
    lines.push(Line::new(&columns.names(), Style::Bold));
    lines.extend(rows.iter().map(|row| columns.row(row, false, width)));
    let mut text = String::new();
    for line in lines {
        text.push_str(line.cut(width).text().trim_end());
        text.push('\n');
    }
    text
}

/// Which parts there is room for.
#[derive(Debug)]
struct Space {
    title: bool,
    sums: bool,
    /// With the names of their columns; there is an empty line before and behind them.
    listeners: usize,
    names: bool,
    rows: usize,
    words: bool,
    foot: bool,
}

impl Space {
    fn new(height: usize, listeners: usize) -> Self {
        let mut left = height.saturating_sub(1);
        let mut take = |needed: usize| {
            let fits = left >= needed;
            left -= if fits { needed } else { 0 };
            fits
        };
        let foot = take(1);
        let title = take(1);
        let names = take(1);
        let sums = take(1);
        let words = take(1);
        // A third for the listeners, if the backends keep more.
        let wanted = (listeners + 1).min(height / 3);
        let listeners = if wanted >= 2 && take(wanted + 2) { wanted } else { 0 };
        let rows = if height == 0 { 0 } else { left + 1 };
        Self { title, sums, listeners, names, rows, words, foot }
    }
}

fn title(top: &Top) -> Line {
    let Some(snapshot) = &top.snapshot else {
        return Line::new(&format!("evenkeel at {}", top.place), Style::Bold);
    };
    let Snapshot { service, version, state, uptime_seconds, .. } = snapshot;
    let who = format!("{service} {version} at {}, ", top.place);
    let style = if top.trouble.is_some() {
        Style::Dim
    } else if snapshot.is_draining() {
        Style::Mild
    } else {
        Style::Plain
    };
    let mut line = Line::new(&who, Style::Bold);
    let text = format!("{state} for {}", duration(*uptime_seconds));
    line.pieces.push(Piece { text, style });
    line
}

/// What all listeners have together, and what is wrong.
fn sums(top: &Top) -> Line {
    let Some(snapshot) = &top.snapshot else { return Line::default() };
    let connections = &snapshot.connections;
    let rates = top.rates.as_ref().map(|rates| &rates.total);
    let mut line = Line::new(
        &format!(
            "{} of {} connections, {} new/s, {}/s in, {}/s out",
            connections.active,
            connections.limit,
            per_second(rates.map(|flow| flow.connections)),
            bytes_per_second(rates.map(|flow| flow.bytes_received)),
            bytes_per_second(rates.map(|flow| flow.bytes_sent)),
        ),
        Style::Plain,
    );
    let mut add = |text: String, style| line.pieces.push(Piece { text, style });
    let waiting: u64 = snapshot.pools.iter().map(|pool| pool.waiting).sum();
    if waiting > 0 {
        add(format!("; {waiting} wait"), Style::Mild);
    }
    for pool in snapshot.pools.iter().filter(|pool| !pool.available) {
        add(format!("; nobody can serve in {}", pool.name), Style::Bad);
    }
    line
}

/// At most `most` lines, the first with the names of the columns.
fn listener_lines(top: &Top, listeners: &[Listener], most: usize) -> Vec<Line> {
    let row = |cells: [&str; 7]| {
        let [name, pool, active, rate, received, sent, addresses] = cells;
        let (name, pool) = (clip(name, 12), clip(pool, 12));
        format!("{name:12} {pool:12} {active:>6} {rate:>6} {received:>10} {sent:>10}  {addresses}")
    };
    let names = ["LISTENER", "POOL", "ACTIVE", "NEW/S", "IN/S", "OUT/S", "ADDRESSES"];
    let mut lines = vec![Line::new(&row(names), Style::Bold)];
    let shown = if listeners.len() < most { listeners.len() } else { most.saturating_sub(2) };
    for listener in &listeners[..shown] {
        let flow = top.rates.as_ref().and_then(|rates| rates.listeners.get(&listener.name));
        let addresses = match listener.addresses.join(", ") {
            none if none.is_empty() => "closed".to_owned(),
            some => some,
        };
        let of = |part: fn(&Flow) -> f64| flow.map(part);
        let text = row([
            &listener.name,
            &listener.pool,
            &count(listener.active, 6),
            &per_second(of(|flow| flow.connections)),
            &bytes_per_second(of(|flow| flow.bytes_received)),
            &bytes_per_second(of(|flow| flow.bytes_sent)),
            &addresses,
        ]);
        let is_stale = top.trouble.is_some();
        lines.push(Line::new(&text, if is_stale { Style::Dim } else { Style::Plain }));
    }
    if shown < listeners.len() {
        let text = format!("... and {} more listeners", listeners.len() - shown);
        lines.push(Line::new(&text, Style::Dim));
    }
    lines
}

/// Everything about the chosen backend that its row has no room for.
fn words(row: &Row<'_>) -> Line {
    let backend = row.backend;
    let mut said = notes(backend);
    if said.is_empty() {
        said.push(backend.reason.clone());
    }
    let name = row.name();
    let style = state_style(&backend.state);
    let mut line = Line::new(&format!("{name} {}", backend.state), style);
    let text = format!(" for {}: {}", duration(backend.state_seconds), said.join("; "));
    line.pieces.push(Piece { text, style: Style::Plain });
    line
}

fn nothing(top: &Top) -> Line {
    match (&top.snapshot, top.filter.as_str()) {
        (None, _) => Line::new("nothing is known yet", Style::Dim),
        (Some(_), "") => Line::new("there are no backends", Style::Dim),
        (Some(_), filter) => Line::new(&format!("no backend has {filter:?}"), Style::Mild),
    }
}

/// The last line: what is being typed, what is wrong, what was done, or what keys do.
fn foot(top: &Top) -> Line {
    if top.mode == Mode::Filter {
        return Line::new(&format!("/{}_  Enter keeps it, Esc drops it", top.filter), Style::Bold);
    }
    if let Some(why) = &top.trouble {
        return Line::new(why, Style::Bad);
    }
    if let Some(note) = &top.note {
        return Line::new(&note.text, if note.is_bad { Style::Bad } else { Style::Good });
    }
    let sort = top.sort.words();
    let filter = match top.filter.as_str() {
        "" => "/ filter".to_owned(),
        filter => format!("/ filter: {filter}"),
    };
    let text = format!("q quit  ? help  d drain  r ready  m maint.  +- weight  s {sort}  {filter}");
    Line::new(&text, Style::Dim)
}

const HELP: &str = "\
up, down, k, j     choose a backend; PgUp, PgDn, Home, End likewise
d                  drain it: no new clients, its connections go on
m                  maintenance: no new clients and no probes
r                  ready: takes both back
+  -               more, less weight
s                  sort: as configured, active, new/s, state, name
/                  show only what has this text, as in web/ or down
Esc                show all again
Space              ask the balancer now
q, Ctrl-C          quit; Ctrl-Z puts it in the background

NEW/S IN/S OUT/S   in the last interval; - where that is not known
FAILED             connects that failed; FOR: how long it is in its state

Any key shows the table again.";
