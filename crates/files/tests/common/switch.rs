//! The devices of the model test, each behind a power switch.

use std::sync::Arc;

use zonda_device::{CutAt, MemBlockDevice, MemDevice, PowerCut, PowerCutBlock};
use zonda_files::{FileStore, FileStoreOptions, MountReport, Placement, Result, StoreId};
use zonda_rt::Rng;

use super::split;

/// Blocks in front of those of files on a conventional drive: two tables and 16 zones of 64 KiB, too few for all logs.
const FRONT_BLOCKS: u64 = 2 + 16 * 16;
/// Blocks for files: few for extents, so that space runs out; five segments of 2 MiB for logs.
const BLOCKS: [(Placement, u64); 2] = [(Placement::XfsLike, 240), (Placement::F2fsLike, 5 * 512)];

/// A device behind a power switch, and what it is.
#[derive(Clone)]
pub(crate) enum Switch {
    /// Zones.
    Zones(PowerCut),
    /// Zones that can be split, of a drive with this seed.
    SplitZones(PowerCut, u64),
    /// A conventional drive.
    Blocks(PowerCutBlock, Placement),
}

impl Switch {
    pub(crate) fn zones(memory: MemDevice) -> Self {
        Self::Zones(PowerCut::over(memory))
    }

    pub(crate) fn split_zones(seed: u64) -> Self {
        Self::SplitZones(PowerCut::over(split::memory()), seed)
    }

    pub(crate) fn blocks(placement: Placement) -> Self {
        let blocks = BLOCKS.iter().find(|(of, _)| *of == placement).unwrap().1;
        let memory = MemBlockDevice::new(4096, FRONT_BLOCKS + blocks).unwrap();
        Self::Blocks(PowerCutBlock::over(memory), placement)
    }

    pub(crate) fn arm(&self, at: Option<CutAt>) {
        match self {
            Self::Zones(switch) | Self::SplitZones(switch, _) => switch.arm(at),
            Self::Blocks(switch, _) => switch.arm(at),
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.cut_label().is_some()
    }

    /// What was being done when the power went; `None` while it is on.
    pub(crate) fn cut_label(&self) -> Option<&'static str> {
        let report = match self {
            Self::Zones(switch) | Self::SplitZones(switch, _) => switch.cut_report(),
            Self::Blocks(switch, _) => switch.cut_report(),
        };
        report.map(|report| report.label)
    }

    /// What a cut left, with the power on again.
    pub(crate) fn reopened(&self, rng: &mut Rng) -> Self {
        match self {
            Self::Zones(switch) => Self::Zones(PowerCut::over(switch.reopen(rng))),
            Self::SplitZones(switch, seed) => Self::SplitZones(PowerCut::over(switch.reopen(rng)), *seed),
            Self::Blocks(switch, placement) => Self::Blocks(PowerCutBlock::over(switch.reopen(rng)), *placement),
        }
    }

    pub(crate) fn format(&self, id: StoreId, options: FileStoreOptions) -> Result<FileStore> {
        match self {
            Self::Zones(switch) => FileStore::format(Arc::new(switch.clone()), id, false, options),
            Self::SplitZones(switch, seed) => {
                FileStore::format(split::over_switch(switch, *seed).unwrap(), id, false, options)
            }
            Self::Blocks(switch, placement) => {
                FileStore::format_on_blocks(Arc::new(switch.clone()), *placement, id, false, options)
            }
        }
    }

    /// `None` if the power goes while a drive looks at its zones.
    pub(crate) fn mount(&self, options: FileStoreOptions) -> Option<Result<(FileStore, MountReport)>> {
        Some(match self {
            Self::Zones(switch) => FileStore::mount(Arc::new(switch.clone()), options),
            Self::SplitZones(switch, seed) => FileStore::mount(split::over_switch(switch, *seed)?, options),
            Self::Blocks(switch, _) => FileStore::mount_on_blocks(Arc::new(switch.clone()), options),
        })
    }
}
