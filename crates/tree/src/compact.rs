//! Compaction: empties the filter, merges all buffers and joins underfull neighbours.
//!
//! A few neighbours under one parent at a time: their pages are read with no latch held; then the leaves are latched, and if one of them
//! has another page by now, the group is tried again.

use std::cmp::Reverse;

use zonda_pages::{Heat, PageAddress, PageError, PageId};
use zonda_rt::atomic::Ordering;

use crate::{
    TreeError,
    buffer::Buffer,
    flush::{FOR_A_MERGE, Merged},
    index::{LeafEntry, Path},
    leaf_page::LeafPage,
    leaf_table::{Exclusive, Location},
    log::can_go_on,
    merge::{DeadPointer, Frame, FullKeys, Plan, check_records, live, overlay, plan_records},
    metalog::Upsert,
    record::Record,
    relocate::is_damage,
    tree::{Placed, Result, Tree, is_no_space},
};

/// Neighbours that are joined at once at most.
pub(crate) const NEIGHBOURS_MAX: usize = 8;
/// Tries of one group before it is left as it is.
const TRIES: usize = 64;

/// How far the pages of joined leaves are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// But for a twentieth, for stores that are read from then on.
    Close,
    /// To three quarters, about as far as splits leave them: a leaf that is written to again does not split at once.
    Loose,
    /// As `Close`, for stores that are full: one page that is given back is worth that as many as can be joined are written anew.
    Tight,
}

impl Fill {
    fn of(self, body_bytes: usize) -> usize {
        match self {
            Self::Close | Self::Tight => body_bytes * 19 / 20,
            Self::Loose => body_bytes * 3 / 4,
        }
    }

    /// Leaves that may be joined for each page that is given back.
    fn leaves_per_page_max(self) -> usize {
        match self {
            Self::Close | Self::Loose => 4,
            Self::Tight => NEIGHBOURS_MAX,
        }
    }
}

/// Where compaction goes on after a group of leaves.
enum Next {
    /// Behind it.
    Behind,
    /// At its own last leaf, which begins there and may have room.
    At(Vec<u8>),
}

/// A group of latched neighbours.
struct Group<'t> {
    leaves: Vec<Exclusive<'t>>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// The page of a leaf that is not latched.
struct Glimpse {
    page: Option<PageAddress>,
    /// `None` if there was no page, or the buffer mirrored it.
    body: Option<Vec<u8>>,
}

impl Glimpse {
    /// The body, if it is what the leaf, which is latched now, has on its page. `None` inside: the leaf has no page, or its buffer is a
    /// mirror by now: what the page has is in it, and values that died there have been released.
    fn body_of(self, leaf: &Exclusive<'_>) -> Option<Option<Vec<u8>>> {
        let is_mirror = is_mirrored(leaf.location());
        let lacks_page = !is_mirror && self.body.is_none() && self.page.is_some();
        let is_same = leaf.location().page() == self.page && !lacks_page;
        is_same.then(|| self.body.filter(|_| !is_mirror))
    }
}

impl Tree {
    /// Merges all buffers and joins underfull leaves, in key order. `progress` hears of leaves done and in all.
    ///
    /// # Errors
    /// `NoSpace`, those of the device. Leaves that cannot be read, or have no room for what waits above them, are left as they are, and all
    /// others are compacted before that is told; damage is told rather than want of room.
    pub(crate) fn compact(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.check_writable()?;
        let mut done = 0;
        let mut report = |leaves: u64| {
            done += leaves;
            progress(done, done.max(2 * u64::from(self.leaves.load(Ordering::Relaxed))));
        };
        let mut left = Ok(());
        match self.compact_all(&mut report, &mut left) {
            // The tree has stopped, which matters more than a leaf.
            Err(error) if !can_go_on(&error) && !is_damage(&error) => Err(error),
            done => left.and(done),
        }
    }

