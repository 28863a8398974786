//! File stores on conventional drives, under the names that the RocksDB plugin has for them: `DEVICE?fs=xfs-like`,
//! `conv:PROFILE?data=FILE`.

use std::sync::Arc;

use anyhow::{bail, ensure};
use zonda_device::{BlockDevice, BlockOverlay, OpenMode, query_pairs};
use zonda_files::{FileStore, MountReport, Placement, StoreId};

use super::options;
use crate::devices::{self, Data};
use crate::exit::BadArgument;

/// A conventional drive, open.
pub(super) struct Drive {
    device: Arc<dyn BlockDevice>,
    placement: Placement,
}

impl Drive {
    /// The drive of a name; `None` if it is of a zoned device. To be read it is claimed, beside other readers, as there are no generations
    /// of blocks by which a reader could tell what is stale; and what a mount writes stays in memory.
    ///
    /// # Errors
    /// Those of opening; a modelled drive whose data is elsewhere.
    pub(super) fn open(uri: &str, mode: OpenMode, data: Data) -> anyhow::Result<Option<Self>> {
        let (place, query) = uri.split_once('?').unwrap_or((uri, ""));
        query_pairs(query)?;
        let is_ours = |pair: &&str| pair.starts_with("fs=") || pair.starts_with("streams=");
        let (ours, keys): (Vec<&str>, Vec<&str>) = query.split('&').filter(|pair| !pair.is_empty()).partition(is_ours);
        let profile = place.strip_prefix("conv:");
        let placement = match ours.iter().find_map(|pair| pair.strip_prefix("fs=")) {
            Some(name) => match Placement::by_name(name) {
                Some(placement) => placement,
                None => bail!(BadArgument(format!("fs={name}: use xfs-like or f2fs-like"))),
            },
            None if profile.is_some() => Placement::XfsLike,
            None => return Ok(None),
        };
        let named = |place: &str| match keys.as_slice() {
            [] => place.to_owned(),
            keys => format!("{place}?{}", keys.join("&")),
        };
        let name = match profile {
            Some(profile) => named(&format!("flash:{profile}")),
            None => named(place),
        };
        let mode = if mode.is_read_only() { OpenMode::ReadOnly } else { mode };
        let device = devices::open_block(&name.parse()?, mode, data)?;
        let device = if mode.is_read_only() { Arc::new(BlockOverlay::new(device)) } else { device };
        Ok(Some(Self { device, placement }))
    }

    /// Makes an empty store.
    ///
    /// # Errors
    /// As [`FileStore::format_on_blocks`].
    pub(super) fn format(self, id: StoreId, overwrite: bool) -> anyhow::Result<FileStore> {
        Ok(FileStore::format_on_blocks(self.device, self.placement, id, overwrite, options())?)
    }

    /// Mounts the store.
    ///
    /// # Errors
    /// As [`FileStore::mount_on_blocks`]; a store of the other placement.
    pub(super) fn mount(self) -> anyhow::Result<(FileStore, MountReport)> {
        let (store, report) = FileStore::mount_on_blocks(self.device, options())?;
        let (found, asked) = (store.placement().0, self.placement.name());
        ensure!(found == asked, "the store was made with fs={found}, not with fs={asked}");
        Ok((store, report))
    }
}
