//! Bytes that look like nothing else, and a digest to tell whether they arrived.

use std::io::{Read, Write};

/// An endless stream of bytes, the same for the same seed (xorshift, Marsaglia 2003).
#[derive(Debug, Clone)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next `length` bytes; a multiple of eight.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for word in bytes.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes());
        }
        bytes
    }

    /// Writes `total` bytes to `out`; returns their digest.
    pub(crate) fn pour(&mut self, total: usize, out: &mut impl Write) -> Digest {
        let mut digest = Digest::default();
        let mut left = total;
        while left > 0 {
            let part = self.take(left.min(PIECE));
            out.write_all(&part).unwrap();
            digest.add(&part);
            left -= part.len();
        }
        digest
    }
}

/// Length and hash of a stream (FNV-1a over words of eight bytes), however it is cut into pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    hash: u64,
    rest: Vec<u8>,
    pub(crate) length: usize,
}

impl Default for Digest {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, rest: Vec::new(), length: 0 }
    }
}

impl Digest {
    /// The digest of everything up to the end of the stream.
    pub(crate) fn drain(source: &mut impl Read) -> Self {
        let mut digest = Self::default();
        let mut space = vec![0; PIECE];
        loop {
            match source.read(&mut space).unwrap() {
                0 => return digest,
                count => digest.add(&space[..count]),
            }
        }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut digest = Self::default();
        digest.add(bytes);
        digest
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len();
        if !self.rest.is_empty() {
            let missing = bytes.len().min(8 - self.rest.len());
            self.rest.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.rest.len() < 8 {
                return;
            }
            let word = std::mem::take(&mut self.rest);
            self.mix(&word);
        }
        let words = bytes.chunks_exact(8);
        self.rest.extend_from_slice(words.remainder());
        words.for_each(|word| self.mix(word));
    }

    fn mix(&mut self, word: &[u8]) {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
}

const PIECE: usize = 128 * 1024;
