//! The columns of the table of backends, and how numbers look in them.
//!
//! Columns that find no room are left out, the least important first; the names of backends lose
//! their begin.

use super::Row;
use super::view::{Line, Piece, Style};
use crate::admin::table::{bytes, clip, count, duration};

/// A column of the table of backends, besides their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    State,
    For,
    Weight,
    Active,
    Rate,
    Total,
    Failed,
}

/// Those that there is room for.
#[derive(Debug)]
pub(super) struct Columns {
    name: usize,
    shown: Vec<Column>,
}

impl Columns {
    pub(super) fn new(width: usize, rows: &[Row<'_>]) -> Self {
        let longest = rows.iter().map(|row| row.name().chars().count()).max().unwrap_or(0);
        let wanted = longest.max("BACKEND".len());
        let mut left = width.saturating_sub(wanted.min(LEAST_NAME));
        let mut shown = Vec::new();
        for column in IMPORTANCE {
            if left > column.width() {
                left -= column.width() + 1;
                shown.push(column);
            }
        }
        let name = wanted.min(left + wanted.min(LEAST_NAME)).min(width);
        shown.sort_by_key(|column| *column as u8);
        Self { name, shown }
    }

    /// The line above them.
    pub(super) fn names(&self) -> String {
        let mut text = format!("{:1$}", clip("BACKEND", self.name), self.name);
        for column in &self.shown {
            text.push_str(&column.pad(column.title()));
        }
        text
    }

    /// The line of a backend.
    pub(super) fn row(&self, row: &Row<'_>, is_chosen: bool, width: usize) -> Line {
        let mut line = Line::default();
        let name = clip_front(&row.name(), self.name);
        let style = |style| if is_chosen { Style::Chosen } else { style };
        let text = format!("{name:0$}", self.name);
        line.pieces.push(Piece { text, style: style(Style::Plain) });
        for column in &self.shown {
            let text = column.pad(&column.value(row));
            let is_state = *column == Column::State;
            let look = if is_state { state_style(&row.backend.state) } else { Style::Plain };
            line.pieces.push(Piece { text, style: style(look) });
        }
        if is_chosen {
            let text = " ".repeat(width.saturating_sub(line.width()));
            line.pieces.push(Piece { text, style: Style::Chosen });
        }
        line
    }
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::State => "STATE",
            Self::For => "FOR",
            Self::Weight => "WEIGHT",
            Self::Active => "ACTIVE",
            Self::Rate => "NEW/S",
            Self::Total => "TOTAL",
            Self::Failed => "FAILED",
        }
    }

    fn width(self) -> usize {
        match self {
            Self::State => 11,
            Self::For | Self::Total => 7,
            Self::Weight | Self::Active | Self::Rate | Self::Failed => 6,
        }
    }

    fn value(self, row: &Row<'_>) -> String {
        let backend = row.backend;
        match self {
            Self::State => backend.state.clone(),
            Self::For => duration(backend.state_seconds),
            Self::Weight => backend.weight.to_string(),
            Self::Active => count(backend.active, 6),
            Self::Rate => per_second(row.rate),
            Self::Total => count(backend.total, 7),
            Self::Failed => count(backend.connect_failures, 6),
        }
    }

    /// Behind a space; words to the left, numbers to the right.
    fn pad(self, text: &str) -> String {
        let width = self.width();
        let text = clip(text, width);
        match self {
            Self::State => format!(" {text:width$}"),
            Self::For | Self::Weight | Self::Active | Self::Rate | Self::Total | Self::Failed => {
                format!(" {text:>width$}")
            }
        }
    }
}

pub(super) fn state_style(state: &str) -> Style {
    match state {
        "up" => Style::Good,
        "down" | "ejected" | "unresolved" => Style::Bad,
        _ => Style::Mild,
    }
}

/// In six characters at most; one digit behind the point where that says something.
pub(super) fn per_second(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 99.95 => format!("{rate:.1}"),
        Some(rate) => count(whole(rate), 6),
    }
}

pub(super) fn bytes_per_second(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| bytes(whole(rate)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is never negative, and a cast of floats keeps to the range"
)]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

/// Without its begin, if it is too long: addresses differ at their end.
fn clip_front(text: &str, width: usize) -> String {
    let text = clip(text, usize::MAX);
    let length = text.chars().count();
    if length <= width {
        return text;
    }
    let end: String = text.chars().skip(length - width.saturating_sub(1)).collect();
    if width == 0 { String::new() } else { format!("…{end}") }
}

/// The first of these are the last to go.
const IMPORTANCE: [Column; 7] = [
    Column::State,
    Column::Active,
    Column::Rate,
    Column::Weight,
    Column::For,
    Column::Failed,
    Column::Total,
];
/// Names keep so much before a column is shown.
const LEAST_NAME: usize = 21;
