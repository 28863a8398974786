//! Several keys at once: the same answers as one by one, with one read for each leaf.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::collections::BTreeMap;

use common::{Place, options};
use zonda::{Db, Design};
use zonda_rt::Rng;

const KEYS: u64 = 20_000;
/// Few enough that a snapshot can keep their leaves.
const HOT_KEYS: u64 = 15;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Mostly short values, some empty, some in the value log.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(200) {
        0 => 5_000,
        1..20 => 0,
        _ => rng.index(40),
    };
    let mut value = vec![0; len];
    rng.fill(&mut value);
    value
}

/// Puts or deletes one of the first `keys` keys.
fn change(db: &Db, model: &mut BTreeMap<[u8; 8], Vec<u8>>, rng: &mut Rng, keys: u64) {
    let key = key(rng.below(keys));
    if rng.chance(0.2) {
        db.delete(key).unwrap();
        model.remove(&key);
    } else {
        let value = value(rng);
        db.put(key, &value).unwrap();
        model.insert(key, value);
    }
}

#[test]
fn answers_are_those_of_single_gets_now_and_in_snapshots() {
    for (seed, design) in (1..).zip(Design::ALL) {
        let place = Place::new();
        let db = options().memory(4 << 20).design(design).open(&place.uri()).unwrap();
        let (mut model, mut rng) = (BTreeMap::new(), Rng::seeded(seed));
        (0..30_000).for_each(|_| change(&db, &mut model, &mut rng, KEYS));
        let (snapshot, then) = (db.snapshot().unwrap(), model.clone());
        for round in 0..40 {
            (0..50).for_each(|_| change(&db, &mut model, &mut rng, HOT_KEYS));
            let count = rng.index(200);
            let keys: Vec<[u8; 8]> =
                (0..count).map(|nth| key(rng.below(if nth % 4 == 0 { HOT_KEYS } else { KEYS + 100 }))).collect();
            let of = |model: &BTreeMap<[u8; 8], Vec<u8>>| -> Vec<Option<Vec<u8>>> {
                keys.iter().map(|key| model.get(key).cloned()).collect()
            };
            assert_eq!(db.multi_get(&keys).unwrap(), of(&model), "{design:?}, seed {seed}, round {round}");
            assert_eq!(snapshot.multi_get(&keys).unwrap(), of(&then), "{design:?}, seed {seed}, round {round}");
            let single = keys.iter().map(|key| snapshot.get(key).unwrap());
            assert_eq!(single.collect::<Vec<_>>(), of(&then), "{design:?}, seed {seed}, round {round}");
        }
        db.close().unwrap();
    }
}

#[test]
fn keys_of_one_leaf_share_its_read() {
    let place = Place::new();
    let db = options().memory(2 << 20).open(&place.uri()).unwrap();
    db.ingest((0..100_000_u64).map(|number| (number.to_be_bytes(), number.to_be_bytes()))).unwrap();
    db.compact(&mut |_, _| {}).unwrap();
    db.close().unwrap();
    let db = options().memory(2 << 20).open(&place.uri()).unwrap();
    let before = db.stats().unwrap();
    let keys: Vec<[u8; 8]> = (50_000..50_600_u64).rev().chain(50_000..50_600).map(u64::to_be_bytes).collect();
    let values = db.multi_get(&keys).unwrap();
    assert!(values.iter().zip(&keys).all(|(value, key)| value.as_deref() == Some(&key[..])));
    let after = db.stats().unwrap();
    let reads = after.device.reads - before.device.reads;
    assert!((2..=5).contains(&reads), "{reads} reads for 600 neighbours in leaves of some 250");
    let (gets, leaf_reads) = (after.tree.gets - before.tree.gets, after.tree.leaf_reads - before.tree.leaf_reads);
    assert_eq!((gets, leaf_reads), (1_200, reads), "I8");
}

#[test]
fn no_keys_have_no_values() {
    let db = common::memory();
    assert_eq!(db.multi_get::<&str>([]).unwrap(), []);
    assert_eq!(db.snapshot().unwrap().multi_get::<&str>([]).unwrap(), []);
}
