//! A host FTL: a block device over a zoned one, with the page map in the host's memory.
//!
//! Blocks are collected into groups and appended to zones ([`mod@format`]); a table says where each block is; a zone
//! with little that is live is emptied (greedy) when free zones run short, what is live in it moves to a zone of its
//! own stream. The life of a write: 1 copied into the group in memory -> 2 with up to 63 others, written to the host's
//! zone when the group is full or a flush comes -> 3 mapped there -> 4 overwritten, trimmed, or moved by cleaning.
//!
//! **What is promised** is the contract of [`BlockDevice`], power cuts included: a block is old or new, never torn, and
//! what was written before a flush is there after it. A group carries a checksum of every block, and how far everything
//! was durable when it was written; recovery believes durable groups, checks the others block by block, and takes the
//! newest of every block. Of a zone's last group it looks in any case whether it was written: its write may have
//! failed. A zone is reset only after what moved out of it, and what overwrote the rest of it, is
//! durable, and after its readers are gone (I3). A trim is kept alive as long as something older may be on the device.
//! Not promised: anything about blocks of a zone that went offline while the device was closed. It refuses to open.
//!
//! Costs: 4 bytes of memory for each block of the volume; 1/64 more bytes written than asked for when groups are full;
//! opening reads the header of every group, and all of the last one of every zone. Lock order: writer, map, group.
mod clean;
pub mod format;
mod group;
mod map;
mod recover;
mod stats;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zonda_rt::{Condvar, Mutex, RwLock, now};

use crate::{
    BlockDevice, DeviceCounters, DeviceError, IoQueue, Lba, Result, ZonedDevice,
    counters::Counting,
    mem_block::BlockShape,
    queue::{Block, SyncQueue},
};
use group::{BLOCK, Group};
use map::{At, Map};
pub use stats::HostFtlStats;
use stats::Spent;
use writer::{Stream, Writer};

/// Zones that are no part of the volume: one open for the host, one for what moves, and three free.
const RESERVED_ZONES: u32 = 5;
/// Over-provisioning of a volume about which nothing else was said.
const PERCENT: u32 = 7;
/// Bytes of a block, here and below.
const BLOCK_BYTES: u32 = 4096;

/// How a volume is made and opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFtlOptions {
    /// Percent by which zones exceed the volume, beyond the reserved ones. Without it 7 when the volume is made; one that
    /// exists must have the capacity that follows from it.
    pub over_provisioning_percent: Option<u32>,
    /// Blocks of the volume, if fewer than that leaves; counts only when the volume is made.
    pub capacity_blocks: Option<u64>,
    /// Opens without changing anything; every call that would answers `WriteProtected`.
    pub read_only: bool,
}

/// A block device on zones. Clones are handles to the same volume.
#[derive(Clone)]
pub struct HostFtl {
    shared: Arc<Shared>,
}

struct Shared {
    device: Arc<dyn ZonedDevice>,
    read_only: bool,
    shape: BlockShape,
    /// Blocks of a zone that can be written.
    zone_blocks: u32,
    writer: Mutex<Writer>,
    map: Mutex<Map>,
    /// Told when the last reader of a zone is gone.
    drained: Condvar,
    /// What the host wrote and what moves, by [`Stream`]; changed by the holder of `writer` only.
    groups: [RwLock<Group>; 2],
    counting: Counting,
    spent: Spent,
}

