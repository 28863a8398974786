//! Leaves whose buffers cannot be merged, as their pages are damaged: every other buffer goes before them.
//!
//! They are tried again when nothing else is left, and now and then: a device may have recovered, or the leaf be another by now.
//! Nearly always there are none, and then a look costs one load.

use std::collections::BTreeSet;

use zonda_pages::PageId;
use zonda_rt::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};

/// Choices of a victim after which all are tried again.
const CHOICES_MAX: u32 = 4096;

/// The leaves that are passed over.
#[derive(Default)]
pub(super) struct Aside {
    leaves: Mutex<BTreeSet<u32>>,
    count: AtomicU32,
    /// Choices since there are some.
    choices: AtomicU32,
}

impl Aside {
    pub(super) fn add(&self, leaf: PageId) {
        let mut leaves = self.leaves.lock();
        leaves.insert(leaf.0);
        self.count.store(u32::try_from(leaves.len()).expect("as many as ids"), Ordering::Relaxed);
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn has(&self, leaf: PageId) -> bool {
        self.len() > 0 && self.leaves.lock().contains(&leaf.0)
    }

    /// All may be chosen again.
    pub(super) fn forget(&self) {
        let mut leaves = self.leaves.lock();
        leaves.clear();
        self.count.store(0, Ordering::Relaxed);
        self.choices.store(0, Ordering::Relaxed);
    }

    /// A victim is about to be chosen.
    pub(super) fn count_choice(&self) {
        if self.len() > 0 && self.choices.fetch_add(1, Ordering::Relaxed) >= CHOICES_MAX {
            self.forget();
        }
    }
}
