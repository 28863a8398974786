//! The tree's side of reclaim: relocation merged with pending buffers, so that cleaning does useful flushing (I3, I9).

use std::collections::BTreeMap;

use zonda_pages::{
    AreaKind, ChunkAddress, Heat, Liveness, NewPage, PageAddress, PageError, PageId, Reclaimed, Relocate, Relocated,
    Stamp,
};
use zonda_rt::{Stripes, atomic::Ordering, epoch::Ticket};

use crate::{
    Step, TreeError,
    buffer::Buffer,
    buffer_end::Coming,
    flush::Merge,
    leaf_page::LeafPage,
    leaf_table::Exclusive,
    metalog::MetaRecord,
    record::{Kind, Record},
    tree::{Result, Tree, set_page},
    values::{ValuePointer, parse_chunk},
};

type PageResult<T> = std::result::Result<T, PageError>;

/// Moments that the store asked for and that have not drained yet.
#[derive(Default)]
pub(crate) struct Stamps {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// Of a moment: who is waited for.
struct Waiting {
    /// Guards from before.
    ticket: Ticket,
    /// Snapshots up to this number.
    snapshot: u64,
    /// There were some. A reader of one that is given up, which came later than the moment, may read on.
    is_held: bool,
}

/// Who refers to a value chunk.
enum Referrer<'p, 't> {
    /// This key, which nobody writes meanwhile.
    Key {
        key: &'p [u8],
        pointer: ValuePointer,
        stripe: zonda_rt::stripes::Guard<'t>,
    },
    Nobody,
    /// The key is being written, or recovery is not over.
    Unknown,
}

impl Relocate for Tree {
    fn relocate_page(&self, id: PageId, at: PageAddress, body: &[u8]) -> PageResult<Relocated> {
        let page = LeafPage::decode(body)?;
        let guard = self.epoch.pin();
        let path = self.index.find(page.low(), &guard);
        if path.leaf() != id {
            // The leaf is gone, or a split that makes it is on its way: that one holds the latch.
            let settled = self.table.try_lock_shared(path.leaf()).is_some_and(|_| path.is_current());
            return Ok(if settled { Relocated::Dead } else { Relocated::Busy });
        }
        let Some(mut leaf) = self.table.try_lock(id) else { return Ok(Relocated::Busy) };
        if !path.is_current() {
            return Ok(Relocated::Busy);
        }
        if leaf.location().page() != Some(at) {
            return Ok(Relocated::Dead);
        }
        let (low, high) = (path.low(), path.high());
        let range = (&low[..], high.as_deref());
        // A clean mini-page stays as it is.
        let is_clean = |buffer: &Buffer| buffer.is_mini_page() && !buffer.is_dirty();
        if !self.options.merged_relocation || leaf.location().buffer().is_some_and(is_clean) {
            self.move_unmerged(&mut leaf, range, at, body)?;
            return Ok(Relocated::Moved);
        }
        let mirrored = leaf.location().buffer().is_some_and(Buffer::is_complete);
        let plan = self.plan_latched(&leaf, (!mirrored).then_some(body), &low, high.as_deref())?;
        if plan.pages.len() > 1 && self.store.is_short() {
            self.move_unmerged(&mut leaf, range, at, body)?;
        } else {
            self.carry_out(&mut leaf, range, &plan, Merge::RELOCATING)?;
            if plan.pages.is_empty() {
                // Its neighbour cannot be latched here; if no more may wait, a search finds it.
                let _waits = self.emptied.push(id, &low);
            }
        }
        Ok(Relocated::Moved)
    }

