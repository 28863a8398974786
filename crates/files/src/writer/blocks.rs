//! Writes the bytes of a file into blocks of a conventional drive.

use zonda_space::BLOCK_BYTES;

use super::FileWriter;
use crate::blocks::Want;
use crate::ground::GENERATION_OF_BLOCKS;
use crate::store::Counters;
use crate::{Extent, Result};

/// Blocks that a growing file is given beyond what it asks for, at most.
const MORE_BLOCKS_MAX: u64 = 64 << 20 >> 12;

impl FileWriter {
    /// Whether its bytes go into blocks.
    pub(super) fn is_in_blocks(&self) -> bool {
        self.core.ground.blocks().is_some() && !self.file.tags().kind.is_chunked()
    }

    /// Writes the first bytes that wait, or as many as a run of blocks holds.
    pub(super) fn write_to_blocks(&mut self) -> Result<()> {
        let Some(blocks) = self.core.ground.blocks().cloned() else { return Ok(()) };
        let run = match self.run.take() {
            Some(run) => run,
            None => self.core.allocate(&self.want(), self.file.tags().kind)?,
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
        Counters::add(&self.core.counters.written, device_bytes as u64);
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
            more: blocks(content.extents.bytes()).min(MORE_BLOCKS_MAX),
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
