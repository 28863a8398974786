//! Commits of a store in place that say nothing of what was released: pages that were given up before anybody heard of them, and commits
//! that fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use common::{block_device, create_in_place, id, in_place_options, options};
use zonda_pages::{
    ChunkAddress, Heat, InPlaceOptions, InPlaceStore, Liveness, NewPage, PageAddress, PageError, PageId, PageStore,
    Reclaimed, Relocate, Relocated, Stamp, StoreOptions,
};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};

/// A tree that has nothing, hence nothing to record.
#[derive(Default)]
struct Nothing {
    stamps: AtomicU64,
    is_full: AtomicBool,
}

impl Relocate for Nothing {
    fn relocate_page(&self, _: PageId, _: PageAddress, _: &[u8]) -> Result<Relocated, PageError> {
        Ok(Relocated::Dead)
    }

    fn relocate_value(&self, _: ChunkAddress, _: &[u8]) -> Result<Relocated, PageError> {
        Ok(Relocated::Dead)
    }

    fn value_liveness(&self, _: ChunkAddress, _: &[u8]) -> Result<Liveness, PageError> {
        Ok(Liveness::Dead)
    }

    fn writes(&self) -> u64 {
        0
    }

    fn knows_values(&self) -> bool {
        true
    }

    fn stamp(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::Relaxed))
    }

    fn commit_moves(&self) -> Result<(), PageError> {
        if !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(PageError::NoSpace { live_bytes: 1, usable_bytes: 1, free_zones: 0, reserve_bytes: 0 })
    }

    fn drained(&self, _: Stamp) -> bool {
        true
    }
}

/// Places so many pages.
fn place(store: &InPlaceStore, pages: u64) -> Vec<PageAddress> {
    let body = vec![5; store.page_body_bytes(1)];
    let mut place_one = |n| loop {
        match store.place(Heat::Hot, &[NewPage { id: id(n), sequence: n, body: &body }]) {
            Err(PageError::Busy) => store.pump(&mut |_, _, _| {}).unwrap(),
            placed => break placed.unwrap()[0],
        }
    };
    (0..pages).map(&mut place_one).collect()
}

fn reclaim(store: &InPlaceStore, tree: &Nothing) {
    while store.reclaim_step(tree).unwrap() == Reclaimed::Progress {}
}

/// I3: whoever gets the blocks next is not overwritten.
#[test]
fn pages_that_are_given_up_keep_their_blocks_while_they_wait_to_be_written() {
    // Nothing is written before somebody asks for it.
    let common = StoreOptions { sequencer_groups_max: 1_000, ..options() };
    let options = InPlaceOptions { common, ..in_place_options() };
    let (store, tree) = (InPlaceStore::create(block_device(), &options).unwrap(), Nothing::default());
    for round in 1..4 {
        place(&store, 1_500).into_iter().for_each(|at| store.release(at));
        reclaim(&store, &tree);
        assert_eq!((store.usage().live_page_bytes, tree.stamps.load(Ordering::Relaxed)), (0, round));
    }
    let placed = place(&store, 1_500);
    store.settle(&mut |_, _, _| {}).unwrap();
    for (n, &at) in placed.iter().enumerate() {
        store.read(id(n as u64), at, &mut |body| assert!(body.iter().all(|&byte| byte == 5))).unwrap();
    }
}

#[test]
fn commits_that_fail_leave_one_batch_to_be_tried_again() {
    let (store, tree) = (create_in_place(&block_device()), Nothing::default());
    place(&store, 1_500).into_iter().for_each(|at| store.release(at));
    tree.is_full.store(true, Ordering::Relaxed);
    let memory_bytes = || store.usage().memory_bytes;
    assert!(store.reclaim_step(&tree).is_err());
    let before = memory_bytes();
    for _ in 0..1_000 {
        assert!(matches!(store.reclaim_step(&tree), Err(PageError::NoSpace { .. })));
    }
    assert_eq!((tree.stamps.load(Ordering::Relaxed), memory_bytes()), (1, before));
    tree.is_full.store(false, Ordering::Relaxed);
    reclaim(&store, &tree);
    assert_eq!(place(&store, 1_500).len(), 1_500);
}
