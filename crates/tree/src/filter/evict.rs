//! Eviction: the coldest nodes become the batch array (ZKV 3.2).
//!
//! Cost: one walk over all nodes without latches, a heap of those to go, and the latches of these until the array is published;
//! memory only. Whoever finds another eviction going on, or an array that is not inserted yet, goes on with its write.

use std::{collections::BinaryHeap, sync::Arc};

use zonda_pages::PageId;
use zonda_rt::{atomic::Ordering, epoch::Guard};

use super::{Around, Batch, BatchArray, Filter, Latched, NONE};

/// Of how many nodes one leaves.
const LEAVING_ONE_IN: u64 = 4;

impl Filter {
    /// Moves the coldest quarter of the nodes to the array, if there is none and nobody else does. Returns whether it did.
    pub(crate) fn evict(&self, around: Around<'_>) -> bool {
        let Some(_evicting) = self.evicting.try_lock() else { return false };
        if !self.array.is_empty() {
            return false;
        }
        let guard = around.epoch.pin();
        let mut leaving = self.latch_all(self.coldest(&guard), &guard);
        leaving.iter().for_each(|leaving| leaving.keep(around.snapshots));
        let batches: Vec<Batch> = leaving.iter_mut().map(|leaving| self.take_out(leaving)).collect();
        if batches.is_empty() {
            return false;
        }
        let epoch = around.snapshots.epoch();
        let array = BatchArray::new(batches);
        self.array_bytes.store(array.memory_bytes(), Ordering::Relaxed);
        self.array.publish(Arc::new(array));
        // *down*: published. Only now may the nodes say that they hold nothing, and their latches go.
        for mut leaving in leaving {
            leaving.node.set_oldest(NONE);
            leaving.content.epoch = epoch;
        }
        self.evictions.fetch_add(1, Ordering::Relaxed);
        true
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

    /// Takes a latched node's records: shadow deletion.
    fn take_out(&self, leaving: &mut Latched<'_, '_>) -> Batch {
        let records = leaving.content.records.take().expect("only nodes with records were latched");
        self.charge(records.memory_bytes(), 0);
        self.valid_nodes.fetch_sub(1, Ordering::SeqCst);
        Batch { records, oldest: leaving.node.oldest(), newest: leaving.content.newest }
    }
}
