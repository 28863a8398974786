//! What a store in place is told at creation and opening.

use crate::StoreOptions;

/// Who leaves a full cache of clean pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// SIEVE, of pages that were read (as beside ZFlusher).
    #[default]
    Sieve,
    /// The least recently used, of pages that were read or written: the buffer pool of the baselines (ZKV, Exp#11).
    Lru,
}

/// Options of an [`InPlaceStore`](crate::InPlaceStore).
#[derive(Clone, Debug)]
pub struct InPlaceOptions {
    /// What both stores are told. Of no effect here: `hot_writers_max`, `victim_policy`, `active_limit`. `extra_reserve_zones` counts
    /// segments; `group_pages` times `sequencer_groups_max` blocks may wait to be written.
    pub common: StoreOptions,
    /// Blocks of 4,096 bytes of a segment of a new store. Default 4,096: 16 MiB. 8 to 2^20.
    pub segment_blocks: u64,
    /// Who leaves the read cache. Default SIEVE.
    pub cache: CachePolicy,
    /// Whether the device hears of segments in which nothing is left, while free ones are no scarcity. Default: yes; a sparse file gives
    /// their space back. What is dead in a segment of pages that others are live in is taken for new pages, and not given back.
    pub trim: bool,
}

impl Default for InPlaceOptions {
    fn default() -> Self {
        Self { common: StoreOptions::default(), segment_blocks: 4096, cache: CachePolicy::default(), trim: true }
    }
}
