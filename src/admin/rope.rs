//! Text that grows piece by piece and is given away piece by piece.
//!
//! Megabytes in one stretch would be moved whenever they outgrow their place, and copied once more
//! to be sent; both take milliseconds at a time.

use std::collections::VecDeque;
use std::fmt;

/// Bytes in pieces, none of which is longer than [`PIECE`].
#[derive(Debug, Default)]
pub(super) struct Rope {
    pieces: VecDeque<Vec<u8>>,
    length: usize,
}

impl Rope {
    /// Adds to the end.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len();
        while !bytes.is_empty() {
            let space = self.pieces.back().map_or(0, |piece| PIECE - piece.len());
            if space < bytes.len().min(PIECE) {
                self.pieces.push_back(Vec::new());
                continue;
            }
            let (fits, rest) = bytes.split_at(bytes.len().min(PIECE));
            if let Some(piece) = self.pieces.back_mut() {
                piece.extend_from_slice(fits);
            }
            bytes = rest;
        }
    }

    /// Adds all of another one, which is not copied.
    pub(super) fn append(&mut self, mut other: Self) {
        self.length += other.length;
        self.pieces.append(&mut other.pieces);
    }

    /// The first piece, which is no longer in it.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let piece = self.pieces.pop_front()?;
        self.length -= piece.len();
        Some(piece)
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn last(&self) -> Option<u8> {
        self.pieces.back()?.last().copied()
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.pieces.iter().flatten().copied().collect();
        String::from_utf8(bytes).unwrap()
    }
}

impl From<Vec<u8>> for Rope {
    fn from(bytes: Vec<u8>) -> Self {
        let mut rope = Self::default();
        rope.push(&bytes);
        rope
    }
}

impl<'a> Extend<&'a str> for Rope {
    fn extend<T: IntoIterator<Item = &'a str>>(&mut self, texts: T) {
        texts.into_iter().for_each(|text| self.push(text.as_bytes()));
    }
}

impl fmt::Write for Rope {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Some of these go through a socket in a tenth of a millisecond.
pub(super) const PIECE: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_went_in_comes_out_in_pieces_of_bounded_length(
            lengths in prop::collection::vec(0usize..100_000, 0..12),
            cut in 0usize..12,
        ) {
            let (mut rope, mut other, mut all) = (Rope::default(), Rope::default(), Vec::new());
            for (index, length) in lengths.into_iter().enumerate() {
                let bytes: Vec<u8> = (0u8..251).cycle().take(length).collect();
                all.extend(&bytes);
                let into = if index < cut { &mut rope } else { &mut other };
                into.push(&bytes);
            }
            rope.append(other);
            prop_assert_eq!((rope.len(), rope.is_empty()), (all.len(), all.is_empty()));
            prop_assert_eq!(rope.last(), all.last().copied());
            let mut out = Vec::new();
            while let Some(piece) = rope.pop() {
                prop_assert!(!piece.is_empty() && piece.len() <= PIECE);
                out.extend(piece);
                prop_assert_eq!(rope.len(), all.len() - out.len());
            }
            prop_assert_eq!(out, all);
        }
    }
}
