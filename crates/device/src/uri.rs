//! Devices by name: `file:PATH`, a bare path, `mem:`, `zbd:PATH`, with `?key=value&key=value` behind; `hftl:` in front of
//! the name of a zoned device makes a block device of it.
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use crate::{
    BlockDevice, DeviceError, Direct, FileBlockDevice, FileDevice, FileOptions, Geometry, HostFtl, HostFtlOptions,
    MemBlockDevice, MemDevice, QueueKind, Result, ZonedDevice, format::DeviceKind,
};

/// Keys that a name may carry, in the order in which messages list them.
const KEYS: &str = "block, zone_size, zone_capacity, zones, max_open, max_active, append_max, layout, direct, queue, full_length, populate";

/// More over-provisioning than this leaves no volume worth having.
const PERCENT_MAX: u32 = 900;

/// As a limit, no limit.
const NO_LIMIT: u64 = u32::MAX as u64;

/// Zones of a device made without saying more: 16 MiB each, 4,096 of them, 14 open and active. A file grows zone by
/// zone, up to 64 GiB.
#[must_use]
pub fn default_geometry() -> Geometry {
    Geometry::new(16 << 20, 4096).with_limits(14, 14)
}

/// Where a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file of the host.
    File(PathBuf),
    /// Memory of this process, gone with it.
    Memory,
    /// A zoned block device of Linux.
    Zbd(PathBuf),
    /// A modelled SSD: its profile and everything behind it, keys included. The crate `flash` opens it.
    Flash(String),
    /// A host FTL on another device.
    HostFtl(OverZones),
}

/// The name of a host FTL: `hftl:NAME`, with `op=PERCENT` among the keys of the zoned device called `NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverZones {
    /// Name of the zoned device, keys included.
    pub zones: String,
    /// See [`HostFtlOptions::over_provisioning_percent`].
    pub over_provisioning_percent: Option<u32>,
}

impl OverZones {
    fn parse(text: &str) -> Result<Self> {
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        if place.is_empty() {
            return Err(bad("`hftl:` needs the name of a zoned device behind it".to_owned()));
        }
        query_pairs(query)?;
        let (own, below): (Vec<&str>, Vec<&str>) = query.split('&').partition(|pair| pair.starts_with("op="));
        let below = below.join("&");
        let zones = if below.is_empty() { place.to_owned() } else { format!("{place}?{below}") };
        if zones.starts_with("hftl:") {
            return Err(bad("`hftl:` is over zones, not over another `hftl:`".to_owned()));
        }
        zones.parse::<DeviceUri>()?;
        let percent = |pair: &&str| {
            let percent: Option<u32> = pair["op=".len()..].parse().ok();
            percent
                .filter(|&percent| percent <= PERCENT_MAX)
                .ok_or_else(|| bad(format!("`{pair}`: 0 to {PERCENT_MAX}")))
        };
        Ok(Self { zones, over_provisioning_percent: own.last().map(percent).transpose()? })
    }

    /// Makes the block device, on the zoned device that the caller has opened by its name.
    ///
    /// # Errors
    /// Those of [`HostFtl::open`].
    pub fn over(&self, zones: Arc<dyn ZonedDevice>, mode: OpenMode) -> Result<HostFtl> {
        let (over_provisioning_percent, read_only) = (self.over_provisioning_percent, mode.is_read_only());
        HostFtl::open(zones, &HostFtlOptions { over_provisioning_percent, read_only, ..HostFtlOptions::default() })
    }
}

impl fmt::Display for OverZones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.over_provisioning_percent {
            None => write!(f, "hftl:{}", self.zones),
            Some(op) if self.zones.contains('?') => write!(f, "hftl:{}&op={op}", self.zones),
            Some(op) => write!(f, "hftl:{}?op={op}", self.zones),
        }
    }
}

