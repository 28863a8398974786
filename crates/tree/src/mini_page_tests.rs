//! What mini-pages keep, drop and become (Bf-Tree section 5), seen from the reads and writes that they spare. Answers alone would be right
//! without any of it.
#![cfg(not(feature = "shuttle"))]

use std::{ops::Bound, sync::Arc};

use zonda_pages::{PageAddress, PageStore};
use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::{
    BufferClasses, Design, Durability, Eviction, MiniPages, TreeOptions,
    flush::{Flushed, Merge},
    leaf_page::LeafBody,
    record::Record,
    recover,
    scan::{Range, Scan, owned_pair},
    testing::{MemOptions, MemStore},
    tree::Tree,
};

/// Pairs of 8 B + 60 B, of which some fifty fill a leaf.
const VALUE_BYTES: usize = 60;
const MINI_PAGE_BYTES_MAX: usize = 2048;

/// Everything that is read is kept.
fn options() -> TreeOptions {
    let mini_pages = MiniPages { promotion_percent: 100, scan_promotion_percent: 100, ..MiniPages::default() };
    TreeOptions { design: Design::BfTree, buffer_bytes: 64 << 10, mini_pages, ..TreeOptions::default() }
}

/// The same with a ring that a few dozen leaves fill.
fn small() -> TreeOptions {
    TreeOptions { buffer_bytes: 32 << 10, ..options() }
}

struct Life {
    store: Arc<MemStore>,
    tree: Tree,
}

/// What a leaf has in memory.
#[derive(Debug, PartialEq, Eq)]
struct MiniPage {
    bytes: usize,
    records: usize,
    dirty: usize,
    is_mirror: bool,
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    [number.to_le_bytes()[0]; VALUE_BYTES]
}

impl Life {
    /// A tree with every other of the keys below `keys`, all of them in pages.
    fn with_pages(keys: u64, options: TreeOptions) -> Self {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("an empty store");
        let life = Self { store, tree };
        (0..keys).step_by(2).for_each(|number| life.put(number));
        life.tree.compact(&mut |_, _| {}).expect("room");
        // What the merges kept.
        while life.evict() {}
        life
    }

    fn put(&self, number: u64) {
        self.tree.put(&key(number), &value(number), Durability::Buffered).expect("room");
    }

    /// Gets a key; returns how many pages that read.
    fn reads_of(&self, number: u64) -> u64 {
        let before = self.tree.stats().leaf_reads;
        let mut read = Vec::new();
        let found = self.tree.get_into(&key(number), &mut read).expect("readable");
        assert_eq!(found.then_some(read), number.is_multiple_of(2).then(|| value(number).to_vec()), "{number}");
        self.tree.stats().leaf_reads - before
    }

    /// What the leaf of a key has in memory.
    fn mini_page(&self, number: u64) -> Option<MiniPage> {
        let guard = self.tree.epoch.pin();
        let leaf = self.tree.table.lock_shared(self.tree.index.find(&key(number), &guard).leaf());
        leaf.location().buffer().map(|buffer| MiniPage {
            bytes: buffer.bytes(),
            records: buffer.slots().len(),
            dirty: buffer.dirty_records().count(),
            is_mirror: buffer.is_complete(),
        })
    }

    /// The page of a key's leaf.
    fn page(&self, number: u64) -> Option<PageAddress> {
        let guard = self.tree.epoch.pin();
        let leaf = self.tree.table.lock_shared(self.tree.index.find(&key(number), &guard).leaf());
        leaf.location().page()
    }

    /// Evicts at the head of the ring; `false` if nothing is there.
    fn evict(&self) -> bool {
        self.tree.evict_mini_page(self.tree.pool.ring().expect("a tree of mini-pages")).expect("room")
    }

    /// Reads other leaves until the mini-page of a key's leaf is near the head.
    fn age(&self, number: u64) {
        let is_near_head = || {
            let guard = self.tree.epoch.pin();
            let leaf = self.tree.table.lock_shared(self.tree.index.find(&key(number), &guard).leaf());
            self.tree.is_near_head(leaf.location())
        };
        let aged = (1_000..20_000).step_by(10).any(|other| is_near_head() || self.reads_of(other) > 1);
        assert!(aged, "it never came near the head");
    }

