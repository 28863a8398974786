//! Counts and memory of an engine.

use zonda_rt::{
    PerThread,
    atomic::{AtomicU64, Ordering},
};

use crate::WaitStats;

/// What an engine did since it was opened, and what it holds now. Counts are exact at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Memory of inner nodes in bytes, with those that were removed and that readers may still see.
    pub inner_bytes: u64,
    /// Of these, what was removed, and filter nodes that were.
    pub garbage_bytes: u64,
    /// Memory of the leaf table in bytes.
    pub leaf_table_bytes: u64,
    /// Memory of leaf buffers in bytes.
    pub buffer_bytes: u64,
    /// Memory of the record cache in bytes.
    pub record_cache_bytes: u64,
    /// What of it is there for records.
    pub record_cache_room_bytes: u64,
    /// Point reads that the record cache answered.
    pub record_hits: u64,
    /// Records that point reads left in the record cache.
    pub records_kept: u64,
    /// Records that had to go for them.
    pub records_displaced: u64,
    /// Memory of the merged filter and its batch array in bytes.
    pub filter_bytes: u64,
    /// Filter nodes that hold records.
    pub filter_nodes: u64,
    /// Times that the coldest nodes left the filter.
    pub filter_evictions: u64,
    /// Records that left the filter for leaves.
    pub filter_pairs: u64,
    /// Runs in which they did: walks of the index.
    pub filter_runs: u64,
    /// Point reads that filter or array answered.
    pub filter_hits: u64,
    /// Memory of the log's rings and the MetaLog's buffer in bytes.
    pub log_bytes: u64,
    /// Memory of states kept for snapshots in bytes.
    pub snapshot_bytes: u64,
    /// All memory of the tree in bytes.
    pub memory_bytes: u64,
    /// Leaves.
    pub leaves: u64,
    /// Levels of inner nodes.
    pub height: u32,
    /// Point reads.
    pub gets: u64,
    /// Leaf pages asked of the page store by point reads.
    pub leaf_reads: u64,
    /// Leaf ranges that scans began.
    pub leaves_scanned: u64,
    /// Records written by puts, deletes and batches.
    pub puts: u64,
    /// Buffers merged into pages.
    pub merges: u64,
    /// Leaves that were made by splits.
    pub splits: u64,
    /// Leaves that went away because they were empty or joined with a neighbour.
    pub leaf_merges: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Bytes that address records took in the MetaLog, with their share of its framing and padding.
    pub journal_written_bytes: u64,
    /// Log bytes that a crash now would have to replay.
    pub log_live_bytes: u64,
    /// Log bytes written.
    pub log_appended_bytes: u64,
    /// What mini-pages did.
    pub mini_pages: MiniPageStats,
    /// What writers waited for.
    pub waits: WaitStats,
}

/// What the mini-pages of the design `BfTree` did. With others all is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiniPageStats {
    /// Point reads that a record answered with a value: a changed or a cached one.
    pub hits: u64,
    /// Point reads that one answered with nothing: a tombstone, a phantom, or a mirror without the key.
    pub hits_of_none: u64,
    /// Answers of pages that were kept as records.
    pub promoted: u64,
    /// Pages that were kept whole.
    pub mirrors: u64,
    /// Mini-pages without changes that went without a write.
    pub dropped: u64,
    /// Mini-pages that were merged because they were next at the head; merges that became too large, or came near the head, count in
    /// [`EngineStats::merges`] only.
    pub merged: u64,
    /// Of these, mini-pages that the background merged as it turned the ring for readers.
    pub merged_in_turns: u64,
    /// Mini-pages that were copied to the tail.
    pub copied: u64,
}

/// Counters that grow.
#[derive(Default)]
pub(crate) struct Counters {
    /// Of operations.
    pub(crate) of_threads: PerThread<Operations>,
    pub(crate) merges: AtomicU64,
    pub(crate) splits: AtomicU64,
    pub(crate) leaf_merges: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    /// Steps of reclaim, by whomever, that gained something.
    pub(crate) reclaim_steps: AtomicU64,
    /// Most that the tree's memory was at a merge since somebody took this.
    pub(crate) memory_peak: AtomicU64,
    /// Sixteen times the records of a leaf, as scans found them lately; 0 = none yet.
    pub(crate) leaf_records_x16: AtomicU64,
    /// Sixteen times the bytes of a record in its page, as merges found them lately; 0 = none yet.
    pub(crate) record_bytes_x16: AtomicU64,
    pub(crate) filter_pairs: AtomicU64,
    pub(crate) filter_runs: AtomicU64,
}

/// What each operation of one thread counts.
#[derive(Default)]
pub(crate) struct Operations {
    pub(crate) gets: AtomicU64,
    pub(crate) leaf_reads: AtomicU64,
    pub(crate) leaves_scanned: AtomicU64,
    pub(crate) puts: AtomicU64,
    /// Records that delete something, those of recovery too.
    pub(crate) deletes: AtomicU64,
    pub(crate) filter_hits: AtomicU64,
    pub(crate) mini_pages: MiniPageCounts,
}

/// See [`MiniPageStats`].
#[derive(Default)]
pub(crate) struct MiniPageCounts {
    pub(crate) hits: AtomicU64,
    pub(crate) hits_of_none: AtomicU64,
    pub(crate) promoted: AtomicU64,
    pub(crate) mirrors: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) merged: AtomicU64,
    pub(crate) merged_in_turns: AtomicU64,
    pub(crate) copied: AtomicU64,
}

impl Counters {
    /// What the current thread counts.
    pub(crate) fn mine(&self) -> &Operations {
        self.of_threads.mine()
    }

    /// What all threads counted.
    pub(crate) fn all(&self, counter: impl Fn(&Operations) -> &AtomicU64) -> u64 {
        self.of_threads.sum(|mine| counter(mine).load(Ordering::Relaxed))
    }

    /// What all threads counted of mini-pages.
    pub(crate) fn mini_pages(&self) -> MiniPageStats {
        let all = |counter: fn(&MiniPageCounts) -> &AtomicU64| self.all(|mine| counter(&mine.mini_pages));
        MiniPageStats {
            hits: all(|counts| &counts.hits),
            hits_of_none: all(|counts| &counts.hits_of_none),
            promoted: all(|counts| &counts.promoted),
            mirrors: all(|counts| &counts.mirrors),
            dropped: all(|counts| &counts.dropped),
            merged: all(|counts| &counts.merged),
            merged_in_turns: all(|counts| &counts.merged_in_turns),
            copied: all(|counts| &counts.copied),
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
