//! The two kinds of stores, on zones and in place, and the devices below them: everything above is the same for both.

use std::ops::Deref;
use std::sync::Arc;

use zonda_device::{BlockDevice, BlockOverlay, DeviceCounters, Overlay, ZoneId, ZoneReport, ZoneState, ZonedDevice};
use zonda_pages::{
    BLOCK_BYTES, CachePolicy, InPlaceOptions, InPlaceStore, PageStore, StoreOptions, ZoneMapEntry, ZonedStore,
};

use crate::Result;

/// Zones reported with one call.
const REPORT_ZONES: u32 = 4096;

/// A device that a store can be on.
#[derive(Clone)]
pub(crate) enum Device {
    Zoned(Arc<dyn ZonedDevice>),
    Block {
        device: Arc<dyn BlockDevice>,
        /// Segments of a new store.
        segment_bytes: u64,
    },
}

impl Device {
    /// Bytes that can be written.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        match self {
            Self::Zoned(device) => device.geometry().capacity_bytes(),
            Self::Block { device, .. } => device.capacity_bytes(),
        }
    }

    /// The same device, with what is written to it kept in memory.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn overlaid(self) -> Result<Self> {
        Ok(match self {
            Self::Zoned(device) => Self::Zoned(Arc::new(Overlay::new(device)?)),
            Self::Block { device, segment_bytes } => {
                Self::Block { device: Arc::new(BlockOverlay::new(device)), segment_bytes }
            }
        })
    }

    /// Whether nothing was ever written to it.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn is_blank(&self) -> Result<bool> {
        match self {
            Self::Zoned(device) => has_only_empty_zones(&**device),
            Self::Block { device, .. } => Ok(InPlaceStore::is_blank(Arc::clone(device))?),
        }
    }

    /// One phrase for reports.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Zoned(device) => device.describe(),
            Self::Block { device, .. } => format!("{}, in place", device.describe()),
        }
    }

    /// What it did.
    pub(crate) fn counters(&self) -> DeviceCounters {
        match self {
            Self::Zoned(device) => device.counters(),
            Self::Block { device, .. } => device.counters(),
        }
    }

    /// The device's states of all zones; of segments, which a block device does not know, what the store says.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn zone_states(&self, map: &[ZoneMapEntry]) -> Result<Vec<String>> {
        match self {
            Self::Zoned(device) => {
                let reports = device.report(ZoneId(0), device.geometry().zone_count)?;
                Ok(reports.iter().map(|report| report.state.to_string()).collect())
            }
            Self::Block { .. } => Ok(map.iter().map(|entry| segment_state(entry).to_owned()).collect()),
        }
    }
}

