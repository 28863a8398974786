//! How far a scan reads ahead of itself: the next leaves' pages are on their way while the present one is consumed.
//!
//! A scan that ends within its first leaf reads nothing ahead; afterwards it reads as many leaves ahead as it has used, so what
//! is read in vain is never more than that. Whoever knows how many pairs he will take says so ([`expect_pairs`](Ahead::expect_pairs)):
//! the leaves that this needs are asked for at once, as soon as the first is begun. How many pairs of the first lie in the range is guessed
//! from where the scan's start lies between the leaf's bounds. Memory: at most 32 leaves and 256 KiB for each end of a scan, within the
//! store's bound for all.

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
    /// Pairs that somebody expects to be taken from leaves that are not begun yet; `None` = unknown.
    pairs_expected: Option<u64>,
    /// Leaves that it has begun beyond what was expected.
    leaves_past: usize,
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
        self.pairs_expected = (pairs > 0).then_some(pairs);
    }

    /// Pairs that somebody expects to be taken from leaves that are not begun yet; 0 = unknown, or none.
    pub(crate) fn pairs_expected(&self) -> usize {
        usize::try_from(self.pairs_expected.unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// The scan comes to a leaf of which `share` lies in its range, and behind which `rest` is left: asks for those that it will need next.
    pub(crate) fn begin_leaf(
        &mut self,
        tree: &Tree,
        (snapshot, end): (u64, End),
        (share, rest): (f64, Option<&Range>),
    ) {
        let window = self.window(tree, share);
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
    fn window(&mut self, tree: &Tree, share: f64) -> usize {
        let leaf_bytes = usize::try_from(tree.options.leaf_bytes).unwrap_or(BYTES_MAX);
        let leaves_max = (BYTES_MAX / leaf_bytes).clamp(1, LEAVES_MAX);
        let Some(expected) = &mut self.pairs_expected else { return self.leaves_begun.min(leaves_max) };
        let per_leaf = tree.pairs_per_leaf();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a leaf's pairs, rounded"
        )]
        let here = (share * per_leaf as f64) as u64;
        if *expected > 0 {
            // Who says what he will take is believed until he has taken it.
            *expected = expected.saturating_sub(here);
            return usize::try_from(expected.div_ceil(per_leaf)).unwrap_or(usize::MAX).min(leaves_max);
        }
        self.leaves_past += 1;
        self.leaves_past.saturating_sub(LEAVES_OF_SLACK).min(leaves_max)
    }

    /// The body of the page of `view`, if it was read ahead.
    pub(crate) fn take(&mut self, view: &LeafView) -> Option<Vec<u8>> {
        let mut body = None;
        let (reads, page) = (self.reads.as_mut()?, view.page?);
        reads.take(view.id, page, &mut |bytes| body = Some(bytes.to_vec()));
        body
    }
}

/// Which share of the keys of `[low, high)` lies at or above `key`, if they are spread evenly; without an upper bound a half.
pub(crate) fn share_above(key: &[u8], low: &[u8], high: Option<&[u8]>) -> f64 {
    let Some(high) = high else { return 0.5 };
    let shared = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(key.iter().skip(shared)).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(bytes)
    };
    let (low, high) = (number(low), number(high));
    let key = number(key).clamp(low, high.max(low));
    if high <= low { 0.5 } else { (high - key) as f64 / (high - low) as f64 }
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

#[cfg(test)]
mod tests {
    use super::share_above;

    #[test]
    fn a_start_is_placed_between_the_bounds_of_its_leaf() {
        let near = |share: f64, expected: f64| (share - expected).abs() < 0.01;
        assert!(near(share_above(b"ab\x40", b"ab\x00", Some(b"ab\x80")), 0.5));
        assert!(near(share_above(b"ab", b"ab", Some(b"ac")), 1.0));
        assert!(near(share_above(b"ab\xff\xff", b"ab", Some(b"ac")), 0.0));
        assert!(near(share_above(b"", b"", Some(b"\x10")), 1.0));
        assert!(near(share_above(b"x", b"", None), 0.5));
        assert!(near(share_above(b"a", b"a", Some(b"a\0\0\0\0\0\0\0\0\x01")), 0.5), "too close to be told apart");
    }
}
