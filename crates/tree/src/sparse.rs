//! Leaves that deletes left with little: empty ones leave the tree, and neighbours that fit fewer pages are joined in the background.
//!
//! A leaf that becomes part of its neighbour has snapshots keep both states (decision 0004). Where much was deleted, merges in the
//! background leave leaf after leaf so, and a scan beside them would be given up for the memory of states that nobody changed. So they wait
//! until no snapshot is open, as many as fit a bound; past it empty ones go at once, and of the others the next merge, `compact` or a full
//! store takes care. They do no harm meanwhile: an empty leaf has no page.
//!
//! What was deleted last waits in buffers, which may never be merged if nobody writes any more, and meanwhile the pages hold it. So when as
//! many records were deleted as a share of the leaves, and no more for a moment, there is a *search*: each leaf's buffer is looked at,
//! those are merged that leave their page sparse and half as long at the most, and leaves that are sparse already, for which there was no
//! room among those that wait, wait again; empty ones that are still there are taken out. It costs a lookup and a glance at a buffer for
//! each leaf, and no read but those of what it merges; while deletes go on a quarter of that for each.
//!
//! The MetaLog says which leaves are sparse, so that the next life knows it without a read: it begins with a search if there are any.

use zonda_pages::PageId;
use zonda_rt::{Mutex, atomic::Ordering};

use crate::{
    Step,
    buffer::Buffer,
    compact::{Fill, NEIGHBOURS_MAX, seem_to_join},
    flush::FOR_A_MERGE,
    leaf_table::Location,
    log::can_go_on,
    merge::PlannedPage,
    metalog::MetaRecord,
    record::{Kind, Record},
    relocate::is_damage,
    stats::count,
    tree::{Result, Tree},
};

/// A leaf is sparse that fills less than this part of its page: splits leave more, so only deletes make one.
const SPARSE_SHARE: usize = 3;

/// Leaves that a step of the search looks at.
const LOOKS_MAX: usize = 256;
/// A search begins once as many records were deleted as this part of the leaves, and nobody has deleted any since the step before.
const SEARCH_SHARE: u64 = 4;
/// While deletes go on, once they are this many times the leaves: a search costs each of them a quarter of a look at a leaf then.
const SEARCH_TIMES: u64 = 4;

/// What is to be done about a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    /// Nothing.
    Good,
    /// Its page is sparse.
    Sparse,
    /// Its page will be sparse, or gone, once the deletes in its buffer are merged.
    Owes,
    /// It has nothing, and a neighbour that can have its range.
    Empty,
}

/// A search through all leaves, in key order, for what deletes owe.
#[derive(Default)]
pub(crate) struct Search(Mutex<Place>);

#[derive(Default)]
struct Place {
    /// Where the search goes on, if there is one.
    next: Option<Vec<u8>>,
    /// Records deleted when it began.
    deletes: u64,
    /// Records deleted at the last step.
    seen: u64,
}

impl Search {
    /// Where to look next; `None` if too little was deleted for another search.
    fn go_on(&self, deletes: u64, leaves: u64) -> Option<Vec<u8>> {
        let mut place = self.0.lock();
        let (owed, is_quiet) = (deletes.saturating_sub(place.deletes), deletes == place.seen);
        place.seen = deletes;
        let is_due = if is_quiet { owed * SEARCH_SHARE >= leaves.max(1) } else { owed >= leaves * SEARCH_TIMES };
        if place.next.is_none() && is_due {
            (place.next, place.deletes) = (Some(Vec::new()), deletes);
        }
        place.next.clone()
    }

    fn stand_at(&self, next: Option<Vec<u8>>) {
        self.0.lock().next = next;
    }

    /// It goes through all leaves, whatever was deleted.
    fn begin(&self) {
        self.stand_at(Some(Vec::new()));
    }
}

/// What became of work that nobody waits for: a full store joins leaves before it refuses a write, and whoever reads a damaged page hears
/// of it.
fn in_background<T>(outcome: Result<T>) -> Result<Step> {
    match outcome {
        Err(error) if can_go_on(&error) => Ok(Step::Idle),
        Err(error) if is_damage(&error) => Ok(Step::Progress),
        outcome => outcome.map(|_| Step::Progress),
    }
}

impl Tree {
    /// Takes a leaf without records out of the tree, or lets it wait for snapshots that would have to keep it and its neighbour.
    pub(crate) fn remove_empty(&self, id: PageId, key: &[u8]) {
        if !self.snapshots.may_need(None) || !self.emptied.push(id, key) {
            self.remove_empty_now(id, key);
        }
    }

