//! Batches are atomic, ordered and limited.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, keys, memory, options};
use zonda::limits::BATCH_BYTES_MAX;
use zonda::{Batch, Db, Durability, Error, Options};

#[test]
fn writes_apply_in_order_and_later_ones_win() {
    let db = memory();
    let mut batch = Batch::new();
    batch.put("a", "1").put("b", "1").delete("a").put("b", "2").delete("c").put("c", "3");
    assert_eq!(batch.len(), 6);
    db.write(batch).unwrap();
    assert_eq!(keys(db.iter()), ["b", "c"]);
    assert_eq!(db.get("b").unwrap(), Some(b"2".to_vec()));
}

#[test]
fn an_empty_batch_is_nothing() {
    memory().write(Batch::new()).unwrap();
}

#[test]
fn a_batch_reaches_several_trees_and_survives_reopening() {
    let place = Place::new();
    let db = place.open();
    let (a, b) = (db.tree("a").unwrap(), db.tree("b").unwrap());
    b.put("gone", "x").unwrap();
    let mut batch = Batch::new();
    batch.put("k", "0").put_in(&a, "k", "1").put_in(&b, "k", "2").delete_in(&b, "gone");
    db.write_with(&batch, Durability::Synced).unwrap();
    drop((db, a, b));
    let db = place.open();
    assert_eq!(db.get("k").unwrap(), Some(b"0".to_vec()));
    assert_eq!(db.tree("a").unwrap().get("k").unwrap(), Some(b"1".to_vec()));
    assert_eq!(keys(db.tree("b").unwrap().iter()), ["k"]);
}

#[test]
fn one_bad_write_refuses_the_whole_batch() {
    let db = memory();
    let mut batch = Batch::new();
    batch.put("good", "1").put(vec![0; 2000], "2");
    assert!(matches!(db.write_with(&batch, Durability::Buffered), Err(Error::KeyTooLong { bytes: 2000, .. })));
    assert_eq!(db.first().unwrap(), None);
    batch.clear();
    batch.put("good", "1");
    db.write(batch).unwrap();
}

#[test]
fn trees_of_another_store_are_refused() {
    let (one, other) = (memory(), memory());
    let mut batch = Batch::new();
    batch.put_in(&other.tree("t").unwrap(), "k", "v");
    assert!(matches!(one.write(batch), Err(Error::OtherStore { .. })));
}

/// What the default tree has in front of a key.
const PREFIX_BYTES: usize = 1;

/// A batch of exactly `bytes`, in records that stand in the log, the last of them 200 to 708 bytes long.
fn batch_of(bytes: usize) -> Batch {
    let mut batch = Batch::new();
    let key = |batch: &Batch| (batch.len() as u64).to_be_bytes();
    while bytes - batch.len_bytes() >= 708 {
        batch.put(key(&batch), [7; 500]);
    }
    batch.put(key(&batch), vec![8; bytes - batch.len_bytes() - PREFIX_BYTES - 8]);
    assert_eq!(batch.len_bytes(), bytes);
    batch
}

/// Whether all pairs of a batch of `bytes` are there.
fn holds(db: &Db, bytes: usize) -> bool {
    let pairs = db.iter().unwrap().map(Result::unwrap);
    pairs.map(|(key, value)| PREFIX_BYTES + key.len() + value.len()).sum::<usize>() == bytes
}

/// With zones that are longer than the longest batch.
fn long_zones() -> Options {
    options().zone_bytes(2 << 20)
}

#[test]
fn a_batch_has_at_most_its_limit_of_bytes() {
    for bytes in [BATCH_BYTES_MAX - 1, BATCH_BYTES_MAX] {
        let place = Place::new();
        let db = long_zones().open(&place.uri()).unwrap();
        db.write_with(&batch_of(bytes), Durability::Synced).unwrap();
        assert!(holds(&db, bytes));
        drop(db);
        assert!(holds(&place.open(), bytes), "after reopening");
    }
    let db = long_zones().open("mem:").unwrap();
    let Err(Error::BatchTooLong { bytes, bytes_max }) = db.write(batch_of(BATCH_BYTES_MAX + 1)) else {
        panic!("a byte over the limit")
    };
    assert_eq!((bytes, bytes_max), (BATCH_BYTES_MAX + 1, BATCH_BYTES_MAX));
    assert_eq!(db.first().unwrap(), None);
    db.write(batch_of(BATCH_BYTES_MAX)).unwrap();
}

