//! One in-memory instance of the log.

use zerocopy::IntoBytes;

use super::unit::{Measure, put_unit};
use crate::format::LogPartHeader;
use crate::record::Record;

/// The ring of one instance (ZKV 3.5): operations collect here, encoded, until a writer copies them to its chunk.
///
/// It is half of the double buffer: the writer copies the bytes out under the instance's lock (some microseconds) and
/// writes its copy to the device with the lock free, so appends go on meanwhile.
#[derive(Debug, Default)]
pub(super) struct Instance {
    ring: Vec<u8>,
    /// Number of the first op in the ring.
    first: u64,
    /// The number that the next op would have without a gap.
    next: u64,
    pointers: bool,
}

/// What a writer got from an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Every number taken is below this one.
    pub(super) end: u64,
    /// Whether value pointers are among the ops.
    pub(super) pointers: bool,
}

impl Instance {
    pub(super) fn with_capacity(ring_bytes: usize) -> Self {
        Self { ring: Vec::with_capacity(ring_bytes), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Bytes that the ring adds to a chunk.
    pub(super) fn part_bytes(&self) -> usize {
        size_of::<LogPartHeader>() + self.ring.len()
    }

    /// Whether a unit fits. An empty ring takes any unit: a long batch makes it grow until it is taken.
    pub(super) fn has_room(&self, unit: &Measure, ring_bytes: usize) -> bool {
        self.ring.is_empty() || self.ring.len() + unit.bytes_max <= ring_bytes
    }

    /// Encodes a unit whose ops have the numbers from `first`.
    pub(super) fn push<'a>(&mut self, first: u64, unit: &Measure, ops: impl Iterator<Item = Record<'a>>) {
        if self.ring.is_empty() {
            (self.first, self.next) = (first, first);
        }
        put_unit(&mut self.ring, first - self.next, unit.count, ops);
        self.next = first + unit.count;
        self.pointers |= unit.pointers;
    }

    /// Moves the ring's bytes to the end of `chunk`, behind a part head.
    pub(super) fn take(&mut self, chunk: &mut Vec<u8>, ring_bytes: usize) -> Taken {
        let len = u32::try_from(self.ring.len()).expect("a ring holds at most one chunk, a chunk less than 4 GiB");
        let header = LogPartHeader { first_sequence: self.first.into(), len_bytes: len.into() };
        chunk.extend_from_slice(header.as_bytes());
        chunk.extend_from_slice(&self.ring);
        self.ring.clear();
        if self.ring.capacity() > 2 * ring_bytes {
            self.ring.shrink_to(ring_bytes);
        }
        Taken { end: self.next, pointers: std::mem::take(&mut self.pointers) }
    }
}
