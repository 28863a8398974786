//! I9: a full store says so with numbers, reads and deletes, and takes writes again once there is space.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use zonda::{Db, Design, Error, Options};

const ON_ZONES: &str = "mem:?zones=64&zone_size=128KiB";
const IN_PLACE: &str = "mem:?layout=blocks&zones=64&zone_size=128KiB";

fn open(device: &str) -> Db {
    Options::new().memory(2 << 20).seed(3).open(device).unwrap()
}

fn key(number: u64, scattered: bool) -> [u8; 8] {
    let number = if scattered { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number };
    number.to_be_bytes()
}

/// Puts until the store is full; returns the number of keys.
fn fill(db: &Db, value: &[u8], scattered: bool) -> u64 {
    for number in 0..u64::MAX {
        match db.put(key(number, scattered), value) {
            Ok(()) => {}
            Err(Error::NoSpace { live_bytes, usable_bytes, .. }) => {
                assert!(usable_bytes > 0 && live_bytes > usable_bytes / 2, "{live_bytes} of {usable_bytes}");
                return number;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a device of 8 MiB is full some day")
}

#[test]
fn full_then_emptied_then_filled_again() {
    for device in [ON_ZONES, IN_PLACE] {
        for (value_bytes, scattered) in [(8, true), (200, true), (200, false), (5_000, true), (60_000, false)] {
            let what = format!("{device}, values of {value_bytes} bytes, scattered {scattered}");
            let db = open(device);
            let value = vec![7; value_bytes];
            let mut keys = fill(&db, &value, scattered);
            for _round in 0..2 {
                assert_eq!(db.iter().unwrap().count() as u64, keys, "{what}");
                for number in 0..keys {
                    db.delete(key(number, scattered)).unwrap();
                }
                for number in 0..keys / 2 {
                    db.put(key(number, scattered), &value)
                        .unwrap_or_else(|error| panic!("{what}: put {number} of {keys}: {error}"));
                }
                assert_eq!(db.iter().unwrap().count() as u64, keys / 2, "{what}");
                keys = fill(&db, &value, scattered);
            }
        }
    }
}

/// They leave ends of zones that nothing fits, and moving them leaves the same ends elsewhere.
#[test]
fn large_values_fill_a_store_up_to_the_ends_that_they_leave() {
    for layout in ["", "&layout=blocks"] {
        for value_bytes in [23_000, 27_000, 33_000, 45_000, 70_000, 90_000, 110_000] {
            let what = format!("{layout}, values of {value_bytes} bytes");
            let db = open(&format!("mem:?zones=160&zone_size=128KiB{layout}"));
            let value = vec![7; value_bytes];
            let mut keys = 0;
            for _round in 0..3 {
                while db.put(key(keys, true), &value).is_ok() {
                    keys += 1;
                }
                let refused = db.put(key(keys, true), &value);
                assert!(matches!(refused, Err(Error::NoSpace { .. })), "{what}: {refused:?}");
                let written = db.stats().unwrap().device.written_bytes;
                assert!(written < 30 * (160 << 17), "{what}: {written} bytes for {keys} values");
                // What dies is room again.
                for number in keys - 20..keys {
                    db.delete(key(number, true)).unwrap();
                }
                keys -= 20;
                for number in keys..keys + 10 {
                    db.put(key(number, true), &value).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                keys += 10;
            }
            assert_eq!(db.iter().unwrap().count() as u64, keys, "{what}");
        }
    }
}

/// What dies is room at once, although reclaim has just given up and the deletes are still in memory.
#[test]
fn in_a_full_store_a_few_large_values_make_room_for_as_many() {
    for layout in ["", "&layout=blocks"] {
        for value_bytes in [33_000, 110_000] {
            let what = format!("{layout}, values of {value_bytes} bytes");
            let db = open(&format!("mem:?zones=160&zone_size=128KiB{layout}"));
            let value = vec![7; value_bytes];
            let keys = fill(&db, &value, true);
            for round in 0..40 {
                let dead = keys - 12..keys;
                for number in dead.clone() {
                    db.delete(key(number, true)).unwrap();
                }
                // A few ends of zones may be lost to each.
                for number in dead.skip(6) {
                    let put = db.put(key(number, true), &value);
                    put.unwrap_or_else(|error| panic!("{what}, round {round}, {number} of {keys}: {error}"));
                }
                for number in keys - 12..keys {
                    match db.put(key(number, true), &value) {
                        Ok(()) | Err(Error::NoSpace { .. }) => {}
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
            }
        }
    }
}

/// Merges of these deletes need a page each: they free one only together with their neighbours'. Four of five keys then fit leaves that are
/// a fifth empty, which takes seven of eight of them.
#[test]
fn full_then_thinned_out_then_filled_again() {
    for device in [ON_ZONES, IN_PLACE] {
        for (value_bytes, scattered) in [(8, true), (200, true), (200, false)] {
            let what = format!("{device}, values of {value_bytes} bytes, scattered {scattered}");
            let db = open(device);
            let value = vec![7; value_bytes];
            let keys = fill(&db, &value, scattered);
            for number in (0..keys).step_by(2) {
                db.delete(key(number, scattered)).unwrap();
            }
            let again = || (0..keys).filter(|number| matches!(number % 10, 0 | 4 | 6));
            for number in again() {
                let put = db.put(key(number, scattered), &value);
                put.unwrap_or_else(|error| panic!("{what}: put {number} of {keys}: {error}"));
            }
            assert_eq!(db.iter().unwrap().count() as u64, keys / 2 + again().count() as u64, "{what}");
        }
    }
}

/// Pages in memory that nobody changed are in their place already.
#[test]
fn what_reads_left_in_memory_needs_no_space() {
    for design in [Design::BTree, Design::BfTree] {
        let db = Options::new().memory(2 << 20).seed(3).design(design).open(ON_ZONES).unwrap();
        let value = [7; 200];
        let keys = fill(&db, &value, true);
        for number in (0..keys).step_by(7) {
            db.delete(key(number, true)).unwrap();
            let memory = db.stats().unwrap().memory;
            // A flush of the MetaLog by who checkpoints beside it, twice.
            let bytes_max = memory.budget_bytes + 2 * (64 << 10);
            assert!(memory.used_bytes <= bytes_max, "{design:?}, delete {number}: {memory:?}");
        }
        db.compact(&mut |_, _| {}).unwrap();
        for number in 0..keys {
            assert_eq!(db.get(key(number, true)).unwrap().is_some(), !number.is_multiple_of(7));
        }
        let refused = (keys..).find_map(|number| db.put(key(number, true), value).err());
        let Some(Error::NoSpace { live_bytes, usable_bytes, .. }) = refused else { panic!("{design:?}: {refused:?}") };
        assert!(live_bytes * 100 >= usable_bytes * 97, "{design:?}: {live_bytes} live of {usable_bytes}");
    }
}

#[test]
fn a_range_is_deleted_in_a_full_store() {
    let db = open(ON_ZONES);
    let value = [7; 200];
    let keys = fill(&db, &value, false);
    assert!(keys > 4_000, "full after {keys} keys");
    let half = (keys / 2).to_be_bytes();
    assert_eq!(db.delete_range(..half).unwrap(), keys / 2);
    for number in 0..keys / 4 {
        db.put(number.to_be_bytes(), value).unwrap();
    }
    assert_eq!(db.iter().unwrap().count() as u64, keys - keys / 2 + keys / 4);
}

#[test]
fn a_tree_is_dropped_in_a_full_store() {
    for device in [ON_ZONES, IN_PLACE] {
        let db = open(device);
        let tree = db.tree("large").unwrap();
        let put = |number: u64| tree.put(number.to_be_bytes(), [7; 200]);
        let keys = (0..u64::MAX).find(|number| put(*number).is_err()).unwrap();
        assert!(keys > 4_000, "{device}: full after {keys} keys");
        assert!(db.drop_tree("large").unwrap(), "{device}");
        for number in 0..keys / 2 {
            db.put(number.to_be_bytes(), [7; 200]).unwrap();
        }
        assert_eq!(db.iter().unwrap().count() as u64, keys / 2, "{device}");
    }
}

/// In small zones much of what is not live lies in ends that nothing fits, log and MetaLog take many zones, and reclaim has little
/// to gain from each: the store goes on as long as what is live is within the usable space.
#[test]
fn small_zones_are_overwritten_until_what_is_live_fills_the_usable_space() {
    const PAIRS: u64 = 60_000;
    /// What waits in buffers may come on top of what is live: a refusal may come this much early.
    const PERCENT: u64 = 97;
    for zones in [216, 224, 236, 250] {
        let device = format!("mem:?zones={zones}&zone_size=64KiB&max_active=14");
        let db = Options::new().memory(2 << 20).seed(7).open(&device).unwrap();
        let mut chosen = Chosen(7);
        let updates = (0..2 * PAIRS).map(|_| chosen.below(PAIRS));
        for (count, number) in (0..PAIRS).chain(updates).enumerate() {
            match db.put(key(number, true), [7; 64]) {
                Ok(()) => {}
                Err(Error::NoSpace { live_bytes, usable_bytes, .. }) if live_bytes * 100 >= usable_bytes * PERCENT => {
                    break;
                }
                Err(error) => panic!("{device}, put {count}: {error}; {:?}", db.stats().unwrap().space),
            }
        }
        db.check(&mut |_, _| {}, &mut |finding| panic!("{device}: {finding}")).unwrap();
    }
}

/// A linear congruential generator.
struct Chosen(u64);

impl Chosen {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
