//! What mini-pages have not filled of their memory caches pages while nobody writes.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]

use zonda::{Db, Design, Options, Stats};
use zonda_rt::Seed;

const MIB: u64 = 1 << 20;
/// They fill some 20 MB of leaves, and the budget holds more than half of them.
const PAIRS: u64 = 200_000;
const GETS: u64 = 20_000;

fn value(number: u64, round: u64) -> Vec<u8> {
    (number + round).to_be_bytes().repeat(10)
}

fn put(db: &Db, numbers: std::ops::Range<u64>, round: u64) {
    for number in numbers {
        db.put(number.to_be_bytes(), value(number, round)).unwrap();
        if number.is_multiple_of(500) {
            db.step().unwrap();
        }
    }
}

/// Bytes that the device reads for one of so many gets all over the store, and what is used in the end.
fn get(db: &Db, seed: u64) -> (u64, Stats) {
    let before = db.stats().unwrap().device.read_bytes;
    let mut rng = Seed(seed).rng();
    for count in 0..GETS {
        let number = rng.below(PAIRS);
        assert_eq!(db.get(number.to_be_bytes()).unwrap(), Some(value(number, 0)));
        if count.is_multiple_of(100) {
            db.step().unwrap();
        }
    }
    let stats = db.stats().unwrap();
    ((stats.device.read_bytes - before) / GETS, stats)
}

#[test]
fn idle_memory_of_mini_pages_caches_pages_until_somebody_writes() {
    for device in ["mem:?zones=512&zone_size=1MiB", "mem:?layout=blocks&zones=512&zone_size=1MiB"] {
        let options = || Options::new().memory(16 * MIB).design(Design::BfTree).seed(5).background(false);
        let db = options().open(device).unwrap();
        put(&db, 0..PAIRS, 0);
        db.compact(&mut |_, _| {}).unwrap();
        get(&db, 1);
        let (bytes, Stats { memory, .. }) = get(&db, 2);
        let what = format!("{device}: {bytes} bytes read a get, {memory:?}");
        assert!(memory.used_bytes <= memory.budget_bytes, "I6, {what}");
        assert!(memory.page_bytes > 4 * MIB && bytes < 4_096 * 7 / 10, "{what}");
        put(&db, 0..PAIRS / 20, 1);
        let Stats { memory, .. } = db.stats().unwrap();
        assert!(memory.used_bytes <= memory.budget_bytes, "I6, {device}: {memory:?}");
        assert!(memory.page_bytes < MIB, "writers have their memory back, {device}: {memory:?}");
    }
}
