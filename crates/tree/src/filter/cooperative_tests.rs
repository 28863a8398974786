//! Cooperative batch insertion (ZKV 3.3) by several writers: the same scene on threads and under many schedules.

use std::sync::Arc;

use zonda_pages::PageStore;
use zonda_rt::spawn;

use super::Filter;
use crate::{
    Durability, FilterEviction, TreeOptions, recover,
    testing::{MemOptions, MemStore},
    tree::Tree,
};

const WRITERS: u8 = 3;
/// Keys of some twenty leaves.
const KEYS: u8 = 90;

/// So long that three split a node of the filter, and a handful fills a leaf.
fn value(round: u8) -> [u8; 700] {
    [round; 700]
}

fn put(tree: &Tree, key: u8, round: u8) {
    tree.put(&[key], &value(round), Durability::Buffered).expect("room");
}

/// All keys in leaves on the device, with the values of round 1, and nothing in the filter.
fn behind_an_empty_filter() -> Arc<Tree> {
    let store = MemStore::new(MemOptions::default());
    let (filter_eviction, log_instances) = (FilterEviction::Nodes, 2);
    let options = TreeOptions { filter_bytes: 64 << 10, filter_eviction, log_instances, ..TreeOptions::default() };
    let tree = recover::create(store as Arc<dyn PageStore>, options).expect("an empty store");
    (0..KEYS).for_each(|key| put(&tree, key, 1));
    tree.empty_filter().expect("room");
    tree.compact(&mut |_, _| {}).expect("room");
    Arc::new(tree)
}

fn filter(tree: &Tree) -> &Filter {
    tree.filter.as_ref().expect("it was asked for")
}

/// Every writer overwrites the key behind `first` that is its own, `puts` times.
fn write(tree: &Arc<Tree>, first: u8, puts: usize) {
    let threads = (0..WRITERS).map(|writer| {
        let tree = Arc::clone(tree);
        spawn(format!("writer {writer}"), move || (0..puts).for_each(|_| put(&tree, first + writer, 3)))
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Writers that come along while there is an array take a batch each, before their own write; every record of the array reaches its leaf,
/// once, and those of a batch that belong to one leaf with one walk.
fn scene() {
    let tree = behind_an_empty_filter();
    let mut written = 0;
    let array = loop {
        put(&tree, written, 2);
        written += 1;
        if let Some(array) = filter(&tree).array(&tree.epoch.pin()) {
            break array;
        }
    };
    assert!(written + WRITERS <= KEYS, "the filter takes more than there is");
    let batches = array.batches().len();
    assert!(batches > usize::from(WRITERS) && array.left() == batches, "{} of {batches} batches", array.left());
    let leaves_of = |keys: Vec<u8>| {
        let mut leaves: Vec<_> = keys.iter().map(|key| tree.leaf_of(&[*key]).0).collect();
        leaves.dedup();
        leaves.len() as u64
    };
    let keys_of =
        array.batches().iter().map(|batch| batch.records.slots().iter().map(|record| record.key[0]).collect());
    let (pairs, runs) =
        keys_of.fold((0, 0), |(pairs, runs), keys: Vec<u8>| (pairs + keys.len() as u64, runs + leaves_of(keys)));
    let before = tree.stats();

    write(&tree, written, 1);
    assert_eq!(array.left(), batches - usize::from(WRITERS), "each takes one");
    write(&tree, written, batches);
    assert!(array.left() == 0 && filter(&tree).array(&tree.epoch.pin()).is_none(), "{} batches are left", array.left());

    let after = tree.stats();
    assert_eq!(after.filter_pairs - before.filter_pairs, pairs, "lost, or inserted twice");
    assert_eq!((after.filter_runs - before.filter_runs, after.splits), (runs, before.splits));
    let mut found = Vec::new();
    for key in 0..KEYS {
        let round = if key < written { 2 } else { 1 + 2 * u8::from(key < written + WRITERS) };
        assert!(tree.get_into(&[key], &mut found).expect("readable") && found == value(round), "key {key}");
    }
}

#[cfg(not(feature = "shuttle"))]
#[test]
fn several_writers_take_a_batch_each_and_every_record_reaches_its_leaf_once() {
    (0..20).for_each(|_| scene());
}

#[cfg(feature = "shuttle")]
#[test]
fn several_writers_take_a_batch_each_and_every_record_reaches_its_leaf_once() {
    let mut config = shuttle::Config::new();
    config.stack_size = 256 << 10;
    shuttle::Runner::new(shuttle::scheduler::RandomScheduler::new(60), config).run(scene);
}
