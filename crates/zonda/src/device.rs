//! From a name to a device.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use zonda_device::{DeviceUri, Direct, OpenMode, Place, ZonedDevice};

use crate::open::Access;
use crate::{Error, Options, Result};

/// Opens the device called `uri`, or makes it if the options allow that.
///
/// # Errors
/// `BadUri`, `NotFound`, `AlreadyExists`; those of the device.
pub(crate) fn open(uri: &str, options: &Options, access: Access) -> Result<Arc<dyn ZonedDevice>> {
    let mut device: DeviceUri = uri.parse()?;
    if device.options.direct == Direct::Auto {
        device.options.direct = direct(options);
    }
    let exists = match &device.place {
        Place::File(path) => exists(path)?,
        Place::Zbd(path) => return open_block_device(&device, uri, path, access),
        _ => false,
    };
    if let Place::Flash(drive) = &device.place {
        return Ok(zonda_flash::drive::open_zoned(drive)?);
    }
    let mode = mode(uri, options, access, exists)?;
    if mode == OpenMode::Create {
        shape(&mut device, options);
    }
    Ok(device.open_zoned(mode)?)
}

/// A block device is there or not; whether there is a store on it shows when it is open.
fn open_block_device(device: &DeviceUri, uri: &str, path: &Path, access: Access) -> Result<Arc<dyn ZonedDevice>> {
    if !exists(path)? {
        return Err(Error::NotFound { uri: uri.to_owned() });
    }
    let mode = if access == Access::ReadOnly { OpenMode::ReadOnly } else { OpenMode::Open };
    Ok(device.open_zoned(mode)?)
}

fn direct(options: &Options) -> Direct {
    match options.direct_io {
        None => Direct::Auto,
        Some(true) => Direct::On,
        Some(false) => Direct::Off,
    }
}

/// Tells "not there" from "not allowed to look".
fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|source| Error::Io {
        path: path.to_owned(),
        action: "look it up",
        source: Arc::new(source),
    })
}

fn mode(uri: &str, options: &Options, access: Access, exists: bool) -> Result<OpenMode> {
    match (exists, access) {
        (true, Access::ReadOnly) => Ok(OpenMode::ReadOnly),
        (true, Access::ReadWrite) if options.create_new => Err(Error::AlreadyExists { uri: uri.to_owned() }),
        (true, Access::ReadWrite) => Ok(OpenMode::Open),
        (false, Access::ReadWrite) if options.create_if_missing || options.create_new => Ok(OpenMode::Create),
        (false, _) => Err(Error::NotFound { uri: uri.to_owned() }),
    }
}

/// Fills in what the name leaves open.
fn shape(device: &mut DeviceUri, options: &Options) {
    let zone_bytes = *device.shape.zone_size_bytes.get_or_insert(options.zone_bytes);
    device.shape.zones.get_or_insert(options.capacity_bytes.div_ceil(zone_bytes.max(1)));
}

/// Removes the file of a store that was begun and could not be finished. An error leaves the file, which is no worse.
pub(crate) fn remove(uri: &str) {
    if let Ok(DeviceUri { place: Place::File(path), .. }) = uri.parse() {
        let _ = fs::remove_file(path);
    }
}
