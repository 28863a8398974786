//! Reads write no pages, even where they find buffers or the ring of mini-pages full of changes; the maintenance thread merges each change
//! once to make room for what is read (decision 0040).
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]
mod common;

use common::{Place, options};
use zonda::{Db, Design, Options, StoreKind};
use zonda_rt::Seed;

const PAIRS: u64 = 100_000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A store whose leaf buffers are full of changes to the first half of its pairs, and whose background has nothing to do.
fn full_of_changes(place: &Place, store: StoreKind, design: Design) -> Db {
    full_of_changes_with(options().design(design).store(store), place)
}

fn full_of_changes_with(options: Options, place: &Place) -> Db {
    let db = options.memory(2 << 20).background(false).open(&place.uri()).unwrap();
    for number in (0..PAIRS).chain(0..PAIRS / 2) {
        db.put(key(number), number.to_be_bytes()).unwrap();
    }
    while db.step().unwrap() {}
    db
}

/// Gets and scans, most of pairs that were not changed, `between` after each hundred.
fn read(db: &Db, seed: u64, between: impl Fn()) {
    let mut rng = Seed(seed).rng();
    for count in 0..60_000 {
        let number = PAIRS - 1 - rng.below(PAIRS) * rng.below(PAIRS) / PAIRS;
        assert_eq!(db.get(key(number)).unwrap(), Some(number.to_be_bytes().to_vec()));
        if count % 100 == 0 {
            assert_eq!(db.range(key(number)..).unwrap().take(32).filter(Result::is_err).count(), 0);
            between();
        }
    }
}

/// Bytes of leaves written, and merges.
fn merged(db: &Db) -> (u64, u64) {
    let stats = db.stats().unwrap();
    (stats.written.flush_bytes + stats.written.relocation_bytes, stats.tree.merges)
}

#[test]
fn gets_and_scans_merge_nothing_in_buffers_full_of_changes() {
    for store in StoreKind::ALL {
        for design in [Design::Adb, Design::BdTree, Design::BfTree] {
            let place = Place::new();
            let db = full_of_changes(&place, store, design);
            let before = merged(&db);
            read(&db, 1, || ());
            assert_eq!(merged(&db), before, "{design:?} {store:?}");
        }
    }
}

/// The default design: buffers give their memory to the caches while nobody writes.
#[test]
fn what_buffers_give_up_beside_readers_is_written_once_and_then_nothing_is() {
    let place = Place::new();
    let db = full_of_changes(&place, StoreKind::Zoned, Design::Adb);
    let (before, leaves) = (merged(&db), db.stats().unwrap().tree.leaves);
    for round in 0..6 {
        read(&db, round, || while db.step().unwrap() {});
    }
    let after = merged(&db);
    let (bytes, merges) = (after.0 - before.0, after.1 - before.1);
    assert!(merges <= leaves && bytes <= leaves * 4096, "{merges} merges of {leaves} leaves wrote {bytes} B");
    db.compact(&mut |_, _| {}).unwrap();
    let before = merged(&db);
    read(&db, 7, || while db.step().unwrap() {});
    assert_eq!(merged(&db), before, "nothing waits any more");
}

#[test]
fn the_background_merges_a_leaf_once_at_the_most_so_that_readers_keep_what_they_read() {
    let (place, reads_of) = (Place::new(), |db: &Db| db.stats().unwrap().tree.leaf_reads);
    let db = full_of_changes(&place, StoreKind::Zoned, Design::BfTree);
    let (before, leaves) = (merged(&db), db.stats().unwrap().tree.leaves);
    let mut reads = Vec::new();
    for round in 0..12 {
        let before = reads_of(&db);
        read(&db, round, || while db.step().unwrap() {});
        reads.push(reads_of(&db) - before);
    }
    let after = merged(&db);
    let (bytes, merges) = (after.0 - before.0, after.1 - before.1);
    assert!(merges <= leaves && bytes <= leaves * 4096, "{merges} merges of {leaves} leaves wrote {bytes} B");
    assert!(reads[11] < reads[0] * 2 / 3, "leaves read in each round: {reads:?}");
}

#[test]
fn turns_of_the_ring_are_counted_and_there_are_none_where_they_are_off() {
    for turns in [true, false] {
        let place = Place::new();
        let db = full_of_changes_with(options().design(Design::BfTree).ring_turns(turns), &place);
        read(&db, 0, || while db.step().unwrap() {});
        let of = db.stats().unwrap().tree.mini_pages;
        assert!(of.merged > 0 && of.merged_in_turns <= of.merged, "{of:?}");
        assert_eq!(of.merged_in_turns > 0, turns, "{of:?}");
    }
}
