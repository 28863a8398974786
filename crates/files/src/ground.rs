//! Where the bytes of files are: in zones, and on a conventional drive in blocks behind them.

use std::sync::Arc;

use zonda_space::{ReadOrigin, Space, SpaceError, ZoneId};

use crate::blocks::{Blocks, Run};
use crate::{Extent, FileKind};

/// The zones of a store, and its blocks if it is on a conventional drive.
///
/// Extents name both in one way. Zones have the numbers that the zone manager gives them; group `g` of the blocks is zone
/// `zones + g`, of generation 0. Blocks are counted through the zones and on through the groups. A handle.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    space: Space,
    blocks: Option<Arc<Blocks>>,
    zones: u32,
    zoned_blocks: u64,
}

/// The generation of every group: what is in it is known by the journal alone.
pub(crate) const GENERATION_OF_BLOCKS: u64 = 0;

impl Ground {
    /// Zones alone.
    pub(crate) fn of_zones(space: Space) -> Self {
        Self { space, blocks: None, zones: u32::MAX, zoned_blocks: u64::MAX }
    }

    /// Zones for the journal and write-ahead logs, blocks for the rest.
    pub(crate) fn with_blocks(space: Space, blocks: Arc<Blocks>) -> Self {
        let zones = space.usage().zones;
        let zoned_blocks = u64::from(zones) * space.zone_blocks();
        Self { space, blocks: Some(blocks), zones, zoned_blocks }
    }

    /// The zone manager.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// The blocks, on a conventional drive.
    pub(crate) fn blocks(&self) -> Option<&Arc<Blocks>> {
        self.blocks.as_ref()
    }

    /// Whether new files of a kind are written in chunks that a mount finds by walking zones. On a conventional drive write-ahead
    /// logs alone are: the journal has the rest, as it has tables.
    pub(crate) fn keeps_in_chunks(&self, kind: FileKind) -> bool {
        kind.is_chunked() && (kind == FileKind::Log || self.blocks.is_none())
    }

    /// The blocks, and the group that `zone` is, if it is one.
    pub(crate) fn group(&self, zone: ZoneId) -> Option<(&Blocks, u64)> {
        let blocks = self.blocks.as_deref()?;
        Some((blocks, u64::from(zone.0.checked_sub(self.zones)?)))
    }

    /// The zone, as extents have it, that a group is.
    pub(crate) fn zone_of_group(&self, group: u64) -> ZoneId {
        ZoneId(self.zones + u32::try_from(group).expect("as many groups as fit into an extent's zone"))
    }

    /// The place of a run as extents have it: zone and first block.
    pub(crate) fn place_of(&self, blocks: &Blocks, run: Run) -> (ZoneId, u64) {
        (self.zone_of_group(blocks.group_of(run.first)), self.zoned_blocks + run.first)
    }

    /// The run of an extent that lies in blocks; `None` for one in a zone, or one that no block device holds.
    pub(crate) fn run_of(&self, extent: &Extent) -> Option<(&Blocks, Run)> {
        let (blocks, group) = self.group(extent.zone)?;
        let first = extent.block.checked_sub(self.zoned_blocks)?;
        let run = Run { first, blocks: extent.blocks() };
        let is_in_group = blocks.group_of(first) == group && blocks.group_of(first + run.blocks.max(1) - 1) == group;
        is_in_group.then_some((blocks, run))
    }

    /// Reads whole blocks of one extent.
    ///
    /// # Errors
    /// As [`Space::read`].
    pub(crate) fn read(&self, block: u64, into: &mut [u8]) -> Result<(), SpaceError> {
        self.read_told(block, into, None)
    }

    /// The same, by somebody who may say for what.
    ///
    /// # Errors
    /// As [`Space::read`].
    pub(crate) fn read_told(&self, block: u64, into: &mut [u8], origin: Option<ReadOrigin>) -> Result<(), SpaceError> {
        match &self.blocks {
            Some(blocks) if block >= self.zoned_blocks => blocks.read(block - self.zoned_blocks, into),
            _ => self.space.read_told(block, into, origin),
        }
    }

    /// The generation that extents in a zone must have; `None` if it is empty.
    pub(crate) fn generation_of(&self, zone: ZoneId) -> Option<u64> {
        if self.group(zone).is_some() { Some(GENERATION_OF_BLOCKS) } else { self.space.generation_of(zone) }
    }

    /// Nobody has the bytes of these any more. What was lost with its zone takes nothing from what is there now.
    pub(crate) fn bury<'a>(&self, extents: impl IntoIterator<Item = &'a Extent>) {
        for extent in extents {
            match self.run_of(extent) {
                Some((blocks, run)) => blocks.bury(run),
                None if self.is_in_zone(extent) => self.space.sub_live(extent.zone, extent.device_bytes()),
                None => {}
            }
        }
    }

    /// Whether the zone of an extent, or its group, is the one that it was written to: a zone that was reset by hand has other bytes now.
    pub(crate) fn is_there(&self, extent: &Extent) -> bool {
        self.generation_of(extent.zone) == Some(extent.generation)
    }

    fn is_in_zone(&self, extent: &Extent) -> bool {
        self.group(extent.zone).is_none() && self.is_there(extent)
    }

    /// Counts a recorded extent as live at a mount; false if its zone holds something else now, or its blocks are another's.
    pub(crate) fn revive(&self, extent: &Extent) -> bool {
        if let Some((blocks, run)) = self.run_of(extent) {
            return blocks.mark(run);
        }
        let is_there = self.is_in_zone(extent);
        if is_there {
            self.space.add_live(extent.zone, extent.device_bytes());
        }
        is_there
    }
}
