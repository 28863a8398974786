//! Leaves that could not be merged.
//!
//! Long ones have buffers that come near their end: while there are some, writers look before they log. Refused ones found no space or a
//! damaged page in this round, and whoever has something else for them does not ask again: a round is the insertion of one batch array,
//! or recovery. A leaf is neither any more when its buffer goes, whoever merges or drops it. Cost while there is none: a load for each
//! write and each leaf that moves.

use std::collections::{BTreeMap, BTreeSet};

use zonda_pages::PageId;
use zonda_rt::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use crate::TreeError;

/// Calls of the background in which it leaves a filter alone at the most: a second or so where it works, a dozen where it rests itself.
const REST_CALLS_MAX: u32 = 256;

/// See the top.
#[derive(Default)]
pub(crate) struct Unmerged {
    /// Whether some are long.
    any: AtomicBool,
    any_refused: AtomicBool,
    /// Steps of reclaim, and one, when recovery last evicted nothing for want of space; 0: it did.
    none_evicted_at: AtomicU64,
    rest: Rest,
    leaves: Mutex<Leaves>,
}

/// How long the background leaves a filter alone that is full of what waits for damaged leaves: each look at it begins a round, which reads
/// their pages. In calls of it, twice as many each time.
#[derive(Default)]
struct Rest {
    calls: AtomicU32,
    calls_left: AtomicU32,
    /// What the filter held when it was last left.
    held_bytes: AtomicU64,
}

#[derive(Default)]
struct Leaves {
    /// The latch of each is held while it becomes one or ceases to be.
    long: BTreeSet<u32>,
    refused: BTreeMap<u32, Refusal>,
}

/// What kept a leaf from being merged.
#[derive(Clone)]
pub(crate) struct Refusal {
    pub(crate) why: TreeError,
    /// All was tried.
    pub(crate) must: bool,
    /// Steps of reclaim by then.
    pub(crate) steps: u64,
}

impl Unmerged {
    /// Whether some have long buffers.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The buffer of leaf `id` is long.
    #[cold]
    pub(crate) fn add(&self, id: PageId) {
        let mut leaves = self.leaves.lock();
        leaves.long.insert(id.0);
        self.tell(&leaves);
    }

    /// Leaf `id` has no buffer any more.
    pub(crate) fn remove(&self, id: PageId) {
        if self.any() || self.any_refused.load(Ordering::Relaxed) {
            let mut leaves = self.leaves.lock();
            leaves.long.remove(&id.0);
            leaves.refused.remove(&id.0);
            self.tell(&leaves);
        }
    }

    /// Leaf `id` was not merged.
    #[cold]
    pub(crate) fn refuse(&self, id: PageId, refusal: Refusal) {
        let mut leaves = self.leaves.lock();
        leaves.refused.insert(id.0, refusal);
        self.tell(&leaves);
    }

    /// How leaf `id` was refused in this round.
    pub(crate) fn refusal(&self, id: PageId) -> Option<Refusal> {
        self.any_refused.load(Ordering::Relaxed).then(|| self.leaves.lock().refused.get(&id.0).cloned())?
    }

    /// From now on all leaves are asked again.
    pub(crate) fn begin_round(&self) {
        if self.any_refused.load(Ordering::Relaxed) {
            let mut leaves = self.leaves.lock();
            leaves.refused.clear();
            self.tell(&leaves);
        }
    }

    /// Recovery found no space to evict anything, after so many steps of reclaim.
    pub(crate) fn none_evicted(&self, steps: u64) {
        self.none_evicted_at.store(steps + 1, Ordering::Relaxed);
    }

    /// Whether nothing was reclaimed since.
    pub(crate) fn evicts_none(&self, steps: u64) -> bool {
        self.none_evicted_at.load(Ordering::Relaxed) == steps + 1
    }

    /// Whether the background is to serve the filter in this call, which holds so many bytes: at once if it has grown by more than
    /// `growth_max` since it was left, by what other leaves may take.
    pub(crate) fn ends_rest(&self, held_bytes: u64, growth_max: u64) -> bool {
        let left = self.rest.calls_left.load(Ordering::Relaxed);
        // One that others count down at the same time ends a call later or sooner.
        self.rest.calls_left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0 || held_bytes > self.rest.held_bytes.load(Ordering::Relaxed) + growth_max
    }

    /// The background met damage, and the filter holds so many bytes still: the next calls leave it alone, unless it had fewer by then.
    pub(crate) fn rest(&self, held_bytes: u64) {
        let is_vain = held_bytes >= self.rest.held_bytes.swap(held_bytes, Ordering::Relaxed);
        let calls = if is_vain { (2 * self.rest.calls.load(Ordering::Relaxed)).clamp(1, REST_CALLS_MAX) } else { 0 };
        self.rest.calls.store(calls, Ordering::Relaxed);
        self.rest.calls_left.store(calls, Ordering::Relaxed);
    }

    /// Nothing keeps the filter full: from now on it is served at every call.
    pub(crate) fn is_rested(&self) {
        if self.rest.held_bytes.load(Ordering::Relaxed) != 0 {
            self.rest.calls.store(0, Ordering::Relaxed);
            self.rest.calls_left.store(0, Ordering::Relaxed);
            self.rest.held_bytes.store(0, Ordering::Relaxed);
        }
    }

    fn tell(&self, leaves: &Leaves) {
        self.any.store(!leaves.long.is_empty(), Ordering::Relaxed);
        self.any_refused.store(!leaves.refused.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use zonda_pages::PageId;

    use crate::{
        Durability, TreeOptions, recover,
        testing::{MemOptions, MemStore},
    };

    /// A full store merges nothing, so deletes, which it takes, make a buffer long.
    #[test]
    fn writers_look_before_they_log_until_the_leaf_is_merged_or_gone() {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(store.clone(), TreeOptions::default()).expect("an empty store");
        let key = |number: u8| vec![number; 1_000];
        for life in 0..2 {
            tree.put(&key(0), b"", Durability::Buffered).expect("room");
            tree.flush_leaf(PageId(0)).expect("room");
            assert!(!tree.unmerged.any());
            store.wire().set_full(true);
            (1..60).for_each(|number| {
                tree.delete(&key(number), Durability::Buffered).expect("a full store takes deletes")
            });
            assert!(tree.unmerged.any());
            store.wire().set_full(false);
            match life {
                0 => _ = tree.flush_leaf(PageId(0)).expect("room"),
                _ => tree.compact(&mut |_, _| {}).expect("room"),
            }
            assert!(!tree.unmerged.any(), "every write pays for ever");
        }
    }
}
