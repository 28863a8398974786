//! Mirrors of leaves of every size: made by scans, and used by reads, negative lookups and scans instead of the page.
#![cfg(not(feature = "shuttle"))]

use std::{ops::Bound, sync::Arc};

use zonda_pages::{PageId, PageStore};

use crate::{
    Design, Durability, MiniPages, TreeOptions,
    buffer::Buffer,
    recover,
    scan::{Range, Scan, owned_pair},
    testing::{MemOptions, MemStore},
    tree::Tree,
};

const VALUE: [u8; 40] = [7; 40];
const PAIR_BYTES: usize = 8 + VALUE.len();

/// Every page that a scan reads is kept; point reads keep nothing.
fn create(leaf_bytes: u32, buffer_bytes: u64) -> (Arc<MemStore>, Tree) {
    let mini_pages = MiniPages { promotion_percent: 0, scan_promotion_percent: 100, ..MiniPages::default() };
    let options =
        TreeOptions { design: Design::BfTree, leaf_bytes, buffer_bytes, mini_pages, ..TreeOptions::default() };
    let store = MemStore::new(MemOptions::default());
    let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options).expect("an empty store");
    (store, tree)
}

/// Puts that many even keys and merges them into pages.
fn load(tree: &Tree, pairs: u64) {
    (0..pairs).for_each(|nth| put(tree, 2 * nth));
    (0..tree.table.len()).for_each(|leaf| _ = tree.flush_leaf(PageId(leaf)).expect("room"));
}

fn put(tree: &Tree, key: u64) {
    tree.put(&key.to_be_bytes(), &VALUE, Durability::Buffered).expect("room");
}

fn has(tree: &Tree, key: u64) -> bool {
    let mut value = Vec::new();
    let found = tree.get_into(&key.to_be_bytes(), &mut value).expect("readable");
    assert!(!found || value == VALUE);
    found
}

/// Scans everything; returns how many pairs there are.
fn scan(tree: &Tree) -> u64 {
    let snapshot = tree.open_snapshot();
    let mut scan = Scan::new(snapshot, Range { low: Bound::Unbounded, high: Bound::Unbounded });
    let pairs = std::iter::from_fn(|| scan.next(tree).expect("readable").map(owned_pair)).count();
    tree.snapshots.close(snapshot);
    pairs as u64
}

fn is_mirrored(tree: &Tree, leaf: u32) -> bool {
    let leaf = tree.table.lock_shared(PageId(leaf));
    leaf.location().buffer().is_some_and(|buffer| buffer.is_mini_page() && Buffer::is_complete(buffer))
}

fn mirrors(tree: &Tree) -> usize {
    (0..tree.table.len()).filter(|leaf| is_mirrored(tree, *leaf)).count()
}

#[test]
fn a_scan_makes_a_mirror_of_a_nearly_full_leaf_of_any_size_that_answers_instead_of_its_page() {
    for leaf_bytes in [4, 8, 16, 32].map(|kib| kib << 10) {
        let (store, tree) = create(leaf_bytes, 2 << 20);
        let pairs = (tree.body_bytes() * 19 / 20 / PAIR_BYTES) as u64;
        load(&tree, pairs);
        assert_eq!(tree.stats().leaves, 1, "leaves of {leaf_bytes}");
        assert!(!is_mirrored(&tree, 0));
        assert_eq!(scan(&tree), pairs);
        assert!(is_mirrored(&tree, 0), "leaves of {leaf_bytes}");
        let (read_before, held) = (store.reads(), tree.stats().buffer_bytes);
        assert!(held >= u64::from(leaf_bytes) / 10 * 9, "I6: {held} bytes are counted for a leaf of {leaf_bytes}");

        for nth in 0..pairs {
            assert!(has(&tree, 2 * nth) && !has(&tree, 2 * nth + 1), "leaves of {leaf_bytes}, pair {nth}");
        }
        assert_eq!((scan(&tree), store.reads()), (pairs, read_before), "leaves of {leaf_bytes}");

        put(&tree, 1);
        assert!(has(&tree, 1) && is_mirrored(&tree, 0), "a write stays in the mirror of a leaf of {leaf_bytes}");
        assert_eq!(scan(&tree), pairs + 1);
    }
}

#[test]
fn scans_go_on_to_make_mirrors_when_the_ring_is_full_of_them() {
    for leaf_bytes in [4, 8, 16, 32].map(|kib| kib << 10) {
        let (_store, tree) = create(leaf_bytes, 1 << 20);
        // Three times what there is memory for.
        let pairs = (3 << 20) / PAIR_BYTES as u64;
        load(&tree, pairs);
        for _ in 0..3 {
            assert_eq!(scan(&tree), pairs);
            let last = (0..tree.table.len())
                .rev()
                .find(|leaf| tree.table.lock_shared(PageId(*leaf)).location().page().is_some());
            assert!(is_mirrored(&tree, last.expect("there are leaves")), "leaves of {leaf_bytes}");
        }
        let kept = mirrors(&tree) * leaf_bytes as usize;
        assert!(kept >= 400 << 10, "leaves of {leaf_bytes}: {kept} bytes of leaves are mirrored in a MiB");
        assert!(tree.stats().buffer_bytes <= 1 << 20, "I6: {:?}", tree.stats());

        tree.pool.set_limit_bytes(512 << 10);
        while tree.pool.is_far_over() && tree.evict().expect("no failure of the device") {}
        assert!(tree.stats().buffer_bytes <= 512 << 10, "I6: {:?}", tree.stats());
        assert_eq!(scan(&tree), pairs);
    }
}
