//! File stores on conventional drives, under the names that the RocksDB plugin has for them: `DEVICE?fs=xfs-like`,
//! `conv:PROFILE?data=FILE`.

use std::sync::Arc;

use anyhow::{bail, ensure};
use zonda_device::{BlockDevice, DeviceUri, OpenMode};
use zonda_files::{FileStore, Placement, StoreId};
use zonda_flash::drive::Spec;

use super::options;

/// A conventional drive, open.
pub(super) struct Drive {
    device: Arc<dyn BlockDevice>,
    placement: Placement,
}

impl Drive {
    /// The drive of a name; `None` if it is of a zoned device. With `makes` the file of a modelled drive need not be there.
    ///
    /// # Errors
    /// Those of opening; a modelled drive that keeps its data in memory.
    pub(super) fn open(uri: &str, makes: bool) -> anyhow::Result<Option<Self>> {
        let (place, query) = uri.split_once('?').unwrap_or((uri, ""));
        let is_ours = |pair: &&str| pair.starts_with("fs=") || pair.starts_with("streams=");
        let (ours, keys): (Vec<&str>, Vec<&str>) = query.split('&').filter(|pair| !pair.is_empty()).partition(is_ours);
        let profile = place.strip_prefix("conv:");
        let placement = match ours.iter().find_map(|pair| pair.strip_prefix("fs=")) {
            Some(name) => match Placement::by_name(name) {
                Some(placement) => placement,
                None => bail!("fs={name}: use xfs-like or f2fs-like"),
            },
            None if profile.is_some() => Placement::XfsLike,
            None => return Ok(None),
        };
        let named = |place: &str| match keys.as_slice() {
            [] => place.to_owned(),
            keys => format!("{place}?{}", keys.join("&")),
        };
        let device = match profile {
            Some(profile) => modelled(&named(profile), makes)?,
            None => named(place).parse::<DeviceUri>()?.open_block(OpenMode::Open)?,
        };
        Ok(Some(Self { device, placement }))
    }

    /// Makes an empty store.
    ///
    /// # Errors
    /// As [`FileStore::format_on_blocks`].
    pub(super) fn format(self, id: StoreId, overwrite: bool) -> anyhow::Result<FileStore> {
        Ok(FileStore::format_on_blocks(self.device, self.placement, id, overwrite, options())?)
    }

    /// Mounts the store, for writing: there are no generations of blocks by which a reader could tell what is stale.
    ///
    /// # Errors
    /// As [`FileStore::mount_on_blocks`]; a store of the other placement.
    pub(super) fn mount(self) -> anyhow::Result<FileStore> {
        let (store, _) = FileStore::mount_on_blocks(self.device, options())?;
        let (found, asked) = (store.placement().0, self.placement.name());
        ensure!(found == asked, "the store was made with fs={found}, not with fs={asked}");
        Ok(store)
    }
}

fn modelled(name: &str, makes: bool) -> anyhow::Result<Arc<dyn BlockDevice>> {
    let drive: Spec = name.parse()?;
    let Some(data) = drive.data_file() else {
        bail!("a modelled drive keeps its data in memory of one process; `data=FILE` in its name keeps it");
    };
    ensure!(makes || data.exists(), "there is no {}; `zonda fs mkfs` makes it", data.display());
    Ok(Arc::new(drive.open_block()?))
}
