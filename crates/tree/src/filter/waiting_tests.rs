//! Records that wait above leaves that cannot be merged, for want of space or because a page is damaged.
#![cfg(not(feature = "shuttle"))]

use std::sync::Arc;

use zonda_pages::{Liveness, PageId, PageStore, Relocate};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Filter;
use crate::{
    BatchOp, Durability, FilterEviction, TreeOptions,
    record::{Kind, Record},
    recover,
    relocate::{can_wait, is_damage},
    testing::{MemOptions, MemStore, Survives},
    tree::Tree,
};

const KEYS: u64 = 4_000;
/// Records of 1,000 bytes, about half of which a leaf's buffer takes at the most.
const WAITING: u32 = 400;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A key of the first leaf.
fn first_key(nth: u32) -> Vec<u8> {
    [&key(0)[..], &nth.to_be_bytes()].concat()
}

fn options(filter_bytes: u64) -> TreeOptions {
    TreeOptions { filter_bytes, filter_eviction: FilterEviction::Nodes, ..TreeOptions::default() }
}

/// A tree of some 30 leaves, whose pages have the even keys. The page of the first one may be damaged.
fn scene(options: TreeOptions, is_damaged: bool) -> (Arc<MemStore>, Tree) {
    let store = MemStore::new(MemOptions::default());
    let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("an empty store");
    for number in 0..KEYS {
        tree.put(&key(2 * number), &[1; 16], Durability::Buffered).expect("room");
    }
    tree.compact(&mut |_, _| {}).expect("room");
    if is_damaged {
        store.damage(tree.leaf_of(&key(0)).1.expect("it was merged"));
    }
    (store, tree)
}

/// The next life. Counts the pages that are asked for.
fn reopen(store: &MemStore, options: TreeOptions, is_full: bool) -> (Arc<MemStore>, Tree, Arc<AtomicU64>) {
    let store = store.reopen(Survives::Flushed);
    store.wire().set_full_of_pages(is_full);
    let reads = count_reads(&store);
    let tree = recover::open(Arc::clone(&store) as Arc<dyn PageStore>, options, &mut |_| ()).expect("a whole store");
    (store, tree, reads)
}

fn count_reads(store: &MemStore) -> Arc<AtomicU64> {
    let reads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reads);
    store.watch_reads(move || _ = counted.fetch_add(1, Ordering::SeqCst));
    reads
}

fn filter(tree: &Tree) -> &Filter {
    tree.filter.as_ref().expect("it was asked for")
}

fn put(tree: &Tree, key: &[u8]) -> crate::tree::Result<()> {
    tree.put(key, &[7; 1_000], Durability::Synced)
}

fn has(tree: &Tree, key: &[u8], expected: &[u8]) -> bool {
    let mut value = Vec::new();
    tree.get_into(key, &mut value).expect("readable") && value == expected
}

fn has_what_waits(tree: &Tree) -> bool {
    (0..WAITING).all(|nth| has(tree, &first_key(nth), &[7; 1_000]))
}

/// In one batch, whatever the filter may hold.
fn put_what_will_wait(tree: &Tree) {
    let keys: Vec<_> = (0..WAITING).map(first_key).collect();
    let puts: Vec<_> = keys.iter().map(|key| BatchOp::Put { key, value: &[7; 1_000] }).collect();
    tree.write(&puts, Durability::Synced).expect("it is looked at later");
}

/// The same for another leaf, which is whole; returns the keys.
fn put_elsewhere(tree: &Tree) -> Vec<Vec<u8>> {
    let keys: Vec<_> = (0..WAITING).map(|nth| [&key(4_001)[..], &nth.to_be_bytes()].concat()).collect();
    let puts: Vec<_> = keys.iter().map(|key| BatchOp::Put { key, value: &[7; 1_000] }).collect();
    tree.write(&puts, Durability::Synced).expect("the filter has room");
    keys
}

