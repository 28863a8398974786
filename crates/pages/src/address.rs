//! Page identity and page address.

use std::fmt;

/// Bytes of one block: the unit of every address in a store.
pub const BLOCK_BYTES: usize = 4096;

/// The longest page, in blocks.
pub const PAGE_BLOCKS_MAX: u64 = 64;

const BLOCKS_BITS: u32 = 6;

/// Identity of a page that stays the same when the page moves: the index of its leaf in the leaf table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

/// Where a page is: its first block and its length in blocks, in 46 bits (`block << 6 | blocks - 1`).
///
/// Block 0 of a store never holds a page, so zero means "never written" and is not a `PageAddress`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageAddress(u64);

impl PageAddress {
    /// Bits that an address needs; users may pack flags above them.
    pub const BITS: u32 = 46;

    /// The address of `blocks` blocks that begin at `block`.
    ///
    /// # Panics
    /// If `block` is 0 or needs more than 40 bits, or `blocks` is not in 1..=64: both are bugs of the store.
    #[must_use]
    pub fn new(block: u64, blocks: u64) -> Self {
        assert!(block != 0 && block >> (Self::BITS - BLOCKS_BITS) == 0, "block {block} is not a page address");
        assert!((1..=PAGE_BLOCKS_MAX).contains(&blocks), "a page of {blocks} blocks");
        Self(block << BLOCKS_BITS | (blocks - 1))
    }

    /// The address packed in `raw`, or `None` if `raw` is zero (never written) or not an address.
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<Self> {
        (raw >> BLOCKS_BITS != 0 && raw >> Self::BITS == 0).then_some(Self(raw))
    }

    /// The 46 bits.
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// First block.
    #[must_use]
    pub fn block(self) -> u64 {
        self.0 >> BLOCKS_BITS
    }

    /// Length in blocks, 1..=64.
    #[must_use]
    pub fn blocks(self) -> u64 {
        (self.0 & (PAGE_BLOCKS_MAX - 1)) + 1
    }

    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(self) -> u64 {
        self.blocks() * BLOCK_BYTES as u64
    }
}

impl fmt::Debug for PageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.block(), self.blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks_at_the_limits() {
        for (block, blocks) in [(1, 1), ((1 << 40) - 1, 64), (7, 2)] {
            let address = PageAddress::new(block, blocks);
            assert_eq!((address.block(), address.blocks()), (block, blocks));
            assert_eq!(PageAddress::from_raw(address.raw()), Some(address));
        }
    }

    #[test]
    fn rejects_raw_values_that_are_no_address() {
        assert_eq!(PageAddress::from_raw(0), None);
        assert_eq!(PageAddress::from_raw(63), None);
        assert_eq!(PageAddress::from_raw(1 << 46), None);
    }
}
