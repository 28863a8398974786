//! The memory backend's block device. Safe code is not enough: it has no memory of zeros that may be refused and is held only
//! once it is touched.
use std::{
    alloc::{Layout, alloc_zeroed},
    fmt,
    sync::Arc,
};

use zonda_rt::{DeviceCall, RwLock, device_call};

use crate::{
    BlockDevice, DeviceCounters, DeviceError, IoQueue, Lba, Result,
    counters::Counting,
    geometry::{DEVICE_BLOCKS_MAX, check_block_bytes, within},
    mem::index,
    queue::{Block, SyncQueue},
};

/// A block device in memory. Clones are handles to the same device. Takes its whole capacity once it is touched.
#[derive(Clone)]
pub struct MemBlockDevice {
    shared: Arc<Shared>,
}

struct Shared {
    shape: BlockShape,
    bytes: RwLock<Vec<u8>>,
    counting: Counting,
}

/// Block size and count of a block device, with the checks every backend makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockShape {
    pub(crate) block_bytes: u32,
    pub(crate) capacity_blocks: u64,
}

impl BlockShape {
    pub(crate) fn new(block_bytes: u32, capacity_blocks: u64) -> Result<Self> {
        check_block_bytes(block_bytes)?;
        within("capacity_blocks", capacity_blocks, 1, DEVICE_BLOCKS_MAX)?;
        Ok(Self { block_bytes, capacity_blocks })
    }

    /// Checks a span of blocks; returns its first byte.
    pub(crate) fn check_span(&self, at: Lba, blocks: u64) -> Result<u64> {
        if at.0.checked_add(blocks).is_none_or(|end| end > self.capacity_blocks) {
            return Err(DeviceError::OutOfRange { at, blocks, device_blocks: self.capacity_blocks });
        }
        Ok(at.0 * u64::from(self.block_bytes))
    }

    /// Checks a buffer for a span from `at`; returns the span's first byte.
    pub(crate) fn check_buffer(&self, at: Lba, buffer: &[u8]) -> Result<u64> {
        self.check_span(at, crate::buffer::check(buffer, self.block_bytes)?)
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * u64::from(self.block_bytes)
    }
}

impl MemBlockDevice {
    /// A new device of zeros.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned` for absurd numbers; `NoMemory`.
    pub fn new(block_bytes: u32, capacity_blocks: u64) -> Result<Self> {
        let shape = BlockShape::new(block_bytes, capacity_blocks)?;
        let bytes = shape.capacity_bytes();
        Ok(Self::from_bytes(shape, zeros(bytes).ok_or(DeviceError::NoMemory { bytes })?))
    }

    pub(crate) fn from_bytes(shape: BlockShape, bytes: Vec<u8>) -> Self {
        let shared = Shared { shape, bytes: RwLock::new(bytes), counting: Counting::default() };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn shape(&self) -> BlockShape {
        self.shared.shape
    }

    /// A copy of all bytes as they are.
    pub(crate) fn copy_bytes(&self) -> Vec<u8> {
        self.shared.bytes.read().clone()
    }

    /// A copy of one block.
    pub(crate) fn copy_block(&self, at: Lba) -> Vec<u8> {
        let block = self.shared.shape.block_bytes as usize;
        self.shared.bytes.read()[index(at.0) * block..][..block].to_vec()
    }

    pub(crate) fn copy_out(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let from = index(self.shared.shape.check_buffer(at, into)?);
        into.copy_from_slice(&self.shared.bytes.read()[from..][..into.len()]);
        Ok(())
    }

    pub(crate) fn copy_in(&self, at: Lba, from: &[u8]) -> Result<()> {
        let to = index(self.shared.shape.check_buffer(at, from)?);
        self.shared.bytes.write()[to..][..from.len()].copy_from_slice(from);
        Ok(())
    }

    pub(crate) fn clear(&self, at: Lba, blocks: u64) -> Result<()> {
        let shape = self.shared.shape;
        let from = index(shape.check_span(at, blocks)?);
        self.shared.bytes.write()[from..][..index(blocks * u64::from(shape.block_bytes))].fill(0);
        Ok(())
    }
}

/// Zeros that take memory once they are touched; `None` for none, and if the system has no room for them.
fn zeros(bytes: u64) -> Option<Vec<u8>> {
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)?;
    let layout = Layout::array::<u8>(bytes).ok()?;
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    // SAFETY: allocated just now with the layout of so many bytes, all of them zero, and nobody else's.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, bytes, bytes) })
}

impl fmt::Debug for MemBlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemBlockDevice").field("shape", &self.shared.shape).finish_non_exhaustive()
    }
}

impl BlockDevice for MemBlockDevice {
    fn block_bytes(&self) -> u32 {
        self.shared.shape.block_bytes
    }

    fn capacity_blocks(&self) -> u64 {
        self.shared.shape.capacity_blocks
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        device_call(DeviceCall::Read, || self.copy_out(at, into))?;
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        device_call(DeviceCall::Write, || self.copy_in(at, from))?;
        self.shared.counting.written(from.len());
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        device_call(DeviceCall::Flush, || ());
        self.shared.counting.flushed();
        Ok(())
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        device_call(DeviceCall::Trim, || self.clear(at, blocks))?;
        self.shared.counting.trimmed();
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(SyncQueue::new(Block(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
