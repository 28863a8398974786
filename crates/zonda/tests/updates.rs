//! Atomic updates of one key.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::memory;
use zonda::limits::VALUE_BYTES_MAX;
use zonda::{Db, Error, Options, Swap, Update};

const NEARLY_FULL: [&str; 2] = ["mem:?zones=64&zone_size=128KiB", "mem:?layout=blocks&zones=64&zone_size=128KiB"];
const LARGE: usize = 60_000;

/// A store without threads that takes no more large values; returns how many it has.
fn full_of_large_values(device: &str) -> (Db, u64) {
    full_of_values(device, LARGE)
}

/// The same with values of `bytes` bytes.
fn full_of_values(device: &str, bytes: usize) -> (Db, u64) {
    let db = Options::new().memory(2 << 20).seed(3).background(false).open(device).unwrap();
    for number in 0_u64.. {
        match db.put(number.to_be_bytes(), vec![1; bytes]) {
            Ok(()) => {}
            Err(Error::NoSpace { .. }) => return (db, number),
            Err(error) => panic!("{device}: {error}"),
        }
    }
    unreachable!("a device of 8 MiB is full some day")
}

/// What is overwritten makes room for what overwrites it: an update waits for that as a put does, however long its value is.
#[test]
fn large_values_are_updated_on_a_device_that_is_nearly_full() {
    for device in NEARLY_FULL {
        let (db, keys) = full_of_large_values(device);
        for number in 0..keys / 10 {
            db.delete(number.to_be_bytes()).unwrap();
        }
        let left: Vec<u64> = (keys / 10..keys).collect();
        for round in 2..5_u8 {
            for number in &left {
                let (key, before) = (number.to_be_bytes(), vec![round - 1; LARGE]);
                let wanted = || format!("{device}: update {number} of {keys}, round {round}");
                if number % 2 == 0 {
                    let swap = db.compare_and_swap(key, Some(&before), Some(&[round; LARGE]));
                    assert_eq!(swap.unwrap_or_else(|error| panic!("{}: {error}", wanted())), Swap::Done);
                } else {
                    let old = db.fetch_update(key, |_| Update::Put(vec![round; LARGE]));
                    let old = old.unwrap_or_else(|error| panic!("{}: {error}", wanted()));
                    assert!(old.as_ref() == Some(&before), "{}", wanted());
                }
            }
        }
        assert!(left.iter().all(|number| db.get(number.to_be_bytes()).unwrap() == Some(vec![4; LARGE])), "{device}");
    }
}

#[test]
fn a_full_store_refuses_what_needs_room_and_takes_deletes() {
    for device in NEARLY_FULL {
        let (db, keys) = full_of_large_values(device);
        let refused = db.fetch_update(keys.to_be_bytes(), |_| Update::Put(vec![2; LARGE]));
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{device}: {refused:?}");
        assert_eq!(db.get(keys.to_be_bytes()).unwrap(), None);
        let kept = db.fetch_update(0_u64.to_be_bytes(), |_| Update::Keep).unwrap();
        assert!(kept == Some(vec![1; LARGE]), "{device}");
        for number in 0..keys {
            let swap = db.compare_and_swap(number.to_be_bytes(), Some(&[1; LARGE]), None).unwrap();
            assert_eq!(swap, Swap::Done, "{device}: delete {number}");
        }
        assert_eq!(db.iter().unwrap().count(), 0);
        db.fetch_update(0_u64.to_be_bytes(), |_| Update::Put(vec![2; LARGE])).unwrap();
    }
}

/// A value of half a MiB lies in four zones of these devices.
#[test]
fn an_emptied_store_takes_values_of_many_zones() {
    const LONG: usize = 500_000;
    for device in ["mem:?zones=192&zone_size=128KiB", "mem:?layout=blocks&zones=192&zone_size=128KiB"] {
        let (db, keys) = full_of_values(device, LONG);
        for number in 0..keys {
            let swap = db.compare_and_swap(number.to_be_bytes(), Some(&[1; LONG]), None).unwrap();
            assert_eq!(swap, Swap::Done, "{device}: delete {number}");
        }
        for number in 0..keys / 2 {
            let updated = db.fetch_update(number.to_be_bytes(), |_| Update::Put(vec![2; LONG]));
            updated.unwrap_or_else(|error| panic!("{device}: update {number} of {keys}: {error}"));
        }
    }
}

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
