//! What a tree is told at creation and opening.

use crate::TreeError;

/// The least memory for leaf buffers in bytes: a few leaves' worth.
const BUFFER_BYTES_MIN: u64 = 16 << 10;

/// The least ring of a log instance: a block.
pub const LOG_RING_BYTES_MIN: u32 = 4 << 10;
/// The largest: more would not make writes cheaper.
pub const LOG_RING_BYTES_MAX: u32 = 64 << 10;
/// Limits of the largest mini-page in bytes.
const MINI_PAGE_BYTES_MIN: u32 = 64;
/// See [`MINI_PAGE_BYTES_MIN`].
const MINI_PAGE_BYTES_MAX: u32 = 4096;

/// What a leaf keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Design {
    /// Whole pages are cached: the conventional B+-tree.
    BTree,
    /// Adaptive delta buffers of growing size classes (ZKV 3.3).
    Adb,
    /// Up to [`TreeOptions::delta_records_max`] records a leaf, each with the memory of a chained record: the paper's BD-Tree.
    Deltas,
    /// Mini-pages in a circular buffer (Bf-Tree 3 to 5): sorted records, changed and cached ones, absent keys, or a mirror of the page.
    BfTree,
}

/// How [`Design::BfTree`] uses its memory. Shares and chances are in percent; more than 100 counts as 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MiniPages {
    /// Share of the circular buffer in which a mini-page that is used is copied to the tail (Bf-Tree 4.1): 0 is a queue, 100 is LRU.
    pub copy_on_access_percent: u32,
    /// Chance that a record, or the absence of one, is cached when a point read had to ask the page (Bf-Tree 5.1).
    pub promotion_percent: u32,
    /// Chance that a page that a scan had to read is kept as a mirror (Bf-Tree 5.3).
    pub scan_promotion_percent: u32,
    /// The largest mini-page in bytes; one that would outgrow it is merged, or becomes a mirror (Bf-Tree 5.5).
    pub bytes_max: u32,
    /// Whether the ring is turned for readers where nobody writes, which the paper does not; for measurements.
    pub turns: bool,
}

impl Default for MiniPages {
    fn default() -> Self {
        Self {
            copy_on_access_percent: 10,
            promotion_percent: 100,
            scan_promotion_percent: 50,
            bytes_max: 2048,
            turns: true,
        }
    }
}

/// Sizes of delta buffers and mini-pages. Mini-pages: four to a doubling, or with the others 64 bytes doubled (Bf-Tree 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BufferClasses {
    /// Sixteen bytes apart to 512 bytes, then sixteen to a doubling, to three quarters of a leaf, or to all of one where the background
    /// merges.
    #[default]
    Large,
    /// 64, 128 and 256 bytes of records as they are stored; a leaf with more is merged. The paper's largest has 15 pairs of 8 B + 8 B and
    /// their fingerprints; without these, and with the prefix that a leaf's keys share stored once, it has 256 / (16 - shared bytes) pairs:
    /// 16 if they share nothing, 18 with the two bytes that keys at random in leaves of twenty million pairs mostly share, 28 with seven.
    Paper,
    /// The paper's with keys whole and fifteen sixteenths of the largest in use, since the paper's fingerprints have the rest: 15 pairs of
    /// 8 B + 8 B, whatever their keys share.
    PaperWhole,
    /// The paper's, and one of 512 bytes.
    To512,
    /// The paper's, and those of 512 and of 1,024 bytes.
    To1024,
}

impl BufferClasses {
    /// Bytes of records in a buffer of the largest class; `None`: as many as a leaf bears.
    pub(crate) const fn bytes_max(self) -> Option<usize> {
        match self {
            Self::Large => None,
            Self::Paper | Self::PaperWhole => Some(256),
            Self::To512 => Some(512),
            Self::To1024 => Some(1024),
        }
    }

