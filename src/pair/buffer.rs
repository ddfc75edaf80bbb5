//! Buffers for bytes that wait: read from one side, not yet taken by the other.
//!
//! A flow owns a buffer only while it holds such bytes. The pool keeps a bounded stock of empty
//! ones, so a pair with nothing in flight costs no buffer memory, and a busy one no allocation.
//! A buffer is filled once and then only emptied; refilling a part-emptied buffer is deliberately
//! not possible, because a source is not read while its flow holds bytes.

/// A stock of empty buffers of one size.
#[derive(Debug)]
pub struct BufferPool {
    #[expect(clippy::vec_box, reason = "a flow holds a box, so that it is one word when idle")]
    free: Vec<Box<Buffer>>,
    size: usize,
    stock: usize,
    borrowed: usize,
}

impl BufferPool {
    /// A pool of buffers of `size` bytes that keeps at most `stock` empty ones.
    #[must_use]
    pub fn new(size: usize, stock: usize) -> Self {
        Self { free: Vec::new(), size, stock, borrowed: 0 }
    }

    /// Borrows a buffer holding a copy of `bytes`, which are at most [`Self::size`] long.
    ///
    /// # Panics
    /// If `bytes` is empty or longer than a buffer: the caller reads no more than fits.
    pub fn hold(&mut self, bytes: &[u8]) -> Box<Buffer> {
        assert!(!bytes.is_empty() && bytes.len() <= self.size, "a buffer holds 1..=size bytes");
        let mut buffer = self.free.pop().unwrap_or_else(|| Box::new(Buffer::new(self.size)));
        buffer.data.extend_from_slice(bytes);
        self.borrowed += 1;
        buffer
    }

    /// Takes a buffer back, whatever it still holds.
    ///
    /// # Panics
    /// If more buffers come back than were borrowed.
    pub fn give_back(&mut self, mut buffer: Box<Buffer>) {
        assert!(self.borrowed > 0, "a buffer came back that was never borrowed");
        self.borrowed -= 1;
        if self.free.len() < self.stock {
            buffer.data.clear();
            buffer.taken = 0;
            self.free.push(buffer);
        }
    }

    /// The capacity of one buffer in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many buffers are out with flows.
    #[must_use]
    pub fn borrowed(&self) -> usize {
        self.borrowed
    }
}

/// Bytes on their way, in order, the oldest first.
#[derive(Debug)]
pub struct Buffer {
    data: Vec<u8>,
    taken: usize,
}

impl Buffer {
    fn new(size: usize) -> Self {
        Self { data: Vec::with_capacity(size), taken: 0 }
    }

    /// The bytes not yet taken.
    #[must_use]
    pub fn waiting(&self) -> &[u8] {
        &self.data[self.taken..]
    }

    /// Marks the oldest `count` bytes as delivered; true when none is left.
    ///
    /// # Panics
    /// If fewer than `count` bytes wait.
    pub fn take(&mut self, count: usize) -> bool {
        assert!(count <= self.data.len() - self.taken, "took more than the buffer holds");
        self.taken += count;
        self.taken == self.data.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_out_once_and_in_order(
            bytes in prop::collection::vec(any::<u8>(), 1..512),
            cuts in prop::collection::vec(1usize..64, 1..600),
        ) {
            let mut pool = BufferPool::new(512, 2);
            let mut buffer = pool.hold(&bytes);
            let mut out = Vec::new();
            for cut in cuts {
                let count = cut.min(buffer.waiting().len());
                out.extend_from_slice(&buffer.waiting()[..count]);
                if buffer.take(count) {
                    break;
                }
            }
            out.extend_from_slice(buffer.waiting());
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_returned_buffer_forgets_what_it_held() {
        let mut pool = BufferPool::new(8, 1);
        let mut first = pool.hold(b"secret");
        first.take(2);
        pool.give_back(first);
        assert_eq!(pool.hold(b"x").waiting(), b"x");
    }

    #[test]
    fn the_stock_is_bounded_and_borrowing_is_counted() {
        let mut pool = BufferPool::new(8, 1);
        let (a, b) = (pool.hold(b"a"), pool.hold(b"b"));
        assert_eq!(pool.borrowed(), 2);
        pool.give_back(a);
        pool.give_back(b);
        assert_eq!((pool.borrowed(), pool.free.len()), (0, 1));
    }
}