    fn relocate_value(&self, at: ChunkAddress, payload: &[u8]) -> PageResult<Relocated> {
        let (key, mut pointer, _stripe) = match self.referrer(at, payload)? {
            Referrer::Key { key, pointer, stripe } => (key, pointer, stripe),
            Referrer::Nobody => return Ok(Relocated::Dead),
            Referrer::Unknown => return Ok(Relocated::Busy),
        };
        // Nothing is logged any more: a copy would be for nothing.
        if self.closed.load(Ordering::SeqCst) {
            return Ok(Relocated::Busy);
        }
        // Before anything is written: the store has no record then that its leaf does not take.
        match self.makes_room_for_move(key) {
            Err(error) if is_busy(&error) => return Ok(Relocated::Busy),
            outcome => outcome?,
        }
        let moved = self.values.write_chunk(payload)?;
        pointer.replace(at, moved);
        let Err(error) = self.replace_pointer(key, &pointer) else { return Ok(Relocated::Moved) };
        // Nothing refers to a copy that was not logged.
        self.store.release_value(moved.at, moved.segment, payload.len() as u64);
        // Whoever reclaims beside a close, or beside writers that filled the leaf, has failed at nothing.
        if matches!(error, TreeError::Closed) || is_busy(&error) { Ok(Relocated::Busy) } else { Err(error.into()) }
    }

    fn value_liveness(&self, at: ChunkAddress, payload: &[u8]) -> PageResult<Liveness> {
        Ok(match self.referrer(at, payload)? {
            Referrer::Key { .. } => Liveness::Live,
            Referrer::Nobody if self.is_released_by_a_merge(at, parse_chunk(payload)?.key)? => Liveness::Unknown,
            Referrer::Nobody => Liveness::Dead,
            Referrer::Unknown => Liveness::Unknown,
        })
    }

    fn writes(&self) -> u64 {
        self.written()
    }

    fn knows_values(&self) -> bool {
        // The log that says which are live is still being replayed.
        !self.recovering.load(Ordering::Acquire)
    }

    fn stamp(&self) -> Stamp {
        let mut stamps = self.stamps.lock();
        stamps.next += 1;
        let number = stamps.next;
        let snapshot = self.snapshots.epoch();
        // Before the ticket: a reader of one that goes in between is from before it.
        let is_held = !self.snapshots.drained(snapshot);
        stamps.waiting.insert(number, Waiting { ticket: self.epoch.advance(), snapshot, is_held });
        Stamp(number)
    }

    fn commit_moves(&self) -> PageResult<()> {
        self.flush_meta()?;
        // What is logged and not in memory is referred to all the same, by the next life; a tree that misses something has stopped before.
        self.poison.check()?;
        // Values that moved are referred to by log records only; overwritten ones died by log records. Without a log the newest checkpoint
        // still refers to where they were. While it is being read there are no such yet.
        let needs_checkpoint = !self.options.log && !self.store.area(AreaKind::Values).segments().is_empty();
        if needs_checkpoint && !self.recovering.load(Ordering::Acquire) {
            // Who takes one may be this thread, which looks for room.
            return if self.try_checkpoint()? { Ok(()) } else { Err(PageError::Busy) };
        }
        Ok(self.log.sync()?)
    }

    fn drained(&self, stamp: Stamp) -> bool {
        let mut stamps = self.stamps.lock();
        let Some(waiting) = stamps.waiting.get_mut(&stamp.0) else { return true };
        if !self.snapshots.drained(waiting.snapshot) {
            return false;
        }
        if std::mem::take(&mut waiting.is_held) {
            waiting.ticket = self.epoch.advance();
        }
        let drained = self.epoch.has_drained(waiting.ticket);
        if drained {
            stamps.waiting.remove(&stamp.0);
        }
        drained
    }
}

impl Tree {
    /// One step of reclaim.
    ///
    /// # Errors
    /// Those of the device: the tree is poisoned.
    pub(crate) fn reclaim_step(&self) -> Result<Step> {
        let progressed = self.reclaim()? == Reclaimed::Progress;
        Ok(if progressed { Step::Progress } else { Step::Idle })
    }

    /// As [`reclaim_step`](Self::reclaim_step); says why nothing was done.
    pub(crate) fn reclaim(&self) -> Result<Reclaimed> {
        let reclaimed = self.store.reclaim_step(self).map_err(TreeError::from);
        // What cannot be read keeps its zone, but is no reason to refuse writes.
        let reclaimed = match reclaimed {
            Err(error) if is_damage(&error) => return Err(error),
            outcome => self.poison.watch(outcome)?,
        };
        if reclaimed == Reclaimed::Progress {
            crate::stats::count(&self.counters.reclaim_steps);
        }
        Ok(reclaimed)
    }

