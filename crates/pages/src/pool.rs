//! Pool of aligned buffers for device reads and page groups: no allocation per read or write once it is warm.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use zonda_device::AlignedBuf;
use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::BLOCK_BYTES;

/// Size classes: 1, 2, 4, ... 1024 blocks (4 MiB, more than the longest frame).
const CLASSES: usize = 11;
/// Bytes of free buffers that one class keeps, but always one buffer, unless it is longer than any group of pages.
const KEPT_BYTES_MAX: usize = 128 << 10;
/// The longest buffer that is kept, a group of pages: those of long chunks would hold more than a small memory budget, for good.
const KEPT_BUFFER_BYTES_MAX: usize = 256 << 10;

/// Free buffers by size class. Always: `bytes` is what all buffers of the pool take, lent ones included.
pub(crate) struct BufferPool {
    free: [Mutex<Vec<AlignedBuf>>; CLASSES],
    bytes: AtomicU64,
}

impl BufferPool {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { free: std::array::from_fn(|_| Mutex::new(Vec::new())), bytes: AtomicU64::new(0) })
    }

    /// A buffer of at least `blocks` blocks with any content. One short lock; allocates when the class has none.
    pub(crate) fn take(self: &Arc<Self>, blocks: u64) -> PooledBuf {
        let class = class_of(blocks);
        let kept = self.free[class].lock().pop();
        let buffer = kept.unwrap_or_else(|| self.allocate(class_bytes(class)));
        PooledBuf { pool: Arc::clone(self), buffer }
    }

    /// A buffer of exactly `blocks` blocks that travels with a queued request; give it back with [`put`](Self::put). Lengths that
    /// are no power of two are allocated.
    pub(crate) fn take_exact(self: &Arc<Self>, blocks: u64) -> AlignedBuf {
        if blocks.is_power_of_two() {
            return std::mem::take(&mut self.take(blocks).buffer);
        }
        self.allocate(crate::number::bytes(blocks))
    }

    /// Takes back what [`take_exact`](Self::take_exact) gave.
    pub(crate) fn put(&self, buffer: AlignedBuf) {
        if (buffer.len() / BLOCK_BYTES).is_power_of_two() {
            return self.give(buffer);
        }
        self.bytes.fetch_sub(buffer.len() as u64, Ordering::Relaxed);
    }

    /// Says that buffers of so many bytes that [`take_exact`](Self::take_exact) gave were freed: they went with a queue that failed.
    pub(crate) fn forget(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of all buffers, lent and free.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn allocate(&self, bytes: usize) -> AlignedBuf {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        AlignedBuf::with_len(bytes)
    }

    fn give(&self, buffer: AlignedBuf) {
        let bytes = buffer.len();
        let mut free = self.free[class_of((bytes / BLOCK_BYTES) as u64)].lock();
        if bytes <= KEPT_BUFFER_BYTES_MAX && free.len() < (KEPT_BYTES_MAX / bytes).max(1) {
            free.push(buffer);
        } else {
            self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        }
    }
}

fn class_of(blocks: u64) -> usize {
    let class = blocks.next_power_of_two().trailing_zeros() as usize;
    assert!(blocks > 0 && class < CLASSES, "a buffer of {blocks} blocks");
    class
}

fn class_bytes(class: usize) -> usize {
    BLOCK_BYTES << class
}

/// A buffer lent by a pool; goes back when dropped.
pub(crate) struct PooledBuf {
    pool: Arc<BufferPool>,
    buffer: AlignedBuf,
}

impl Deref for PooledBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl DerefMut for PooledBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        if !self.buffer.is_empty() {
            self.pool.give(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BLOCKS_MAX;

    #[test]
    fn buffers_come_back_and_are_counted() {
        let pool = BufferPool::new();
        let first = pool.take(3);
        assert_eq!((first.len(), pool.bytes()), (4 * BLOCK_BYTES, 4 * BLOCK_BYTES as u64));
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.take(4).as_ptr(), address);
        assert_eq!(pool.bytes(), 4 * BLOCK_BYTES as u64);
    }

    #[test]
    fn a_class_keeps_a_bounded_number() {
        let pool = BufferPool::new();
        let lent: Vec<_> = (0..10).map(|_| pool.take(8)).collect();
        drop(lent);
        assert_eq!(pool.bytes(), KEPT_BYTES_MAX as u64);
        drop(pool.take(PAGE_BLOCKS_MAX));
        assert_eq!(pool.bytes(), (KEPT_BYTES_MAX + KEPT_BUFFER_BYTES_MAX) as u64);
        drop(pool.take(PAGE_BLOCKS_MAX + 1));
        drop(pool.take(1024));
        assert_eq!(pool.bytes(), (KEPT_BYTES_MAX + KEPT_BUFFER_BYTES_MAX) as u64);
    }
}
