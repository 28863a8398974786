//! What a zoned store is told at creation and opening.

use zonda_space::{StoreId, VictimPolicy};

use crate::CachePolicy;

/// Options of a [`ZonedStore`](crate::ZonedStore). Identity, superblock and `overwrite` count at creation only; the others may differ at
/// every opening.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Identity of a new store, made at random by the caller.
    pub store_id: StoreId,
    /// The client's own bytes, copied into every zone header; at most 2,048.
    pub superblock: Vec<u8>,
    /// Feature bits: those a new store uses; those the caller knows when it opens one.
    pub features: u64,
    /// Whether to create a store on a device that holds something. Default: no.
    pub overwrite: bool,
    /// Blocks of 4,096 bytes that are written with one device write (ZKV's ring merger). Default 4: 16 KiB. 1 to 64.
    pub group_pages: u32,
    /// Complete groups that may wait in one sequencer before `place` answers `Busy`. Default 4. At least 1.
    pub sequencer_groups_max: u32,
    /// Reads of a waiting page above which it enters the read cache when it is written. Default 1 (ZKV 3.4).
    pub cache_threshold_reads: u32,
    /// Who leaves the read cache. Default SIEVE (ZKV 3.4).
    pub cache_policy: CachePolicy,
    /// Memory of the read cache in bytes, its tables included; 0 = none. Default 1 MiB.
    pub read_cache_bytes: u64,
    /// Memory in bytes that scans may take for pages that they have not asked for yet, all together; 0 = nothing is read
    /// ahead. Default 512 KiB.
    pub read_ahead_bytes: u64,
    /// Zones that foreground pages may fill at a time, each with a flusher of its own, where the limits of the device allow it and
    /// each has 16 zones or more. Default 2; [`FLUSHERS_ANY`] is as many as the device lets. At least 1.
    pub hot_writers_max: u32,
    /// How reclaim chooses its victims. Default greedy.
    pub victim_policy: VictimPolicy,
    /// Log bytes that the client keeps before it truncates: sizes the reserve. Default 4 MiB.
    pub log_limit_bytes: u64,
    /// Dead bytes in sealed zones of pages and values above which reclaim begins although zones are free, in percent of what is live, and
    /// [`GARBAGE_ZONES_MIN`] zones besides; it takes only zones of which half is dead or more. For devices that share their space with
    /// others, as a sparse file does. Default: none, reclaim begins when zones are few, which moves least.
    pub garbage_percent_max: Option<u32>,
    /// Zones kept back beyond those that the store needs; more make reclaim cheaper. Default 0.
    pub extra_reserve_zones: u32,
    /// Fewer active zones than the device allows. Default: the device's limit.
    pub active_limit: Option<u32>,
}

/// As many flushers as the device's limits allow: its active zones less one for each other stream, in devices without limits 64.
pub const FLUSHERS_ANY: u32 = 64;

/// Zones whose dead bytes do not count as garbage.
pub const GARBAGE_ZONES_MIN: u32 = 8;

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            store_id: StoreId(0),
            superblock: Vec::new(),
            features: 0,
            overwrite: false,
            group_pages: 4,
            sequencer_groups_max: 4,
            cache_threshold_reads: 1,
            cache_policy: CachePolicy::Sieve,
            read_cache_bytes: 1 << 20,
            read_ahead_bytes: 512 << 10,
            hot_writers_max: 2,
            victim_policy: VictimPolicy::Greedy,
            log_limit_bytes: 4 << 20,
            garbage_percent_max: None,
            extra_reserve_zones: 0,
            active_limit: None,
        }
    }
}
