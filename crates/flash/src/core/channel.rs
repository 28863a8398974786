//! One channel: moves one thing at a time; what was read goes before what is to be programmed.
use std::collections::VecDeque;

use super::Nanos;

/// Queues of a channel. A program is moved in pieces, and goes to the end of its queue after each.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// The operation that it moves data of.
    pub(super) moving: Option<u32>,
    /// When it has moved it.
    pub(super) free_at: Nanos,
    reads: VecDeque<u32>,
    programs: VecDeque<u32>,
}

impl Channel {
    pub(super) fn queue_read(&mut self, op: u32) {
        self.reads.push_back(op);
    }

    pub(super) fn queue_program(&mut self, op: u32) {
        self.programs.push_back(op);
    }

    /// What it moves next, taken from its queue.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.moving = self.reads.pop_front().or_else(|| self.programs.pop_front());
        self.moving
    }
}
