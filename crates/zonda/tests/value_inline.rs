//! Values longer than the threshold stand in the value log, the others in leaves; the threshold may differ at every opening.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]
mod common;

use std::collections::BTreeMap;

use common::{Place, options};
use zonda::{Db, Error};
use zonda_rt::Seed;

const KEYS: u64 = 300;
const THRESHOLDS: [u32; 5] = [1024, 0, 64, 1000, 65];

fn value_log_bytes(db: &Db) -> u64 {
    db.stats().unwrap().written.value_bytes
}

#[test]
fn the_threshold_is_exact_and_one_byte_more_is_separated() {
    for threshold in THRESHOLDS {
        let db = options().value_inline(threshold).open("mem:").unwrap();
        let value = |more: usize| vec![9; threshold as usize + more];
        db.put("k", value(0)).unwrap();
        assert_eq!(value_log_bytes(&db), 0, "{threshold}");
        db.put("k", value(1)).unwrap();
        assert_eq!(value_log_bytes(&db), 4096, "{threshold}: a block of its own");
        assert_eq!(db.get("k").unwrap(), Some(value(1)));
    }
}

#[test]
fn a_threshold_beyond_a_quarter_of_the_leaf_is_refused_before_anything_is_written() {
    let place = Place::new();
    let refused = |result: zonda::Result<Db>| {
        assert!(matches!(result, Err(Error::BadOption { name: "value_inline", .. })), "{result:?}");
    };
    refused(options().value_inline(1025).open(&place.uri()));
    // Nothing was made: the same place takes a store with larger leaves, whose threshold may be larger.
    let large = options().leaf_bytes(8192).value_inline(2048).open(&place.uri()).unwrap();
    large.put("k", [7; 2048]).unwrap();
    assert_eq!(value_log_bytes(&large), 0);
    large.close().unwrap();
    // What the leaves are is known from the store.
    refused(options().value_inline(2049).open(&place.uri()));
    let again = options().value_inline(2048).open(&place.uri()).unwrap();
    assert_eq!(again.get("k").unwrap(), Some(vec![7; 2048]));
}

/// Puts, deletes and batches of many lengths under one threshold after the other, beside a map; everything is read after every opening.
#[test]
fn what_was_written_under_another_threshold_is_read_overwritten_and_deleted() {
    let place = Place::new();
    let mut model = BTreeMap::new();
    let mut rng = Seed(11).rng();
    for (life, threshold) in THRESHOLDS.into_iter().enumerate() {
        let db = options().value_inline(threshold).open(&place.uri()).unwrap();
        let whole: Vec<(Vec<u8>, Vec<u8>)> = db.iter().unwrap().map(|pair| pair.unwrap()).collect();
        let expected: Vec<_> = model.clone().into_iter().collect();
        assert!(whole == expected, "life {life}, threshold {threshold}: {} of {}", whole.len(), expected.len());
        for _ in 0..2_000 {
            let key = rng.below(KEYS).to_be_bytes().to_vec();
            if rng.chance(0.2) {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let lengths = [rng.index(100), 63, 64, 65, 66, 1000, 1001, 1024, 1025, rng.index(3_000)];
                let value = vec![rng.index(256).to_le_bytes()[0]; lengths[rng.index(lengths.len())]];
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        db.check(&mut |_, _| {}, &mut |finding| panic!("life {life}: {finding}")).unwrap();
        db.close().unwrap();
    }
}
