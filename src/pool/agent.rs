//! What an agent on a backend's machine says of it: one short line, in the format of HAProxy.
//!
//! The line ends at the first CR or LF. Its words stand in any order, separated by spaces, tabs or
//! commas, in any case: `75%` (of the configured weight, 0 to 100), `maxconn:30`, `up`, `down`,
//! `stopped`, `fail`, `ready`, `drain`, `maint`. What follows a `#` is a remark. Of two words for
//! one thing the later counts. What a line does not mention stays as it was, so a [`Memory`] holds
//! the last word on each thing; only the agent takes its own words back. Words that are not known
//! are passed over, because others may still be meant for us; a line without any known word is no
//! report.
//!
//! A silent agent says nothing about its backend: the probes do that. Its last words go on to hold,
//! and are shown as stale.

use std::fmt;
use std::time::{Duration, Instant};

use super::admin::Admin;

/// One line of an agent, read. What it does not mention is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Of 100 parts of the configured weight.
    pub percent: Option<u8>,
    /// Connections at one time; 0 is any number, as in HAProxy.
    pub most: Option<u32>,
    /// Whether the service works.
    pub service: Option<Service>,
    /// What the backend is to be used for.
    pub admin: Option<Admin>,
    /// Text after `#`, for people.
    pub remark: String,
}

impl Report {
    /// Reads what an agent sent.
    ///
    /// # Errors
    /// When there is no word in it that says anything.
    pub fn parse(sent: &[u8]) -> Result<Self, Unreadable> {
        let end = sent.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let line = &sent[..end.unwrap_or(sent.len()).min(MOST_BYTES)];
        let (words, remark) = match line.iter().position(|&byte| byte == b'#') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let mut report = Self { remark: printable(remark), ..Self::default() };
        let separates = |byte: &u8| matches!(byte, b' ' | b'\t' | b',');
        let mut known = false;
        for word in words.split(separates).filter(|word| !word.is_empty()) {
            known |= report.take(&word.to_ascii_lowercase());
        }
        if known { Ok(report) } else { Err(Unreadable(printable(line))) }
    }

    /// Notes one word in lower case; false if it says nothing.
    fn take(&mut self, word: &[u8]) -> bool {
        match word {
            b"up" => self.service = Some(Service::Up),
            b"down" => self.service = Some(Service::Down),
            b"stopped" => self.service = Some(Service::Stopped),
            b"fail" => self.service = Some(Service::Failing),
            b"ready" => self.admin = Some(Admin::Ready),
            b"drain" => self.admin = Some(Admin::Draining),
            b"maint" => self.admin = Some(Admin::Maintenance),
            _ => return self.take_number(word).is_some(),
        }
        true
    }

    fn take_number(&mut self, word: &[u8]) -> Option<()> {
        let word = std::str::from_utf8(word).ok()?;
        if let Some(number) = word.strip_suffix('%') {
            self.percent = Some(number_of(number).filter(|&percent| percent <= 100)?);
        } else {
            self.most = Some(number_of(word.strip_prefix("maxconn:")?)?);
        }
        Some(())
    }
}

/// Whether the service works, as its agent sees it. The three ways not to work differ for people
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// It works.
    Up,
    /// It does not.
    Down,
    /// It was stopped on purpose.
    Stopped,
    /// It is there and fails its tests.
    Failing,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Stopped => "stopped",
            Self::Failing => "fail",
        })
    }
}

/// An agent sent something that says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "" => f.write_str("the agent sent an empty line"),
            line => write!(f, "no word of an agent in {line:?}"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// The last word of an agent on each thing.
#[derive(Debug, Default)]
pub struct Memory {
    said: Report,
    heard: Option<Instant>,
}

impl Memory {
    /// Takes a report: what it mentions replaces what was said before.
    pub(super) fn take(&mut self, report: Report, now: Instant) {
        self.said = Report {
            percent: report.percent.or(self.said.percent),
            most: report.most.or(self.said.most),
            service: report.service.or(self.said.service),
            admin: report.admin.or(self.said.admin),
            remark: report.remark,
        };
        self.heard = Some(now);
    }

    /// Of 100 parts of the weight; all, before it has said anything.
    pub(super) fn percent(&self) -> u8 {
        self.said.percent.unwrap_or(100)
    }

    /// The number of connections it allows, if it has spoken of that: `Some(None)` is any number.
    pub(super) fn most(&self) -> Option<Option<u32>> {
        self.said.most.map(|most| Some(most).filter(|&most| most > 0))
    }

    /// What its backend is to be used for.
    pub(super) fn admin(&self) -> Admin {
        self.said.admin.unwrap_or_default()
    }

    /// Whether it says that the service does not work.
    pub(super) fn is_against(&self) -> bool {
        match self.said.service {
            None | Some(Service::Up) => false,
            Some(Service::Down | Service::Stopped | Service::Failing) => true,
        }
    }

    /// Whether it has ever said anything.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        self.heard.is_some()
    }

    /// What it has said, and for how long it has been silent, if that is longer than `patience`.
    pub(super) fn words(&self, patience: Duration, now: Instant) -> String {
        match self.stale_for(patience, now) {
            Some(silence) => format!("{self} (stale, silent for {} s)", silence.as_secs()),
            None => self.to_string(),
        }
    }

    /// How long it has been silent, if that is longer than `patience`.
    #[must_use]
    pub fn stale_for(&self, patience: Duration, now: Instant) -> Option<Duration> {
        let silence = now.saturating_duration_since(self.heard?);
        Some(silence).filter(|&silence| silence > patience)
    }
}

