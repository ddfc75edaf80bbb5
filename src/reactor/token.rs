//! The whole token space: which number in an event stands for what.

use mio::Token;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The pipe that signals come through.
    Signals,
    /// The name resolver has answers.
    Resolver,
    /// A listening socket, by number.
    Acceptor(usize),
    /// The client of the pair in a slot.
    Client(usize),
    /// The backend of the pair in a slot.
    Backend(usize),
    /// A probe, by slot.
    Probe(usize),
    /// A socket that is on its way out, by slot.
    Parting(usize),
    /// A client that we answer ourselves, by slot.
    Guest(usize),
    /// A client of the admin address, by slot.
    Admin(usize),
    /// A listening socket of the admin address, by number.
    AdminAcceptor(usize),
}

impl From<Source> for Token {
    fn from(source: Source) -> Self {
        let (kind, index) = match source {
            Source::Signals => (0, 0),
            Source::Resolver => (0, 1),
            Source::Acceptor(index) => (1, index),
            Source::Client(slot) => (2, slot),
            Source::Backend(slot) => (3, slot),
            Source::Probe(slot) => (4, slot),
            Source::Parting(slot) => (5, slot),
            Source::Guest(slot) => (6, slot),
            Source::Admin(slot) => (7, slot),
            Source::AdminAcceptor(index) => (8, index),
        };
        Self(index << KIND_BITS | kind)
    }
}

impl Source {
    /// What a token stands for; `None` for one that was never given out.
    pub(super) fn from_token(Token(number): Token) -> Option<Self> {
        let index = number >> KIND_BITS;
        match (number & ((1 << KIND_BITS) - 1), index) {
            (0, 0) => Some(Self::Signals),
            (0, 1) => Some(Self::Resolver),
            (1, _) => Some(Self::Acceptor(index)),
            (2, _) => Some(Self::Client(index)),
            (3, _) => Some(Self::Backend(index)),
            (4, _) => Some(Self::Probe(index)),
            (5, _) => Some(Self::Parting(index)),
            (6, _) => Some(Self::Guest(index)),
            (7, _) => Some(Self::Admin(index)),
            (8, _) => Some(Self::AdminAcceptor(index)),
            _ => None,
        }
    }
}

const KIND_BITS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_survives_the_way_through_a_token() {
        let mut all = vec![Source::Signals, Source::Resolver];
        for index in [0, 1, 7, 8, 1 << 40] {
            all.extend([Source::Acceptor(index), Source::Client(index), Source::Backend(index)]);
            all.extend([Source::Probe(index), Source::Parting(index), Source::Guest(index)]);
            all.extend([Source::Admin(index), Source::AdminAcceptor(index)]);
        }
        for source in all {
            assert_eq!(Source::from_token(source.into()), Some(source));
        }
        assert_eq!(Source::from_token(Token(15)), None);
        assert_eq!(Source::from_token(Token(2 << KIND_BITS)), None);
    }
}
