//! The kernel's ring: with wide entries, which NVMe commands need, or without. And memory that the kernel has pinned
//! once, instead of for each request. Safe code is not enough: the kernel keeps addresses.
use std::{io, os::fd::RawFd};

use io_uring::{IoUring, cqueue, squeue};

use crate::AlignedBuf;

/// Pinned memory of one ring at most, in bytes.
const PINNED_BYTES_MAX: usize = 4 << 20;
/// Requests that are longer go without: copying them costs more than pinning.
const PINNED_REQUEST_BYTES_MAX: usize = 64 << 10;
const PAGE_BYTES: usize = 4096;

/// A ring, narrow or wide.
pub(super) enum Ring {
    Narrow(IoUring),
    Wide(IoUring<squeue::Entry128, cqueue::Entry32>),
}

/// A completed request: its number, the kernel's result, and an NVMe command's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completed {
    pub(super) number: u64,
    pub(super) result: i32,
    pub(super) command_result: u64,
}

impl Ring {
    /// A ring for so many requests at a time on these files.
    pub(super) fn new(depth: u32, wide: bool, files: &[RawFd]) -> io::Result<Self> {
        let entries = depth.next_power_of_two();
        let ring = if wide {
            Self::Wide(IoUring::<squeue::Entry128, cqueue::Entry32>::builder().build(entries)?)
        } else {
            Self::Narrow(IoUring::new(entries)?)
        };
        match &ring {
            Self::Narrow(ring) => ring.submitter().register_files(files)?,
            Self::Wide(ring) => ring.submitter().register_files(files)?,
        }
        Ok(ring)
    }

    /// Puts a request into the ring, which must have room.
    ///
    /// # Safety
    /// What the entry points to must stay where it is until its completion was seen.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        let pushed = match self {
            // SAFETY: the caller's promise.
            Self::Narrow(ring) => unsafe { ring.submission().push(&entry) },
            // SAFETY: the caller's promise.
            Self::Wide(ring) => unsafe { ring.submission().push(&entry.into()) },
        };
        pushed.expect("the ring has at least as many entries as there are requests");
    }

    /// Puts an NVMe command into the ring, which must be wide and have room.
    ///
    /// # Safety
    /// As [`push`](Self::push).
    pub(super) unsafe fn push_wide(&mut self, entry: squeue::Entry128) {
        let Self::Wide(ring) = self else { unreachable!("commands are given only where the ring is wide") };
        // SAFETY: the caller's promise.
        let pushed = unsafe { ring.submission().push(&entry) };
        pushed.expect("the ring has at least as many entries as there are requests");
    }

    /// Hands over what was pushed and waits for `want` completions.
    pub(super) fn submit_and_wait(&self, want: usize) -> io::Result<usize> {
        match self {
            Self::Narrow(ring) => ring.submit_and_wait(want),
            Self::Wide(ring) => ring.submit_and_wait(want),
        }
    }

    /// Takes all completions.
    pub(super) fn take(&mut self) -> Vec<Completed> {
        match self {
            Self::Narrow(ring) => {
                let plain =
                    |c: cqueue::Entry| Completed { number: c.user_data(), result: c.result(), command_result: 0 };
                ring.completion().map(plain).collect()
            }
            Self::Wide(ring) => {
                let wide = |c: cqueue::Entry32| Completed {
                    number: c.user_data(),
                    result: c.result(),
                    command_result: c.big_cqe()[0],
                };
                ring.completion().map(wide).collect()
            }
        }
    }

    fn register(&self, buffers: &[libc::iovec]) -> io::Result<()> {
        match self {
            // SAFETY: the buffers belong to `Pinned`, which the queue keeps until all requests are done.
            Self::Narrow(ring) => unsafe { ring.submitter().register_buffers(buffers) },
            // SAFETY: as above.
            Self::Wide(ring) => unsafe { ring.submitter().register_buffers(buffers) },
        }
    }
}

/// One piece of pinned memory for each request of a ring.
pub(super) struct Pinned {
    memory: AlignedBuf,
    piece_bytes: usize,
}

impl Pinned {
    /// Pins memory; `None` if the system's limit on locked memory does not allow it, or pieces would be smaller than a
    /// page.
    pub(super) fn new(ring: &Ring, depth: usize) -> Option<Self> {
        let piece_bytes = (PINNED_BYTES_MAX / depth).min(PINNED_REQUEST_BYTES_MAX) / PAGE_BYTES * PAGE_BYTES;
        if piece_bytes == 0 {
            return None;
        }
        let mut memory = AlignedBuf::with_len(piece_bytes * depth);
        let whole = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
        ring.register(&[whole]).ok().map(|()| Self { memory, piece_bytes })
    }

    /// The piece of a request, if it is long enough.
    pub(super) fn piece(&mut self, request: usize, bytes: usize) -> Option<&mut [u8]> {
        let start = request * self.piece_bytes;
        (bytes <= self.piece_bytes).then(|| &mut self.memory[start..start + bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_long_as_the_limits_allow() {
        let Ok(ring) = Ring::new(8, false, &[]) else { return };
        let Some(mut pinned) = Pinned::new(&ring, 8) else { return };
        assert_eq!(pinned.piece(7, 64 << 10).map(|piece| piece.len()), Some(64 << 10));
        assert!(pinned.piece(0, (64 << 10) + 1).is_none());
    }
}