/// What it has said, in its own words.
impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.has_spoken() {
            return f.write_str("no word yet");
        }
        let Report { percent, most, service, admin, remark } = &self.said;
        let words = [
            percent.map(|percent| format!("{percent}%")),
            service.map(|service| service.to_string()),
            admin.map(|admin| admin.agent_word().to_owned()),
            most.map(|most| format!("maxconn:{most}")),
            (!remark.is_empty()).then(|| format!("# {remark}")),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// Digits only: the standard parser would also take a sign.
fn number_of<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// For the log: nothing but what can be shown, and not much of it.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.trim().chars().take(MOST_SHOWN);
    shown.map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Of a line without an end so much is read.
pub const MOST_BYTES: usize = 1024;
/// Characters of a remark that are kept.
const MOST_SHOWN: usize = 80;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Report {
        Report::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn every_word_is_known_alone_and_in_any_case() {
        assert_eq!(read("75%\n").percent, Some(75));
        assert_eq!(read("0%").percent, Some(0));
        assert_eq!(read("maxconn:30\r\n").most, Some(30));
        assert_eq!(read("MaxConn:0").most, Some(0));
        for (word, service) in [
            ("up", Service::Up),
            ("Down", Service::Down),
            ("STOPPED", Service::Stopped),
            ("fail", Service::Failing),
        ] {
            assert_eq!(read(word).service, Some(service));
        }
        for (word, admin) in
            [("ready", Admin::Ready), ("Drain", Admin::Draining), ("maint", Admin::Maintenance)]
        {
            assert_eq!(read(word).admin, Some(admin));
        }
    }

    #[test]
    fn words_stand_together_however_they_are_separated() {
        let expected = Report {
            percent: Some(50),
            most: Some(7),
            service: Some(Service::Up),
            admin: Some(Admin::Ready),
            remark: "busy, but well".into(),
        };
        assert_eq!(read("up ready,50%\tmaxconn:7 # busy, but well\n"), expected);
        assert_eq!(read(" ,\t maxconn:7 ,, 50%  ready\tup# busy, but well\r\nmore"), expected);
    }

    #[test]
    fn the_line_ends_at_the_first_end() {
        assert_eq!(read("up\rdown\n").service, Some(Service::Up));
        assert_eq!(read("up\ndown\n").service, Some(Service::Up));
    }

    #[test]
    fn of_two_words_for_one_thing_the_later_counts() {
        assert_eq!(read("up 10% down 20%").service, Some(Service::Down));
        assert_eq!(read("up 10% down 20%").percent, Some(20));
    }

    #[test]
    fn unknown_words_are_passed_over_unless_there_is_nothing_else() {
        assert_eq!(read("hello up weight:3").service, Some(Service::Up));
        for line in ["", "\n", "hello", "#up", "101%", "-1%", "+5%", "%", "maxconn:", "maxconn:-1"]
        {
            assert!(Report::parse(line.as_bytes()).is_err(), "{line}");
        }
        assert!(Report::parse(b"maxconn: 30").is_err(), "no space in between");
        assert!(Report::parse(b"99999999999999999999%").is_err());
    }

    #[test]
    fn what_is_not_mentioned_stays() {
        let now = Instant::now();
        let mut memory = Memory::default();
        assert_eq!((memory.percent(), memory.most(), memory.is_against()), (100, None, false));
        memory.take(read("down 40% maxconn:5 # disk full"), now);
        assert_eq!(
            (memory.percent(), memory.most(), memory.is_against()),
            (40, Some(Some(5)), true)
        );
        assert_eq!(memory.to_string(), "40% down maxconn:5 # disk full");
        memory.take(read("drain"), now);
        assert_eq!((memory.percent(), memory.is_against()), (40, true));
        memory.take(read("up maxconn:0"), now);
        assert_eq!((memory.most(), memory.is_against()), (Some(None), false));
        assert_eq!(memory.to_string(), "40% up drain maxconn:0");
    }

    #[test]
    fn silence_is_stale_only_when_it_lasts() {
        let now = Instant::now();
        let patience = Duration::from_secs(5);
        let mut memory = Memory::default();
        assert_eq!(memory.stale_for(patience, now + patience * 9), None, "it has said nothing");
        memory.take(read("up"), now);
        assert_eq!(memory.stale_for(patience, now + patience), None);
        assert_eq!(memory.stale_for(patience, now + patience * 2), Some(patience * 2));
    }

    proptest! {
        /// Whatever is sent, reading it neither panics nor shows what a terminal would obey.
        #[test]
        fn anything_can_be_sent(sent in prop::collection::vec(any::<u8>(), 0..300)) {
            let shown = match Report::parse(&sent) {
                Ok(report) => report.remark,
                Err(unreadable) => unreadable.to_string(),
            };
            prop_assert!(!shown.chars().any(char::is_control));
        }

        #[test]
        fn words_are_read_back(percent in 0u8..=100, most in any::<u32>(), upper in any::<bool>()) {
            let line = format!("{percent}% up maxconn:{most}");
            let line = if upper { line.to_uppercase() } else { line };
            let report = read(&line);
            prop_assert_eq!((report.percent, report.most), (Some(percent), Some(most)));
        }
    }
}