    fn scan(&self, from: u64, pairs: usize) -> usize {
        let snapshot = self.tree.open_snapshot();
        let mut scan = Scan::new(snapshot, Range { low: Bound::Included(key(from).to_vec()), high: Bound::Unbounded });
        let next = || scan.next(&self.tree).expect("readable").map(owned_pair);
        let seen = std::iter::from_fn(next).take(pairs).count();
        self.tree.snapshots.close(snapshot);
        seen
    }

    fn writes(&self) -> u64 {
        self.store.wire().writes()
    }
}

#[test]
fn what_was_read_is_kept_and_so_is_that_it_is_not_there() {
    let life = Life::with_pages(400, options());
    assert_eq!((life.reads_of(10), life.reads_of(10)), (1, 0));
    assert_eq!((life.reads_of(11), life.reads_of(11)), (1, 0), "a phantom");
    assert_eq!(life.mini_page(10).map(|mini| (mini.records, mini.dirty)), Some((2, 0)), "both are clean");
    // A put over either is what counts.
    life.tree.delete(&key(10), Durability::Buffered).expect("room");
    life.tree.put(&key(11), b"new", Durability::Buffered).expect("room");
    let mut read = Vec::new();
    assert!(!life.tree.get_into(&key(10), &mut read).expect("readable"));
    assert!(life.tree.get_into(&key(11), &mut read).expect("readable") && read == b"new");
}

#[test]
fn what_mini_pages_do_is_counted() {
    let life = Life::with_pages(20_000, small());
    let before = life.tree.stats().mini_pages;
    let since = || {
        let now = life.tree.stats().mini_pages;
        [
            now.hits - before.hits,
            now.hits_of_none - before.hits_of_none,
            now.promoted - before.promoted,
            now.mirrors - before.mirrors,
            now.dropped - before.dropped,
            now.merged - before.merged,
            now.copied - before.copied,
        ]
    };
    assert_eq!([10, 10, 11, 11, 11].map(|number| life.reads_of(number)), [1, 0, 1, 0, 0]);
    assert_eq!(since(), [1, 2, 2, 0, 0, 0, 0], "found, not found, kept");
    life.scan(5_000, 1);
    assert_eq!(since()[3..], [1, 0, 0, 0], "a page was kept whole");
    life.put(10);
    assert!(life.evict());
    assert_eq!(since()[3..], [1, 1, 1, 0], "one without changes, one with");
    life.reads_of(0);
    life.age(0);
    life.reads_of(0);
    assert!(since()[6] > 0, "what is used near the head is copied");
}

#[test]
fn nothing_is_kept_without_promotion() {
    let never = MiniPages { promotion_percent: 0, scan_promotion_percent: 0, ..MiniPages::default() };
    let life = Life::with_pages(400, TreeOptions { mini_pages: never, ..options() });
    assert_eq!((life.reads_of(10), life.reads_of(10), life.scan(0, 100)), (1, 1, 100));
    assert_eq!(life.mini_page(10), None);
}

#[test]
fn mini_pages_double_to_their_limit_and_become_mirrors() {
    let life = Life::with_pages(2_000, TreeOptions { classes: BufferClasses::Paper, ..options() });
    let (mut sizes, mut reads) = (Vec::new(), 0);
    for number in (0..100).step_by(2) {
        reads += life.reads_of(number);
        let mini = life.mini_page(number).expect("what was read is kept");
        if sizes.last() != Some(&mini.bytes) {
            sizes.push(mini.bytes);
        }
        if mini.is_mirror {
            break;
        }
    }
    let mirror = life.mini_page(0).expect("it grew");
    assert!(mirror.is_mirror && mirror.dirty == 0, "{mirror:?}");
    let doubling = sizes.iter().take(sizes.len() - 1).copied();
    let all: Vec<usize> = (7..=11).map(|power| 1 << power).collect();
    assert_eq!((doubling.collect::<Vec<_>>(), all[all.len() - 1]), (all, MINI_PAGE_BYTES_MAX), "{sizes:?}");
    assert!(reads < mirror.records as u64, "{reads} reads for a leaf of {}", mirror.records);
    // All of the leaf is there, and all that is not.
    let last = 2 * mirror.records as u64 - 2;
    assert_eq!((0..last).map(|number| life.reads_of(number)).sum::<u64>(), 0);
    assert_eq!((life.writes(), life.scan(0, mirror.records)), (life.writes(), mirror.records));
}

