//! Reading one TOML table: keys are asked for by name, and what nobody asked for is unknown.
//!
//! So the list of known keys cannot drift from the code that reads them. Every value reader
//! reports what is wrong with the value and answers `None`; the caller goes on with its default.
//! What absence means is not decided here.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::choice::Choice;
use super::draft::{Places, Report, Written};
use super::duration::{bare_number, parse_duration};
use super::nearest::nearest;
use super::problem::{Complaint, Span, quote};

/// One table being read.
pub(super) struct Section<'a> {
    title: String,
    table: &'a DeTable<'a>,
    asked: Vec<&'static str>,
    places: Places,
}

/// What keys are worth something only beside a certain value of another one.
pub(super) struct Need {
    /// What they go with, such as a key and its value in backticks.
    pub(super) beside: &'static str,
    /// Whether it is there.
    pub(super) met: bool,
}

/// What a list holds, for messages: one of it, several, and what one looks like.
pub(super) struct Items {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    pub(super) example: &'static str,
}

/// One key with its value.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    key: &'a Spanned<DeString<'a>>,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Section<'a> {
    /// `title` is what messages call the table, such as `[listener.web]`.
    pub(super) fn new(title: impl Into<String>, table: &'a DeTable<'a>) -> Self {
        Self { title: title.into(), table, asked: Vec::new(), places: Places::default() }
    }

    /// The entry called `key`, which is thereby a known key.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Entry<'a>> {
        self.asked.push(key);
        let (written, value) = self.table.get_key_value(key)?;
        let entry = Entry { key: written, value };
        if !entry.is_written() {
            return None;
        }
        self.places.add(key, entry.span());
        Some(entry)
    }

    /// The same for a key that needs another; without that it is warned of and not answered. It
    /// is no error, so that a word can be tried without losing what belongs to the other one.
    pub(super) fn take_with(
        &mut self,
        key: &'static str,
        need: &Need,
        report: &mut Report,
    ) -> Option<Entry<'a>> {
        let entry = self.take(key)?;
        if need.met {
            return Some(entry);
        }
        let message = format!("`{key}` has no effect without {}", need.beside);
        let complaint = Complaint::new(message, "write that too, or remove this key");
        report.add(complaint.at(entry.key_span()).as_warning());
        None
    }

    /// Puts the value of `key` into `into`, where it is written and `read` can read it.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        into: &mut T,
        report: &mut Report,
        read: impl FnOnce(&Entry<'a>, &mut Report) -> Option<T>,
    ) {
        if let Some(value) = self.take(key).and_then(|entry| read(&entry, report)) {
            *into = value;
        }
    }

    /// Where the values stand that were asked for so far.
    pub(super) fn places(&mut self) -> Places {
        std::mem::take(&mut self.places)
    }

    /// Reports every key nobody asked for; answers the known keys they were probably meant to be.
    pub(super) fn finish(self, report: &mut Report) -> Vec<&'static str> {
        let mut meant = Vec::new();
        for entry in entries(self.table) {
            if self.asked.contains(&entry.name()) {
                continue;
            }
            let near = nearest(entry.name(), self.asked.iter().copied());
            let near = self.asked.iter().find(|key| Some(**key) == near);
            meant.extend(near);
            let cure = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys are {}", self.asked.join(", ")),
            };
            let message = format!("unknown key {} in {}", quote(entry.name()), self.title);
            report.add(Complaint::new(message, cure).at(entry.key_span()));
        }
        meant
    }
}

/// All entries of a table in the order of the file; the parser sorts them by name.
pub(super) fn entries<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> =
        table.iter().map(|(key, value)| Entry { key, value }).filter(Entry::is_written).collect();
    entries.sort_by_key(|entry| entry.key.span().start);
    entries
}

