//! The block file backend.
use std::{fmt, path::Path, sync::Arc};

use zonda_rt::{DeviceCall, device_call};

use super::{
    chunks::Chunks,
    host_file::{Access, HostFile},
    open::{read_header, remove_after, write_header},
    options::{FileOptions, QueueKind},
    queue::{Started, Target, Transfer, open_queue},
};
use crate::{
    BlockDevice, DeviceCounters, DeviceError, Io, IoQueue, Lba, Result,
    counters::Counting,
    format::{DATA_ALIGNMENT, DeviceKind, block_header},
    mem_block::BlockShape,
    queue::Block,
};

/// A block device in one sparse file, alone owned by one opener at a time. Clones are handles to the same device.
/// Nothing is to be recovered after a crash: the file is the device. Where I/O is direct the file takes 256 KiB where a block is first
/// written, since a write into a hole would stop all reads of the file.
#[derive(Clone)]
pub struct FileBlockDevice {
    shared: Arc<Shared>,
}

struct Shared {
    shape: BlockShape,
    file: HostFile,
    chunks: Chunks,
    queue_kind: QueueKind,
    counting: Counting,
}

impl FileBlockDevice {
    /// Makes a new device of zeros, sparse and of full length. After an error no file is left.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned` before anything is written; `Io` (also if the file exists), `NoSpaceOnHost`,
    /// `NotSupported`.
    pub fn create(
        path: impl AsRef<Path>,
        block_bytes: u32,
        capacity_blocks: u64,
        options: &FileOptions,
    ) -> Result<Self> {
        let shape = BlockShape::new(block_bytes, capacity_blocks)?;
        let file = HostFile::open(path.as_ref(), Access::Create)?;
        let built = build(file, shape, options);
        built.map_err(|error| remove_after(path.as_ref(), error))
    }

    /// Opens an existing device alone, or beside other readers if `read_only`.
    ///
    /// # Errors
    /// `Locked`, `NotADevice`, `Truncated`, `Damaged`, `NewerVersion`, `UnknownFeature`, `Io`, `NotSupported`; nothing
    /// is ever written.
    pub fn open(path: impl AsRef<Path>, read_only: bool, options: &FileOptions) -> Result<Self> {
        let access = if read_only { Access::ReadOnly } else { Access::ReadWrite };
        let file = HostFile::open(path.as_ref(), access)?;
        let geometry = read_header(&file, DeviceKind::Block)?.geometry;
        let shape = BlockShape::new(geometry.block_bytes, geometry.zone_capacity_blocks)?;
        let needed = DATA_ALIGNMENT + shape.capacity_bytes();
        if file.len_bytes()? < needed {
            return Err(file.truncated(needed));
        }
        share(file, shape, options)
    }
}

fn build(file: HostFile, shape: BlockShape, options: &FileOptions) -> Result<FileBlockDevice> {
    file.set_len(DATA_ALIGNMENT + shape.capacity_bytes())?;
    write_header(&file, &block_header(shape))?;
    share(file, shape, options)
}

fn share(mut file: HostFile, shape: BlockShape, options: &FileOptions) -> Result<FileBlockDevice> {
    file.choose_direct(options.direct, DATA_ALIGNMENT, shape.block_bytes)?;
    let chunks = Chunks::new(&file, DATA_ALIGNMENT, shape.capacity_bytes());
    let shared = Shared { shape, file, chunks, queue_kind: options.queue, counting: Counting::default() };
    Ok(FileBlockDevice { shared: Arc::new(shared) })
}

impl Shared {
    fn start_read(&self, at: Lba, into: &[u8]) -> Result<Started> {
        let offset = DATA_ALIGNMENT + self.shape.check_buffer(at, into)?;
        Ok(Started { at, transfer: Transfer::Read { offset, bytes: into.len() }, grant: None })
    }

    fn start_write(&self, at: Lba, from: &[u8]) -> Result<Started> {
        self.file.check_writable()?;
        let offset = DATA_ALIGNMENT + self.shape.check_buffer(at, from)?;
        self.chunks.allocate(&self.file, offset, from.len() as u64);
        Ok(Started { at, transfer: Transfer::Write { offset }, grant: None })
    }

    fn start_flush(&self) -> Result<Started> {
        self.file.check_writable()?;
        self.file.check_sync()?;
        Ok(Started { at: Lba(0), transfer: Transfer::Sync, grant: None })
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        self.file.check_writable()?;
        let offset = DATA_ALIGNMENT + self.shape.check_span(at, blocks)?;
        let bytes = blocks * u64::from(self.shape.block_bytes);
        if bytes > 0 && !self.file.punch(offset, bytes)? {
            return self.write_zeros(offset, blocks);
        }
        self.chunks.trimmed(offset, bytes);
        Ok(())
    }

    /// Where no hole can be punched, trimmed blocks still read as zeros.
    fn write_zeros(&self, offset: u64, blocks: u64) -> Result<()> {
        let zeros = crate::AlignedBuf::with_len(self.shape.block_bytes as usize);
        (0..blocks).try_for_each(|i| self.file.write_data(offset + i * zeros.len() as u64, &zeros))
    }
}

impl Target for FileBlockDevice {
    fn file(&self) -> &HostFile {
        &self.shared.file
    }

    fn start(&self, io: &Io) -> Result<Started> {
        match io {
            Io::Read { at, into } => self.shared.start_read(*at, into),
            Io::Write { at, from } => self.shared.start_write(*at, from),
            Io::Append { .. } => Err(DeviceError::NotSupported { what: "append on a block device" }),
            Io::Flush => self.shared.start_flush(),
        }
    }

    fn end(&self, started: Started, bytes: usize, outcome: Result<()>) -> Result<Lba> {
        outcome?;
        match started.transfer {
            Transfer::Read { .. } => self.shared.counting.read(bytes),
            Transfer::Write { .. } => self.shared.counting.written(bytes),
            Transfer::Sync => self.shared.counting.flushed(),
        }
        Ok(started.at)
    }
}

impl fmt::Debug for FileBlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBlockDevice").field("file", &self.shared.file).finish_non_exhaustive()
    }
}

impl BlockDevice for FileBlockDevice {
    fn block_bytes(&self) -> u32 {
        self.shared.shape.block_bytes
    }

    fn capacity_blocks(&self) -> u64 {
        self.shared.shape.capacity_blocks
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let offset = DATA_ALIGNMENT + self.shared.shape.check_buffer(at, into)?;
        device_call(DeviceCall::Read, || self.shared.file.read_data(offset, into))?;
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.shared.file.check_writable()?;
        let offset = DATA_ALIGNMENT + self.shared.shape.check_buffer(at, from)?;
        device_call(DeviceCall::Write, || {
            self.shared.chunks.allocate(&self.shared.file, offset, from.len() as u64);
            self.shared.file.write_data(offset, from)
        })?;
        self.shared.counting.written(from.len());
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.shared.file.check_writable()?;
        device_call(DeviceCall::Flush, || self.shared.file.sync())?;
        self.shared.counting.flushed();
        Ok(())
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        device_call(DeviceCall::Trim, || self.shared.trim(at, blocks))?;
        self.shared.counting.trimmed();
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        open_queue(self.shared.queue_kind, self.clone(), Block(self.clone()), depth)
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        self.shared.file.describe()
    }
}
