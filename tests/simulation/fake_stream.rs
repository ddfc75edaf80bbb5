//! The descriptor that a pair owns: a stream whose other half, the [`Socket`], the world holds too.
//!
//! Nothing is decided here; every call goes to the socket.

use std::io::{self, Read, Write};

use evenkeel::pair::endpoint::Stream;

use crate::queues::Run;
use crate::socket::{Parting, Socket};
pub(crate) use shared::Shared;

/// The pair's handle of a socket.
#[derive(Debug)]
pub(crate) struct FakeStream(pub(crate) Shared<Socket>);

impl Read for FakeStream {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.0.get().read(space)
    }
}

impl Write for FakeStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for FakeStream {
    type Pipe = Option<Run>;

    fn make_pipe() -> io::Result<Option<Run>> {
        Ok(None)
    }

    fn fill(&mut self, pipe: &mut Option<Run>) -> io::Result<usize> {
        self.0.get().fill(pipe)
    }

    fn drain(&mut self, pipe: &mut Option<Run>, count: usize) -> io::Result<usize> {
        self.0.get().splice_out(pipe, count)
    }

    fn is_finished_unsaid(&self) -> bool {
        self.0.get().is_finished_unsaid()
    }

    fn establish(&mut self) -> io::Result<()> {
        self.0.get().report_error()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.get().finish()
    }
}

/// Dropping a descriptor closes it, if nobody has said how before.
impl Drop for FakeStream {
    fn drop(&mut self) {
        self.0.get().close(Parting::Polite);
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "a socket is the pair's and the kernel's: both act on it"
)]
mod shared {
    use std::cell::{RefCell, RefMut};
    use std::rc::Rc;

    /// Something that the pair and the world both hold.
    #[derive(Debug)]
    pub(crate) struct Shared<T>(Rc<RefCell<T>>);

    impl<T> Shared<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Rc::new(RefCell::new(value)))
        }

        pub(crate) fn get(&self) -> RefMut<'_, T> {
            self.0.borrow_mut()
        }
    }

    impl<T> Clone for Shared<T> {
        fn clone(&self) -> Self {
            Self(Rc::clone(&self.0))
        }
    }
}