    /// Takes leaves out that waited for snapshots, if none is open now.
    pub(crate) fn remove_put_off(&self) {
        while !self.snapshots.may_need(None)
            && let Some((id, key)) = self.emptied.pop()
        {
            self.remove_empty_now(id, &key);
        }
    }

    fn is_sparse(&self, bytes: usize) -> bool {
        bytes * SPARSE_SHARE < self.body_bytes()
    }

    /// Remembers leaf `id`, whose range holds `key` and which was just merged, if it is sparse. No read.
    pub(crate) fn note_if_sparse(&self, id: PageId, key: &[u8]) {
        if self.is_sparse(self.known_bytes(id)) {
            self.sparse.push(id, key);
        }
    }

    /// Behind the record that gives leaf `id` the page it has, or that says so: says that it is sparse, if it is. For who has its latch.
    pub(crate) fn record_if_sparse(&self, id: PageId) {
        let bytes = self.known_bytes(id);
        if self.is_sparse(bytes) {
            let bytes = u32::try_from(bytes).expect("a third of a page").max(1);
            self.meta.append(&MetaRecord::Sparse { id, bytes }, 0);
        }
    }

    /// What an earlier life said of sparse leaves, each with about as many bytes as its page uses: the background looks at them.
    pub(crate) fn know_sparse(&self, leaves: impl Iterator<Item = (PageId, u32)>) {
        let mut is_any = false;
        for (id, bytes) in leaves {
            self.table.set_fill_bytes(id, bytes as usize, self.body_bytes());
            is_any = true;
        }
        if is_any {
            self.search.begin();
        }
    }

    /// After leaves went beside leaf `id`, whose range holds `key`: inner nodes with few children left become one, and a leaf that had no
    /// neighbour to be joined with under its own may have one now.
    pub(crate) fn gather_around(&self, id: PageId, key: &[u8]) {
        if self.index.gather(key, &self.epoch) {
            self.note_if_sparse(id, key);
        }
    }

    /// Background step: joins one leaf that was sparse with its neighbours, if that gives pages back, or, if none waits, searches on for
    /// leaves that deletes would leave so once they are merged. Reads up to eight neighbours, with no latch held. Waits for no zones: while
    /// they are short there is better to do with them.
    ///
    /// # Errors
    /// Those of the device, but not damage: whoever reads that page hears of it.
    pub(crate) fn join_sparse_step(&self) -> Result<Step> {
        self.check_writable()?;
        if self.snapshots.may_need(None) || self.store.is_short() || self.store.admit(FOR_A_MERGE).is_err() {
            return Ok(Step::Idle);
        }
        let Some((id, key)) = self.sparse.pop() else { return self.search_step() };
        let Some(low) = self.joinable_with(id, &key) else { return Ok(Step::Progress) };
        in_background(self.compact_group(&low, Fill::Loose))
    }

    /// Counts a record that deletes something: a search is due once there are enough of them.
    pub(crate) fn note_if_deleted(&self, record: &Record<'_>) {
        if record.kind == Kind::Tombstone {
            count(&self.counters.mine().deletes);
        }
    }

    /// Takes note of a page that is written: the estimate moves a sixteenth of the way.
    pub(crate) fn note_record_bytes(&self, page: &PlannedPage) {
        let (estimate, bytes) = (&self.counters.record_bytes_x16, (page.body.len() / page.records.max(1)) as u64);
        let before = estimate.load(Ordering::Relaxed);
        estimate.store(if before == 0 { 16 * bytes } else { before - before / 16 + bytes }, Ordering::Relaxed);
    }

    /// Looks at some leaves in key order, or up to the first one that it merges.
    fn search_step(&self) -> Result<Step> {
        let deletes = self.counters.all(|mine| &mine.deletes);
        let leaves = u64::from(self.leaves.load(Ordering::Relaxed));
        let Some(mut key) = self.search.go_on(deletes, leaves) else { return Ok(Step::Idle) };
        for _ in 0..LOOKS_MAX {
            let (id, high, outlook) = self.outlook_of(&key);
            if outlook == Outlook::Sparse && !self.sparse.push(id, &key) {
                break;
            }
            if outlook == Outlook::Owes {
                self.search.stand_at(high);
                return in_background(self.flush_leaf(id));
            }
            if outlook == Outlook::Empty {
                self.search.stand_at(high);
                self.remove_empty(id, &key);
                return Ok(Step::Progress);
            }
            let Some(next) = high else {
                self.search.stand_at(None);
                return Ok(Step::Progress);
            };
            key = next;
        }
        self.search.stand_at(Some(key));
        Ok(Step::Progress)
    }

