//! Which zone the next group goes to, and writing it there.
use std::collections::{BTreeSet, VecDeque};

use super::group::BLOCK;
use super::map::At;
use super::{HostFtlStats, Shared, no_zones};
use crate::{DeviceError, ErrorKind, Result, ZoneId};

/// Free zones that the host may not take: what cleaning moves may need one.
/// One is lost to a power cut that hits cleaning, until it is cleaned itself.
const FREE_FOR_CLEANING: usize = 2;
/// Zones that are tried for one group before its write is given up.
const ATTEMPTS: u32 = 3;

/// What is written side by side, each to a zone of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// What the host writes.
    Host = 0,
    /// What cleaning moves: it has lived longer.
    Moved = 1,
}

/// A zone that is being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) zone: u32,
    pub(super) offset: u32,
}

/// Everything that changes when something is written. A zone is in exactly one of `free`, `sealed`, `open`, or lost.
#[derive(Debug)]
pub(super) struct Writer {
    /// Empty zones, the longest unused first: so they wear alike.
    pub(super) free: VecDeque<u32>,
    /// Zones that hold groups and are not written any more.
    pub(super) sealed: BTreeSet<u32>,
    pub(super) open: [Option<Open>; 2],
    /// Zones that failed: nothing is written to them any more.
    pub(super) lost: u32,
    /// While blocks in doubt are written again: nothing that was found is durable for certain yet.
    pub(super) recovering: bool,
    /// Number of the next group.
    pub(super) sequence: u64,
    pub(super) durable_before: u64,
    /// Number of the first group in each zone; `u64::MAX` for none.
    pub(super) first_sequence: Vec<u64>,
    /// Where groups begin in each zone, as offsets: cleaning reads many of them at once.
    pub(super) group_starts: Vec<Vec<u32>>,
    pub(super) stats: HostFtlStats,
}

impl Writer {
    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let starts = self.group_starts.iter().map(|starts| starts.capacity() as u64 * 4 + 24).sum::<u64>();
        self.first_sequence.len() as u64 * 8 + starts + (self.free.len() + self.sealed.len()) as u64 * 4
    }

    /// True if a zone other than `than` may hold something older than group `sequence`.
    pub(super) fn has_older(&self, sequence: u64, than: u32) -> bool {
        (0..).zip(&self.first_sequence).any(|(zone, &first)| zone != than && first < sequence)
    }
}

impl Shared {
    /// Makes room for one more data block in a stream's group.
    pub(super) fn make_room(&self, writer: &mut Writer, stream: Stream) -> Result<()> {
        if !self.groups[stream as usize].read().is_full() {
            return Ok(());
        }
        self.write_group(writer, stream)?;
        let room = self.open_zone(writer, stream)? - 1;
        self.groups[stream as usize].write().begin(room as usize);
        Ok(())
    }

    /// Makes room for one more trim in a stream's group.
    pub(super) fn make_room_for_trim(&self, writer: &mut Writer, stream: Stream) -> Result<()> {
        if self.groups[stream as usize].read().is_full_of_trims() {
            self.write_group(writer, stream)?;
        }
        // A group that was never begun has no zone yet.
        if self.groups[stream as usize].read().is_empty() { self.make_room(writer, stream) } else { Ok(()) }
    }

    /// The stream has a zone with room for a group; how many blocks are left in it, at least two.
    fn open_zone(&self, writer: &mut Writer, stream: Stream) -> Result<u32> {
        if let Some(Open { zone, offset }) = writer.open[stream as usize] {
            let left = self.zone_blocks - offset;
            if left >= 2 {
                return Ok(left);
            }
            self.seal(writer, stream, zone, left);
        }
        if stream == Stream::Host && writer.free.len() <= FREE_FOR_CLEANING {
            self.clean(writer)?;
        }
        let zone = writer.free.pop_front().ok_or_else(|| no_zones(writer))?;
        writer.open[stream as usize] = Some(Open { zone, offset: 0 });
        Ok(self.zone_blocks)
    }

    /// Nothing more goes into the stream's zone. Finishing it gives its resources back; a zone that cannot be finished
    /// has none any more.
    fn seal(&self, writer: &mut Writer, stream: Stream, zone: u32, left: u32) {
        if left > 0 {
            let _done = self.spent.in_device(|| self.device.finish(ZoneId(zone)));
            writer.stats.overhead_blocks += u64::from(left);
        }
        writer.open[stream as usize] = None;
        writer.sealed.insert(zone);
    }

    /// Writes a stream's group, if there is anything in it, and maps its blocks to where they are now. After an error it
    /// is still in memory.
    pub(super) fn write_group(&self, writer: &mut Writer, stream: Stream) -> Result<()> {
        if self.groups[stream as usize].read().is_empty() {
            return Ok(());
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.try_write(writer, stream) {
                Ok(()) => return Ok(()),
                Err(error) if attempts < ATTEMPTS && is_of_zone(&error) => self.replace_zone(writer, stream)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The stream's zone failed: another takes its place. Cleaning may be what writes, so none is cleaned for it.
    fn replace_zone(&self, writer: &mut Writer, stream: Stream) -> Result<()> {
        if let Some(Open { zone, offset }) = writer.open[stream as usize] {
            self.seal(writer, stream, zone, self.zone_blocks - offset);
        }
        let zone = writer.free.pop_front().ok_or_else(|| no_zones(writer))?;
        writer.open[stream as usize] = Some(Open { zone, offset: 0 });
        Ok(())
    }

    fn try_write(&self, writer: &mut Writer, stream: Stream) -> Result<()> {
        let open = writer.open[stream as usize].ok_or_else(|| no_zones(writer))?;
        let group = &self.groups[stream as usize];
        // A new number for each attempt: what an earlier one left behind is older than this.
        let sequence = writer.sequence;
        writer.sequence += 1;
        group.write().seal(self.shape.capacity_blocks, sequence, writer.durable_before);
        let first = &mut writer.first_sequence[open.zone as usize];
        *first = (*first).min(sequence);
        let base = open.zone * self.zone_blocks + open.offset;
        // Readers of the group in memory go on meanwhile; nobody else changes it.
        self.spent.in_device(|| self.device.write(self.lba(base), group.read().bytes()))?;
        let mut map = self.map.lock();
        let mut group = group.write();
        for (address, block) in (base + 1..).zip(group.blocks()) {
            if let Some(block) = *block {
                map.put(block, At::Device(address));
            }
        }
        let len = group.len_blocks();
        writer.group_starts[open.zone as usize].push(open.offset);
        let unused = group.blocks().iter().filter(|block| block.is_none()).count() as u64;
        writer.open[stream as usize] = Some(Open { offset: open.offset + len, ..open });
        writer.stats.overhead_blocks += 1;
        if stream == Stream::Moved {
            writer.stats.moved_blocks += u64::from(len) - 1 - unused;
        }
        group.clear();
        Ok(())
    }
}

/// True if another zone may do better.
fn is_of_zone(error: &DeviceError) -> bool {
    use ErrorKind::{Boundary, Full, InvalidTransition, InvalidWrite, Io, Media, Offline, ReadOnly, SequenceLost};
    matches!(
        error.kind(),
        Boundary | Full | InvalidTransition | InvalidWrite | Io | Media | Offline | ReadOnly | SequenceLost
    )
}

/// Bytes of so many blocks.
pub(super) fn bytes_of(blocks: usize) -> usize {
    blocks * BLOCK
}