/// How an opener wants a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// A new one; an existing one is an error.
    Create,
    /// An existing one.
    Open,
    /// An existing one, or a new one.
    OpenOrCreate,
    /// An existing one, for reading, while nobody writes it: `Locked` beside a writer, who is kept out in turn.
    ReadOnly,
    /// An existing zoned one, for reading, whoever writes it: nothing is claimed, nobody is kept out, nothing is written.
    ///
    /// For readers that check all they read, and for no others. What the contract of [`ZonedDevice`] says of its zones holds for
    /// a moment only:
    ///
    /// - Zones are written, finished, reset and written again at any time. A report is of the moment, zone by zone: it need not
    ///   show any two zones as they were at once. It is made anew by each call, and so is the limit of what a read gets.
    /// - A read may give blocks above the write pointer, torn ones, or zeros where a zone was just reset. Who knows a block that
    ///   each life of a zone begins with, and that no two lives share, reads it *after* other blocks of the zone: if it is as it
    ///   was before, they are all of that life. That they are whole only their checksums tell.
    /// - What was flushed before the writer said so elsewhere (in a journal, for instance) is there to be read.
    ///
    /// A block device has no lives of zones to tell by, and cannot be opened so.
    ReadBeside,
}

impl OpenMode {
    /// Whether nothing may be written.
    #[must_use]
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly | Self::ReadBeside)
    }
}

/// A device's name, taken apart. Sizes may end in `KiB`, `MiB`, `GiB` or `TiB`.
///
/// ```
/// use zonda_device::{DeviceUri, OpenMode, ZonedDevice};
/// let uri: DeviceUri = "mem:?zones=8&zone_size=1MiB&max_open=3&max_active=4".parse()?;
/// let device = uri.open_zoned(OpenMode::OpenOrCreate)?;
/// assert_eq!(device.geometry().capacity_bytes(), 8 << 20);
/// # Ok::<(), zonda_device::DeviceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceUri {
    /// Where it is.
    pub place: Place,
    /// What was said about its shape.
    pub shape: ShapeOverrides,
    /// Which kind of device was asked for; `None` is whatever is there.
    pub layout: Option<DeviceKind>,
    /// How its file does I/O.
    pub options: FileOptions,
    /// All of its memory is there from the beginning ([`MemDevice::populated`]).
    pub is_populated: bool,
}

/// What a name says about a device's shape; `None` is the default at creation, and anything when opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeOverrides {
    /// Bytes of a block.
    pub block_bytes: Option<u64>,
    /// Bytes from zone to zone.
    pub zone_size_bytes: Option<u64>,
    /// Writable bytes of a zone.
    pub zone_capacity_bytes: Option<u64>,
    /// Number of zones.
    pub zones: Option<u64>,
    /// Most open zones; 0 is no limit, as in Linux's `max_open_zones`.
    pub max_open: Option<u64>,
    /// Most active zones; 0 is no limit, on open ones neither unless there is one of its own.
    pub max_active: Option<u64>,
    /// Most bytes of one append.
    pub append_bytes_max: Option<u64>,
}

impl FromStr for DeviceUri {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self> {
        let (place, query) = text.split_once('?').map_or((text, ""), |(place, query)| (place, query));
        if let Some(name) = text.strip_prefix("flash:") {
            // Its keys are the model's, which is another crate.
            return Ok(Self::at(Place::Flash(name.to_owned())));
        }
        if let Some(over) = text.strip_prefix("hftl:") {
            return Ok(Self::at(Place::HostFtl(OverZones::parse(over)?)));
        }
        let mut uri = Self::at(parse_place(place)?);
        query_pairs(query)?.into_iter().try_for_each(|(key, value)| uri.set(key, value))?;
        Ok(uri)
    }
}

impl fmt::Display for DeviceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File(path) => write!(f, "file:{}", path.display()),
            Place::Memory => write!(f, "mem:"),
            Place::Zbd(path) => write!(f, "zbd:{}", path.display()),
            Place::Flash(profile) => write!(f, "flash:{profile}"),
            Place::HostFtl(over) => over.fmt(f),
        }
    }
}

impl DeviceUri {
    /// A place about which nothing more was said.
    fn at(place: Place) -> Self {
        let (shape, options) = <(ShapeOverrides, FileOptions)>::default();
        Self { place, shape, layout: None, options, is_populated: false }
    }

    /// Opens the zoned device of this name. Numbers in the name shape a new device and must agree with an existing one.
    ///
    /// # Errors
    /// `NotSupported` for a place that cannot be opened here, `Mismatch` if an existing device has another shape, and
    /// all that [`FileDevice::create`] and [`FileDevice::open`] answer.
    pub fn open_zoned(&self, mode: OpenMode) -> Result<Arc<dyn ZonedDevice>> {
        match &self.place {
            Place::Memory if self.is_populated => Ok(Arc::new(MemDevice::populated(self.shape.geometry()?)?)),
            Place::Memory => Ok(Arc::new(MemDevice::new(self.shape.geometry()?)?)),
            Place::File(path) => Ok(Arc::new(self.open_file(path, mode)?)),
            Place::Zbd(path) => self.open_zbd(path, mode),
            other @ (Place::Flash(_) | Place::HostFtl(_)) => Err(other.not_supported()),
        }
    }