    /// As [`compact`](Self::compact); puts into `left` what is damaged.
    fn compact_all(&self, report: &mut dyn FnMut(u64), left: &mut Result<()>) -> Result<()> {
        // Merges and joins below may give what it wants.
        let mut wants_room = Ok(());
        leave(self.empty_filter(), is_damage, left).or_else(|error| leave(Err(error), is_no_space, &mut wants_room))?;
        self.merge_each(report, left)?;
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            let (leaves, after) = match self.compact_group(&key, Fill::Close) {
                // The leaf with its neighbours; the next one is tried with those that follow.
                Err(error) if is_damage(&error) => {
                    leave(Err(error), is_damage, left)?;
                    (1, self.index.find(&key, &self.epoch.pin()).high())
                }
                group => group?,
            };
            next = after;
            report(leaves);
        }
        self.flush_meta()?;
        self.reclaim_garbage()?;
        if wants_room.is_err() {
            leave(self.empty_filter(), is_damage, left)?;
            self.merge_each(report, left)?;
            self.flush_meta()?;
        }
        Ok(())
    }

    /// Merges all buffers, so that the sizes of leaves are known when neighbours are joined; puts into `left` what is damaged.
    ///
    /// # Errors
    /// `NoSpace`, those of the device.
    fn merge_each(&self, report: &mut dyn FnMut(u64), left: &mut Result<()>) -> Result<()> {
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            let leaf = {
                let guard = self.epoch.pin();
                let path = self.index.find(&key, &guard);
                next = path.high();
                path.leaf()
            };
            // One that others keep busy is left to them.
            leave(self.flush_leaf(leaf).map(drop), is_damage, left)?;
            report(1);
        }
        Ok(())
    }

    /// Merges all buffers.
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(crate) fn merge_all(&self, report: &mut dyn FnMut(u64)) -> Result<()> {
        let mut left = Ok(());
        let done = self.merge_each(report, &mut left);
        left.and(done)
    }

    /// Compacts the group that begins with the leaf of `key`; returns its leaves and where the next group begins.
    pub(crate) fn compact_group(&self, key: &[u8], fill: Fill) -> Result<(u64, Option<Vec<u8>>)> {
        let mut spin = zonda_rt::Spin::new();
        for _ in 0..TRIES {
            self.admit(FOR_A_MERGE)?;
            match self.try_group(key, fill) {
                Ok(Some(done)) => return self.pump().map(|()| done),
                Ok(None) => zonda_rt::spin_wait(&mut spin),
                Err(TreeError::Store(error)) if matches!(*error, PageError::Busy) => self.pump()?,
                Err(error) => return Err(error),
            }
        }
        let guard = self.epoch.pin();
        Ok((1, self.index.find(key, &guard).high()))
    }

    fn try_group(&self, key: &[u8], fill: Fill) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        let glimpses = self.glimpse_group(&path)?;
        let Some((mut group, bodies)) = self.latch_group(&path, glimpses) else { return Ok(None) };
        let count = self.group_that_joins(&mut group, (&path, &bodies), fill);
        let room = fill.of(self.body_bytes());
        let Some(next) = self.join(&mut group, &bodies[..count], room)? else { return Ok(None) };
        // The last of the leaves that are left may have room for its next neighbours too: it is looked at again.
        let low = if let Next::At(low) = next { Some(low) } else { group.high.clone() };
        Ok(Some((count as u64, low)))
    }

    /// Reads the pages of the leaf of `path` and of those to its right under the same parent.
    fn glimpse_group(&self, path: &Path<'_>) -> Result<Vec<Glimpse>> {
        let (parent, first) = path.parent();
        let last = (first + NEIGHBOURS_MAX).min(parent.len());
        (first..last).map(|child| self.glimpse_page(parent.leaf(child))).collect()
    }

    /// Under an epoch guard: an address that is current then cannot be reused before the guard is gone.
    fn glimpse_page(&self, id: PageId) -> Result<Glimpse> {
        let (page, is_mirror) = {
            let leaf = self.table.lock_shared(id);
            (leaf.location().page(), is_mirrored(leaf.location()))
        };
        let body = if is_mirror { None } else { self.read_body(id, page)? };
        Ok(Glimpse { page, body })
    }

    /// Latches the leaves that were glimpsed, if they and their parent are what they were then.
    fn latch_group<'t>(&'t self, path: &Path<'_>, glimpses: Vec<Glimpse>) -> Option<(Group<'t>, Vec<Option<Vec<u8>>>)> {
        let (parent, first) = path.parent();
        let last = first + glimpses.len();
        let leaves: Option<Vec<_>> = (first..last).map(|child| self.table.try_lock(parent.leaf(child))).collect();
        let group = Group { leaves: leaves?, low: path.low(), high: path.at_child(last - 1).high() };
        if !path.is_current() {
            return None;
        }
        let bodies: Option<Vec<_>> =
            group.leaves.iter().zip(glimpses).map(|(leaf, glimpse)| glimpse.body_of(leaf)).collect();
        bodies.map(|bodies| (group, bodies))
    }

    /// Cuts the group to the leading leaves that are worth joining; to the first if none are.
    fn group_that_joins(
        &self,
        group: &mut Group<'_>,
        (path, bodies): (&Path<'_>, &[Option<Vec<u8>>]),
        fill: Fill,
    ) -> usize {
        let (_, first) = path.parent();
        let bytes =
            group.leaves.iter().zip(bodies).map(|(leaf, body)| {
                body.as_ref().map_or(0, Vec::len) + leaf.location().buffer().map_or(0, pending_bytes)
            });
        let count = best_group(bytes, fill, self.body_bytes());
        group.leaves.truncate(count);
        group.high = path.at_child(first + count - 1).high();
        for (at, leaf) in group.leaves.iter().enumerate().filter(|_| count > 1) {
            self.before_change(leaf, &path.at_child(first + at));
        }
        count
    }

    /// Makes the group's leaves fewer, if they fit fewer pages, and merges what waits for one. `None`, and nothing was done: a split
    /// beside them gave them two parents meanwhile.
    fn join(&self, group: &mut Group<'_>, bodies: &[Option<Vec<u8>>], room: usize) -> Result<Option<Next>> {
        let count = group.leaves.len();
        let clean = group.leaves.iter().all(|leaf| leaf.location().buffer().is_none_or(|buffer| !buffer.is_dirty()));
        if clean && count == 1 {
            return Ok(Some(Next::Behind));
        }
        let sequence = group.leaves.iter().filter_map(|leaf| leaf.location().buffer()).map(Buffer::sequence).max();
        let plan = self.plan_group(group, bodies, room)?;
        let gains = plan.pages.len() < count;
        if clean && !gains {
            return Ok(Some(Next::Behind));
        }
        let merged = self.merged_now(sequence.unwrap_or(0), (&group.low, group.high.as_deref()));
        let placed = self.place(Heat::Cold, group.leaves[0].id(), merged.sequence, &plan.pages)?;
        group.leaves.iter().for_each(|leaf| self.note_merged(leaf));
        if !self.link_group(group, &plan, placed, merged) {
            return Ok(None);
        }
        plan.dead_pointers.iter().for_each(|dead| self.release_pointer(dead.key_bytes, &dead.old, dead.new.as_deref()));
        let low = plan.pages.last().map_or_else(|| group.low.clone(), |page| page.low.clone());
        Ok(Some(if gains { Next::At(low) } else { Next::Behind }))
    }

    fn plan_group(&self, group: &Group<'_>, bodies: &[Option<Vec<u8>>], room: usize) -> Result<Plan> {
        let mut sources = Vec::new();
        for (leaf, body) in group.leaves.iter().zip(bodies) {
            let page = body.as_deref().map(LeafPage::decode).transpose()?;
            let page = page.map(|page| (FullKeys::new(page.prefix(), page.slots()), page.slots()));
            let buffer = leaf.location().buffer().map(|b| (FullKeys::of(b.prefix(), b.pending_records()), b));
            sources.push((page, buffer));
        }
        let mut dead_pointers = Vec::new();
        let mut records: Vec<Record<'_>> = Vec::new();
        for (page, buffer) in &sources {
            let older = page.iter().flat_map(|(keys, slots)| keys.records(*slots));
            let newer = buffer.iter().flat_map(|(keys, buffer)| keys.join(buffer.pending_records()));
            records.extend(overlay(older, newer, |old, new| dead_pointers.extend(DeadPointer::of(&old, &new))));
        }
        let frame = self.frame(&group.low, group.high.as_deref());
        check_records(frame, &records)?;
        let records = live(records);
        let count = group.leaves.len();
        // What one leaf holds may fill its page.
        let joined = Frame { body_bytes: if count > 1 { room } else { frame.body_bytes }, ..frame };
        let even = plan_records(joined, &records, 0);
        let mut plan = if even.pages.len() < count { even } else { plan_records(joined, &records, records.len()) };
        plan.dead_pointers = dead_pointers;
        Ok(plan)
    }

    /// Gives the group its placed pages; false, and the pages are given up, if its leaves stand under two parents now.
    fn link_group(&self, group: &mut Group<'_>, plan: &Plan, mut placed: Placed<'_>, merged: Merged) -> bool {
        let old: Vec<PageId> = group.leaves.iter().map(Exclusive::id).collect();
        let (page, kept) = (placed.first(), placed.len().max(1));
        let first = Upsert { id: old[0], low_key: &group.low, address: page };
        let rest = plan.pages.iter().zip(placed.iter()).skip(1);
        let rest = rest.map(|(page, (id, address))| Upsert { id, low_key: &page.low, address: Some(address) });
        let upserts: Vec<Upsert<'_>> = std::iter::once(first).chain(rest).collect();
        let entries: Vec<LeafEntry> = upserts.iter().map(|upsert| (upsert.low_key.to_vec(), upsert.id)).collect();
        let mut record = || {
            self.record_restructure(&old[1..], &upserts, merged);
            placed.settle_fresh();
            for ((id, _), page) in placed.iter().zip(&plan.pages) {
                self.table.set_fill_bytes(id, page.body.len(), self.body_bytes());
                self.record_if_sparse(id);
            }
        };
        let stays = old.len() == 1 && kept == 1;
        if stays {
            record();
        } else if !self.index.edit_after(&group.low, (&old, &entries), &self.epoch, &mut record) {
            self.give_up(placed);
            return false;
        }
        self.move_group(group, page);
        self.retire_ids(old[1..].iter().copied());
        self.account(old.len(), kept);
        if kept < old.len() {
            self.gather_around(old[0], &group.low);
        }
        true
    }

    /// Gives the first leaf its new page and empties the others.
    fn move_group(&self, group: &mut Group<'_>, first: Option<PageAddress>) {
        for (at, leaf) in group.leaves.iter_mut().enumerate() {
            let released = leaf.location().page();
            let to = if at == 0 { first.map_or(Location::Empty, Location::Page) } else { Location::Empty };
            self.relocate_leaf(leaf, to);
            if let Some(released) = released {
                self.store.release(released);
            }
        }
    }

    fn account(&self, before: usize, after: usize) {
        let count = |leaves: usize| u32::try_from(leaves).expect("a group is small");
        self.leaves.fetch_add(count(after), Ordering::Relaxed);
        self.leaves.fetch_sub(count(before), Ordering::Relaxed);
        self.counters.leaf_merges.fetch_add(before.saturating_sub(after) as u64, Ordering::Relaxed);
    }
}

