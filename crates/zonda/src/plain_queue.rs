//! The queue of devices in memory: a request is done when it is submitted, and waits here to be taken.

use std::collections::VecDeque;
use std::fmt::Debug;

use zonda_device::{Completion, DeviceError, Io, IoQueue, Lba, Rejected, Result};

/// A device that does one request at a time.
pub(crate) trait Perform: Send + Debug {
    /// Does a request with the buffer in it; returns where the data is.
    ///
    /// # Errors
    /// Those of the request.
    fn perform(&self, io: &mut Io) -> Result<Lba>;
}

/// The queue.
#[derive(Debug)]
pub(crate) struct PlainQueue<D> {
    device: D,
    done: VecDeque<Completion>,
    depth: usize,
}

impl<D: Perform> PlainQueue<D> {
    pub(crate) fn new(device: D, depth: u32) -> Self {
        Self { device, done: VecDeque::with_capacity(depth as usize), depth: depth as usize }
    }
}

impl<D: Perform> IoQueue for PlainQueue<D> {
    fn submit(&mut self, token: u64, mut io: Io) -> std::result::Result<(), Box<Rejected>> {
        if self.done.len() == self.depth {
            let error = DeviceError::Busy { in_flight: self.depth as u64, max: self.depth as u64 };
            return Err(Box::new(Rejected { error, io }));
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

    fn complete(&mut self, _min: usize, out: &mut Vec<Completion>) -> Result<usize> {
        let count = self.done.len();
        out.extend(self.done.drain(..));
        Ok(count)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn depth(&self) -> usize {
        self.depth
    }
}
