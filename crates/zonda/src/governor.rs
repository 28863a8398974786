//! Keeps the whole store within its memory budget (I6): what the index and everything else grow, leaf buffers and the read cache
//! shrink; between these two memory follows the work.
//!
//! The rule: a byte belongs where it saves more device traffic. Over some thousand operations the governor counts what leaf
//! buffers saved a byte (page writes and the reads before them go down as buffers grow; gets that a buffer answers) and what the
//! read cache saved a byte (its hits). The better of the two takes a step from the other. An insert-only run so ends with nearly
//! everything in buffers, a read-only one that has favourites with nearly everything in the cache; the cache keeps a little
//! always, without which it could not show what it is worth. With fixed shares ([`MemoryShares`](crate::MemoryShares)) nothing moves.

use std::sync::Arc;

use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_tree::{Engine, EngineStats};

use crate::backing::Pages;
use crate::memory::{BUFFER_BYTES_MIN, MemoryPlan};
use crate::{Error, Result};

/// Operations over which the two are compared.
const WINDOW_OPERATIONS: u64 = 4_096;
/// A step moves this part of what both have.
const STEP_SHARE: u64 = 32;
/// Tenths by which one must be better than the other: traffic is noisy.
const BETTER_TENTHS: u128 = 12;
/// A cache that is less full than this, in tenths, has no use for more.
const FULL_TENTHS: u64 = 9;

/// Looks at what everybody uses and divides the rest. Clones are handles to the same.
#[derive(Clone)]
pub(crate) struct Governor {
    engine: Engine,
    pages: Pages,
    plan: MemoryPlan,
    seen: Arc<Seen>,
}

struct Seen {
    /// What the page store used at the last look.
    page_bytes: AtomicU64,
    /// The most that tree and page store used together.
    peak_bytes: AtomicU64,
    window: Mutex<Window>,
}

/// Counts at the beginning of the window, and what the cache is to have.
struct Window {
    began: Work,
    cache_bytes: u64,
}

/// Counts since opening.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    puts: u64,
    gets: u64,
    buffer_hits: u64,
    merges: u64,
    cache_hits: u64,
}

impl Work {
    fn of(stats: &EngineStats, cache_hits: u64) -> Self {
        let buffer_hits = stats.gets.saturating_sub(stats.leaf_reads);
        Self { puts: stats.puts, gets: stats.gets, buffer_hits, merges: stats.merges, cache_hits }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            puts: self.puts - before.puts,
            gets: self.gets - before.gets,
            buffer_hits: self.buffer_hits.saturating_sub(before.buffer_hits),
            merges: self.merges - before.merges,
            cache_hits: self.cache_hits - before.cache_hits,
        }
    }

    /// Leaves that buffers save the device: a merge reads and writes one, and half the buffers would mean twice the merges.
    fn saved_by_buffers(&self) -> u64 {
        2 * self.merges + self.buffer_hits
    }
}

/// Which of the two a step goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Buffers,
    Cache,
    Neither,
}

/// Compares leaves saved per byte.
fn better(work: &Work, buffer_bytes: u64, cache_bytes: u64) -> Better {
    let buffers = u128::from(work.saved_by_buffers()) * u128::from(cache_bytes.max(1));
    let cache = u128::from(work.cache_hits) * u128::from(buffer_bytes.max(1));
    if cache * 10 > buffers * BETTER_TENTHS {
        Better::Cache
    } else if buffers * 10 > cache * BETTER_TENTHS {
        Better::Buffers
    } else {
        Better::Neither
    }
}

impl Governor {
    /// Takes over from the plan, once the store is open.
    ///
    /// # Errors
    /// `TooLittleMemory` when everything else leaves too little for leaf buffers.
    pub(crate) fn new(plan: MemoryPlan, engine: Engine, pages: Pages) -> Result<Self> {
        let window = Window { began: Work::default(), cache_bytes: plan.read_cache_bytes };
        let seen = Seen { page_bytes: AtomicU64::new(0), peak_bytes: AtomicU64::new(0), window: Mutex::new(window) };
        let governor = Self { engine, pages, plan, seen: Arc::new(seen) };
        governor.check()?;
        governor.adjust();
        Ok(governor)
    }

    fn check(&self) -> Result<()> {
        let (bytes, stats) = (self.plan.budget_bytes, self.engine.stats());
        let buffer_bytes = self.movable_bytes(&stats).saturating_sub(self.cache_bytes_min());
        if buffer_bytes >= BUFFER_BYTES_MIN {
            return Ok(());
        }
        let needed = self.plan.budget_needed(stats.inner_bytes + stats.leaf_table_bytes + stats.log_bytes);
        let bytes_needed = needed.max(bytes + bytes / 4);
        Err(Error::TooLittleMemory { bytes, buffer_bytes, buffer_bytes_min: BUFFER_BYTES_MIN, bytes_needed })
    }

