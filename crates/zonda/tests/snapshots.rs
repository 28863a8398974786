//! Snapshots stay as they were.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{fill, keys, memory};
use zonda::{Batch, Error, Options};

#[test]
fn a_snapshot_does_not_see_later_writes() {
    let db = memory();
    fill(&db, 500);
    let before = db.snapshot().unwrap();
    db.put("0000", "changed").unwrap();
    db.delete("0001").unwrap();
    db.put("new", "").unwrap();
    assert_eq!(before.get("0000").unwrap(), Some(b"0".to_vec()));
    assert!(before.contains_key("0001").unwrap());
    assert!(!before.contains_key("new").unwrap());
    assert_eq!(before.iter().unwrap().count(), 500);
    assert_eq!(before.last().unwrap().unwrap().0, b"0499");
    assert_eq!(before.multi_get(["new", "0001"]).unwrap(), [None, Some(b"1".to_vec())]);
    assert_eq!(keys(before.range("0001"..="0002")), ["0001", "0002"]);
    assert_eq!(keys(before.prefix("00001")), [""; 0]);
    assert_eq!(db.iter().unwrap().count(), 500);
}

#[test]
fn snapshots_of_several_moments_live_together() {
    let db = memory();
    let snapshots: Vec<_> = (0..5_u8)
        .map(|moment| {
            db.put("key", [moment]).unwrap();
            db.snapshot().unwrap()
        })
        .collect();
    for (moment, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot.get("key").unwrap(), Some(vec![u8::try_from(moment).unwrap()]));
    }
}

#[test]
fn a_snapshot_holds_all_of_a_batch_or_nothing() {
    let db = memory();
    let other = db.clone();
    let writer = zonda_rt::spawn("writer", move || {
        for round in 0..300_u32 {
            let mut batch = Batch::new();
            for key in 0..8_u8 {
                batch.put([key], round.to_be_bytes());
            }
            other.write(batch).unwrap();
        }
    });
    for _ in 0..50 {
        let snapshot = db.snapshot().unwrap();
        let values: Vec<_> = snapshot.iter().unwrap().map(|pair| pair.unwrap().1).collect();
        assert!(values.is_empty() || values.len() == 8, "{} of a batch's keys", values.len());
        assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "two rounds in one snapshot: {values:?}");
    }
    writer.join().unwrap();
}

#[test]
fn a_snapshot_knows_the_trees_of_its_moment() {
    let db = memory();
    db.tree("old").unwrap().put("k", "v").unwrap();
    let snapshot = db.snapshot().unwrap();
    db.tree("new").unwrap();
    db.drop_tree("old").unwrap();
    assert_eq!(snapshot.tree("old").unwrap().get("k").unwrap(), Some(b"v".to_vec()));
    assert_eq!(snapshot.tree_names().unwrap(), ["old"]);
    assert_eq!(db.snapshot().unwrap().tree_names().unwrap(), ["new"]);
    assert!(matches!(snapshot.tree("new"), Err(Error::NoSuchTree { .. })));
}

#[test]
fn a_name_that_no_tree_can_have_is_the_name_of_none() {
    let db = Options::preset("bftree").unwrap().background(false).open("mem:").unwrap();
    for number in 0..20_000_u32 {
        db.put(number.to_be_bytes(), "x").unwrap();
    }
    db.compact(&mut |_, _| {}).unwrap();
    let snapshot = db.snapshot().unwrap();
    for bytes in (3_000..3_050).chain([0, 300_000]) {
        let found = snapshot.tree(&"x".repeat(bytes)).map(drop);
        assert!(matches!(found, Err(Error::NoSuchTree { .. })), "{bytes} bytes: {found:?}");
    }
    db.tree("y").unwrap().put("k", "v").unwrap();
}
