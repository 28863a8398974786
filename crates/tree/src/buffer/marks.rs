//! Two bits for each record of a mini-page, by its index: *dirty* (the page lacks it) and *used* (somebody read or wrote it again since
//! the mini-page was made). With the record's kind they are the paper's four types (Bf-Tree table 1).
//!
//! They stand behind the records, in memory of their own: readers set *used* under a shared latch, so these bytes are atomics and
//! no slice of the buffer covers them. Order between threads is the latch's; all accesses are relaxed. They are std's atomics also under
//! shuttle, where no reader may depend on *used* anyway and *dirty* changes under the exclusive latch only.

use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU8, Ordering},
};

use crate::pool::class::mark_bytes;

/// The marks of one mini-page.
#[derive(Clone, Copy)]
pub(super) struct Marks<'b> {
    dirty: &'b [AtomicU8],
    used: &'b [AtomicU8],
}

impl<'b> Marks<'b> {
    /// The marks at the end of a mini-page of `bytes` bytes.
    ///
    /// # Safety
    /// `memory` has `bytes` initialised bytes that live for `'b`, and nobody has a reference to those that [`mark_bytes`] says.
    pub(super) unsafe fn at_end(memory: NonNull<u8>, bytes: usize) -> Self {
        let len = mark_bytes(bytes);
        // SAFETY: within the memory; an `AtomicU8` is a byte.
        let (dirty, used) = unsafe { (memory.add(bytes - 2 * len), memory.add(bytes - len)) };
        // SAFETY: as above; the caller keeps other references away.
        unsafe {
            Self {
                dirty: NonNull::slice_from_raw_parts(dirty.cast(), len).as_ref(),
                used: NonNull::slice_from_raw_parts(used.cast(), len).as_ref(),
            }
        }
    }

    /// Records that there are marks for.
    pub(super) fn records_max(self) -> usize {
        8 * self.dirty.len()
    }

    /// No record has a mark.
    pub(super) fn clear(self) {
        self.dirty.iter().chain(self.used).for_each(|byte| byte.store(0, Ordering::Relaxed));
    }

    /// Whether the page lacks record `index`.
    pub(super) fn is_dirty(self, index: usize) -> bool {
        get(self.dirty, index)
    }

    /// Whether record `index` was used.
    pub(super) fn is_used(self, index: usize) -> bool {
        get(self.used, index)
    }

    /// Sets or clears the dirty mark of record `index`.
    pub(super) fn set_dirty(self, index: usize, dirty: bool) {
        let byte = &self.dirty[index / 8];
        let before = byte.load(Ordering::Relaxed);
        let after = if dirty { before | bit(index) } else { before & !bit(index) };
        byte.store(after, Ordering::Relaxed);
    }

    /// Notes that record `index` was used; readers may do so beside each other.
    pub(super) fn set_used(self, index: usize) {
        if !self.is_used(index) {
            self.used[index / 8].fetch_or(bit(index), Ordering::Relaxed);
        }
    }

    /// Makes a place for an unmarked record at `index`: the marks from there on move up.
    pub(super) fn insert(self, index: usize) {
        shift(self.dirty, index);
        shift(self.used, index);
    }

    /// Takes over the marks of as many records as both have room for.
    pub(super) fn copy(self, from: Self) {
        for (to, from) in self.dirty.iter().zip(from.dirty).chain(self.used.iter().zip(from.used)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

fn bit(index: usize) -> u8 {
    1 << (index % 8)
}

fn get(bytes: &[AtomicU8], index: usize) -> bool {
    bytes[index / 8].load(Ordering::Relaxed) & bit(index) != 0
}

/// Moves the bits from `index` on up by one; the last falls out.
fn shift(bytes: &[AtomicU8], index: usize) {
    let first = index / 8;
    for at in (first + 1..bytes.len()).rev() {
        let carried = bytes[at - 1].load(Ordering::Relaxed) >> 7;
        bytes[at].store(bytes[at].load(Ordering::Relaxed) << 1 | carried, Ordering::Relaxed);
    }
    let below = bit(index) - 1;
    let byte = bytes[first].load(Ordering::Relaxed);
    bytes[first].store(byte & below | (byte & !below) << 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use zonda_rt::Rng;

    use super::*;

    #[test]
    fn marks_follow_their_records() {
        const BYTES: usize = 512;
        let mut memory = [0_u64; BYTES / 8];
        let at = NonNull::new(memory.as_mut_ptr()).expect("an array").cast();
        // SAFETY: `memory` is used through the marks only.
        let marks = unsafe { Marks::at_end(at, BYTES) };
        let mut rng = Rng::seeded(1);
        let mut model: Vec<(bool, bool)> = Vec::new();
        while model.len() < marks.records_max() {
            let index = rng.index(model.len() + 1);
            let (dirty, used) = (rng.chance(0.5), rng.chance(0.3));
            marks.insert(index);
            marks.set_dirty(index, dirty);
            if used {
                marks.set_used(index);
            }
            model.insert(index, (dirty, used));
            let seen: Vec<_> = (0..model.len()).map(|i| (marks.is_dirty(i), marks.is_used(i))).collect();
            assert_eq!(seen, model);
        }
        marks.clear();
        assert!((0..model.len()).all(|i| !marks.is_dirty(i) && !marks.is_used(i)));
    }
}
