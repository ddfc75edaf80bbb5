//! Pipes for bulk data: the kernel moves pages from socket to pipe to socket, and nothing is
//! copied.
//!
//! A pipe is borrowed only while it carries bytes, and comes back empty; one that ends with bytes
//! in it is thrown away. The stock is bounded, and so is the number lent: a flow that gets none
//! copies. Few are kept, for even an empty pipe counts against what its user may have
//! (fs.pipe-user-pages-soft), and other processes may be of the same user.

/// A bounded stock of empty pipes.
#[derive(Debug)]
pub struct PipeStock<P> {
    free: Vec<P>,
    lent: usize,
    most: usize,
    /// How many requests are refused before making a pipe is tried again.
    refusals: u32,
}

impl<P> PipeStock<P> {
    /// A stock that lends at most `most` pipes at one time.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { free: Vec::new(), lent: 0, most, refusals: 0 }
    }

    /// An empty pipe from the stock or from `make`, if there may be another. When none can be
    /// made, that is not tried again before one has come back or many requests were refused: what
    /// stood in the way may be over, and with none lent nothing else would tell.
    pub fn borrow(&mut self, make: impl FnOnce() -> std::io::Result<P>) -> Option<P> {
        if self.lent >= self.most {
            return None;
        }
        let pipe = match self.free.pop() {
            Some(pipe) => pipe,
            None if self.refusals > 0 => {
                self.refusals -= 1;
                return None;
            }
            None => make().inspect_err(|_| self.refusals = REFUSALS).ok()?,
        };
        self.lent += 1;
        Some(pipe)
    }

    /// Takes an empty pipe back.
    pub fn give_back(&mut self, pipe: P) {
        self.throw_away();
        if self.free.len() < KEPT {
            self.free.push(pipe);
        }
    }

    /// Notes that a pipe that was lent is no more.
    ///
    /// # Panics
    /// If none was lent.
    pub fn throw_away(&mut self) {
        assert!(self.lent > 0, "a pipe came back that was never lent");
        self.lent -= 1;
        self.refusals = 0;
    }

    /// How many are out with flows.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.lent
    }
}

/// A pipe with bytes in it, waiting for a sink.
#[derive(Debug)]
pub struct Loaded<P> {
    /// The pipe.
    pub pipe: P,
    /// Bytes in it; never zero.
    pub count: usize,
}

/// Empty pipes kept for reuse. A flow gives its pipe back within the same call unless its sink is
/// full, so that more are rarely wanted at one time.
const KEPT: usize = 16;
/// A flow asks once for some full reads, so this is some ten megabytes of copying.
const REFUSALS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lends_no_more_than_it_may_and_reuses_what_comes_back() {
        let mut made = 0;
        let mut stock = PipeStock::new(2);
        let mut make = || {
            made += 1;
            Ok(made)
        };
        assert_eq!((stock.borrow(&mut make), stock.borrow(&mut make)), (Some(1), Some(2)));
        assert_eq!(stock.borrow(&mut make), None);
        stock.give_back(1);
        assert_eq!(stock.borrow(&mut make), Some(1));
        stock.throw_away();
        assert_eq!(stock.borrow(&mut make), Some(3));
        assert_eq!(stock.lent(), 2);
    }

    #[test]
    fn a_failure_to_make_one_is_not_repeated_for_every_read() {
        let mut stock: PipeStock<()> = PipeStock::new(9);
        assert_eq!(stock.borrow(|| Ok(())), Some(()));
        assert_eq!(stock.borrow(|| Err(std::io::ErrorKind::Other.into())), None);
        assert_eq!(stock.borrow(|| panic!("tried again")), None);
        stock.throw_away();
        assert_eq!(stock.borrow(|| Ok(())), Some(()));
    }

    /// A shortage at a time when no pipe was lent would otherwise be the end of splicing.
    #[test]
    fn making_one_is_tried_again_when_none_can_come_back() {
        let mut stock: PipeStock<()> = PipeStock::new(9);
        assert_eq!(stock.borrow(|| Err(std::io::ErrorKind::Other.into())), None);
        for _ in 0..REFUSALS {
            assert_eq!(stock.borrow(|| panic!("tried again too soon")), None);
        }
        assert_eq!(stock.borrow(|| Ok(())), Some(()));
    }

    #[test]
    fn only_a_few_are_kept() {
        let mut stock = PipeStock::new(100);
        let pipes: Vec<i32> = (0..100).filter_map(|n| stock.borrow(|| Ok(n))).collect();
        assert_eq!(pipes.len(), 100);
        pipes.into_iter().for_each(|pipe| stock.give_back(pipe));
        assert_eq!((stock.free.len(), stock.lent()), (KEPT, 0));
    }
}
