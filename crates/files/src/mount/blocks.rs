//! Makes and mounts a store on a conventional drive.

use std::sync::Arc;

use zonda_device::{BlockDevice, BlockZones, DeviceError, Geometry, Lba};
use zonda_space::{AlignedBuf, NewStore, Space, SpaceError, StoreId};

use super::{MountReport, check_features};
use crate::blocks::{Blocks, Placement};
use crate::ground::Ground;
use crate::options::FEATURE_BLOCKS;
use crate::{FileError, FileStore, FileStoreOptions, Result};

/// Zones in front, for the journal and write-ahead logs; fewer where they would be smaller than they may be.
const ZONES_MAX: u32 = 64;
/// The journal's, the reserve, and some for logs.
const ZONES_MIN: u32 = 16;
/// The share of the device that they take: one of so many.
const ZONES_OF: u64 = 16;
const ZONE_BYTES_MIN: u64 = 64 << 10;
const ZONE_BYTES_MAX: u64 = 64 << 20;
/// Of both ends of a device, what is looked at to tell whether it is blank: everything that names or divides a drive has its mark there.
const ENDS_BYTES: u64 = 1 << 20;

impl FileStore {
    /// Makes an empty store on a [blank](Self::block_written) conventional drive, or with `overwrite` on any, and mounts it.
    ///
    /// A sixteenth of the device, at least 1 MiB and at most 4 GiB, becomes 16 to 64 [zones](BlockZones) for the journal and write-ahead
    /// logs; a log that finds none left goes on behind them. There everything else lies in blocks, where `placement` puts it, and is
    /// written in place of what was deleted. Policies and zones mean nothing for it.
    ///
    /// # Errors
    /// `BadOption`; `NotBlank`, or `Space` if there is a store on the device or it does not suit: its blocks have 4 KiB, and it is large
    /// enough for 16 zones of 64 KiB and some data.
    pub fn format_on_blocks(
        device: Arc<dyn BlockDevice>,
        placement: Placement,
        id: StoreId,
        overwrite: bool,
        options: FileStoreOptions,
    ) -> Result<Self> {
        options.check()?;
        let zones = match BlockZones::open(Arc::clone(&device)) {
            // Whether there is a store in them is for the zone manager to say.
            Ok(zones) if !overwrite => zones,
            Err(cause) if !overwrite && let Some(block) = Self::block_written(&*device)? => {
                return Err(FileError::NotBlank { block, cause: cause.into() });
            }
            _ => BlockZones::create(Arc::clone(&device), zones_in_front(&*device)).map_err(SpaceError::from)?,
        };
        let first = zones.blocks();
        let new = NewStore { id, features: FEATURE_BLOCKS, superblock: vec![placement as u8], overwrite };
        let space = Space::format(Arc::new(zones), new, &options.space_in_front())?;
        let behind = device.capacity_blocks().saturating_sub(first);
        if behind == 0 {
            let at = Lba(first);
            return Err(SpaceError::from(DeviceError::OutOfRange { at, blocks: 1, device_blocks: first }).into());
        }
        device.trim(Lba(first), behind).map_err(SpaceError::from)?;
        let blocks = Blocks::new(device, Lba(first), placement, options.streams);
        let ground = Ground::with_blocks(space, Arc::new(blocks));
        Self::start(ground, options, Default::default(), zonda_space::JournalFound::default(), Vec::new())
    }

    /// Mounts the store on a conventional drive. Data is placed as it was when the store was made.
    ///
    /// # Errors
    /// `BadOption`; `Space` if there is no file store on the device, or a newer one; `OtherDevice` if it was made on zones alone.
    pub fn mount_on_blocks(device: Arc<dyn BlockDevice>, options: FileStoreOptions) -> Result<(Self, MountReport)> {
        options.check()?;
        let zones = BlockZones::open(Arc::clone(&device)).map_err(SpaceError::from)?;
        let first = Lba(zones.blocks());
        let (space, recovered) = Space::open(Arc::new(zones), &options.space_in_front())?;
        check_features(&space, true)?;
        let known = |number: &u8| Placement::ALL.into_iter().find(|placement| *placement as u8 == *number);
        let placement = space.identity().superblock.first().and_then(known);
        let damaged = || DeviceError::Damaged { what: "superblock", offset: 0, reason: "no placement of this number" };
        let placement = placement.ok_or_else(damaged).map_err(SpaceError::from)?;
        let blocks = Blocks::new(device, first, placement, options.streams);
        Self::mount_on(Ground::with_blocks(space, Arc::new(blocks)), recovered, options)
    }

    /// A block of a conventional drive that is not zeros, as far as can be told at little cost: a MiB at both ends is read, and the
    /// blocks where zones of a store would begin, of which one at least has a header. `None` for a blank drive.
    ///
    /// # Errors
    /// Those of reading.
    pub fn block_written(device: &dyn BlockDevice) -> Result<Option<u64>> {
        let (block, blocks) = (u64::from(device.block_bytes()), device.capacity_blocks());
        let front = zones_in_front(device);
        let ends = (ENDS_BYTES / block).clamp(1, blocks);
        // Two tables stand before the zones; the last of these starts is behind the zones.
        let starts = (0..=u64::from(front.zone_count)).map(|zone| (2 + zone * front.zone_size_blocks, 1));
        for (at, count) in [(0, ends), (blocks - ends, ends)].into_iter().chain(starts) {
            if at + count > blocks {
                break;
            }
            let mut bytes = AlignedBuf::with_len(usize::try_from(count * block).unwrap_or(usize::MAX));
            device.read(Lba(at), &mut bytes).map_err(SpaceError::from)?;
            if let Some(byte) = bytes.iter().position(|&byte| byte != 0) {
                return Ok(Some(at + byte as u64 / block));
            }
        }
        Ok(None)
    }
}

fn zones_in_front(device: &dyn BlockDevice) -> Geometry {
    let share = device.capacity_blocks() * u64::from(device.block_bytes()) / ZONES_OF;
    let zone_bytes = (1 << (share / u64::from(ZONES_MAX)).max(1).ilog2()).clamp(ZONE_BYTES_MIN, ZONE_BYTES_MAX);
    let zones = u32::try_from(share / zone_bytes).unwrap_or(ZONES_MAX).clamp(ZONES_MIN, ZONES_MAX);
    Geometry::new(zone_bytes, zones)
}