/// Keeps an error after which `others` may go on for when they have, if it is the first.
///
/// # Errors
/// Any other.
fn leave(outcome: Result<()>, others: impl FnOnce(&TreeError) -> bool, left: &mut Result<()>) -> Result<()> {
    match outcome {
        Err(error) if others(&error) => {
            if left.is_ok() {
                *left = Err(error);
            }
            Ok(())
        }
        outcome => outcome,
    }
}

/// How many of the leading leaves with so many `bytes` are to be joined: those that give the most pages back, and one for four at least, or
/// as `fill` has it, as every other one is written anew for it; of equals the fewest. 1 if none do.
fn best_group(bytes: impl Iterator<Item = usize>, fill: Fill, body_bytes: usize) -> usize {
    let room = fill.of(body_bytes);
    let sums = bytes.scan(0, |sum, bytes| {
        *sum += bytes;
        Some(*sum)
    });
    let gains =
        (1..=NEIGHBOURS_MAX).zip(sums).map(|(count, sum)| (count, count.saturating_sub(sum.div_ceil(room).max(1))));
    let worth_it = gains.filter(|&(count, gain)| gain * fill.leaves_per_page_max() >= count);
    // Of equals the first.
    worth_it.min_by_key(|&(_, gain)| Reverse(gain)).map_or(1, |(count, _)| count)
}

