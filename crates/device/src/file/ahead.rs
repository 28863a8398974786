//! Space of the host's file system taken ahead of write pointers, so that writes do not stop the reads of a file.
//!
//! ext4 lets a direct write into blocks that it has allocated run beside reads of the same file; one into a hole shuts them all out
//! for as long as it takes. So what a zone's next writes will fill is allocated beforehand, unwritten: to those who look for holes it
//! is one, and a write pointer is found behind a crash as ever.
//!
//! Always: what is taken lies at or above the write pointer. Nothing rests on it, and a disk that is full says so to the write itself.
use std::{collections::HashSet, ops::Range};

use super::{host_file::HostFile, zones::Layout};
use crate::{Result, WriteGrant, ZoneId, ZoneMachine};

/// Least and most bytes taken at once: as much again as the zone holds, so that a small store stays small.
const STEP_BYTES_MIN: u64 = 64 << 10;
const STEP_BYTES_MAX: u64 = 1 << 20;

/// Does allocated space that was never written show as a hole here?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unwritten {
    Untried,
    IsHole,
    /// It shows as data, or the file system has no such thing.
    NotToBeHad,
}

/// What is taken ahead in the zones of a device file. Lives under the device's lock.
#[derive(Debug)]
pub(super) struct Ahead {
    unwritten: Unwritten,
    /// Blocks from each zone's start to the end of what was taken; 0 where nothing was since the file was opened.
    taken_to_blocks: Vec<u64>,
    /// Zones of a life that did not end cleanly: nobody knows how much it took.
    unknown: HashSet<ZoneId>,
}

impl Ahead {
    pub(super) fn new(zone_count: u32) -> Self {
        Self { unwritten: Unwritten::Untried, taken_to_blocks: vec![0; zone_count as usize], unknown: HashSet::new() }
    }

    /// The bytes of the file to take before the write of a grant: first byte and length. The first time they are tried out at once,
    /// while nobody else may write there.
    ///
    /// # Errors
    /// `Io` if they were to be given back and could not be.
    pub(super) fn wanted(
        &mut self,
        grant: &WriteGrant,
        machine: &ZoneMachine,
        layout: &Layout,
        file: &HostFile,
    ) -> Result<Option<(u64, u64)>> {
        if self.unwritten == Unwritten::NotToBeHad || !file.is_direct() {
            return Ok(None);
        }
        let Some(blocks) = self.next(grant, machine, layout) else { return Ok(None) };
        let (offset, bytes) = layout.bytes_of(grant.zone(), blocks);
        if self.unwritten == Unwritten::IsHole {
            return Ok(Some((offset, bytes)));
        }
        let is_hole = || file.data_end(offset, bytes).is_ok_and(|end| end == 0);
        if !is_hole() {
            // Blanks of an earlier opening: nothing can be told here.
            return Ok(None);
        }
        self.unwritten = Unwritten::NotToBeHad;
        if file.allocate(offset, bytes) {
            file.forget_cached(offset, bytes);
            match is_hole() {
                true => self.unwritten = Unwritten::IsHole,
                false => _ = file.punch(offset, bytes)?,
            }
        }
        Ok(None)
    }

    fn next(&mut self, grant: &WriteGrant, machine: &ZoneMachine, layout: &Layout) -> Option<Range<u64>> {
        let taken_to = &mut self.taken_to_blocks[grant.zone().0 as usize];
        let end = grant.offset() + grant.blocks();
        if end <= *taken_to {
            return None;
        }
        let block_bytes = layout.block_bytes() as u64;
        let step_bytes = (end * block_bytes).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
        let to = (end + step_bytes.div_ceil(block_bytes)).min(machine.geometry().zone_capacity_blocks);
        let from = std::mem::replace(taken_to, to).max(grant.offset());
        Some(from..to)
    }

    /// Takes note that space may be taken in a zone, as the file was not closed.
    pub(super) fn may_be_taken(&mut self, zone: ZoneId) {
        self.unknown.insert(zone);
    }

    /// Takes note that a zone lost all that was taken, to a reset.
    pub(super) fn reset(&mut self, zone: ZoneId) {
        self.taken_to_blocks[zone.0 as usize] = 0;
        self.unknown.remove(&zone);
    }

    /// Gives back what was taken and not written of a zone that nobody is writing. What fails here is told to nobody: a reset takes it.
    pub(super) fn give_back(&mut self, zone: ZoneId, machine: &ZoneMachine, layout: &Layout, file: &HostFile) {
        let taken_to = std::mem::take(&mut self.taken_to_blocks[zone.0 as usize]);
        let is_unknown = self.unknown.remove(&zone);
        let taken_to = if is_unknown { machine.geometry().zone_capacity_blocks } else { taken_to };
        let written = machine.written_blocks(zone);
        if taken_to > written {
            let (offset, bytes) = layout.bytes_of(zone, written..taken_to);
            let _given = file.punch(offset, bytes);
        }
    }
}
