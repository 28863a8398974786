//! What pages and areas of the store in memory share: power, counters and the failures to come.

use zonda_pages::{BLOCK_BYTES, PageError};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{FRAME_BYTES, Result};

/// Power, counters and the failures to come; shared by pages and areas.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    operations: AtomicU64,
    writes: AtomicU64,
    blocks_written: AtomicU64,
    flushes: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) released_value_bytes: AtomicU64,
    cut_at: AtomicU64,
    full: AtomicBool,
    full_of_pages: AtomicBool,
    chunks_until_full: AtomicU64,
    fail_read: AtomicBool,
    panic_flush: AtomicBool,
}

impl Wire {
    /// Counts one operation, or fails it when the power is off.
    fn operation(&self) -> Result<()> {
        let number = self.operations.fetch_add(1, Ordering::SeqCst) + 1;
        let cut_at = self.cut_at.load(Ordering::SeqCst);
        if cut_at != 0 && number >= cut_at {
            return Err(PageError::Tree(format!("the power went at operation {cut_at}")));
        }
        Ok(())
    }

    pub(super) fn write(&self, bytes: usize) -> Result<u64> {
        self.operation()?;
        let blocks = (bytes + FRAME_BYTES).div_ceil(BLOCK_BYTES) as u64;
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.blocks_written.fetch_add(blocks, Ordering::SeqCst);
        Ok(blocks)
    }

    pub(super) fn flush(&self) -> Result<()> {
        assert!(!self.panic_flush.swap(false, Ordering::SeqCst), "planted");
        self.operation()?;
        self.flushes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Takes the power away at the `operations`-th device operation from now (1 = the next one).
    pub(crate) fn cut_after(&self, operations: u64) {
        self.cut_at.store(self.operations() + operations, Ordering::SeqCst);
    }

    /// Lets appends to areas and placing answer `NoSpace`, or no longer.
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// Full behind so many chunks.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn fill_after(&self, chunks: u64) {
        self.chunks_until_full.store(chunks, Ordering::SeqCst);
    }

    /// Lets placing answer `NoSpace`, or no longer, while areas find room.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn set_full_of_pages(&self, full: bool) {
        self.full_of_pages.store(full, Ordering::SeqCst);
    }

    /// The next read of a page fails; the ones after it do not.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn fail_next_read(&self) {
        self.fail_read.store(true, Ordering::SeqCst);
    }

    /// The next flush panics; the ones after it do not.
    #[cfg(not(feature = "shuttle"))]
    pub(crate) fn panic_in_next_flush(&self) {
        self.panic_flush.store(true, Ordering::SeqCst);
    }

    /// Counts a read of a page, or fails it.
    pub(super) fn read(&self) -> Result<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let fails = self.fail_read.swap(false, Ordering::SeqCst);
        if fails { Err(PageError::Tree("this read fails".into())) } else { Ok(()) }
    }

    fn room(&self) -> Result<()> {
        if !self.full.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(PageError::NoSpace { live_bytes: 1, usable_bytes: 1, free_zones: 0, reserve_bytes: 0 })
    }

    pub(super) fn room_for_chunk(&self) -> Result<()> {
        self.room()?;
        let take = |left: u64| left.checked_sub(1);
        if self.chunks_until_full.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) == Ok(1) {
            self.set_full(true);
        }
        Ok(())
    }

    pub(super) fn room_for_pages(&self) -> Result<()> {
        if !self.full_of_pages.load(Ordering::SeqCst) {
            return self.room();
        }
        Err(PageError::NoSpace { live_bytes: 1, usable_bytes: 1, free_zones: 0, reserve_bytes: 0 })
    }

    /// Writes and flushes so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::SeqCst)
    }

    /// Device writes so far.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// 4 KiB blocks written so far.
    pub(crate) fn blocks_written(&self) -> u64 {
        self.blocks_written.load(Ordering::SeqCst)
    }

    /// Bytes of value chunks that were declared dead.
    pub(crate) fn released_value_bytes(&self) -> u64 {
        self.released_value_bytes.load(Ordering::SeqCst)
    }

    /// Device flushes so far.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::SeqCst)
    }
}
