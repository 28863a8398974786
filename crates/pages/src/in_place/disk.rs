//! A block device in blocks of 4,096 bytes.

use std::sync::Arc;

use zonda_device::{BlockDevice, DeviceError, IoQueue, Lba};
use zonda_space::SpaceError;

use crate::walk::Blocks;
use crate::{BLOCK_BYTES, PageError};

/// Requests in flight of one thread.
pub(crate) const DEPTH: u32 = 32;

/// A device, and how many of its blocks make one of ours.
pub(crate) struct Disk {
    device: Arc<dyn BlockDevice>,
    scale: u64,
}

impl Disk {
    /// # Errors
    /// `BadGeometry` if its blocks do not divide 4,096 bytes.
    pub(crate) fn new(device: Arc<dyn BlockDevice>) -> Result<Self, PageError> {
        let block_bytes = device.block_bytes() as usize;
        if block_bytes == 0 || !BLOCK_BYTES.is_multiple_of(block_bytes) {
            let (what, rule) = ("block size", "it must divide 4,096 bytes");
            return Err(SpaceError::BadGeometry { what, value: block_bytes as u64, rule }.into());
        }
        Ok(Self { device, scale: (BLOCK_BYTES / block_bytes) as u64 })
    }

    /// The device below.
    pub(crate) fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Whole blocks of 4,096 bytes.
    pub(crate) fn capacity_blocks(&self) -> u64 {
        self.device.capacity_blocks() / self.scale
    }

    /// Where a block begins on the device.
    pub(crate) fn lba(&self, block: u64) -> Lba {
        Lba(block * self.scale)
    }

    pub(crate) fn write(&self, block: u64, from: &[u8]) -> Result<(), DeviceError> {
        self.device.write(self.lba(block), from)
    }

    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }

    pub(crate) fn trim(&self, block: u64, blocks: u64) -> Result<(), DeviceError> {
        self.device.trim(self.lba(block), blocks * self.scale)
    }

    pub(crate) fn queue(&self) -> Result<Box<dyn IoQueue>, DeviceError> {
        self.device.queue(DEPTH)
    }
}

impl Blocks for Disk {
    fn read(&self, block: u64, into: &mut [u8]) -> Result<(), PageError> {
        Ok(self.device.read(self.lba(block), into)?)
    }
}