    /// The leaf whose range holds `key`, where the next one begins, and what is to be done about it. No read.
    fn outlook_of(&self, key: &[u8]) -> (PageId, Option<Vec<u8>>, Outlook) {
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        let (id, high) = (path.leaf(), path.high());
        let Some(leaf) = self.table.try_lock_shared(id) else { return (id, high, Outlook::Good) };
        let location = leaf.location();
        let page_bytes = location.page().map_or(0, |_| self.known_bytes(id));
        let owes = location.buffer().filter(|buffer| buffer.is_dirty()).is_some_and(|buffer| {
            let left = self.bytes_left(buffer, page_bytes);
            // Each merge for deletes alone at least halves the page.
            self.is_sparse(left) && 2 * left <= page_bytes
        });
        let is_empty = matches!(location, Location::Empty) && path.has_beside();
        let outlook = match (owes, location.page().is_some() && self.is_sparse(page_bytes)) {
            _ if is_empty => Outlook::Empty,
            (true, _) => Outlook::Owes,
            (false, true) => Outlook::Sparse,
            (false, false) => Outlook::Good,
        };
        (id, high, outlook)
    }

    /// About what a page that uses `page_bytes` holds once `buffer` is merged.
    fn bytes_left(&self, buffer: &Buffer, page_bytes: usize) -> usize {
        let (mut deleted, mut pending_bytes) = (0, 0);
        for record in buffer.pending_records() {
            if record.kind == Kind::Tombstone {
                deleted += 1;
            } else {
                pending_bytes += record.key.len() + record.value.len();
            }
        }
        let record_bytes = self.counters.record_bytes_x16.load(Ordering::Relaxed) / 16;
        let record_bytes = usize::try_from(record_bytes).unwrap_or(usize::MAX);
        let of_page =
            if buffer.is_complete() { 0 } else { page_bytes.saturating_sub(record_bytes.saturating_mul(deleted)) };
        of_page + pending_bytes
    }

