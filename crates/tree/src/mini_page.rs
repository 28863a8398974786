//! Mini-pages at work (Bf-Tree section 5; decision 0020): promotion, second chances, eviction, what stays after a merge.
//!
//! Rules. Readers only *try* latches, take memory only where the ring has some, and never write a page: to make room they drop clean
//! mini-pages at the head, and where a dirty one stands there they do without and let the background know ([`Ring::want_room`]).
//! What was read from a page is cached only if the page is still the leaf's: under an epoch guard from before the address was read no other
//! page can have that address, so neither a merge nor a split came between (*same page*). A record that the mini-page has already is newer
//! or the same.

use zonda_pages::{PageAddress, PageId};

use crate::{
    Eviction,
    buffer::{Buffer, Cached},
    flush::{FOR_A_MERGE, Flushed, Merge},
    key::common_prefix_bytes,
    leaf_page::{LeafBody, LeafPage},
    leaf_table::{Exclusive, Location, Shared},
    merge::{DeadPointer, FullKeys, Plan, overlay},
    pool::{
        arena::Owner,
        memory::Demand,
        ring::{Claim, Ring},
    },
    record::{OwnedRecord, Record, borrowed},
    relocate::is_damage,
    slots::SLOT_BYTES,
    snapshot::used_records,
    stats::{MiniPageCounts, count},
    tree::{Placed, Result, Tree, is_no_space},
};

/// Mini-pages that one call tries to evict before somebody else's progress is waited for.
const EVICT_TRIES: usize = 16;
/// Dirty mini-pages of which the heaviest is merged.
const CANDIDATES: usize = 4;
/// Clean mini-pages that a reader drops at most to make room for what it read.
const DROPS_MAX: usize = 4;
/// Mirrors end here: pages of more bytes or records are not kept whole.
const MIRROR_BYTES_MAX: usize = 64 << 10;
/// See [`MIRROR_BYTES_MAX`].
const MIRROR_RECORDS_MAX: usize = 8_192;

/// What of a mini-page stays as clean records once it is merged.
#[derive(Default)]
pub(crate) struct Hot {
    records: Vec<OwnedRecord>,
    /// The whole page stays.
    mirror: bool,
}

impl Tree {
    fn mini_page_counts(&self) -> &MiniPageCounts {
        &self.counters.mine().mini_pages
    }

    fn mini_page_bytes_max(&self) -> usize {
        self.options.mini_pages.bytes_max as usize
    }

    /// Keeps the answer of a point read, which is in `leaf_page`, the page of leaf `id` at `page`, now and then. No latch may be held; the
    /// epoch is pinned since before the address was read.
    pub(crate) fn promote(&self, (id, page): (PageId, PageAddress), leaf_page: &LeafBody<'_>, answer: &Record<'_>) {
        if !self.pool.draws(self.options.mini_pages.promotion_percent) || !self.has_room_for_readers() {
            return;
        }
        let Some(mut leaf) = self.latch_with_page(id, page) else { return };
        self.cache_latched(&mut leaf, leaf_page, answer);
    }

    /// As [`promote`](Self::promote) for a page that a scan read: it stays whole.
    pub(crate) fn promote_page(&self, (id, page): (PageId, PageAddress), body: &[u8]) {
        if !self.pool.draws(self.options.mini_pages.scan_promotion_percent) || !self.has_room_for_readers() {
            return;
        }
        let Ok(leaf_page) = LeafPage::decode(body) else { return };
        let Some(mut leaf) = self.latch_with_page(id, page) else { return };
        self.become_mirror(&mut leaf, &leaf_page, body.len());
    }

