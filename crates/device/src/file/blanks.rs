//! Blocks written ahead of a write pointer, so that a log whose every record is flushed costs the file system no metadata.
//!
//! A write into a hole changes the file's block map, and an `fdatasync` behind it has to commit the host's journal. A write
//! over a block that is there needs nothing but the drive's own flush, which is several times cheaper. So a zone that is
//! written in small steps, each followed by a flush, gets *blanks*: blocks of a pattern that is this file's and this
//! place's alone, written by the flush itself in one piece behind the write pointer.
//!
//! Always: a blank stands only at or above the write pointer, and reads there give zeros, as the contract of a zoned device
//! says. After a crash the end of a zone's data is the last block that is neither hole nor blank. That a block of the user's
//! looks like a blank of its place is as likely as guessing 128 random bits.
use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
};

use super::{host_file::HostFile, zones::Layout};
use crate::{AlignedBuf, Result, WriteGrant, ZoneId, ZoneMachine};

/// Most bytes that a zone may take between two flushes to count as written in small steps: less than a group of pages.
const STEP_BYTES_MAX: u64 = 8_192;
/// Small steps in a row before blanks are worth their bytes.
const STEPS_BEFORE: u32 = 8;
/// Bytes of blanks written at once.
const RUN_BYTES: u64 = 256 << 10;

/// What tells the blanks of one file from everything else. Chosen when the file is made, kept in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlankId(pub(super) u128);

impl BlankId {
    /// A new random one.
    pub(super) fn random() -> Self {
        let half = |salt: u8| u128::from(RandomState::new().hash_one(salt));
        Self(half(0) << 64 | half(1))
    }

    /// The 16 bytes that fill a blank at a byte offset of the file.
    fn word(self, offset: u64) -> [u8; 16] {
        (self.0 ^ u128::from(offset)).to_le_bytes()
    }

    fn fill(self, block: &mut [u8], offset: u64) {
        let word = self.word(offset);
        block.chunks_exact_mut(word.len()).for_each(|chunk| chunk.copy_from_slice(&word));
    }

    fn is_blank(self, block: &[u8], offset: u64) -> bool {
        let word = self.word(offset);
        block.chunks_exact(word.len()).all(|chunk| chunk == word)
    }
}

/// How one zone is written.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    /// Blocks written since the last flush.
    unflushed_blocks: u64,
    /// Small steps in a row.
    in_a_row: u32,
    /// Blocks from the zone's start to the end of its blanks; 0 if it has none.
    blank_to_blocks: u64,
}

/// The blanks of a device file. Lives under the device's lock, so that nobody is granted a block while it turns blank.
#[derive(Debug)]
pub(super) struct Blanks {
    id: BlankId,
    zones: Vec<Steps>,
    /// Zones written since the last flush.
    touched: Vec<ZoneId>,
}

impl Blanks {
    pub(super) fn new(id: BlankId, zone_count: u32) -> Self {
        Self { id, zones: vec![Steps::default(); zone_count as usize], touched: Vec::new() }
    }

    /// Takes note of a write that was granted.
    pub(super) fn granted(&mut self, grant: &WriteGrant) {
        let steps = &mut self.zones[grant.zone().0 as usize];
        if steps.unflushed_blocks == 0 {
            self.touched.push(grant.zone());
        }
        steps.unflushed_blocks += grant.blocks();
    }

    /// Takes note of a reset: its hole takes the blanks too.
    pub(super) fn reset(&mut self, zone: ZoneId) {
        self.zones[zone.0 as usize] = Steps::default();
        self.touched.retain(|&touched| touched != zone);
    }

    /// Writes blanks where the steps since the last flush ask for them; called before a flush. Returns the bytes written.
    ///
    /// What fails here is told to nobody: blanks are no promise, and a disk that is full or broken says so to the next
    /// write.
    pub(super) fn write(&mut self, machine: &ZoneMachine, layout: &Layout, file: &HostFile) -> u64 {
        let block_bytes = u64::from(machine.geometry().block_bytes);
        let mut written_bytes = 0;
        for zone in std::mem::take(&mut self.touched) {
            let steps = &mut self.zones[zone.0 as usize];
            let step_bytes = std::mem::take(&mut steps.unflushed_blocks) * block_bytes;
            steps.in_a_row = if step_bytes <= STEP_BYTES_MAX { steps.in_a_row.saturating_add(1) } else { 0 };
            let written = machine.written_blocks(zone);
            let nearly_used_up = steps.blank_to_blocks < written + STEP_BYTES_MAX.div_ceil(block_bytes);
            if steps.in_a_row < STEPS_BEFORE || !nearly_used_up || !machine.state(zone).is_active() {
                continue;
            }
            let from = steps.blank_to_blocks.max(written);
            let to = (from + RUN_BYTES.div_ceil(block_bytes)).min(machine.geometry().zone_capacity_blocks);
            if from < to && write_run(self.id, layout, file, zone, from..to).is_ok() {
                steps.blank_to_blocks = to;
                written_bytes += (to - from) * block_bytes;
            }
        }
        written_bytes
    }

    /// The end of a zone's data after a crash: `blocks` begins with what is known to be data and ends with the last block
    /// that is no hole.
    pub(super) fn strip(&self, layout: &Layout, file: &HostFile, zone: ZoneId, blocks: Range<u64>) -> Result<u64> {
        let mut end = blocks.end;
        let mut block = AlignedBuf::with_len(layout.block_bytes());
        while end > blocks.start {
            let offset = layout.byte_of(zone, end - 1);
            file.read_data(offset, &mut block)?;
            if !self.id.is_blank(&block, offset) {
                break;
            }
            end -= 1;
        }
        Ok(end)
    }
}

fn write_run(id: BlankId, layout: &Layout, file: &HostFile, zone: ZoneId, blocks: Range<u64>) -> Result<()> {
    let count = usize::try_from(blocks.end - blocks.start).expect("a run is 256 KiB, or one block");
    let mut run = AlignedBuf::with_len(count * layout.block_bytes());
    for (block, nth) in run.chunks_exact_mut(layout.block_bytes()).zip(blocks.clone()) {
        id.fill(block, layout.byte_of(zone, nth));
    }
    file.write_data(layout.byte_of(zone, blocks.start), &run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_is_blank_at_its_place_alone() {
        let id = BlankId::random();
        let mut block = [0; 4096];
        assert!(!id.is_blank(&block, 4096), "zeros are data");
        id.fill(&mut block, 4096);
        assert!(id.is_blank(&block, 4096));
        assert!(!id.is_blank(&block, 8192), "a copy elsewhere is data");
        assert!(!BlankId::random().is_blank(&block, 4096), "another file's is data");
        block[4095] ^= 1;
        assert!(!id.is_blank(&block, 4096), "a torn block is data");
    }
}