    /// The low fence of the leaf with which a group begins that holds leaf `id`, whose range holds `key`, and seems to fit fewer pages: of
    /// its own, or of its neighbour's to the left.
    fn joinable_with(&self, id: PageId, key: &[u8]) -> Option<Vec<u8>> {
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        let (parent, child) = path.parent();
        if path.leaf() != id {
            return None;
        }
        let seems_to_join = |first: &usize| {
            let last = (first + NEIGHBOURS_MAX).min(parent.len());
            seem_to_join(
                (*first..last).map(|child| self.known_bytes(parent.leaf(child))),
                Fill::Loose,
                self.body_bytes(),
            )
        };
        let first = (child.saturating_sub(1)..=child).rev().find(seems_to_join)?;
        Some(path.at_child(first).low())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use zonda_pages::{PageId, PageStore, Relocate};
    use zonda_rt::atomic::{AtomicU32, Ordering};

    use super::Search;
    use crate::{
        Design, Durability, Step, TreeOptions, recover,
        testing::{MemOptions, MemStore},
        tree::Tree,
    };

    const PAIRS: u32 = 20_000;

    fn key(number: u32) -> [u8; 4] {
        number.wrapping_mul(0x9e37_79b9).to_be_bytes()
    }

    /// Scattered pairs of which only every tenth is left; what was deleted is merged.
    fn thinned_out(design: Design) -> (Arc<MemStore>, Tree) {
        let store = MemStore::new(MemOptions::default());
        let options = TreeOptions { design, ..TreeOptions::default() };
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("empty");
        (0..PAIRS).for_each(|number| tree.put(&key(number), &[7; 12], Durability::Buffered).expect("room"));
        tree.merge_all(&mut |_| {}).expect("room");
        let deleted = (0..PAIRS).filter(|number| !number.is_multiple_of(10));
        deleted.for_each(|number| tree.delete(&key(number), Durability::Buffered).expect("room"));
        tree.merge_all(&mut |_| {}).expect("room");
        (store, tree)
    }

    fn leaves(tree: &Tree) -> u32 {
        tree.leaves.load(Ordering::Relaxed)
    }

    #[test]
    fn neighbours_that_deletes_left_sparse_become_one() {
        for design in [Design::BTree, Design::Adb, Design::Deltas, Design::BfTree] {
            let (_, tree) = thinned_out(design);
            let before = leaves(&tree);
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            assert!(leaves(&tree) * 4 < before, "{design:?}: {} of {before} leaves", leaves(&tree));
            for number in 0..PAIRS {
                let found = tree.get_into(&key(number), &mut Vec::new()).expect("sound");
                assert_eq!(found, number.is_multiple_of(10), "{design:?}: {number}");
            }
        }
    }

    /// A reader of one of eight leaves would wait for eight reads of the device.
    #[test]
    fn no_leaf_is_latched_while_pages_are_read_to_join_leaves() {
        for design in [Design::Adb, Design::Deltas, Design::BfTree] {
            let (store, tree) = thinned_out(design);
            let (tree, reads) = (Arc::new(tree), Arc::new(AtomicU32::new(0)));
            let (watched, counted) = (Arc::downgrade(&tree), Arc::clone(&reads));
            store.watch_reads(move || {
                let tree = watched.upgrade().expect("somebody reads with it");
                let latched = (0..tree.table.len()).map(PageId).find(|&id| tree.table.try_lock(id).is_none());
                assert_eq!(latched, None, "{design:?}");
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let before = leaves(&tree);
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            assert!(leaves(&tree) * 4 < before && reads.load(Ordering::Relaxed) > 0, "{design:?}");
            tree.compact(&mut |_, _| {}).expect("room");
        }
    }

    #[test]
    fn deletes_that_wait_in_buffers_are_searched_for_once_there_are_enough() {
        for design in [Design::BTree, Design::Adb, Design::Deltas, Design::BfTree] {
            let store = MemStore::new(MemOptions::default());
            let options = TreeOptions { design, ..TreeOptions::default() };
            let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("empty");
            (0..PAIRS).for_each(|number| tree.put(&key(number), &[7; 12], Durability::Buffered).expect("room"));
            tree.merge_all(&mut |_| {}).expect("room");
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            let (pages, delete) = (store.live_pages().len(), |number| tree.delete(&key(number), Durability::Buffered));
            let few = leaves(&tree) / 5;
            (0..few).for_each(|number| delete(number).expect("room"));
            assert_eq!(tree.join_sparse_step().expect("room"), Step::Idle, "{design:?}");
            (few..PAIRS).for_each(|number| delete(number).expect("room"));
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            let left = store.live_pages().len();
            assert!(left * 20 < pages, "{design:?}: {left} of {pages} pages are left");
            assert!((0..PAIRS).all(|number| !tree.get_into(&key(number), &mut Vec::new()).expect("sound")));
        }
    }

    #[test]
    fn leaves_that_reclaim_empties_leave_the_tree() {
        for has_queue in [true, false] {
            let store = MemStore::new(MemOptions::default());
            let tree =
                recover::create(Arc::clone(&store) as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
            (0..PAIRS).for_each(|number| tree.put(&key(number), &[7; 12], Durability::Buffered).expect("room"));
            tree.merge_all(&mut |_| {}).expect("room");
            (0..PAIRS).for_each(|number| tree.delete(&key(number), Durability::Buffered).expect("room"));
            for (id, at) in store.live_pages() {
                let mut page = Vec::new();
                store.read(id, at, &mut |body| page = body.to_vec()).expect("it is live");
                tree.relocate_page(id, at, &page).expect("room");
            }
            assert!(store.live_pages().is_empty() && leaves(&tree) > 50, "{} leaves", leaves(&tree));
            match has_queue {
                true => tree.remove_put_off(),
                // As after an opening, or where more were emptied than may wait.
                false => while tree.emptied.pop().is_some() {},
            }
            assert_eq!(leaves(&tree) == 1, has_queue, "{} leaves", leaves(&tree));
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            assert_eq!(leaves(&tree), 1);
        }
    }

    /// As a queue does: keys come at the end and go at the front.
    #[test]
    fn what_has_come_and_gone_leaves_nothing_in_the_index() {
        const ROUND: u32 = 6_000;
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
        let bytes_after = |round: u32| {
            let keys = || (round * ROUND..(round + 1) * ROUND).map(u32::to_be_bytes);
            keys().for_each(|key| tree.put(&key, &[7; 500], Durability::Buffered).expect("room"));
            tree.merge_all(&mut |_| {}).expect("room");
            assert!(leaves(&tree) > 600, "{} leaves", leaves(&tree));
            keys().for_each(|key| tree.delete(&key, Durability::Buffered).expect("room"));
            tree.merge_all(&mut |_| {}).expect("room");
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            assert_eq!(leaves(&tree), 1);
            tree.index.memory_bytes()
        };
        let bytes: Vec<u64> = (0..6).map(bytes_after).collect();
        assert!(bytes.iter().all(|of_round| *of_round == bytes[0]), "{bytes:?}");
    }

    /// As a queue does of which some entries stay.
    #[test]
    fn what_few_are_left_of_a_queue_share_leaves_and_inner_nodes() {
        const ROUND: u32 = 6_000;
        const STAYS: u32 = 2_000;
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
        let mut bytes = Vec::new();
        for round in 0..20 {
            let keys = || round * ROUND..(round + 1) * ROUND;
            let put = |key: u32| tree.put(&key.to_be_bytes(), &[7; 500], Durability::Buffered);
            keys().for_each(|key| put(key).expect("room"));
            tree.merge_all(&mut |_| {}).expect("room");
            let gone = keys().filter(|key| key % STAYS != STAYS / 2);
            gone.for_each(|key| tree.delete(&key.to_be_bytes(), Durability::Buffered).expect("room"));
            tree.merge_all(&mut |_| {}).expect("room");
            while tree.join_sparse_step().expect("room") == Step::Progress {}
            bytes.push(tree.index.memory_bytes());
        }
        let stay = 20 * ROUND / STAYS;
        let found = (0..20 * ROUND).filter(|key| tree.get_into(&key.to_be_bytes(), &mut Vec::new()).expect("sound"));
        assert!(found.eq((0..stay).map(|at| at * STAYS + STAYS / 2)));
        // Seven fill a leaf, which is three quarters full at most.
        assert!(leaves(&tree) <= stay / 2, "{} leaves for {stay} pairs", leaves(&tree));
        let guard = tree.epoch.pin();
        let levels = tree.index.levels(&guard) as u64;
        assert!(bytes[19] < levels * 200 + u64::from(stay) * 20, "{bytes:?}");
    }

    #[test]
    fn what_deletes_left_sparse_is_joined_by_the_next_life() {
        for design in [Design::BTree, Design::Adb, Design::Deltas, Design::BfTree] {
            for checkpoints in [true, false] {
                let (store, tree) = thinned_out(design);
                let before = leaves(&tree);
                if checkpoints {
                    tree.checkpoint().expect("room");
                } else {
                    tree.flush_meta().expect("room");
                }
                let options = TreeOptions { design, ..TreeOptions::default() };
                std::mem::forget(tree);
                let tree =
                    recover::open(Arc::clone(&store) as Arc<dyn PageStore>, options, &mut |_| ()).expect("sound");
                while tree.join_sparse_step().expect("room") == Step::Progress {}
                assert!(leaves(&tree) * 4 < before, "{design:?}, {checkpoints}: {} of {before} leaves", leaves(&tree));
                for number in 0..PAIRS {
                    let found = tree.get_into(&key(number), &mut Vec::new()).expect("sound");
                    assert_eq!(found, number.is_multiple_of(10), "{design:?}, {checkpoints}: {number}");
                }
            }
        }
    }

    #[test]
    fn a_search_waits_for_the_end_of_deletes_or_for_many() {
        const LEAVES: u64 = 100;
        let search = Search::default();
        let begins = |deletes| search.go_on(deletes, LEAVES).is_some();
        assert!(!begins(24) && !begins(24), "too few");
        assert!(!begins(25), "somebody is at it");
        assert!(begins(25), "nobody is");
        search.stand_at(None);
        assert!(!begins(25) && !begins(424), "it has been looked for");
        assert!(begins(425), "many");
        search.stand_at(None);
        assert!(!begins(425));
    }

    #[test]
    fn sparse_leaves_wait_for_snapshots() {
        let (_, tree) = thinned_out(Design::Adb);
        let (before, snapshot) = (leaves(&tree), tree.open_snapshot());
        assert_eq!(tree.join_sparse_step().expect("room"), Step::Idle);
        assert_eq!((leaves(&tree), tree.snapshots.kept_bytes()), (before, 0));
        tree.snapshots.close(snapshot);
        assert_eq!(tree.join_sparse_step().expect("room"), Step::Progress);
    }

    #[test]
    fn leaves_that_nobody_deleted_from_are_left_alone() {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(store as Arc<dyn PageStore>, TreeOptions::default()).expect("empty");
        for number in 0..PAIRS {
            tree.put(&key(number), &[7; 12], Durability::Buffered).expect("room");
            tree.put(&number.to_be_bytes(), &[7; 12], Durability::Buffered).expect("room");
        }
        tree.merge_all(&mut |_| {}).expect("room");
        let before = leaves(&tree);
        while tree.join_sparse_step().expect("room") == Step::Progress {}
        assert_eq!(leaves(&tree), before);
    }
}
