//! Copies of bytes in mapped memory, for caches whose size follows the work.
//!
//! What a cache gives up, the process gives up: an allocator would keep it, and a process with a budget of 64 MiB held 124 after its cache
//! of pages had shrunk (I6).
//!
//! Unsafe code: a copy is a pointer into a segment that its owner keeps mapped.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::atomic::{AtomicU64, Ordering};
use crate::mapped_cells::SYSTEM_PAGE_BYTES;
use crate::{MappedCell, MappedCells, Mutex};

/// Limits of the size of a segment; between them a new one is [this part](SEGMENT_SHARE) of what is mapped, so that segments are few.
const SEGMENT_BYTES_MIN: usize = 64 << 10;
const SEGMENT_BYTES_MAX: usize = 4 << 20;
const SEGMENT_SHARE: usize = 64;
/// Of what copies take, this part may be held beside them for the next; whole free pages of the system beyond go back to it.
const IDLE_SHARE: usize = 16;

/// Makes copies and knows what memory they hold. Cost of making or dropping one: a short lock, at times a call of the system.
#[derive(Default)]
pub struct MappedCopies {
    memory: Arc<Memory>,
}

#[derive(Default)]
struct Memory {
    cells: Mutex<MappedCells>,
    /// As last seen under the lock.
    resident_bytes: AtomicU64,
}

impl MappedCopies {
    /// A copy of `bytes`, if all copies then hold at most `resident_bytes_max` of the system's memory; `None` too if the system has none.
    #[must_use]
    pub fn copy(&self, bytes: &[u8], resident_bytes_max: u64) -> Option<MappedCopy> {
        let (cell, at) = self.memory.take(bytes.len(), resident_bytes_max)?;
        // SAFETY: the run is ours alone, and at least as long.
        unsafe { at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Some(MappedCopy { memory: Arc::clone(&self.memory), cell, at, len_bytes: bytes.len() })
    }

    /// Memory of the system that all copies hold, with what lies idle between them.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.memory.resident_bytes.load(Ordering::Relaxed)
    }
}

impl Memory {
    fn take(&self, bytes: usize, resident_bytes_max: u64) -> Option<(MappedCell, NonNull<u8>)> {
        let mut cells = self.cells.lock();
        let resident_bytes_max = usize::try_from(resident_bytes_max).unwrap_or(usize::MAX);
        let mut cell = cells.take_within(bytes, resident_bytes_max);
        let bytes_alone = bytes.next_multiple_of(SYSTEM_PAGE_BYTES);
        if cell.is_none() && cells.resident_bytes() + bytes_alone <= resident_bytes_max && grow(&mut cells, bytes) {
            cell = cells.take_within(bytes, resident_bytes_max);
        }
        self.note(&cells);
        cell.map(|cell| (cell, cells.start(cell)))
    }

    fn give(&self, cells: &mut MappedCells, cell: MappedCell) {
        cells.give(cell);
        let idle_bytes_max = cells.taken_bytes() / IDLE_SHARE;
        cells.release(cell.segment(), idle_bytes_max);
        self.note(cells);
    }

    fn note(&self, cells: &MappedCells) {
        self.resident_bytes.store(cells.resident_bytes() as u64, Ordering::Relaxed);
    }
}

/// A new segment in which a run of `bytes` is free; `false` if the system has no memory.
fn grow(cells: &mut MappedCells, bytes: usize) -> bool {
    let segment_bytes = (cells.held_bytes() / SEGMENT_SHARE).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    cells.grow(bytes, segment_bytes)
}

/// Bytes that nobody changes. Its memory is free when it is dropped, whoever made it.
pub struct MappedCopy {
    memory: Arc<Memory>,
    cell: MappedCell,
    at: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the bytes are the copy's alone, as those of a `Box<[u8]>`; it gives them back under a lock.
unsafe impl Send for MappedCopy {}
// SAFETY: as above; nobody changes them.
unsafe impl Sync for MappedCopy {}

impl Deref for MappedCopy {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: written in `MappedCopies::copy`; the run stays where it is until `drop`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len_bytes) }
    }
}

impl Drop for MappedCopy {
    fn drop(&mut self) {
        self.memory.give(&mut self.memory.cells.lock(), self.cell);
    }
}

impl fmt::Debug for MappedCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedCopy({} bytes)", self.len_bytes)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::Seed;

    const PAGE_BYTES: u64 = 4096;

    #[test]
    fn copies_hold_what_they_copied_and_no_more_than_they_may() {
        const BYTES_MAX: u64 = 200 * PAGE_BYTES;
        let mut rng = Seed(3).rng();
        let copies = MappedCopies::default();
        let mut held = Vec::new();
        for _ in 0..20_000 {
            let length = 2_000 + rng.index(2_200);
            let content = vec![rng.index(256).to_le_bytes()[0]; length];
            match copies.copy(&content, BYTES_MAX) {
                Some(copy) => held.push((content, copy)),
                None => {
                    let (content, copy) = held.swap_remove(rng.index(held.len()));
                    assert_eq!(*copy, content[..]);
                }
            }
            assert!(copies.resident_bytes() <= BYTES_MAX);
        }
        let used: u64 = held.iter().map(|(content, _)| content.len() as u64).sum();
        let mapped = copies.memory.cells.lock().held_bytes() as u64;
        assert!(used > BYTES_MAX * 8 / 10 && mapped < 2 * BYTES_MAX, "{used} of {BYTES_MAX}, {mapped} mapped");
        assert!(held.iter().all(|(content, copy)| **copy == content[..]));
        drop(held);
        assert_eq!(copies.resident_bytes(), 0);
    }

    #[test]
    fn dropped_copies_give_their_pages_back_and_outlive_who_made_them() {
        let copies = MappedCopies::default();
        let mut held: Vec<_> = (0..64).filter_map(|_| copies.copy(&[7; 4096], u64::MAX)).collect();
        assert_eq!(copies.resident_bytes(), 64 * PAGE_BYTES);
        held.retain({
            let mut nth = 0;
            move |_| {
                nth += 1;
                nth % 4 == 0
            }
        });
        assert!(copies.resident_bytes() <= 18 * PAGE_BYTES, "{} bytes", copies.resident_bytes());
        drop(copies);
        assert!(held.iter().all(|copy| copy.iter().all(|byte| *byte == 7)));
    }
}
