//! Snapshots stay as they were.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::ops::Bound;

use common::{fill, keys, memory};
use zonda::limits::MEMORY_BYTES_MIN;
use zonda::{Batch, Error, Options, Range};

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

/// An error is the last item of a range, from both ends, and what is behind the last key that it gave is found by a new one.
#[test]
fn a_range_whose_snapshot_is_given_up_ends_and_a_new_one_goes_on_behind_its_last_key() {
    // Of each leaf that is written over at least its place is kept, all of which is more than the share of snapshots.
    const PAIRS: u32 = 40_000;
    let key = |number: u32| number.to_be_bytes().to_vec();
    let db = Options::new().memory(MEMORY_BYTES_MIN).capacity(200 << 20).background(false).open("mem:").unwrap();
    let put_all = |round: u8| (0..PAIRS).for_each(|number| db.put(key(number), [round; 100]).unwrap());
    for is_back in [false, true] {
        put_all(1);
        let step = |range: &mut Range| if is_back { range.next_back() } else { range.next() };
        let mut range = db.iter().unwrap();
        let mut last = step(&mut range).unwrap().unwrap().0;
        put_all(2);
        let ended = loop {
            match step(&mut range).expect("it ends with an error") {
                Ok((key, value)) => {
                    assert_eq!(value, [1; 100], "what it still gives is of its moment");
                    last = key;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(ended, Error::SnapshotTooOld { .. }), "{ended}");
        assert!(range.next().is_none() && range.next_back().is_none(), "an error is its last item");
        let number = u32::from_be_bytes(last[..].try_into().unwrap());
        let (behind, left) = match is_back {
            false => ((Bound::Excluded(&last), Bound::Unbounded), PAIRS - 1 - number),
            true => ((Bound::Unbounded, Bound::Excluded(&last)), number),
        };
        assert_eq!(db.range::<&Vec<u8>>(behind).unwrap().count(), usize::try_from(left).unwrap());
    }
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