/// Mini-pages that writes make too large are merged; what was used of them stays as a mirror, and nothing where nothing was.
#[test]
fn a_mini_page_that_writes_fill_leaves_a_mirror_if_it_is_read() {
    for is_read in [true, false] {
        let life = Life::with_pages(2_000, options());
        let merges = life.tree.stats().merges;
        let filled = (0..200).step_by(2).find(|&number| {
            life.put(number);
            if is_read {
                life.reads_of(number);
            }
            life.tree.stats().merges > merges
        });
        let last = filled.expect("it is merged when it is too large");
        let left = life.mini_page(0);
        assert_eq!(left.as_ref().is_some_and(|mini| mini.is_mirror), is_read, "{left:?}");
        let reads: u64 = (0..=last).map(|number| life.reads_of(number)).sum();
        assert_eq!(reads == 0, is_read, "{reads} reads of what was written and what is not there");
    }
}

#[test]
fn reads_and_scans_write_nothing_and_read_each_page_once_while_cold_mini_pages_make_room() {
    let life = Life::with_pages(20_000, TreeOptions { buffer_bytes: 16 << 10, ..options() });
    let writes = life.writes();
    // Far more than the ring holds, each once: cold and clean ones go without a look at their pages.
    let reads: u64 = (0..20_000).step_by(6).map(|number| life.reads_of(number)).sum();
    assert_eq!(reads, 20_000_u64.div_ceil(6));
    assert_eq!(life.scan(0, 10_000), 10_000);
    assert_eq!(life.writes(), writes);
}

#[test]
fn near_the_head_one_cold_dirty_record_has_all_merged_and_what_was_used_stays_clean() {
    let life = Life::with_pages(20_000, TreeOptions { eviction: Eviction::Oldest, ..small() });
    life.put(20);
    assert_eq!([30, 30, 31, 31].map(|number| life.reads_of(number)), [1, 0, 1, 0]);
    assert_eq!(life.mini_page(20).map(|mini| (mini.records, mini.dirty)), Some((3, 1)));
    life.age(20);
    let merges = life.tree.stats().merges;
    life.put(40);
    assert_eq!(life.tree.stats().merges, merges + 1, "dirty records went to the page");
    assert_eq!(life.mini_page(20).map(|mini| (mini.records, mini.dirty)), Some((2, 0)), "30 and 31");
    assert_eq!([30, 31, 20, 20].map(|number| life.reads_of(number)), [0, 0, 1, 0]);
}

#[test]
fn at_the_head_what_is_clean_goes_unread_and_what_is_dirty_is_merged() {
    let life = Life::with_pages(400, options());
    life.reads_of(10);
    let (merges, pages) = (life.tree.stats().merges, life.store.live_pages());
    assert!(life.evict());
    assert_eq!((life.mini_page(10), life.tree.stats().merges, life.store.live_pages()), (None, merges, pages));
    life.put(10);
    life.reads_of(12);
    assert!(life.evict());
    assert_eq!((life.mini_page(10), life.tree.stats().merges), (None, merges + 1));
    assert_eq!(life.reads_of(10), 1);
}

#[test]
fn what_is_used_gets_a_second_chance_and_what_is_not_goes() {
    let life = Life::with_pages(40_000, small());
    assert_eq!((life.reads_of(0), life.reads_of(20_000)), (1, 1));
    // Several rounds of the ring; the one is used all the while, the other is not.
    let (mut rounds, mut again) = (0, 0);
    for number in (300..40_000).step_by(10) {
        life.reads_of(number);
        rounds += 1;
        again += life.reads_of(0);
    }
    // Now and then there is no room to copy it to.
    assert!(100 * again < rounds, "{again} reads again in {rounds} uses");
    assert_eq!(life.reads_of(20_000), 1);
}

#[test]
fn without_copies_on_access_the_ring_is_a_queue_and_with_all_of_them_lru() {
    for (copy_on_access_percent, goes_first) in [(0, 0), (100, 10_000)] {
        let mini_pages = MiniPages { copy_on_access_percent, ..options().mini_pages };
        let options = TreeOptions { mini_pages, eviction: Eviction::Oldest, ..small() };
        let life = Life::with_pages(40_000, options);
        [0, 10_000, 0].into_iter().for_each(|number| _ = life.reads_of(number));
        let gone = (20_000..40_000).step_by(10).find_map(|other| {
            life.reads_of(other);
            [0, 10_000].into_iter().find(|number| life.mini_page(*number).is_none())
        });
        assert_eq!(gone, Some(goes_first), "{copy_on_access_percent} %");
    }
}

