//! The contract of a conventional block device.
use std::fmt::Debug;

use crate::{DeviceCounters, IoQueue, Lba, Result};

/// A device whose blocks can be overwritten in any order.
///
/// **Buffers** as for [`ZonedDevice`](crate::ZonedDevice). **Threads.** Any call from any thread; overlapping writes in
/// flight leave either's bytes, block by block.
///
/// **Durability.** A write is durable once a [`flush`](Self::flush) called after it returned has returned. After a
/// crash any subset of the unflushed writes survives, torn at block size; a block is old or new, never a mix.
///
/// **After an error** of a write each of its blocks is old or new; of a flush, anything unflushed may be lost for good.
pub trait BlockDevice: Send + Sync + Debug {
    /// Bytes of one block.
    fn block_bytes(&self) -> u32;

    /// Blocks of the device.
    fn capacity_blocks(&self) -> u64;

    /// Bytes of the device.
    fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks() * u64::from(self.block_bytes())
    }

    /// Reads whole blocks; blocks never written or trimmed read as zeros.
    ///
    /// # Errors
    /// `Unaligned`, `OutOfRange`, `Media`, `Io`.
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()>;

    /// Writes whole blocks.
    ///
    /// # Errors
    /// `Unaligned`, `OutOfRange`, `NoSpaceOnHost`, `Media`, `Io`.
    fn write(&self, at: Lba, from: &[u8]) -> Result<()>;

    /// As [`write`](Self::write), in a stream: data of one stream is expected to die together, and a drive that knows streams
    /// keeps it apart from that of others. Every other device takes it as a write.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    fn write_stream(&self, at: Lba, from: &[u8], stream: u32) -> Result<()> {
        let _ = stream;
        self.write(at, from)
    }

    /// Makes every operation that has returned before this call durable.
    ///
    /// # Errors
    /// `Io`, `PowerLost`, `FlushLost`.
    fn flush(&self) -> Result<()>;

    /// Says that the blocks' content is not needed: they read as zeros. As durable as a write.
    ///
    /// # Errors
    /// `OutOfRange`, `Io`.
    fn trim(&self, at: Lba, blocks: u64) -> Result<()>;

    /// A queue for up to `depth` requests in flight; [`Io::Append`](crate::Io::Append) is answered with `NotSupported`.
    ///
    /// # Errors
    /// `Geometry` for a depth of 0 or above [`QUEUE_DEPTH_MAX`](crate::QUEUE_DEPTH_MAX).
    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>>;

    /// Bytes and operations since the device was opened.
    fn counters(&self) -> DeviceCounters;

    /// One phrase for reports.
    fn describe(&self) -> String;
}
