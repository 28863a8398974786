//! Merging buffers into pages, and the splits and disappearances of leaves that follow.
//!
//! Cost of a merge: one leaf read (often from a cache), one or two page writes, which leave in groups. The page is read with no
//! latch held; then the leaf is latched, and if it moved meanwhile the merge is given up and tried again.

use zonda_pages::{Heat, PageAddress, PageError, PageId};
use zonda_rt::atomic::Ordering;

use crate::{
    TreeError,
    buffer::Buffer,
    index::{LeafEntry, Path, Side},
    leaf_page::LeafPage,
    leaf_table::{Exclusive, Location},
    merge::{FullKeys, Plan, plan},
    metalog::{MetaRecord, Upsert},
    mini_page::Hot,
    pool::{memory::Demand, ring::Claim},
    relocate::is_damage,
    stats::count,
    tree::{Placed, Result, Tree, is_no_space},
    values::ValuePointer,
};

/// Tries of an eviction before somebody else's progress is waited for.
const EVICT_TRIES: usize = 16;
/// Tries to merge one leaf while others interfere.
const FLUSH_TRIES: usize = 256;
/// The same while the log is replayed: nobody interferes, so a store that has no room now has none a moment later.
const FLUSH_TRIES_RECOVERING: usize = 4;
/// Tries to merge one leaf for the space that this gives back: no zone is waited for.
const FLUSH_TRIES_FOR_SPACE: usize = 8;
/// A merge may be what frees space: it waits for zones, but is not refused by a full store.
pub(crate) const FOR_A_MERGE: u32 = 0;

/// What a merge puts into pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged {
    /// Highest sequence number of the merged records.
    pub(crate) sequence: u64,
    /// Every operation below it on the leaf is in the pages now; 0: unknown.
    pub(crate) to: u64,
}

impl Merged {
    /// Nothing was merged.
    pub(crate) const UNKNOWN: Self = Self { sequence: 0, to: 0 };
}

/// How a merge is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// Which zone the pages go to.
    pub(crate) heat: Heat,
    /// What was used of a mini-page stays in memory, clean.
    pub(crate) keeps_hot: bool,
}

impl Merge {
    /// By a writer.
    pub(crate) const HOT: Self = Self { heat: Heat::Hot, keeps_hot: true };
    /// Likewise, to have the memory.
    pub(crate) const EVICTING: Self = Self { heat: Heat::Hot, keeps_hot: false };
    /// By whoever makes room on the device.
    pub(crate) const RELOCATING: Self = Self { heat: Heat::Relocated, keeps_hot: true };
}

/// What became of an attempt to merge a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Its buffer is in its page(s) now.
    Done,
    /// Its buffer was clean, and is gone.
    Dropped,
    /// It has no buffer, or not the one that was asked for.
    Nothing,
    /// It is latched by somebody, or changed while its page was read.
    Raced,
}

/// A key of a leaf and the page it had, taken under a shared latch.
struct Glimpse {
    key: Vec<u8>,
    page: Option<PageAddress>,
    /// Where the mini-page is that is to be merged, and no other one of the leaf.
    claimed: Option<usize>,
}

impl Glimpse {
    fn is_of(&self, buffer: &Buffer) -> bool {
        self.claimed.is_none_or(|address| address == buffer.memory_at().addr().get())
    }
}

impl Tree {
    /// Makes room: merges the buffer of a victim, or drops it if it is clean. Returns whether it did; else others are in
    /// the way, or no zone can be had just now. No latch may be held.
    ///
    /// # Errors
    /// `NoSpace`, those of the device. `Damaged` if there is nothing but buffers of leaves whose pages are damaged: else it is for who
    /// reads those pages to hear of it.
    pub(crate) fn evict(&self) -> Result<bool> {
        if let Some(ring) = self.pool.ring() {
            return self.evict_mini_page(ring);
        }
        if self.pool.sparse().is_some_and(|leaves| self.gather(&leaves)) {
            return Ok(true);
        }
        let (mut tries, mut damage) = (0, None);
        while tries < EVICT_TRIES {
            let Some(id) = self.pool.victim(&self.table) else {
                self.pool.forget_aside();
                return damage.map_or(Ok(false), Err);
            };
            match self.try_flush(id, true) {
                Err(error) if is_damage(&error) => {
                    self.pool.set_aside(id);
                    damage = Some(error);
                }
                Ok(Flushed::Done | Flushed::Dropped) => {
                    self.pool.gave_up();
                    return Ok(true);
                }
                // What is clean needs no space to go.
                Err(error) if is_no_space(&error) => {
                    return if (0..EVICT_TRIES).any(|_| self.drop_clean_buffer()) { Ok(true) } else { Err(error) };
                }
                raced => {
                    raced?;
                    tries += 1;
                }
            }
        }
        zonda_rt::yield_now();
        Ok(false)
    }