/// There is no room for pages until all of the filter is on its way and a merge was refused.
fn end_full_with_filter(store: &Arc<MemStore>, tree: &Arc<Tree>) {
    store.wire().set_full_of_pages(true);
    let (weak, watched, has_ended) = (Arc::downgrade(tree), Arc::downgrade(store), AtomicBool::new(false));
    store.watch_pumps(move || {
        let is_on_its_way = weak.upgrade().is_some_and(|tree| filter(&tree).valid_nodes() == 0);
        if is_on_its_way && !has_ended.swap(true, Ordering::SeqCst) {
            watched.upgrade().expect("it pumps").wire().set_full_of_pages(false);
        }
    });
}

#[test]
fn a_leaf_that_cannot_be_merged_is_asked_once_for_all_batches_of_an_array() {
    for is_damaged in [true, false] {
        let (store, tree) = scene(options(2 << 20), is_damaged);
        put_what_will_wait(&tree);
        let (before, nodes, reads) = (filter(&tree).evictions(), filter(&tree).valid_nodes(), count_reads(&store));
        store.wire().set_full_of_pages(!is_damaged);
        assert!(tree.empty_filter().is_err_and(|error| can_wait(&error)) && !filter(&tree).is_empty());
        tree.poison.check().expect("nothing has failed");
        let (evictions, reads) = (filter(&tree).evictions() - before, reads.load(Ordering::SeqCst));
        // By a record that makes its buffer large, and by one that finds no room there.
        assert!(reads > 0 && reads <= 2 * evictions, "{reads} reads in {evictions} evictions");
        assert!(nodes > 100 && evictions < 30, "{evictions} evictions of {nodes} nodes");
        assert!(has_what_waits(&tree));
        store.wire().set_full_of_pages(false);
        assert_eq!(tree.empty_filter().is_ok(), !is_damaged, "it is asked again");
    }
}

/// Nor need there be a filter that was asked for: recovery has one in case, which goes with the first life that does not need it.
#[test]
fn recovery_asks_a_leaf_that_cannot_be_merged_once_and_opens() {
    for (is_damaged, filter_bytes) in [(true, 64 << 10), (true, 0), (false, 64 << 10), (false, 0)] {
        let (store, tree) = scene(options(2 << 20), is_damaged);
        tree.checkpoint().expect("room");
        put_what_will_wait(&tree);
        drop(tree);
        for _ in 0..2 {
            let (store, tree, reads) = reopen(&store, options(filter_bytes), !is_damaged);
            let reads = reads.load(Ordering::SeqCst);
            // By a record that makes its buffer large, and by one that finds no room there, which is tried in two ways.
            assert!(reads > 0 && reads <= 3, "{reads} reads");
            assert!(filter(&tree).valid_nodes() > 0 && has_what_waits(&tree));
            tree.checkpoint().expect("it writes no page");
            if is_damaged {
                for number in 0..100 {
                    put(&tree, &key(2_001 + 2 * number)).expect("others have room");
                }
                assert!(put(&tree, &first_key(WAITING)).is_err_and(|error| is_damage(&error)));
            }
            assert!(has_what_waits(&tree));
            drop(tree);
            drop(store);
        }
        let (_store, tree, _) = reopen(&store, options(filter_bytes), false);
        assert_eq!(tree.filter.is_some(), is_damaged || filter_bytes > 0);
        assert!(has_what_waits(&tree));
    }
}

#[test]
fn a_filter_full_of_what_one_leaf_has_no_room_for_keeps_nobody_from_writing_elsewhere() {
    let (_store, tree) = scene(options(64 << 10), true);
    put_what_will_wait(&tree);
    for number in 1_000..2_000 {
        put(&tree, &key(2 * number + 1)).expect("others have room");
        tree.delete(&key(2 * number), Durability::Buffered).expect("others have room");
    }
    assert!(filter(&tree).waiting_bytes() > 3 * (64 << 10) && !filter(&tree).is_full());
    let refused = |written: crate::tree::Result<()>| written.is_err_and(|error| is_damage(&error));
    for nth in [0, 1, WAITING - 1, WAITING] {
        assert!(refused(put(&tree, &first_key(nth))) && refused(tree.delete(&first_key(nth), Durability::Buffered)));
    }
    tree.poison.check().expect("nothing has failed");
    assert!(has_what_waits(&tree) && has(&tree, &key(2_001), &[7; 1_000]) && has(&tree, &key(3_999), &[7; 1_000]));
    let mut value = Vec::new();
    assert!(!tree.get_into(&key(2_000), &mut value).expect("in memory"));
}

