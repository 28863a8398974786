//! Long-lived memory in aligned pieces, straight from the system.
//!
//! An allocator keeps a note in front of every piece. Pieces that are as long as they are aligned then lie a piece apart, and what is between them
//! fills with small things of every kind: the process holds twice what anybody counted (I6). Pieces from here lie side by side.
//!
//! Unsafe, because what is mapped is raw memory, and the standard library has no call for it.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Zeroed memory of `layout`, whose size is a multiple of its alignment and not 0; `None` if the system has none. It goes back by [`unmap_memory`]. Costs up to
/// three calls of the system; the memory is held once it is touched.
///
/// # Panics
/// If the size is no multiple of the alignment, or 0.
#[must_use]
pub fn map_memory(layout: Layout) -> Option<NonNull<u8>> {
    assert!(layout.size() > 0 && layout.size().is_multiple_of(layout.align()), "whole pieces only: {layout:?}");
    system::map(layout)
}

/// Gives memory back.
///
/// # Safety
/// `at` came from [`map_memory`] with this layout, and nobody uses it any more.
pub unsafe fn unmap_memory(at: NonNull<u8>, layout: Layout) {
    // SAFETY: passed on to the caller.
    unsafe { system::unmap(at, layout) }
}

#[cfg(unix)]
mod system {
    use super::{Layout, NonNull};

    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        let (bytes, align) = (layout.size(), layout.align());
        // Longer by the alignment: somewhere in it a piece begins where it should.
        let mapped = anonymous(bytes + align)?;
        let base = mapped.as_ptr();
        let before = base.addr().next_multiple_of(align) - base.addr();
        // SAFETY: `before <= align`, so all three parts lie within what was just mapped, which nobody else knows of.
        unsafe {
            give(base, before);
            give(base.add(before + bytes), align - before);
            NonNull::new(base.add(before))
        }
    }

    pub(super) unsafe fn unmap(at: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller owns the piece.
        unsafe { give(at.as_ptr(), layout.size()) }
    }

    fn anonymous(bytes: usize) -> Option<NonNull<u8>> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the system chooses touches no memory that is there.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED { None } else { NonNull::new(mapped.cast()) }
    }

    /// # Safety
    /// The caller owns these bytes of a mapping.
    unsafe fn give(at: *mut u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: passed on to the caller. A refusal, for too many mappings, leaves memory mapped that nobody uses.
            unsafe { libc::munmap(at.cast(), bytes) };
        }
    }
}

#[cfg(not(unix))]
mod system {
    use super::{Layout, NonNull};

    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
    }

    pub(super) unsafe fn unmap(at: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on to the caller.
        unsafe { std::alloc::dealloc(at.as_ptr(), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_zeroed_and_their_own() {
        for bytes in [16 << 10, 2 << 20] {
            let layout = Layout::from_size_align(bytes, bytes).expect("powers of two");
            let pieces: Vec<_> = (0..9).map(|_| map_memory(layout).expect("memory")).collect();
            for (nth, piece) in pieces.iter().enumerate() {
                assert!(piece.addr().get().is_multiple_of(bytes));
                // SAFETY: mapped above, and given back below.
                let content = unsafe { std::slice::from_raw_parts_mut(piece.as_ptr(), bytes) };
                assert!(content.iter().all(|byte| *byte == 0), "piece {nth}");
                content.fill(7);
            }
            // SAFETY: each once, with the same layout.
            pieces.into_iter().for_each(|piece| unsafe { unmap_memory(piece, layout) });
        }
    }
}
