//! An allocator with a limit, so that unbounded allocation is found (I10).
//!
//! Safe code cannot be an allocator, and a limit of the process (`ulimit -v`) would not name the input.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::running;

/// No decoder may hold more. The largest legal record is a 16 MiB value, held once and copied once.
const LIVE_BYTES_MAX: usize = 256 << 20;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator; ends the program when more than [`LIVE_BYTES_MAX`] would be held.
pub(crate) struct LimitedHeap;

// SAFETY: every call is passed on to `System` unchanged, which upholds the contract; counting touches no block.
unsafe impl GlobalAlloc for LimitedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's layout, as it came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's layout, as it came.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's block, which came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

fn count(bytes: usize) {
    let live = LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if live > LIVE_BYTES_MAX {
        eprintln!("unbounded allocation: {bytes} more bytes would make {live}, the limit is {LIVE_BYTES_MAX}");
        running::print_replay();
        process::abort();
    }
}
