//! Long-lived memory in aligned pieces, straight from the system.
//!
//! An allocator keeps a note in front of every piece. Pieces that are as long as they are aligned then lie a piece apart, and what is
//! between them fills with small things of every kind: the process holds twice what anybody counted (I6). Pieces from here lie side by
//! side.
//!
//! Unsafe, because what is mapped is raw memory, and the standard library has no call for it.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Zeroed memory of `layout`, whose size is a multiple of its alignment and not 0; `None` if the system has none. It goes back by
/// [`unmap_memory`]. Costs up to three calls of the system; the memory is held once it is touched.
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

/// Gives back to the system what `bytes` of memory at `at` hold, as far as these are whole pages of its: content is lost, the memory stays
/// the caller's and takes place again when it is next written. Nothing happens on systems other than Linux. Costs a call of the system.
///
/// # Safety
/// The caller owns these bytes, and nobody reads them before they are written again.
pub unsafe fn discard_memory(at: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: passed on to the caller: only whole pages within these bytes are touched.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(usize::MAX / 2).max(1);
        let (first, end) = (at.addr().get(), at.addr().get() + bytes);
        let (from, to) = (first.div_ceil(page) * page, end / page * page);
        if from < to {
            libc::madvise(at.as_ptr().add(from - first).cast(), to - from, libc::MADV_DONTNEED);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (at, bytes);
}

/// Bytes of a mapping of their own, zeroed at first. Dropping gives all of them back to the system at once, whatever else is allocated.
#[derive(Debug)]
pub struct MappedBytes {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the bytes are owned and reached through the owner only, as those of a `Box<[u8]>`.
unsafe impl Send for MappedBytes {}
// SAFETY: as above.
unsafe impl Sync for MappedBytes {}

impl MappedBytes {
    /// `bytes` of memory, aligned to a page of 4 KiB; `None` if `bytes` is no positive multiple of that or the system has none.
    #[must_use]
    pub fn new(bytes: usize) -> Option<Self> {
        const PAGE_BYTES: usize = 4096;
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).ok()?;
        let is_whole = bytes > 0 && bytes.is_multiple_of(PAGE_BYTES);
        let at = if is_whole { map_memory(layout) } else { None };
        at.map(|at| Self { at, layout })
    }

    /// Where they begin. Whoever writes there borrows nothing of them meanwhile.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }
}

impl std::ops::Deref for MappedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped with this size, initialised (zeroed), and nobody changes it while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.layout.size()) }
    }
}

impl std::ops::DerefMut for MappedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the exclusive borrow of the owner makes this one exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()) }
    }
}

impl Drop for MappedBytes {
    fn drop(&mut self) {
        // SAFETY: mapped with this layout; no borrow outlives the owner.
        unsafe { unmap_memory(self.at, self.layout) }
    }
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

    #[cfg(target_os = "linux")]
    #[test]
    fn only_whole_pages_are_discarded() {
        let layout = Layout::from_size_align(64 << 10, 64 << 10).expect("powers of two");
        let piece = map_memory(layout).expect("memory");
        // SAFETY: ours, from here to the end of the test.
        let content = unsafe { std::slice::from_raw_parts_mut(piece.as_ptr(), layout.size()) };
        content.fill(7);
        // SAFETY: what is read of it afterwards is either untouched or zero; both are initialised.
        unsafe { discard_memory(piece.add(100), (64 << 10) - 200) };
        assert!(content[..100].iter().chain(&content[(64 << 10) - 100..]).all(|byte| *byte == 7));
        assert!(content[32 << 10..].contains(&0), "what was discarded reads as zero");
        content.fill(9);
        assert!(content.iter().all(|byte| *byte == 9));
        // SAFETY: once, with the same layout.
        unsafe { unmap_memory(piece, layout) };
    }

    #[test]
    fn mapped_bytes_are_zeroed_their_owners_and_whole_pages() {
        let mut pieces: Vec<_> = (0..3).map(|_| MappedBytes::new(16 << 10).expect("memory")).collect();
        for (nth, piece) in (1_u8..).zip(&mut pieces) {
            assert!(piece.len() == 16 << 10 && piece.iter().all(|byte| *byte == 0));
            piece.fill(nth);
        }
        assert!((1_u8..).zip(&pieces).all(|(nth, piece)| piece.iter().all(|byte| *byte == nth)));
        assert!(MappedBytes::new(0).is_none() && MappedBytes::new(100).is_none());
    }

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
