//! Chunks of 256 KiB that slabs are cut from, and slabs that no list has.
//!
//! They are mapped: between chunks that lie among what an allocator hands out, whatever large was there for a moment leaves holes that
//! nobody counts, and a process with a budget of 22 MiB held 13 MiB more (I6).
//!
//! Unsafe code: chunks are raw memory, owned here until the arena is dropped.

use std::{
    alloc::{Layout, handle_alloc_error},
    ptr::NonNull,
};

use zonda_rt::{discard_memory, map_memory, unmap_memory};

use super::slab::{Size, SlabAt};

/// What the system is asked for at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Free slabs that keep their memory, for the next that is taken; what more are free go back to the system (I6).
const IDLE_BYTES_MAX: usize = 256 << 10;

/// Chunks and their free slabs: a few *idle* ones that have memory, and *bare* ones that have none until they are written.
#[derive(Default)]
pub(super) struct Chunks {
    chunks: Vec<NonNull<u8>>,
    idle: Vec<SlabAt>,
    bare: Vec<SlabAt>,
}

impl Chunks {
    /// A slab of `size` whose content is of no meaning.
    pub(super) fn take(&mut self, size: Size) -> SlabAt {
        if self.idle.is_empty() && self.bare.is_empty() {
            self.grow(size);
        }
        self.idle.pop().or_else(|| self.bare.pop()).expect("just grown")
    }

    /// Takes a slab back of which no cell is taken.
    pub(super) fn give(&mut self, slab: SlabAt, size: Size) {
        if self.idle.len() < IDLE_BYTES_MAX / size.slab_bytes() {
            self.idle.push(slab);
            return;
        }
        // SAFETY: the slab is in no list any more, and whoever takes it next begins it anew.
        unsafe { discard_memory(slab.memory(), size.slab_bytes()) };
        self.bare.push(slab);
    }

    fn grow(&mut self, size: Size) {
        let layout = chunk_layout();
        let Some(chunk) = map_memory(layout) else { handle_alloc_error(layout) };
        self.chunks.push(chunk);
        // SAFETY: within the chunk.
        let slab = |index: usize| SlabAt::at(unsafe { chunk.add(index * size.slab_bytes()) });
        self.bare.extend((0..CHUNK_BYTES / size.slab_bytes()).rev().map(slab));
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
impl Chunks {
    /// No slab is with a list, and of the free ones only a few keep memory.
    pub(super) fn assert_all_free(&self, size: Size) {
        assert_eq!(self.idle.len() + self.bare.len(), self.chunks.len() * (CHUNK_BYTES / size.slab_bytes()));
        assert!(self.idle.len() * size.slab_bytes() <= IDLE_BYTES_MAX, "the others hold no memory");
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: mapped with this layout; no cell is taken (`Arena::drop`).
            unsafe { unmap_memory(chunk, chunk_layout()) }
        }
    }
}

fn chunk_layout() -> Layout {
    Layout::from_size_align(CHUNK_BYTES, Size::LARGEST.slab_bytes()).expect("constants")
}