    /// How many of them records may take before the leaf is merged.
    pub(crate) const fn used_bytes_max(self) -> Option<usize> {
        match self {
            Self::PaperWhole => Some(240),
            _ => self.bytes_max(),
        }
    }

    /// Whether a buffer stores whole keys, not what they share once.
    pub(crate) const fn keeps_keys_whole(self) -> bool {
        matches!(self, Self::PaperWhole)
    }
}

/// Which buffer is merged when memory is short. Mini-pages: those that hold most when they come to the head of the ring, or as they come
/// (Bf-Tree 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Eviction {
    /// The fullest.
    #[default]
    Fullest,
    /// The oldest of the largest size that there is.
    Oldest,
}

/// What leaves the merged filter when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterEviction {
    /// The coldest nodes, as in the paper.
    Nodes,
    /// The pairs that were not written again since the last look: hot pairs stay wherever they are.
    Pairs,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// In memory and in the log's buffer; reaches the device within [`TreeOptions::log_interval_ms`] and is durable after
    /// the next `sync`, `Synced` write or checkpoint. A crash loses at most what was written since then, newest first.
    #[default]
    Buffered,
    /// Durable when the call returns: a crash loses nothing.
    Synced,
}

/// The fewest and the most children of an inner node that [`TreeOptions::inner_children_max`] may say.
pub const INNER_CHILDREN_MIN: u16 = 4;
/// See [`INNER_CHILDREN_MIN`].
pub const INNER_CHILDREN_MAX: u16 = 256;

/// Options of a tree. `leaf_bytes` is fixed at creation; the others may differ at every opening.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// What leaves keep in memory.
    pub design: Design,
    /// Sizes of delta buffers.
    pub classes: BufferClasses,
    /// Which buffer is merged first. [`Design::Deltas`] always takes the oldest.
    pub eviction: Eviction,
    /// Records of a leaf's chain in [`Design::Deltas`]. The papers take 32 and 10.
    pub delta_records_max: u32,
    /// What [`Design::BfTree`] does with its memory.
    pub mini_pages: MiniPages,
    /// Memory for leaf buffers in bytes. Inner nodes, leaf table and log rings come on top; see `Engine::stats`.
    pub buffer_bytes: u64,
    /// Memory for the merged filter in front of the leaves (ZKV 3.2), in bytes, on top of `buffer_bytes`; 0 = no filter. A store may
    /// be opened with another value every time. One that is opened with what some leaf has no room for, as it is full or a page is damaged,
    /// has a small filter for that all the same, until it is opened again.
    pub filter_bytes: u64,
    /// The most that the record cache may grow to, in bytes; 0: there is none. Of the designs only [`Design::Adb`] has one. It starts
    /// without memory ([`Engine::set_record_cache_bytes`](crate::Engine::set_record_cache_bytes)).
    pub record_cache_bytes_max: u64,
    /// What leaves the filter first.
    pub filter_eviction: FilterEviction,
    /// Whether what leaves the filter reaches leaves in runs (ZKV 3.3) or pair by pair; for measurements.
    pub batch_runs: bool,
    /// Whether a leaf that reclaim moves is merged with its buffer, so that cleaning does useful flushing, or moved as it is, as a
    /// cleaner that knows nothing of trees would; for measurements.
    pub merged_relocation: bool,
    /// Leaf size in bytes: a multiple of 4096, to 32 KiB.
    pub leaf_bytes: u32,
    /// Values longer than this go to the value log. At most 1/4 of the leaf size.
    pub value_inline_bytes_max: u32,
    /// Log instances (ZKV's WALA instances).
    pub log_instances: u32,
    /// Bytes of an instance's ring, 4 KiB (those of the paper) to 64 KiB: one that is full is written out at once.
    pub log_ring_bytes: u32,
    /// How long a buffered write may wait for the device, in milliseconds.
    pub log_interval_ms: u64,
    /// The most log in bytes, which is also about what a crash has to replay; a checkpoint starts at 4/5 of it. 0 = 5 x
    /// `buffer_bytes` and `filter_bytes`, at least 4 MiB.
    pub log_limit_bytes: u64,
    /// Memory that snapshots may keep in bytes before the oldest is given up.
    pub snapshot_bytes_max: u64,
    /// Children of an inner node, [`INNER_CHILDREN_MIN`] to [`INNER_CHILDREN_MAX`]: as many as there may be, but for tests, in which a
    /// small tree is to have several levels (twelve at the most: some thousand leaves with the fewest).
    pub inner_children_max: u16,
    /// Seed of everything random in the tree.
    pub seed: u64,
    /// `false`: no log at all; for measurements. A crash then loses what was not checkpointed, but for leaves that were merged since, and
    /// syncs do nothing.
    pub log: bool,
    /// `true`: nothing of what this life writes is kept, as its devices are overlaid. Recovery ends without a checkpoint.
    pub read_only: bool,
    /// `true`: where the log is damaged, what could be read up to there counts, and [`Engine::log_left_out`](crate::Engine::log_left_out)
    /// says how much is missing. Only beside `read_only`: new numbers would be those that are missing.
    pub log_up_to_damage: bool,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            design: Design::Adb,
            classes: BufferClasses::default(),
            eviction: Eviction::default(),
            delta_records_max: 32,
            mini_pages: MiniPages::default(),
            buffer_bytes: 16 << 20,
            record_cache_bytes_max: 0,
            filter_bytes: 0,
            filter_eviction: FilterEviction::Pairs,
            batch_runs: true,
            merged_relocation: true,
            leaf_bytes: 4096,
            value_inline_bytes_max: 1024,
            log_instances: 2,
            log_ring_bytes: LOG_RING_BYTES_MAX,
            log_interval_ms: 1,
            log_limit_bytes: 0,
            snapshot_bytes_max: 4 << 20,
            inner_children_max: INNER_CHILDREN_MAX,
            seed: 0,
            log: true,
            read_only: false,
            log_up_to_damage: false,
        }
    }
}

