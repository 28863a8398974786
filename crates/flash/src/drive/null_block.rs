//! Blocks without data: for measurements larger than memory. What is read is zeros.
use zonda_device::{BlockDevice, DeviceCounters, DeviceError, IoQueue, Lba, Result};
use zonda_rt::Mutex;

/// A block device that forgets what is written.
#[derive(Debug)]
pub struct NullBlocks {
    block_bytes: u32,
    capacity_blocks: u64,
    counters: Mutex<DeviceCounters>,
}

impl NullBlocks {
    /// A device of so many blocks.
    #[must_use]
    pub fn new(block_bytes: u32, capacity_blocks: u64) -> Self {
        Self { block_bytes, capacity_blocks, counters: Mutex::new(DeviceCounters::default()) }
    }

    fn check(&self, at: Lba, blocks: u64) -> Result<()> {
        if at.0.checked_add(blocks).is_none_or(|end| end > self.capacity_blocks) {
            return Err(DeviceError::OutOfRange { at, blocks, device_blocks: self.capacity_blocks });
        }
        Ok(())
    }

    fn check_buffer(&self, at: Lba, bytes: usize) -> Result<()> {
        let (bytes, multiple) = (bytes as u64, u64::from(self.block_bytes));
        if bytes == 0 || !bytes.is_multiple_of(multiple) {
            return Err(DeviceError::Unaligned { what: "buffer length", value: bytes, multiple });
        }
        self.check(at, bytes / multiple)
    }
}

impl BlockDevice for NullBlocks {
    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn capacity_blocks(&self) -> u64 {
        self.capacity_blocks
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.check_buffer(at, into.len())?;
        into.fill(0);
        let mut counters = self.counters.lock();
        counters.reads += 1;
        counters.read_bytes += into.len() as u64;
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.check_buffer(at, from.len())?;
        let mut counters = self.counters.lock();
        counters.writes += 1;
        counters.written_bytes += from.len() as u64;
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.counters.lock().flushes += 1;
        Ok(())
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        self.check(at, blocks)?;
        self.counters.lock().trims += 1;
        Ok(())
    }

    fn queue(&self, _depth: u32) -> Result<Box<dyn IoQueue>> {
        Err(DeviceError::NotSupported { what: "queues on blocks without data; give them a timing first" })
    }

    fn counters(&self) -> DeviceCounters {
        *self.counters.lock()
    }

    fn describe(&self) -> String {
        "no data".to_owned()
    }
}
