//! Modelled drives by name: `PROFILE?key=value&key=value`, what stands behind `flash:` in a device's name.
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use zonda_device::{
    BlockDevice, DEVICE_BLOCKS_MAX, DeviceError, FileBlockDevice, FileDevice, FileOptions, Geometry, MemBlockDevice,
    MemDevice, OpenMode, Overlay, Result, ZonedDevice, query_pairs,
};

use super::faults::Faults;
use super::{FlashBlock, FlashZoned, NullBlocks, NullZones, SplitData, TimeMode, WindowData, geometry_below};
use crate::conventional::ConventionalModel;
use crate::model::Model;
use crate::profile::{Profile, Split};
use crate::trace::{Places, TraceEntry, held_before, reads_what_was_held, split_before};
use crate::zns::ZonedModel;

/// Keys that a name may carry, in the order in which messages list them.
const KEYS: &str = "scale, k, time, data, zones, capacity, chips, split, zrwa, faults, seed";
/// What `split` can be, for messages.
const SPLITS: &str = "off, native, ring, prefetch, all, paper, fixed, redo-log or flash-reads";
/// Dilation outside simulations, unless the name says another.
const DILATION: u32 = 10;
/// A conventional drive in memory takes all of its capacity at once; zones take what is written.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
const BLOCK_BYTES: u32 = 4096;
/// What of a random write area is committed together, where that divides it.
const WINDOW_GRANULE_BLOCKS: u64 = 4;

/// Where a drive's data is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Data {
    Memory,
    Nowhere,
    File(PathBuf),
}

/// A drive's name, taken apart.
///
/// `scale=1/16` makes blocks and zones smaller, `k=10` is the dilation, `time=untimed` answers at once, `data=none` keeps
/// none and `data=PATH` keeps it in a sparse file, `zones=N` and `capacity=BYTES` shrink the drive, `chips=N` changes how many a zoned one
/// has, `faults=RULES` makes it fail, `seed=N` decides what is drawn.
#[derive(Clone, Debug)]
pub struct Spec {
    profile: Profile,
    mode: TimeMode,
    data: Data,
    /// Capacity of a conventional drive, if not the profile's.
    capacity_bytes: Option<u64>,
    /// Bytes of the random write area of a zone, if zones have them.
    window_bytes: Option<u64>,
    faults: Faults,
    seed: u64,
}

impl FromStr for Spec {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self> {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        let mut spec = Self {
            profile: load(name)?,
            mode: TimeMode::Timed { k: DILATION },
            data: Data::Memory,
            capacity_bytes: None,
            window_bytes: None,
            faults: Faults::default(),
            seed: 0,
        };
        let pairs = query_pairs(query)?;
        pairs.iter().try_for_each(|&(key, value)| spec.set(key, value))?;
        // Wherever it stands: without time a dilation means nothing.
        if pairs.contains(&("time", "untimed")) {
            spec.mode = TimeMode::Untimed;
        }
        if spec.window_bytes.is_some() && spec.subzones().is_some() {
            return Err(bad("`zrwa` is not for zones that are split: use split=off".to_owned()));
        }
        spec.faults.check(spec.profile.zoned.as_ref().map(|zoned| zoned.zones), spec.subzones())?;
        if spec.is_zoned() {
            // A model alone has no device that would look.
            spec.geometry()?.validate()?;
        }
        Ok(spec)
    }
}

/// A built-in profile, or one from a file when the name looks like a path.
fn load(name: &str) -> Result<Profile> {
    if !name.ends_with(".toml") {
        return Profile::named(name).map_err(|error| bad(error.0));
    }
    let text = std::fs::read_to_string(name).map_err(|source| DeviceError::Io {
        path: name.into(),
        action: "read the profile",
        source: Arc::new(source),
    })?;
    Profile::parse(&text).map_err(|error| bad(format!("{name}: {}", error.0)))
}

