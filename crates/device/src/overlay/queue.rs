//! The queue of a device that keeps what is written to it in memory, over one that is only read: reads of what only that one has are in
//! flight there, as without the memory over it; everything else is done when it is submitted, and waits here to be taken.

use std::collections::VecDeque;
use std::fmt::Debug;

use crate::{Completion, DeviceError, Io, IoQueue, Lba, Rejected, Result};

/// A device in memory over another.
pub(super) trait Perform: Send + Debug {
    /// Whether a request is a read of nothing but what the base has.
    fn is_of_base(&self, io: &Io) -> bool;

    /// Does a request with the buffer in it; returns where the data is.
    ///
    /// # Errors
    /// Those of the request.
    fn perform(&self, io: &mut Io) -> Result<Lba>;
}

/// The queue.
#[derive(Debug)]
pub(super) struct OverlayQueue<D> {
    device: D,
    base: Box<dyn IoQueue>,
    done: VecDeque<Completion>,
}

impl<D: Perform> OverlayQueue<D> {
    /// A queue as deep as that of the base.
    pub(super) fn new(device: D, base: Box<dyn IoQueue>) -> Self {
        Self { device, base, done: VecDeque::new() }
    }
}

impl<D: Perform> IoQueue for OverlayQueue<D> {
    fn submit(&mut self, token: u64, mut io: Io) -> std::result::Result<(), Box<Rejected>> {
        if self.in_flight() == self.depth() {
            let error = DeviceError::Busy { in_flight: self.depth() as u64, max: self.depth() as u64 };
            return Err(Box::new(Rejected { error, io }));
        }
        if self.device.is_of_base(&io) {
            return self.base.submit(token, io);
        }
        let result = self.device.perform(&mut io);
        let buffer = match io {
            Io::Read { into, .. } => Some(into),
            Io::Write { from, .. } | Io::Append { from, .. } => Some(from),
            Io::Flush => None,
        };
        self.done.push_back(Completion { token, result, buffer });
        Ok(())
    }

    fn start(&mut self) {
        self.base.start();
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let of_base = match self.base.in_flight() {
            0 => 0,
            _ => self.base.complete(min.saturating_sub(self.done.len()), out)?,
        };
        let count = of_base + self.done.len();
        out.extend(self.done.drain(..));
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.base.in_flight() + self.done.len()
    }

    fn depth(&self) -> usize {
        self.base.depth()
    }
}