    /// Gives the oldest snapshot up if it keeps a zone from being reset that a writer waits for. Returns whether it did.
    pub(crate) fn press_snapshots(&self) -> bool {
        self.waits_for_snapshots() && self.snapshots.give_up()
    }

    /// Whether a zone could be reset if it were not for snapshots.
    fn waits_for_snapshots(&self) -> bool {
        let stamps = self.stamps.lock();
        let held =
            |waiting: &Waiting| self.epoch.has_drained(waiting.ticket) && !self.snapshots.drained(waiting.snapshot);
        stamps.waiting.values().any(held)
    }

    /// Moves a page as it is, with nothing to merge, or where zones are short: merging must not make it two (R). What waits in its buffer
    /// stays there.
    ///
    /// Where nothing does, the record says what the page has, which spares the next recovery the log of that leaf.
    fn move_unmerged(
        &self,
        leaf: &mut Exclusive<'_>,
        range: (&[u8], Option<&[u8]>),
        at: PageAddress,
        body: &[u8],
    ) -> PageResult<()> {
        let buffer = leaf.location().buffer();
        let sequence = buffer.map_or(0, Buffer::sequence);
        let has_all = buffer.is_none_or(|buffer| !buffer.is_dirty());
        let merged_to = if has_all { self.merged_now(sequence, range).to } else { 0 };
        let page = NewPage { id: leaf.id(), sequence, body };
        let address = self.store.place(Heat::Relocated, &[page])?[0];
        self.meta.append(&MetaRecord::Move { id: leaf.id(), address, merged_to }, sequence);
        self.table.set_fill_bytes(leaf.id(), body.len(), self.body_bytes());
        self.record_if_sparse(leaf.id());
        set_page(leaf, address);
        self.store.release(at);
        Ok(())
    }

    fn try_stripe(&self, key: &[u8]) -> Option<zonda_rt::stripes::Guard<'_>> {
        Stripes::try_lock(&self.stripes, crate::key::hash(key))
    }