impl Spec {
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match (key, value) {
            ("scale", _) => self.scale(value)?,
            ("k", _) => self.mode = dilated(number(key, value)?)?,
            ("time", "untimed" | "timed") => {}
            ("time", _) => return Err(bad(format!("`time={value}`: use timed or untimed"))),
            ("data", "mem") => self.data = Data::Memory,
            ("data", "none") => self.data = Data::Nowhere,
            ("data", path) => self.data = Data::File(path.into()),
            ("zrwa", _) => self.window(number(key, value)?)?,
            ("split", _) => self.split(value)?,
            ("faults", _) => self.faults = Faults::parse(value)?,
            ("seed", _) => self.seed = number(key, value)?,
            ("zones", _) => self.zones(number(key, value)?)?,
            ("capacity", _) => self.capacity(number(key, value)?)?,
            ("chips", _) => self.chips(number(key, value)?)?,
            _ => return Err(bad(format!("unknown key `{key}`; known are {KEYS}"))),
        }
        Ok(())
    }

    /// `1/16`, or 16 for the same.
    fn scale(&mut self, value: &str) -> Result<()> {
        let divisor = number("scale", value.strip_prefix("1/").unwrap_or(value))?;
        self.profile = self.profile.clone().scaled(divisor).map_err(|error| bad(error.0))?;
        Ok(())
    }

    fn zones(&mut self, zones: u32) -> Result<()> {
        let zoned = self.profile.zoned.as_mut().ok_or_else(|| bad("`zones` is for zoned drives".to_owned()))?;
        zoned.zones = zones;
        Ok(())
    }

    /// Which parts of split zones are there: the paper's steps from none to all, and variants of all.
    fn split(&mut self, value: &str) -> Result<()> {
        let zoned = self.profile.zoned.as_mut();
        let Some((zoned, mut split)) = zoned.and_then(|zoned| zoned.split.clone().map(|split| (zoned, split))) else {
            return Err(bad("`split` is for drives that split zones".to_owned()));
        };
        let without = |split: &mut Split, ring: bool, prefetch: bool, queries: bool| {
            split.ring_zones = if ring { split.ring_zones } else { 0 };
            split.preread_bytes = if prefetch { split.preread_bytes } else { 0 };
            split.queries_first &= queries;
        };
        match value {
            "off" => {
                zoned.split = None;
                return Ok(());
            }
            "native" => without(&mut split, false, false, false),
            "ring" => without(&mut split, true, false, false),
            "prefetch" => without(&mut split, true, true, false),
            "all" => {}
            "paper" => split.near_reads = false,
            "fixed" => split.restart_reads = true,
            "redo-log" => split.ring_durable = false,
            "flash-reads" => split.ring_serves_reads = false,
            _ => return Err(bad(format!("`split={value}`: use {SPLITS}"))),
        }
        zoned.split = Some(split);
        Ok(())
    }

    fn chips(&mut self, chips: u16) -> Result<()> {
        self.profile = self.profile.clone().with_chips(chips).map_err(|error| bad(error.0))?;
        Ok(())
    }

    fn window(&mut self, bytes: u64) -> Result<()> {
        if !self.is_zoned() {
            return Err(bad("`zrwa` is for zoned drives".to_owned()));
        }
        self.window_bytes = Some(bytes);
        Ok(())
    }

    fn capacity(&mut self, bytes: u64) -> Result<()> {
        if self.is_zoned() {
            return Err(bad("`capacity` is for conventional drives".to_owned()));
        }
        let (min, max) = (u64::from(BLOCK_BYTES), DEVICE_BLOCKS_MAX * u64::from(BLOCK_BYTES));
        if !(min..=max).contains(&bytes) {
            return Err(bad(format!("`capacity={bytes}`: a drive has {min} to {max} bytes")));
        }
        self.capacity_bytes = Some(bytes);
        Ok(())
    }

    /// The profile, scaled.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// True if it is a zoned drive.
    #[must_use]
    pub fn is_zoned(&self) -> bool {
        self.profile.zoned.is_some()
    }

    /// The file that its data is in, made by opening it if it does not exist.
    #[must_use]
    pub fn data_file(&self) -> Option<&Path> {
        match &self.data {
            Data::File(path) => Some(path),
            Data::Memory | Data::Nowhere => None,
        }
    }

    /// What commands of a trace can be about.
    ///
    /// # Errors
    /// `BadName` for a profile that is no drive.
    pub fn places(&self) -> Result<Places> {
        match (self.profile.zoned_shape(), self.profile.conventional_shape()) {
            (Some(shape), _) => Ok(Places::Zones {
                zones: shape.zones,
                size_bytes: shape.zone_size_bytes,
                capacity_bytes: shape.zone_capacity_bytes,
                subzones: self.subzones().unwrap_or(0),
            }),
            (None, Some(shape)) => Ok(Places::Blocks(
                self.capacity_bytes.map_or(shape.logical_bytes, |bytes| bytes.min(shape.logical_bytes)),
            )),
            (None, None) => Err(self.no_drive()),
        }
    }

    fn no_drive(&self) -> DeviceError {
        bad(format!("`{}` is no drive", self.profile.name))
    }

    /// The model alone, for a trace that fits its [`places`](Self::places): no data, no clock. What the trace reads before it writes it is
    /// there: such zones, such subzones of zones that it takes for split, or, if it is so of one mapping unit, all of a conventional drive.
    ///
    /// # Errors
    /// `BadName` for a profile that is no drive.
    pub fn model_for(&self, trace: &[TraceEntry]) -> Result<Box<dyn Model>> {
        let core = self.profile.core_shape(self.seed);
        match (self.profile.zoned_shape(), self.profile.conventional_shape()) {
            (Some(shape), _) => {
                let (zones, capacity) = (shape.zones, shape.zone_capacity_bytes);
                let subzones = self.subzones().unwrap_or(0);
                let subzone_bytes = capacity / u64::from(subzones).max(1);
                let mut split = split_before(trace, shape.zone_size_bytes, subzone_bytes);
                split.retain(|&zone, _| zone < zones && subzones > 0);
                let held = held_before(trace, shape.zone_size_bytes);
                let mut model = ZonedModel::new(core, shape);
                let is_wide = |zone: &u32| *zone < zones && !split.contains_key(zone);
                held.into_iter().filter(is_wide).for_each(|zone| model.preset(zone, capacity, true));
                for (zone, held) in split {
                    model.preset_subzone(zone, 0, 0, false);
                    let held = held.into_iter().filter(|&index| index < subzones);
                    held.for_each(|index| model.preset_subzone(zone, index, subzone_bytes, true));
                }
                Ok(Box::new(model))
            }
            (None, Some(shape)) => {
                let units = shape.logical_units();
                let is_held = reads_what_was_held(trace, shape.map_bytes, units);
                let mut model = ConventionalModel::new(core, shape);
                if is_held {
                    model.preset(0, units);
                }
                Ok(Box::new(model))
            }
            (None, None) => Err(self.no_drive()),
        }
    }

    /// Opens it as a zoned device to write; a file that does not exist is made.
    ///
    /// # Errors
    /// `BadName` for a conventional drive; those of the device that keeps the data.
    pub fn open_zoned(&self) -> Result<FlashZoned> {
        self.open_zoned_as(OpenMode::OpenOrCreate)
    }

    /// Opens it as a zoned device: one with its data in a file as that file is opened, any other as a new one.
    ///
    /// Whoever writes a drive that splits zones, or has random write areas, keeps in memory what becomes of its zones. So such a drive is
    /// read beside nobody who writes it: [`OpenMode::ReadBeside`] claims it as [`OpenMode::ReadOnly`] does.
    ///
    /// # Errors
    /// As [`open_zoned`](Self::open_zoned); `Locked`, and `Io` for a file that must be there and is not, or the other way round.
    pub fn open_zoned_as(&self, mode: OpenMode) -> Result<FlashZoned> {
        let geometry = self.geometry()?;
        let is_alone = self.subzones().is_some() || self.window_bytes.is_some();
        let mode = if mode == OpenMode::ReadBeside && is_alone { OpenMode::ReadOnly } else { mode };
        if let Some(subzones) = self.subzones() {
            let below = self.data(geometry_below(&geometry, subzones)?, mode)?;
            // What it finds half done it finishes: where it is only read, in memory.
            let below = if mode.is_read_only() { Arc::new(Overlay::new(below)?) } else { below };
            let data = Arc::new(SplitData::over(below, geometry, subzones)?);
            return FlashZoned::over_split(data, &self.profile, self.mode, self.seed);
        }
        let windows_max = geometry.max_open.unwrap_or(u32::MAX);
        let data = self.data(geometry, mode)?;
        if let Some(bytes) = self.window_bytes {
            let blocks = bytes / u64::from(BLOCK_BYTES);
            let granule = if blocks.is_multiple_of(WINDOW_GRANULE_BLOCKS) { WINDOW_GRANULE_BLOCKS } else { 1 };
            let data = Arc::new(WindowData::over(data, (blocks, granule), windows_max)?);
            return FlashZoned::over_windows(data, &self.profile, self.mode, self.seed);
        }
        FlashZoned::over(data, &self.profile, self.mode, self.seed)
    }

    /// Subzones of a zone, where zones can be split: one for each die.
    fn subzones(&self) -> Option<u16> {
        let zoned = self.profile.zoned.as_ref().filter(|zoned| zoned.split.is_some())?;
        Some(u16::try_from(zoned.dies_per_zone).unwrap_or(u16::MAX))
    }

    fn data(&self, geometry: Geometry, mode: OpenMode) -> Result<Arc<dyn ZonedDevice>> {
        let (faults, drawn, subzones) = (&self.faults, (self.mode, self.seed), self.subzones());
        Ok(match &self.data {
            Data::Memory => faults.over_zones(MemDevice::new(geometry)?, drawn, subzones),
            Data::Nowhere => faults.over_zones(NullZones::new(geometry)?, drawn, subzones),
            Data::File(path) => faults.over_zones(zoned_file(path, geometry, mode)?, drawn, subzones),
        })
    }

    /// Opens it as a block device to write; a file that does not exist is made.
    ///
    /// # Errors
    /// `BadName` for a zoned drive; those of the device that keeps the data.
    pub fn open_block(&self) -> Result<FlashBlock> {
        self.open_block_as(OpenMode::OpenOrCreate)
    }

    /// Opens it as a block device: one with its data in a file as that file is opened, any other as a new one.
    ///
    /// # Errors
    /// As [`open_block`](Self::open_block); `Locked`, and `Io` for a file that must be there and is not, or the other way round;
    /// `NotSupported` for [`OpenMode::ReadBeside`], as of every block device.
    pub fn open_block_as(&self, mode: OpenMode) -> Result<FlashBlock> {
        if mode == OpenMode::ReadBeside {
            return Err(DeviceError::NotSupported { what: "reading a block device beside its writer" });
        }
        let conventional = self.profile.conventional.as_ref();
        let conventional = conventional.ok_or_else(|| bad(format!("`{}` is a zoned drive", self.profile.name)))?;
        let bytes = self.capacity_bytes.unwrap_or(conventional.logical_bytes);
        if self.data == Data::Memory && bytes > MEMORY_BYTES_MAX {
            let name = &self.profile.name;
            return Err(bad(format!("`{name}` would take {bytes} bytes of memory: use capacity=BYTES or data=PATH")));
        }
        let blocks = bytes / u64::from(BLOCK_BYTES);
        // Before a file is made for it.
        FlashBlock::shape_for(&self.profile, blocks * u64::from(BLOCK_BYTES))?;
        let (faults, drawn) = (&self.faults, (self.mode, self.seed));
        let has_data = self.data_file().is_some_and(Path::exists);
        let data = match &self.data {
            Data::Memory => faults.over_blocks(MemBlockDevice::new(BLOCK_BYTES, blocks)?, drawn),
            Data::File(path) => faults.over_blocks(block_file(path, blocks, mode)?, drawn),
            Data::Nowhere => faults.over_blocks(NullBlocks::new(BLOCK_BYTES, blocks), drawn),
        };
        let drive = FlashBlock::over(data, &self.profile, self.mode, self.seed)?;
        if has_data {
            drive.hold_all();
        }
        Ok(drive)
    }

    fn geometry(&self) -> Result<Geometry> {
        let zoned = self.profile.zoned.as_ref();
        let zoned = zoned.ok_or_else(|| bad(format!("`{}` is a conventional drive", self.profile.name)))?;
        let block = u64::from(BLOCK_BYTES);
        let mut geometry =
            Geometry::new(zoned.zone_size_bytes, zoned.zones).with_capacity_blocks(zoned.zone_capacity_bytes / block);
        (geometry.max_open, geometry.max_active) = (zoned.max_open, zoned.max_active);
        let append = zoned.append_bytes_max.map(|bytes| u32::try_from(bytes / block).unwrap_or(u32::MAX));
        geometry.append_blocks_max = append;
        Ok(geometry)
    }
}