    #[cfg(target_os = "linux")]
    fn open_zbd(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn ZonedDevice>> {
        let device = self.zbd(path, mode)?;
        let zones = device.geometry().zone_count;
        match crate::zbd::written_zones(&device)? {
            written_zones @ 1.. if mode == OpenMode::Create => {
                Err(DeviceError::NotEmpty { path: path.to_owned(), written_zones, zones })
            }
            _ => Ok(Arc::new(device)),
        }
    }

    /// The block device of this name as what it is; for reports that show more than every device has.
    ///
    /// # Errors
    /// As [`open_zoned`](Self::open_zoned).
    #[cfg(target_os = "linux")]
    pub fn zbd(&self, path: &Path, mode: OpenMode) -> Result<crate::ZbdDevice> {
        if self.options.direct == Direct::Off {
            return Err(bad("`direct=off`: a zoned block device is written past the page cache only".to_owned()));
        }
        let (read_only, beside) = (mode.is_read_only(), mode == OpenMode::ReadBeside);
        let options = crate::ZbdOptions { read_only, beside, queue: self.options.queue, ..Default::default() };
        let device = crate::ZbdDevice::open(path, &options)?;
        self.shape.check_against(device.geometry())?;
        Ok(device)
    }

    #[cfg(not(target_os = "linux"))]
    fn open_zbd(&self, _: &Path, _: OpenMode) -> Result<Arc<dyn ZonedDevice>> {
        Err(self.place.not_supported())
    }

    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<FileDevice> {
        if creates(mode, path) {
            return FileDevice::create(path, self.shape.geometry()?, &self.options);
        }
        let device = match mode {
            OpenMode::ReadOnly => FileDevice::open_read_only(path, &self.options)?,
            OpenMode::ReadBeside => FileDevice::open_beside(path, &self.options)?,
            _ => FileDevice::open(path, &self.options)?,
        };
        self.shape.check_against(device.geometry())?;
        Ok(device)
    }

    /// Opens the block device of this name; its capacity is `zones` times `zone_size`.
    ///
    /// # Errors
    /// As [`open_zoned`](Self::open_zoned); `NotSupported` for [`ReadBeside`](OpenMode::ReadBeside).
    pub fn open_block(&self, mode: OpenMode) -> Result<Arc<dyn BlockDevice>> {
        if mode == OpenMode::ReadBeside {
            return Err(DeviceError::NotSupported { what: "reading a block device beside its writer" });
        }
        let geometry = self.shape.geometry()?;
        let (block, blocks) = (geometry.block_bytes, geometry.device_blocks());
        match &self.place {
            Place::Memory if self.is_populated => Err(bad("`populate=on`: only zones of memory".to_owned())),
            Place::Memory => Ok(Arc::new(MemBlockDevice::new(block, blocks)?)),
            Place::File(path) if creates(mode, path) => {
                Ok(Arc::new(FileBlockDevice::create(path, block, blocks, &self.options)?))
            }
            Place::File(path) => {
                let device = FileBlockDevice::open(path, mode == OpenMode::ReadOnly, &self.options)?;
                self.shape.check_against_block(&device)?;
                Ok(Arc::new(device))
            }
            Place::HostFtl(over) => {
                let zones = over.zones.parse::<Self>()?.open_zoned(mode)?;
                Ok(Arc::new(over.over(zones, mode)?))
            }
            other => Err(other.not_supported()),
        }
    }

    /// Which kind of device is there; `None` where only opening tells, or where nothing is.
    ///
    /// # Errors
    /// `NotADevice`, `Damaged`, `NewerVersion`, `Locked`, `Io`.
    pub fn kind(&self) -> Result<Option<DeviceKind>> {
        match &self.place {
            Place::File(path) if path.exists() => crate::file::kind_of(path).map(Some),
            Place::Zbd(_) => Ok(Some(DeviceKind::Zoned)),
            Place::HostFtl(_) => Ok(Some(DeviceKind::Block)),
            _ => Ok(None),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let shape = &mut self.shape;
        let number = match key {
            "block" => &mut shape.block_bytes,
            "zone_size" => &mut shape.zone_size_bytes,
            "zone_capacity" => &mut shape.zone_capacity_bytes,
            "zones" => &mut shape.zones,
            "max_open" => &mut shape.max_open,
            "max_active" => &mut shape.max_active,
            "append_max" => &mut shape.append_bytes_max,
            _ => return self.set_option(key, value),
        };
        let wrong = || bad(format!("`{key}={value}`: not a number, or one with KiB, MiB, GiB or TiB"));
        *number = Some(parse_size(value).ok_or_else(wrong)?);
        Ok(())
    }

    fn set_option(&mut self, key: &str, value: &str) -> Result<()> {
        match (key, value) {
            ("layout", "zones") => self.layout = Some(DeviceKind::Zoned),
            ("layout", "blocks") => self.layout = Some(DeviceKind::Block),
            ("layout", _) => return Err(bad(format!("`layout={value}`: use zones or blocks"))),
            ("direct", "on") => self.options.direct = Direct::On,
            ("direct", "off") => self.options.direct = Direct::Off,
            ("direct", "auto") => self.options.direct = Direct::Auto,
            ("queue", "uring") => self.options.queue = QueueKind::Uring,
            ("queue", "sync") => self.options.queue = QueueKind::Sync,
            ("queue", "auto") => self.options.queue = QueueKind::Auto,
            ("full_length", "on") => self.options.full_length = true,
            ("full_length", "off") => self.options.full_length = false,
            ("populate", "on") if self.place == Place::Memory => self.is_populated = true,
            ("populate", "off") => self.is_populated = false,
            ("populate", _) => return Err(bad(format!("`populate={value}`: use on or off, and on with mem: only"))),
            ("direct", _) => return Err(bad(format!("`direct={value}`: use on, off or auto"))),
            ("queue", _) => return Err(bad(format!("`queue={value}`: use uring, sync or auto"))),
            ("full_length", _) => return Err(bad(format!("`full_length={value}`: use on or off"))),
            _ => return Err(bad(format!("unknown key `{key}`; known are {KEYS}"))),
        }
        Ok(())
    }
}

impl ShapeOverrides {
    /// The shape of a new device.
    ///
    /// # Errors
    /// `Geometry`, `Unaligned`.
    pub fn geometry(&self) -> Result<Geometry> {
        let default = default_geometry();
        let block_bytes = narrow("block", self.block_bytes.unwrap_or(default.block_bytes.into()))?;
        crate::geometry::check_block_bytes(block_bytes)?;
        let blocks = |what, bytes| whole_blocks(what, bytes, block_bytes);
        let zone_bytes = self.zone_size_bytes.unwrap_or(default.zone_capacity_bytes());
        let geometry = Geometry {
            block_bytes,
            zone_size_blocks: blocks("zone_size", zone_bytes)?,
            zone_capacity_blocks: blocks("zone_capacity", self.zone_capacity_bytes.unwrap_or(zone_bytes))?,
            zone_count: narrow("zones", self.zones.unwrap_or(default.zone_count.into()))?,
            max_open: self.max_open_or(default.max_open)?,
            max_active: self.max_active_or(default.max_active)?,
            append_blocks_max: match self.append_bytes_max {
                Some(bytes) => Some(narrow("append_max", blocks("append_max", bytes)?)?),
                None => default.append_blocks_max,
            },
            ..default
        };
        geometry.validate()?;
        Ok(geometry)
    }

    /// The open limit: as said, else the default, but never above the active limit, and none without one.
    fn max_open_or(&self, default: Option<u32>) -> Result<Option<u32>> {
        match (self.max_open, self.max_active) {
            (Some(open), _) => limit("max_open", open),
            (None, Some(0)) => Ok(None),
            (None, Some(active)) => Ok(default.min(limit("max_active", active)?)),
            (None, None) => Ok(default),
        }
    }

    /// The active limit: as said, else the default, but never below the open limit.
    fn max_active_or(&self, default: Option<u32>) -> Result<Option<u32>> {
        match (self.max_active, self.max_open) {
            (Some(active), _) => limit("max_active", active),
            (None, Some(open)) => Ok(default.max(limit("max_open", open)?)),
            (None, None) => Ok(default),
        }
    }

    /// Checks that an existing device is what was asked for.
    ///
    /// # Errors
    /// `Mismatch` names the first number that differs.
    pub fn check_against(&self, found: &Geometry) -> Result<()> {
        let block = u64::from(found.block_bytes);
        let limit = |limit: Option<u32>| limit.map_or(0, u64::from);
        let asked = |limit: Option<u64>| limit.map(|zones| if zones == NO_LIMIT { 0 } else { zones });
        agree("block", self.block_bytes, block)?;
        agree("zone_size", self.zone_size_bytes, found.zone_size_blocks * block)?;
        agree("zone_capacity", self.zone_capacity_bytes, found.zone_capacity_bytes())?;
        agree("zones", self.zones, found.zone_count.into())?;
        agree("max_open", asked(self.max_open), limit(found.max_open))?;
        agree("max_active", asked(self.max_active), limit(found.max_active))?;
        agree("append_max", self.append_bytes_max, limit(found.append_blocks_max) * block)
    }

    fn check_against_block(&self, found: &FileBlockDevice) -> Result<()> {
        agree("block", self.block_bytes, found.block_bytes().into())?;
        // The file knows no zones: of one number alone nobody can tell, as whoever made it had the other from elsewhere.
        let capacity = self.zones.zip(self.zone_size_bytes).map(|(zones, bytes)| zones.saturating_mul(bytes));
        agree("capacity", capacity, found.capacity_bytes())
    }
}

impl Place {
    fn not_supported(&self) -> DeviceError {
        DeviceError::NotSupported {
            what: match self {
                Self::Zbd(_) => "zbd: devices here: they are Linux's, and zoned",
                Self::Flash(_) => "modelled drives (flash:) for this; file:, mem: and zbd: are",
                Self::HostFtl(_) => "zones of hftl: devices: they are block devices",
                Self::File(_) | Self::Memory => "this use of the device",
            },
        }
    }
}

/// Keys and values of a name, from what stands behind its `?`.
///
/// # Errors
/// `BadName` for what is not `key=value`, and for a key that is given twice.
pub fn query_pairs(query: &str) -> Result<Vec<(&str, &str)>> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| bad(format!("`{pair}` is not key=value")))?;
        if pairs.iter().any(|&(other, _)| other == key) {
            return Err(bad(format!("`{key}` is given twice")));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

fn parse_place(text: &str) -> Result<Place> {
    let no_path = |scheme: &str| bad(format!("`{scheme}` needs a path"));
    match text.split_once(':') {
        None if text.is_empty() => Err(bad("an empty name: a device has a path, or a scheme as in mem:".to_owned())),
        Some(("file" | "zbd", "")) => Err(no_path(text)),
        Some(("file", path)) => Ok(Place::File(path.into())),
        Some(("mem", "")) => Ok(Place::Memory),
        Some(("mem", _)) => Err(bad("`mem:` takes no path".to_owned())),
        Some(("zbd", path)) => Ok(Place::Zbd(path.into())),
        Some(("conv", _)) => Err(bad(
            "`conv:` is for file stores, in `zonda fs` and RocksDB; elsewhere a conventional drive is flash:PROFILE, too".to_owned(),
        )),
        Some((scheme, _)) if is_scheme(scheme) => Err(bad(format!(
            "unknown scheme `{scheme}:`; known are file:, mem:, zbd:, flash:, hftl: (for a file of this name write file:{text})"
        ))),
        _ => Ok(Place::File(text.into())),
    }
}

/// A limit as names give it: 0 is none, and so is what stands for none in a file.
fn limit(what: &'static str, zones: u64) -> Result<Option<u32>> {
    Ok(Some(narrow(what, zones)?).filter(|&limit| limit > 0 && zones != NO_LIMIT))
}

/// Letters only: such a word before a colon is meant as a scheme, not as a path.
fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic())
}

