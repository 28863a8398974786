//! From a name to a zoned device.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zonda_device::{BlockDevice, DeviceError, DeviceUri, OpenMode, Place, ZoneId, ZoneState, ZonedDevice};
use zonda_flash::core::DieStats;
use zonda_flash::drive::{FlashBlock, FlashReport, FlashZoned, Spec};
use zonda_flash::histogram::Histogram;
use zonda_flash::zns::{BlockWear, SplitCounts, SplitMemory, TimedWork};
use zonda_rt::Mutex;

use crate::failure::{Failure, Kind};
use crate::uri::KEYS;

/// Devices of this process that have no other name.
static OFFERED: Mutex<BTreeMap<String, Arc<dyn ZonedDevice>>> = Mutex::new(BTreeMap::new());

/// Lets `zonda://process:NAME` open a device that this program made, a decorated one for example. `None` takes it back; who
/// has mounted it keeps it.
pub fn offer_device(name: &str, device: Option<Arc<dyn ZonedDevice>>) {
    let mut offered = OFFERED.lock();
    match device {
        Some(device) => offered.insert(name.to_owned(), device),
        None => offered.remove(name),
    };
}

/// Opens the device called `name`, with `is_read_only` beside whoever writes it; else makes it with the capacity of `create`, if
/// that is given and there is none. `is_new` tells whether nothing can be on it.
///
/// # Errors
/// Those of the device; `InvalidArgument` for a bad name.
pub(crate) fn open(name: &str, create: Option<u64>, is_read_only: bool) -> Result<Opened<dyn ZonedDevice>, Failure> {
    if let Some(name) = name.strip_prefix("process:") {
        let device = OFFERED.lock().get(name).cloned();
        let device =
            device.ok_or_else(|| Failure::new(Kind::NotFound, format!("this process offers no device {name:?}")))?;
        return Ok(Opened::there(device));
    }
    let mut uri = parse(name)?;
    if is_read_only {
        return open_to_read(&uri);
    }
    match uri.place.clone() {
        Place::Flash(drive) => {
            let drive = drive.parse::<Spec>()?.open_zoned()?;
            // Its data may lie in a file, with a file system on it.
            let is_new = is_empty(&drive)?;
            Ok(Opened { modelled: Some(Modelled::Zoned(drive.clone())), is_new, ..Opened::there(Arc::new(drive)) })
        }
        Place::Memory => {
            shape(&mut uri, create)?;
            Ok(Opened { is_new: true, ..Opened::there(uri.open_zoned(OpenMode::Create)?) })
        }
        Place::File(path) if create.is_some() && !path.exists() => {
            shape(&mut uri, create)?;
            let device = uri.open_zoned(OpenMode::Create)?;
            Ok(Opened { is_new: true, made: Some(path), ..Opened::there(device) })
        }
        Place::File(path) if !path.exists() => {
            let why = format!("{}: there is no such file; `create=SIZE` makes it", path.display());
            Err(Failure::new(Kind::NotFound, why))
        }
        // What is no zoned device is refused by name.
        Place::File(_) | Place::Zbd(_) | Place::HostFtl(_) => Ok(Opened::there(uri.open_zoned(OpenMode::Open)?)),
    }
}

/// Opens a device beside whoever writes it, as far as it can be read so.
fn open_to_read(uri: &DeviceUri) -> Result<Opened<dyn ZonedDevice>, Failure> {
    let in_memory = |scheme: &str| {
        Failure::invalid(format!("read_only: `{scheme}` is empty memory of each mount's own, and nothing to read"))
    };
    match &uri.place {
        Place::Memory => Err(in_memory("mem:")),
        Place::Flash(drive) => {
            let drive: Spec = drive.parse()?;
            drive.data_file().ok_or_else(|| in_memory("flash: without data=FILE"))?;
            let drive = drive.open_zoned_as(OpenMode::ReadBeside)?;
            Ok(Opened { modelled: Some(Modelled::Zoned(drive.clone())), ..Opened::there(Arc::new(drive)) })
        }
        _ => Ok(Opened::there(uri.open_zoned(OpenMode::ReadBeside)?)),
    }
}

/// A device's name; of keys that are neither its nor ours all are told.
fn parse(name: &str) -> Result<DeviceUri, Failure> {
    name.parse().map_err(|error: DeviceError| match error {
        DeviceError::BadName { reason } => Failure::invalid(format!("{reason}; of the file system: {KEYS}")),
        other => other.into(),
    })
}

