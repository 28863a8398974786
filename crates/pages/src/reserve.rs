//! How much of a store is kept back, and when who may take a free zone (I9): pure functions over numbers.
//!
//! Log and MetaLog are entitled to zones ([`Reserve::log_zones`], [`Reserve::meta_zones`]); those that they do not hold yet are
//! nobody else's. What happens as the *spare* zones, free ones beyond these, get fewer:
//!
//! | spare zones | what happens |
//! |---|---|
//! | above `low_water` | nothing, unless more is dead than the client bears: then reclaim empties zones that are half dead |
//! | `low_water` and fewer | reclaim moves live pages |
//! | `FOREGROUND_FLOOR` = 3 and fewer | foreground writers wait for reclaim; who searches for space may merge leaves still |
//! | `GAIN_FLOOR` = 2 and fewer | those merges wait, too |
//! | `RELOCATION_FLOOR` = 1 and fewer | relocation waits too; only log and MetaLog may open zones |
//! | the same, a victim half moved, nothing condemned | relocation may take any but the last `LAST_RESORT_FLOOR` = 3 free zones |
//! | the same, a zone failed under a write | its pages may take any but the last three, too |
//!
//! The reserve counts every zone that may hold no live page although it is not free: one for each data zone that may be
//! open, the log's limit, two checkpoints in the MetaLog, what short lives leave of both, and `low_water` free ones; so while live
//! bytes are within the rest (the usable space), some sealed zone has something dead in it and reclaim can go on.

use zonda_space::SpaceError;

use crate::records::Thresholds;
use crate::{BLOCK_BYTES, PageError};

/// Spare zones at which foreground writers wait: what one relocation, the log and the MetaLog need to make progress.
pub(crate) const FOREGROUND_FLOOR: u32 = 3;
/// Spare zones at which leaves are not merged for what that gives back: one is left to relocation.
pub(crate) const GAIN_FLOOR: u32 = 2;
/// Spare zones that relocation leaves to log and MetaLog.
pub(crate) const RELOCATION_FLOOR: u32 = 1;
/// Free zones of any kind that relocation and pages of a failed zone always leave: one for the log, two for the MetaLog.
pub(crate) const LAST_RESORT_FLOOR: u32 = 3;

/// Bytes of a leaf's entry in a checkpoint, generously.
const CHECKPOINT_ENTRY_BYTES: u64 = 24;
/// The share of the log limit that dirty records may make up in a checkpoint.
const DIRTY_SHARE: u64 = 4;
/// One more free zone before reclaim starts for this many zones.
const ZONES_PER_LOW_WATER_ZONE: u32 = 64;

/// Zones of the log that short lives may leave behind: each begins one of its own, and recovery lets two stand before it takes a
/// checkpoint that gives them back.
const SHORT_LIVES_LOG_ZONES: u32 = 2;
/// The same for the MetaLog, where it lets three stand.
const SHORT_LIVES_META_ZONES: u32 = 3;

/// What the reserve depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Zones that can be used.
    pub(crate) zones: u32,
    /// Bytes that a zone holds behind its header.
    pub(crate) zone_bytes: u64,
    /// Data zones that may be open at a time.
    pub(crate) open_data_zones: u32,
    /// See [`StoreOptions::log_limit_bytes`](crate::StoreOptions::log_limit_bytes).
    pub(crate) log_limit_bytes: u64,
    /// Whether the log is on the same device.
    pub(crate) log_is_here: bool,
    /// See [`StoreOptions::extra_reserve_zones`](crate::StoreOptions::extra_reserve_zones).
    pub(crate) extra_zones: u32,
}

/// The reserve of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserve {
    /// Zones kept back in all.
    pub(crate) zones: u32,
    /// Spare zones at which reclaim starts.
    pub(crate) low_water: u32,
    /// Zones that the log is entitled to.
    pub(crate) log_zones: u32,
    /// Zones that the MetaLog is entitled to.
    pub(crate) meta_zones: u32,
    /// Bytes kept back.
    pub(crate) bytes: u64,
    /// What holds log and MetaLog to these.
    pub(crate) thresholds: Thresholds,
}

impl Reserve {
    /// The reserve for a store.
    ///
    /// # Errors
    /// `TooFewZones` when less than one zone would be left.
    pub(crate) fn plan(demand: &Demand) -> Result<Self, PageError> {
        let low_water = FOREGROUND_FLOOR + 1 + demand.zones / ZONES_PER_LOW_WATER_ZONE;
        let log_zones = zones_for(demand.log_limit_bytes, demand.zone_bytes).saturating_add(SHORT_LIVES_LOG_ZONES);
        let log_zones = if demand.log_is_here { log_zones } else { 0 };
        let checkpoint_bytes = checkpoint_bytes(demand);
        let meta_zones = zones_for(2 * checkpoint_bytes, demand.zone_bytes).saturating_add(SHORT_LIVES_META_ZONES);
        let parts = [low_water, demand.open_data_zones, log_zones, meta_zones, demand.extra_zones];
        let zones = parts.into_iter().fold(0, u32::saturating_add);
        if zones >= demand.zones {
            return Err(SpaceError::TooFewZones { zones: demand.zones, needed: zones.saturating_add(1) }.into());
        }
        let thresholds = Thresholds::of(demand.log_limit_bytes, checkpoint_bytes, demand.zone_bytes);
        let bytes = u64::from(zones) * demand.zone_bytes;
        Ok(Self { zones, low_water, log_zones, meta_zones, bytes, thresholds })
    }

