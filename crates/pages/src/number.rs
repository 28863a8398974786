//! Conversions between counts of blocks on a device and sizes in memory.

use crate::BLOCK_BYTES;

/// A count of things held in memory as an index.
pub(crate) fn index(count: u64) -> usize {
    usize::try_from(count).expect("what is held in memory is addressable")
}

/// The bytes of blocks held in memory.
pub(crate) fn bytes(blocks: u64) -> usize {
    index(blocks) * BLOCK_BYTES
}
