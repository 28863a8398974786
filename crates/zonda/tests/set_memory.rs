//! The memory budget of an open store is changed: it shrinks and grows under load, and never to what the store cannot work with.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]
mod common;

use common::options;
use zonda::{Db, Design, Error};
use zonda_rt::Seed;

const MIB: u64 = 1 << 20;
const PAIRS: u64 = 200_000;
const THREADS: u64 = 3;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// All pairs have 20 MB, more than any budget here.
fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(11)
}

fn load(db: &Db) {
    for number in 0..PAIRS {
        db.put(key(number), value(number)).unwrap();
    }
}

fn budget(db: &Db) -> u64 {
    db.stats().unwrap().memory.budget_bytes
}

#[test]
fn what_a_store_cannot_work_with_is_refused_and_changes_nothing() {
    let db = options().memory(16 * MIB).capacity(400 * MIB).design(Design::Adb).filter(0.5).open("mem:").unwrap();
    load(&db);
    for bytes in [2 * MIB - 1, 16 * MIB + 1] {
        assert!(matches!(db.set_memory(bytes), Err(Error::BadOption { name: "memory", .. })), "{bytes}");
    }
    let refused = db.set_memory(8 * MIB);
    let Err(Error::TooLittleMemory { bytes, bytes_needed, .. }) = refused else { panic!("{refused:?}") };
    assert!(bytes == 8 * MIB && (bytes + 1..16 * MIB).contains(&bytes_needed), "{refused:?}");
    assert_eq!(budget(&db), 16 * MIB);
    db.set_memory(bytes_needed).unwrap();
    assert_eq!(budget(&db), bytes_needed);
    db.put("pairs", "are taken").unwrap();
}

/// Threads that change and read pairs of their own while the budget goes down to a half and up again.
#[test]
fn the_budget_holds_once_it_was_halved_under_load() {
    for design in Design::ALL {
        let db = options().memory(16 * MIB).capacity(200 * MIB).design(design).open("mem:").unwrap();
        load(&db);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, mut rng) = (db.clone(), Seed(thread).rng());
                scope.spawn(move || {
                    for round in 0..40_000_u64 {
                        let number = rng.below(PAIRS / THREADS) * THREADS + thread;
                        db.put(key(number), value(round)).unwrap();
                        assert_eq!(db.get(key(number)).unwrap(), Some(value(round)), "{design:?}");
                    }
                });
            }
            for mib in [8, 16, 8] {
                db.set_memory(mib * MIB).unwrap();
                assert_eq!(budget(&db), mib * MIB);
            }
        });
        while db.step().unwrap() {}
        let memory = db.stats().unwrap().memory;
        assert!(memory.used_bytes <= 8 * MIB, "I6, {design:?}: {memory:?}");
        db.set_memory(6 * MIB).unwrap();
        let memory = db.stats().unwrap().memory;
        assert!(memory.used_bytes <= 6 * MIB, "I6 at once, {design:?}: {memory:?}");
    }
}

/// A ring on huge pages becomes one of single segments: what is left of it may lie in chunks of 2 MiB that others have left.
#[test]
fn a_large_ring_follows_at_once() {
    let db = options().memory(128 * MIB).capacity(8_000 * MIB).design(Design::BfTree).open("mem:").unwrap();
    (0..7 * PAIRS).for_each(|number| db.put(key(number), value(number)).unwrap());
    for mib in [16, 12, 8, 6] {
        db.set_memory(mib * MIB).unwrap();
        let memory = db.stats().unwrap().memory;
        assert!(memory.used_bytes <= mib * MIB, "I6 at once, {mib} MiB: {memory:?}");
    }
}

/// Leaves read for so many gets of favourites.
fn reads_of_favourites(db: &Db, gets: u64) -> u64 {
    let before = db.stats().unwrap().tree.leaf_reads;
    let mut rng = Seed(5).rng();
    for count in 0..gets {
        let number = rng.below(PAIRS) * rng.below(PAIRS) / PAIRS;
        assert_eq!(db.get(key(number)).unwrap(), Some(value(number)));
        while count.is_multiple_of(100) && db.step().unwrap() {}
    }
    db.stats().unwrap().tree.leaf_reads - before
}

#[test]
fn a_budget_that_grew_back_is_used() {
    for design in [Design::Adb, Design::BfTree] {
        let db = options().memory(16 * MIB).capacity(200 * MIB).design(design).background(false).open("mem:").unwrap();
        db.set_memory(3 * MIB).unwrap();
        load(&db);
        db.compact(&mut |_, _| {}).unwrap();
        reads_of_favourites(&db, 300_000);
        let small = reads_of_favourites(&db, 50_000);
        db.set_memory(16 * MIB).unwrap();
        reads_of_favourites(&db, 300_000);
        let large = reads_of_favourites(&db, 50_000);
        assert!(large < small / 3 * 2, "{design:?}: {small} leaves read with a little, {large} with much");
    }
}

/// What snapshots keep counts too: the oldest is given up when it no longer fits.
#[test]
fn snapshots_keep_no_more_than_the_new_budget_lets_them() {
    const PAIRS: u64 = 20_000;
    let db = options().memory(64 * MIB).capacity(512 * MIB).open("mem:").unwrap();
    let put_all = |by: u64| (0..PAIRS).for_each(|number| db.put(key(number), value(number + by)).unwrap());
    put_all(0);
    let snapshot = db.snapshot().unwrap();
    put_all(1);
    let kept = db.stats().unwrap().memory.snapshot_bytes;
    assert!(kept > 4 * MIB / 16 && snapshot.get(key(7)).unwrap() == Some(value(7)), "{kept} bytes kept");
    db.set_memory(4 * MIB).unwrap();
    let memory = db.stats().unwrap().memory;
    assert!(memory.snapshot_bytes <= 4 * MIB / 16 && memory.used_bytes <= memory.budget_bytes, "I6: {memory:?}");
    assert!(matches!(snapshot.get(key(7)), Err(Error::SnapshotTooOld { .. })));
    assert_eq!(db.snapshot().unwrap().get(key(7)).unwrap(), Some(value(8)));
}
