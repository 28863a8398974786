//! The one place where the batch array is published: read without a lock under an epoch guard.
//!
//! Unsafe code here turns the pointer back into a reference. Why it is right: the cell owns one count of the array; it gives that
//! count to the epoch when the array is taken out, so it is dropped only after every guard that was held then is gone, and a
//! reader holds its guard for as long as it uses the reference.

use std::{ptr, sync::Arc};

use zonda_rt::{
    atomic::{AtomicPtr, Ordering},
    epoch::{Epoch, Guard},
};

use super::array::BatchArray;

/// Holds at most one array.
pub(crate) struct ArrayCell {
    pointer: AtomicPtr<BatchArray>,
}

impl ArrayCell {
    /// No array.
    pub(crate) fn empty() -> Self {
        Self { pointer: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.pointer.load(Ordering::SeqCst).is_null()
    }

    /// The array, for as long as the guard is held.
    pub(crate) fn load<'g>(&self, _guard: &'g Guard<'_>) -> Option<&'g BatchArray> {
        // SAFETY: null, or made by `Arc::into_raw` in `publish`; its count is dropped only after `_guard` (see the top).
        unsafe { self.pointer.load(Ordering::SeqCst).as_ref() }
    }

    /// The array, for as long as the caller likes.
    pub(crate) fn share(&self, _guard: &Guard<'_>) -> Option<Arc<BatchArray>> {
        let pointer = self.pointer.load(Ordering::SeqCst);
        if pointer.is_null() {
            return None;
        }
        // SAFETY: as in `load`: the cell's count lives while `_guard` does, so another one may be made of it.
        Some(unsafe {
            Arc::increment_strong_count(pointer);
            Arc::from_raw(pointer)
        })
    }

    /// Publishes an array, which has what is left of the one that is there. Whoever evicts does so, alone.
    pub(crate) fn publish(&self, array: Arc<BatchArray>, epoch: &Epoch) {
        self.swap(Arc::into_raw(array).cast_mut(), epoch);
    }

    /// Takes the array out.
    pub(crate) fn clear(&self, epoch: &Epoch) {
        let was_there = self.swap(ptr::null_mut(), epoch);
        assert!(was_there, "only whoever inserted its last batch takes an array out");
    }

    /// Puts what `Arc::into_raw` made, or nothing, in the place of the array; its memory goes when no reader can hold it. Returns whether
    /// there was one.
    fn swap(&self, to: *mut BatchArray, epoch: &Epoch) -> bool {
        let pointer = self.pointer.swap(to, Ordering::SeqCst);
        if pointer.is_null() {
            return false;
        }
        // SAFETY: made by `Arc::into_raw` in `publish`, and swapped out by nobody else.
        let array = unsafe { Arc::from_raw(pointer) };
        let bytes = usize::try_from(array.memory_bytes()).unwrap_or(usize::MAX);
        epoch.defer(Box::new(array), bytes);
        true
    }
}

impl Drop for ArrayCell {
    fn drop(&mut self) {
        let pointer = self.pointer.load(Ordering::Relaxed);
        if !pointer.is_null() {
            // SAFETY: made by `Arc::into_raw`; the cell is going away, so nobody reads it.
            drop(unsafe { Arc::from_raw(pointer) });
        }
    }
}
