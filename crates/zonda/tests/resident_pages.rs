//! I6 as the system sees it: what the cache of pages gives up, the process gives up, before leaf buffers take it.
//!
//! Alone in its program: resident memory is counted for a whole process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]
mod common;

use common::{Place, resident_bytes};
use zonda::{Db, Options};
use zonda_rt::Seed;

const MIB: u64 = 1 << 20;
const BUDGET_BYTES: u64 = 24 * MIB;
/// What a store takes beside its budget: stacks, device queues, and what the allocator keeps. 0.4 MiB were measured.
const BESIDE_BYTES: u64 = MIB;
const PAIRS: u64 = 1_500_000;
const THREADS: u64 = 2;

fn key(number: u64) -> [u8; 16] {
    u128::from(number).to_be_bytes()
}

/// Has each thread do something `count` times with numbers of pairs, small ones far more often: neighbours, as scans like them.
fn by_threads(count: u64, work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (work, mut rng) = (&work, Seed(thread).rng());
            scope.spawn(move || (0..count).for_each(|_| work(rng.below(PAIRS) * rng.below(PAIRS) / PAIRS)));
        }
    });
}

fn scan(db: &Db, number: u64) {
    for pair in db.range(key(number)..).unwrap().take(32) {
        assert_eq!(pair.unwrap().1.len(), 16);
    }
}

/// Pages of a sorted load are full.
#[test]
fn memory_that_moves_from_the_cache_of_full_pages_to_buffers_is_not_held_twice() {
    let place = Place::new();
    let before = resident_bytes();
    let db = Options::new().memory(BUDGET_BYTES).capacity(1 << 30).seed(7).open(&place.uri()).unwrap();
    for number in 0..PAIRS {
        db.put(key(number), key(number)).unwrap();
    }
    by_threads(100_000, |number| scan(&db, number));
    let (cached, resident) = (db.stats().unwrap().memory.page_bytes, resident_bytes() - before);
    assert!(cached > BUDGET_BYTES / 3, "the scans did not fill the cache: {cached}");
    assert!(resident <= BUDGET_BYTES + BESIDE_BYTES, "{resident} bytes are resident for the store after scans");
    by_threads(600_000, |number| db.put(key(number), key(number + 1)).unwrap());
    let (memory, resident) = (db.stats().unwrap().memory, resident_bytes() - before);
    println!("{cached} cached, {resident} resident: {memory:?}");
    assert!(memory.page_bytes < cached / 2, "the cache gave nothing up: {memory:?}");
    assert!(resident <= BUDGET_BYTES + BESIDE_BYTES, "{resident} bytes are resident for the store: {memory:?}");
}