/// A number, or one with a binary suffix: `64MiB`, `64M`, or the bytes.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix {
        "" | "B" => 0,
        "KiB" | "K" | "k" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        "TiB" | "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn creates(mode: OpenMode, path: &Path) -> bool {
    mode == OpenMode::Create || (mode == OpenMode::OpenOrCreate && !path.exists())
}

fn whole_blocks(what: &'static str, bytes: u64, block_bytes: u32) -> Result<u64> {
    let multiple = u64::from(block_bytes);
    if bytes == 0 || !bytes.is_multiple_of(multiple) {
        return Err(DeviceError::Unaligned { what, value: bytes, multiple });
    }
    Ok(bytes / multiple)
}

fn narrow(field: &'static str, value: u64) -> Result<u32> {
    u32::try_from(value).map_err(|_| DeviceError::Geometry { field, value, min: 1, max: u32::MAX.into() })
}

fn agree(field: &'static str, asked: Option<u64>, found: u64) -> Result<()> {
    match asked {
        Some(asked) if asked != found => Err(DeviceError::Mismatch { field, found, asked }),
        _ => Ok(()),
    }
}

fn bad(reason: String) -> DeviceError {
    DeviceError::BadName { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> DeviceUri {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<DeviceUri>().unwrap_err().to_string()
    }

    #[test]
    fn places() {
        assert_eq!(parse("a/b.zonda").place, Place::File("a/b.zonda".into()));
        assert_eq!(parse("file:a:b").place, Place::File("a:b".into()));
        assert_eq!(parse("./x:y").place, Place::File("./x:y".into()));
        assert_eq!(parse("mem:").place, Place::Memory);
        assert_eq!(parse("zbd:/dev/nvme0n1").place, Place::Zbd("/dev/nvme0n1".into()));
        assert_eq!(parse("flash:zn540").place, Place::Flash("zn540".into()));
        assert_eq!(parse("flash:zn540?scale=1/16").place, Place::Flash("zn540?scale=1/16".into()));
        assert_eq!(parse("flash:zn540?scale=1/16").to_string(), "flash:zn540?scale=1/16");
        let over = OverZones { zones: "flash:test?scale=1/2".to_owned(), over_provisioning_percent: Some(20) };
        assert_eq!(parse("hftl:flash:test?op=20&scale=1/2").place, Place::HostFtl(over));
        assert_eq!(parse("hftl:flash:test?op=20&scale=1/2").to_string(), "hftl:flash:test?scale=1/2&op=20");
        assert_eq!(parse("hftl:a.zonda").to_string(), "hftl:a.zonda");
        let refused = |text: &str| parse(text).open_zoned(OpenMode::Open).unwrap_err().to_string();
        assert!(refused("zbd:/dev/not-there").contains("/dev/not-there"));
        assert!(parse("zbd:/dev/x").open_block(OpenMode::Open).unwrap_err().to_string().contains("zbd:"));
    }

    #[test]
    fn overrides_shape_a_new_device() {
        let uri = parse(
            "mem:?zone_size=1MiB&zone_capacity=768KiB&zones=9&max_active=5&direct=off&queue=sync&append_max=64KiB",
        );
        let geometry = uri.shape.geometry().unwrap();
        assert_eq!((geometry.zone_size_blocks, geometry.zone_capacity_blocks, geometry.zone_count), (256, 192, 9));
        assert_eq!((geometry.max_open, geometry.max_active), (Some(5), Some(5)));
        assert_eq!(geometry.append_blocks_max, Some(16));
        assert_eq!((uri.options.direct, uri.options.queue), (Direct::Off, QueueKind::Sync));
        assert_eq!(parse("mem:?max_open=20").shape.geometry().unwrap().max_active, Some(20));
        let limits = |text: &str| {
            let geometry = parse(text).shape.geometry().unwrap();
            (geometry.max_open, geometry.max_active)
        };
        assert_eq!(limits("mem:"), (Some(14), Some(14)));
        assert_eq!(limits("mem:?max_active=0"), (None, None));
        assert_eq!(limits("mem:?max_active=0&max_open=3"), (Some(3), None));
        assert_eq!(limits("mem:?max_open=0"), (None, Some(14)));
    }

    #[test]
    fn zones_in_memory_are_populated_if_asked_for() {
        let uri = parse("mem:?zone_size=64KiB&zones=4&populate=on");
        assert!(uri.is_populated && !parse("file:x?populate=off").is_populated);
        assert_eq!(uri.open_zoned(OpenMode::Create).unwrap().describe(), "memory, populated");
        assert!(uri.open_block(OpenMode::Create).unwrap_err().to_string().contains("only zones"));
    }

    #[test]
    fn a_host_ftl_makes_blocks_of_any_zones() {
        let device = parse("hftl:mem:?zones=9&zone_size=64KiB&op=25").open_block(OpenMode::Create).unwrap();
        assert_eq!(device.capacity_blocks(), 4 * 15 * 100 / 125);
        assert!(parse("hftl:mem:").open_zoned(OpenMode::Create).is_err());
    }

    #[test]
    fn the_kind_of_a_file_is_found_out() {
        let directory = tempfile::tempdir().unwrap();
        let name = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
        let (zones, blocks) = (name("zones"), name("blocks"));
        let of = |file: &str, layout: &str| parse(&format!("{file}?zone_size=64KiB&zones=4&layout={layout}"));
        assert_eq!(parse(&zones).kind().unwrap(), None);
        of(&zones, "zones").open_zoned(OpenMode::Create).unwrap();
        of(&blocks, "blocks").open_block(OpenMode::Create).unwrap();
        assert_eq!(parse(&zones).kind().unwrap(), Some(DeviceKind::Zoned));
        assert_eq!(parse(&blocks).kind().unwrap(), Some(DeviceKind::Block));
        assert_eq!((parse(&zones).layout, of(&zones, "blocks").layout), (None, Some(DeviceKind::Block)));
        assert!(parse(&zones).open_block(OpenMode::Open).is_err());
    }

    /// A value that `key` takes on a device in memory.
    fn example(key: &str) -> &'static str {
        match key {
            "layout" => "zones",
            "queue" => "sync",
            "direct" | "full_length" | "populate" => "off",
            "block" => "4KiB",
            _ => "1MiB",
        }
    }

    #[test]
    fn the_documented_keys_are_those_that_are_known() {
        const DOCUMENT: &str = include_str!("../../../docs/devices.md");
        let section = DOCUMENT.split("\n## ").find(|section| section.starts_with("Keys of the URI")).unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let documented: Vec<&str> = rows.collect();
        let mut known: Vec<&str> = KEYS.split(", ").collect();
        known.iter().for_each(|key| drop(parse(&format!("mem:?{key}={}", example(key)))));
        known.push("op");
        assert_eq!(documented, known);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(refusal("mem:?zone=1").contains("known are block, zone_size"));
        assert!(refusal("mem:?zones=many").contains("zones=many"));
        assert!(refusal("mem:?zone_size=64MB").contains("KiB, MiB, GiB or TiB"));
        assert!(refusal("mem:?zones").contains("key=value"));
        assert!(refusal("mem:?direct=maybe").contains("on, off or auto"));
        assert!(refusal("mem:?layout=disk").contains("zones or blocks"));
        assert!(refusal("mem:?populate=maybe").contains("on or off"));
        assert!(refusal("file:x?populate=on").contains("mem: only"));
        assert!(refusal("mem:?zones=64&zones=65").contains("`zones` is given twice"));
        assert!(refusal("hftl:mem:?op=5&zones=64&op=5").contains("`op` is given twice"));
        assert!(refusal("ftp:x").contains("unknown scheme") && refusal("conv:test-conv").contains("zonda fs"));
        assert!(refusal("").contains("path") && refusal("file:").contains("path"));
        assert!(refusal("mem:x").contains("takes no path"));
        assert!(refusal("hftl:mem:?op=many").contains("op=many") && refusal("hftl:hftl:mem:").contains("over zones"));
        assert!(refusal("hftl:mem:?zone=1").contains("known are") && refusal("hftl:?op=5").contains("needs the name"));
        assert!(parse("mem:?zones=0").open_zoned(OpenMode::Create).is_err());
        assert!(parse("mem:?zone_size=5000").open_zoned(OpenMode::Create).is_err());
        assert!(parse("mem:?zones=99999999999").open_block(OpenMode::Create).is_err());
    }

    #[test]
    fn more_memory_than_there_is_is_refused() {
        let name = "mem:?block=64KiB&zones=1&zone_size=1048576TiB";
        let errors = [
            parse(name).open_block(OpenMode::Create).unwrap_err(),
            parse(&format!("{name}&populate=on")).open_zoned(OpenMode::Create).unwrap_err(),
            parse("mem:?block=64KiB&zones=1048576&zone_size=1TiB&populate=on")
                .open_zoned(OpenMode::Create)
                .unwrap_err(),
        ];
        assert!(
            errors.iter().all(|error| matches!(error, DeviceError::NoMemory { bytes } if *bytes == 1 << 60)),
            "{errors:?}"
        );
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in ".{0,60}") {
            if let Ok(uri) = text.parse::<DeviceUri>() {
                let _ = (uri.to_string(), uri.shape.geometry().is_ok());
            }
        }
    }
}
