//! A page that cannot be read: whoever reads it hears of it, and nobody else.
#![cfg(not(feature = "shuttle"))]

use std::{ops::Bound, sync::Arc};

use zonda_pages::{Heat, NewPage, PageStore};

use crate::{
    BufferClasses, Design, Durability, Eviction, TreeOptions, Update,
    leaf_page::LeafPage,
    leaf_table::Location,
    recover,
    relocate::is_damage,
    scan::{Range, Scan},
    slots,
    testing::{MemOptions, MemStore, Survives},
    tree::Tree,
};

const KEYS: u64 = 20_000;
/// Of the first keys, which are of the leaf whose page is damaged.
const DAMAGED: u64 = 20;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn put(tree: &Tree, number: u64, round: u64) {
    tree.put(&key(number), &[round.to_le_bytes()[0]; 60], Durability::Buffered).expect("room");
}

/// A tree with every other key in pages, of which the first leaf's is damaged, and whose buffer is larger than any other.
fn damaged(options: &TreeOptions) -> (Arc<MemStore>, Tree) {
    let store = MemStore::new(MemOptions::default());
    let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options.clone()).expect("an empty store");
    (0..KEYS).step_by(2).for_each(|number| put(&tree, number, 0));
    tree.compact(&mut |_, _| {}).expect("room");
    let leaf = tree.index.find(&key(0), &tree.epoch.pin()).leaf();
    store.damage(tree.table.lock_shared(leaf).location().page().expect("it was merged"));
    (1..DAMAGED).step_by(2).for_each(|number| put(&tree, number, 1));
    (store, tree)
}

fn all_options() -> Vec<TreeOptions> {
    let options = TreeOptions { buffer_bytes: 64 << 10, log_limit_bytes: 1 << 20, ..TreeOptions::default() };
    vec![
        options.clone(),
        TreeOptions { eviction: Eviction::Oldest, ..options.clone() },
        TreeOptions { classes: BufferClasses::Paper, eviction: Eviction::Oldest, ..options.clone() },
        TreeOptions { filter_bytes: 12 << 10, ..options.clone() },
        TreeOptions { design: Design::Deltas, ..options.clone() },
        TreeOptions { design: Design::BfTree, ..options },
    ]
}

#[test]
fn a_damaged_page_stops_neither_writes_elsewhere_nor_its_leaf_nor_an_opening() {
    for options in all_options() {
        let (store, tree) = damaged(&options);
        for round in 0..4 {
            // More than buffers may hold, of leaves that can be merged, and again some of the one that cannot.
            (DAMAGED..KEYS).step_by(7).for_each(|number| put(&tree, number, round));
            (0..DAMAGED).for_each(|number| put(&tree, number, round + 2));
        }
        // More than its page takes.
        (0..DAMAGED * 4).for_each(|nth| {
            let key = [&key(1)[..], &nth.to_be_bytes()].concat();
            tree.put(&key, &[7; 60], Durability::Buffered).expect("a buffer takes it");
        });
        assert!(!tree.pool.is_over_limit() || tree.evict().is_ok(), "{options:?}: others can go");
        let mut value = Vec::new();
        assert!(tree.get_into(&key(1), &mut value).expect("it is in the buffer") && value == [5; 60], "{options:?}");
        tree.log.sync().expect("the log is whole");
        drop(tree);
        let store = store.reopen(Survives::Written);
        let tree = recover::open(store as Arc<dyn PageStore>, options.clone(), &mut |_| ()).expect("it opens");
        assert!(tree.get_into(&key(1), &mut value).expect("it was replayed") && value == [5; 60], "{options:?}");
        put(&tree, KEYS, 0);
    }
}