/// Opens the block device called `name`; makes it with the capacity of `create`, if that is given and there is none. `is_new` tells
/// whether nothing can be on it.
///
/// # Errors
/// Those of the device; `InvalidArgument` for a bad name or a zoned device.
pub(crate) fn open_blocks(name: &str, create: Option<u64>) -> Result<Opened<dyn BlockDevice>, Failure> {
    let mut uri = parse(name)?;
    let made = match uri.place.clone() {
        Place::Flash(drive) => {
            let drive = drive.parse::<Spec>()?;
            let data = drive.data_file().map(Path::to_owned);
            let is_new = data.as_ref().is_none_or(|path| !path.exists());
            let made = data.filter(|_| is_new);
            let drive = drive.open_block()?;
            let (modelled, device) = (Some(Modelled::Block(drive.clone())), Arc::new(drive));
            return Ok(Opened { modelled, device, is_new, made });
        }
        Place::Memory => None,
        Place::File(path) if create.is_some() && !path.exists() => Some(path),
        _ => return Ok(Opened::there(uri.open_block(OpenMode::Open)?)),
    };
    shape(&mut uri, create)?;
    let device = uri.open_block(OpenMode::Create)?;
    Ok(Opened { is_new: true, made, ..Opened::there(device) })
}

/// Whether no zone of a device is written. Zones that can never be (lost ones, conventional ones of SMR disks) do not count.
pub(crate) fn is_empty(device: &dyn ZonedDevice) -> Result<bool, Failure> {
    let zones = device.report(ZoneId(0), device.geometry().zone_count)?;
    Ok(zones.iter().all(|zone| matches!(zone.state, ZoneState::Empty | ZoneState::Offline)))
}

/// A modelled drive, for what its flash did.
#[derive(Clone, Debug)]
pub(crate) enum Modelled {
    Zoned(FlashZoned),
    Block(FlashBlock),
}

impl Modelled {
    /// What its flash did so far, and what callers waited for.
    pub(crate) fn flash(&self) -> FlashReport {
        match self {
            Self::Zoned(drive) => drive.flash_report(),
            Self::Block(drive) => drive.flash_report(),
        }
    }

    /// What its dies did, all together.
    pub(crate) fn dies(&self) -> Dies {
        let report = match self {
            Self::Zoned(drive) => drive.flash_report(),
            Self::Block(drive) => drive.flash_report(),
        };
        let sum = |of: fn(&DieStats) -> u64| report.core.dies.iter().map(of).sum();
        Dies {
            read_ns: sum(|die| die.read_ns),
            program_ns: sum(|die| die.program_ns),
            erase_ns: sum(|die| die.erase_ns),
        }
    }

    /// How long commands took, if it can split zones.
    pub(crate) fn times(&self) -> Vec<(TimedWork, Histogram)> {
        let Self::Zoned(drive) = self else { return Vec::new() };
        if drive.split_counts().is_none() {
            return Vec::new();
        }
        TimedWork::ALL.into_iter().map(|work| (work, drive.times_of(work))).collect()
    }

    /// What it did for split zones, if it can split zones.
    pub(crate) fn parts(&self) -> SplitParts {
        let Self::Zoned(drive) = self else { return SplitParts::default() };
        let Some(counts) = drive.split_counts() else { return SplitParts::default() };
        SplitParts { counts, memory: drive.split_memory().unwrap_or_default(), wear: drive.wear_of_blocks() }
    }
}

/// What the parts of a drive that splits zones did and take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SplitParts {
    pub(crate) counts: SplitCounts,
    pub(crate) memory: SplitMemory,
    /// How often blocks were erased.
    pub(crate) wear: BlockWear,
}

/// What all dies of a drive together did, in the drive's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dies {
    pub(crate) read_ns: u64,
    pub(crate) program_ns: u64,
    pub(crate) erase_ns: u64,
}

/// A device and what is known of it.
pub(crate) struct Opened<D: ?Sized> {
    /// It, if it is a modelled drive.
    pub(crate) modelled: Option<Modelled>,
    pub(crate) device: Arc<D>,
    /// It was made just now: nothing is on it.
    pub(crate) is_new: bool,
    /// The file that was made for it.
    pub(crate) made: Option<PathBuf>,
}