    /// The reserve of a device that holds the log alone: all of it is the log's.
    ///
    /// # Errors
    /// `TooFewZones` when the log's limit does not fit.
    pub(crate) fn of_log(zones: u32, zone_bytes: u64, log_limit_bytes: u64) -> Result<Self, PageError> {
        let needed = zones_for(log_limit_bytes, zone_bytes).saturating_add(SHORT_LIVES_LOG_ZONES);
        if needed > zones {
            return Err(SpaceError::TooFewZones { zones, needed }.into());
        }
        let bytes = u64::from(zones) * zone_bytes;
        let thresholds = Thresholds::of(log_limit_bytes, 0, zone_bytes);
        Ok(Self { zones, low_water: 0, log_zones: zones, meta_zones: 0, bytes, thresholds })
    }
}

/// Whether `plan`, of a store on so many zones, finds room on `zones`.
///
/// # Errors
/// Those of `plan`, `TooFewZones` with the least number that has room: a larger device is kept more of, so that it may be more than what
/// this one lacks.
pub(crate) fn check_zones(zones: u32, plan: impl Fn(u32) -> Result<(), PageError>) -> Result<(), PageError> {
    let mut enough = zones;
    loop {
        match plan(enough) {
            // Ends: it grows each time, and a demand grows by less than half of what the device does.
            Err(PageError::Space(SpaceError::TooFewZones { needed, .. })) if needed > enough => enough = needed,
            Ok(()) if enough > zones => return Err(SpaceError::TooFewZones { zones, needed: enough }.into()),
            outcome => return outcome,
        }
    }
}

/// The largest log limit that [`Reserve::of_log`] takes.
pub(crate) fn log_limit_bytes_max(zones: u32, zone_bytes: u64) -> u64 {
    u64::from(zones.saturating_sub(SHORT_LIVES_LOG_ZONES + 1)) * zone_bytes
}

/// Zones for `bytes` that are released zone by zone: one more than they fill.
pub(crate) fn zones_for(bytes: u64, zone_bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(zone_bytes) + 1).unwrap_or(u32::MAX)
}

fn checkpoint_bytes(demand: &Demand) -> u64 {
    let leaves = u64::from(demand.zones) * demand.zone_bytes / BLOCK_BYTES as u64;
    leaves * CHECKPOINT_ENTRY_BYTES + demand.log_limit_bytes / DIRTY_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(zones: u32) -> Demand {
        Demand {
            zones,
            zone_bytes: 1 << 20,
            open_data_zones: 5,
            log_limit_bytes: 4 << 20,
            log_is_here: true,
            extra_zones: 0,
        }
    }

    #[test]
    fn the_parts_add_up() {
        // 5 low water + 5 open + (4 + 1 + 2) log + (2 x (64 x 256 x 24 B + 1 MiB) = 2.75 MiB, so 3 + 1 + 3) meta.
        let reserve = Reserve::plan(&demand(64)).unwrap();
        let parts = (reserve.zones, reserve.low_water, reserve.log_zones, reserve.meta_zones, reserve.bytes);
        assert_eq!(parts, (24, 5, 7, 7, 24 << 20));
        let more = Reserve::plan(&Demand { extra_zones: 3, ..demand(64) }).unwrap();
        assert_eq!(more.zones, 27);
    }

    #[test]
    fn the_largest_log_limit_fits_and_one_byte_more_does_not() {
        for (zones, zone_bytes) in [(4, 1 << 20), (12, 60 << 10), (100, 1 << 30)] {
            let bytes_max = log_limit_bytes_max(zones, zone_bytes);
            assert!(Reserve::of_log(zones, zone_bytes, bytes_max).is_ok());
            assert!(Reserve::of_log(zones, zone_bytes, bytes_max + 1).is_err());
        }
        assert_eq!(log_limit_bytes_max(2, 1 << 20), 0);
    }

    #[test]
    fn a_device_that_is_all_reserve_is_refused_with_numbers() {
        let needed = (1..64).find(|&zones| Reserve::plan(&demand(zones)).is_ok()).unwrap();
        let error = Reserve::plan(&demand(needed - 1)).unwrap_err();
        let expected = |zones, least| zones == needed - 1 && least == needed;
        assert!(
            matches!(error, PageError::Space(SpaceError::TooFewZones { zones, needed }) if expected(zones, needed))
        );
    }
}
