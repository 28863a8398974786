//! What the flash knows of one zone.
use std::collections::VecDeque;

/// How far a zone has come: bytes admitted to the buffer, given to the dies, and on flash. Always: on flash <= dispatched
/// <= admitted.
#[derive(Clone, Debug, Default)]
pub(super) struct ZoneTiming {
    admitted: u64,
    dispatched: u64,
    on_flash: u64,
    /// Units on their way behind `on_flash`, in order: (end, done).
    pending: VecDeque<(u64, bool)>,
    finished: bool,
    opened: bool,
    /// Counts resets, so that programs of an earlier life are told apart.
    pub(super) cycle: u32,
    /// Resets of what was on flash, in part at least.
    pub(super) erases: u32,
}

impl ZoneTiming {
    pub(super) fn holding(bytes: u64, finished: bool) -> Self {
        Self { admitted: bytes, dispatched: bytes, on_flash: bytes, finished, ..Self::default() }
    }

    /// As if it had always held so many bytes, on flash; programs on their way are of an earlier life.
    pub(super) fn hold(&mut self, bytes: u64, finished: bool) {
        *self = Self { cycle: self.cycle + 1, erases: self.erases, ..Self::holding(bytes, finished) };
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    pub(super) fn dispatched(&self) -> u64 {
        self.dispatched
    }

    /// Bytes from the zone's start that are certainly on flash.
    pub(super) fn on_flash(&self) -> u64 {
        self.on_flash
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// True if it is as after a reset.
    pub(super) fn is_untouched(&self) -> bool {
        self.admitted == 0 && !self.finished && !self.opened
    }

    pub(super) fn open(&mut self) {
        self.opened = true;
    }

    pub(super) fn admit(&mut self, bytes: u64) {
        self.admitted += bytes;
    }

    /// A unit that ends at `end` is on its way; returns the zone's cycle.
    pub(super) fn dispatch(&mut self, end: u64) -> u32 {
        self.dispatched = end;
        self.pending.push_back((end, false));
        self.cycle
    }

    /// The unit that ends at `end` is on flash.
    pub(super) fn programmed(&mut self, cycle: u32, end: u64) {
        if cycle != self.cycle {
            return;
        }
        if let Some(unit) = self.pending.iter_mut().find(|unit| unit.0 == end) {
            unit.1 = true;
        }
        while let Some(&(end, true)) = self.pending.front() {
            self.on_flash = end;
            self.pending.pop_front();
        }
    }

    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    /// Empties the zone; returns the bytes that were in the buffer and will never be programmed.
    pub(super) fn reset(&mut self) -> u64 {
        let dropped = self.admitted - self.dispatched;
        let erases = self.erases + u32::from(self.dispatched > 0);
        *self = Self { cycle: self.cycle + 1, erases, ..Self::default() };
        dropped
    }
}
