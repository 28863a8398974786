//! Memory goes to where a byte saves most: records that are read again, pages that scans come back to.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]

use zonda::{Db, MemoryStats, Options};
use zonda_rt::Seed;

const MIB: u64 = 1 << 20;
const BUDGET_BYTES: u64 = 4 * MIB;
const PAIRS: u64 = 300_000;
const FAVOURITES: u64 = 40_000;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A compacted store: buffers hold nothing.
fn loaded() -> Db {
    let db = loaded_with(4096);
    db.compact(&mut |_, _| {}).unwrap();
    db
}

fn loaded_with(leaf_bytes: u32) -> Db {
    let options = Options::new().memory(BUDGET_BYTES).capacity(1 << 30).seed(7).background(false).log(false);
    let options = options.leaf_bytes(leaf_bytes);
    let db = options.open("mem:").unwrap();
    for number in 0..PAIRS {
        db.put(key(number), number.to_be_bytes()).unwrap();
        if number % 1_000 == 0 {
            db.step().unwrap();
        }
    }
    db
}

/// What is where after so many visits of favourites, the first ones most.
fn after(db: &Db, visits: u64, mut visit: impl FnMut(u64)) -> MemoryStats {
    let mut rng = Seed(7).rng();
    for count in 0..visits {
        let draw = rng.next_u64() % FAVOURITES;
        visit(draw * draw / FAVOURITES);
        if count % 100 == 0 {
            db.step().unwrap();
        }
    }
    db.stats().unwrap().memory
}

#[test]
fn records_that_are_read_again_are_kept_and_follow_their_pages() {
    let db = loaded();
    let check = |number: u64| assert_eq!(db.get(key(number)).unwrap(), Some(number.to_be_bytes().to_vec()));
    let memory = after(&db, 300_000, check);
    assert!(memory.record_cache_bytes > BUDGET_BYTES / 16, "{memory:?}");
    let before = db.stats().unwrap().tree;
    after(&db, 20_000, check);
    let tree = db.stats().unwrap().tree;
    let (hits, reads) = (tree.record_hits - before.record_hits, tree.leaf_reads - before.leaf_reads);
    assert!(hits > 18_000 && hits + reads == 20_000, "{hits} of 20,000 from memory, {reads} pages asked, {memory:?}");
    // Merged into pages or not, what was written last is what is read.
    for round in 1..3_u64 {
        (0..FAVOURITES).step_by(3).for_each(|number| db.put(key(number), (number + round).to_be_bytes()).unwrap());
        (0..FAVOURITES).step_by(9).for_each(|number| db.delete(key(number)).unwrap());
        if round == 2 {
            db.compact(&mut |_, _| {}).unwrap();
        }
        for number in 0..FAVOURITES {
            let expected = match number {
                _ if number % 9 == 0 => None,
                _ if number % 3 == 0 => Some((number + round).to_be_bytes().to_vec()),
                _ => Some(number.to_be_bytes().to_vec()),
            };
            assert_eq!(db.get(key(number)).unwrap(), expected, "pair {number}, round {round}");
        }
    }
}

#[test]
fn pages_that_scans_come_back_to_are_kept() {
    let db = loaded();
    let before = db.stats().unwrap().memory;
    let memory = after(&db, 100_000, |number| {
        let pairs = db.range(key(number / 40)..).unwrap().take(32).count();
        assert!(pairs > 0);
    });
    assert!(memory.page_bytes > before.page_bytes + BUDGET_BYTES / 16, "{before:?} and then {memory:?}");
}

/// Gets without favourites show too little in a while to be told from chance, so changes stay in buffers while readers may only rest; in
/// the end nobody adds to them.
#[test]
fn caches_get_the_memory_of_changes_that_nobody_has_added_to_for_long() {
    let db = loaded_with(4096);
    let mut rng = Seed(3).rng();
    let mut changes_after = |gets: u64| {
        for count in 0..gets {
            let number = rng.next_u64() % PAIRS;
            assert_eq!(db.get(key(number)).unwrap(), Some(number.to_be_bytes().to_vec()));
            if count % 100 == 0 {
                db.step().unwrap();
            }
        }
        db.stats().unwrap().memory.buffer_bytes
    };
    let at_first = changes_after(0);
    assert_eq!(changes_after(60_000), at_first, "nothing was merged for a little more cache");
    let late = changes_after(400_000);
    assert!(late < at_first / 2, "{at_first} B of changes, then {late} B");
}

/// Of leaves of 32 KiB the least cache of pages holds two, which must be enough to show that more are worth it.
#[test]
fn a_cache_of_long_pages_grows_from_its_least() {
    let db = loaded_with(32 << 10);
    // Puts of all pairs, which fill any buffers: the cache gives up what it may.
    let mut count = 0;
    let memory = after(&db, 300_000, |_| {
        count += 1;
        db.put(key(count * 7_919 % PAIRS), count.to_le_bytes()).unwrap();
    });
    assert!(memory.buffer_bytes > BUDGET_BYTES / 2, "{memory:?}");
    let least = memory.page_bytes;
    let memory = after(&db, 60_000, |number| {
        let pairs = db.range(key(number / 400)..).unwrap().take(32).count();
        assert!(pairs > 0);
    });
    assert!(memory.page_bytes > least + BUDGET_BYTES / 16, "{least} bytes at first, then {memory:?}");
}

#[test]
fn without_a_record_cache_gets_ask_pages() {
    let options = Options::new().memory(BUDGET_BYTES).record_cache(false).background(false);
    let db = options.open("mem:").unwrap();
    (0..2_000).for_each(|number| db.put(key(number), []).unwrap());
    db.compact(&mut |_, _| {}).unwrap();
    for number in (0..2_000).chain(0..2_000) {
        assert!(db.contains_key(key(number)).unwrap());
    }
    let stats = db.stats().unwrap();
    assert_eq!((stats.tree.record_hits, stats.tree.leaf_reads), (0, 4_000));
}
