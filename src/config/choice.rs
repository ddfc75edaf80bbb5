//! Words with a meaning: the values of keys that take one of a few words.
//!
//! Each list also has the words of the contract that a later version will know, so that
//! using one of them is answered with "not yet" rather than with "unknown".

use super::nearest::nearest;
use super::problem::{Complaint, quote};
use super::{AccessLog, Initial, LogFormat, OnDown, OnUnavailable, Policy, ProxyVersion, Timing};

/// The words one key takes.
pub(super) struct Choice<T: 'static> {
    /// Each word and what it means.
    known: &'static [(&'static str, T)],
    /// Words that are promised but not available yet.
    later: &'static [&'static str],
}

impl<T: Copy> Choice<T> {
    /// What `word` means for `key`.
    pub(super) fn find(&self, key: &str, word: &str) -> Result<T, Complaint> {
        if let Some(&(_, value)) = self.known.iter().find(|(known, _)| *known == word) {
            return Ok(value);
        }
        if self.later.contains(&word) {
            return Err(Complaint::new(
                format!("`{key} = {word:?}` is not available in this version"),
                format!("this version has {}", self.words()),
            ));
        }
        let known = self.known.iter().map(|(known, _)| *known);
        let cure = match nearest(word, known) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("write {}", self.words()),
        };
        Err(Complaint::new(format!("`{key}` cannot be {}", quote(word)), cure))
    }

    /// The first word that means `value`.
    pub(super) fn word(&self, value: T) -> Option<&'static str>
    where
        T: PartialEq,
    {
        self.known.iter().find(|(_, known)| *known == value).map(|(word, _)| *word)
    }

    /// All available words, for a cure.
    pub(super) fn words(&self) -> String {
        let words: Vec<String> = self.known.iter().map(|(word, _)| format!("{word:?}")).collect();
        match words.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => words.concat(),
        }
    }
}

/// The policy that the command line calls `name`.
///
/// # Errors
///
/// The complaint the file would give: unknown, or not available in this version.
pub fn balance_by_name(name: &str) -> Result<Policy, Complaint> {
    BALANCE.find("balance", name)
}

/// The log format called `name`, one of [`LOG_FORMATS`].
///
/// # Errors
///
/// The complaint the file would give.
pub fn log_format_by_name(name: &str) -> Result<LogFormat, Complaint> {
    LOG_FORMAT.find("log_format", name)
}

/// The names of the log formats, for help texts.
pub const LOG_FORMATS: [&str; 2] = ["text", "json"];

pub(super) const BALANCE: Choice<Policy> = Choice {
    known: &[
        ("round-robin", Policy::RoundRobin),
        ("weighted-round-robin", Policy::RoundRobin),
        ("least-connections", Policy::LeastConnections),
        ("weighted-least-connections", Policy::LeastConnections),
        ("source-hash", Policy::SourceHash { balance_factor: None }),
        ("ip-hash", Policy::SourceHash { balance_factor: None }),
        ("two-choices", Policy::TwoChoices),
        ("response-time", Policy::ResponseTime { of: Timing::Connect }),
        ("resource", Policy::Resource),
        ("first", Policy::First),
    ],
    later: &[],
};

pub(super) const RESPONSE_TIME: Choice<Timing> = Choice {
    known: &[("connect", Timing::Connect), ("first-byte", Timing::FirstByte)],
    later: &[],
};

pub(super) const SEND_PROXY_PROTOCOL: Choice<Option<ProxyVersion>> = Choice {
    known: &[("off", None), ("v1", Some(ProxyVersion::V1)), ("v2", Some(ProxyVersion::V2))],
    later: &[],
};

pub(super) const ON_UNAVAILABLE: Choice<OnUnavailable> =
    Choice { known: &[("close", OnUnavailable::Close), ("hold", OnUnavailable::HOLD)], later: &[] };

pub(super) const ON_DOWN: Choice<OnDown> =
    Choice { known: &[("keep", OnDown::Keep), ("close", OnDown::Close)], later: &[] };

pub(super) const LOG_FORMAT: Choice<LogFormat> = Choice {
    known: &[(LOG_FORMATS[0], LogFormat::Text), (LOG_FORMATS[1], LogFormat::Json)],
    later: &[],
};

pub(super) const ACCESS_LOG: Choice<AccessLog> = Choice {
    known: &[("off", AccessLog::Off), ("close", AccessLog::Close), ("both", AccessLog::Both)],
    later: &[],
};

pub(super) const MODE: Choice<()> = Choice { known: &[("tcp", ())], later: &["http"] };

/// What `type` of a health table says; the other keys of a check are read apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckType {
    None,
    Tcp,
    Http,
    Redis,
    Mysql,
    Postgres,
    Smtp,
}

pub(super) const HEALTH_TYPE: Choice<CheckType> = Choice {
    known: &[
        ("tcp", CheckType::Tcp),
        ("http", CheckType::Http),
        ("redis", CheckType::Redis),
        ("mysql", CheckType::Mysql),
        ("postgres", CheckType::Postgres),
        ("smtp", CheckType::Smtp),
        ("none", CheckType::None),
    ],
    later: &[],
};

pub(super) const INITIAL: Choice<Initial> = Choice {
    known: &[("checking", Initial::Checking), ("up", Initial::Up), ("down", Initial::Down)],
    later: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_contract_is_a_policy() {
        let source_hash = Policy::SourceHash { balance_factor: None };
        for (name, policy) in [
            ("round-robin", Policy::RoundRobin),
            ("weighted-round-robin", Policy::RoundRobin),
            ("least-connections", Policy::LeastConnections),
            ("weighted-least-connections", Policy::LeastConnections),
            ("source-hash", source_hash),
            ("ip-hash", source_hash),
            ("two-choices", Policy::TwoChoices),
            ("response-time", Policy::ResponseTime { of: Timing::Connect }),
            ("resource", Policy::Resource),
            ("first", Policy::First),
        ] {
            assert_eq!(balance_by_name(name), Ok(policy), "{name}");
        }
    }

    #[test]
    fn known_later_and_unknown_words_are_told_apart() {
        let later = MODE.find("mode", "http").expect_err("this comes later").to_string();
        assert!(later.ends_with("is not available in this version; this version has \"tcp\""));
        for (word, expected) in [
            ("roundrobin", "cannot be `roundrobin`; did you mean \"round-robin\"?"),
            ("magic", "cannot be `magic`; write \"round-robin\", \"weighted-round-robin\", "),
            ("Round-Robin", "did you mean \"round-robin\"?"),
            ("least-conn", "did you mean \"least-connections\"?"),
        ] {
            let complaint = balance_by_name(word).expect_err(word).to_string();
            assert!(complaint.contains(expected), "{complaint}");
        }
    }
}
