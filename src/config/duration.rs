//! Durations as operators write them: a number with a unit, such as `250ms`, `5s` or `1h 30m`.
//!
//! The file and the command line share this, so both accept and refuse the same words. What
//! zero means is the caller's business; anything else between 1 ms and 10 years is accepted.

use std::time::Duration;

use super::problem::{Complaint, quote};

/// Reads a duration; zero is accepted here and means what the key says it means.
///
/// # Errors
///
/// A complaint with its cure when the unit is missing or unknown, or when the value is
/// between zero and 1 ms, or above 10 years.
pub fn parse_duration(text: &str) -> Result<Duration, Complaint> {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    if digits > MOST_DIGITS {
        return Err(too_long(text));
    }
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(bare_number(trimmed));
    }
    let duration = humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::NumberOverflow => too_long(text),
        humantime::DurationError::UnknownUnit { unit, .. } if !unit.is_empty() => Complaint::new(
            format!("{} has the unknown unit {}", quote(text), quote(&unit)),
            "the units are ms, s, m, h and d, as in \"250ms\", \"5s\" or \"1h\"",
        ),
        humantime::DurationError::UnknownUnit { .. }
        | humantime::DurationError::InvalidCharacter(_)
        | humantime::DurationError::NumberExpected(_)
        | humantime::DurationError::Empty => Complaint::new(
            format!("{} is not a duration", quote(text)),
            "write a number with a unit, such as \"250ms\", \"5s\" or \"1h\"",
        ),
    })?;
    if duration > LONGEST {
        return Err(too_long(text));
    }
    if !duration.is_zero() && duration < SHORTEST {
        return Err(Complaint::new(
            format!("{} is shorter than a millisecond", quote(text)),
            "write 1ms or more",
        ));
    }
    Ok(duration)
}

/// The complaint about a number that has no unit; `number` is quoted in the cure.
pub(super) fn bare_number(number: &str) -> Complaint {
    Complaint::new(
        format!("{} has no unit", quote(number)),
        format!("write {:?}, or another unit: ms, s, m, h", format!("{number}s")),
    )
}

fn too_long(text: &str) -> Complaint {
    Complaint::new(format!("{} is longer than 10 years", quote(text)), "write at most 3650d")
}

/// Three thousand six hundred and fifty days, which the cure names.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
const SHORTEST: Duration = Duration::from_millis(1);

/// More digits than any sensible duration has. The parser adds up seconds and nanoseconds and
/// panics when a carry overflows 64 bits (humantime 2.4); so few digits cannot get there.
const MOST_DIGITS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensible_durations_are_read() {
        for (text, expected) in [
            ("0s", Duration::ZERO),
            ("0ms", Duration::ZERO),
            ("1ms", Duration::from_millis(1)),
            ("250ms", Duration::from_millis(250)),
            ("5s", Duration::from_secs(5)),
            ("1.5s", Duration::from_millis(1500)),
            ("5m", Duration::from_secs(300)),
            ("1h 30m", Duration::from_secs(5400)),
            ("3650d", LONGEST),
        ] {
            assert_eq!(parse_duration(text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_a_cure() {
        for (text, message, cure) in [
            ("5", "no unit", "\"5s\""),
            (" 5 ", "no unit", "\"5s\""),
            ("1.5", "no unit", "\"1.5s\""),
            ("", "not a duration", "\"250ms\""),
            ("soon", "not a duration", "\"5s\""),
            ("-5s", "not a duration", "\"5s\""),
            ("5 fortnights", "unknown unit `fortnights`", "ms, s, m, h"),
            ("3651d", "longer than 10 years", "3650d"),
            ("999999999999y", "longer than 10 years", "3650d"),
            ("0.5ms", "shorter than a millisecond", "1ms"),
            ("1ns", "shorter than a millisecond", "1ms"),
        ] {
            let complaint = parse_duration(text).expect_err(text);
            assert!(complaint.message.contains(message), "{text}: {complaint}");
            assert!(complaint.cure.contains(cure), "{text}: {complaint}");
        }
    }

    #[test]
    fn a_carry_past_64_bits_does_not_panic() {
        assert!(parse_duration("18446744073709551615s 1000ms").is_err());
        assert!(parse_duration("18446744073709551615s1000000000ns").is_err());
    }
}