    /// Who refers to the value chunk at `at`.
    fn referrer<'p>(&self, at: ChunkAddress, payload: &'p [u8]) -> PageResult<Referrer<'p, '_>> {
        if !self.knows_values() {
            return Ok(Referrer::Unknown);
        }
        let key = parse_chunk(payload)?.key;
        let Some(stripe) = self.try_stripe(key) else { return Ok(Referrer::Unknown) };
        let pointer = self.pointer_of(key)?.filter(|pointer| pointer.refers_to(at));
        Ok(pointer.map_or(Referrer::Nobody, |pointer| Referrer::Key { key, pointer, stripe }))
    }

    /// Whether what memory has superseded of `key`, in the batch array, its leaf's buffer or page, refers to the chunk at `at`: the merge
    /// will release it.
    fn is_released_by_a_merge(&self, at: ChunkAddress, key: &[u8]) -> PageResult<bool> {
        let (guard, mut scratch) = (self.epoch.pin(), Vec::new());
        let refers = |record: &Record<'_>| -> PageResult<bool> {
            Ok(record.kind == Kind::Pointer && ValuePointer::decode(record.value)?.refers_to(at))
        };
        let is_above = self.look_above(key, &mut scratch, &guard).is_some();
        let in_array =
            self.filter.as_ref().and_then(|filter| filter.find_in_array(key, &guard, &mut |record| refers(record)));
        if in_array.transpose()?.unwrap_or(false) {
            return Ok(true);
        }
        let (id, page) = {
            let path = self.index.find(key, &guard);
            let leaf = self.table.lock_shared(path.leaf());
            if !path.is_current() {
                return Ok(true);
            }
            let buffer = leaf.location().buffer();
            let own = buffer.and_then(|buffer| buffer.find_own(key));
            if own.as_ref().map(refers).transpose()?.unwrap_or(false) {
                return Ok(true);
            }
            // What a mirror has superseded of its page was released then.
            let asks_page = (is_above || own.is_some()) && !buffer.is_some_and(Buffer::is_complete);
            let Some(page) = leaf.location().page().filter(|_| asks_page) else { return Ok(false) };
            (leaf.id(), page)
        };
        let Some(body) = self.read_body(id, Some(page))? else { return Ok(false) };
        LeafPage::decode(&body)?.find(key).as_ref().map_or(Ok(false), refers)
    }

    /// The value pointer that `key` has now; the key's stripe is held.
    fn pointer_of(&self, key: &[u8]) -> PageResult<Option<ValuePointer>> {
        let mut encoded = Vec::new();
        let found = self.get_pointer(key, &mut encoded)?;
        Ok(found.then(|| ValuePointer::decode(&encoded)).transpose()?)
    }

    /// Logs and applies a moved pointer like a put; the key's stripe is held, so nobody else writes the key.
    fn replace_pointer(&self, key: &[u8], pointer: &ValuePointer) -> Result<()> {
        let mut value = Vec::new();
        pointer.encode(&mut value);
        self.commit_move(&Record { key, kind: Kind::Pointer, value: &value })
    }

    /// Logs and applies the pointer of a value that reclaim moved. Nothing is merged: whoever asks has made room
    /// ([`makes_room_for_move`]). As the value stays the same, snapshots keep nothing for it where it goes into a leaf.
    ///
    /// [`makes_room_for_move`]: Self::makes_room_for_move
    ///
    /// # Errors
    /// `Busy`, with nothing logged: others have filled the leaf since. `Closed`, `Poisoned`, those of the log.
    fn commit_move(&self, record: &Record<'_>) -> Result<()> {
        let in_flight = self.log.begin();
        self.check_open()?;
        let ops = std::iter::once(*record);
        if let Some(filter) = &self.filter {
            let numbers = self.poison.watch(self.log.append(&in_flight, ops))?;
            self.filter_record(filter, record, &numbers);
            return Ok(());
        }
        loop {
            let guard = self.epoch.pin();
            let (path, mut leaf) = self.latch(record.key, &guard);
            if self.is_at_end_for_moved(leaf.location(), Coming::one(record.key)) && !self.drop_if_clean(&mut leaf) {
                return Err(TreeError::from(PageError::Busy));
            }
            // Under the latch: once it is logged there must be room for it.
            let logged = self.poison.watch(self.log.append_in_memory(&in_flight, ops.clone()))?;
            if let Some(numbers) = logged {
                self.apply_latched(&mut leaf, &path, ops, *numbers.end());
                return Ok(());
            }
            drop((leaf, path));
            drop(guard);
            self.poison.watch(self.log.make_room(&in_flight, ops.clone()))?;
        }
    }
}

fn is_busy(error: &TreeError) -> bool {
    matches!(error, TreeError::Store(error) if matches!(**error, PageError::Busy))
}

pub(crate) fn is_damage(error: &TreeError) -> bool {
    match error {
        TreeError::Damaged { .. } => true,
        TreeError::Store(error) => matches!(**error, PageError::Damaged { .. }),
        _ => false,
    }
}

