//! Eviction: cold records become the batch array (ZKV 3.2).
//!
//! By node, as in the paper: the coldest quarter of the nodes leaves, found with a heap over their counts of accesses (decision 0038). By
//! pair: a hand goes round the nodes and takes the records that were not written again since it last came by, until a quarter of the bytes
//! is out; where hot keys are scattered among cold ones, no node is hot or cold as a whole.
//!
//! Cost: one walk over all nodes without latches (by node), and the latches of what leaves until the array is published; memory only.
//! Whoever finds another eviction going on, or an array that is not inserted yet, goes on with its write. What found no room in its leaf is
//! no reason to wait: it moves on into the new array, below what leaves now.

use std::{collections::BinaryHeap, ops::Range, sync::Arc};

use zonda_pages::PageId;
use zonda_rt::{atomic::Ordering, epoch::Guard};

use super::{
    Around, Batch, BatchArray, Filter, Latched, NONE,
    array::{Replaced, joined},
    unlink::Reach,
};
use crate::{FilterEviction, TreeError};

/// Of how many nodes or bytes one leaves.
pub(super) const LEAVING_ONE_IN: u64 = 4;
/// Of how many nodes one is latched at most when pairs leave.
const LATCHED_ONE_IN: u64 = 2;

/// What evictions share. Held by the one that goes on, and while a snapshot opens (*one moment*).
#[derive(Default)]
pub(super) struct Evicting {
    /// Where the hand goes on.
    hand: Vec<u8>,
    /// Low keys of nodes that evictions emptied, until they are unlinked.
    emptied: Vec<Vec<u8>>,
}