/// What others put meanwhile is no reason to take it for stuck.
#[test]
fn a_writer_is_not_refused_while_something_goes_down() {
    let (store, tree) = scene(options(64 << 10), true);
    let tree = Arc::new(tree);
    put_what_will_wait(&tree);
    tree.empty_filter().expect_err("its page is damaged");
    let elsewhere = |nth: u32| [&key(4_001)[..], &nth.to_be_bytes()].concat();
    let add = move |tree: &Tree, nths: std::ops::Range<u32>| {
        let last = tree.log.next_sequence() - 1;
        for key in nths.map(elsewhere) {
            let record = Record { key: &key, kind: Kind::Inline, value: &[7; 1_000] };
            tree.filter_record(filter(tree), &record, &(last..=last));
        }
    };
    add(&tree, 0..40);
    assert!(filter(&tree).is_full());
    let (weak, has_added, before) = (Arc::downgrade(&tree), AtomicBool::new(false), filter(&tree).evictions());
    store.watch_reads(move || {
        let Some(tree) = weak.upgrade() else { return };
        // A merge of the leaf that takes them, behind an eviction by who waits.
        if filter(&tree).evictions() > before + 1 && !has_added.swap(true, Ordering::SeqCst) {
            add(&tree, 40..80);
        }
    });
    let merges = tree.stats().merges;
    put(&tree, &key(6_001)).expect("others have room");
    assert!(tree.stats().merges > merges && !filter(&tree).is_full());
    assert!((0..80).all(|nth| has(&tree, &elsewhere(nth), &[7; 1_000])), "nobody added them");
}

#[test]
fn buffers_stay_within_their_memory_also_where_something_waits() {
    let (_store, tree) = scene(TreeOptions { buffer_bytes: 512 << 10, ..options(2 << 20) }, true);
    put_what_will_wait(&tree);
    tree.empty_filter().expect_err("its page is damaged");
    tree.make_buffer_room().expect("others can go");
    assert!(filter(&tree).evict(tree.around(), |_| true, &mut |_, _| ()));
    for number in 1_000..KEYS {
        let key = key(2 * number + 1);
        let record = Record { key: &key, kind: Kind::Inline, value: &[7; 200] };
        let guard = tree.epoch.pin();
        let path = tree.index.find(&key, &guard);
        tree.apply_latched(&mut tree.table.lock(path.leaf()), &path, std::iter::once(record), 0);
    }
    assert!(tree.pool.is_over());
    tree.serve_filter().expect("it takes a batch of which something waits");
    assert!(filter(&tree).waiting_bytes() > 0 && !tree.pool.is_over());
}

#[test]
fn compaction_goes_on_behind_leaves_that_it_cannot_merge() {
    for filter_bytes in [2 << 20, 0] {
        let (_store, tree) = scene(options(filter_bytes), true);
        if filter_bytes > 0 {
            put_what_will_wait(&tree);
        } else {
            put(&tree, &first_key(0)).expect("its buffer has room");
        }
        for number in 400..KEYS - 400 {
            tree.delete(&key(2 * number), Durability::Buffered).expect("room");
        }
        put(&tree, &key(4_001)).expect("room");
        let (before, first) = (tree.stats().leaves, tree.leaf_of(&key(0)).0);
        assert!(tree.compact(&mut |_, _| {}).is_err_and(|error| is_damage(&error)));
        tree.poison.check().expect("nothing has failed");
        let leaves = tree.stats().leaves;
        assert!(leaves * 3 < before, "{leaves} leaves of {before}");
        let is_buffered = |id: &PageId| tree.table.lock_shared(*id).location().buffer().is_some();
        assert!((0..tree.table.len()).map(PageId).filter(is_buffered).eq([first]), "something was not merged");
        assert!(has(&tree, &key(4_001), &[7; 1_000]));
    }
}

