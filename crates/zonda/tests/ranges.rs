//! Ranges and prefixes from both ends.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::collections::BTreeMap;
use std::ops::Bound;

use common::{fill, keys, memory};
use proptest::prelude::*;
use zonda::{Design, Options, StoreKind};

#[test]
fn ranges_move_between_threads() {
    fn is<T: Send + 'static>() {}
    is::<zonda::Range>();
    is::<zonda::Keys>();
    is::<zonda::View>();
}

#[test]
fn every_kind_of_bound() {
    let db = memory();
    for key in ["", "a", "ab", "b", "c"] {
        db.put(key, "").unwrap();
    }
    assert_eq!(keys(db.iter()), ["", "a", "ab", "b", "c"]);
    assert_eq!(keys(db.range::<&str>(..)), ["", "a", "ab", "b", "c"]);
    assert_eq!(keys(db.range("a".."b")), ["a", "ab"]);
    assert_eq!(keys(db.range("a"..="b")), ["a", "ab", "b"]);
    assert_eq!(keys(db.range(.."a")), [""]);
    assert_eq!(keys(db.range("b"..)), ["b", "c"]);
    assert_eq!(keys(db.range::<&str>((Bound::Excluded("a"), Bound::Unbounded))), ["ab", "b", "c"]);
    assert_eq!(keys(db.range("c".."a")), [""; 0]);
    assert_eq!(keys(db.range("b".."b")), [""; 0]);
}

#[test]
fn prefixes_at_the_end_of_the_key_space() {
    let db = memory();
    for key in [&b"\xfe"[..], b"\xff", b"\xff\xff", b"\xff\xff\x00"] {
        db.put(key, "").unwrap();
    }
    assert_eq!(db.prefix(b"\xff").unwrap().count(), 3);
    assert_eq!(db.prefix(b"\xff\xff").unwrap().count(), 2);
    assert_eq!(db.prefix("").unwrap().count(), 4);
}

#[test]
fn both_ends_meet_and_stay_at_the_end() {
    let db = memory();
    fill(&db, 5);
    let mut range = db.iter().unwrap();
    let mut taken = Vec::new();
    for back in [false, true, true, false, false, false, true] {
        let item = if back { range.next_back() } else { range.next() };
        taken.push(item.map(|pair| pair.unwrap().1));
    }
    let text = |digit: &str| Some(digit.as_bytes().to_vec());
    assert_eq!(taken, [text("0"), text("4"), text("3"), text("1"), text("2"), None, None]);
}

#[test]
fn first_and_last() {
    let db = memory();
    assert_eq!((db.first().unwrap(), db.last().unwrap()), (None, None));
    fill(&db, 1000);
    assert_eq!(db.first().unwrap().unwrap().0, b"0000");
    assert_eq!(db.last().unwrap().unwrap().0, b"0999");
}

#[test]
fn a_range_sees_its_own_moment_while_writers_go_on() {
    let db = memory();
    fill(&db, 300);
    let mut range = db.iter().unwrap();
    assert_eq!(range.next().unwrap().unwrap().0, b"0000");
    assert_eq!(db.delete_range::<&str>(..).unwrap(), 300);
    db.put("new", "").unwrap();
    assert_eq!(range.count(), 299);
    assert_eq!(keys(db.iter()), ["new"]);
}

/// Whoever looks at a pair holds no latch: the same thread writes to the leaf that the next pair is in. Mini-pages become mirrors
/// meanwhile.
#[test]
fn ranges_hold_no_latch_between_pairs_whatever_the_design() {
    for (design, store) in Design::ALL.into_iter().flat_map(|design| StoreKind::ALL.map(|store| (design, store))) {
        let options = Options::new().memory(8 << 20).design(design).store(store).scan_promotion(100).promotion(100);
        let db = options.open("mem:").unwrap();
        fill(&db, 2_000);
        db.compact(&mut |_, _| ()).unwrap();
        for _ in 0..3 {
            assert_eq!(db.iter().unwrap().count(), 2_000, "{design:?} {store:?}: kept for the next");
        }
        let (mut forwards, mut backwards) = (db.iter().unwrap(), db.iter().unwrap().rev());
        for number in 0..2_000_u32 {
            let (first, last) = (forwards.next().unwrap().unwrap(), backwards.next().unwrap().unwrap());
            assert_eq!((first.0, last.0), (key(number), key(1_999 - number)), "{design:?} {store:?}");
            assert_eq!((first.1, last.1), (value(number), value(1_999 - number)), "{design:?} {store:?}");
            // The next ones of both, which they see as they were.
            db.put(key(number + 1), "later").unwrap();
            db.delete(key(1_998_u32.saturating_sub(number))).unwrap();
        }
        assert!(forwards.next().is_none() && backwards.next().is_none());
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:04}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    number.to_string().into_bytes()
}

#[test]
fn delete_range_takes_what_it_says() {
    let db = memory();
    fill(&db, 3000);
    assert_eq!(db.delete_range("0500".."2600").unwrap(), 2100);
    assert_eq!(db.delete_range("0500".."2600").unwrap(), 0);
    assert_eq!(db.delete_range("9".."1").unwrap(), 0);
    let left: Vec<_> = keys(db.iter());
    assert_eq!((left.len(), left[499].as_str(), left[500].as_str()), (900, "0499", "2600"));
}

#[test]
fn delete_prefix_takes_what_a_prefix_has_and_no_more() {
    let db = memory();
    let tree = db.tree("\u{ff}").unwrap();
    for key in [&b""[..], b"a", b"ab", b"ab\xff", b"ab\xff\xff", b"ac", b"\xff", b"\xff\xff", b"\xff\xff\x01"] {
        db.put(key, "").unwrap();
        tree.put(key, "").unwrap();
    }
    assert_eq!(tree.delete_prefix("ab\u{ff}").unwrap(), 0, "that is another");
    assert_eq!(tree.delete_prefix(b"ab\xff").unwrap(), 2);
    assert_eq!(tree.delete_prefix([0xff, 0xff]).unwrap(), 2);
    let left: Vec<_> = tree.iter().unwrap().keys().map(Result::unwrap).collect();
    assert_eq!(left, [&b""[..], b"a", b"ab", b"ac", b"\xff"]);
    assert_eq!((tree.delete_prefix("").unwrap(), tree.first().unwrap()), (5, None));
    assert_eq!(db.iter().unwrap().count(), 9, "of another tree nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn ranges_are_those_of_a_map(
        pairs in proptest::collection::btree_map(proptest::collection::vec(0_u8..4, 0..4), any::<u8>(), 0..60),
        bounds in proptest::collection::vec((proptest::collection::vec(0_u8..4, 0..4), proptest::collection::vec(0_u8..4, 0..4)), 8),
    ) {
        let db = memory();
        for (key, value) in &pairs {
            db.put(key, [*value]).unwrap();
        }
        for (low, high) in bounds {
            let ours: BTreeMap<_, _> = db.range(low.as_slice()..high.as_slice()).unwrap().map(Result::unwrap).collect();
            let theirs = pairs.iter().filter(|(key, _)| (&low..&high).contains(key));
            prop_assert!(ours.into_iter().eq(theirs.map(|(key, value)| (key.clone(), vec![*value]))));
            let backwards: Vec<_> = db.prefix(&low).unwrap().rev().map(|pair| pair.unwrap().0).collect();
            let theirs = pairs.keys().rev().filter(|key| key.starts_with(&low));
            prop_assert!(backwards.iter().eq(theirs));
        }
    }
}