/// True if nothing is written. Zones that can never be written (lost ones, conventional ones of SMR disks) do not count.
fn has_only_empty_zones(device: &dyn ZonedDevice) -> Result<bool> {
    let zones = device.geometry().zone_count;
    for first in (0..zones).step_by(REPORT_ZONES as usize) {
        let reports = device.report(ZoneId(first), REPORT_ZONES)?;
        let is_used = |report: &ZoneReport| !matches!(report.state, ZoneState::Empty | ZoneState::Offline);
        if reports.iter().any(is_used) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn segment_state(entry: &ZoneMapEntry) -> &'static str {
    match (entry.stream, entry.state) {
        (_, zonda_pages::ZoneUse::Offline) => "offline",
        (None, _) => "empty",
        (_, zonda_pages::ZoneUse::Open) => "open",
        _ => "full",
    }
}

/// The log's own device.
pub(crate) type Log = Arc<dyn ZonedDevice>;

/// The page store of either kind.
#[derive(Clone)]
pub(crate) enum Pages {
    Zoned(Arc<ZonedStore>),
    InPlace(Arc<InPlaceStore>),
}

impl Pages {
    /// Whether a new store has room on a device, its options being those of a capacity in bytes.
    ///
    /// # Errors
    /// `UnsuitableDevice`, naming zones enough for all that goes with as many; those of bad options.
    pub(crate) fn check_room(device: &Device, has_log: bool, options_of: &dyn Fn(u64) -> StoreOptions) -> Result<()> {
        let checked = match device {
            Device::Zoned(device) => ZonedStore::check_zones(device.as_ref(), !has_log, options_of),
            &Device::Block { ref device, segment_bytes } => {
                let options_of = |bytes| in_place(options_of(bytes), segment_bytes);
                InPlaceStore::check_segments(device.capacity_bytes(), !has_log, &options_of)
            }
        };
        Ok(checked?)
    }

    /// Makes a store on an empty device.
    ///
    /// # Errors
    /// Those of the page store.
    pub(crate) fn create(device: &Device, log: Option<&Log>, options: StoreOptions) -> Result<Self> {
        Ok(match (device, log) {
            (Device::Zoned(device), None) => Self::Zoned(ZonedStore::create(Arc::clone(device), &options)?),
            (Device::Zoned(device), Some(log)) => {
                Self::Zoned(ZonedStore::create_with_log(Arc::clone(device), Arc::clone(log), &options)?)
            }
            (Device::Block { device, segment_bytes }, None) => {
                Self::InPlace(InPlaceStore::create(Arc::clone(device), &in_place(options, *segment_bytes))?)
            }
            (Device::Block { device, segment_bytes }, Some(log)) => {
                let options = in_place(options, *segment_bytes);
                Self::InPlace(InPlaceStore::create_with_log(Arc::clone(device), Arc::clone(log), &options)?)
            }
        })
    }

    /// Opens the store of a device; returns it with its superblock.
    ///
    /// # Errors
    /// Those of the page store.
    pub(crate) fn open(device: &Device, log: Option<&Log>, options: StoreOptions) -> Result<(Self, Vec<u8>)> {
        Ok(match (device, log) {
            (Device::Zoned(device), None) => {
                let (store, superblock) = ZonedStore::open(Arc::clone(device), &options)?;
                (Self::Zoned(store), superblock)
            }
            (Device::Zoned(device), Some(log)) => {
                let (store, superblock) = ZonedStore::open_with_log(Arc::clone(device), Arc::clone(log), &options)?;
                (Self::Zoned(store), superblock)
            }
            (Device::Block { device, segment_bytes }, None) => {
                let (store, superblock) = InPlaceStore::open(Arc::clone(device), &in_place(options, *segment_bytes))?;
                (Self::InPlace(store), superblock)
            }
            (Device::Block { device, segment_bytes }, Some(log)) => {
                let options = in_place(options, *segment_bytes);
                let (store, superblock) = InPlaceStore::open_with_log(Arc::clone(device), Arc::clone(log), &options)?;
                (Self::InPlace(store), superblock)
            }
        })
    }

    /// Hands to `finding` what is damaged of zone and segment headers.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn check_headers(&self, finding: &mut dyn FnMut(String)) -> Result<()> {
        let checked = match self {
            Self::Zoned(store) => store.check_headers(finding),
            Self::InPlace(store) => store.check_headers(finding),
        };
        Ok(checked?)
    }

    /// For the tree.
    pub(crate) fn store(&self) -> Arc<dyn PageStore> {
        match self {
            Self::Zoned(store) => Arc::clone(store) as Arc<dyn PageStore>,
            Self::InPlace(store) => Arc::clone(store) as Arc<dyn PageStore>,
        }
    }

    /// The device below the log, if that is another one.
    pub(crate) fn log_device(&self) -> Option<&Log> {
        match self {
            Self::Zoned(store) => store.log_device(),
            Self::InPlace(store) => store.log_device(),
        }
    }

    /// What is in each zone or segment.
    pub(crate) fn map(&self) -> Vec<ZoneMapEntry> {
        match self {
            Self::Zoned(store) => store.map(),
            Self::InPlace(store) => store.map(),
        }
    }
}

impl Deref for Pages {
    type Target = dyn PageStore;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Zoned(store) => &**store,
            Self::InPlace(store) => &**store,
        }
    }
}

/// In place, clean pages are in an LRU pool: that is the design that the ZKV paper compares with (Exp#11).
fn in_place(common: StoreOptions, segment_bytes: u64) -> InPlaceOptions {
    let segment_blocks = segment_bytes / BLOCK_BYTES as u64;
    InPlaceOptions { common, segment_blocks, cache: CachePolicy::Lru, ..InPlaceOptions::default() }
}
