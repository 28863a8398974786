//! Scans read ahead what they will use, and hardly more, from both ends; and they find what a map finds.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::collections::BTreeMap;

use common::{Place, options};
use zonda::{Db, Design, Pair, StoreKind};
use zonda_rt::Rng;

const PAIRS: u64 = 100_000;
/// A store with `PAIRS` pairs in full leaves, and nothing in memory.
fn filled(place: &Place) -> Db {
    filled_on(place, StoreKind::Zoned)
}

fn filled_on(place: &Place, store: StoreKind) -> Db {
    let db = options().store(store).memory(2 << 20).open(&place.uri()).unwrap();
    db.ingest((0..PAIRS).map(|number| (number.to_be_bytes(), number.to_be_bytes()))).unwrap();
    db.compact(&mut |_, _| {}).unwrap();
    db.close().unwrap();
    options().store(store).memory(2 << 20).open(&place.uri()).unwrap()
}

fn reads_of(db: &Db, run: impl FnOnce()) -> u64 {
    let before = db.stats().unwrap().device.reads;
    run();
    db.stats().unwrap().device.reads - before
}

fn leaf_pairs(db: &Db) -> u64 {
    PAIRS / db.stats().unwrap().tree.leaves
}

fn number(pair: &Pair) -> u64 {
    u64::from_be_bytes(pair.0.as_slice().try_into().unwrap())
}

#[test]
fn a_short_scan_reads_nothing_in_vain() {
    let place = Place::new();
    let db = filled(&place);
    let mut all = 0;
    for (scan, from) in (0..50_u64).map(|scan| (scan, scan * 1_777 % (PAIRS - 300))) {
        let reads = reads_of(&db, || {
            let pairs = db.range(from.to_be_bytes()..).unwrap().take(20).map(|pair| number(&pair.unwrap()));
            assert!(pairs.eq(from..from + 20), "scan {scan}");
        });
        assert!(reads <= 3, "{reads} reads for 20 pairs from {from}: two leaves at most, and the one behind them");
        all += reads;
    }
    assert!(all <= 60, "{all} reads for 50 scans, few of which cross from one leaf to another");
}

#[test]
fn a_long_scan_reads_each_leaf_once() {
    for store in [StoreKind::Zoned, StoreKind::InPlace] {
        let place = Place::new();
        let db = filled_on(&place, store);
        let leaves = db.stats().unwrap().tree.leaves;
        let forwards = reads_of(&db, || assert!(db.iter().unwrap().map(|pair| number(&pair.unwrap())).eq(0..PAIRS)));
        assert!((leaves * 9 / 10..leaves * 11 / 10).contains(&forwards), "{forwards} reads for some {leaves} leaves");
        let backwards =
            reads_of(&db, || assert!(db.iter().unwrap().rev().map(|pair| number(&pair.unwrap())).eq((0..PAIRS).rev())));
        // The read cache keeps 256 KiB of them.
        assert!((leaves - 70..leaves * 11 / 10).contains(&backwards), "{backwards} reads for some {leaves} leaves");
    }
}

#[test]
fn a_scan_that_stops_has_read_at_most_twice_what_it_used() {
    let place = Place::new();
    let db = filled(&place);
    for leaves in [2, 3, 5, 9, 20] {
        let pairs = usize::try_from(leaves * leaf_pairs(&db)).unwrap();
        let from = 7_777_u64.to_be_bytes();
        let reads = reads_of(&db, || assert_eq!(db.range(from..).unwrap().take(pairs).count(), pairs));
        assert!(reads <= 2 * (leaves + 1), "{reads} reads for {leaves} leaves");
    }
}

#[test]
fn a_scan_that_was_announced_reads_what_was_said() {
    let place = Place::new();
    let db = filled(&place);
    assert_eq!(db.iter().unwrap().count(), 100_000, "now the store knows how full its leaves are");
    for pairs in [10_u64, 256, 1_000, 5_000] {
        let (from, count) = ((40_000 + pairs).to_be_bytes(), usize::try_from(pairs).unwrap());
        let reads = reads_of(&db, || {
            assert_eq!(db.range(from..).unwrap().expect_pairs(pairs).take(count).count(), count);
        });
        assert!(reads <= pairs / leaf_pairs(&db) + 2, "{reads} reads for {pairs} pairs");
    }
}

#[test]
fn scans_from_both_ends_beside_writers_see_one_moment() {
    for (seed, design) in (1..).zip(Design::ALL) {
        let place = Place::new();
        let db = options().memory(4 << 20).design(design).open(&place.uri()).unwrap();
        let mut rng = Rng::seeded(seed);
        let mut model = BTreeMap::new();
        for _ in 0..40_000 {
            let (key, value) = (rng.below(30_000).to_be_bytes().to_vec(), vec![1; rng.index(30)]);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        for round in 0..12 {
            let (mut range, mut expected) = (db.iter().unwrap(), model.iter());
            let switch = 1 + rng.index(2_000);
            for nth in 0_usize.. {
                if nth.is_multiple_of(1_000) {
                    let key = rng.below(20).to_be_bytes().to_vec();
                    db.delete(&key).unwrap();
                    put_back(&mut rng, &db, &key);
                }
                let from_front = (nth / switch).is_multiple_of(2);
                let found = if from_front { range.next() } else { range.next_back() };
                let wanted = if from_front { expected.next() } else { expected.next_back() };
                let found = found.transpose().unwrap();
                assert_eq!(found, wanted.map(|(key, value)| (key.clone(), value.clone())), "{design:?} {seed} {round}");
                if found.is_none() {
                    break;
                }
            }
            model = db.iter().unwrap().map(Result::unwrap).collect();
        }
    }
}

/// Puts a key back, or not.
fn put_back(rng: &mut Rng, db: &Db, key: &[u8]) {
    if rng.chance(0.5) {
        db.put(key, b"again").unwrap();
    }
}
