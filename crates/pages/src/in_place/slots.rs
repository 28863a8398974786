//! The slots of one segment of pages: which blocks are free, which hold a live page. Neither: superseded, and not yet reusable
//! (*in limbo*). Offsets count from the block behind the segment's header.

use super::bitmap::Bitmap;

/// The blocks of a segment of pages. Always: no block is free and live.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Bitmap,
    live: Bitmap,
    free_blocks: u64,
    live_blocks: u64,
}

impl Slots {
    /// All `blocks` free.
    pub(crate) fn new(blocks: u64) -> Self {
        let (free, live) = (Bitmap::new(blocks, true), Bitmap::new(blocks, false));
        Self { free, live, free_blocks: blocks, live_blocks: 0 }
    }

    /// Blocks that a page may take now.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.free_blocks
    }

    /// Blocks of live pages.
    pub(crate) fn live_blocks(&self) -> u64 {
        self.live_blocks
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.free.bytes() + self.live.bytes()
    }

    /// Where the first `blocks` free blocks in a row begin, at or behind `from`.
    pub(crate) fn find(&self, from: u64, blocks: u64) -> Option<u64> {
        self.free.find_run(from, blocks)
    }

    /// Takes free blocks for a live page; `false` if they are not free.
    pub(crate) fn take(&mut self, at: u64, blocks: u64) -> bool {
        let free = self.free.has_all(at, blocks);
        if free {
            self.free.remove(at, blocks);
            self.live.insert(at, blocks);
            self.free_blocks -= blocks;
            self.live_blocks += blocks;
        }
        free
    }

    /// A live page is superseded; `false` if there is none.
    pub(crate) fn release(&mut self, at: u64, blocks: u64) -> bool {
        let live = self.live.has_all(at, blocks);
        if live {
            self.live.remove(at, blocks);
            self.live_blocks -= blocks;
        }
        live
    }

    /// Blocks in limbo may be reused.
    pub(crate) fn free(&mut self, at: u64, blocks: u64) {
        assert!(!self.free.has_any(at, blocks) && !self.live.has_any(at, blocks), "I3 block {at}+{blocks} is in limbo");
        self.free.insert(at, blocks);
        self.free_blocks += blocks;
    }

    /// The next live blocks at or behind `from`: where they begin and how many follow each other.
    pub(crate) fn next_live(&self, from: u64) -> Option<(u64, u64)> {
        let at = self.live.next(from)?;
        Some((at, self.live.run_at(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_from_free_to_live_to_limbo_to_free() {
        let mut slots = Slots::new(10);
        assert!(slots.take(2, 3) && !slots.take(4, 1), "a live block is not free");
        assert_eq!((slots.free_blocks(), slots.live_blocks(), slots.find(0, 3)), (7, 3, Some(5)));
        assert!(slots.release(2, 3) && !slots.release(2, 3), "released once");
        assert_eq!((slots.free_blocks(), slots.live_blocks(), slots.find(1, 2)), (7, 0, Some(5)));
        slots.free(2, 3);
        assert_eq!((slots.free_blocks(), slots.find(0, 10)), (10, Some(0)));
    }

    #[test]
    #[should_panic(expected = "I3")]
    fn a_live_block_is_never_freed() {
        let mut slots = Slots::new(10);
        slots.take(0, 1);
        slots.free(0, 1);
    }
}