    /// Makes the buffers of `leaves` anew, so that the memory where few are left becomes free: that costs copies of a few hundred bytes
    /// where a merge costs a page. Returns whether all could be had.
    fn gather(&self, leaves: &[PageId]) -> bool {
        let moved = |&id: &PageId| {
            let Some(mut leaf) = self.table.try_lock(id) else { return false };
            let Some(buffer) = leaf.location().buffer() else { return true };
            let owner = self.owner(id, buffer.slots().used_bytes());
            let copy = buffer.copied(self.pool.memory(), owner, Demand::Must);
            if copy.class() == buffer.class() {
                // It keeps its age.
                drop(leaf.replace(Location::Buffered(copy)));
            } else {
                self.relocate_leaf(&mut leaf, Location::Buffered(copy));
            }
            true
        };
        leaves.iter().filter(|id| moved(id)).count() == leaves.len()
    }

    /// Merges leaf `id` if it has a buffer, retrying while others interfere, but not for ever.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn flush_leaf(&self, id: PageId) -> Result<Flushed> {
        let recovering = self.recovering.load(Ordering::Acquire);
        let tries = if recovering { FLUSH_TRIES_RECOVERING } else { FLUSH_TRIES };
        self.while_raced(tries, || self.try_flush(id, false))
    }

    /// The same for what it gives back, where writers find no zone: it waits for none, and takes one of those that they leave to reclaim.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn flush_leaf_for_space(&self, id: PageId) -> Result<Flushed> {
        self.while_raced(FLUSH_TRIES_FOR_SPACE, || self.try_flush_now(id, Merge::RELOCATING))
    }

    fn while_raced(&self, tries: usize, mut attempt: impl FnMut() -> Result<Flushed>) -> Result<Flushed> {
        let mut spin = zonda_rt::Spin::new();
        for _ in 0..tries {
            let flushed = attempt()?;
            if flushed != Flushed::Raced {
                return Ok(flushed);
            }
            zonda_rt::spin_wait(&mut spin);
        }
        Ok(Flushed::Raced)
    }

    /// One attempt to merge leaf `id`, which waits for zones. No latch and no stripe may be held.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn try_flush(&self, id: PageId, evict: bool) -> Result<Flushed> {
        self.admit(FOR_A_MERGE)?;
        self.try_flush_now(id, if evict { Merge::EVICTING } else { Merge::HOT })
    }

    /// One attempt to merge leaf `id` that waits for nobody. No latch may be held.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    pub(crate) fn try_flush_now(&self, id: PageId, how: Merge) -> Result<Flushed> {
        self.pump_after(self.merge_once(id, how, None))
    }

    /// The same without writing anything, if the leaf still has the mini-page that is claimed. [`pump_after`](Self::pump_after) follows.
    ///
    /// # Errors
    /// As there, and `Busy`.
    pub(crate) fn merge_once(&self, id: PageId, how: Merge, claim: Option<&Claim<'_>>) -> Result<Flushed> {
        let glimpse = self.glimpse(id, claim.map(Claim::address));
        glimpse.map_or(Ok(Flushed::Nothing), |glimpse| self.flush_glimpsed(id, &glimpse, how))
    }

    /// Writes page groups after a merge, as far as they are due.
    ///
    /// # Errors
    /// Those of the merge, but `Busy`; those of the device.
    pub(crate) fn pump_after(&self, merged: Result<Flushed>) -> Result<Flushed> {
        match merged {
            Err(TreeError::Store(error)) if matches!(*error, PageError::Busy) => {
                self.pump()?;
                Ok(Flushed::Raced)
            }
            Ok(flushed @ (Flushed::Done | Flushed::Dropped)) => self.pump().map(|()| flushed),
            // Whoever comes next is to find the zone that was missing, if there is one by then.
            Err(error) if is_no_space(&error) => self.pump().and(Err(error)),
            outcome => outcome,
        }
    }

    fn glimpse(&self, id: PageId, claimed: Option<usize>) -> Option<Glimpse> {
        let leaf = self.table.lock_shared(id);
        let buffer = leaf.location().buffer()?;
        let suffix = if buffer.slots().len() > 0 { buffer.slots().key(0) } else { &[] };
        let glimpse = Glimpse { key: [buffer.prefix(), suffix].concat(), page: buffer.page(), claimed };
        glimpse.is_of(buffer).then_some(glimpse)
    }

    fn flush_glimpsed(&self, id: PageId, glimpse: &Glimpse, how: Merge) -> Result<Flushed> {
        let guard = self.epoch.pin();
        let body = match self.needs_page(id, glimpse) {
            None => return Ok(Flushed::Raced),
            Some(false) => None,
            Some(true) => self.read_body(id, glimpse.page)?,
        };
        let path = self.index.find(&glimpse.key, &guard);
        let Some(mut leaf) = self.table.try_lock(id) else { return Ok(Flushed::Raced) };
        // One that was copied to the tail meanwhile was used: it stays.
        let Some(buffer) = leaf.location().buffer().filter(|buffer| glimpse.is_of(buffer)) else {
            return Ok(Flushed::Nothing);
        };
        let lacks_page = !buffer.is_complete() && body.is_none() && buffer.page().is_some();
        if path.leaf() != id || !path.is_current() || buffer.page() != glimpse.page || lacks_page {
            return Ok(Flushed::Raced);
        }
        if !how.keeps_hot && !buffer.is_dirty() {
            self.drop_if_clean(&mut leaf);
            return Ok(Flushed::Dropped);
        }
        if buffer.is_mini_page() && !buffer.is_dirty() {
            return Ok(Flushed::Nothing);
        }
        // A mirror by now: what the page has is in it, and values that died there have been released.
        let body = body.filter(|_| !buffer.is_complete());
        self.merge_latched(&mut leaf, &path, body.as_deref(), how)?;
        let emptied = leaf.location().page().is_none() && leaf.location().buffer().is_none();
        drop(leaf);
        if emptied {
            self.remove_empty(id, &glimpse.key);
        } else {
            self.note_if_sparse(id, &glimpse.key);
        }
        Ok(Flushed::Done)
    }

    /// Whether a merge must read the leaf's page; `None` if the leaf has another one by now. Under the epoch guard under
    /// which it is read: an address that is current then cannot be reused before the guard is gone.
    fn needs_page(&self, id: PageId, glimpse: &Glimpse) -> Option<bool> {
        let leaf = self.table.lock_shared(id);
        let buffer = leaf.location().buffer()?;
        (buffer.page() == glimpse.page).then(|| !buffer.is_complete())
    }

    /// Merges the buffer of a latched leaf into `body`, its page (`None`: it has none, or the buffer mirrors it), and links the
    /// result. Memory only, as far as placing is.
    ///
    /// # Errors
    /// `Busy`, `NoSpace`: nothing changed. `Damaged`.
    pub(crate) fn merge_latched(
        &self,
        leaf: &mut Exclusive<'_>,
        path: &Path<'_>,
        body: Option<&[u8]>,
        how: Merge,
    ) -> Result<()> {
        let (low, high) = (path.low(), path.high());
        let plan = self.plan_latched(leaf, body, &low, high.as_deref())?;
        self.carry_out(leaf, (&low, high.as_deref()), &plan, how)
    }

    /// Places and links a plan made under the same latch.
    ///
    /// # Errors
    /// `Busy`, `NoSpace`: nothing changed.
    pub(crate) fn carry_out(
        &self,
        leaf: &mut Exclusive<'_>,
        range: (&[u8], Option<&[u8]>),
        plan: &Plan,
        how: Merge,
    ) -> Result<()> {
        let hot = if how.keeps_hot { self.hot_of(leaf) } else { Hot::default() };
        let merged = self.merged_now(leaf.location().buffer().map_or(0, Buffer::sequence), range);
        let mut placed = self.place(how.heat, leaf.id(), merged.sequence, &plan.pages)?;
        self.note_merged(leaf);
        self.link(leaf, plan, &mut placed, (range.0, merged));
        self.keep_hot(leaf, &mut placed, plan, &hot);
        drop(placed);
        count(&self.counters.merges);
        plan.pages.first().inspect(|page| self.note_record_bytes(page));
        self.hold_memory();
        plan.dead_pointers.iter().for_each(|dead| self.release_pointer(dead.key_bytes, &dead.old, dead.new.as_deref()));
        Ok(())
    }

    /// What a merge of records up to `sequence` puts into the pages of a range. Under the latches of the merged leaves: an operation
    /// below the low water was applied before, hence is in their buffers, unless filter or array still have it (*merged below*).
    /// Not so while recovery replays the log.
    pub(crate) fn merged_now(&self, sequence: u64, (low, high): (&[u8], Option<&[u8]>)) -> Merged {
        if self.recovering.load(Ordering::Acquire) {
            return Merged { sequence, to: 0 };
        }
        let low_water = self.log.low_water();
        let above = self.filter.as_ref().map(|filter| filter.oldest(low, high, &self.epoch.pin()));
        Merged { sequence, to: above.map_or(low_water, |oldest| oldest.min(low_water)) }
    }

    pub(crate) fn plan_latched(
        &self,
        leaf: &Exclusive<'_>,
        body: Option<&[u8]>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<Plan> {
        let page = body.map(LeafPage::decode).transpose()?;
        let frame = self.frame(low, high);
        let Some(buffer) = leaf.location().buffer() else {
            return plan(frame, page, std::iter::empty());
        };
        let keys = FullKeys::of(buffer.prefix(), buffer.pending_records());
        plan(frame, page, keys.join(buffer.pending_records()))
    }

    /// Gives a latched leaf the placed pages of `plan`: records the change, makes new leaves reachable, releases the old
    /// page.
    fn link(&self, leaf: &mut Exclusive<'_>, plan: &Plan, placed: &mut Placed<'_>, (low, merged): (&[u8], Merged)) {
        let old = leaf.location().page();
        let id = leaf.id();
        for ((id, _), page) in placed.iter().zip(&plan.pages) {
            self.table.set_fill_bytes(id, page.body.len(), self.body_bytes());
        }
        match (placed.first(), placed.len()) {
            (None, _) => {
                self.record_restructure(&[], &[Upsert { id, low_key: low, address: None }], merged);
                self.relocate_leaf(leaf, Location::Empty);
            }
            (Some(address), 1) => {
                self.meta.append(&MetaRecord::Move { id, address, merged_to: merged.to }, merged.sequence);
                self.record_if_sparse(id);
                self.relocate_leaf(leaf, Location::Page(address));
            }
            (Some(address), _) => {
                self.split(low, plan, placed, merged);
                self.relocate_leaf(leaf, Location::Page(address));
            }
        }
        if let Some(old) = old {
            self.store.release(old);
        }
    }

    /// Records and links new leaves. The record comes first: once a leaf is reachable its own records may follow.
    fn split(&self, low: &[u8], plan: &Plan, placed: &mut Placed<'_>, merged: Merged) {
        let upserts: Vec<Upsert<'_>> = plan
            .pages
            .iter()
            .zip(placed.iter())
            .map(|(page, (id, address))| Upsert { id, low_key: &page.low, address: Some(address) })
            .collect();
        let entries: Vec<LeafEntry> = upserts.iter().map(|upsert| (upsert.low_key.to_vec(), upsert.id)).collect();
        self.record_restructure(&[], &upserts, merged);
        placed.settle_fresh();
        let edited = self.index.edit(low, &[entries[0].1], &entries, &self.epoch);
        assert!(edited, "a latched leaf keeps its place under its parent");
        let made = entries.len() as u64 - 1;
        self.counters.splits.fetch_add(made, Ordering::Relaxed);
        self.leaves.fetch_add(u32::try_from(made).expect("a plan has few pages"), Ordering::Relaxed);
    }

    /// Takes a leaf without records out of the tree; its range goes to a neighbour, and inner nodes go with their last leaf. Gives up
    /// quietly if somebody is in the way: an empty leaf does no harm.
    pub(crate) fn remove_empty_now(&self, id: PageId, key: &[u8]) {
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        // While the log is replayed ranges must not grow: what a page holds is told by leaf.
        if path.leaf() != id || self.recovering.load(Ordering::Acquire) {
            return;
        }
        let Some((beside, side)) = self.index.beside(&path, &guard) else { return };
        let (left, right) = if side == Side::Left { (&beside, &path) } else { (&path, &beside) };
        let Some(left_leaf) = self.table.try_lock(left.leaf()) else { return };
        let Some(right_leaf) = self.table.try_lock(right.leaf()) else { return };
        let (empty, survivor) = if side == Side::Left { (&right_leaf, &left_leaf) } else { (&left_leaf, &right_leaf) };
        if !left.is_current() || !right.is_current() || !matches!(empty.location(), Location::Empty) {
            return;
        }
        let pair_low = left.low();
        self.before_change(&left_leaf, left);
        self.before_change(&right_leaf, right);
        let upsert = Upsert { id: survivor.id(), low_key: &pair_low, address: survivor.location().page() };
        let widened = [(pair_low.clone(), survivor.id())];
        let record = &mut || {
            self.record_restructure(&[id], &[upsert], Merged::UNKNOWN);
            if upsert.address.is_some() {
                self.record_if_sparse(survivor.id());
            }
        };
        let is_done = if std::ptr::eq(left.parent().0, right.parent().0) {
            let pair = [left_leaf.id(), right_leaf.id()];
            self.index.edit_after(&pair_low, (&pair, &widened), &self.epoch, record)
        } else {
            self.index.unite(&path, &beside, &self.epoch, record)
        };
        if !is_done {
            return;
        }
        self.retire_ids([id]);
        count(&self.counters.leaf_merges);
        self.leaves.fetch_sub(1, Ordering::Relaxed);
        self.gather_around(survivor.id(), &pair_low);
    }

    /// Records a split or merge; once, before it can be seen.
    pub(crate) fn record_restructure(&self, removed: &[PageId], upserts: &[Upsert<'_>], merged: Merged) {
        let (removed, upserts) = (removed.into(), upserts.into());
        self.meta.append(&MetaRecord::Restructure { removed, upserts, merged_to: merged.to }, merged.sequence);
    }

    /// Encoded pointer `old` is replaced: the segments that its successor does not share are not referred to any more.
    pub(crate) fn release_pointer(&self, key_bytes: usize, old: &[u8], new: Option<&[u8]>) {
        let new = new.and_then(|new| ValuePointer::decode(new).ok());
        match (ValuePointer::decode(old), new) {
            (Ok(old), Some(new)) => self.values.release_replaced(key_bytes, &old, &new),
            (Ok(old), None) => self.values.release(key_bytes, &old),
            (Err(_), _) => {}
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use zonda_pages::PageStore;

    use super::*;
    use crate::{
        BufferClasses, Durability, Eviction, TreeOptions, recover,
        testing::{MemOptions, MemStore},
    };

    const KEYS: u64 = 20_000;
    /// Instances of the pool where the oldest goes.
    const INSTANCES: u32 = 32;

    fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// ZKV 3.3: the oldest goes first. A buffer that was moved so that a slab comes free is as old as before.
    #[test]
    fn a_buffer_that_moves_keeps_its_age() {
        let store = MemStore::new(MemOptions::default()) as Arc<dyn PageStore>;
        let options =
            TreeOptions { classes: BufferClasses::Paper, eviction: Eviction::Oldest, ..TreeOptions::default() };
        let tree = recover::create(store, options).expect("an empty store");
        for number in 0..KEYS {
            tree.put(&key(number), &[1; 16], Durability::Buffered).expect("room");
        }
        tree.compact(&mut |_, _| {}).expect("room");
        let keys: BTreeMap<u32, u64> = (0..KEYS).map(|number| (tree.leaf_of(&key(number)).0.0, number)).collect();
        // Two leaves of one instance.
        let pair = |id: &u32| keys.contains_key(&(id + INSTANCES)).then_some([*id, id + INSTANCES]);
        let [older, younger] = keys.keys().find_map(pair).expect("there are many leaves");
        for id in [older, younger] {
            tree.put(&key(keys[&id]), &[2; 16], Durability::Buffered).expect("room");
        }
        for _ in 0..200 {
            assert!(tree.gather(&[PageId(older)]));
        }
        assert_eq!(tree.pool.victim(&tree.table), Some(PageId(older)));
        assert_eq!(tree.pool.victim(&tree.table), Some(PageId(younger)));
    }
}
