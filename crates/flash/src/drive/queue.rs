//! Many commands in flight from one thread, on a modelled drive.
use std::sync::Arc;

use zonda_device::{AlignedBuf, Completion, DeviceError, Io, IoQueue, Lba, QUEUE_DEPTH_MAX, Rejected, Result};

use super::timing::{Pending, Timing};
use crate::core::Nanos;
use crate::model::{Command, Model};

/// What a request does to the data, and what it costs.
pub(super) trait Store: Send + Sync + std::fmt::Debug {
    /// Does it at once.
    fn apply(&self, io: Io) -> (Result<Lba>, Option<AlignedBuf>, Option<Command>);
}

/// The queue: data moves at submission, the answer comes when the model says.
#[derive(Debug)]
pub(super) struct FlashQueue<S, M: Model> {
    store: S,
    timing: Arc<Timing<M>>,
    waiting: Vec<(Option<Pending>, Completion)>,
    depth: usize,
}

impl<S: Store, M: Model> FlashQueue<S, M> {
    pub(super) fn new(store: S, timing: Arc<Timing<M>>, depth: u32) -> Result<Self> {
        if depth == 0 || depth > QUEUE_DEPTH_MAX {
            let (value, max) = (depth.into(), QUEUE_DEPTH_MAX.into());
            return Err(DeviceError::Geometry { field: "queue depth", value, min: 1, max });
        }
        Ok(Self { store, timing, waiting: Vec::new(), depth: depth as usize })
    }

    /// Takes what is answered; the least time at which something more may be.
    fn take_answered(&mut self, out: &mut Vec<Completion>) -> Option<Nanos> {
        let mut earliest: Option<Nanos> = None;
        let mut index = 0;
        while index < self.waiting.len() {
            match self.waiting[index].0.map_or(Ok(None), |pending| self.timing.poll(pending).map(Some)) {
                Ok(_) => out.push(self.waiting.remove(index).1),
                Err(at) => {
                    earliest = Some(earliest.map_or(at, |earliest| earliest.min(at)));
                    index += 1;
                }
            }
        }
        earliest
    }
}

impl<S: Store, M: Model> IoQueue for FlashQueue<S, M> {
    fn submit(&mut self, token: u64, io: Io) -> std::result::Result<(), Box<Rejected>> {
        if self.waiting.len() == self.depth {
            let error = DeviceError::Busy { in_flight: self.depth as u64, max: self.depth as u64 };
            return Err(Box::new(Rejected { error, io }));
        }
        let (result, buffer, command) = self.store.apply(io);
        // What failed takes no time, but for the part of a commit that was done.
        let takes_time = |command: &Command| result.is_ok() || matches!(command, Command::CommitWindow { .. });
        let command = command.filter(takes_time);
        let pending = command.map(|command| self.timing.submit(command));
        self.waiting.push((pending, Completion { token, result, buffer }));
        Ok(())
    }

    fn complete(&mut self, min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let before = out.len();
        let wanted = before + min.min(self.waiting.len());
        loop {
            match self.take_answered(out) {
                Some(at) if out.len() < wanted => {
                    let pending: Vec<Pending> = self.waiting.iter().filter_map(|(pending, _)| *pending).collect();
                    self.timing.wait_until(at, &pending);
                }
                _ => return Ok(out.len() - before),
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    fn depth(&self) -> usize {
        self.depth
    }
}

impl<S, M: Model> Drop for FlashQueue<S, M> {
    fn drop(&mut self) {
        for pending in self.waiting.drain(..).filter_map(|(pending, _)| pending) {
            self.timing.wait(pending);
        }
    }
}
