//! The record cache under many schedules: writers, readers that keep what they read, merges, and memory that comes and goes, beside each
//! other.

use std::{collections::BTreeMap, sync::Arc};

use shuttle::{Config, Runner, scheduler::RandomScheduler};
use zonda_pages::{PageId, PageStore};
use zonda_rt::spawn;

use crate::{
    Durability, TreeOptions, recover,
    testing::{MemOptions, MemStore},
    tree::Tree,
};

const SCHEDULES: usize = 300;
const STACK_BYTES: usize = 256 << 10;
const SEGMENT_BYTES: u64 = 16 << 10;
const KEYS: u8 = 5;
const ROUNDS: u8 = 3;

fn round_of(tree: &Tree, key: [u8; 2]) -> u8 {
    let mut read = Vec::new();
    let found = tree.get_into(&key, &mut read).expect("readable");
    assert!(!found || read.len() == 9 && read.iter().all(|byte| *byte == read[0]), "a torn value");
    if found { read[0] } else { 0 }
}

fn write(tree: &Tree) {
    for round in 1..=ROUNDS {
        for at in 0..KEYS {
            tree.put(&[at, 0], &[round; 9], Durability::Buffered).expect("room");
        }
        tree.flush_leaf(PageId(0)).expect("room");
        // From the page, or from what the reader kept of it.
        (0..KEYS).for_each(|at| assert_eq!(round_of(tree, [at, 0]), round, "a merged put is not there"));
    }
}

fn read(tree: &Tree) {
    let mut newest: BTreeMap<u8, u8> = BTreeMap::new();
    for at in (0..KEYS).chain(0..KEYS).chain(0..KEYS) {
        assert_eq!((round_of(tree, [at, 9]), round_of(tree, [at, 8])), (77, 0), "what nobody wrote changed");
        let now = round_of(tree, [at, 0]);
        let before = newest.insert(at, now).unwrap_or(0);
        assert!(now >= before, "key {at} went back from {before} to {now}");
    }
}

fn resize(tree: &Tree) {
    for segments in [2, 1, 3, 0, 2] {
        tree.records.resize(segments * SEGMENT_BYTES);
    }
}

#[test]
fn what_is_kept_follows_its_pages_while_memory_comes_and_goes() {
    let scene = || {
        let store = MemStore::new(MemOptions::default()) as Arc<dyn PageStore>;
        let options = TreeOptions { record_cache_bytes_max: 4 * SEGMENT_BYTES, ..TreeOptions::default() };
        let tree = Arc::new(recover::create(store, options).expect("an empty store"));
        tree.records.resize(SEGMENT_BYTES);
        (0..KEYS).for_each(|at| tree.put(&[at, 9], &[77; 9], Durability::Buffered).expect("room"));
        tree.flush_leaf(PageId(0)).expect("room");
        let works: [fn(&Tree); 3] = [write, read, resize];
        let threads = works.map(|work| {
            let tree = Arc::clone(&tree);
            spawn("part of the scene", move || work(&tree))
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        (0..KEYS).for_each(|at| assert_eq!((round_of(&tree, [at, 0]), round_of(&tree, [at, 9])), (ROUNDS, 77)));
        assert_eq!(tree.records.bytes(), 2 * SEGMENT_BYTES);
    };
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(SCHEDULES), config).run(scene);
}
