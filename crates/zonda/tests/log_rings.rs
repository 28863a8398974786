//! Rings of the write-ahead log: their size decides when a buffered write reaches the device.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::{Place, options};
use zonda::Options;
use zonda::limits::{LOG_RING_BYTES_MAX, LOG_RING_BYTES_MIN};

const PAIRS: u64 = 400;

/// Bytes of log on the device after some writes, without a background thread that would write in time.
fn logged(options: &Options) -> u64 {
    let db = options.clone().log_instances(1).background(false).open("mem:").unwrap();
    for number in 0..PAIRS {
        db.put(number.to_be_bytes(), number.to_be_bytes()).unwrap();
    }
    db.stats().unwrap().written.log_bytes
}

#[test]
fn a_small_ring_is_written_when_it_is_full_and_a_large_one_waits() {
    let small = logged(&options().log_ring(LOG_RING_BYTES_MIN));
    assert!(small >= PAIRS * 16 - u64::from(LOG_RING_BYTES_MIN) && small.is_multiple_of(4096), "{small}");
    assert_eq!(logged(&options().log_ring(LOG_RING_BYTES_MAX)), 0);
}

#[test]
fn many_small_rings_lose_nothing_that_was_synced() {
    let place = Place::new();
    let options = options().log_ring(LOG_RING_BYTES_MIN).log_instances(16);
    let db = options.open(&place.uri()).unwrap();
    let writers = (0..4_u64).map(|writer| {
        let db = db.clone();
        zonda_rt::spawn(format!("writer {writer}"), move || {
            for number in 0..PAIRS {
                db.put((writer * PAIRS + number).to_be_bytes(), number.to_be_bytes()).unwrap();
            }
        })
    });
    writers.collect::<Vec<_>>().into_iter().for_each(|writer| writer.join().unwrap());
    db.sync().unwrap();
    let memory = db.stats().unwrap().memory;
    assert!(memory.log_bytes <= memory.budget_bytes / 16, "{memory:?}");
    drop(db);
    let db = options.open(&place.uri()).unwrap();
    for key in 0..4 * PAIRS {
        assert_eq!(db.get(key.to_be_bytes()).unwrap(), Some((key % PAIRS).to_be_bytes().to_vec()), "pair {key}");
    }
}
