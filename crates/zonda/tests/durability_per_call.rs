//! Whoever asks one call for durability has it, whatever the store's default is; who asks for none has the default.
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

const CALLS: [(&str, Call); 8] = [
    ("put", |db, durability| db.put_with("a", "2", durability)),
    ("delete", |db, durability| db.delete_with("a", durability)),
    ("compare_and_swap", |db, durability| db.compare_and_swap_with("a", None, Some(b"3"), durability).map(drop)),
    ("fetch_update", |db, durability| db.fetch_update_with("a", |_| Update::Put(vec![4]), durability).map(drop)),
    ("ingest", |db, durability| db.ingest_with([("b", "1"), ("c", "1")], durability).map(drop)),
    ("delete_range", |db, durability| db.delete_range_with("b"..="c", durability).map(drop)),
    ("delete_prefix", |db, durability| db.delete_prefix_with("b", durability).map(drop)),
    ("write", |db, durability| {
        let mut batch = zonda::Batch::new();
        batch.put("d", "1");
        db.write_with(&batch, durability)
    }),
];

type PlainCall = fn(&Db) -> Result<()>;

/// The same calls without a word about it.
const PLAIN_CALLS: [(&str, PlainCall); 8] = [
    ("put", |db| db.put("a", "2")),
    ("delete", |db| db.delete("a")),
    ("compare_and_swap", |db| db.compare_and_swap("a", None, Some(b"3")).map(drop)),
    ("fetch_update", |db| db.fetch_update("a", |_| Update::Put(vec![4])).map(drop)),
    ("ingest", |db| db.ingest([("b", "1"), ("c", "1")]).map(drop)),
    ("delete_range", |db| db.delete_range("b"..="b").map(drop)),
    ("delete_prefix", |db| db.delete_prefix("c").map(drop)),
    ("write", |db| {
        let mut batch = zonda::Batch::new();
        batch.put("d", "1");
        db.write(batch)
    }),
];

fn device() -> Arc<MemDevice> {
    Arc::new(MemDevice::new(Geometry::new(1 << 20, 96).with_limits(14, 14)).unwrap())
}

#[test]
fn a_call_that_asks_for_nothing_is_as_durable_as_the_store_says() {
    for (default, is_flushed) in [(Durability::Buffered, false), (Durability::Synced, true)] {
        let device = device();
        let options = options().background(false).durability(default);
        let db = Db::open_device(Arc::clone(&device) as Arc<dyn ZonedDevice>, &options).unwrap();
        for (name, call) in PLAIN_CALLS {
            let before = device.counters().flushes;
            call(&db).unwrap();
            assert_eq!(device.counters().flushes > before, is_flushed, "{name}, {default:?}");
        }
    }
}

#[test]
fn a_synced_call_flushes_and_a_buffered_one_does_not() {
    for default in [Durability::Buffered, Durability::Synced] {
        let device = device();
        let options = options().background(false).durability(default);
        let db = Db::open_device(Arc::clone(&device) as Arc<dyn ZonedDevice>, &options).unwrap();
        for (name, call) in CALLS {
            let before = device.counters().flushes;
            call(&db, Durability::Buffered).unwrap();
            assert_eq!(device.counters().flushes, before, "{name}, buffered");
            if name.starts_with("delete_") {
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
            let device = device();
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