#[test]
fn a_split_hands_what_was_used_to_both_halves() {
    let life = Life::with_pages(100, options());
    let leaves = life.tree.stats().leaves;
    for number in [0, 98] {
        life.reads_of(number);
        life.reads_of(number);
    }
    // What is new makes the mini-page too long: it is merged, and the page then is too long.
    let split = (1..100).step_by(2).find(|&number| {
        life.tree.put(&key(number), &value(0), Durability::Buffered).expect("room");
        life.tree.stats().leaves > leaves
    });
    assert!(split.is_some(), "it did not split");
    assert_eq!([0, 98].map(|number| life.reads_of(number)), [0, 0]);
    assert!(life.mini_page(0).is_some_and(|mini| mini.records < 50) && life.mini_page(98).is_some());
}

#[test]
fn near_the_head_a_mirror_stays_for_scans_and_misses_and_else_becomes_a_mini_page_of_what_was_used() {
    for (is_scanned, asked, stays) in [(true, 4, true), (false, 5, true), (false, 4, false)] {
        let life = Life::with_pages(20_000, small());
        life.scan(0, 20);
        let mirror = life.mini_page(0).expect("a scanned page is kept whole");
        assert!(mirror.is_mirror && mirror.records > 20, "{mirror:?}");
        life.age(0);
        if is_scanned {
            life.scan(0, 20);
        }
        // There are even numbers only.
        assert_eq!(life.reads_of(asked), 0);
        let left = if stays { (true, mirror.records) } else { (false, 1) };
        assert_eq!(life.mini_page(0).map(|mini| (mini.is_mirror, mini.records)), Some(left), "{asked}");
    }
}

#[test]
fn a_damaged_page_keeps_nobody_from_making_room() {
    for eviction in [Eviction::Fullest, Eviction::Oldest] {
        let life = Life::with_pages(20_000, TreeOptions { eviction, ..options() });
        life.store.damage(life.page(0).expect("it has one"));
        // Its mini-page is the first and holds most.
        (0..20).step_by(2).for_each(|number| life.put(number));
        (1_000..16_000).step_by(100).for_each(|leaf| (0..6).step_by(2).for_each(|nth| life.put(leaf + nth)));
        // The ring has no room now, so what must move goes outside.
        life.tree.pool.set_limit_bytes(32 << 10);
        let mut evictions = (0..1_000).map_while(|_| life.tree.pool.is_over_limit().then(|| life.tree.evict()));
        assert!(evictions.all(|outcome| outcome.is_ok()), "{eviction:?}: others can go");
        assert!(!life.tree.pool.is_over_limit(), "{eviction:?}");
        (1_000..20_000).step_by(2).for_each(|number| life.put(number));
        // Writers have left it full; who reads asks for room.
        assert_eq!(life.reads_of(15_001), 1);
        while life.tree.pool.is_far_over() {
            life.tree.evict().expect("others can go");
        }
        life.reads_of(15_001);
        assert_eq!(life.reads_of(15_001), 0, "readers keep what they read");
        assert_eq!(life.reads_of(0), 0, "what the mini-page has is not lost");
    }
}

