//! From a name to a device.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zonda_device::format::DeviceKind;
use zonda_device::{DeviceUri, Direct, OpenMode, OverZones, Place, ZonedDevice};
use zonda_flash::drive::Spec;

use crate::backing::Device;
use crate::choices::bad;
use crate::limits::SEGMENT_BYTES_MAX;
use crate::open::Access;
use crate::{Error, Options, Result, StoreKind};

/// A store in place in memory takes all of its capacity at once: at most this, unless its name says how large it is.
const MEMORY_CAPACITY_BYTES_MAX: u64 = 1 << 30;

/// Files that an opening made. Dropping it removes them: drop it before their devices, whose locks keep others out, or [`keep`](Self::keep)
/// them.
#[derive(Debug, Default)]
pub(crate) struct Made(Vec<PathBuf>);

impl Made {
    /// Leaves the files where they are.
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // An error leaves the file; the one that stopped the opening is the one to tell.
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// The name of the store in the file at `path`, for all calls that take a name: `file:PATH`. A path as text is a name itself, unless it
/// begins with letters and a colon; keys may be put behind either (`?zone_size=16MiB`).
///
/// # Errors
/// `BadUri` for a path that no name has: one with a `?` in it, which begins the keys, or that is no UTF-8, or empty. A symbolic link with a
/// plain name does then.
///
/// # Examples
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("app.zonda");
/// let db = zonda::Db::open(&zonda::file_uri(&path)?)?;
/// db.put("key", "value")?;
/// assert!(path.exists());
/// assert!(matches!(zonda::file_uri("what?"), Err(zonda::Error::BadUri { .. })));
/// # Ok::<(), zonda::Error>(())
/// ```
pub fn file_uri(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    match path.to_str() {
        Some(text) if !text.is_empty() && !text.contains('?') => Ok(format!("file:{text}")),
        _ => {
            let why = "names are UTF-8, not empty, and end their path at the first `?`: name a link to the file";
            Err(Error::BadUri { reason: format!("{path:?} is no path that a name can have: {why}") })
        }
    }
}

/// Opens the device called `uri`, or makes it if the options allow that; `made` takes note of its file then.
///
/// # Errors
/// `BadUri`, `NotFound`, `AlreadyExists`; `BadOption` if a store of the other kind is there; those of the device.
pub(crate) fn open(uri: &str, options: &Options, access: Access, made: &mut Made) -> Result<Device> {
    let mut device: DeviceUri = uri.parse()?;
    if device.options.direct == Direct::Auto {
        device.options.direct = direct(options);
    }
    if let Place::HostFtl(over) = &device.place {
        return over_zones(over, options, access, made);
    }
    let exists = match &device.place {
        Place::File(path) => exists(path)?,
        Place::Zbd(path) => {
            only_zoned(&device, options)?;
            return open_block_device(&device, path, access);
        }
        _ => false,
    };
    if let Place::Flash(drive) = &device.place {
        return modelled((uri, drive), options, access, made);
    }
    let mode = mode(uri, options, access, exists)?;
    let kind = kind(&device, options, mode)?;
    if mode == OpenMode::Create {
        shape(&mut device, options, kind);
        check_segments(&device, kind)?;
    }
    let opened = match kind {
        StoreKind::Zoned => Device::Zoned(device.open_zoned(mode)?),
        StoreKind::InPlace => {
            let segment_bytes = device.shape.zone_size_bytes.unwrap_or(options.zone_size_bytes());
            Device::Block { device: device.open_block(mode)?, segment_bytes }
        }
    };
    if let (OpenMode::Create, Place::File(path)) = (mode, &device.place) {
        made.0.push(path.clone());
    }
    Ok(opened)
}

/// A host FTL on any zoned device.
fn over_zones(over: &OverZones, options: &Options, access: Access, made: &mut Made) -> Result<Device> {
    if options.store == Some(StoreKind::Zoned) {
        return Err(other_kind(StoreKind::Zoned, StoreKind::InPlace));
    }
    let mut below = options.clone();
    below.store = Some(StoreKind::Zoned);
    let mode = if access == Access::ReadOnly { OpenMode::ReadOnly } else { OpenMode::OpenOrCreate };
    match open(&over.zones, &below, access, made)? {
        Device::Zoned(zones) => {
            let named: DeviceUri = over.zones.parse()?;
            let segment_bytes = named.shape.zone_size_bytes.unwrap_or(options.zone_size_bytes());
            Ok(Device::Block { device: Arc::new(over.over(zones, mode)?), segment_bytes })
        }
        Device::Block { .. } => Err(other_kind(StoreKind::Zoned, StoreKind::InPlace)),
    }
}

/// How the store called `uri` lies on its device, or would if `options` made it.
///
/// # Errors
/// `BadUri`; `BadOption` if a store of the other kind was asked for; those of looking at a file.
pub(crate) fn kind_at(uri: &str, options: &Options) -> Result<StoreKind> {
    let device: DeviceUri = uri.parse()?;
    let found = match &device.place {
        Place::HostFtl(_) => StoreKind::InPlace,
        Place::Zbd(_) => StoreKind::Zoned,
        Place::Flash(drive) => kind_of_drive(&drive.parse()?),
        Place::File(_) | Place::Memory => return kind(&device, options, OpenMode::OpenOrCreate),
    };
    match options.store.or(device.layout.map(kind_on)) {
        Some(asked) if asked != found => Err(other_kind(asked, found)),
        _ => Ok(found),
    }
}

/// Whether `uri` names an ordinary file.
///
/// # Errors
/// `BadUri`.
pub(crate) fn is_file(uri: &str) -> Result<bool> {
    let device: DeviceUri = uri.parse()?;
    Ok(matches!(device.place, Place::File(_)))
}

/// Refuses a log that goes with its process below pages that stay: they would never be opened again.
///
/// # Errors
/// `LogDevice`, `BadUri`.
pub(crate) fn check_log_lasts(log: &str, pages: &str) -> Result<()> {
    if is_in_memory(log)? && !is_in_memory(pages)? {
        let why = format!(
            "a log at {log} would be in memory, and without it the store at {pages} could never be opened again: name a file or device for it"
        );
        return Err(Error::LogDevice { why });
    }
    Ok(())
}

/// Whether what is at `uri` goes with the process that has it open.
fn is_in_memory(uri: &str) -> Result<bool> {
    match uri.parse::<DeviceUri>()?.place {
        Place::Memory => Ok(true),
        Place::File(_) | Place::Zbd(_) => Ok(false),
        Place::Flash(drive) => Ok(drive.parse::<Spec>()?.data_file().is_none()),
        Place::HostFtl(over) => is_in_memory(&over.zones),
    }
}

fn kind_of_drive(drive: &Spec) -> StoreKind {
    if drive.is_zoned() { StoreKind::Zoned } else { StoreKind::InPlace }
}

/// A modelled SSD: its profile decides the kind of store. Where it has its data in a file, that is opened and made as an ordinary one is,
/// but that a store may be made on one that is blank.
fn modelled((uri, drive): (&str, &str), options: &Options, access: Access, made: &mut Made) -> Result<Device> {
    let drive: Spec = drive.parse()?;
    let kind = kind_of_drive(&drive);
    if let Some(asked) = options.store
        && asked != kind
    {
        return Err(other_kind(asked, kind));
    }
    let file = drive.data_file();
    let makes_it = options.create_if_missing || options.create_new;
    let may_be_new = options.clone().create_new(false).create_if_missing(makes_it);
    let mode = match file {
        Some(path) => mode(uri, &may_be_new, access, exists(path)?)?,
        None => OpenMode::OpenOrCreate,
    };
    let opened = match kind {
        StoreKind::Zoned => Device::Zoned(Arc::new(drive.open_zoned_as(mode)?)),
        StoreKind::InPlace => {
            let device = Arc::new(drive.open_block_as(mode)?);
            Device::Block { device, segment_bytes: options.zone_size_bytes() }
        }
    };
    made.0.extend(file.filter(|_| mode == OpenMode::Create).map(Path::to_path_buf));
    Ok(opened)
}

/// The kind of store that is there or is to be made.
fn kind(device: &DeviceUri, options: &Options, mode: OpenMode) -> Result<StoreKind> {
    let asked = options.store.or(device.layout.map(kind_on));
    let found = if mode == OpenMode::Create { None } else { device.kind()?.map(kind_on) };
    match (asked, found) {
        (Some(asked), Some(found)) if asked != found => Err(other_kind(asked, found)),
        _ => Ok(found.or(asked).unwrap_or(options.store_of_preset)),
    }
}

/// Refuses a store in place where there can be none.
fn only_zoned(device: &DeviceUri, options: &Options) -> Result<()> {
    match options.store.or(device.layout.map(kind_on)) {
        Some(StoreKind::InPlace) => Err(other_kind(StoreKind::InPlace, StoreKind::Zoned)),
        _ => Ok(()),
    }
}

fn kind_on(layout: DeviceKind) -> StoreKind {
    match layout {
        DeviceKind::Zoned => StoreKind::Zoned,
        DeviceKind::Block => StoreKind::InPlace,
    }
}

fn other_kind(asked: StoreKind, found: StoreKind) -> Error {
    let why = format!("{} asked for, but the store is {}", asked.name(), found.name());
    Error::BadOption { name: "store", why }
}

/// A block device is there or not; whether there is a store on it shows when it is open.
fn open_block_device(device: &DeviceUri, path: &Path, access: Access) -> Result<Device> {
    if !exists(path)? {
        return Err(Error::UnsuitableDevice { why: format!("there is none at {}", path.display()) });
    }
    let mode = if access == Access::ReadOnly { OpenMode::ReadOnly } else { OpenMode::Open };
    Ok(Device::Zoned(device.open_zoned(mode)?))
}

/// Opens the device of the log called `uri`: a new one for a store that `is_new`, else the one that is there.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_log(
    uri: &str,
    options: &Options,
    access: Access,
    is_new: bool,
    made: &mut Made,
) -> Result<Arc<dyn ZonedDevice>> {
    let mut options = options.clone().create_new(is_new).create_if_missing(is_new);
    options.store = Some(StoreKind::Zoned);
    match open(uri, &options, access, made) {
        Ok(Device::Zoned(device)) => Ok(device),
        Ok(Device::Block { .. }) => Err(other_kind(StoreKind::Zoned, StoreKind::InPlace)),
        Err(Error::NotFound { uri }) => Err(Error::LogDevice {
            why: format!("there is no device at {uri}, where the log of the store is said to be"),
        }),
        Err(error) => Err(error),
    }
}

