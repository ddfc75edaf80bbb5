//! Which HTTP status codes pass a probe: single ones, classes and ranges.

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::DeValue;

use super::draft::Report;
use super::problem::{Complaint, quote};
use super::section::{Entry, read_list};

/// One code, class or range, or a list of them.
pub(super) fn status_list(
    entry: &Entry<'_>,
    report: &mut Report,
) -> Option<Vec<RangeInclusive<u16>>> {
    let values = match entry.value().get_ref() {
        DeValue::Array(values) if values.is_empty() => {
            let complaint = Complaint::new("`expect` is an empty list", FORM);
            entry.complain(complaint, report);
            return None;
        }
        DeValue::Array(values) => values.as_ref(),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => std::slice::from_ref(entry.value()),
    };
    let (ranges, _) = read_list(entry.key_span(), values, report, status);
    (ranges.len() == values.len()).then_some(ranges)
}

fn status(value: &Spanned<DeValue<'_>>, report: &mut Report) -> Option<RangeInclusive<u16>> {
    let read = match value.get_ref() {
        DeValue::String(text) => parse_range(text),
        DeValue::Integer(integer) => parse_range(&integer.to_string()),
        DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => Err(Complaint::new("this is no status", FORM)),
    };
    read.map_err(|complaint| report.add(complaint.at(value.span()))).ok()
}

/// `200`, `2xx` or `200-399`.
fn parse_range(text: &str) -> Result<RangeInclusive<u16>, Complaint> {
    let no_status = || Complaint::new(format!("{} is no HTTP status", quote(text)), FORM);
    if let Some((first, last)) = text.split_once('-') {
        let (Some(first), Some(last)) = (parse_code(first), parse_code(last)) else {
            return Err(no_status());
        };
        if first > last {
            let message = format!("the range {} ends before it begins", quote(text));
            return Err(Complaint::new(message, format!("write \"{last}-{first}\"")));
        }
        return Ok(first..=last);
    }
    if let Some(class) = text.strip_suffix("xx") {
        let first = parse_code(&format!("{class}00")).ok_or_else(no_status)?;
        return Ok(first..=first + 99);
    }
    parse_code(text).map(|code| code..=code).ok_or_else(no_status)
}

fn parse_code(text: &str) -> Option<u16> {
    let is_code = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u16>().ok().filter(|code| is_code && CODES.contains(code))
}

const FORM: &str = "write a status such as 200, a class such as \"2xx\", or \"200-399\"";

const CODES: RangeInclusive<u16> = 100..=599;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_classes_and_ranges_are_read() {
        for (text, expected) in [
            ("200", 200..=200),
            ("100", 100..=100),
            ("599", 599..=599),
            ("2xx", 200..=299),
            ("5xx", 500..=599),
            ("200-399", 200..=399),
            ("204-204", 204..=204),
        ] {
            assert_eq!(parse_range(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "", "20", "2000", "099", "600", "xx", "6xx", "0xx", "2XX", "2xxx", "22xx", "+20", "-",
            "200-", "-200", "200-399-", "200-600", "99-200", "200,204", "2xx-3xx", "2é",
        ] {
            let complaint = parse_range(text).expect_err(text);
            assert!(complaint.message.contains("is no HTTP status"), "{text}: {complaint}");
        }
        let complaint = parse_range("399-200").expect_err("backwards").to_string();
        assert!(complaint.ends_with("write \"200-399\""), "{complaint}");
    }
}