impl Filter {
    /// Moves cold records to the array, if there is none but of records that found no room, nobody else does, and that is still `wanted`
    /// then: whoever asked before may have counted an array that has left since. `replaced` hears of what was in the array and is
    /// superseded there. Returns whether there is another array.
    pub(crate) fn evict(&self, around: Around<'_>, wanted: impl FnOnce(&Self) -> bool, replaced: Replaced<'_>) -> bool {
        let Some(mut evicting) = self.evicting.try_lock() else { return false };
        let guard = around.epoch.pin();
        let given_back = self.array.load(&guard);
        if given_back.is_some_and(|array| !array.is_given_back()) || !wanted(self) {
            return false;
        }
        // Before anything is latched.
        let rest = given_back.map_or_else(Vec::new, BatchArray::rest);
        self.unlink_emptied(&mut evicting, around, &guard);
        let mut held = match self.eviction {
            FilterEviction::Nodes => self.latch_all(self.coldest(&guard), &guard),
            FilterEviction::Pairs => self.latch_round(&mut evicting, &guard),
        };
        held.iter().for_each(|latched| latched.keep(around.snapshots));
        let mut batches = self.take_out_all(&mut held);
        // The hand may have come round: from the greatest keys to the least.
        batches.sort_unstable_by(|left, right| left.records.first_key().cmp(right.records.first_key()));
        let batches = joined(&batches, &rest, replaced);
        let left = !batches.is_empty();
        if left {
            let array = BatchArray::new(batches);
            self.array_bytes.store(array.memory_bytes(), Ordering::Relaxed);
            self.waiting_bytes.store(0, Ordering::Relaxed);
            self.array.publish(Arc::new(array), around.epoch);
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
        let emptied = held.iter().filter(|latched| latched.content.records.is_none()).map(|latched| latched.path.low());
        evicting.emptied.extend(emptied);
        // *down*: published. Only now may the nodes say that they hold less, and their latches go.
        held.into_iter().for_each(|latched| settle(latched, around.snapshots.epoch()));
        left
    }

    /// Calls `open` with the present array while no eviction goes on (*one moment*).
    pub(crate) fn between_evictions<T>(
        &self,
        around: Around<'_>,
        open: impl FnOnce(Option<Arc<BatchArray>>) -> T,
    ) -> T {
        let _evicting = self.evicting.lock();
        let array = self.array.share(&around.epoch.pin());
        open(array)
    }

    /// Unlinks what evictions before emptied, but where somebody is in the way, or has written since.
    fn unlink_emptied(&self, evicting: &mut Evicting, around: Around<'_>, guard: &Guard<'_>) {
        evicting.emptied.retain(|low| {
            let path = self.index.find(low, guard);
            let is_empty = || self.nodes.get(path.leaf()).oldest() == NONE;
            is_empty() && !self.unlink(&path, Reach::Tree, around, guard) && path.has_beside()
        });
    }

    /// Of a claimed batch of `array` these records, at least one, found no room.
    pub(super) fn give_back(&self, array: &BatchArray, batch: usize, ranges: Vec<Range<usize>>, why: TreeError) {
        // First: the next eviction, which begins from nothing, may follow at once.
        self.waiting_bytes.fetch_add(array.bytes_of(batch, &ranges), Ordering::Relaxed);
        array.give_back(batch, ranges, why);
    }

    /// Inserted by everybody: the array goes.
    pub(super) fn take_array_out(&self, around: Around<'_>) {
        self.array_bytes.store(0, Ordering::Relaxed);
        self.array.clear(around.epoch);
    }

    /// Low keys of the nodes to go, ascending; all nodes forget half of their accesses.
    fn coldest(&self, guard: &Guard<'_>) -> Vec<Vec<u8>> {
        let count = usize::try_from(self.valid_nodes() / LEAVING_ONE_IN).unwrap_or(usize::MAX).max(1);
        let mut chosen: BinaryHeap<(u32, Vec<u8>)> = BinaryHeap::new();
        let mut next = Some(Vec::new());
        while let Some(low) = next {
            let path = self.index.find(&low, guard);
            next = path.high();
            let node = self.nodes.get(path.leaf());
            if node.oldest() == NONE {
                continue;
            }
            chosen.push((node.heat(), low));
            node.cool();
            if chosen.len() > count {
                chosen.pop();
            }
        }
        let mut lows: Vec<Vec<u8>> = chosen.into_iter().map(|(_, low)| low).collect();
        lows.sort_unstable();
        lows
    }

    /// Latches the valid nodes at `lows`, in key order.
    fn latch_all<'f, 'g>(&'f self, lows: Vec<Vec<u8>>, guard: &'g Guard<'_>) -> Vec<Latched<'f, 'g>> {
        let mut held: Vec<Latched<'f, 'g>> = Vec::with_capacity(lows.len());
        for low in lows {
            let last = held.last().map(|last| last.path.leaf());
            held.extend(self.latch_one(&low, last, guard));
        }
        held
    }

    /// The node at `low`, unless it is shadow-deleted or the one latched before: ranges may have joined meanwhile.
    fn latch_one<'f, 'g>(&'f self, low: &[u8], last: Option<PageId>, guard: &'g Guard<'_>) -> Option<Latched<'f, 'g>> {
        loop {
            let path = self.index.find(low, guard);
            if last == Some(path.leaf()) {
                return None;
            }
            let latched = self.latch(path);
            if latched.path.is_current() {
                return latched.content.records.is_some().then_some(latched);
            }
        }
    }

    /// Latches nodes from the hand on, in key order, until those of their records that were not written again make a quarter of all
    /// bytes, and moves the hand behind them. At the end of the keys it goes on at the beginning, once.
    fn latch_round<'f, 'g>(&'f self, evicting: &mut Evicting, guard: &'g Guard<'_>) -> Vec<Latched<'f, 'g>> {
        let wanted_bytes = self.record_bytes.load(Ordering::Relaxed) / LEAVING_ONE_IN;
        let count = usize::try_from(self.valid_nodes() / LATCHED_ONE_IN).unwrap_or(usize::MAX).max(1);
        let (mut held, mut cold_bytes) = (Vec::new(), 0);
        let mut rounds = 0;
        let mut low = std::mem::take(&mut evicting.hand);
        while held.len() < count && cold_bytes <= wanted_bytes && rounds < 2 {
            let first: Option<PageId> = held.first().map(|first: &Latched<'_, '_>| first.path.leaf());
            let path = self.index.find(&low, guard);
            if first == Some(path.leaf()) {
                break;
            }
            let last = held.last().map(|last| last.path.leaf());
            let latched = self.latch_one(&low, last, guard);
            cold_bytes += latched.as_ref().map_or(0, |latched| latched.content.cold_bytes());
            let high = latched.as_ref().map_or_else(|| path.high(), |latched| latched.path.high());
            held.extend(latched);
            rounds += u32::from(high.is_none());
            low = high.unwrap_or_default();
        }
        evicting.hand = low;
        held
    }

    /// Takes what leaves out of latched nodes. Where too few pairs are cold, whole nodes leave until an eighth of all bytes is out: an
    /// eviction that frees next to nothing would be followed by another one at once.
    fn take_out_all(&self, held: &mut [Latched<'_, '_>]) -> Vec<Batch> {
        let least_bytes = self.record_bytes.load(Ordering::Relaxed) / LEAVING_ONE_IN / 2;
        let cold_bytes: u64 = held.iter().map(|latched| latched.content.cold_bytes()).sum();
        let mut hot_bytes = least_bytes.saturating_sub(cold_bytes);
        let take_out = |latched: &mut Latched<'_, '_>| {
            let whole = self.eviction == FilterEviction::Nodes || hot_bytes > 0;
            hot_bytes = hot_bytes.saturating_sub(latched.content.memory_bytes() - latched.content.cold_bytes());
            self.take_out(latched, whole)
        };
        held.iter_mut().filter_map(take_out).collect()
    }

    /// Takes what leaves out of a latched node: all of it (shadow deletion), or the records that were not written again.
    fn take_out(&self, latched: &mut Latched<'_, '_>, whole: bool) -> Option<Batch> {
        let before = latched.content.memory_bytes();
        let records = if whole { latched.content.take_all() } else { latched.content.take_cold() };
        self.charge(before, latched.content.memory_bytes());
        if latched.content.records.is_none() {
            self.valid_nodes.fetch_sub(1, Ordering::SeqCst);
        }
        Some(Batch { records: Arc::new(records?), oldest: latched.node.oldest(), newest: latched.content.newest })
    }
}

/// Says what a node that was evicted from holds now. While records stay the bound stays too, even if the oldest of them left: the
/// entry of a checkpoint tells all of a node's records by one bound, so a bound that grew would let a merge of a leaf promise what
/// only the entry holds.
fn settle(mut latched: Latched<'_, '_>, epoch: u64) {
    if latched.content.records.is_none() {
        latched.node.set_oldest(NONE);
    }
    latched.content.epoch = epoch;
}