impl HostFtl {
    /// Opens the volume on a device, or makes one on a device whose zones are all empty.
    ///
    /// # Errors
    /// `NotSupported` for blocks of another size than 4096; `Geometry` for too few zones, or more than two of them
    /// cannot be active; `Mismatch` for a volume of another over-provisioning; `Damaged` if something else is on the
    /// device; `Offline`; those of the device.
    pub fn open(device: Arc<dyn ZonedDevice>, options: &HostFtlOptions) -> Result<Self> {
        let shared = recover::open(device, options)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What it did, and what it costs the host.
    #[must_use]
    pub fn stats(&self) -> HostFtlStats {
        let map_bytes = self.shared.map.lock().bytes();
        let writer = self.shared.writer.lock();
        let groups_bytes = 2 * ((1 + format::GROUP_BLOCKS_MAX) * BLOCK) as u64;
        let memory_bytes = map_bytes + writer.bytes() + groups_bytes + clean::CLEANING_BYTES;
        HostFtlStats { memory_bytes, map_bytes, own_time: self.shared.spent.own(), ..writer.stats }
    }

    /// The device below.
    #[must_use]
    pub fn zones(&self) -> &Arc<dyn ZonedDevice> {
        &self.shared.device
    }
}

/// A stretch of a read that is one stretch of the device.
struct Run {
    /// First byte of the caller's buffer.
    from: usize,
    address: u32,
    blocks: u32,
}

impl Shared {
    fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(DeviceError::WriteProtected { path: PathBuf::from("the host FTL's volume") });
        }
        Ok(())
    }

    /// The device's address of ours.
    fn lba(&self, address: u32) -> Lba {
        let (zone, offset) = (address / self.zone_blocks, address % self.zone_blocks);
        Lba(u64::from(zone) * self.device.geometry().zone_size_blocks + u64::from(offset))
    }

    fn read(&self, first: u64, into: &mut [u8]) -> Result<()> {
        let runs = self.look_up(first, into);
        let mut outcome = Ok(());
        for run in &runs {
            let bytes = run.blocks as usize * BLOCK;
            let read = || self.device.read(self.lba(run.address), &mut into[run.from..run.from + bytes]);
            outcome = outcome.and_then(|()| self.spent.in_device(read));
        }
        let mut map = self.map.lock();
        let mut last = false;
        runs.iter().for_each(|run| last |= map.end_read(run.address));
        drop(map);
        if last {
            self.drained.notify_all();
        }
        outcome
    }

    /// Fills in what is in memory or nowhere; the rest has to be read from the device, whose zones are held for it.
    fn look_up(&self, first: u64, into: &mut [u8]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut map = self.map.lock();
        for (block, bytes) in (first..).zip(into.chunks_exact_mut(BLOCK)) {
            let from = usize::try_from(block - first).expect("below the buffer's length") * BLOCK;
            match map.at(block) {
                At::Nowhere => bytes.fill(0),
                At::Memory(index) => bytes.copy_from_slice(self.groups[Stream::Host as usize].read().block(index)),
                At::Device(address) => match runs.last_mut() {
                    Some(run) if self.follows(run, from, address) => run.blocks += 1,
                    _ => {
                        map.begin_read(address);
                        runs.push(Run { from, address, blocks: 1 });
                    }
                },
            }
        }
        runs
    }

    /// True if the block at `address`, for byte `from`, goes on where a run ends, in the same zone.
    fn follows(&self, run: &Run, from: usize, address: u32) -> bool {
        run.address + run.blocks == address
            && run.from + run.blocks as usize * BLOCK == from
            && run.address / self.zone_blocks == address / self.zone_blocks
    }

    fn write(&self, first: u64, from: &[u8]) -> Result<()> {
        let mut writer = self.writer.lock();
        for (block, bytes) in (first..).zip(from.chunks_exact(BLOCK)) {
            self.put(&mut writer, block, bytes)?;
        }
        Ok(())
    }

    fn put(&self, writer: &mut Writer, block: u64, bytes: &[u8]) -> Result<()> {
        let at = self.map.lock().at(block);
        if let At::Memory(index) = at {
            self.groups[Stream::Host as usize].write().replace(index, bytes);
            return Ok(());
        }
        self.make_room(writer, Stream::Host)?;
        let mut map = self.map.lock();
        let index = self.groups[Stream::Host as usize].write().push(block, bytes);
        map.put(block, At::Memory(index));
        writer.stats.host_blocks += 1;
        Ok(())
    }

    fn trim(&self, first: u64, blocks: u64) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let mut writer = self.writer.lock();
        self.make_room_for_trim(&mut writer, Stream::Host)?;
        let mut map = self.map.lock();
        let mut group = self.groups[Stream::Host as usize].write();
        for block in first..first + blocks {
            if let At::Memory(index) = map.at(block) {
                group.kill(index);
            }
            map.put(block, At::Nowhere);
        }
        group.trim(first, blocks);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let durable = {
            let mut writer = self.writer.lock();
            self.write_group(&mut writer, Stream::Host)?;
            writer.sequence
        };
        self.spent.in_device(|| self.device.flush())?;
        let mut writer = self.writer.lock();
        writer.durable_before = writer.durable_before.max(durable);
        Ok(())
    }
}

impl fmt::Debug for HostFtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFtl").field("device", &self.shared.device).finish_non_exhaustive()
    }
}

impl BlockDevice for HostFtl {
    fn block_bytes(&self) -> u32 {
        BLOCK_BYTES
    }

    fn capacity_blocks(&self) -> u64 {
        self.shared.shape.capacity_blocks
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.shared.shape.check_buffer(at, into)?;
        let start = now();
        self.shared.read(at.0, into)?;
        self.shared.spent.call(start);
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.shared.check_writable()?;
        self.shared.shape.check_buffer(at, from)?;
        let start = now();
        self.shared.write(at.0, from)?;
        self.shared.spent.call(start);
        self.shared.counting.written(from.len());
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.shared.check_writable()?;
        let start = now();
        self.shared.flush()?;
        self.shared.spent.call(start);
        self.shared.counting.flushed();
        Ok(())
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        self.shared.check_writable()?;
        self.shared.shape.check_span(at, blocks)?;
        self.shared.trim(at.0, blocks)?;
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
        format!("host FTL on {}", self.shared.device.describe())
    }
}

/// The volume has no zone left to write to.
fn no_zones(writer: &Writer) -> DeviceError {
    DeviceError::NoFreeZones { lost: writer.lost }
}

#[cfg(test)]
mod tests;
