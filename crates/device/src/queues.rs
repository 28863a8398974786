//! Device queues that are kept for the next who needs one: to open one costs calls of the system.

use zonda_rt::Mutex;

use crate::{IoQueue, Result};

/// Queues kept at the most.
const KEPT_MAX: usize = 16;

/// Queues of one device that are not in use; nothing is in flight in them.
#[derive(Debug, Default)]
pub struct Queues(Mutex<Vec<Box<dyn IoQueue>>>);

impl Queues {
    /// A queue: one that is kept, else a new one.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn take(&self, open: impl FnOnce() -> Result<Box<dyn IoQueue>>) -> Result<Box<dyn IoQueue>> {
        let kept = self.0.lock().pop();
        kept.map_or_else(open, Ok)
    }

    /// Takes back a queue with nothing in flight.
    pub fn put(&self, queue: Box<dyn IoQueue>) {
        assert!(queue.in_flight() == 0, "a queue is kept with {} requests in flight", queue.in_flight());
        let mut kept = self.0.lock();
        if kept.len() < KEPT_MAX {
            kept.push(queue);
        }
    }
}
