//! What has happened lately: lines of the log that an operator who comes late wants to see.
//!
//! Whatever changes a backend or a pool, or needs somebody to act, is told here once and in the
//! same words to the log and to a ring of the last [`MOST_EVENTS`], which the status shows. What
//! comes again and again takes one place in it, so that a flood of clients does not wash away that
//! a backend went down. Only what happens rarely is told here: a line is put together also when
//! nobody reads the log.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use log::Level;

use crate::admin::snapshot;

/// The last events, and the name under which this process is known from others.
#[derive(Debug)]
pub(super) struct News {
    events: VecDeque<Event>,
    /// Of the next event.
    number: u64,
    instance: u64,
}

impl News {
    /// `seed` differs from process to process.
    pub(super) fn new(seed: u64) -> Self {
        Self { events: VecDeque::new(), number: 1, instance: seed }
    }

    /// Something that belongs to the course of things.
    pub(super) fn info(&mut self, now: Instant, text: impl fmt::Display) {
        let text = said(Level::Info, &text);
        self.keep(Event { number: 0, at: now, level: Level::Info, text, times: 1 });
    }

    /// Something that somebody should look at.
    pub(super) fn warn(&mut self, now: Instant, text: impl fmt::Display) {
        let text = said(Level::Warn, &text);
        self.keep(Event { number: 0, at: now, level: Level::Warn, text, times: 1 });
    }

    /// Something that goes on: it takes the place of what was said last, but for the numbers.
    pub(super) fn again(&mut self, level: Level, now: Instant, text: impl fmt::Display) {
        let text = said(level, &text);
        let is_same = |event: &Event| event.level == level && is_alike(&event.text, &text);
        let last = self.events.iter().rposition(is_same).and_then(|at| self.events.remove(at));
        let times = last.map_or(1, |last| last.times + 1);
        self.keep(Event { number: 0, at: now, level, text, times });
    }

    fn keep(&mut self, event: Event) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(Event { number: self.number, ..event });
        self.number += 1;
    }

    /// What tells this process from one before it at the same address.
    pub(super) fn instance(&self) -> String {
        format!("{:016x}", self.instance)
    }

    /// The events, the newest first.
    pub(super) fn events(&self, now: Instant) -> Vec<snapshot::Event> {
        let event = |event: &Event| snapshot::Event {
            number: event.number,
            seconds_ago: now.saturating_duration_since(event.at).as_secs(),
            level: event.level.as_str().to_ascii_lowercase(),
            text: event.text.clone(),
            times: event.times,
        };
        self.events.iter().rev().map(event).collect()
    }
}

#[derive(Debug)]
struct Event {
    number: u64,
    at: Instant,
    level: Level,
    text: String,
    times: u64,
}

/// Says it in the log; what is kept of it.
fn said(level: Level, text: &dyn fmt::Display) -> String {
    log::log!(level, "{text}");
    text.to_string().chars().take(MOST_TEXT).collect()
}

/// Whether two lines differ in nothing but numbers.
fn is_alike(one: &str, other: &str) -> bool {
    let is_kept = |c: &char| !c.is_ascii_digit();
    one.chars().filter(is_kept).eq(other.chars().filter(is_kept))
}

const MOST_EVENTS: usize = 128;
/// Characters of one.
const MOST_TEXT: usize = 300;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_last_events_are_told_with_the_newest_first() {
        let (start, mut news) = (Instant::now(), News::new(7));
        for number in 0..200_u64 {
            news.info(start + Duration::from_secs(number), format_args!("event {number}"));
        }
        news.warn(start + Duration::from_secs(200), "é".repeat(1000));
        let events = news.events(start + Duration::from_secs(210));
        assert_eq!(events.len(), MOST_EVENTS);
        let (newest, oldest) = (&events[0], &events[MOST_EVENTS - 1]);
        assert_eq!((newest.number, newest.seconds_ago, newest.level.as_str()), (201, 10, "warn"));
        assert_eq!(newest.text.chars().count(), MOST_TEXT);
        assert_eq!((oldest.text.as_str(), oldest.seconds_ago), ("event 73", 137));
    }

    #[test]
    fn what_goes_on_washes_nothing_away() {
        let (start, mut news) = (Instant::now(), News::new(7));
        news.info(start, "web/127.0.0.1:5001 is down");
        news.info(start, "web/127.0.0.1:5002 is down");
        for second in 0..1000 {
            let now = start + Duration::from_secs(second);
            news.again(Level::Warn, now, format_args!("{second} clients were turned away"));
        }
        let events = news.events(start + Duration::from_secs(1000));
        assert_eq!(events.len(), 3);
        let latest = &events[0];
        assert_eq!((latest.times, latest.seconds_ago), (1000, 1));
        assert_eq!((latest.text.as_str(), latest.number), ("999 clients were turned away", 1002));
    }

    #[test]
    fn a_process_has_a_name_of_its_own() {
        assert_eq!(News::new(10).instance(), "000000000000000a");
    }
}