fn direct(options: &Options) -> Direct {
    match options.direct_io {
        None => Direct::Auto,
        Some(true) => Direct::On,
        Some(false) => Direct::Off,
    }
}

/// Tells "not there" from "not allowed to look", and from a link to what is not there.
fn exists(path: &Path) -> Result<bool> {
    let looked = path.try_exists();
    let exists =
        looked.map_err(|source| Error::Io { path: path.to_owned(), action: "look it up", source: Arc::new(source) })?;
    if !exists && path.is_symlink() {
        let (what, why) = (path.display().to_string(), "it is a link to a file that is not there".to_owned());
        return Err(Error::NotAStore { what, why });
    }
    Ok(exists)
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

/// Before a device of such segments is made.
fn check_segments(device: &DeviceUri, kind: StoreKind) -> Result<()> {
    let bytes = device.shape.zone_size_bytes.unwrap_or(0);
    if kind == StoreKind::Zoned || bytes <= SEGMENT_BYTES_MAX {
        return Ok(());
    }
    Err(bad("zone_bytes", format!("{bytes} is more than {SEGMENT_BYTES_MAX}, the largest segment of a store in place")))
}

/// Fills in what the name leaves open.
fn shape(device: &mut DeviceUri, options: &Options, kind: StoreKind) {
    let zone_bytes = *device.shape.zone_size_bytes.get_or_insert(options.zone_size_bytes());
    let capacity_bytes = match (kind, &device.place) {
        (StoreKind::InPlace, Place::Memory) => options.largest_bytes().min(MEMORY_CAPACITY_BYTES_MAX),
        _ => options.largest_bytes(),
    };
    device.shape.zones.get_or_insert(capacity_bytes.div_ceil(zone_bytes.max(1)));
}