impl<'a> Entry<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.key.get_ref()
    }

    pub(super) fn key_span(&self) -> Span {
        self.key.span()
    }

    pub(super) fn span(&self) -> Span {
        self.value.span()
    }

    pub(super) fn value(&self) -> &'a Spanned<DeValue<'a>> {
        self.value
    }

    /// A whole number within `allowed`.
    pub(super) fn number<T: TryFrom<u64>>(
        &self,
        allowed: RangeInclusive<u64>,
        report: &mut Report,
    ) -> Option<T> {
        let (low, high) = (allowed.start(), allowed.end());
        let form = format!("write a whole number from {low} to {high}");
        let DeValue::Integer(integer) = self.value.get_ref() else {
            self.wrong_type("a whole number", &format!("{form}, without quotes"), report);
            return None;
        };
        // What does not fit an i128 is out of range too.
        let read = i128::from_str_radix(integer.as_str(), integer.radix());
        let number = read.ok().and_then(|number| u64::try_from(number).ok());
        let fitting = number.filter(|number| allowed.contains(number));
        let value = fitting.and_then(|number| T::try_from(number).ok());
        if value.is_none() {
            let written = quote(&integer.to_string());
            let message = format!("`{}` is {written}, which is out of range", self.name());
            self.complain(Complaint::new(message, form), report);
        }
        value
    }

    /// Text; `form` shows how it is written.
    pub(super) fn text(&self, form: &str, report: &mut Report) -> Option<&'a str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type("text in quotes", form, report);
        }
        text
    }

    /// One of the words of `choice`.
    pub(super) fn choice<T: Copy>(&self, choice: &Choice<T>, report: &mut Report) -> Option<T> {
        let word = self.text(&format!("write {}", choice.words()), report)?;
        match choice.find(self.name(), word) {
            Ok(value) => Some(value),
            Err(complaint) => {
                self.complain(complaint, report);
                None
            }
        }
    }

    /// True or false.
    pub(super) fn yes_or_no(&self, report: &mut Report) -> Option<bool> {
        let value = self.value.get_ref().as_bool();
        if value.is_none() {
            self.wrong_type("true or false", "write it without quotes", report);
        }
        value
    }

    /// A duration, where zero means never: the inner `None`.
    pub(super) fn duration_or_never(&self, report: &mut Report) -> Option<Option<Duration>> {
        let duration = self.any_duration(report)?;
        Some(Some(duration).filter(|duration| !duration.is_zero()))
    }

    /// A duration, of which zero is one.
    pub(super) fn duration_or_zero(&self, report: &mut Report) -> Option<Duration> {
        self.any_duration(report)
    }

    /// A duration above zero; `example` is one that makes sense for the key.
    pub(super) fn duration(&self, example: Duration, report: &mut Report) -> Option<Duration> {
        let duration = self.any_duration(report)?;
        if duration.is_zero() {
            let example = humantime::format_duration(example);
            let complaint = Complaint::new(
                format!("`{}` cannot be zero", self.name()),
                format!("write a duration above zero, such as \"{example}\""),
            );
            self.complain(complaint, report);
            return None;
        }
        Some(duration)
    }

    /// Text that `read` understands.
    pub(super) fn parsed<T>(
        &self,
        form: &str,
        report: &mut Report,
        read: impl FnOnce(&'a str) -> Result<T, Complaint>,
    ) -> Option<T> {
        match read(self.text(form, report)?) {
            Ok(value) => Some(value),
            Err(Complaint { message, cure }) => {
                let message = format!("`{}`: {message}", self.name());
                self.complain(Complaint { message, cure }, report);
                None
            }
        }
    }

    /// A list of texts that `read` understands, or one of them alone.
    pub(super) fn list<T>(
        &self,
        items: &Items,
        report: &mut Report,
        read: impl Fn(&'a str) -> Result<T, Complaint>,
    ) -> (Vec<T>, Written) {
        let values = match self.value.get_ref() {
            DeValue::Array(values) => values.as_ref(),
            DeValue::String(_) => std::slice::from_ref(self.value),
            DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Table(_) => {
                let form = format!("write [{}]", items.example);
                self.wrong_type(items.many, &form, report);
                return (Vec::new(), Written::Refused);
            }
        };
        read_list(self.key_span(), values, report, |value, report| {
            let text = item_text(value, items.one, items.example, report)?;
            read(text).map_err(|complaint| report.add(complaint.at(value.span()))).ok()
        })
    }

    /// A table; `form` shows how it is written.
    pub(super) fn table(&self, form: &str, report: &mut Report) -> Option<&'a DeTable<'a>> {
        let table = self.value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type("a table", form, report);
        }
        table
    }

    /// Reports that the value should have been `expected`.
    pub(super) fn wrong_type(&self, expected: &str, form: &str, report: &mut Report) {
        let found = kind(self.value.get_ref());
        let message = format!("`{}` must be {expected}, not {found}", self.name());
        self.complain(Complaint::new(message, form), report);
    }

    /// Reports a complaint about the value, at the value.
    pub(super) fn complain(&self, complaint: Complaint, report: &mut Report) {
        report.add(complaint.at(self.span()));
    }

    fn any_duration(&self, report: &mut Report) -> Option<Duration> {
        let read = match self.value.get_ref() {
            DeValue::String(text) => parse_duration(text),
            DeValue::Integer(number) => Err(bare_number(&number.to_string())),
            DeValue::Float(number) => Err(bare_number(number.as_str())),
            DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                self.wrong_type("a duration", "write one in quotes, such as \"5s\"", report);
                return None;
            }
        };
        match read {
            Ok(duration) => Some(duration),
            Err(Complaint { message, cure }) => {
                let message = format!("`{}`: {message}", self.name());
                self.complain(Complaint { message, cure }, report);
                None
            }
        }
    }

    /// Where the text has no value the parser makes one up, at no place; it has reported that.
    fn is_written(&self) -> bool {
        !self.value.span().is_empty()
    }
}

/// Reads each value of a list with `read`, which reports what it cannot read.
pub(super) fn read_list<'a, T>(
    key: Span,
    values: &'a [Spanned<DeValue<'a>>],
    report: &mut Report,
    read: impl Fn(&'a Spanned<DeValue<'a>>, &mut Report) -> Option<T>,
) -> (Vec<T>, Written) {
    let (mut read_values, mut items, mut refused) = (Vec::new(), Vec::new(), 0);
    for value in values {
        match read(value, report) {
            Some(read) => {
                read_values.push(read);
                items.push(value.span());
            }
            None => refused += 1,
        }
    }
    let written = Written::List { key, items, refused };
    (read_values, written)
}

/// The text of one value of a list, which is called `what` and looks like `example`.
pub(super) fn item_text<'a>(
    value: &'a Spanned<DeValue<'a>>,
    what: &str,
    example: &str,
    report: &mut Report,
) -> Option<&'a str> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        let message = format!("{what} must be text, not {}", kind(value.get_ref()));
        let cure = format!("write it in quotes, such as {example}");
        report.add(Complaint::new(message, cure).at(value.span()));
    }
    text
}

/// Whether a listener or a pool can have this name.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

/// How the file writes the table `name` of a kind; names that are not bare keys need quotes.
pub(super) fn title(kind: &str, name: &str) -> String {
    if is_name(name) && !name.contains('.') {
        return format!("[{kind}.{name}]");
    }
    let name: String = name.chars().take(64).collect();
    format!("[{kind}.{name:?}]")
}

/// What messages call the type of a value.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
