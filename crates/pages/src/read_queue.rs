//! A device queue for the reads of one caller, with the buffers that are out for them.

use zonda_device::{AlignedBuf, Completion, Io, IoQueue};

use crate::PageError;
use crate::source::Source;

/// Reads of one caller in flight. Contract: every buffer that comes is given [back](Self::give_back). Dropped before that, after an error,
/// it waits for what is in flight and frees all of it; else its queue serves the next caller.
pub(crate) struct ReadQueue<'a, S: Source> {
    source: &'a S,
    /// There until it is dropped.
    queue: Option<Box<dyn IoQueue>>,
    /// Of buffers that are not back in the pool: those in flight, and those that were not given back yet.
    lent_bytes: u64,
}

impl<'a, S: Source> ReadQueue<'a, S> {
    /// # Errors
    /// `Device` if no queue can be had.
    pub(crate) fn take(source: &'a S) -> Result<Self, PageError> {
        Ok(Self { source, queue: Some(source.take_queue()?), lent_bytes: 0 })
    }

    fn queue(&mut self) -> &mut dyn IoQueue {
        self.queue.as_deref_mut().expect("there until it is dropped")
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.in_flight())
    }

    pub(crate) fn depth(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.depth())
    }

    /// Asks for `blocks` from `block` on; its completion has `token`.
    ///
    /// # Errors
    /// `Device` if the queue is full.
    pub(crate) fn read(&mut self, token: usize, block: u64, blocks: u64) -> Result<(), PageError> {
        let into = self.source.buffers().take_exact(blocks);
        self.lent_bytes += into.len() as u64;
        let io = Io::Read { at: self.source.lba(block), into };
        Ok(self.queue().submit(token as u64, io).map_err(|rejected| rejected.error)?)
    }

    /// Hands what was asked for to the device and returns at once.
    pub(crate) fn start(&mut self) {
        self.queue().start();
    }

    /// Waits for one in `share` of the reads in flight and adds all that came to `out`.
    ///
    /// # Errors
    /// `Device` if the queue itself fails.
    pub(crate) fn complete(&mut self, share: usize, out: &mut Vec<Completion>) -> Result<(), PageError> {
        let least = self.in_flight().div_ceil(share);
        self.queue().complete(least, out)?;
        Ok(())
    }

    /// Takes back the buffer of a read that came.
    pub(crate) fn give_back(&mut self, buffer: AlignedBuf) {
        self.lent_bytes -= buffer.len() as u64;
        self.source.buffers().put(buffer);
    }
}

impl<S: Source> Drop for ReadQueue<'_, S> {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        if self.lent_bytes == 0 {
            self.source.put_queue(queue);
        } else {
            drop(queue);
            self.source.buffers().forget(self.lent_bytes);
        }
    }
}
