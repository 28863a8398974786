//! Reclaim that merges the leaves it moves with what waits for them does useful flushing: the same answers for fewer bytes than reclaim
//! that moves leaves as they are.
#![allow(clippy::unwrap_used, reason = "a test may unwrap")]

use std::collections::BTreeMap;

use zonda::{Db, Options};
use zonda_rt::Seed;

const UPDATES: u64 = 40_000;
/// Live of usable, in percent, when the updates begin; leaves that are nearly full then split, until some 90 are.
const LIVE_PERCENT: u64 = 70;

type Model = BTreeMap<[u8; 8], u64>;

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A store on small zones, filled with random keys.
fn filled(merged: bool) -> (Db, Model) {
    let options = Options::new().memory(2 << 20).seed(7).background(false).merged_relocation(merged);
    let db = options.open("mem:?zones=232&zone_size=128KiB&max_active=14").unwrap();
    let mut model = Model::new();
    for number in 0.. {
        db.put(key(number), number.to_be_bytes()).unwrap();
        model.insert(key(number), number);
        if number % 500 == 0 {
            while db.step().unwrap() {}
            let space = db.stats().unwrap().space;
            if space.live_page_bytes * 100 > space.usable_bytes * LIVE_PERCENT {
                break;
            }
        }
    }
    (db, model)
}

/// Bytes written for an update, the log apart; relocated ones among them.
fn written_by_updates(merged: bool) -> (u64, u64) {
    let (db, mut model) = filled(merged);
    let keys = model.len() as u64;
    let mut rng = Seed(3).rng();
    let mut update = |updates: u64| {
        for count in 0..updates {
            let (number, value) = (rng.below(keys), count);
            if count % 16 == 0 {
                db.delete(key(number)).unwrap();
                model.remove(&key(number));
            } else {
                let put = db.put(key(number), value.to_be_bytes());
                put.unwrap_or_else(|error| {
                    panic!("merged {merged}, update {count}: {error}; {:?}", db.stats().unwrap())
                });
                model.insert(key(number), value);
            }
            if count % 200 == 0 {
                while db.step().unwrap() {}
            }
        }
    };
    // Until all that the load left in buffers is merged and its leaves are split.
    update(UPDATES);
    let before = db.stats().unwrap().written;
    update(UPDATES);
    let (stats, space) = (db.stats().unwrap().written, db.stats().unwrap().space);
    let mut expected = model.into_iter();
    for pair in db.iter().unwrap() {
        let (key, value) = pair.unwrap();
        assert_eq!(
            expected.next().map(|(k, v)| (k.to_vec(), v.to_be_bytes().to_vec())),
            Some((key, value)),
            "{merged}"
        );
    }
    assert_eq!(expected.next(), None, "merged {merged}");
    db.check(&mut |_, _| {}, &mut |finding| panic!("merged {merged}: {finding}")).unwrap();
    assert!(space.zones_reset > 232, "every zone was emptied: {space:?}");
    let bytes = (stats.total_bytes() - stats.log_bytes) - (before.total_bytes() - before.log_bytes);
    (bytes / UPDATES, (stats.relocation_bytes - before.relocation_bytes) / UPDATES)
}

#[test]
fn merging_on_the_way_answers_the_same_and_writes_less() {
    let [merged, plain] = [true, false].map(written_by_updates);
    assert!(merged.1 > 0 && plain.1 > 0, "both moved leaves: {merged:?}, {plain:?}");
    assert!(
        merged.0 * 100 < plain.0 * 85,
        "bytes written for an update, of which relocated: {merged:?}, plain {plain:?}"
    );
}