/// Whoever writes hears that a store is full; of damage nobody hears who does not read just there.
#[test]
fn compaction_of_a_store_that_fills_up_tells_the_damage_that_it_met() {
    for filter_bytes in [2 << 20, 0] {
        let (store, tree) = scene(options(filter_bytes), true);
        let puts = [first_key(0), key(4_001).to_vec()];
        puts.iter().for_each(|key| put(&tree, key).expect("its buffer has room"));
        let told = tree.compact(&mut |_, _| store.wire().set_full_of_pages(true));
        assert!(told.as_ref().is_err_and(is_damage), "{told:?}");
        tree.poison.check().expect("nothing has failed");
        store.wire().set_full_of_pages(false);
        assert!(tree.compact(&mut |_, _| {}).is_err_and(|error| is_damage(&error)));
        assert!(puts.iter().all(|key| has(&tree, key, &[7; 1_000])));
    }
}

/// That nothing can be written any more matters more than a leaf that cannot be read.
#[test]
fn compaction_that_stops_the_tree_tells_that_and_not_the_damage() {
    let (store, tree) = scene(options(0), true);
    let puts = [first_key(0), key(4_001).to_vec()];
    puts.iter().for_each(|key| put(&tree, key).expect("its buffer has room"));
    let told = tree.compact(&mut |_, _| store.wire().cut_after(1));
    assert!(told.as_ref().is_err_and(|error| !is_damage(error)), "{told:?}");
    assert!(tree.poison.check().is_err());
}

/// The same where what waits had no room at first: damage that was met between is not hidden by the store being full again.
#[test]
fn compaction_that_tries_again_tells_the_damage_that_it_met() {
    // Full until all of the filter is on its way, and again from the report with this number on.
    let compact = |full_from: u32| {
        let (store, tree) = scene(options(2 << 20), true);
        let tree = Arc::new(tree);
        put_elsewhere(&tree);
        end_full_with_filter(&store, &tree);
        let mut reports = 0;
        let told = tree.compact(&mut |_, _| {
            reports += 1;
            if reports >= full_from {
                store.wire().set_full_of_pages(true);
            }
        });
        assert!(told.as_ref().is_err_and(is_damage), "full from {full_from}: {told:?}");
        tree.poison.check().expect("nothing has failed");
        (reports, tree.leaves.load(Ordering::Relaxed))
    };
    let (reports, leaves) = compact(u32::MAX);
    // The second try reports each leaf.
    compact(reports - leaves);
}

/// As the zones are that joins give back: what had no room before has it in the end.
#[test]
fn compaction_tries_again_what_found_no_room_before_it_made_some() {
    let (store, tree) = scene(options(2 << 20), false);
    let tree = Arc::new(tree);
    let keys = put_elsewhere(&tree);
    end_full_with_filter(&store, &tree);
    tree.compact(&mut |_, _| {}).expect("there is room by now");
    let is_buffered = |id: PageId| tree.table.lock_shared(id).location().buffer().is_some();
    assert!(filter(&tree).is_empty() && !(0..tree.table.len()).map(PageId).any(is_buffered));
    assert!(keys.iter().all(|key| has(&tree, key, &[7; 1_000])));
}

/// While nobody writes, nothing changes but by what reclaim moves: at each look the same pages would be read.
#[test]
fn the_background_asks_damaged_leaves_less_and_less_often() {
    let (store, tree) = scene(options(64 << 10), true);
    let last = tree.log.next_sequence() - 1;
    for nth in 0..3_000 {
        let record = Record { key: &first_key(nth), kind: Kind::Inline, value: &[7; 1_000] };
        tree.filter_record(filter(&tree), &record, &(last..=last));
    }
    let reads = count_reads(&store);
    let look = || {
        let before = reads.load(Ordering::SeqCst);
        let served = tree.relieve_filter();
        assert!(served.as_ref().map_or_else(is_damage, |served| !served), "{served:?}");
        reads.load(Ordering::SeqCst) > before
    };
    let asked: Vec<bool> = (0..2_000).map(|_| look()).collect();
    assert!(filter(&tree).is_full() && has(&tree, &first_key(0), &[7; 1_000]));
    let looks = |part: std::ops::Range<usize>| asked[part].iter().filter(|asked| **asked).count();
    // The first ones find something that goes down.
    assert!(asked[0] && looks(0..20) > 1 && looks(0..1_000) < 60, "{} of a thousand", looks(0..1_000));
    assert!((1..8).contains(&looks(1_000..2_000)), "{} of the next thousand", looks(1_000..2_000));
}