/// Whether a merge that failed may be left for later, as log and buffer have all records.
pub(crate) fn can_wait(error: &TreeError) -> bool {
    crate::log::can_go_on(error) || is_damage(error)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use zonda_rt::atomic::AtomicBool;

    use super::*;
    use crate::{
        Durability, TreeOptions, recover,
        testing::{MemOptions, MemStore, Survives},
    };

    /// A tree of one leaf whose page holds nine pairs and whose buffer holds a tenth; where the page is, and what it is.
    fn waiting(merged_relocation: bool) -> (Arc<MemStore>, Tree, (PageId, PageAddress, Vec<u8>)) {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { merged_relocation, ..TreeOptions::default() };
        let tree =
            recover::create(Arc::clone(&store) as Arc<dyn zonda_pages::PageStore>, options).expect("an empty store");
        let put = |number: u8| tree.put(&[number], &[number; 8], Durability::Buffered).expect("room");
        (0..9).for_each(put);
        tree.compact(&mut |_, _| {}).expect("room");
        put(9);
        let (id, at) = store.live_pages()[0];
        let body = body(&store, id, at);
        (store, tree, (id, at, body))
    }

    /// A tree with one separated value; its chunk.
    fn with_a_value() -> (Arc<MemStore>, Tree, (ChunkAddress, Vec<u8>)) {
        use zonda_pages::PageStore;
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
        tree.put(b"key", &[7; 2_000], Durability::Buffered).expect("room");
        let chunk = store.value_chunks().pop().expect("the value");
        (store, tree, chunk)
    }

    fn body(store: &MemStore, id: PageId, at: PageAddress) -> Vec<u8> {
        use zonda_pages::PageStore;
        let mut found = Vec::new();
        store.read(id, at, &mut |body| found = body.to_vec()).expect("the page is there");
        found
    }

    #[test]
    fn a_tree_that_has_stopped_gives_no_zone_up() {
        let (_store, tree, _) = waiting(true);
        tree.commit_moves().expect("what there is to record is durable");
        tree.poison.set(TreeError::from(PageError::Busy));
        assert!(tree.commit_moves().is_err(), "with nothing to record, too");
    }

    #[test]
    fn moved_values_are_read_by_snapshots_that_keep_nothing_for_them() {
        use zonda_pages::PageStore;
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
        for number in 0..20_u8 {
            tree.put(&[number], &[number; 2_000], Durability::Buffered).expect("room");
        }
        let chunks = store.value_chunks();
        let snapshot = tree.open_snapshot();
        for (at, payload) in &chunks {
            assert_eq!(tree.relocate_value(*at, payload).expect("room"), Relocated::Moved);
        }
        assert_eq!((chunks.len(), tree.snapshots.kept_bytes()), (20, 0));
        tree.put(&[0], b"other", Durability::Buffered).expect("room");
        assert!(tree.snapshots.kept_bytes() > 0, "a put is a change");
        for number in 0..20_u8 {
            let mut value = Vec::new();
            assert!(tree.get_as_of(snapshot, &[number], &mut value).expect("sound") && value == [number; 2_000]);
        }
        tree.snapshots.close(snapshot);
    }

    /// The merge releases it: whoever took it for dead before would count it twice.
    #[test]
    fn a_value_that_is_superseded_and_not_merged_is_not_dead_yet() {
        let (store, tree, (at, payload)) = with_a_value();
        let liveness = || tree.value_liveness(at, &payload).expect("sound");
        assert_eq!(liveness(), Liveness::Live);
        tree.compact(&mut |_, _| {}).expect("room");
        assert_eq!(liveness(), Liveness::Live, "the page refers to it");
        tree.put(b"key", b"short", Durability::Buffered).expect("room");
        let released = store.wire().released_value_bytes();
        assert_eq!(liveness(), Liveness::Unknown);
        tree.compact(&mut |_, _| {}).expect("room");
        assert!(store.wire().released_value_bytes() > released && liveness() == Liveness::Dead);
    }

    /// It takes addresses that were superseded before it came, and only its snapshot kept them from being reused.
    #[test]
    fn a_reader_of_a_snapshot_that_is_given_up_is_waited_for() {
        let store = MemStore::new(MemOptions::default()) as Arc<dyn zonda_pages::PageStore>;
        let tree = recover::create(store, TreeOptions::default()).unwrap();
        for is_closed in [false, true] {
            let snapshot = tree.open_snapshot();
            let stamp = tree.stamp();
            let reader = tree.epoch.pin();
            assert!(!tree.drained(stamp));
            if is_closed {
                tree.snapshots.close(snapshot);
            } else {
                assert!(tree.snapshots.give_up());
            }
            assert!(!tree.drained(stamp) && !tree.drained(stamp), "somebody reads");
            drop(reader);
            assert!(tree.drained(stamp));
            if !is_closed {
                tree.snapshots.close(snapshot);
            }
        }
        let stamp = tree.stamp();
        let _reader = tree.epoch.pin();
        assert!(tree.drained(stamp), "without snapshots nobody who comes later finds what died before");
    }

    #[test]
    fn a_value_is_not_moved_when_the_tree_is_closed_and_nothing_fails() {
        let (store, tree, (at, payload)) = with_a_value();
        let record = Record { key: b"k", kind: Kind::Pointer, value: b"" };
        tree.closed.store(true, Ordering::SeqCst);
        let moved = tree.relocate_value(at, &payload).map_err(TreeError::from);
        assert_eq!(tree.poison.watch(moved).unwrap(), Relocated::Busy);
        assert_eq!(store.wire().released_value_bytes(), 0, "no copy was made");
        // Who is under way when it is closed.
        assert!(matches!(tree.commit_move(&record), Err(TreeError::Closed)));
        assert!(tree.poison.check().is_ok());
    }

    fn long_key(number: u32) -> Vec<u8> {
        [vec![b'k'; 900], number.to_be_bytes().to_vec()].concat()
    }

    const LONG_KEYS: u32 = 400;

    /// A tree of one leaf whose page fits its keys, as they share much, and whose buffer does not, as the leaf's range shares nothing; all
    /// of its values are to be moved.
    fn with_long_keys() -> (Arc<MemStore>, Tree) {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { value_inline_bytes_max: 0, leaf_bytes: 32 << 10, ..TreeOptions::default() };
        let tree =
            recover::create(Arc::clone(&store) as Arc<dyn zonda_pages::PageStore>, options).expect("an empty store");
        for number in 0..LONG_KEYS {
            tree.put(&long_key(number), &number.to_be_bytes(), Durability::Buffered).expect("room");
        }
        tree.compact(&mut |_, _| {}).expect("room");
        assert_eq!(tree.stats().leaves, 1);
        store.move_values();
        (store, tree)
    }

    fn has_all(tree: &Tree) -> bool {
        let mut value = Vec::new();
        (0..LONG_KEYS).all(|number| {
            tree.get_into(&long_key(number), &mut value).expect("readable") && value == number.to_be_bytes()
        })
    }

    #[test]
    fn a_leaf_that_has_no_room_for_more_moved_values_is_merged() {
        let (_store, tree) = with_long_keys();
        let merges = tree.stats().merges;
        while tree.reclaim_step().expect("room") == Step::Progress {}
        assert!(tree.stats().merges > merges && has_all(&tree));
    }

    #[test]
    fn a_value_whose_leaf_cannot_be_merged_and_has_no_room_stays_where_it_is() {
        let (store, tree) = with_long_keys();
        store.wire().set_full_of_pages(true);
        let refused = std::iter::repeat_with(|| tree.reclaim_step()).find(|step| !matches!(step, Ok(Step::Progress)));
        assert!(matches!(&refused, Some(Err(error)) if crate::tree::is_no_space(error)), "{refused:?}");
        tree.poison.check().expect("nothing has failed");
        let before = store.wire().released_value_bytes();
        store.move_values();
        assert!(tree.reclaim_step().is_err() && store.wire().released_value_bytes() == before, "no copy was made");
        assert!(has_all(&tree));
        store.wire().set_full_of_pages(false);
        store.move_values();
        while tree.reclaim_step().expect("room") == Step::Progress {}
        assert!(store.wire().released_value_bytes() > before && has_all(&tree));
        drop(tree);
        let store = store.reopen(Survives::Written) as Arc<dyn zonda_pages::PageStore>;
        let tree =
            recover::open(store, TreeOptions { value_inline_bytes_max: 0, ..TreeOptions::default() }, &mut |_| ());
        assert!(tree.is_ok_and(|tree| has_all(&tree)));
    }

    /// What writers add to a leaf between the question whether it has room for a moved pointer and the pointer may be more than a buffer
    /// has left beyond its end: then the value stays where it is, and nothing has failed.
    #[test]
    fn a_leaf_that_others_fill_while_a_value_is_copied_keeps_the_value_where_it_is() {
        let (store, tree) = with_long_keys();
        store.wire().set_full_of_pages(true);
        let tree = Arc::new(tree);
        let buffer_bytes = |tree: &Tree| {
            let leaf = tree.table.lock_shared(tree.leaf_of(&long_key(0)).0);
            leaf.location().buffer().map_or(0, |buffer| buffer.slots().used_bytes())
        };
        let filled = Arc::new(AtomicBool::new(false));
        let (weak, is_filled) = (Arc::downgrade(&tree), Arc::clone(&filled));
        store.watch_values(move || {
            let Some(tree) = weak.upgrade().filter(|tree| buffer_bytes(tree) > 160 << 10) else { return };
            if is_filled.swap(true, Ordering::SeqCst) {
                return;
            }
            for other in 0..4 {
                let key = [long_key(0), vec![other]].concat();
                let record = Record { key: &key, kind: Kind::Inline, value: &[7; 16_000] };
                let guard = tree.epoch.pin();
                let path = tree.index.find(&key, &guard);
                tree.apply_latched(&mut tree.table.lock(path.leaf()), &path, std::iter::once(record), 0);
            }
        });
        let mut stays = None;
        for (at, payload) in store.value_chunks() {
            let moved = tree.relocate_value(at, &payload).expect("its leaf had room");
            if moved != Relocated::Moved {
                stays = Some((moved, at, payload));
                break;
            }
        }
        let (moved, at, payload) = stays.expect("the leaf was filled");
        assert!(filled.load(Ordering::SeqCst) && moved == Relocated::Busy, "{moved:?}");
        tree.poison.check().expect("nothing has failed");
        assert_eq!(store.wire().released_value_bytes() % payload.len() as u64, 0);
        assert_eq!(tree.value_liveness(at, &payload).expect("sound"), Liveness::Live);
        assert!(has_all(&tree));
        store.wire().set_full_of_pages(false);
        assert_eq!(tree.relocate_value(at, &payload).expect("room"), Relocated::Moved);
        assert!(has_all(&tree) && tree.value_liveness(at, &payload).expect("sound") != Liveness::Live);
        tree.sync_to(tree.log.next_sequence() - 1).expect("room");
        drop(tree);
        let store = store.reopen(Survives::Flushed) as Arc<dyn zonda_pages::PageStore>;
        let tree =
            recover::open(store, TreeOptions { value_inline_bytes_max: 0, ..TreeOptions::default() }, &mut |_| ());
        assert!(tree.is_ok_and(|tree| has_all(&tree)));
    }

    #[test]
    fn a_moved_leaf_takes_along_what_waits_for_it_unless_told_not_to() {
        for merged in [true, false] {
            let (store, tree, (id, at, before)) = waiting(merged);
            assert_eq!(tree.relocate_page(id, at, &before).unwrap(), Relocated::Moved);
            let (moved_id, moved_to) = store.live_pages()[0];
            assert!(moved_id == id && moved_to != at, "{at:?} and then {moved_to:?}");
            assert_eq!(body(&store, id, moved_to) == before, !merged);
            assert_eq!(tree.relocate_page(id, at, &before).unwrap(), Relocated::Dead);
            tree.commit_moves().unwrap();
            drop(tree);
            let store = store.reopen(Survives::Flushed) as Arc<dyn zonda_pages::PageStore>;
            let tree = recover::open(store, TreeOptions::default(), &mut |_| ()).unwrap();
            for number in 0..10_u8 {
                let mut value = Vec::new();
                assert!(tree.get_into(&[number], &mut value).unwrap() && value == [number; 8], "pair {number}");
            }
        }
    }

    /// Of a store without a log: the checkpoint's image has an older record of what a merge put into a page, and a page that was only moved
    /// does not say what is in it (`sim --seed 3102727 --steps 500 --design bftree --store in-place --clients 3` found it). Whether nothing
    /// waits above the page, something does, or its zone fails.
    #[test]
    fn what_a_recovery_has_shown_without_a_log_the_next_one_shows_too() {
        for (waits, fails) in [(false, false), (true, false), (false, true)] {
            let store = shown_newer_than_its_image();
            let tree = opened(&store, false);
            assert_eq!(value_of(&tree).as_deref(), Some(&b"new"[..]));
            if waits {
                tree.put(b"other", b"waits", Durability::Buffered).expect("room");
            }
            let (id, page) = tree.leaf_of(b"key");
            let page = page.expect("it was merged");
            let body = tree.read_body(id, Some(page)).expect("readable").expect("a page");
            assert_eq!(tree.relocate_page(id, page, &body).expect("room"), Relocated::Moved);
            if fails {
                store.fail_zone();
            }
            tree.flush_meta().expect("room");
            for log in [false, true] {
                let tree = opened(&store.reopen(Survives::Flushed), log);
                assert_eq!(value_of(&tree).as_deref(), Some(&b"new"[..]), "log: {log}, {waits}, {fails}");
            }
        }
    }

    /// The same of a leaf that was emptied, whose range goes to its neighbour later.
    #[test]
    fn what_was_deleted_stays_so_without_a_log_when_its_leaf_goes() {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(as_pages(&store), options(false)).expect("an empty store");
        let put = |number: u32| tree.put(&number.to_be_bytes(), &[7; 60], Durability::Buffered).expect("room");
        (0..1_000).for_each(put);
        tree.merge_all(&mut |_| {}).expect("room");
        let key = 999_u32.to_be_bytes();
        let (id, _) = tree.leaf_of(&key);
        put(999);
        tree.checkpoint().expect("room");
        // It keeps the empty leaf.
        let _snapshot = tree.open_snapshot();
        let of_leaf = (0..1_000_u32).map(u32::to_be_bytes).filter(|key| tree.leaf_of(key).0 == id);
        of_leaf.for_each(|key| tree.delete(&key, Durability::Buffered).expect("room"));
        assert_eq!(tree.flush_leaf(id).expect("room"), crate::flush::Flushed::Done);
        tree.flush_meta().expect("room");

        let store = store.reopen(Survives::Flushed);
        let tree = opened(&store, false);
        assert!(!tree.get_into(&key, &mut Vec::new()).expect("readable"));
        tree.remove_empty(id, &key);
        assert_ne!(tree.leaf_of(&key).0, id);
        tree.flush_meta().expect("room");
        let tree = opened(&store.reopen(Survives::Flushed), false);
        assert!(!tree.get_into(&key, &mut Vec::new()).expect("readable"));
    }

    fn options(log: bool) -> TreeOptions {
        TreeOptions { log, merged_relocation: false, ..TreeOptions::default() }
    }

    fn as_pages(store: &Arc<MemStore>) -> Arc<dyn zonda_pages::PageStore> {
        Arc::clone(store) as Arc<dyn zonda_pages::PageStore>
    }

    fn opened(store: &Arc<MemStore>, log: bool) -> Tree {
        recover::open(as_pages(store), options(log), &mut |_| ()).expect("a sound store")
    }

    fn value_of(tree: &Tree) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        tree.get_into(b"key", &mut value).expect("readable").then_some(value)
    }

    /// A store whose power went, with "new" in the page of "key" and "old" in the checkpoint's image.
    fn shown_newer_than_its_image() -> Arc<MemStore> {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(as_pages(&store), options(false)).expect("an empty store");
        tree.put(b"key", b"old", Durability::Buffered).expect("room");
        tree.checkpoint().expect("room");
        tree.put(b"key", b"new", Durability::Buffered).expect("room");
        let (id, _) = tree.leaf_of(b"key");
        assert_eq!(tree.flush_leaf(id).expect("room"), crate::flush::Flushed::Done);
        tree.flush_meta().expect("room");
        store.reopen(Survives::Flushed)
    }
}