/// Copied to the tail while somebody was about to merge it: it was used, and takes another round.
#[test]
fn only_the_mini_page_that_was_claimed_is_merged() {
    let mini_pages = MiniPages { copy_on_access_percent: 100, ..options().mini_pages };
    let life = Life::with_pages(400, TreeOptions { mini_pages, ..options() });
    let ring = life.tree.pool.ring().expect("a tree of mini-pages");
    life.put(10);
    life.reads_of(12);
    let claim = ring.claim().expect("there is one");
    // Everything is near the head: whoever reads there copies.
    let (copied, counts) = (life.tree.stats().mini_pages.copied, life.tree.stats());
    life.reads_of(12);
    assert_eq!(life.tree.stats().mini_pages.copied, copied + 1);
    let merged = life.tree.merge_claimed(ring, claim, Merge::EVICTING).expect("room");
    assert_eq!(merged, Flushed::Nothing, "what was claimed is gone");
    let kept = Some(MiniPage { dirty: 1, ..life.mini_page(10).expect("the copy stays") });
    assert_eq!((life.mini_page(10), life.mini_page(10).map(|mini| mini.records)), (kept, Some(2)));
    let now = life.tree.stats();
    assert_eq!((now.merges, now.mini_pages.merged), (counts.merges, counts.mini_pages.merged));
    // One that is clean by now is dropped.
    life.tree.flush_leaf(life.tree.leaf_of(&key(10)).0).expect("room");
    life.reads_of(12);
    let claim = ring.claim().expect("there is one");
    assert_eq!(life.tree.merge_claimed(ring, claim, Merge::EVICTING).expect("room"), Flushed::Dropped);
    let then = life.tree.stats().mini_pages;
    assert_eq!((then.dropped, then.merged), (now.mini_pages.dropped + 1, now.mini_pages.merged));
}

#[test]
fn an_answer_that_is_there_already_is_not_counted_as_kept() {
    let life = Life::with_pages(400, options());
    life.reads_of(10);
    let (id, page) = life.tree.leaf_of(&key(10));
    let promoted = || life.tree.stats().mini_pages.promoted;
    let before = promoted();
    let _guard = life.tree.epoch.pin();
    let body = life.tree.read_body(id, page).expect("readable").expect("it has a page");
    let leaf_page = LeafBody::decode(&body).expect("its own page");
    for (number, kept) in [(10, 0), (12, 1), (12, 1)] {
        let found = leaf_page.find(&key(number)).expect("its own page").expect("even");
        let record = Record { key: &key(number), ..found };
        life.tree.promote((id, page.expect("it has a page")), &leaf_page, &record);
        assert_eq!(promoted() - before, kept, "{number}");
    }
}

/// Writes take long, and as long as anybody has a claim the head stands.
#[test]
fn nothing_is_claimed_while_pages_are_written() {
    let life = Life::with_pages(400, options());
    let (store, tree) = (Arc::clone(&life.store), Arc::new(life.tree));
    let (seen, watched) = (Arc::new(AtomicU64::new(0)), Arc::downgrade(&tree));
    let standing = Arc::clone(&seen);
    store.watch_pumps(move || {
        let tree = watched.upgrade().expect("the test has it");
        let is_empty = !tree.pool.ring().is_some_and(|ring| ring.holds_more_than(0));
        standing.fetch_add(if is_empty { 1 } else { 1_000 }, Ordering::Relaxed);
    });
    tree.put(&key(10), &value(10), Durability::Buffered).expect("room");
    assert_eq!(seen.load(Ordering::Relaxed), 0);
    assert!(tree.evict().expect("room"));
    assert_eq!(seen.load(Ordering::Relaxed), 1, "the only mini-page is merged, and the head has passed it");
}

#[test]
fn a_latched_leaf_at_the_head_keeps_nobody_from_looking_further() {
    for eviction in [Eviction::Fullest, Eviction::Oldest] {
        let life = Life::with_pages(20_000, TreeOptions { eviction, ..options() });
        [0, 1_000, 2_000].into_iter().for_each(|number| life.put(number));
        life.reads_of(3_000);
        let first = life.tree.table.lock(life.tree.leaf_of(&key(0)).0);
        while life.evict() {}
        let left = [1_000, 2_000, 3_000].map(|number| life.mini_page(number).is_some());
        assert_eq!(left, [false; 3], "{eviction:?}");
        drop(first);
        assert!(life.evict() && life.mini_page(0).is_none(), "{eviction:?}");
    }
}

/// A ring full of changes that nobody reads, and the background of a store in which nobody writes any more.
fn full_of_changes(keys: u64) -> Life {
    full_of_changes_with(keys, small())
}

fn full_of_changes_with(keys: u64, options: TreeOptions) -> Life {
    let life = Life::with_pages(keys, options);
    // A few of each leaf.
    (0..keys).step_by(14).for_each(|number| life.put(number));
    assert!(!life.tree.sweep().expect("room"), "somebody wrote since the last look");
    life
}

