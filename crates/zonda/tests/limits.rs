//! Limits hold exactly: the last allowed length works, one more is refused with both numbers, and nothing is written.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, options};
use zonda::limits::{CAPACITY_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX, ZONE_BYTES_MIN};
use zonda::{Batch, Db, Design, Error, Options};

#[test]
fn keys() {
    Design::ALL.into_iter().for_each(keys_of);
}

fn keys_of(design: Design) {
    let db = options().design(design).open("mem:").unwrap();
    let tree = db.tree("named").unwrap();
    for bytes in [0, 1, KEY_BYTES_MAX - 1, KEY_BYTES_MAX] {
        let key = vec![0xff; bytes];
        db.put(&key, "v").unwrap();
        tree.put(&key, "w").unwrap();
        assert_eq!(db.get(&key).unwrap(), Some(b"v".to_vec()), "{design:?} {bytes}");
        assert_eq!(tree.get(&key).unwrap(), Some(b"w".to_vec()), "{design:?} {bytes}");
    }
    let long = vec![0xff; KEY_BYTES_MAX + 1];
    let refused = |result: zonda::Result<()>| {
        assert!(matches!(result, Err(Error::KeyTooLong { bytes, bytes_max }) if bytes == bytes_max + 1));
    };
    refused(db.put(&long, "v"));
    refused(db.delete(&long));
    refused(db.get(&long).map(|_| ()));
    refused(db.multi_get([&long]).map(|_| ()));
    refused(db.ingest([(&long, "v")]).map(|_| ()));
    let mut batch = Batch::new();
    batch.delete(&long);
    refused(db.write(batch));
    assert_eq!(db.iter().unwrap().count(), 4);
}

#[test]
fn values_also_after_reopening() {
    Design::ALL.into_iter().for_each(values_of);
}

fn values_of(design: Design) {
    let place = Place::new();
    let open = || options().design(design).open(&place.uri()).unwrap();
    let db = open();
    let lengths = [0, 1, 1000, 1024, 1025, 4096, 100_000, VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX];
    let value = |bytes: usize| -> Vec<u8> { (0..bytes).map(|index| (index % 251).to_le_bytes()[0]).collect() };
    for bytes in lengths {
        db.put(bytes.to_be_bytes(), value(bytes)).unwrap();
    }
    let long = vec![0; VALUE_BYTES_MAX + 1];
    assert!(matches!(db.put("k", &long), Err(Error::ValueTooLong { bytes, bytes_max }) if bytes == bytes_max + 1));
    db.close().unwrap();
    let db = open();
    for bytes in lengths {
        assert!(db.get(bytes.to_be_bytes()).unwrap() == Some(value(bytes)), "{design:?} {bytes}");
    }
    assert_eq!(db.iter().unwrap().count(), lengths.len());
}

#[test]
fn memory_below_the_least_is_refused_with_numbers() {
    let least = zonda::limits::MEMORY_BYTES_MIN;
    for design in Design::ALL {
        let open = |bytes| Options::new().design(design).memory(bytes).open("mem:");
        open(least).unwrap().put("k", "v").unwrap();
        let refused = open(least - 1).unwrap_err();
        assert!(refused.to_string().contains(&least.to_string()), "{refused}");
    }
}

/// Whoever does not say how long zones are gets such that there are no more than a device may have.
#[test]
fn capacities_that_are_allowed_can_be_had() {
    for capacity_bytes in [20 << 40, CAPACITY_BYTES_MAX] {
        let db = Options::new().memory(1 << 30).capacity(capacity_bytes).open("mem:").unwrap();
        let space = db.stats().unwrap().space;
        assert!(space.capacity_bytes >= capacity_bytes / 100 * 99 && space.zones <= 1 << 20, "{space:?}");
        db.put("k", "v").unwrap();
    }
}

/// Of the smallest zones there may be: two pages of such leaves are longer than one, and so is a batch of long keys.
#[test]
fn merges_that_are_longer_than_a_zone() {
    type Load = fn(&Db, u8);
    let large_leaves: Load = |db, round| {
        (0..40_u8).for_each(|key| db.put([key], [round; 6000]).unwrap());
    };
    let long_keys: Load = |db, round| {
        for first in [0, 20, 40_u8] {
            let mut batch = Batch::new();
            (first..first + 20).for_each(|key| _ = batch.put([key; KEY_BYTES_MAX], [round; 1000]));
            db.write(batch).unwrap();
        }
    };
    for (leaf_bytes, value_inline, load, keys) in [(32 << 10, 8192, large_leaves, 40), (4096, 1024, long_keys, 60)] {
        let place = Place::new();
        let open = || {
            let options = options().zone_bytes(ZONE_BYTES_MIN).capacity(32 << 20).background(false);
            options.leaf_bytes(leaf_bytes).value_inline(value_inline).open(&place.uri()).unwrap()
        };
        for round in 0..4 {
            let db = open();
            load(&db, round);
            if round % 2 == 0 {
                db.compact(&mut |_, _| {}).unwrap();
            }
            db.close().unwrap();
            let values = open().iter().unwrap().map(|pair| pair.unwrap().1[0]).collect::<Vec<_>>();
            assert_eq!(values, vec![round; keys], "leaves of {leaf_bytes}");
        }
    }
}
