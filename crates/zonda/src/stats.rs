//! What a store says of itself in numbers.

use zonda_device::DeviceCounters;
use zonda_pages::{StoreUsage, WrittenBy};
use zonda_tree::EngineStats;

use crate::Result;
use crate::governor::Governor;
use crate::store::Store;

/// Space, memory, work and traffic of a store. Counts run since it was opened. Taken without stopping anybody, so the numbers
/// are of nearly the same moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Where the capacity goes (I9).
    pub space: SpaceStats,
    /// Where the memory budget goes (I6).
    pub memory: MemoryStats,
    /// The tree's shape and work.
    pub tree: TreeStats,
    /// What writers waited for.
    pub waits: WaitStats,
    /// Bytes written, by cause.
    pub written: WrittenStats,
    /// What the device did.
    pub device: DeviceStats,
    /// What the log's own device did, if it has one.
    pub log_device: Option<DeviceStats>,
}

/// Where the capacity goes, in bytes. `usable = capacity - reserve`; writes fail with `NoSpace` when live bytes exceed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceStats {
    /// What all zones can hold.
    pub capacity_bytes: u64,
    /// Kept back for open zones, log, checkpoints and cleaning.
    pub reserve_bytes: u64,
    /// What live data may fill.
    pub usable_bytes: u64,
    /// Live leaves.
    pub live_page_bytes: u64,
    /// Live long values.
    pub live_value_bytes: u64,
    /// Some of these were written before the store was opened, and reclaim has not looked at them since: they are what the last checkpoint
    /// knew. What was overwritten between it and a crash is among them.
    pub live_values_are_estimated: bool,
    /// Log that recovery would read.
    pub log_bytes: u64,
    /// Zones in all; of a store in place its segments, which are what zones are to the others.
    pub zones: u32,
    /// Zones with nothing in them.
    pub free_zones: u32,
    /// Zones that can be written.
    pub active_zones: u32,
    /// Zones reset.
    pub zones_reset: u64,
}

/// Where the memory budget goes, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The budget.
    pub budget_bytes: u64,
    /// All that is used.
    pub used_bytes: u64,
    /// The most that was used.
    pub peak_bytes: u64,
    /// Inner nodes.
    pub inner_bytes: u64,
    /// Leaf table.
    pub leaf_table_bytes: u64,
    /// Leaf buffers.
    pub buffer_bytes: u64,
    /// Records that were read of leaves and are kept.
    pub record_cache_bytes: u64,
    /// Merged filter, with its batch array.
    pub filter_bytes: u64,
    /// Log rings.
    pub log_bytes: u64,
    /// Kept for snapshots.
    pub snapshot_bytes: u64,
    /// Pages on their way to the device, and read cache.
    pub page_bytes: u64,
}

/// The tree's shape and work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeStats {
    /// Leaves.
    pub leaves: u64,
    /// Levels of inner nodes, all of them in memory: 1 for a tree of few leaves. The leaves below are not counted.
    pub height: u32,
    /// Point reads.
    pub gets: u64,
    /// Leaf pages that point reads asked for, those included that the read cache or a page on its way had: what the device read is in
    /// [`DeviceStats`]. Scans and merges are not counted.
    pub leaf_reads: u64,
    /// Point reads that a record kept from an earlier read answered.
    pub record_hits: u64,
    /// Pages that the read cache had, for whoever asked: gets, scans and merges.
    pub page_hits: u64,
    /// Writes of single keys, those of batches included.
    pub puts: u64,
    /// Buffers merged into their leaves.
    pub merges: u64,
    /// Leaves split.
    pub splits: u64,
    /// Emptied leaves merged away.
    pub leaf_merges: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Times that cold pairs left the merged filter.
    pub filter_evictions: u64,
    /// Pairs that did.
    pub filter_pairs: u64,
    /// Visits of leaves in which they arrived.
    pub filter_runs: u64,
    /// Point reads that the filter answered.
    pub filter_hits: u64,
    /// What mini-pages did.
    pub mini_pages: MiniPageStats,
}

/// What the mini-pages of [`Design::BfTree`](crate::Design::BfTree) did; with other designs all is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MiniPageStats {
    /// Point reads that a record answered with a value: a changed or a cached one.
    pub hits: u64,
    /// Point reads that one answered with nothing: a deleted key, one that was looked for in vain before, or a whole page without it.
    pub hits_of_none: u64,
    /// Answers of leaves that were kept.
    pub promoted: u64,
    /// Leaves that were kept whole.
    pub mirrors: u64,
    /// Mini-pages without changes that went without a write.
    pub dropped: u64,
    /// Mini-pages that were next to go and were merged into their leaves.
    pub merged: u64,
    /// Of these, those that the background merged while nobody wrote, so that what is read has their room.
    pub merged_in_turns: u64,
    /// Mini-pages that were used, and got another round of the buffer.
    pub copied: u64,
}

/// Waits of writers for one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waited {
    /// How often.
    pub times: u64,
    /// How long in all, in microseconds.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
}

/// What writers waited for since the store was opened, by cause. They nest: who evicts a buffer may have to reclaim for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStats {
    /// A checkpoint, because log or address records were over their limits.
    pub checkpoint: Waited,
    /// Leaf buffers merged because they were over their memory.
    pub evict: Waited,
    /// A merged filter that was over its memory.
    pub filter: Waited,
    /// Reclaim that writers did themselves because zones were short.
    pub reclaim: Waited,
    /// Zones that others made free.
    pub zones: Waited,
}

