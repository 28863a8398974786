//! Batches are atomic, ordered and limited.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, keys, memory};
use zonda::limits::BATCH_BYTES_MAX;
use zonda::{Batch, Durability, Error};

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

#[test]
fn a_batch_over_the_limit_is_refused_and_one_of_half_its_size_is_not() {
    let db = memory();
    let filled = |bytes: usize| {
        let mut batch = Batch::new();
        for number in 0..bytes / 512 {
            batch.put(format!("{number:012}"), [7; 500]);
        }
        batch
    };
    assert!(matches!(db.write(filled(2 * BATCH_BYTES_MAX)), Err(Error::BatchTooLong { .. })));
    assert_eq!(db.first().unwrap(), None);
    db.write(filled(BATCH_BYTES_MAX / 2)).unwrap();
}
