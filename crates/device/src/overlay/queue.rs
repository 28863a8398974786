//! The queue of a device that keeps what is written to it in memory, over one that is only read: reads of what only that one has are in
//! flight there, as without the memory over it; everything else is done when it is submitted, as by the plain queue.

use crate::queue::{Blocking, SyncQueue, refuse_full};
use crate::{Completion, Io, IoQueue, Lba, Rejected, Result};

/// A device in memory over another.
pub(super) trait OverBase: Blocking {
    /// Whether a read gets nothing but what the base has. What is wrong with it is told by doing it here.
    fn is_of_base(&self, at: Lba, into: &[u8]) -> bool;
}

/// The queue.
#[derive(Debug)]
pub(super) struct OverlayQueue<D> {
    here: SyncQueue<D>,
    base: Box<dyn IoQueue>,
}

impl<D: OverBase> OverlayQueue<D> {
    /// A queue as deep as that of the base.
    pub(super) fn new(here: SyncQueue<D>, base: Box<dyn IoQueue>) -> Self {
        Self { here, base }
    }
}

impl<D: OverBase> IoQueue for OverlayQueue<D> {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        if self.in_flight() == self.depth() {
            return Err(refuse_full(self.depth(), io));
        }
        match &io {
            Io::Read { at, into } if self.here.device().is_of_base(*at, into) => self.base.submit(token, io),
            _ => self.here.submit(token, io),
        }
    }

    fn start(&mut self) {
        self.base.start();
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let of_base = match self.base.in_flight() {
            0 => 0,
            _ => self.base.complete(min.saturating_sub(self.here.in_flight()), out)?,
        };
        Ok(of_base + self.here.complete(0, out)?)
    }

    fn in_flight(&self) -> usize {
        self.base.in_flight() + self.here.in_flight()
    }

    fn depth(&self) -> usize {
        self.base.depth()
    }
}
