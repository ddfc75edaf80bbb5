//! Pipes for bulk data: the kernel moves pages from socket to pipe to socket, and nothing is
//! copied.
//!
//! A pipe is borrowed only while it carries bytes, and comes back empty; one that ends with bytes
//! in it is thrown away. The stock is bounded, and so is the number lent: a flow that gets none
//! copies.

/// A bounded stock of empty pipes.
#[derive(Debug)]
pub struct PipeStock<P> {
    free: Vec<P>,
    lent: usize,
    most: usize,
    out_of_order: bool,
}

impl<P> PipeStock<P> {
    /// A stock that lends at most `most` pipes at one time, and keeps as many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { free: Vec::new(), lent: 0, most, out_of_order: false }
    }

    /// An empty pipe from the stock or from `make`, if there may be another. When none can be
    /// made, that is not tried again before one has come back.
    pub fn borrow(&mut self, make: impl FnOnce() -> std::io::Result<P>) -> Option<P> {
        if self.lent >= self.most {
            return None;
        }
        let pipe = match self.free.pop() {
            Some(pipe) => pipe,
            None if self.out_of_order => return None,
            None => make().inspect_err(|_| self.out_of_order = true).ok()?,
        };
        self.lent += 1;
        Some(pipe)
    }

    /// Takes an empty pipe back.
    pub fn give_back(&mut self, pipe: P) {
        self.throw_away();
        self.free.push(pipe);
    }

    /// Notes that a pipe that was lent is no more.
    ///
    /// # Panics
    /// If none was lent.
    pub fn throw_away(&mut self) {
        assert!(self.lent > 0, "a pipe came back that was never lent");
        self.lent -= 1;
        self.out_of_order = false;
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
}