fn zoned_file(path: &Path, geometry: Geometry, mode: OpenMode) -> Result<FileDevice> {
    let options = FileOptions::default();
    match mode {
        OpenMode::Create => FileDevice::create(path, geometry, &options),
        OpenMode::OpenOrCreate if !path.exists() => FileDevice::create(path, geometry, &options),
        OpenMode::Open | OpenMode::OpenOrCreate => FileDevice::open(path, &options),
        OpenMode::ReadOnly => FileDevice::open_read_only(path, &options),
        OpenMode::ReadBeside => FileDevice::open_beside(path, &options),
    }
}

fn block_file(path: &Path, blocks: u64, mode: OpenMode) -> Result<FileBlockDevice> {
    let options = FileOptions::default();
    match mode {
        OpenMode::Create => FileBlockDevice::create(path, BLOCK_BYTES, blocks, &options),
        OpenMode::OpenOrCreate if !path.exists() => FileBlockDevice::create(path, BLOCK_BYTES, blocks, &options),
        _ => FileBlockDevice::open(path, mode.is_read_only(), &options),
    }
}

/// Opens the zoned drive called `PROFILE?key=value`.
///
/// # Errors
/// As [`Spec::from_str`] and [`Spec::open_zoned`].
pub fn open_zoned(name: &str) -> Result<Arc<dyn ZonedDevice>> {
    Ok(Arc::new(name.parse::<Spec>()?.open_zoned()?))
}