/// Values of other leaves that reclaim moves meanwhile go down as ever: they are what grows, and nothing else takes them out.
#[test]
fn what_can_go_down_does_while_damaged_leaves_are_left_alone() {
    let (_store, tree) = scene(options(64 << 10), true);
    let last = tree.log.next_sequence() - 1;
    let move_to_filter = |key: &[u8]| {
        let record = Record { key, kind: Kind::Inline, value: &[7; 1_000] };
        tree.filter_record(filter(&tree), &record, &(last..=last));
    };
    (0..3_000).for_each(|nth| move_to_filter(&first_key(nth)));
    (0..1_000).for_each(|_| _ = tree.relieve_filter());
    let (before, mut most) = (filter(&tree).held_bytes(), 0);
    for nth in 0..1_000 {
        move_to_filter(&key(1_001 + nth));
        most = most.max(filter(&tree).held_bytes());
        let _damaged = tree.relieve_filter();
    }
    assert!(most <= before + (64 << 10), "{before} bytes waited, {most} were held");
}

/// Of what waits, of what is newer on its way down, and of what the leaf has.
#[test]
fn values_of_what_waits_die_once_when_they_are_superseded() {
    let (store, tree) = scene(TreeOptions { value_inline_bytes_max: 1_024, ..options(2 << 20) }, false);
    for nth in 0..WAITING {
        let value: &[u8] = if nth % 8 == 0 { &[1; 2_000] } else { &[7; 1_000] };
        tree.put(&first_key(nth), value, Durability::Buffered).expect("room");
    }
    store.wire().set_full_of_pages(true);
    assert!(tree.empty_filter().is_err() && filter(&tree).waiting_bytes() > 0);
    assert_eq!(store.wire().released_value_bytes(), 0);
    // What was under way when the leaf was found to have no room.
    let last = tree.log.next_sequence() - 1;
    for round in 2..5_u8 {
        for nth in (0..WAITING).step_by(16) {
            let (key, mut value) = (first_key(nth), Vec::new());
            let kind = if nth % 48 == 0 && round == 4 { Kind::Tombstone } else { Kind::Pointer };
            if kind == Kind::Pointer {
                tree.values.write(&key, &[round; 2_000]).expect("room").encode(&mut value);
            }
            tree.filter_record(filter(&tree), &Record { key: &key, kind, value: &value }, &(last..=last));
        }
        assert!(tree.empty_filter().is_err() && filter(&tree).valid_nodes() == 0);
    }
    let before = store.wire().released_value_bytes();
    assert!(before > 0, "what waited was superseded there");
    store.wire().set_full_of_pages(false);
    tree.empty_filter().expect("room");
    tree.compact(&mut |_, _| {}).expect("room");
    let (mut dead, mut live) = (0, 0);
    for (at, payload) in store.value_chunks() {
        match tree.value_liveness(at, &payload).expect("sound") {
            Liveness::Live => live += 1,
            Liveness::Dead => dead += payload.len() as u64,
            Liveness::Unknown => panic!("all is merged"),
        }
    }
    assert!(store.wire().released_value_bytes() == dead && dead > before, "of {dead} bytes");
    let mut value = Vec::new();
    for nth in (0..WAITING).step_by(8) {
        let found = tree.get_into(&first_key(nth), &mut value).expect("readable");
        live -= i32::from(found);
        let round = if nth % 16 == 0 { 4 } else { 1 };
        assert!(found == (nth % 48 != 0) && (!found || value == [round; 2_000]), "{nth}");
    }
    assert_eq!(live, 0);
}
