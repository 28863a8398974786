//! Atomic updates of one key.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::memory;
use zonda::limits::VALUE_BYTES_MAX;
use zonda::{Error, Swap, Update};

#[test]
fn compare_and_swap_in_all_its_forms() {
    let db = memory();
    let swap = |expected: Option<&[u8]>, new: Option<&[u8]>| db.compare_and_swap("k", expected, new).unwrap();
    assert_eq!(swap(Some(b"1"), Some(b"2")), Swap::Mismatch { current: None });
    assert_eq!(swap(None, Some(b"1")), Swap::Done);
    assert_eq!(swap(None, Some(b"2")), Swap::Mismatch { current: Some(b"1".to_vec()) });
    assert_eq!(swap(Some(b"1"), Some(b"2")), Swap::Done);
    assert_eq!(swap(Some(b"2"), None), Swap::Done);
    assert_eq!(swap(None, None), Swap::Done);
    assert_eq!(db.get("k").unwrap(), None);
}

#[test]
fn fetch_update_returns_what_was_there() {
    let db = memory();
    assert_eq!(db.fetch_update("k", |_| Update::Put(b"1".to_vec())).unwrap(), None);
    assert_eq!(db.fetch_update("k", |_| Update::Keep).unwrap(), Some(b"1".to_vec()));
    assert_eq!(db.fetch_update("k", |_| Update::Delete).unwrap(), Some(b"1".to_vec()));
    assert_eq!(db.get("k").unwrap(), None);
}

#[test]
fn a_value_over_the_limit_is_refused_and_nothing_changes() {
    let db = memory();
    db.put("k", "old").unwrap();
    let long = vec![0; VALUE_BYTES_MAX + 1];
    assert!(matches!(db.fetch_update("k", |_| Update::Put(long.clone())), Err(Error::ValueTooLong { .. })));
    assert!(matches!(db.compare_and_swap("k", Some(b"old"), Some(&long)), Err(Error::ValueTooLong { .. })));
    assert_eq!(db.get("k").unwrap(), Some(b"old".to_vec()));
}

#[test]
fn no_increment_is_lost_between_threads() {
    let db = memory();
    let increment = |old: Option<&[u8]>| {
        let count = old.map_or(0, |old| u64::from_be_bytes(old.try_into().unwrap()));
        Update::Put((count + 1).to_be_bytes().to_vec())
    };
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let db = db.clone();
            zonda_rt::spawn(format!("adder {number}"), move || {
                for _ in 0..500 {
                    db.fetch_update("count", increment).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(db.get("count").unwrap(), Some(2000_u64.to_be_bytes().to_vec()));
}
