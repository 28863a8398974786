//! The write-ahead log on a device of its own (ZKV 3.5), of a store on zones or in place.
//!
//! The log device holds nothing but the log's segments, in zones with headers of its own kind of client and the id of the store
//! that it belongs to; the store's own headers (in place, its superblock) carry a feature bit that says that the log is elsewhere. So
//! neither is ever opened without the other, and never with a stranger. MetaLog and values stay with the pages: the order in which their
//! records become durable (write-ahead rule) crosses the two devices in one place only, where the MetaLog waits for the log.
//!
//! A segment that is released is reset by the next reclaim step, or by an append that finds no zone: nobody but recovery reads it, and
//! the checkpoint that released it is durable.

use std::sync::Arc;

use zonda_device::ZonedDevice;
use zonda_space::{NewStore, Space, SpaceOptions, StoreId, StreamSpec};

use crate::flusher::Flusher;
use crate::reserve::Reserve;
use crate::{PageError, RecordPressure, StoreOptions, StoreUsage, WrittenBy, open, reserve, stream};

/// The client name in zone headers of a log device.
const CLIENT: [u8; 8] = *b"treelog\0";

/// The feature bit of a store whose log is on a device of its own: on disk, never renumber.
pub(crate) const FEATURE_LOG_ELSEWHERE: u64 = 1 << 63;

/// Where a store's log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogPlace {
    /// Beside its pages.
    Here,
    /// On a device of its own.
    Elsewhere,
}

impl LogPlace {
    /// By whether it is beside the pages.
    pub(crate) fn of_new(is_here: bool) -> Self {
        if is_here { Self::Here } else { Self::Elsewhere }
    }

    /// What the features of a store say of it.
    pub(crate) fn features(self) -> u64 {
        match self {
            Self::Here => 0,
            Self::Elsewhere => FEATURE_LOG_ELSEWHERE,
        }
    }

    /// Whether this is where a store with these features has its log.
    ///
    /// # Errors
    /// `LogElsewhere`, `LogIsHere`.
    pub(crate) fn check(self, features: u64) -> Result<(), PageError> {
        match (features & FEATURE_LOG_ELSEWHERE, self) {
            (FEATURE_LOG_ELSEWHERE, Self::Here) => Err(PageError::LogElsewhere),
            (0, Self::Elsewhere) => Err(PageError::LogIsHere),
            _ => Ok(()),
        }
    }
}

/// The log's own device, below the log area of a store.
pub(crate) struct LogDevice {
    pub(crate) flusher: Arc<Flusher>,
}

impl LogDevice {
    /// Makes an empty log for the store that `options` describe; durable when this returns.
    ///
    /// # Errors
    /// `Space` for a device that is not empty or too small for `log_limit_bytes`; `Device`.
    pub(crate) fn create(device: Arc<dyn ZonedDevice>, options: &StoreOptions) -> Result<Self, PageError> {
        let (space_options, reserve) = plan(device.as_ref(), options)?;
        let new = NewStore { id: options.store_id, features: 0, superblock: Vec::new(), overwrite: options.overwrite };
        let space = Space::format(device, new, &space_options)?;
        Ok(Self::new(open::build(space, reserve, &without_pages(options))))
    }

    /// Opens the log of the store `store`.
    ///
    /// # Errors
    /// `LogOfOtherStore`: nothing was written. `Space` for a device that is none of a log; `Device`.
    pub(crate) fn open(
        device: Arc<dyn ZonedDevice>,
        store: StoreId,
        options: &StoreOptions,
    ) -> Result<Self, PageError> {
        let (space_options, reserve) = plan(device.as_ref(), options)?;
        let (space, recovered) = Space::open(device, &space_options)?;
        if recovered.identity.store != store {
            return Err(PageError::LogOfOtherStore { store, log_of: recovered.identity.store });
        }
        let flusher = open::build(space, reserve, &without_pages(options));
        flusher.recover(&flusher.with_recognised(recovered)?)?;
        flusher.note_space();
        Ok(Self::new(flusher))
    }

    fn new(flusher: Flusher) -> Self {
        Self { flusher: Arc::new(flusher) }
    }
}

impl LogDevice {
    /// What reclaim does here: zones that failed are no longer anybody's, as there are no pages to be placed again; zones of released
    /// segments are reset. `true` if there were some of these.
    ///
    /// # Errors
    /// `Space`, `Device`.
    pub(crate) fn take_back(&self) -> Result<bool, PageError> {
        self.flusher.replace_failed(&mut |_, _, _| {})?;
        self.flusher.reset_released()
    }
}

/// Its part of what its store says of itself.
impl LogDevice {
    pub(crate) fn device(&self) -> &Arc<dyn ZonedDevice> {
        self.flusher.space.device()
    }

    pub(crate) fn pressure(&self) -> RecordPressure {
        self.flusher.records.pressure()
    }

    pub(crate) fn add_usage(&self, usage: &mut StoreUsage) {
        let own = self.flusher.usage();
        usage.zones_reset += own.zones_reset;
        usage.memory_bytes += own.memory_bytes;
        usage.memory_bytes_max += own.memory_bytes_max;
    }

    pub(crate) fn add_written(&self, written: &mut WrittenBy) {
        let own = self.flusher.written_by();
        written.log += own.log;
        written.headers += own.headers;
    }
}

/// The largest [`log_limit_bytes`](StoreOptions::log_limit_bytes) that a device of the log alone has room for.
pub fn log_limit_bytes_max(device: &dyn ZonedDevice) -> u64 {
    let geometry = device.geometry();
    reserve::log_limit_bytes_max(geometry.zone_count, open::zone_bytes(geometry))
}

/// Everything is checked before anything is written.
fn plan(device: &dyn ZonedDevice, options: &StoreOptions) -> Result<(SpaceOptions, Reserve), PageError> {
    let geometry = device.geometry();
    let zone_bytes = open::zone_bytes(geometry);
    let reserve = Reserve::of_log(geometry.zone_count, zone_bytes, options.log_limit_bytes)?;
    let streams = vec![StreamSpec::new(stream::LOG, "log", 0).alone()];
    let (known_features, reserve_zones, active_limit) = (0, 0, None);
    Ok((SpaceOptions { client: CLIENT, streams, known_features, reserve_zones, active_limit }, reserve))
}

/// What a device without pages needs of the options.
fn without_pages(options: &StoreOptions) -> StoreOptions {
    StoreOptions { read_cache_bytes: 0, read_ahead_bytes: 0, ..options.clone() }
}
