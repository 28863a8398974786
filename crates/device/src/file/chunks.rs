//! Which parts of a block device's file are allocated, so that writes do not stop the reads of a file (see [`ahead`](super::ahead)).
//!
//! Always: a chunk that is told to be allocated was, unless a trim is under way in it, which says so when it is done. Nothing rests on
//! it, and a disk that is full says so to the write itself.
use std::ops::Range;

use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};

use super::host_file::HostFile;

/// Bytes allocated at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// What was allocated since the file was opened.
#[derive(Debug)]
pub(super) struct Chunks {
    /// Past the page cache, on a file system that allocates.
    is_worth_it: AtomicBool,
    /// Where the device begins in the file.
    data_offset: u64,
    capacity_bytes: u64,
    /// A bit for each chunk.
    allocated: Vec<AtomicU64>,
}

impl Chunks {
    pub(super) fn new(file: &HostFile, data_offset: u64, capacity_bytes: u64) -> Self {
        let words = capacity_bytes.div_ceil(CHUNK_BYTES).div_ceil(u64::BITS.into());
        Self {
            is_worth_it: AtomicBool::new(file.is_direct() && !file.read_only()),
            data_offset,
            capacity_bytes,
            allocated: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Before a write to bytes of the file: allocates the chunks that are not.
    pub(super) fn allocate(&self, file: &HostFile, offset: u64, bytes: u64) {
        if !self.is_worth_it.load(Ordering::Relaxed) {
            return;
        }
        for chunk in self.chunks(offset, bytes) {
            let (word, bit) = self.bit(chunk);
            if word.load(Ordering::Relaxed) & bit != 0 || word.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
                continue;
            }
            let start = chunk * CHUNK_BYTES;
            let length = CHUNK_BYTES.min(self.capacity_bytes - start);
            if !file.allocate(self.data_offset + start, length) {
                // A full disk may have room again, but nobody waits for it.
                self.is_worth_it.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Behind a trim of bytes of the file.
    pub(super) fn trimmed(&self, offset: u64, bytes: u64) {
        for chunk in self.chunks(offset, bytes) {
            let (word, bit) = self.bit(chunk);
            word.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    fn chunks(&self, offset: u64, bytes: u64) -> Range<u64> {
        let from = offset - self.data_offset;
        from / CHUNK_BYTES..(from + bytes).div_ceil(CHUNK_BYTES)
    }

    fn bit(&self, chunk: u64) -> (&AtomicU64, u64) {
        let bits = u64::from(u64::BITS);
        let word = usize::try_from(chunk / bits).expect("fewer words than bytes of memory");
        (&self.allocated[word], 1 << (chunk % bits))
    }
}