/// Whether leaves with so many `bytes` seem to fit fewer pages, the first of them and some that follow it.
pub(crate) fn seem_to_join(bytes: impl Iterator<Item = usize>, fill: Fill, body_bytes: usize) -> bool {
    best_group(bytes, fill, body_bytes) > 1
}

/// Whether the leaf's buffer has all that its page has.
fn is_mirrored(location: &Location) -> bool {
    location.buffer().is_some_and(Buffer::is_complete)
}

/// About what a buffer adds to the page of its leaf.
fn pending_bytes(buffer: &Buffer) -> usize {
    if buffer.is_dirty() || buffer.is_complete() { buffer.slots().used_bytes() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{Fill, best_group};

    #[test]
    fn the_group_that_gives_most_pages_back_is_joined() {
        let best = |bytes: &[usize]| best_group(bytes.iter().copied(), Fill::Close, 4_000);
        assert_eq!(best(&[3_000, 3_000, 3_000]), 1, "a leaf too many would have to be full");
        assert_eq!(best(&[1_000, 2_000]), 2);
        assert_eq!(best(&[2_000, 2_000, 2_000]), 3, "three halves are two pages, two of them one that has no room");
        assert_eq!(best(&[2_000; 8]), 7, "four pages of eight: two of seven halves more than three");
        assert_eq!(best(&[0, 0, 0, 3_000]), 4);
        assert_eq!(best(&[1_000, 1_000, 3_900, 3_900]), 2, "of equals the fewest");
        assert_eq!(best(&[3_100; 8]), 1, "a page for eight is not worth seven written");
        assert_eq!(best_group([3_300; 8].into_iter(), Fill::Tight, 4_000), 8, "but where there is no other");
        assert_eq!(best(&[]), 1);
    }
}
