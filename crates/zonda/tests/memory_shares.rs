//! Fixed shares of the budget are what filter, leaf buffers and flusher get, and what they keep, whatever the work is.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]

use zonda::{Db, MemoryShares, Options, Stats};
use zonda_rt::Seed;

const MIB: u64 = 1 << 20;
const BUDGET_BYTES: u64 = 6 * MIB;
const PAIRS: u64 = 700_000;
/// Percent of a share: index, log and margin have their memory first, and slabs are never quite full.
const LEAST_PERCENT: u64 = 75;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(shares: MemoryShares, options: Options) -> Db {
    let options = options.memory(BUDGET_BYTES).capacity(4 << 30).seed(7).background(false).log(false);
    options.memory_shares(Some(shares)).open("mem:").unwrap()
}

/// What is where after a load of twice what buffers hold, and gets all over it.
fn after_work(shares: MemoryShares, options: Options) -> Stats {
    let db = open(shares, options);
    for number in 0..PAIRS {
        db.put(key(number), number.to_be_bytes()).unwrap();
        if number % 1_000 == 0 {
            db.step().unwrap();
        }
    }
    let mut rng = Seed(7).rng();
    for count in 0..20_000 {
        let number = rng.below(PAIRS);
        assert_eq!(db.get(key(number)).unwrap(), Some(number.to_be_bytes().to_vec()), "{shares:?}");
        if count % 100 == 0 {
            db.step().unwrap();
        }
    }
    db.stats().unwrap()
}

#[test]
fn each_has_its_share_and_no_more() {
    for (filter, buffers, flusher) in [(1, 3, 4), (0, 6, 2), (0, 3, 5), (2, 3, 3)] {
        let shares = MemoryShares { filter, buffers, flusher };
        let memory = after_work(shares, Options::new()).memory;
        let part = |share: u32| BUDGET_BYTES * u64::from(share) / 8;
        let within = |what: &str, bytes: u64, share: u32| {
            let (least, most) = (part(share) * LEAST_PERCENT / 100, part(share));
            assert!(
                (least..=most).contains(&bytes),
                "{shares:?}: {what} has {bytes}, not {least} to {most}; {memory:?}"
            );
        };
        within("the buffers", memory.buffer_bytes, buffers);
        within("the flusher", memory.page_bytes, flusher);
        assert!(memory.filter_bytes <= part(filter), "{shares:?}: {memory:?}");
        assert_eq!(memory.filter_bytes > part(filter) / 2, filter > 0, "{shares:?}: {memory:?}");
        assert_eq!(memory.record_cache_bytes, 0, "{shares:?}: {memory:?}");
        assert!(memory.peak_bytes <= BUDGET_BYTES, "I6, {shares:?}: {memory:?}");
    }
}

/// ZKV with a filter of this part of the memory, or with its own.
fn zkv(filter: Option<f64>) -> Stats {
    let preset = Options::preset("zkv").unwrap();
    after_work(MemoryShares::ZKV, filter.map_or(preset.clone(), |share| preset.filter(share)))
}

#[test]
fn a_filter_that_is_asked_for_counts_instead_of_its_share() {
    let (paper, without, large) = (zkv(None), zkv(Some(0.0)), zkv(Some(0.25)));
    assert!(paper.tree.filter_evictions > 0 && paper.memory.filter_bytes > BUDGET_BYTES / 16, "{paper:?}");
    assert_eq!((without.tree.filter_evictions, without.memory.filter_bytes), (0, 0), "{without:?}");
    assert!(large.memory.filter_bytes > BUDGET_BYTES / 8, "{large:?}");
    let others = |stats: &Stats| stats.memory.buffer_bytes + stats.memory.page_bytes;
    assert!(others(&without) > others(&paper) && others(&paper) > others(&large), "{without:?}, {paper:?}, {large:?}");
}

#[test]
fn names_of_shares_are_what_they_say() {
    assert_eq!("1:3:4".parse::<MemoryShares>().unwrap(), MemoryShares::ZKV);
    for wrong in ["", "1:3", "1:0:4", "1:3:4:5", "-1:3:4", "a:b:c"] {
        assert!(wrong.parse::<MemoryShares>().is_err(), "{wrong}");
    }
}
