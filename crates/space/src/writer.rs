//! The only writer of one zone.

use zonda_device::{DeviceError, ErrorKind, ZoneId};

use crate::units::Units;
use crate::{Result, Space, SpaceError, StreamId, StreamSet, ZoneUse};

/// The only writer of its zone (I1): one write in flight, always at the write pointer.
///
/// Life cycle: 1 writing -> 2 closed, when the zone is full or failed (its token is then returned). Dropped before that,
/// it leaves the zone partly written, and the token held, until the zone is adopted or sealed. Cost of a write: one
/// device write.
#[derive(Debug)]
pub struct ZoneWriter {
    space: Space,
    zone: ZoneId,
    stream: StreamId,
    generation: u64,
    next_block: u64,
    end_block: u64,
    closed: bool,
}

impl ZoneWriter {
    pub(crate) fn new(space: Space, zone: ZoneId, stream: StreamId, generation: u64, written_blocks: u64) -> Self {
        let first = space.core.units.first_block(zone);
        let (next_block, end_block) = (first + written_blocks, first + space.core.units.capacity_of(zone));
        Self { space, zone, stream, generation, next_block, end_block, closed: false }
    }

    /// Its zone.
    #[must_use]
    pub fn zone(&self) -> ZoneId {
        self.zone
    }

    /// The stream after which the zone is named.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Every stream whose data the zone may hold. A zone of an earlier life keeps the set of that life, even if more
    /// streams share now: write nothing else into it.
    #[must_use]
    pub fn holds(&self) -> StreamSet {
        self.space.core.table.lock().slot(self.zone).holds
    }

    /// Number of the zone's allocation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where the next write goes.
    #[must_use]
    pub fn next_block(&self) -> u64 {
        self.next_block
    }

    /// Blocks of the zone before the next write, its header among them.
    #[must_use]
    pub fn written_blocks(&self) -> u64 {
        self.next_block - self.space.core.units.first_block(self.zone)
    }

    /// Blocks that can still be written; 0 once the writer is closed.
    #[must_use]
    pub fn remaining_blocks(&self) -> u64 {
        if self.closed { 0 } else { self.end_block - self.next_block }
    }

    /// Whether the zone is sealed or failed; nothing can be written any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes whole blocks at the write pointer and returns the first block. The bytes are durable after the next
    /// [`Space::flush`]. A zone that is full now is [sealed](Space::seal). `from` must be aligned for the device.
    ///
    /// # Errors
    /// `NotWholeBlocks`, `DoesNotFit`: nothing was written. `ZoneFailed`: the writer is closed, the zone sealed (or
    /// lost), and the caller places what lies at and behind `written_up_to` elsewhere. `Device`: nothing of this call
    /// counts as written; if the device refused it (a full host file system, an unaligned buffer) the writer stays
    /// usable, after a power cut nothing is.
    pub fn write(&mut self, from: &[u8]) -> Result<u64> {
        let blocks = Units::blocks_of(from.len())?;
        let remaining = self.remaining_blocks();
        if blocks > remaining {
            return Err(SpaceError::DoesNotFit { zone: self.zone, blocks, remaining });
        }
        let first = self.next_block;
        if let Err(error) = self.space.core.write(self.zone, first, from) {
            return Err(self.failed(error));
        }
        self.wrote(blocks, from.len());
        if self.next_block == self.end_block {
            self.close();
        }
        Ok(first)
    }

    fn wrote(&mut self, blocks: u64, bytes: usize) {
        self.next_block += blocks;
        self.space.core.gauges.wrote(self.zone, blocks);
        self.space.core.count_written(self.stream, bytes);
    }

    /// Seals the zone: the device already has it full, unless its capacity is no whole number of our blocks. Where it does not even say
    /// so, all is written nevertheless, and the zone is finished like one that is not full.
    fn close(&mut self) {
        self.closed = true;
        let core = &self.space.core;
        if core.ask_alone(self.zone).is_ok_and(|asked| !asked.active) {
            core.table.lock().set_state(self.zone, ZoneUse::Sealed, false);
            return;
        }
        core.table.lock().set_state(self.zone, ZoneUse::Changing, true);
        self.space.finish_or_leave(self.zone);
    }

    /// Ends the writer and leaves its zone open: the caller takes it on.
    pub(crate) fn keep_open(mut self) -> ZoneId {
        self.closed = true;
        self.zone
    }

    /// Adopts the device's write pointer after a failed write and seals the zone.
    fn failed(&mut self, error: DeviceError) -> SpaceError {
        let core = &self.space.core;
        let Ok(asked) = core.ask(self.zone) else {
            return error.into();
        };
        let written_up_to = core.units.first_block(self.zone) + asked.written_blocks;
        if is_refusal(&error) && written_up_to == self.next_block && asked.missing_lbas == 0 {
            return error.into();
        }
        // A zone that lost its write pointer cannot say how far it got: only what was acknowledged counts.
        let known = asked.write_pointer.is_some();
        let written_up_to = if known { written_up_to.min(self.end_block) } else { self.next_block };
        core.gauges.set_written(self.zone, written_up_to - core.units.first_block(self.zone));
        self.next_block = written_up_to;
        self.abandon(asked.lost);
        SpaceError::ZoneFailed { zone: self.zone, written_up_to, source: error }
    }

    /// Gives up a failed zone. One that cannot even be finished stays partly written and keeps its token.
    fn abandon(&mut self, lost: Option<ZoneUse>) {
        self.closed = true;
        let core = &self.space.core;
        if let Some(state) = lost {
            core.table.lock().set_state(self.zone, state, false);
            return;
        }
        core.table.lock().set_state(self.zone, ZoneUse::Changing, true);
        self.space.finish_or_leave(self.zone);
    }
}

/// Whether the device refused the call as such: the zone is as it was and no other zone would do better.
fn is_refusal(error: &DeviceError) -> bool {
    use ErrorKind as Kind;
    matches!(error.kind(), Kind::NoSpaceOnHost | Kind::Invalid | Kind::Busy | Kind::WriteProtected | Kind::Closed)
}

impl Drop for ZoneWriter {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        self.space.core.table.lock().set_state(self.zone, ZoneUse::Partial, true);
    }
}
