//! Devices by name, where no store opens them: modelled drives are opened elsewhere than all others.

use std::sync::Arc;

use anyhow::ensure;
use zonda_device::{BlockDevice, DeviceUri, OpenMode, Place, ZonedDevice};
use zonda_flash::drive::Spec;

/// Where a modelled drive must have its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// In memory, or in a file that is there.
    Anywhere,
    /// In a file that is there.
    Kept,
    /// In a file, which is made if it is not there.
    Made,
}

/// Opens the zoned device of a name.
///
/// # Errors
/// Those of the device; a modelled drive whose data is elsewhere.
pub(crate) fn open_zoned(uri: &DeviceUri, mode: OpenMode, data: Data) -> anyhow::Result<Arc<dyn ZonedDevice>> {
    match &uri.place {
        Place::Flash(name) => Ok(Arc::new(drive(name, data)?.open_zoned_as(for_drive(mode, data))?)),
        _ => Ok(uri.open_zoned(mode)?),
    }
}

/// Opens the block device of a name.
///
/// # Errors
/// As [`open_zoned`].
pub(crate) fn open_block(uri: &DeviceUri, mode: OpenMode, data: Data) -> anyhow::Result<Arc<dyn BlockDevice>> {
    match &uri.place {
        Place::Flash(name) => Ok(Arc::new(drive(name, data)?.open_block_as(for_drive(mode, data))?)),
        Place::HostFtl(over) => Ok(Arc::new(over.over(open_zoned(&over.zones.parse()?, mode, data)?, mode)?)),
        _ => Ok(uri.open_block(mode)?),
    }
}

/// A file of a drive that may be made is.
fn for_drive(mode: OpenMode, data: Data) -> OpenMode {
    if data == Data::Made && !mode.is_read_only() { OpenMode::OpenOrCreate } else { mode }
}

fn drive(name: &str, data: Data) -> anyhow::Result<Spec> {
    let drive: Spec = name.parse()?;
    match drive.data_file() {
        None => ensure!(
            data == Data::Anywhere,
            "a modelled drive keeps its data in memory of one process; `data=FILE` in its name keeps it"
        ),
        Some(file) => ensure!(
            data == Data::Made || file.exists(),
            "there is no {}; `zonda fs mkfs` makes it, or for a store of keys `zonda put`",
            file.display()
        ),
    }
    Ok(drive)
}
