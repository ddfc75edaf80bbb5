//! `evenkeel top`: what is shown and what keys do, without a terminal and without a clock.
//!
//! A [`Top`] is fed with keys and with what the balancer says. It answers with what is to be done,
//! and [`view`] shows it at any size. Rates are what was counted between two statuses, by the
//! balancer's own clock, so a slow answer does not distort them; a balancer that was started again
//! has none until its second status.

mod columns;
pub mod rates;
pub mod view;
mod wishes;

use crate::admin::change::WantedState;
use crate::admin::snapshot::{Backend, Pool};
use crate::admin::{Change, Changed, Snapshot, one_line};
use rates::Rates;

/// Everything that the live table knows.
#[derive(Debug, Default)]
pub struct Top {
    /// Who is asked.
    place: String,
    snapshot: Option<Snapshot>,
    rates: Option<Rates>,
    /// Why the last question had no answer.
    trouble: Option<String>,
    /// The pool and the address of the chosen backend.
    selected: Option<(String, String)>,
    sort: Sort,
    filter: String,
    mode: Mode,
    note: Option<Note>,
    /// Changes that were asked for and not answered yet.
    under_way: usize,
    /// The last weight that was asked for, of which pool and address, until it is answered.
    weight: Option<(String, String, u16)>,
}

/// A key that means something, whatever the terminal sends for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// To the row above.
    Up,
    /// To the row below.
    Down,
    /// Several rows up.
    PageUp,
    /// Several rows down.
    PageDown,
    /// To the first row.
    Home,
    /// To the last row.
    End,
    /// Accepts.
    Enter,
    /// Takes back.
    Escape,
    /// Removes the last character.
    Backspace,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// A character.
    Char(char),
}

/// What a key asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Nothing beyond showing the table again.
    Show,
    /// To end.
    Quit,
    /// To be put in the background.
    Suspend,
    /// To ask the balancer something now.
    Ask(Order),
}

/// A question to the balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// For its status.
    Look,
    /// For a change.
    Change(Change),
}

/// What the balancer answered.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// Its status.
    Status(Box<Snapshot>),
    /// What has become of a backend.
    Changed(Box<Changed>),
}

/// In which order backends are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sort {
    #[default]
    Configured,
    Active,
    Rate,
    State,
    Name,
}

/// What keys mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Table,
    Filter,
    Help,
}

/// A line for people, for a few looks.
#[derive(Debug)]
struct Note {
    text: String,
    is_bad: bool,
    looks: u8,
}

/// One backend as it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pool: &'a Pool,
    backend: &'a Backend,
    /// New connections in a second.
    rate: Option<f64>,
}

impl Top {
    /// Nothing is known yet of the balancer at `place`.
    #[must_use]
    pub fn new(place: String) -> Self {
        Self { place, ..Self::default() }
    }

