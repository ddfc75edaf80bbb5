//! A backend that takes no new clients: how many are left, and how long that may take.

use std::time::Duration;

use serde::Serialize;

use super::change::Changed;
use super::table::one_line;

/// A backend that is watched until it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emptying {
    at_first: u64,
}

impl Emptying {
    /// It has so many connections when the watch begins.
    #[must_use]
    pub fn new(connections: u64) -> Self {
        Self { at_first: connections }
    }

    /// How long it takes until `left` more connections have ended, if they go on to end as fast as
    /// they did in the time that has `passed`; `None` when none has ended yet.
    #[must_use]
    pub fn estimate(self, left: u64, passed: Duration) -> Option<Duration> {
        let ended = self.at_first.checked_sub(left).filter(|&ended| ended > 0)?;
        let millis = passed.as_millis().saturating_mul(left.into()) / u128::from(ended);
        Some(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// The backend in a line, with what is left of its connections.
    #[must_use]
    pub fn line(self, changed: &Changed, passed: Duration) -> String {
        let (line, left) = (one_line(changed), changed.backend.active);
        let tally = format!("{line}; {left} of {} left", self.at_first);
        match self.estimate(left, passed).filter(|_| left > 0) {
            Some(more) => format!("{tally}, an estimate at the rate so far: {} more", about(more)),
            None => tally,
        }
    }

    /// The same as JSON.
    #[must_use]
    pub fn json(self, changed: &Changed, passed: Duration) -> String {
        let left = changed.backend.active;
        let estimated_seconds = self.estimate(left, passed).map(|more| more.as_secs());
        let told = Told { changed, left, of: self.at_first, estimated_seconds };
        serde_json::to_string(&told).unwrap_or_default()
    }
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    changed: &'a Changed,
    left: u64,
    of: u64,
    estimated_seconds: Option<u64>,
}

/// Not more exact than an estimate is.
fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..100 => format!("{} s", seconds.max(1)),
        seconds @ 100..6000 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::Backend;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn with(active: u64) -> Changed {
        let (address, state) = ("a:1".to_owned(), "draining".to_owned());
        let reason = "by the operator".to_owned();
        let backend = Backend { address, state, reason, active, weight: 1, ..Backend::default() };
        Changed { pool: "web".to_owned(), pool_available: true, backend }
    }

    #[test]
    fn an_estimate_is_made_of_what_has_ended() {
        let emptying = Emptying::new(40);
        assert_eq!(emptying.estimate(40, SECOND), None, "none has ended yet");
        assert_eq!(emptying.estimate(30, 10 * SECOND), Some(30 * SECOND));
        assert_eq!(emptying.estimate(0, 10 * SECOND), Some(Duration::ZERO));
        assert_eq!(emptying.estimate(41, SECOND), None, "there are more than there were");
        let long = Emptying::new(u64::MAX).estimate(u64::MAX - 1, Duration::MAX);
        assert!(long.is_some());
    }

    #[test]
    fn it_is_told_how_many_are_left() {
        let emptying = Emptying::new(40);
        assert_eq!(
            emptying.line(&with(30), 60 * SECOND),
            "web/a:1: draining, weight 1, 30 active (by the operator); 30 of 40 left, an estimate \
             at the rate so far: 3 min more"
        );
        assert!(emptying.line(&with(40), SECOND).ends_with("; 40 of 40 left"));
        assert!(emptying.line(&with(0), SECOND).ends_with("; 0 of 40 left"));
        let json: serde_json::Value =
            serde_json::from_str(&emptying.json(&with(20), 9 * SECOND)).unwrap();
        assert_eq!((&json["left"], &json["of"]), (&20.into(), &40.into()));
        assert_eq!((&json["estimated_seconds"], &json["pool"]), (&9.into(), &"web".into()));
    }

    #[test]
    fn it_is_no_more_exact_than_an_estimate() {
        let seconds = [0, 99, 100, 5999, 6000].map(|n| about(Duration::from_secs(n)));
        assert_eq!(seconds, ["1 s", "99 s", "2 min", "100 min", "2 h"]);
    }
}