    /// The latch of leaf `id` if nobody has it and its page is still that at `page` (*same page*).
    fn latch_with_page(&self, id: PageId, page: PageAddress) -> Option<Exclusive<'_>> {
        self.table.try_lock(id).filter(|leaf| leaf.location().page() == Some(page))
    }

    fn cache_latched(&self, leaf: &mut Exclusive<'_>, page: &LeafBody<'_>, record: &Record<'_>) {
        let (memory, owner, bytes_max) = (self.pool.memory(), Owner::of(leaf.id()), self.mini_page_bytes_max());
        let address = leaf.location().page();
        let cached = match leaf.buffer_mut() {
            Some(buffer) if buffer.is_complete() => Cached::Known,
            Some(buffer) => buffer.cache(memory, owner, record, bytes_max),
            None => {
                let (prefix, key) = record.key.split_at(common_prefix_bytes(page.prefix(), record.key));
                let first = std::iter::once(Record { key, ..*record });
                Buffer::cache_of(memory, owner, address, prefix, first).map_or(Cached::NoRoom, Cached::Grown)
            }
        };
        match cached {
            Cached::Known | Cached::NoRoom => {}
            Cached::Kept => count(&self.mini_page_counts().promoted),
            Cached::Grown(buffer) => {
                count(&self.mini_page_counts().promoted);
                self.relocate_leaf(leaf, Location::Buffered(buffer));
            }
            // A page of which a record is bad is for who reads that one to hear of.
            Cached::TooLarge => {
                if let Ok(page) = page.verify() {
                    self.become_mirror(leaf, &page, self.body_bytes());
                }
            }
        }
    }

    /// Gives a latched leaf a mirror of its page, under what its mini-page holds; if there is room.
    fn become_mirror(&self, leaf: &mut Exclusive<'_>, page: &LeafPage<'_>, body_bytes: usize) {
        let buffer = leaf.location().buffer();
        if body_bytes > MIRROR_BYTES_MAX || buffer.is_some_and(Buffer::is_complete) {
            return;
        }
        let (memory, owner) = (self.pool.memory(), Owner::of(leaf.id()));
        let Some(buffer) = buffer else {
            if let Some(mirror) = self.mirror_of(leaf.id(), leaf.location().page(), page) {
                count(&self.mini_page_counts().mirrors);
                self.relocate_leaf(leaf, Location::Buffered(mirror));
            }
            return;
        };
        let older = FullKeys::new(page.prefix(), page.slots());
        let newer = FullKeys::of(buffer.prefix(), buffer.dirty_records());
        let mut dead: Vec<DeadPointer> = Vec::new();
        let merged = overlay(older.records(page.slots()), newer.join(buffer.dirty_records()), |old, new| {
            dead.extend(DeadPointer::of(&old, &new));
        });
        // Recovery leaves mini-pages of several pages, which the next merge parts.
        let shared = common_prefix_bytes(page.prefix(), buffer.prefix());
        let bytes: usize =
            merged.iter().map(|record| SLOT_BYTES + record.key.len() - shared + record.value.len()).sum();
        if merged.len() > MIRROR_RECORDS_MAX || bytes > MIRROR_BYTES_MAX {
            return;
        }
        if let Some(mirror) = buffer.mirror_over(memory, owner, page, &merged) {
            count(&self.mini_page_counts().mirrors);
            self.relocate_leaf(leaf, Location::Buffered(mirror));
            // A mirror is merged without its page: what it hides there dies now.
            dead.iter().for_each(|dead| self.release_pointer(dead.key_bytes, &dead.old, dead.new.as_deref()));
        }
    }

    /// A clean mirror of a page, if there is room.
    fn mirror_of(&self, id: PageId, address: Option<PageAddress>, page: &LeafPage<'_>) -> Option<Buffer> {
        if page.slots().len() > MIRROR_RECORDS_MAX {
            return None;
        }
        let memory = self.pool.memory();
        let mut mirror = Buffer::cache_of(memory, Owner::of(id), address, page.prefix(), page.slots().iter())?;
        mirror.set_complete();
        Some(mirror)
    }

    /// Whether a reader may take memory: the ring has room, or gets some as clean mini-pages are dropped.
    fn has_room_for_readers(&self) -> bool {
        let Some(ring) = self.pool.ring() else { return false };
        for _ in 0..DROPS_MAX {
            if !ring.is_over_for_readers() {
                return true;
            }
            if !ring.claim().is_some_and(|claim| self.drop_clean(&claim)) {
                ring.want_room();
                return false;
            }
        }
        !ring.is_over_for_readers()
    }

    /// Drops or moves a claimed mini-page if that needs no write.
    fn drop_clean(&self, claim: &Claim<'_>) -> bool {
        let Some(mut leaf) = self.table.try_lock(claim.leaf()) else { return false };
        let Some(buffer) = claimed(leaf.location(), claim) else { return true };
        if self.is_swept(buffer) {
            return false;
        }
        if buffer.is_referenced() && self.copy_to_tail(&mut leaf) {
            return true;
        }
        self.drop_if_clean(&mut leaf)
    }

    /// Drops a latched leaf's buffer unless it is dirty.
    pub(crate) fn drop_if_clean(&self, leaf: &mut Exclusive<'_>) -> bool {
        let location = leaf.location();
        if location.buffer().is_some_and(Buffer::is_dirty) {
            return false;
        }
        let page = location.page().map_or(Location::Empty, Location::Page);
        if location.buffer().is_some_and(Buffer::is_mini_page) {
            count(&self.mini_page_counts().dropped);
        }
        self.relocate_leaf(leaf, page);
        true
    }

    /// Whether somebody who uses this leaf must see to it that it escapes the head.
    pub(crate) fn is_near_head(&self, location: &Location) -> bool {
        let near = |ring: &Ring| location.buffer().is_some_and(|buffer| ring.in_second_chance(buffer.memory_at()));
        self.pool.ring().is_some_and(near)
    }

    /// A scan used all of a latched leaf: its mirror stays for another round of the ring, if it has one.
    pub(crate) fn note_scan(&self, leaf: Shared<'_>) {
        let Some(buffer) = leaf.location().buffer().filter(|buffer| buffer.is_mini_page() && buffer.is_complete())
        else {
            return;
        };
        buffer.touch();
        let (id, is_near_head) = (leaf.id(), self.is_near_head(leaf.location()));
        drop(leaf);
        if is_near_head {
            self.give_second_chance(id);
        }
    }

    /// A reader used leaf `id` near the head: its mini-page is copied to the tail, unless somebody is in the way. No latch may be held.
    pub(crate) fn give_second_chance(&self, id: PageId) {
        if let Some(mut leaf) = self.table.try_lock(id)
            && self.is_near_head(leaf.location())
            && !leaf.location().buffer().is_some_and(|buffer| self.is_swept(buffer))
        {
            self.copy_to_tail(&mut leaf);
        }
    }

    /// Whether a mini-page is merged when it comes to the head, which keeps what of it was used: it does not escape to the tail with the
    /// changes that nobody reads.
    fn is_swept(&self, buffer: &Buffer) -> bool {
        buffer.is_dirty() && self.sweep.is_under_way(|| self.written())
    }

    /// A writer is about to change a latched leaf: as [`give_second_chance`](Self::give_second_chance). `true`, if the oldest go first: it
    /// holds dirty records that nobody used for a round of the ring, so it should be merged instead, which keeps the others.
    pub(crate) fn is_due_near_head(&self, leaf: &mut Exclusive<'_>) -> bool {
        if !self.is_near_head(leaf.location()) {
            return false;
        }
        let oldest_first = self.options.eviction == Eviction::Oldest;
        if oldest_first && leaf.location().buffer().is_some_and(Buffer::has_cold_dirty) {
            return true;
        }
        self.copy_to_tail(leaf);
        false
    }

    /// Copies a latched leaf's mini-page to the tail without its cold clean records. Without room there it is marked, so that whoever
    /// evicts it tries again.
    fn copy_to_tail(&self, leaf: &mut Exclusive<'_>) -> bool {
        let Some(buffer) = leaf.location().buffer() else { return true };
        if !buffer.is_worth_a_copy() {
            return self.drop_if_clean(leaf);
        }
        let copy = buffer.copied_to_tail(self.pool.memory(), Owner::of(leaf.id()));
        match copy {
            Some(_) => count(&self.mini_page_counts().copied),
            None => buffer.touch(),
        }
        copy.map(|copy| self.relocate_leaf(leaf, Location::Buffered(copy))).is_some()
    }

    /// Moves a latched leaf's mini-page to the tail as it is, but for a mirror that nobody used, which leaves what was used. `false` if
    /// there is no room there.
    pub(crate) fn move_to_tail(&self, leaf: &mut Exclusive<'_>) -> bool {
        match leaf.location().buffer() {
            Some(buffer) if !buffer.is_complete() => {
                let copy = buffer.moved_to_tail(self.pool.memory(), Owner::of(leaf.id()));
                copy.map(|copy| self.relocate_leaf(leaf, Location::Buffered(copy))).is_some()
            }
            _ => self.copy_to_tail(leaf),
        }
    }

    /// Makes room at the head: drops a clean mini-page, copies one to the tail that was used near the head, or merges a dirty one.
    /// Returns whether something went; else others are in the way. No latch may be held.
    ///
    /// Past the paper: of some dirty mini-pages at the head the one that holds most is merged, and the others take another round, so that
    /// small ones gather until they are worth a page write ([`Eviction::Oldest`]: each as it comes).
    ///
    /// # Errors
    /// `NoSpace`, those of the device. `Damaged` if there is nothing but mini-pages whose pages are damaged: else it is for who reads those
    /// pages to hear of it.
    pub(crate) fn evict_mini_page(&self, ring: &Ring) -> Result<bool> {
        // While nothing is claimed: whoever waits must not hold the head back.
        if let Err(refused) = self.admit(FOR_A_MERGE) {
            // What is clean needs no space to go.
            return if is_no_space(&refused) && self.sift_head(ring).0 { Ok(true) } else { Err(refused) };
        }
        let mut damage = None;
        for _ in 0..EVICT_TRIES {
            let (went, heaviest) = self.sift_head(ring);
            let merge = |claim| self.merge_claimed(ring, claim, Merge::EVICTING);
            let merged = match heaviest.map_or(Ok(Flushed::Raced), merge) {
                Err(error) if is_damage(&error) => {
                    damage = Some(error);
                    Flushed::Raced
                }
                merged => merged?,
            };
            if went || merged != Flushed::Raced {
                return Ok(true);
            }
        }
        zonda_rt::yield_now();
        damage.map_or(Ok(false), Err)
    }

    /// Looks at a few mini-pages from the head on until one can go without a write. Returns whether one did, and the heaviest of the
    /// dirty ones, claimed; the others were copied to the tail.
    fn sift_head<'r>(&self, ring: &'r Ring) -> (bool, Option<Claim<'r>>) {
        let candidates = if self.options.eviction == Eviction::Oldest { 1 } else { CANDIDATES };
        let (mut heaviest, mut dirty): (Option<(usize, Claim<'r>)>, _) = (None, 0);
        // Those whose leaves others have stay claimed until all were looked at: they would be the next again.
        let mut busy = Vec::new();
        while dirty < candidates && busy.len() < CANDIDATES {
            let Some(claim) = ring.claim() else { break };
            if self.drop_clean(&claim) {
                return (true, heaviest.map(|(_, claim)| claim));
            }
            let Some(bytes) = self.dirty_bytes(&claim) else {
                busy.push(claim);
                continue;
            };
            dirty += 1;
            let (lighter, heavier) = match heaviest {
                Some(before) if before.0 >= bytes => ((bytes, claim), before),
                Some(before) => (before, (bytes, claim)),
                None => {
                    heaviest = Some((bytes, claim));
                    continue;
                }
            };
            heaviest = Some(heavier);
            if !self.spare(&lighter.1) {
                break;
            }
        }
        (false, heaviest.map(|(_, claim)| claim))
    }

    /// What a claimed mini-page holds that its page lacks; `None` if somebody has the leaf.
    fn dirty_bytes(&self, claim: &Claim<'_>) -> Option<usize> {
        let leaf = self.table.try_lock_shared(claim.leaf())?;
        Some(claimed(leaf.location(), claim).map_or(0, Buffer::dirty_bytes))
    }

    /// Copies a claimed mini-page to the tail; `false` if there is no room there or somebody has the leaf.
    fn spare(&self, claim: &Claim<'_>) -> bool {
        let Some(mut leaf) = self.table.try_lock(claim.leaf()) else { return false };
        claimed(leaf.location(), claim).is_none() || self.copy_to_tail(&mut leaf)
    }

    /// Merges a claimed mini-page, if its leaf still has it. The claim goes before anything is written: as long as there is one, the head
    /// stands, whatever others evict behind it. The mini-page is gone unless somebody was in the way.
    pub(crate) fn merge_claimed(&self, ring: &Ring, claim: Claim<'_>, how: Merge) -> Result<Flushed> {
        let merged = match self.merge_once(claim.leaf(), how, Some(&claim)) {
            Err(error) if is_damage(&error) => {
                return self.move_out_of_the_way(ring, &claim).then_some(Flushed::Nothing).ok_or(error);
            }
            merged => merged,
        };
        drop(claim);
        if matches!(merged, Ok(Flushed::Done)) {
            count(&self.mini_page_counts().merged);
        }
        self.pump_after(merged)
    }

    /// A mini-page whose page cannot be read must not hold the head back for ever: it is set aside, outside of the ring. Returns whether it
    /// left the ring for that.
    fn move_out_of_the_way(&self, ring: &Ring, claim: &Claim<'_>) -> bool {
        let Some(mut leaf) = self.table.try_lock(claim.leaf()) else { return false };
        let Some(buffer) = claimed(leaf.location(), claim) else { return false };
        if claim.is_outside() {
            ring.set_aside(buffer.memory_at());
            return false;
        }
        let copy = buffer.copied(self.pool.memory(), Owner::of(leaf.id()), Demand::Aside);
        self.relocate_leaf(&mut leaf, Location::Buffered(copy));
        true
    }

    /// What of a latched leaf's mini-page stays once it is merged: the records that were used, or all of the page if those alone
    /// would soon be too many again, or if it is a mirror that was used.
    pub(crate) fn hot_of(&self, leaf: &Exclusive<'_>) -> Hot {
        let Some(buffer) = leaf.location().buffer().filter(|buffer| buffer.is_mini_page()) else {
            return Hot::default();
        };
        let records = used_records(buffer);
        let bytes: usize = records.iter().map(|(key, _, value)| key.len() - buffer.prefix().len() + value.len()).sum();
        let of_mirror = buffer.is_complete() && 2 * records.len() >= buffer.slots().len();
        let mirror = !records.is_empty() && (of_mirror || 2 * bytes > self.mini_page_bytes_max());
        Hot { records, mirror }
    }

    /// Gives the leaves of a plan that was carried out their parts of `hot`. They are latched.
    pub(crate) fn keep_hot(&self, leaf: &mut Exclusive<'_>, placed: &mut Placed<'_>, plan: &Plan, hot: &Hot) {
        let mut rest = hot.records.as_slice();
        for (nth, page) in plan.pages.iter().enumerate() {
            let end =
                plan.pages.get(nth + 1).map_or(rest.len(), |next| rest.partition_point(|(key, _, _)| *key < next.low));
            let (records, behind) = rest.split_at(end);
            rest = behind;
            let Some((id, address)) = placed.nth(nth) else { return };
            let buffer = match LeafPage::decode(&page.body) {
                Ok(page) if hot.mirror => self.mirror_of(id, Some(address), &page),
                _ => self.cache_of(id, Some(address), records),
            };
            match (buffer.map(Location::Buffered), nth.checked_sub(1)) {
                (None, _) => {}
                (Some(buffer), None) => self.relocate_leaf(leaf, buffer),
                (Some(buffer), Some(fresh)) => self.relocate_leaf(placed.fresh_mut(fresh), buffer),
            }
        }
    }

    fn cache_of(&self, id: PageId, address: Option<PageAddress>, records: &[OwnedRecord]) -> Option<Buffer> {
        let ((first, _, _), (last, _, _)) = (records.first()?, records.last()?);
        let prefix = &first[..common_prefix_bytes(first, last)];
        let suffixes = records.iter().map(|record| {
            let record = borrowed(record);
            Record { key: &record.key[prefix.len()..], ..record }
        });
        Buffer::cache_of(self.pool.memory(), Owner::of(id), address, prefix, suffixes)
    }
}

/// The mini-page that was claimed, if the latched leaf still has it.
pub(crate) fn claimed<'b>(location: &'b Location, claim: &Claim<'_>) -> Option<&'b Buffer> {
    location.buffer().filter(|buffer| buffer.memory_at().addr().get() == claim.address())
}
