//! A small device beside a large budget: leaf buffers end at a share of the capacity, and what they cannot have caches pages.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]

use zonda::{Db, Design, Options, Stats};

const MIB: u64 = 1 << 20;
/// They fill some 8 MB of leaves.
const PAIRS: u64 = 60_000;

const CAPACITY_BYTES: u64 = 64 * MIB;
const DEVICES: [&str; 2] = ["mem:?zones=64&zone_size=1MiB", "mem:?layout=blocks&zones=64&zone_size=1MiB"];

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(number: u64, round: u64) -> Vec<u8> {
    (number + round).to_be_bytes().repeat(12)
}

fn open(design: Design, device: &str) -> Db {
    Options::new().memory(32 * MIB).design(design).seed(5).log_instances(2).background(false).open(device).unwrap()
}

fn put_all(db: &Db, round: u64) {
    for number in 0..PAIRS {
        db.put(key(number), value(number, round)).unwrap();
        if number % 500 == 0 {
            db.step().unwrap();
        }
    }
}

/// Bytes that the device reads for a get of each pair, and what is used in the end.
fn get_all(db: &Db, round: u64) -> (u64, Stats) {
    let before = db.stats().unwrap().device.read_bytes;
    for number in 0..PAIRS {
        assert_eq!(db.get(key(number)).unwrap(), Some(value(number, round)));
        if number % 500 == 0 {
            db.step().unwrap();
        }
    }
    let stats = db.stats().unwrap();
    (stats.device.read_bytes - before, stats)
}

#[test]
fn what_buffers_cannot_have_caches_pages() {
    for (design, device) in [Design::BTree, Design::BfTree].into_iter().flat_map(|it| DEVICES.map(|on| (it, on))) {
        let db = open(design, device);
        for round in 0..2 {
            put_all(&db, round);
            get_all(&db, round);
            let (bytes, Stats { memory, .. }) = get_all(&db, round);
            let what = format!("{design:?} on {device}, round {round}: {bytes} bytes read, {memory:?}");
            assert!(memory.used_bytes <= memory.budget_bytes, "I6, {what}");
            assert!(memory.buffer_bytes <= CAPACITY_BYTES / 22 + MIB / 2 && memory.page_bytes > 5 * MIB, "{what}");
            assert!(bytes < PAIRS * 4_096 / 50, "{what}");
        }
        // Less memory takes from the pages first.
        let before = db.stats().unwrap().memory;
        db.set_memory(8 * MIB).unwrap();
        let after = db.stats().unwrap().memory;
        assert!(after.used_bytes <= 8 * MIB && after.buffer_bytes * 2 > before.buffer_bytes, "{before:?}, {after:?}");
        db.close().unwrap();
    }
}