/// Gets each of `numbers` and lets the background go on after each; returns how many pages were read.
fn reads_beside_sweeps(life: &Life, numbers: &[u64]) -> u64 {
    let read = |number: &u64| {
        let reads = life.reads_of(*number);
        while life.tree.sweep().expect("room") {}
        reads
    };
    numbers.iter().map(read).sum()
}

#[test]
fn where_nobody_writes_the_ring_becomes_a_cache_of_what_is_read() {
    let keys = 6_000;
    let life = full_of_changes(keys);
    // As many as their records have room for, one of each leaf: not beside the changes.
    let favourites: Vec<u64> = (0..keys).step_by(100).map(|number| number + 50).collect();
    let dirty = || favourites.iter().filter_map(|number| life.mini_page(*number)).map(|page| page.dirty).sum::<usize>();
    let changed = dirty();
    assert!(changed > 100, "the ring holds changes");
    let (merges, leaves) = (life.tree.stats().merges, life.tree.stats().leaves);
    for _ in 0..40 {
        reads_beside_sweeps(&life, &favourites);
    }
    assert_eq!(reads_beside_sweeps(&life, &favourites), 0, "all have their place");
    assert!(dirty() < changed, "what was changed and not read made room");
    let merged = life.tree.stats().merges - merges;
    assert!(merged <= leaves, "each change was written once: {merged} merges of {leaves} leaves");
    life.tree.check(&mut |_, _| (), &mut |problem| panic!("{problem}")).expect("a whole store");
}

#[test]
fn changes_beside_one_that_is_read_do_not_escape_a_turn() {
    let keys = 6_000;
    let life = full_of_changes(keys);
    let changed = |number: &u64| life.mini_page(*number).map_or(0, |page| page.dirty);
    let leaves: Vec<u64> = (0..keys).step_by(60).collect();
    let dirty = || leaves.iter().map(changed).sum::<usize>();
    // One change of each leaf that is in the ring: read again and again, so that it is used wherever it is in the ring.
    let read: Vec<u64> = (0..keys).step_by(7 * 14).filter(|number| changed(number) > 1).collect();
    assert!(read.len() > 20 && dirty() > 100, "{} changes are read, of {}", read.len(), dirty());
    for number in (0..keys).step_by(6).cycle().take(2_000) {
        reads_beside_sweeps(&life, &[number]);
        let _ = read.iter().map(|number| life.reads_of(*number)).sum::<u64>();
    }
    assert_eq!(dirty(), 0, "each was written");
}

/// Behind what was read before them, where a reader who met a busy leaf asked for room: once they come to the head, they are in the way.
#[test]
fn changes_behind_a_stretch_of_clean_ones_are_turned_too() {
    let keys = 240_000;
    let life = Life::with_pages(keys, TreeOptions { buffer_bytes: 128 << 10, ..options() });
    let (tree, ring) = (&life.tree, life.tree.pool.ring().expect("a tree of mini-pages"));
    // A record of each leaf until the ring is full of small mini-pages, the newest of which are changed.
    let mut leaves = (0..keys).step_by(60);
    assert!(leaves.by_ref().any(|number| {
        life.reads_of(number);
        ring.is_over_for_readers()
    }));
    let changed: Vec<u64> = leaves.by_ref().take(20).collect();
    changed.iter().for_each(|number| life.put(*number));
    let dirty = || changed.iter().filter_map(|number| life.mini_page(*number)).map(|page| page.dirty).sum::<usize>();
    assert!(!tree.sweep().expect("room") && dirty() >= changed.len(), "{} changes", dirty());
    ring.want_room();
    leaves.for_each(|number| _ = reads_beside_sweeps(&life, &[number]));
    assert_eq!(dirty(), 0, "each was written");
}

#[test]
fn a_turn_of_the_ring_is_earned_by_reads_and_given_up_where_somebody_writes() {
    let keys = 6_000;
    let life = full_of_changes(keys);
    let merges = || life.tree.stats().merges;
    let before = merges();
    for _ in 0..100 {
        assert!(!life.tree.sweep().expect("room"), "nobody reads");
    }
    assert_eq!(merges(), before);
    let numbers: Vec<u64> = (0..keys).step_by(6).collect();
    let reads = reads_beside_sweeps(&life, &numbers);
    let swept = merges() - before;
    assert!(swept > 0 && swept <= reads / 8, "{swept} merges for {reads} reads");
    assert_eq!(life.tree.stats().mini_pages.merged_in_turns, swept);
    let before = merges();
    for number in (0..keys).step_by(60) {
        life.put(number);
        let written = merges();
        assert!((number..number + 30).step_by(2).map(|number| life.reads_of(number)).sum::<u64>() > 0);
        assert!(!life.tree.sweep().expect("room"), "somebody wrote");
        assert_eq!(merges(), written, "after {before}");
    }
}

