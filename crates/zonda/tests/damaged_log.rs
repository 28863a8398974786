//! A store whose log is damaged is not opened, but what comes before the damage can be read.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::os::unix::fs::FileExt;

use common::{Place, options};
use zonda::{Db, Error};

/// Writes that are each durable by themselves.
const WRITES: u32 = 60;

/// What a crash behind `WRITES` synced puts leaves.
fn crashed(place: &Place) -> String {
    let db = options().open(&place.uri()).unwrap();
    for number in 0..WRITES {
        db.put(number.to_be_bytes(), [7; 10]).unwrap();
        db.sync().unwrap();
    }
    let crashed = place.named("crashed.zonda");
    std::fs::copy(place.uri(), &crashed).unwrap();
    crashed
}

/// How many of the writes, which must be the first ones.
fn first_writes(db: &Db) -> u32 {
    let keys: Vec<u32> =
        db.iter().unwrap().map(|pair| u32::from_be_bytes(pair.unwrap().0.try_into().unwrap())).collect();
    assert!(keys.iter().copied().eq(0..u32::try_from(keys.len()).unwrap()), "{keys:?}");
    u32::try_from(keys.len()).unwrap()
}

#[test]
fn what_comes_before_the_damage_is_read_if_asked_for() {
    let place = Place::new();
    let crashed = crashed(&place);
    let bears = || options().log_up_to_damage(true);
    let whole = bears().open_read_only(&crashed).unwrap();
    assert_eq!((first_writes(&whole), whole.log_left_out().unwrap()), (WRITES, None));
    let log_bytes = whole.stats().unwrap().space.log_bytes;
    assert!(log_bytes >= u64::from(WRITES) * 4096, "{log_bytes} bytes are to be replayed");
    drop(whole);
    let image = std::fs::read(&crashed).unwrap();
    let file = std::fs::File::options().write(true).open(&crashed).unwrap();
    let mut refused = 0;
    for at in (0..image.len()).step_by(4096).filter(|&at| image[at..at + 64].iter().any(|&byte| byte != 0)) {
        file.write_all_at(&[image[at + 40] ^ 1], at as u64 + 40).unwrap();
        match options().open_read_only(&crashed) {
            Err(Error::Damaged { what, .. }) if what == "log" => {
                let db = bears().open_read_only(&crashed).unwrap();
                let (writes, left_out) = (u64::from(first_writes(&db)), db.log_left_out().unwrap().unwrap());
                assert!(left_out > 0 && writes + left_out <= WRITES.into(), "{writes} and {left_out}, byte {at}");
                refused += 1;
            }
            _ => {}
        }
        file.write_all_at(&[image[at + 40]], at as u64 + 40).unwrap();
    }
    assert!(refused > WRITES / 2, "{refused}");
}

#[test]
fn nothing_is_written_behind_damage() {
    let place = Place::new();
    let opened = options().log_up_to_damage(true).open(&crashed(&place));
    assert!(matches!(opened, Err(Error::BadOption { name: "log_up_to_damage", .. })));
}
