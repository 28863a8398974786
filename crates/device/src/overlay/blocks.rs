//! As [`Overlay`](super::Overlay), for block devices.

use std::collections::HashMap;
use std::sync::Arc;

use zonda_rt::RwLock;

use super::queue::{OverBase, OverlayQueue};
use crate::queue::{Block, SyncQueue};
use crate::{BlockDevice, DeviceCounters, DeviceError, IoQueue, Lba, Result};

/// Blocks by number; `None`: trimmed, so zeros.
type Written = HashMap<u64, Option<Box<[u8]>>>;

/// A block device over a read-only one: block `b` comes from memory if it was written here, else from the base. Clones are handles to
/// the same. Takes memory for what is written to it.
#[derive(Clone, Debug)]
pub struct BlockOverlay {
    base: Arc<dyn BlockDevice>,
    written: Arc<RwLock<Written>>,
}

impl BlockOverlay {
    /// Lays nothing over `base`.
    #[must_use]
    pub fn new(base: Arc<dyn BlockDevice>) -> Self {
        Self { base, written: Arc::default() }
    }

    fn check(&self, at: Lba, blocks: u64) -> Result<()> {
        let device_blocks = self.capacity_blocks();
        match at.0.checked_add(blocks) {
            Some(end) if end <= device_blocks => Ok(()),
            _ => Err(DeviceError::OutOfRange { at, blocks, device_blocks }),
        }
    }

    /// Blocks in a buffer.
    fn blocks(&self, buffer: &[u8]) -> Result<u64> {
        let (bytes, block) = (buffer.len() as u64, u64::from(self.block_bytes()));
        if bytes == 0 || !bytes.is_multiple_of(block) {
            return Err(DeviceError::Unaligned { what: "buffer length in bytes", value: bytes, multiple: block });
        }
        Ok(bytes / block)
    }
}

impl BlockDevice for BlockOverlay {
    fn block_bytes(&self) -> u32 {
        self.base.block_bytes()
    }

    fn capacity_blocks(&self) -> u64 {
        self.base.capacity_blocks()
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.base.read(at, into)?;
        let written = self.written.read();
        if !written.is_empty() {
            for (block, into) in (at.0..).zip(into.chunks_mut(self.block_bytes() as usize)) {
                match written.get(&block) {
                    Some(Some(bytes)) => into.copy_from_slice(bytes),
                    Some(None) => into.fill(0),
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.check(at, self.blocks(from)?)?;
        let chunks = from.chunks(self.block_bytes() as usize);
        self.written.write().extend((at.0..).zip(chunks.map(|block| Some(Box::from(block)))));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        self.check(at, blocks)?;
        self.written.write().extend((at.0..at.0 + blocks).map(|block| (block, None)));
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        let here = SyncQueue::new(Block(self.clone()), depth)?;
        Ok(Box::new(OverlayQueue::new(here, self.base.queue(depth)?)))
    }

    fn counters(&self) -> DeviceCounters {
        self.base.counters()
    }

    fn describe(&self) -> String {
        format!("{}, read-only", self.base.describe())
    }
}

impl OverBase for Block<BlockOverlay> {
    fn is_of_base(&self, at: Lba, into: &[u8]) -> bool {
        let Ok(blocks) = self.0.blocks(into) else { return false };
        let written = self.0.written.read();
        written.is_empty() || !(at.0..at.0.saturating_add(blocks)).any(|block| written.contains_key(&block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuf, Io, MemBlockDevice};

    #[test]
    fn a_queue_gives_what_blocking_reads_do() {
        let base = MemBlockDevice::new(4096, 8).unwrap();
        for block in 0..8u8 {
            base.write(Lba(block.into()), &AlignedBuf::from_slice(&[block; 4096])).unwrap();
        }
        let overlay = BlockOverlay::new(Arc::new(base));
        overlay.write(Lba(2), &AlignedBuf::from_slice(&[9; 4096])).unwrap();
        let mut queue = overlay.queue(8).unwrap();
        let read_of = |at, blocks: usize| Io::Read { at: Lba(at), into: AlignedBuf::with_len(blocks * 4096) };
        for (token, io) in (0..).zip([read_of(0, 2), read_of(1, 3), read_of(4, 4), read_of(7, 2)]) {
            queue.submit(token, io).unwrap();
        }
        let mut done = Vec::new();
        while queue.in_flight() > 0 {
            queue.complete(1, &mut done).unwrap();
        }
        done.sort_by_key(|completion| completion.token);
        let bytes =
            |token: usize| done[token].buffer.as_ref().unwrap().iter().step_by(4096).copied().collect::<Vec<_>>();
        assert_eq!((0..3).map(bytes).collect::<Vec<_>>(), [vec![0, 1], vec![1, 9, 3], vec![4, 5, 6, 7]]);
        assert!(done[3].result.is_err(), "past the device");
    }

    #[test]
    fn the_base_shines_through_and_is_not_written() {
        let base = MemBlockDevice::new(4096, 8).unwrap();
        for block in 0..8u8 {
            base.write(Lba(block.into()), &AlignedBuf::from_slice(&[block; 4096])).unwrap();
        }
        let overlay = BlockOverlay::new(Arc::new(base.clone()));
        overlay.write(Lba(2), &AlignedBuf::from_slice(&[9; 8192])).unwrap();
        let mut read = AlignedBuf::with_len(4 * 4096);
        overlay.read(Lba(1), &mut read).unwrap();
        assert_eq!([0, 1, 2, 3].map(|block| read[block * 4096]), [1, 9, 9, 4]);
        base.read(Lba(1), &mut read).unwrap();
        assert_eq!(read[4096], 2);
        overlay.trim(Lba(2), 1).unwrap();
        overlay.read(Lba(1), &mut read).unwrap();
        assert_eq!([0, 1, 2, 3].map(|block| read[block * 4096]), [1, 0, 9, 4]);
        assert!(overlay.write(Lba(7), &AlignedBuf::with_len(8192)).is_err());
        assert!(overlay.write(Lba(7), &AlignedBuf::with_len(4000)).is_err() && overlay.trim(Lba(8), 1).is_err());
    }
}