/// Opens the conventional drive called `PROFILE?key=value`.
///
/// # Errors
/// As [`Spec::from_str`] and [`Spec::open_block`].
pub fn open_block(name: &str) -> Result<Arc<dyn BlockDevice>> {
    Ok(Arc::new(name.parse::<Spec>()?.open_block()?))
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| bad(format!("`{key}={value}`: not a number in range")))
}

fn dilated(k: u32) -> Result<TimeMode> {
    match k {
        0 => Err(bad("`k=0`: from 1, the drive's own time; without time: time=untimed".to_owned())),
        k => Ok(TimeMode::Timed { k }),
    }
}

pub(super) fn bad(reason: String) -> DeviceError {
    DeviceError::BadName { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str) -> String {
        name.parse::<Spec>().map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn names_are_taken_apart() {
        let spec: Spec = "zn540?scale=1/16&k=4&zones=40&data=none&seed=7".parse().unwrap();
        assert_eq!((spec.mode, spec.seed, spec.data.clone()), (TimeMode::Timed { k: 4 }, 7, Data::Nowhere));
        let device = spec.open_zoned().unwrap();
        let geometry = device.geometry();
        assert_eq!((geometry.zone_count, geometry.zone_size_blocks, geometry.max_active), (40, 32_768, Some(14)));
        for name in ["test?time=untimed&k=4", "test?k=4&time=untimed"] {
            assert_eq!(name.parse::<Spec>().unwrap().mode, TimeMode::Untimed, "{name}");
        }
        let block = "test-conv?time=untimed&capacity=8388608".parse::<Spec>().unwrap().open_block().unwrap();
        assert_eq!(zonda_device::BlockDevice::capacity_bytes(&block), 8 << 20);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(refusal("nothing").contains("zn540"));
        assert!(refusal("zn540?seed=1&seed=2").contains("`seed` is given twice"));
        assert!(refusal("zn540?speed=1").contains("known are scale"));
        assert!(refusal("zn540?k=fast").contains("k=fast"));
        assert!(refusal("zn540?k=0").contains("time=untimed"));
        assert!(refusal("zn540?capacity=5").contains("conventional"));
        assert!(refusal("none.toml").contains("none.toml"));
        assert!(refusal("splitzns?zrwa=65536").contains("split=off"));
        assert!("splitzns?split=off&zrwa=65536".parse::<Spec>().is_ok());
        assert!(refusal("test?faults=read/64:media").contains("a fault of zone 64: there are 64"));
        assert!(refusal("splitzns?zones=8&faults=write/4294967295.0:media").contains("there are 8"));
        assert!(refusal("zn540?zones=4294967295").contains("zone_count is 4294967295"));
        assert!(refusal("zn540?zones=0").contains("zone_count is 0"));
        assert!(refusal("test-conv?capacity=4095").contains("a drive has 4096 to"));
        assert!(refusal("test-conv?capacity=18446744073709551615").contains("a drive has 4096 to"));
        assert!("zn540".parse::<Spec>().unwrap().open_block().is_err());
        assert!("atc21-7op".parse::<Spec>().unwrap().open_block().unwrap_err().to_string().contains("data=PATH"));
        assert!("test-conv".parse::<Spec>().unwrap().open_zoned().is_err());
    }

    #[test]
    fn a_conventional_drive_that_is_opened_with_data_reads_it_from_flash() {
        use zonda_device::{AlignedBuf, Lba};
        let directory = tempfile::tempdir().unwrap();
        let name = format!("test-conv?time=untimed&data={}", directory.path().join("drive").display());
        let open = || name.parse::<Spec>().unwrap().open_block().unwrap();
        let reads_of = |drive: &FlashBlock, blocks: usize| {
            let reads = || drive.flash_report().core.dies.iter().map(|die| die.reads).sum::<u64>();
            let before = reads();
            drive.read(Lba(8), &mut AlignedBuf::with_len(blocks * 4096)).unwrap();
            reads() - before
        };
        let new = open();
        assert_eq!(reads_of(&new, 4), 0, "nothing was written");
        new.write(Lba(0), &AlignedBuf::with_len(64 << 10)).unwrap();
        new.flush().unwrap();
        let of_new = reads_of(&new, 4);
        drop(new);
        let opened = open();
        assert_eq!((reads_of(&opened, 4), of_new), (2, 2), "a page of each of two dies");
        opened.write(Lba(8), &AlignedBuf::with_len(4096)).unwrap();
        opened.trim(Lba(9), 1).unwrap();
        assert_eq!(reads_of(&opened, 2), 0, "one is in the buffer, one is nowhere");
        assert_eq!(opened.flash_report().writes.collection_bytes, 0);
    }

    #[test]
    fn a_replay_reads_from_flash_what_its_trace_never_wrote() {
        let reads = |trace: &str| {
            let trace = crate::trace::parse(trace).unwrap();
            let mut model = "test-conv".parse::<Spec>().unwrap().model_for(&trace).unwrap();
            crate::trace::replay(&mut model, &trace);
            model.core().stats().dies.iter().map(|die| die.reads).sum::<u64>()
        };
        assert_eq!(reads("0 write 0 4096 0\n5000000 read 8388608 4096"), 1);
        assert_eq!(reads("0 write 0 4096 0\n1 trim 8388608 4096\n5000000 read 8388608 4096"), 0);
    }

    #[test]
    fn a_replay_reads_subzones_from_flash_that_its_trace_never_wrote() {
        let (zone, subzone) = (8 << 20, 512 << 10);
        let text =
            format!("0 append-sub 1 3 65536\n5000000 read {} 65536\n6000000 read {} 65536", zone, zone + 3 * subzone);
        let trace = crate::trace::parse(&text).unwrap();
        let mut model = "splitzns?scale=1/64&zones=4&split=native".parse::<Spec>().unwrap().model_for(&trace).unwrap();
        let latencies = crate::trace::replay(&mut model, &trace).tally.latency;
        assert_eq!(model.core().stats().dies.iter().map(|die| die.reads).sum::<u64>(), 2);
        assert_eq!((latencies.count(), latencies.max_ns()), (3, 960_000));
    }

    #[test]
    fn a_drive_with_more_mapping_units_than_can_be_numbered_is_refused_before_a_file_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("drive");
        for data in ["none", &file.display().to_string()] {
            let spec: Spec = format!("test-conv?data={data}&capacity=20000000000000").parse().unwrap();
            let said = spec.open_block().unwrap_err().to_string();
            assert!(said.contains("mapping units are too many"), "{said}");
        }
        assert!(!file.exists());
    }
}