#[test]
fn a_ring_that_is_not_to_be_turned_waits_for_writers() {
    for turns in [false, true] {
        let mini_pages = MiniPages { turns, ..options().mini_pages };
        let life = full_of_changes_with(6_000, TreeOptions { mini_pages, ..small() });
        let merges = life.tree.stats().merges;
        reads_beside_sweeps(&life, &(0..6_000).step_by(6).collect::<Vec<_>>());
        let stats = life.tree.stats();
        assert_eq!([stats.merges > merges, stats.mini_pages.merged_in_turns > 0], [turns; 2]);
    }
}

/// The background may be busy for writers and not come to it.
#[test]
fn a_turn_of_the_ring_is_over_with_the_first_write() {
    let keys = 6_000;
    let life = full_of_changes(keys);
    let is_under_way = || life.tree.sweep.is_under_way(|| life.tree.written());
    let begins = |number: u64| {
        reads_beside_sweeps(&life, &[number]);
        is_under_way()
    };
    assert!((0..keys).step_by(6).any(begins) && is_under_way());
    life.put(0);
    assert!(!is_under_way());
}

#[test]
fn a_ring_in_which_all_is_clean_is_turned_once_and_not_again_before_a_write() {
    let keys = 6_000;
    let life = Life::with_pages(keys, small());
    let (tree, ring) = (&life.tree, life.tree.pool.ring().expect("a tree of mini-pages"));
    assert!(!tree.sweep().expect("room"), "somebody wrote since the last look");
    let sweeps = || {
        // Reads of many leaves earn as much as could be spent, and leave a ring at its limit.
        let reads: u64 = (0..keys).step_by(2).map(|number| life.reads_of(number)).sum();
        assert!(reads > 2_000, "{reads} reads");
        let at_limit = |number: &u64| {
            life.reads_of(*number);
            ring.is_over_for_readers()
        };
        assert!((0..keys).step_by(2).any(|number| at_limit(&number)));
        ring.want_room();
        (0..1_000).filter(|_| tree.sweep().expect("room")).count()
    };
    let merges = tree.stats().merges;
    assert!(sweeps() <= 100, "a turn is as long as the ring");
    assert_eq!((sweeps(), sweeps()), (0, 0), "nobody wrote: nothing is dirty");
    assert_eq!(tree.stats().merges, merges);
}

#[test]
fn what_a_turn_moves_stays_whole() {
    let life = Life::with_pages(600, options());
    assert_eq!(life.reads_of(0), 1);
    let kept = life.mini_page(0);
    assert!(kept.as_ref().is_some_and(|page| page.records == 1), "{kept:?}");
    for _ in 0..2 {
        let mut leaf = life.tree.table.lock(life.tree.leaf_of(&key(0)).0);
        let before = leaf.location().buffer().map(|buffer| buffer.memory_at());
        assert!(life.tree.move_to_tail(&mut leaf));
        assert_ne!(leaf.location().buffer().map(|buffer| buffer.memory_at()), before);
    }
    assert_eq!(life.mini_page(0), kept);
}

#[test]
fn a_turn_ends_where_next_to_nothing_is_dirty() {
    let keys = 120_000;
    let life = Life::with_pages(keys, TreeOptions { buffer_bytes: 128 << 10, ..options() });
    let (tree, ring) = (&life.tree, life.tree.pool.ring().expect("a tree of mini-pages"));
    assert!(!tree.sweep().expect("room"), "somebody wrote since the last look");
    // A record of each leaf until the ring is full of small mini-pages.
    assert!((0..keys).step_by(60).cycle().take(8_000).any(|number| {
        life.reads_of(number);
        ring.is_over_for_readers() && tree.leaf_reads() > 4_096
    }));
    ring.want_room();
    let moves: usize = (0..1_000).filter(|_| tree.sweep().expect("room")).count();
    assert!((8..=16).contains(&moves), "16 mini-pages each, 256 in all: {moves}");
}