impl TreeOptions {
    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<(), TreeError> {
        let bad = |name, why: String| Err(TreeError::BadOption { name, why });
        if !(4096..=32_768).contains(&self.leaf_bytes) || !self.leaf_bytes.is_multiple_of(4096) {
            return bad("leaf_bytes", format!("{} is not a multiple of 4096 from 4096 to 32768", self.leaf_bytes));
        }
        if !(INNER_CHILDREN_MIN..=INNER_CHILDREN_MAX).contains(&self.inner_children_max) {
            let why = format!("{} is not {INNER_CHILDREN_MIN} to {INNER_CHILDREN_MAX}", self.inner_children_max);
            return bad("inner_children_max", why);
        }
        if self.value_inline_bytes_max > self.leaf_bytes / 4 {
            return bad(
                "value_inline_bytes_max",
                format!("{} is more than a quarter of the leaf", self.value_inline_bytes_max),
            );
        }
        if self.delta_records_max == 0 {
            return bad("delta_records_max", "a chain has at least one record".into());
        }
        if !(LOG_RING_BYTES_MIN..=LOG_RING_BYTES_MAX).contains(&self.log_ring_bytes) {
            let why = format!("{} is not from {LOG_RING_BYTES_MIN} to {LOG_RING_BYTES_MAX}", self.log_ring_bytes);
            return bad("log_ring_bytes", why);
        }
        let mini_page_bytes_max = MINI_PAGE_BYTES_MIN..=MINI_PAGE_BYTES_MAX;
        if !mini_page_bytes_max.contains(&self.mini_pages.bytes_max) {
            let given = self.mini_pages.bytes_max;
            return bad("mini_pages.bytes_max", format!("{given} is not from {mini_page_bytes_max:?}"));
        }
        if self.buffer_bytes < BUFFER_BYTES_MIN {
            return bad("buffer_bytes", format!("{} is less than {BUFFER_BYTES_MIN}", self.buffer_bytes));
        }
        Ok(())
    }
}
