//! I6: the budget holds while data outgrows it many times.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{memory, options};
use zonda::{Db, Design};
use zonda_rt::Seed;

/// A bijection of 64-bit numbers that scatters them.
fn scattered(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// What whoever checkpoints beside a writer has in memory for a moment: a flush of the MetaLog, twice, until the next writer makes room.
const IN_PASSING_BYTES: u64 = 2 * (64 << 10);

fn load(db: &Db, pairs: u64, design: Design) {
    for number in 0..pairs {
        db.put(scattered(number), number.to_be_bytes()).unwrap();
        if number % 4096 == 0 {
            let memory = db.stats().unwrap().memory;
            let bytes_max = memory.budget_bytes + IN_PASSING_BYTES;
            assert!(memory.used_bytes <= bytes_max, "I6, {design:?} after {number} pairs: {memory:?}");
        }
    }
}

#[test]
fn a_random_load_of_several_times_the_budget() {
    for design in Design::ALL {
        let db = options().memory(2 << 20).design(design).open("mem:").unwrap();
        load(&db, 300_000, design);
        for number in (0..300_000).step_by(997) {
            assert_eq!(db.get(scattered(number)).unwrap(), Some(number.to_be_bytes().to_vec()), "{design:?}");
        }
        let tree = db.stats().unwrap().tree;
        assert!(tree.leaf_reads <= tree.gets, "I8 {tree:?}");
    }
}

/// On a busy machine background work comes late: what the index grows meanwhile, leaf buffers give up by themselves.
#[test]
fn the_budget_holds_when_background_work_is_late() {
    const PUTS_BETWEEN_STEPS: u64 = 30_000;
    for design in Design::ALL {
        let db = options().memory(2 << 20).design(design).background(false).open("mem:").unwrap();
        for number in 0..300_000 {
            db.put(scattered(number), number.to_be_bytes()).unwrap();
            if number % 512 == 0 {
                let memory = db.stats().unwrap().memory;
                assert!(memory.used_bytes <= memory.budget_bytes, "I6, {design:?} after {number} pairs: {memory:?}");
            }
            if number % PUTS_BETWEEN_STEPS == 0 {
                while db.step().unwrap() {}
            }
        }
    }
}

/// Evictions take large arrays out of use, and few other things: these have to go before they are many.
#[test]
fn the_budget_holds_while_favourites_go_through_the_filter() {
    for (by_node, background) in [(false, true), (true, true), (false, false), (true, false)] {
        favourites_through_the_filter(by_node, background);
    }
}

fn favourites_through_the_filter(by_node: bool, background: bool) {
    const PAIRS: u64 = 200_000;
    let options = options().memory(2 << 20).design(Design::Adb).filter(0.25).filter_by_node(by_node);
    let db = options.background(background).open("mem:").unwrap();
    let put = |number: u64, key: u64| {
        db.put(scattered(key), number.to_be_bytes()).unwrap();
        while !background && number.is_multiple_of(512) && db.step().unwrap() {}
        if number.is_multiple_of(4096) {
            let memory = db.stats().unwrap().memory;
            let bytes_max = memory.budget_bytes + if background { IN_PASSING_BYTES } else { 0 };
            assert!(memory.used_bytes <= bytes_max, "I6, by node {by_node}, {number} puts: {memory:?}");
        }
    };
    (0..PAIRS).for_each(|number| put(number, number));
    let mut rng = Seed(1).rng();
    for number in 0..400_000_u64 {
        // As many writes to the first two keys as to the first four, and so on.
        let below = 1 << rng.below(u64::from(PAIRS.ilog2()) + 1);
        put(number, rng.below(below));
    }
    let stats = db.stats().unwrap();
    assert!(stats.tree.filter_evictions > 10, "the filter had nothing to evict");
    // The peak adds the most of tree and page store between two looks of the governor, which on a busy machine come late. Where
    // one thread does everything in turn they come in time.
    let memory = stats.memory;
    assert!(
        background || memory.peak_bytes <= memory.budget_bytes,
        "I6, what leaves is there twice for a moment: {memory:?}"
    );
}

#[test]
fn an_ordered_load_fills_its_leaves() {
    let db = memory();
    let pairs = 200_000_u64;
    db.ingest((0..pairs).map(|number| (number.to_be_bytes(), number.to_be_bytes()))).unwrap();
    db.compact(&mut |_, _| {}).unwrap();
    let live = db.stats().unwrap().space.live_page_bytes;
    let user = pairs * 16;
    assert!(live * 100 <= user * 115, "{live} bytes of leaves for {user} bytes of pairs");
}

/// Buffers for one long value are given back, not kept for the next.
#[test]
fn the_budget_holds_after_a_value_of_half_of_it() {
    for uri in ["mem:?zone_size=16MiB&zones=64", "mem:?layout=blocks&zone_size=16MiB&zones=64"] {
        let db = options().memory(2 << 20).background(false).open(uri).unwrap();
        let value = vec![7; 1 << 20];
        db.put("key", &value).unwrap();
        while db.step().unwrap() {}
        let memory = db.stats().unwrap().memory;
        assert!(memory.used_bytes <= memory.budget_bytes, "I6, {uri} after a put: {memory:?}");
        assert!(db.get("key").unwrap().is_some_and(|found| found == value));
        let memory = db.stats().unwrap().memory;
        assert!(memory.used_bytes <= memory.budget_bytes, "I6, {uri} after a get: {memory:?}");
    }
}