impl<D: ?Sized> Opened<D> {
    /// A device on which anything may be.
    fn there(device: Arc<D>) -> Self {
        Self { modelled: None, device, is_new: false, made: None }
    }
}

/// What was formatted; or the next attempt would meet a device of the wrong size, with nothing on it: the file that was made for it goes.
pub(crate) fn formatted<T, E>(formatted: Result<T, E>, made: Option<PathBuf>) -> Result<T, E> {
    made.filter(|_| formatted.is_err()).into_iter().for_each(|path| drop(fs::remove_file(path)));
    formatted
}

/// Zones of a new device of so many bytes, where its name leaves them open: of as many as it names, what is a share of them; else a hundred
/// and more, so that one zone is at most one percent of the space, of 1 to 64 MiB.
///
/// # Errors
/// `InvalidArgument` if the name has zones of another size in all.
fn shape(uri: &mut DeviceUri, create: Option<u64>) -> Result<(), Failure> {
    let Some(bytes) = create else { return Ok(()) };
    let shape = &mut uri.shape;
    // Of `create=on` the size is not known.
    let zone_bytes = match (shape.zone_size_bytes, shape.zones.filter(|_| bytes > 0)) {
        (Some(zone_bytes), Some(zones)) if zones != bytes / zone_bytes.max(1) => {
            return Err(Failure::invalid(format!(
                "{zones} zones of {zone_bytes} bytes are not the {bytes} of `create`"
            )));
        }
        (Some(zone_bytes), _) => zone_bytes,
        (None, Some(zones)) => share_of(bytes, zones)?,
        (None, None) => zone_bytes_for(bytes),
    };
    shape.zone_size_bytes = Some(zone_bytes);
    shape.zones.get_or_insert((bytes / zone_bytes.max(1)).max(1));
    Ok(())
}

/// Whole blocks of one of so many zones.
fn share_of(bytes: u64, zones: u64) -> Result<u64, Failure> {
    const BLOCK: u64 = zonda_files::BLOCK_BYTES as u64;
    match bytes / zones.max(1) / BLOCK * BLOCK {
        0 => Err(Failure::invalid(format!("{zones} zones are too many for the {bytes} bytes of `create`"))),
        zone_bytes => Ok(zone_bytes),
    }
}

fn zone_bytes_for(bytes: u64) -> u64 {
    let hundredth = (bytes / 100).max(1);
    let power_of_two_below = 1 << hundredth.ilog2();
    u64::clamp(power_of_two_below, 1 << 20, 64 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_a_new_device_are_at_most_a_percent() {
        assert_eq!(zone_bytes_for(1 << 30), 8 << 20);
        assert_eq!(zone_bytes_for(1 << 40), 64 << 20);
        assert_eq!(zone_bytes_for(1), 1 << 20);
    }

    #[test]
    fn zones_of_a_new_device_have_its_size_together() {
        let made = |keys: &str, create: u64| {
            let mut uri = parse(&format!("mem:?{keys}")).unwrap();
            shape(&mut uri, Some(create)).map(|()| (uri.shape.zones.unwrap(), uri.shape.zone_size_bytes.unwrap()))
        };
        assert_eq!(made("zones=64", 1 << 30), Ok((64, 16 << 20)));
        assert_eq!(made("zones=30", 100 << 12), Ok((30, 3 << 12)), "of whole blocks");
        assert_eq!(made("zone_size=1MiB", 40 << 20), Ok((40, 1 << 20)));
        assert_eq!(made("zone_size=1MiB&zones=40", (40 << 20) + 5), Ok((40, 1 << 20)));
        assert_eq!(made("zone_size=1MiB&zones=40", 0), Ok((40, 1 << 20)), "`create=on`");
        for (keys, create) in [("zone_size=1MiB&zones=64", 1 << 30), ("zones=64", 64 << 10)] {
            assert_eq!(made(keys, create).unwrap_err().kind, Kind::InvalidArgument, "{keys}");
        }
    }

    #[test]
    fn an_offered_device_is_found_until_it_is_taken_back() {
        let device: Arc<dyn ZonedDevice> =
            Arc::new(zonda_device::MemDevice::new(zonda_device::Geometry::new(1 << 20, 8)).unwrap());
        offer_device("devices-test", Some(device));
        assert!(open("process:devices-test", None, false).is_ok());
        offer_device("devices-test", None);
        assert_eq!(open("process:devices-test", None, false).map(|_| ()).unwrap_err().kind, Kind::NotFound);
    }
}
