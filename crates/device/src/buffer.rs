//! Buffers that a device with direct I/O accepts. Safe code is not enough: `Vec<u8>` cannot ask for an alignment.
use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    fmt,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};

use crate::{DeviceError, Result};

/// Alignment of every [`AlignedBuf`], in bytes: enough for direct I/O on every known device.
pub const BUFFER_ALIGNMENT: usize = 4096;

/// Owned bytes at an address that is a multiple of [`BUFFER_ALIGNMENT`]. Starts zeroed; its length never changes.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the buffer owns its bytes alone, as `Box<[u8]>` does.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared references give shared access to plain bytes only.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// A buffer of `bytes` zeros.
    #[must_use]
    pub fn with_len(bytes: usize) -> Self {
        if bytes == 0 {
            return Self { start: dangling(), len_bytes: 0 };
        }
        let layout = layout(bytes);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, len_bytes: bytes }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut buffer = Self::with_len(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, BUFFER_ALIGNMENT).expect("a buffer is far smaller than the address space")
}

fn dangling() -> NonNull<u8> {
    NonNull::new(std::ptr::without_provenance_mut(BUFFER_ALIGNMENT)).expect("the alignment is not zero")
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len_bytes > 0 {
            // SAFETY: allocated in `with_len` with the same layout, freed once.
            unsafe { dealloc(self.start.as_ptr(), layout(self.len_bytes)) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` has `len_bytes` initialised bytes (or is dangling and the length 0), owned by self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> Self {
        Self::from_slice(self)
    }
}

impl Default for AlignedBuf {
    fn default() -> Self {
        Self::with_len(0)
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len_bytes)
    }
}

/// Checks length and address of a buffer for a device with blocks of `block_bytes`; returns its length in blocks.
pub(crate) fn check(buffer: &[u8], block_bytes: u32) -> Result<u64> {
    let block = u64::from(block_bytes);
    let (bytes, address) = (buffer.len() as u64, buffer.as_ptr().addr() as u64);
    if bytes == 0 || !bytes.is_multiple_of(block) {
        return Err(DeviceError::Unaligned { what: "buffer length in bytes", value: bytes, multiple: block });
    }
    let alignment = block.min(BUFFER_ALIGNMENT as u64);
    if !address.is_multiple_of(alignment) {
        return Err(DeviceError::Unaligned { what: "buffer address", value: address, multiple: alignment });
    }
    Ok(bytes / block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zeroed_and_copies() {
        for bytes in [0, 1, 4096, 100_000] {
            let mut buffer = AlignedBuf::with_len(bytes);
            assert_eq!(buffer.as_ptr().addr() % BUFFER_ALIGNMENT, 0);
            assert!(buffer.iter().all(|&b| b == 0) && buffer.len() == bytes);
            buffer.fill(7);
            assert_eq!(&*buffer.clone(), &*buffer);
        }
    }

    #[test]
    fn check_refuses_odd_lengths_and_addresses() {
        let buffer = AlignedBuf::with_len(8192);
        assert_eq!(check(&buffer, 4096).unwrap(), 2);
        assert!(check(&buffer[..0], 4096).is_err());
        assert!(check(&buffer[..4095], 4096).is_err());
        assert!(check(&buffer[8..4104], 4096).is_err());
        assert_eq!(check(&buffer[512..1024], 512).unwrap(), 1);
    }
}