/// A leaf whose page cannot be read takes what its buffer has room for; then whoever writes there hears of it, and nobody else does.
#[test]
fn a_leaf_that_cannot_be_merged_refuses_in_the_end_and_stops_nobody_else() {
    for options in all_options().into_iter().filter(|options| options.filter_bytes == 0) {
        let options = TreeOptions { buffer_bytes: 1 << 20, ..options };
        let (store, tree) = damaged(&options);
        let key_of = |nth: u64| [&key(1)[..], &nth.to_be_bytes()].concat();
        let refused = (0..4_000).map(|nth| tree.put(&key_of(nth), &[7; 60], Durability::Buffered).err());
        let errors: Vec<_> = refused.enumerate().filter_map(|(nth, error)| Some((nth as u64, error?))).collect();
        assert!(
            errors.len() > 1_000 && errors.iter().all(|(_, error)| is_damage(error)),
            "{options:?}: {:?}",
            errors[0]
        );
        let taken = errors[0].0;
        let mut batch = vec![crate::BatchOp::Put { key: b"elsewhere", value: b"1" }];
        let last = key_of(4_000);
        batch.push(crate::BatchOp::Put { key: &last, value: &[7; 60] });
        assert!(tree.write(&batch, Durability::Buffered).is_err_and(|error| is_damage(&error)), "{options:?}");
        let deleted = |nth| tree.delete(&key_of(nth), Durability::Buffered);
        let refused = (0..100).find_map(|nth| deleted(nth).err());
        assert!(refused.is_none(), "{options:?}: deletes have room left: {refused:?}");
        (DAMAGED..KEYS).step_by(7).for_each(|number| put(&tree, number, 9));
        tree.log.sync().expect("the log is whole");
        drop(tree);
        let store = store.reopen(Survives::Written);
        let tree = recover::open(store as Arc<dyn PageStore>, options.clone(), &mut |_| ()).expect("it opens");
        let mut value = Vec::new();
        for nth in 0..taken {
            let is_there = tree.get_into(&key_of(nth), &mut value).expect("it is in the buffer");
            assert_eq!(is_there, nth >= 100, "{options:?}: {nth} of {taken}");
        }
        assert!(!tree.get_into(b"elsewhere", &mut value).expect("readable"), "{options:?}: nothing of a batch");
        put(&tree, KEYS, 0);
    }
}

/// It would be logged, and then there is no room for it: neither now nor at the next opening.
#[test]
fn a_batch_that_is_long_for_a_leaf_that_cannot_be_read_is_refused_and_nobody_else() {
    for options in all_options().into_iter().filter(|options| options.filter_bytes == 0) {
        let options = TreeOptions { buffer_bytes: 1 << 20, ..options };
        let (store, tree) = damaged(&options);
        let keys: Vec<_> = (0..300_u64).map(|nth| [&key(1)[..], &nth.to_be_bytes()].concat()).collect();
        let put = |key| crate::BatchOp::Put { key, value: &[7; 1_000] };
        let batch: Vec<_> = keys.iter().map(|key| put(key)).collect();
        assert!(tree.write(&batch, Durability::Buffered).is_err_and(|error| is_damage(&error)), "{options:?}");
        let high: Vec<_> = (0..300_u64).map(|nth| [&key(KEYS)[..], &nth.to_be_bytes()].concat()).collect();
        let batch: Vec<_> = high.iter().map(|key| put(key)).collect();
        tree.write(&batch, Durability::Buffered).expect("its leaf can be read");
        tree.log.sync().expect("the log is whole");
        drop(tree);
        let store = store.reopen(Survives::Written);
        let tree = recover::open(store as Arc<dyn PageStore>, options.clone(), &mut |_| ()).expect("it opens");
        let mut value = Vec::new();
        assert!(!tree.get_into(&keys[0], &mut value).unwrap_or(false), "{options:?}: nothing of the batch");
        assert!(tree.get_into(&high[299], &mut value).expect("readable"), "{options:?}");
    }
}

#[test]
fn where_only_leaves_with_damaged_pages_have_buffers_writers_hear_of_it() {
    let options = TreeOptions { buffer_bytes: 64 << 10, ..TreeOptions::default() };
    let (_, tree) = damaged(&options);
    // Every other buffer goes.
    while tree.pool.used_bytes() > 0 && matches!(tree.evict(), Ok(true)) {}
    for _ in 0..3 {
        let refused = tree.evict();
        assert!(matches!(&refused, Err(error) if is_damage(error)), "{refused:?}");
        assert!(tree.poison.check().is_ok());
    }
}

#[test]
fn who_hears_of_a_check_holds_nobody_up() {
    let (_, tree) = damaged(&TreeOptions::default());
    let drains = || tree.epoch.has_drained(tree.epoch.advance());
    let (mut findings, mut leaves) = (0, 0);
    let mut finding = |_| {
        findings += 1;
        assert!(drains(), "a finding is told under a guard");
    };
    let mut progress = |_, _| {
        leaves += 1;
        assert!(drains(), "progress is told under a guard");
    };
    let report = tree.check(&mut progress, &mut finding).expect("open");
    assert_eq!((report.findings, report.leaves), (findings, leaves));
    assert!(findings == 1 && leaves > 1);
}

