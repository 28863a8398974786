//! Keeps the whole store within its memory budget (I6): what the index and everything else grow, leaf buffers shrink.

use std::sync::Arc;

use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_tree::{Engine, EngineStats};

use crate::backing::Pages;
use crate::memory::{BUFFER_BYTES_MIN, MemoryPlan};
use crate::{Error, Result};

/// Looks at what everybody uses and gives leaf buffers the rest. Clones are handles to the same.
#[derive(Clone)]
pub(crate) struct Governor {
    engine: Engine,
    pages: Pages,
    plan: MemoryPlan,
    seen: Arc<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// What leaf buffers were last given.
    buffer_bytes: AtomicU64,
    /// The most that the page store used.
    page_bytes_peak: AtomicU64,
}

impl Governor {
    /// Takes over from the plan, once the store is open.
    ///
    /// # Errors
    /// `TooLittleMemory` when everything else leaves too little for leaf buffers.
    pub(crate) fn new(plan: MemoryPlan, engine: Engine, pages: Pages) -> Result<Self> {
        let (buffer_bytes, page_bytes_peak) = (AtomicU64::new(plan.buffer_bytes), AtomicU64::new(0));
        let governor = Self { engine, pages, plan, seen: Arc::new(Seen { buffer_bytes, page_bytes_peak }) };
        governor.check()?;
        governor.adjust();
        Ok(governor)
    }

    fn check(&self) -> Result<()> {
        let (bytes, stats) = (self.plan.budget_bytes, self.engine.stats());
        let buffer_bytes = self.share(&stats, self.pages.usage().memory_bytes);
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

    /// The most that the page store used when somebody looked, in bytes.
    pub(crate) fn page_bytes_peak(&self) -> u64 {
        self.seen.page_bytes_peak.load(Ordering::Relaxed)
    }

    /// Gives leaf buffers what the others leave them; never less than they need to work. Cheap: call it every few milliseconds.
    pub(crate) fn adjust(&self) {
        let page_bytes = self.pages.usage().memory_bytes;
        self.seen.page_bytes_peak.fetch_max(page_bytes, Ordering::Relaxed);
        let bytes = self.share(&self.engine.stats(), page_bytes).max(BUFFER_BYTES_MIN);
        if self.seen.buffer_bytes.swap(bytes, Ordering::Relaxed) != bytes {
            self.engine.set_buffer_bytes(bytes);
        }
    }

    /// What is promised to others counts as used: the read cache and the sequencers fill up, snapshots come.
    fn share(&self, stats: &EngineStats, page_bytes: u64) -> u64 {
        let plan = &self.plan;
        let tree_bytes = stats.inner_bytes + stats.leaf_table_bytes + stats.log_bytes.max(plan.log_bytes);
        let page_bytes = page_bytes.max(plan.sequencer_bytes + plan.read_cache_bytes);
        let filter_bytes = stats.filter_bytes.max(plan.filter_bytes);
        let others =
            tree_bytes + page_bytes + filter_bytes + plan.snapshot_bytes.max(stats.snapshot_bytes) + plan.margin_bytes;
        plan.budget_bytes.saturating_sub(others).min(plan.buffer_bytes_max)
    }
}
