//! Fixed shares of the budget are what filter, leaf buffers and flusher get, and what they keep, whatever the work is.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]

use zonda::{Db, MemoryShares, MemoryStats, Options};
use zonda_rt::Seed;

const MIB: u64 = 1 << 20;
const BUDGET_BYTES: u64 = 6 * MIB;
const PAIRS: u64 = 700_000;
/// Percent of a share: index, log and margin have their memory first, and slabs are never quite full.
const LEAST_PERCENT: u64 = 75;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn open(shares: MemoryShares) -> Db {
    let options = Options::new().memory(BUDGET_BYTES).capacity(4 << 30).seed(7).background(false).log(false);
    options.memory_shares(Some(shares)).open("mem:").unwrap()
}

/// What is where after a load of twice what buffers hold, and gets all over it.
fn after_work(shares: MemoryShares) -> MemoryStats {
    let db = open(shares);
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
    db.stats().unwrap().memory
}

#[test]
fn each_has_its_share_and_no_more() {
    for (filter, buffers, flusher) in [(1, 3, 4), (0, 6, 2), (0, 3, 5), (2, 3, 3)] {
        let shares = MemoryShares { filter, buffers, flusher };
        let memory = after_work(shares);
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

#[test]
fn names_of_shares_are_what_they_say() {
    assert_eq!("1:3:4".parse::<MemoryShares>().unwrap(), MemoryShares::ZKV);
    for wrong in ["", "1:3", "1:0:4", "1:3:4:5", "-1:3:4", "a:b:c"] {
        assert!(wrong.parse::<MemoryShares>().is_err(), "{wrong}");
    }
}