    /// Takes in an answer.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Status(status) => {
                self.trouble = None;
                let before = self.snapshot.as_ref();
                self.rates = before.and_then(|before| Rates::between(before, &status));
                self.snapshot = Some(*status);
                self.show_weight();
                self.age_note();
            }
            News::Changed(changed) => {
                let is_bad = !changed.pool_available;
                let more = if is_bad { "; nobody can serve in this pool now" } else { "" };
                self.tell(format!("{}{more}", one_line(&changed)), is_bad);
                self.replace(*changed);
                self.answered();
            }
        }
    }

    /// The balancer has no answer when asked for its status; what it said last is kept.
    pub fn unanswered(&mut self, why: String) {
        self.trouble = Some(why);
        self.rates = None;
    }

    /// The last status, and what happened in a second before it.
    #[must_use]
    pub fn seen(&self) -> (Option<&Snapshot>, Option<&Rates>) {
        (self.snapshot.as_ref(), self.rates.as_ref())
    }

    /// A change was refused; the table goes on.
    pub fn refused(&mut self, why: String) {
        self.tell(why, true);
        self.answered();
    }

    /// Does what a key asks for.
    pub fn press(&mut self, key: Key) -> Act {
        match (key, self.mode) {
            (Key::Interrupt, _) => Act::Quit,
            (Key::Suspend, _) => Act::Suspend,
            (_, Mode::Filter) => {
                self.type_filter(key);
                Act::Show
            }
            (_, Mode::Help) => {
                self.mode = Mode::Table;
                Act::Show
            }
            (_, Mode::Table) => self.press_in_table(key),
        }
    }

    fn press_in_table(&mut self, key: Key) -> Act {
        match key {
            Key::Char('q') => return Act::Quit,
            Key::Char('d') => return self.ask_for(WantedState::Draining),
            Key::Char('r') => return self.ask_for(WantedState::Ready),
            Key::Char('m') => return self.ask_for(WantedState::Maintenance),
            Key::Char('+' | '=') => return self.ask_for_weight(1),
            Key::Char('-') => return self.ask_for_weight(-1),
            Key::Char(' ') => return Act::Ask(Order::Look),
            Key::Char('s') => self.sort = self.sort.next(),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Up | Key::Char('k') => self.select(|at, _| at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(|at, _| at + 1),
            Key::PageUp => self.select(|at, _| at.saturating_sub(PAGE)),
            Key::PageDown => self.select(|at, _| at + PAGE),
            Key::Home | Key::Char('g') => self.select(|_, _| 0),
            Key::End | Key::Char('G') => self.select(|_, count| count),
            Key::Escape => {
                self.filter.clear();
                self.note = None;
            }
            Key::Enter | Key::Backspace => {}
            Key::Char(other) => {
                let shown: String = other.escape_default().collect();
                self.tell(format!("{shown:?} does nothing; ? shows the keys"), false);
            }
            // Both were answered before.
            Key::Interrupt | Key::Suspend => {}
        }
        Act::Show
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Char(character) if self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(character);
            }
            Key::Backspace => {
                if self.filter.pop().is_none() {
                    self.mode = Mode::Table;
                }
            }
            Key::Enter => self.mode = Mode::Table,
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            Key::Up => self.select(|at, _| at.saturating_sub(1)),
            Key::Down => self.select(|at, _| at + 1),
            Key::Char(_) | Key::PageUp | Key::PageDown | Key::Home | Key::End => {}
            Key::Interrupt | Key::Suspend => {}
        }
    }

    /// The backends to be shown, in their order.
    pub(crate) fn rows(&self) -> Vec<Row<'_>> {
        let Some(snapshot) = &self.snapshot else { return Vec::new() };
        let rate = |pool: &Pool, backend: &Backend| {
            self.rates.as_ref().and_then(|rates| rates.of_backend(&pool.name, &backend.address))
        };
        let row = |(pool, backend)| Row { pool, backend, rate: rate(pool, backend) };
        let mut rows: Vec<_> = snapshot.backends().map(row).collect();
        let filter = self.filter.to_lowercase();
        rows.retain(|row| {
            let text = format!("{} {}", row.name(), row.backend.state);
            text.to_lowercase().contains(&filter)
        });
        match self.sort {
            Sort::Configured => {}
            Sort::Active => rows.sort_by_key(|row| std::cmp::Reverse(row.backend.active)),
            Sort::Rate => {
                let rate = |row: &Row<'_>| row.rate.unwrap_or_default();
                rows.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
            }
            Sort::State => rows.sort_by_key(|row| {
                (row.backend.is_healthy(), row.backend.state.clone(), row.backend.state_seconds)
            }),
            Sort::Name => rows.sort_by_key(Row::name),
        }
        rows
    }

    /// Which of the rows is chosen: the first, if the one that was is not among them.
    pub(crate) fn chosen(&self, rows: &[Row<'_>]) -> usize {
        let is_it = |row: &Row<'_>| {
            let selected = self.selected.as_ref();
            selected.is_some_and(|(pool, at)| row.pool.name == *pool && row.backend.address == *at)
        };
        rows.iter().position(is_it).unwrap_or(0)
    }

    /// Chooses the row that `from` makes of the current one and the number of rows.
    fn select(&mut self, from: impl FnOnce(usize, usize) -> usize) {
        let rows = self.rows();
        let at = from(self.chosen(&rows), rows.len()).min(rows.len().saturating_sub(1));
        let chosen = rows.get(at);
        self.selected = chosen.map(|row| (row.pool.name.clone(), row.backend.address.clone()));
    }

    fn replace(&mut self, changed: Changed) {
        if let Some(backend) = self.find(&changed.pool, &changed.backend.address) {
            *backend = changed.backend;
        }
    }

    fn find(&mut self, pool: &str, address: &str) -> Option<&mut Backend> {
        let pools = self.snapshot.iter_mut().flat_map(|snapshot| &mut snapshot.pools);
        let mut backends = pools.filter(|one| one.name == pool).flat_map(|one| &mut one.backends);
        backends.find(|backend| backend.address == address)
    }

    fn tell(&mut self, text: String, is_bad: bool) {
        self.note = Some(Note { text, is_bad, looks: NOTE_LOOKS });
    }

    fn age_note(&mut self) {
        if let Some(note) = &mut self.note {
            note.looks = note.looks.saturating_sub(1);
            if note.looks == 0 {
                self.note = None;
            }
        }
    }
}

impl Row<'_> {
    /// In the words of the contract.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.pool.name, self.backend.address)
    }
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Self::Configured => Self::Active,
            Self::Active => Self::Rate,
            Self::Rate => Self::State,
            Self::State => Self::Name,
            Self::Name => Self::Configured,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Configured => "as configured",
            Self::Active => "active",
            Self::Rate => "new/s",
            Self::State => "state",
            Self::Name => "name",
        }
    }
}

/// Rows that a page key moves by.
const PAGE: usize = 10;
const LONGEST_FILTER: usize = 60;
/// Statuses for which a note is shown.
const NOTE_LOOKS: u8 = 5;

#[cfg(test)]
pub(crate) mod tests;