/// Pairs of one shape have no slots until another shape comes among them, which needs them for all at once.
#[test]
fn tiny_pairs_of_a_leaf_that_cannot_be_merged_are_refused_in_the_end() {
    for options in all_options().into_iter().filter(|options| options.filter_bytes == 0) {
        let options = TreeOptions { buffer_bytes: 1 << 20, ..options };
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options.clone()).expect("an empty store");
        let put = |nth: u32| tree.put(&nth.to_be_bytes(), b"", Durability::Buffered);
        put(u32::MAX).expect("room");
        tree.compact(&mut |_, _| {}).expect("room");
        let leaf = tree.index.find(&[], &tree.epoch.pin()).leaf();
        store.damage(tree.table.lock_shared(leaf).location().page().expect("it was merged"));
        let refused = (0..60_000_u32).find_map(|nth| put(nth).err().map(|error| (nth, error)));
        let Some((taken, error)) = refused else { panic!("{options:?}: all fits") };
        assert!(taken > 1_000 && is_damage(&error), "{options:?}: {taken}, {error}");
        let mut grow = |_: Option<&[u8]>| Update::Put(vec![7; 1_000]);
        let updated = tree.update(&0_u32.to_be_bytes(), Durability::Buffered, &mut grow);
        assert!(updated.is_err_and(|error| is_damage(&error)), "{options:?}: an update is a put, too");
        let refused = (0..100_u32).find_map(|nth| tree.delete(&nth.to_be_bytes(), Durability::Buffered).err());
        assert!(refused.is_none(), "{options:?}: deletes have room left: {refused:?}");
        tree.log.sync().expect("the log is whole");
        drop(tree);
        let store = store.reopen(Survives::Written);
        let tree = recover::open(store as Arc<dyn PageStore>, options.clone(), &mut |_| ()).expect("it opens");
        let is_there = |nth: &u32| tree.get_into(&nth.to_be_bytes(), &mut Vec::new()).expect("in the buffer");
        assert_eq!((0..taken).filter(is_there).count(), taken as usize - 100, "{options:?}");
    }
}

/// Enough for some leaves.
const FEW: u64 = 1_000;

/// Values of several lengths, so that pages have slots.
fn uneven(number: u64) -> Vec<u8> {
    vec![7; 20 + usize::from((number % 5).to_le_bytes()[0])]
}

/// A page as it never was written: its checksum is right, and one of its slots is not.
fn with_bad_slot(options: &TreeOptions, bad: usize) -> Tree {
    let tree = recover::create(MemStore::new(MemOptions::default()), options.clone()).expect("an empty store");
    (0..FEW).for_each(|number| tree.put(&key(number), &uneven(number), Durability::Buffered).expect("room"));
    tree.compact(&mut |_, _| {}).expect("room");
    let (id, page) = tree.leaf_of(&key(0));
    let mut body = tree.read_body(id, page).expect("readable").expect("it was merged");
    let page = LeafPage::decode(&body).expect("its own page");
    assert!(page.slots().dense_shape().is_none() && page.slots().len() > 20);
    let at = body.len() - page.slots().bytes().len() + slots::HEADER_BYTES + bad * slots::SLOT_BYTES;
    body[at..at + slots::SLOT_BYTES].fill(0xff);
    let new = NewPage { id, sequence: 0, body: &body };
    let at = tree.store.place(Heat::Cold, &[new]).expect("room")[0];
    tree.table.lock(id).replace(Location::Page(at));
    tree
}

/// A get that looks at the bad record hears of it, and another one has its value or hears of it; who goes over all records always does.
#[test]
fn a_bad_slot_under_a_good_checksum_is_damage_to_gets_scans_merges_and_checks() {
    for design in [Design::Adb, Design::Deltas, Design::BTree, Design::BfTree] {
        let options = TreeOptions { design, log_limit_bytes: 1 << 20, ..TreeOptions::default() };
        for bad in 0..20 {
            let tree = with_bad_slot(&options, bad);
            let mut value = Vec::new();
            let mut refused = 0;
            for number in 0..20 {
                match tree.get_into(&key(number), &mut value) {
                    Err(error) => refused += u64::from(is_damage(&error)),
                    Ok(found) => {
                        assert!(found && number != bad as u64, "{design:?}: {number}, {bad} is bad");
                        assert_eq!(value, uneven(number));
                    }
                }
            }
            assert!(refused >= 1, "{design:?}");
            let many = tree.multi_get(None, &[&key(bad as u64), &key(FEW - 1)]);
            assert!(many.is_err_and(|error| is_damage(&error)), "{design:?}");
            let snapshot = tree.open_snapshot();
            let mut scan = Scan::new(snapshot, Range { low: Bound::Unbounded, high: Bound::Unbounded });
            assert!(scan.next(&tree).is_err_and(|error| is_damage(&error)), "{design:?}");
            tree.snapshots.close(snapshot);
            let mut findings = 0;
            tree.check(&mut |_, _| {}, &mut |_| findings += 1).expect("open");
            assert_eq!(findings, 1, "{design:?}");
            let id = tree.leaf_of(&key(0)).0;
            put(&tree, 0, 1);
            assert!(tree.flush_leaf(id).is_err_and(|error| is_damage(&error)), "{design:?}");
            assert!(tree.poison.check().is_ok() && tree.get_into(&key(FEW - 1), &mut value).expect("readable"));
        }
    }
}
