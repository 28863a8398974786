//! Writes the bytes of a file into blocks of a conventional drive.

use zonda_space::BLOCK_BYTES;

use super::FileWriter;
use crate::blocks::Want;
use crate::ground::GENERATION_OF_BLOCKS;
use crate::store::Counters;
use crate::{Claim, Extent, FileKind, Result};

/// Blocks that a growing file is given beyond what it asks for, at most.
const MORE_BLOCKS_MAX: u64 = 64 << 20 >> 12;

impl FileWriter {
    /// Whether its bytes go into blocks: all of a conventional drive do that no walk of zones must find.
    pub(super) fn is_in_blocks(&self) -> bool {
        self.core.ground.blocks().is_some() && !self.file.content().is_chunked
    }

    /// No zone in front is left for a write-ahead log: what it has there is recorded and no chunk behind it counts, what it gets
    /// from now on lies in blocks. A crash before that record is durable finds the chunks, and one after it no less.
    pub(super) fn go_on_in_blocks(&mut self) -> Result<()> {
        self.record_written(true)?;
        self.write_to_blocks()
    }

    /// Writes the first bytes that wait, or as many as a run of blocks holds.
    pub(super) fn write_to_blocks(&mut self) -> Result<()> {
        let Some(blocks) = self.core.ground.blocks().cloned() else { return Ok(()) };
        let run = match self.run.take() {
            Some(run) => run,
            None => self.core.allocate(&self.want(), self.claimant())?,
        };
        let lifetime = self.file.tags().lifetime;
        let mut content = self.file.content_mut();
        let image = content.first_waiting().as_data(run.blocks);
        let device_bytes = image.blocks.len();
        if let Err(error) = blocks.write(run.first, image.blocks, lifetime) {
            blocks.give_back(run);
            return Err(self.core.write_failed(error));
        }
        let (zone, block) = self.core.ground.place_of(&blocks, run);
        let (bytes, crc) = (image.bytes as u64, Some(image.crc));
        content.wrote(Extent { zone, generation: GENERATION_OF_BLOCKS, block, skip: 0, bytes, crc });
        drop(content);
        let counters = &self.core.counters;
        Counters::add(&counters.written, device_bytes as u64);
        if self.file.tags().kind == FileKind::Log {
            Counters::add(&counters.spilled, device_bytes as u64);
        }
        self.run = run.split((device_bytes / BLOCK_BYTES) as u64).1;
        self.note_zones();
        Ok(())
    }

    fn want(&self) -> Want {
        let content = self.file.content();
        let last = content.extents.iter().last();
        let after = last.and_then(|last| self.core.ground.run_of(last)).map(|(_, run)| run.end());
        let blocks = |bytes: u64| bytes.div_ceil(BLOCK_BYTES as u64);
        Want {
            blocks: blocks(content.waiting()).max(1),
            // With the last room it is given what it asks for.
            more: if self.claim == Claim::Last { 0 } else { blocks(content.extents.bytes()).min(MORE_BLOCKS_MAX) },
            after,
            lifetime: self.file.tags().lifetime,
            is_moved: false,
        }
    }

    /// Gives back what it was given and does not need.
    pub(super) fn give_back_blocks(&mut self) {
        if let Some((blocks, run)) = self.core.ground.blocks().zip(self.run.take()) {
            blocks.give_back(run);
        }
    }
}
