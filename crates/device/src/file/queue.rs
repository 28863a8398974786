//! What the queues need of a file backend, and the choice between them.
use super::{host_file::HostFile, options::QueueKind};
use crate::{
    Io, IoQueue, Lba, Result, WriteGrant,
    queue::{Blocking, SyncQueue, check_depth},
};

/// The I/O of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transfer {
    /// Read `bytes` from the file; the rest of the buffer is zeros.
    Read { offset: u64, bytes: usize },
    /// Write the whole buffer.
    Write { offset: u64 },
    /// `fdatasync`.
    Sync,
}

/// A checked request: its I/O is to be done, then it must be ended.
#[derive(Debug)]
pub(crate) struct Started {
    /// The address for the completion.
    pub(crate) at: Lba,
    pub(crate) transfer: Transfer,
    /// The write's right to its blocks; `None` for reads and flushes, and on block devices.
    pub(crate) grant: Option<WriteGrant>,
}

/// A file backend as the queue sees it: requests are checked, their I/O done elsewhere, and ended.
pub(crate) trait Target: Clone + Send + Sync + std::fmt::Debug + 'static {
    fn file(&self) -> &HostFile;
    /// Checks a request and plans its I/O.
    fn start(&self, io: &Io) -> Result<Started>;
    /// Takes note of how the I/O of `bytes` went.
    fn end(&self, started: Started, bytes: usize, outcome: Result<()>) -> Result<Lba>;
}

/// Opens the queue that the options ask for.
pub(crate) fn open_queue<T: Target>(
    kind: QueueKind,
    target: T,
    blocking: impl Blocking + 'static,
    depth: u32,
) -> Result<Box<dyn IoQueue>> {
    check_depth(depth)?;
    if kind != QueueKind::Sync {
        match open_uring(target, depth) {
            Ok(queue) => return Ok(queue),
            Err(error) if kind == QueueKind::Uring => return Err(error),
            // Not there or not allowed, as in many containers: plain calls do as well.
            Err(_) => {}
        }
    }
    Ok(Box::new(SyncQueue::new(blocking, depth)?))
}

#[cfg(target_os = "linux")]
fn open_uring<T: Target>(target: T, depth: u32) -> Result<Box<dyn IoQueue>> {
    Ok(Box::new(super::uring::UringQueue::new(target, depth)?))
}

#[cfg(not(target_os = "linux"))]
fn open_uring<T: Target>(_: T, _: u32) -> Result<Box<dyn IoQueue>> {
    Err(crate::DeviceError::NotSupported { what: "io_uring on this system" })
}
