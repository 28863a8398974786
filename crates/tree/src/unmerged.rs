//! Leaves that could not be merged and whose buffers come near their end: while there are some, writers look before they log.
//!
//! A leaf is one until its buffer goes, whoever merges or drops it. Cost while there is none: a load for each write and each leaf that
//! moves.

use std::collections::BTreeSet;

use zonda_pages::PageId;
use zonda_rt::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

/// The leaves, of each of which the latch is held while it becomes one or ceases to be.
#[derive(Default)]
pub(crate) struct Unmerged {
    any: AtomicBool,
    leaves: Mutex<BTreeSet<u32>>,
}

impl Unmerged {
    /// Whether there are some.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Leaf `id` is one.
    #[cold]
    pub(crate) fn add(&self, id: PageId) {
        let mut leaves = self.leaves.lock();
        leaves.insert(id.0);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Leaf `id` has no buffer any more.
    pub(crate) fn remove(&self, id: PageId) {
        if self.any() {
            let mut leaves = self.leaves.lock();
            leaves.remove(&id.0);
            self.any.store(!leaves.is_empty(), Ordering::Relaxed);
        }
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