    /// The budget in bytes.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.plan.budget_bytes
    }

    /// The most that tree and page store used together, in bytes: between two looks the most of each counts.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.seen.peak_bytes.load(Ordering::Relaxed)
    }

    /// Divides what the others leave between leaf buffers and read cache; never less for buffers than they need to work. Cheap:
    /// call it every few milliseconds.
    pub(crate) fn adjust(&self) {
        let stats = self.engine.stats();
        let page_bytes = self.pages.usage().memory_bytes;
        let page_bytes_most = page_bytes.max(self.seen.page_bytes.swap(page_bytes, Ordering::Relaxed));
        self.seen.peak_bytes.fetch_max(self.engine.take_memory_peak() + page_bytes_most, Ordering::Relaxed);
        let movable = self.movable_bytes(&stats);
        let cache_bytes = match self.plan.shares {
            Some(_) => self.plan.read_cache_bytes.min(movable.saturating_sub(BUFFER_BYTES_MIN)),
            None => self.follow_work(&stats, movable),
        };
        let buffer_bytes = (movable - cache_bytes.min(movable)).min(self.plan.buffer_bytes_max).max(BUFFER_BYTES_MIN);
        self.engine.set_buffer_bytes(buffer_bytes);
        // Buffers give memory up only as they are merged: until then the cache waits.
        let free = movable.saturating_sub(stats.buffer_bytes.max(BUFFER_BYTES_MIN));
        let cache_bytes = cache_bytes.min(free.max(self.cache_bytes_min()));
        self.pages.set_read_cache_bytes(cache_bytes);
        // Half the margin is for what the tree does before the next look, however late it comes; half for the page store.
        let page_bytes_promised = cache_bytes + self.page_bytes_but_cache();
        let others = page_bytes_promised + self.plan.margin_bytes / 2;
        self.engine.set_memory_bytes_max(self.plan.budget_bytes.saturating_sub(others));
    }

    /// What the cache is to have of `movable` bytes: a step more or less at the end of each window.
    fn follow_work(&self, stats: &EngineStats, movable: u64) -> u64 {
        let cache = self.pages.cache_usage();
        let now = Work::of(stats, cache.hits);
        let (least, most) = (self.cache_bytes_min(), movable.saturating_sub(BUFFER_BYTES_MIN));
        let mut window = self.seen.window.lock();
        let work = now.since(&window.began);
        if work.puts + work.gets >= WINDOW_OPERATIONS {
            window.began = now;
            let step = movable / STEP_SHARE;
            let full = cache.bytes * 10 >= cache.bytes_max * FULL_TENTHS;
            match better(&work, stats.buffer_bytes, cache.bytes) {
                Better::Cache if full => window.cache_bytes += step,
                Better::Buffers => window.cache_bytes = window.cache_bytes.saturating_sub(step),
                Better::Cache | Better::Neither => {}
            }
        }
        window.cache_bytes = window.cache_bytes.min(most).max(least);
        window.cache_bytes
    }

    fn cache_bytes_min(&self) -> u64 {
        self.plan.read_cache_bytes_min
    }

    /// What leaf buffers and the read cache may take together. What is promised to others counts as used: sequencers fill up; a
    /// snapshot that is open may keep states, and where none is, the margin bears the first ones.
    fn movable_bytes(&self, stats: &EngineStats) -> u64 {
        let plan = &self.plan;
        let tree_bytes = stats.inner_bytes + stats.leaf_table_bytes + stats.log_bytes;
        let page_bytes = self.page_bytes_but_cache();
        let snapshot_bytes = if stats.snapshot_bytes == 0 { 0 } else { plan.snapshot_bytes.max(stats.snapshot_bytes) };
        let others =
            tree_bytes + page_bytes + snapshot_bytes + plan.filter_bytes.max(stats.filter_bytes) + plan.margin_bytes;
        plan.budget_bytes.saturating_sub(others)
    }

    /// What the page store takes beside its cache: what was promised to sequencers, or what is taken if that is more.
    fn page_bytes_but_cache(&self) -> u64 {
        let cache_bytes = self.pages.cache_usage().bytes;
        self.pages.usage().memory_bytes.saturating_sub(cache_bytes).max(self.plan.sequencer_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_speak_for_buffers_and_hits_for_the_cache() {
        let inserts = Work { puts: 4_096, merges: 200, ..Work::default() };
        assert_eq!(better(&inserts, 30 << 20, 1 << 20), Better::Buffers);
        let favourites = Work { gets: 4_096, cache_hits: 2_000, buffer_hits: 100, ..Work::default() };
        assert_eq!(better(&favourites, 30 << 20, 1 << 20), Better::Cache);
        // Uniform gets: pages hold a pair in more bytes than buffers do.
        let uniform = Work { gets: 4_096, cache_hits: 9, buffer_hits: 400, ..Work::default() };
        assert_eq!(better(&uniform, 30 << 20, 1 << 20), Better::Buffers);
        assert_eq!(
            better(&Work { cache_hits: 100, buffer_hits: 105, ..Work::default() }, 1 << 20, 1 << 20),
            Better::Neither
        );
    }
}