/// Names of trees take part, as prefixes; of a long value no more than its pointer.
#[test]
fn prefixes_count_and_long_values_hardly_do() {
    let db = long_zones().open("mem:").unwrap();
    let tree = db.tree("named").unwrap();
    let with_one_in_the_tree = |bytes: usize| {
        let mut batch = batch_of(bytes);
        batch.delete_in(&tree, "");
        batch
    };
    let prefix_bytes = with_one_in_the_tree(1_000).len_bytes() - 1_000;
    assert!(prefix_bytes > 0);
    let over = db.write(with_one_in_the_tree(BATCH_BYTES_MAX - prefix_bytes + 1));
    assert!(matches!(over, Err(Error::BatchTooLong { bytes, bytes_max }) if bytes == bytes_max + 1), "{over:?}");
    db.write(with_one_in_the_tree(BATCH_BYTES_MAX - prefix_bytes)).unwrap();
    let mut long = Batch::new();
    for key in 0..3 {
        long.put([key], vec![key; BATCH_BYTES_MAX / 2]);
    }
    db.write(long).unwrap();
    assert_eq!(db.get([2]).unwrap(), Some(vec![2; BATCH_BYTES_MAX / 2]));
    let mut many = Batch::new();
    for key in 0..1_100_u32 {
        many.put(key.to_be_bytes(), vec![7; 2 << 10]);
    }
    db.write(many).unwrap();
    assert_eq!(db.get(1_099_u32.to_be_bytes()).unwrap(), Some(vec![7; 2 << 10]));
}

/// A batch of values that stand in the value log, each with a key of 1,000 bytes.
fn pointers(count: u64) -> Batch {
    let mut batch = Batch::new();
    for number in 0..count {
        batch.put(number.to_be_bytes().repeat(125), "x");
    }
    batch
}

#[test]
fn a_batch_whose_pointers_are_too_long_is_refused_before_a_value_is_written() {
    let written = |db: &Db| db.stats().unwrap().written.value_bytes;
    let each = PREFIX_BYTES + 1_000 + 24;
    let most = BATCH_BYTES_MAX / each;
    let db = long_zones().value_inline(0).open("mem:").unwrap();
    let Err(Error::BatchTooLong { bytes, bytes_max }) = db.write(pointers(most as u64 + 1)) else { panic!("one more") };
    assert_eq!((bytes, bytes_max, written(&db)), ((most + 1) * each, BATCH_BYTES_MAX, 0));
    db.write(pointers(most as u64)).unwrap();
    assert_eq!(db.iter().unwrap().count(), most);
    // The log record is what is too long.
    let db = options().zone_bytes(256 << 10).value_inline(0).open("mem:").unwrap();
    let Err(Error::BatchTooLong { bytes, bytes_max }) = db.write(pointers(300)) else { panic!("longer than a zone") };
    assert!(bytes > bytes_max && bytes_max < 256 << 10 && written(&db) == 0, "{bytes} of {bytes_max}");
    db.write(pointers(200)).unwrap();
    assert_eq!(db.iter().unwrap().count(), 200);
}

/// A batch is one log record, which lies in one zone: where zones are short, that is the limit, to the byte.
#[test]
fn short_zones_have_shorter_batches() {
    let db = options().zone_bytes(256 << 10).open("mem:").unwrap();
    let mut bytes = 300 << 10;
    while let Err(error) = db.write(batch_of(bytes)) {
        let Error::BatchTooLong { bytes: found, bytes_max } = error else { panic!("{error}") };
        assert!(found > bytes_max && bytes_max < 256 << 10 && db.first().unwrap().is_none(), "{error}");
        bytes -= found - bytes_max;
    }
    // What records cost beside their bytes became less on the way.
    let over = loop {
        match db.write(batch_of(bytes + 1)) {
            Ok(()) => bytes += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(over, Error::BatchTooLong { bytes, bytes_max } if bytes == bytes_max + 1), "{over}");
    assert!(bytes > 240 << 10 && holds(&db, bytes), "{bytes}");
}

/// Of records there may be as many as the log record takes; each takes some bytes there, be its key empty.
#[test]
fn a_batch_has_as_many_records_as_a_log_record_takes() {
    let db = options().zone_bytes(256 << 10).open("mem:").unwrap();
    let deletes = |count: usize| {
        let mut batch = Batch::new();
        for _ in 0..count {
            batch.delete("");
        }
        batch
    };
    let refused = |count: usize| match db.write(deletes(count)) {
        Ok(()) => None,
        Err(Error::BatchTooLong { bytes, bytes_max }) => Some((bytes, bytes_max)),
        Err(other) => panic!("{other}"),
    };
    let (bytes, bytes_max) = refused(256 << 10).expect("more records than the zone has bytes");
    let each = bytes / (256 << 10);
    let most = (256 << 10) - (bytes - bytes_max).div_ceil(each);
    assert_eq!(refused(most), None);
    let (bytes, bytes_max) = refused(most + 1).expect("one more");
    assert!((1..=each).contains(&(bytes - bytes_max)), "{bytes} of {bytes_max}, {each} each");
}
