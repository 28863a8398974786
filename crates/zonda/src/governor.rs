//! Keeps the whole store within its memory budget (I6): what the index grows, leaf buffers shrink.

use std::sync::Arc;

use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_tree::Engine;

use crate::memory::{BUFFER_BYTES_MIN, MemoryPlan};
use crate::{Error, Result};

/// Watches the parts of the budget that grow with the data. Clones are handles to the same.
#[derive(Clone, Debug)]
pub(crate) struct Governor {
    budget_bytes: u64,
    plan: MemoryPlan,
    /// What leaf buffers were last given.
    buffer_bytes: Arc<AtomicU64>,
}

impl Governor {
    /// Takes over from the plan, once the size of the index is known.
    ///
    /// # Errors
    /// `TooLittleMemory` when the index leaves too little for leaf buffers.
    pub(crate) fn new(budget_bytes: u64, plan: MemoryPlan, engine: &Engine) -> Result<Self> {
        let governor = Self { budget_bytes, plan, buffer_bytes: Arc::new(AtomicU64::new(plan.buffer_bytes)) };
        let index_bytes = index_bytes(engine);
        let buffer_bytes = governor.share(index_bytes);
        if buffer_bytes < BUFFER_BYTES_MIN {
            let bytes_needed = crate::memory::needed(index_bytes).max(budget_bytes + 1);
            let buffer_bytes_min = BUFFER_BYTES_MIN;
            return Err(Error::TooLittleMemory { bytes: budget_bytes, buffer_bytes, buffer_bytes_min, bytes_needed });
        }
        governor.adjust(engine);
        Ok(governor)
    }

    /// The budget.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Gives leaf buffers what the index leaves them; never less than they need to work. Cheap: call it often.
    pub(crate) fn adjust(&self, engine: &Engine) {
        let bytes = self.share(index_bytes(engine)).max(BUFFER_BYTES_MIN);
        if self.buffer_bytes.swap(bytes, Ordering::Relaxed) != bytes {
            engine.set_buffer_bytes(bytes);
        }
    }

    fn share(&self, index_bytes: u64) -> u64 {
        let fixed = self.budget_bytes - self.plan.index_bytes - self.plan.buffer_bytes;
        let index_bytes = index_bytes.max(self.plan.index_bytes);
        self.budget_bytes.saturating_sub(fixed).saturating_sub(index_bytes).min(self.plan.buffer_bytes)
    }
}

fn index_bytes(engine: &Engine) -> u64 {
    let stats = engine.stats();
    stats.inner_bytes + stats.leaf_table_bytes
}
