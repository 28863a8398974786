//! Whoever asks one call for durability has it, whatever the store's default is.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::options;
use zonda::{Db, Durability, Result, Update};
use zonda_device::{Geometry, MemDevice, ZonedDevice};
use zonda_rt::{sim, sleep};

/// A call that writes, as durably as it is told.
type Call = fn(&Db, Durability) -> Result<()>;

const CALLS: [(&str, Call); 7] = [
    ("put", |db, durability| db.put_with("a", "2", durability)),
    ("delete", |db, durability| db.delete_with("a", durability)),
    ("compare_and_swap", |db, durability| db.compare_and_swap_with("a", None, Some(b"3"), durability).map(drop)),
    ("fetch_update", |db, durability| db.fetch_update_with("a", |_| Update::Put(vec![4]), durability).map(drop)),
    ("ingest", |db, durability| db.ingest_with([("b", "1"), ("c", "1")], durability).map(drop)),
    ("delete_range", |db, durability| db.delete_range_with("b"..="c", durability).map(drop)),
    ("write", |db, durability| {
        let mut batch = zonda::Batch::new();
        batch.put("d", "1");
        db.write_with(&batch, durability)
    }),
];

#[test]
fn a_synced_call_flushes_and_a_buffered_one_does_not() {
    for default in [Durability::Buffered, Durability::Synced] {
        let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 96).with_limits(14, 14)).unwrap());
        let options = options().background(false).durability(default);
        let db = Db::open_device(Arc::clone(&device) as Arc<dyn ZonedDevice>, &options).unwrap();
        for (name, call) in CALLS {
            let before = device.counters().flushes;
            call(&db, Durability::Buffered).unwrap();
            assert_eq!(device.counters().flushes, before, "{name}, buffered");
            if name == "delete_range" {
                db.ingest_with([("b", "1")], Durability::Buffered).unwrap();
            }
            if name == "compare_and_swap" {
                db.delete_with("a", Durability::Buffered).unwrap();
            }
            call(&db, Durability::Synced).unwrap();
            assert!(device.counters().flushes > before, "{name}, synced");
        }
    }
}

/// The thread that hands the log to the device sleeps long on an idle store, and a write wakes it. One that finds nothing to do, because a
/// synced write has just done it, hears of the next write all the same.
#[test]
fn a_buffered_write_behind_a_synced_one_is_handed_over_in_time_on_an_idle_store() {
    for seed in 0..8 {
        sim::run(seed, || {
            let device = Arc::new(MemDevice::new(Geometry::new(1 << 20, 96).with_limits(14, 14)).unwrap());
            let db = Db::open_device(Arc::clone(&device) as Arc<dyn ZonedDevice>, &options()).unwrap();
            for _ in 0..3 {
                sleep(Duration::from_millis(300));
                db.put_with("a", "1", Durability::Synced).unwrap();
                sleep(Duration::from_micros(100));
                let before = device.counters().written_bytes;
                db.put_with("b", "2", Durability::Buffered).unwrap();
                sleep(Duration::from_millis(10));
                assert!(device.counters().written_bytes > before, "seed {seed}: ten milliseconds were not enough");
            }
            db.close().unwrap();
        });
    }
}
