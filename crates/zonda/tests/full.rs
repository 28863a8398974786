//! I9: a full store says so with numbers, reads and deletes, and takes writes again once there is space.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use zonda::{Db, Error, Options};

const VALUE: [u8; 200] = [7; 200];

/// Puts until the store is full; returns the number of keys.
fn fill(db: &Db) -> u64 {
    for number in 0..u64::MAX {
        match db.put(number.to_be_bytes(), VALUE) {
            Ok(()) => {}
            Err(Error::NoSpace { live_bytes, usable_bytes, .. }) => {
                assert!(usable_bytes > 0 && live_bytes > usable_bytes / 2, "{live_bytes} of {usable_bytes}");
                return number;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a device of 16 MiB is full some day")
}

#[test]
fn full_then_emptied_then_filled_again() {
    let options = Options::new().memory(2 << 20).seed(3);
    let db = options.open("mem:?zones=64&zone_size=256KiB").unwrap();
    let keys = fill(&db);
    assert!(keys > 10_000, "full after {keys} keys");
    assert_eq!(db.get(0_u64.to_be_bytes()).unwrap(), Some(VALUE.to_vec()));
    assert_eq!(db.iter().unwrap().count() as u64, keys);
    let half = (keys / 2).to_be_bytes();
    assert_eq!(db.delete_range(..half).unwrap(), keys / 2);
    db.compact(&mut |_, _| {}).unwrap();
    for number in 0..keys / 4 {
        db.put(number.to_be_bytes(), VALUE).unwrap();
    }
    assert_eq!(db.iter().unwrap().count() as u64, keys - keys / 2 + keys / 4);
}
