//! How far a scan reads ahead of itself: the next leaves' pages are on their way while the present one is consumed.
//!
//! A scan that ends within its first leaf reads nothing ahead; afterwards it reads as many leaves ahead as it has used, so what
//! is read in vain is never more than that. Whoever knows how many pairs he will
//! take says so ([`expect_pairs`](Ahead::expect_pairs)): those leaves are asked for at once. Memory: at most 32 leaves and
//! 256 KiB for each end of a scan, within the store's bound for all.

use zonda_pages::{PageAddress, PageId, ReadAhead};
use zonda_rt::atomic::Ordering;

use crate::{
    run::End,
    scan::{LeafView, Range},
    tree::Tree,
};

/// Leaves that are on their way for one end at the most.
const LEAVES_MAX: usize = 32;
/// Their bytes at the most, but always one.
const BYTES_MAX: usize = 256 << 10;

/// Leaves that a scan may take beyond what was expected before it counts as longer: its first and last one in part.
const LEAVES_OF_SLACK: usize = 2;
/// Bytes of a pair in a leaf, before any scan has seen one.
const RECORD_BYTES_GUESSED: u64 = 32;

/// What one end of a scan reads ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    /// `None` until something is read ahead, or if the store never does.
    reads: Option<Box<dyn ReadAhead>>,
    /// Leaves that the scan has begun at this end.
    leaves_begun: usize,
    /// Pairs that somebody expects to be taken; 0 = unknown.
    pairs_expected: u64,
    /// Leaves behind the present one that were asked for.
    leaves_asked: usize,
    /// What lies behind them; `None` if nothing was asked for.
    beyond: Option<Range>,
}

/// A leaf that a scan will come to.
pub(crate) struct Glimpse {
    pub(crate) page: Option<(PageId, PageAddress)>,
    /// What is left of the scan's range behind the leaf.
    pub(crate) beyond: Option<Range>,
}

impl Ahead {
    /// Says that about `pairs` pairs will be taken.
    pub(crate) fn expect_pairs(&mut self, pairs: u64) {
        self.pairs_expected = pairs;
    }

    /// The scan comes to a leaf, behind which `rest` is left: asks for those that it will need next.
    pub(crate) fn begin_leaf(&mut self, tree: &Tree, (snapshot, end): (u64, End), rest: Option<&Range>) {
        let window = self.window(tree);
        self.leaves_begun += 1;
        self.leaves_asked = self.leaves_asked.saturating_sub(1);
        // Several at a time: one call of the system for half a window.
        if window == 0 || 2 * self.leaves_asked > window {
            return;
        }
        let mut next = if self.leaves_asked == 0 { rest.cloned() } else { self.beyond.take() };
        let mut pages = Vec::with_capacity(window);
        while self.leaves_asked < window
            && let Some(range) = next.take()
        {
            let Some(glimpse) = tree.glimpse_ahead(snapshot, end, &range) else { break };
            pages.extend(glimpse.page);
            next = glimpse.beyond;
            self.leaves_asked += 1;
        }
        self.beyond = next;
        self.ask(tree, &pages);
    }

    fn ask(&mut self, tree: &Tree, pages: &[(PageId, PageAddress)]) {
        if pages.is_empty() {
            return;
        }
        if self.reads.is_none() {
            self.reads = tree.store.read_ahead();
        }
        self.reads.iter_mut().for_each(|reads| reads.want(pages));
    }

    /// Leaves that should be on their way behind the one that is begun now.
    fn window(&self, tree: &Tree) -> usize {
        let leaf_bytes = usize::try_from(tree.options.leaf_bytes).unwrap_or(BYTES_MAX);
        let leaves_max = (BYTES_MAX / leaf_bytes).clamp(1, LEAVES_MAX);
        let expected = usize::try_from(self.pairs_expected / tree.pairs_per_leaf()).unwrap_or(usize::MAX);
        let slack = if self.pairs_expected > 0 { LEAVES_OF_SLACK } else { 0 };
        let leaves = match self.leaves_begun.checked_sub(expected) {
            // Who says what he will take is believed until he has taken it.
            None => expected - self.leaves_begun,
            Some(past) => past.saturating_sub(slack),
        };
        leaves.min(leaves_max)
    }

    /// The body of the page of `view`, if it was read ahead.
    pub(crate) fn take(&mut self, view: &LeafView) -> Option<Vec<u8>> {
        let mut body = None;
        let (reads, page) = (self.reads.as_mut()?, view.page?);
        reads.take(view.id, page, &mut |bytes| body = Some(bytes.to_vec()));
        body
    }
}

impl Tree {
    /// Takes note of a leaf that a scan has read: the estimate moves a sixteenth of the way.
    pub(crate) fn scanned_leaf(&self, records: usize) {
        let estimate = &self.counters.leaf_records_x16;
        let before = estimate.load(Ordering::Relaxed);
        let now = if before == 0 { 16 * records as u64 } else { before - before / 16 + records as u64 };
        estimate.store(now, Ordering::Relaxed);
    }

    /// Pairs that a leaf is expected to hold; at least 1.
    fn pairs_per_leaf(&self) -> u64 {
        let known = self.counters.leaf_records_x16.load(Ordering::Relaxed) / 16;
        if known > 0 { known } else { (u64::from(self.options.leaf_bytes) / RECORD_BYTES_GUESSED).max(1) }
    }
}
