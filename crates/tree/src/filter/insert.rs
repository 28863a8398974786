//! Cooperative batch insertion (ZKV 3.3): writers that come along each take a batch of the array and move it into the leaves, run
//! by run: one walk, one latch and one look at the buffer for all records of a batch that belong to one leaf.
//!
//! A run of any length goes into the leaf's buffer; one that makes it too large is merged at once, as after a put. The pool
//! merges the fullest buffers first, so a long run is the next to go anyway.

use std::sync::Arc;

use zonda_pages::PageId;
use zonda_rt::{Spin, atomic::Ordering, spin_wait};

use super::{Around, Batch, Filter};
use crate::{
    record::Record,
    tree::{Result, Tree},
    waits::Cause,
    write::Applied,
};

/// Evictions after which an emptying filter is left to writers that fill it again: each takes about a quarter of what is there, so
/// a filter of any size is empty after fewer.
const EMPTYING_ROUNDS: u32 = 256;

impl Tree {
    /// What the filter needs to know of the tree.
    pub(crate) fn around(&self) -> Around<'_> {
        Around { epoch: &self.epoch, snapshots: &self.snapshots }
    }

    /// What a writer does for the filter before its record is logged: inserts one batch if there is an array, else evicts if that is
    /// due. While the filter is far over its share it does more of both. No latch, no stripe may be held.
    ///
    /// # Errors
    /// Those of merging: the array is whole, and the write was not begun.
    pub(crate) fn serve_filter(&self) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        if !self.insert_batch(filter)? && filter.is_due() {
            self.evict_from(filter);
        }
        if filter.is_full() { self.waits.during(Cause::Filter, || self.drain(filter)) } else { Ok(()) }
    }

    /// Serves a filter that is far over its share until it is not.
    fn drain(&self, filter: &Filter) -> Result<()> {
        let mut spin = Spin::new();
        while filter.is_full() {
            // Others have the last batches, or evict: they go on without us.
            if !self.insert_batch(filter)? && !self.evict_from(filter) {
                spin_wait(&mut spin);
            }
        }
        Ok(())
    }

    fn evict_from(&self, filter: &Filter) -> bool {
        filter.evict(self.around())
    }

    /// Moves everything in filter and array into the leaves, unless writers fill it faster. No latch, no stripe may be held.
    ///
    /// # Errors
    /// Those of merging.
    pub(crate) fn empty_filter(&self) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let (mut spin, mut rounds) = (Spin::new(), 0);
        while !filter.is_empty() && rounds < EMPTYING_ROUNDS {
            while self.insert_batch(filter)? {}
            rounds += 1;
            if !self.evict_from(filter) && !filter.is_empty() {
                spin_wait(&mut spin);
            }
        }
        while self.insert_batch(filter)? {}
        Ok(())
    }

    /// Inserts a batch that nobody has claimed; `false`: there is none.
    ///
    /// # Errors
    /// Those of merging the leaves that grew too large; the batch is in the leaves all the same.
    fn insert_batch(&self, filter: &Filter) -> Result<bool> {
        let Some(array) = filter.array.share(&self.epoch.pin()) else { return Ok(false) };
        let Some(batch) = array.claim() else { return Ok(false) };
        let (overfull, brought_in) = self.insert(batch);
        if array.finish() {
            filter.take_array_out(self.around());
        }
        drop::<Arc<_>>(array);
        brought_in?;
        overfull.into_iter().try_for_each(|id| self.relieve(id))?;
        self.make_buffer_room()?;
        Ok(true)
    }

    /// Puts all records of a batch into buffers: that never fails. Returns leaves that grew too large, and what came of bringing pages in.
    fn insert(&self, batch: &Batch) -> (Vec<PageId>, Result<()>) {
        let (mut overfull, mut brought_in) = (Vec::new(), Ok(()));
        let mut lower = 0;
        while lower < batch.records.slots().len() {
            brought_in = brought_in.and_then(|()| self.bring_in(batch.records.slots().key(lower)));
            let (upper, applied) = self.apply_run(batch, lower);
            self.counters.filter_runs.fetch_add(1, Ordering::Relaxed);
            self.counters.filter_pairs.fetch_add((upper - lower) as u64, Ordering::Relaxed);
            lower = upper;
            if let Applied::Overfull(id, _) = applied {
                overfull.push(id);
            }
        }
        (overfull, brought_in)
    }

    /// Puts the records from `lower` on that belong to one leaf into its buffer; returns the index behind them.
    fn apply_run(&self, batch: &Batch, lower: usize) -> (usize, Applied) {
        let slots = batch.records.slots();
        let guard = self.epoch.pin();
        loop {
            let path = self.index.find(slots.key(lower), &guard);
            let mut leaf = self.table.lock(path.leaf());
            if !path.is_current() {
                continue;
            }
            let upper = match path.high() {
                _ if !self.options.batch_runs => lower + 1,
                None => slots.len(),
                Some(high) => batch.records.at_or_above(&high),
            };
            let run = slots.iter().skip(lower).take(upper - lower);
            return (upper, self.apply_latched(&mut leaf, &path, run, batch.newest));
        }
    }

    /// Puts a logged record into the filter; a value pointer that it overwrites there dies (*references*).
    pub(crate) fn filter_record(&self, filter: &Filter, record: &Record<'_>, numbers: &std::ops::RangeInclusive<u64>) {
        filter.upsert(record, numbers, self.around(), &mut |old| self.note_overwritten(&old, record));
    }
}