/// Bytes written to the device by cause, block padding included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenStats {
    /// Leaves, because their buffers were merged.
    pub flush_bytes: u64,
    /// Leaves moved to free a zone; values that are moved count as [`value_bytes`](Self::value_bytes).
    pub relocation_bytes: u64,
    /// Write-ahead log.
    pub log_bytes: u64,
    /// Address records.
    pub journal_bytes: u64,
    /// Checkpoints: leaf entries and buffer images.
    pub image_bytes: u64,
    /// Long values, when they are put and whenever they are moved to free a zone.
    pub value_bytes: u64,
    /// Zone headers.
    pub header_bytes: u64,
}

/// What the device did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// What it is: `file (O_DIRECT)`, `file (page cache)`, `memory`.
    pub description: String,
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
}

impl Stats {
    /// # Errors
    /// `Forked`.
    pub(crate) fn of(store: &Store) -> Result<Self> {
        let (tree, usage, written) = (store.reader()?.stats(), store.pages().usage(), store.pages().written_by());
        Ok(Self {
            space: SpaceStats::of(&usage, &tree),
            memory: MemoryStats::of(&usage, &tree, store.governor()),
            tree: TreeStats::of(&tree, store.pages().cache_usage().hits),
            waits: WaitStats::of(&tree.waits),
            written: WrittenStats::of(&written, &tree),
            device: DeviceStats::of(store.device().describe(), &store.device().counters()),
            log_device: store.pages().log_device().map(|log| DeviceStats::of(log.describe(), &log.counters())),
        })
    }
}

impl SpaceStats {
    fn of(usage: &StoreUsage, tree: &EngineStats) -> Self {
        Self {
            capacity_bytes: usage.capacity_bytes,
            reserve_bytes: usage.reserve_bytes,
            usable_bytes: usage.usable_bytes,
            live_page_bytes: usage.live_page_bytes,
            live_value_bytes: usage.live_value_bytes,
            live_values_are_estimated: usage.live_values_are_estimated,
            log_bytes: tree.log_live_bytes,
            zones: usage.zones,
            free_zones: usage.free_zones,
            active_zones: usage.active_zones,
            zones_reset: usage.zones_reset,
        }
    }
}

impl MemoryStats {
    fn of(usage: &StoreUsage, tree: &EngineStats, governor: &Governor) -> Self {
        Self {
            budget_bytes: governor.budget_bytes(),
            used_bytes: tree.memory_bytes + usage.memory_bytes,
            peak_bytes: governor.peak_bytes().max(tree.memory_bytes + usage.memory_bytes),
            inner_bytes: tree.inner_bytes,
            leaf_table_bytes: tree.leaf_table_bytes,
            buffer_bytes: tree.buffer_bytes,
            record_cache_bytes: tree.record_cache_bytes,
            filter_bytes: tree.filter_bytes,
            log_bytes: tree.log_bytes,
            snapshot_bytes: tree.snapshot_bytes,
            page_bytes: usage.memory_bytes,
        }
    }
}

impl TreeStats {
    fn of(tree: &EngineStats, page_hits: u64) -> Self {
        Self {
            page_hits,
            leaves: tree.leaves,
            height: tree.height,
            gets: tree.gets,
            leaf_reads: tree.leaf_reads,
            record_hits: tree.record_hits,
            puts: tree.puts,
            merges: tree.merges,
            splits: tree.splits,
            leaf_merges: tree.leaf_merges,
            checkpoints: tree.checkpoints,
            filter_evictions: tree.filter_evictions,
            filter_pairs: tree.filter_pairs,
            filter_runs: tree.filter_runs,
            filter_hits: tree.filter_hits,
            mini_pages: MiniPageStats::of(&tree.mini_pages),
        }
    }
}

impl MiniPageStats {
    fn of(mini_pages: &zonda_tree::MiniPageStats) -> Self {
        let &zonda_tree::MiniPageStats {
            hits,
            hits_of_none,
            promoted,
            mirrors,
            dropped,
            merged,
            merged_in_turns,
            copied,
        } = mini_pages;
        Self { hits, hits_of_none, promoted, mirrors, dropped, merged, merged_in_turns, copied }
    }
}

impl WaitStats {
    fn of(waits: &zonda_tree::WaitStats) -> Self {
        let of = |waited: &zonda_tree::Waited| {
            let &zonda_tree::Waited { times, total_us, longest_us } = waited;
            Waited { times, total_us, longest_us }
        };
        Self {
            checkpoint: of(&waits.checkpoint),
            evict: of(&waits.evict),
            filter: of(&waits.filter),
            reclaim: of(&waits.reclaim),
            zones: of(&waits.zones),
        }
    }
}

impl WrittenStats {
    /// The page store counts the MetaLog as one; the tree knows what of each write were moves. The rest counts as image.
    fn of(written: &WrittenBy, tree: &EngineStats) -> Self {
        let journal_bytes = tree.journal_written_bytes.min(written.meta);
        Self {
            flush_bytes: written.flush,
            relocation_bytes: written.relocation,
            log_bytes: written.log,
            journal_bytes,
            image_bytes: written.meta - journal_bytes,
            value_bytes: written.values,
            header_bytes: written.headers,
        }
    }

    /// All causes together.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.flush_bytes
            + self.relocation_bytes
            + self.log_bytes
            + self.journal_bytes
            + self.image_bytes
            + self.value_bytes
            + self.header_bytes
    }
}

impl DeviceStats {
    fn of(description: String, counters: &DeviceCounters) -> Self {
        Self {
            description,
            reads: counters.reads,
            read_bytes: counters.read_bytes,
            writes: counters.writes,
            written_bytes: counters.written_bytes,
            flushes: counters.flushes,
        }
    }
}
