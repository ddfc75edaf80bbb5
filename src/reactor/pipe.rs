//! Kernel pipes that carry bulk data from socket to socket.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};

/// A pipe, and how much it can hold.
#[derive(Debug)]
pub(super) struct KernelPipe {
    reader: OwnedFd,
    writer: OwnedFd,
    size: usize,
}

impl KernelPipe {
    /// A pipe as large as the kernel grants. An ordinary user who has many gets only tiny ones
    /// (fs.pipe-user-pages-soft), and those are of no use.
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        for size in SIZES {
            if fcntl_setpipe_size(&writer, size).is_ok() {
                break;
            }
        }
        let size = fcntl_getpipe_size(&writer)?;
        if size < LEAST {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the pipe is too small"));
        }
        Ok(Self { reader, writer, size })
    }

    pub(super) fn fill_from(&self, socket: impl AsFd) -> io::Result<usize> {
        Ok(splice(socket, None, &self.writer, None, self.size, FLAGS)?)
    }

    pub(super) fn drain_to(&self, socket: impl AsFd, count: usize) -> io::Result<usize> {
        Ok(splice(&self.reader, None, socket, None, count, FLAGS)?)
    }
}

const FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);
/// Sizes to ask for, in bytes, the largest first.
const SIZES: [usize; 3] = [1 << 20, 1 << 18, 1 << 16];
/// Below this a pipe carries less per call than the scratch buffer.
const LEAST: usize = 1 << 16;
