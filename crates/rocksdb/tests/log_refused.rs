//! A log that cannot be made does not end the process.
//!
//! `RocksDB` 7.8.3 takes the memtables that are full off a list, each with a reference, and switches them one by one; when the
//! first one's new log cannot be made it leaves the list and forgets the others' references (`DBImpl::ScheduleFlushes`). Built
//! with assertions it then aborts when the database is closed (`~ColumnFamilySet: last_ref`), on any file system; built
//! without, it leaks them. So the plugin never refuses a log where it is made, but where it is written: that `RocksDB` bears.
//!
//! Two families are written alike, so that both memtables fill with one batch, and the power goes just before the next batch.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]
#![allow(dead_code, reason = "of the common part only some is used")]

#[path = "common/database.rs"]
mod database;
#[path = "common/lives.rs"]
mod lives;

use std::sync::Arc;

use database::{Database, Env};
use zonda_device::{CutAt, Geometry, MemDevice, PowerCut};
use zonda_rocksdb::{System, offer_device};
use zonda_rt::Seed;

/// Batches around the one that fills the memtables: how many they hold differs by a few.
const AROUND: u64 = 4;

fn uri(name: &str) -> String {
    format!("zonda://process:{name}?create=on&write_buffer=64KiB&log_buffer=64KiB")
}

fn device() -> PowerCut {
    PowerCut::new(Geometry::new(256 << 10, 120).with_limits(14, 14)).unwrap()
}

fn logs() -> usize {
    let files = System::open(&uri("log-refused")).unwrap().list("/db").unwrap();
    files
        .iter()
        .filter(|(name, _)| name.strip_suffix(".log").is_some_and(|number| number.parse::<u64>().is_ok()))
        .count()
}

/// The batch with which a second log begins.
fn batch_that_switches() -> u64 {
    offer_device("log-refused", Some(Arc::new(device())));
    let env = Env::new(&uri("log-refused")).unwrap();
    let database = Database::open(&env, "/db").unwrap();
    let switches = |batch: &u64| {
        database.write(*batch, false).unwrap();
        logs() > 1
    };
    (1..10_000).find(switches).unwrap()
}

/// Writes `batches`, lets the power go, and writes one more; then closes the database.
fn cut_before(batch: u64) {
    let device = device();
    let (name, in_life) = (format!("log-refused-{batch}"), device.clone());
    offer_device(&name, Some(Arc::new(device.clone())));
    lives::live(move || write_before(&in_life, batch), || device.cut_report().is_some());
    assert_eq!(lives::aborts(), 0, "an assertion ended the life whose batch {batch} had no power");
    let survivor: MemDevice = device.reopen(&mut Seed(7).rng());
    let name = format!("{name}-again");
    offer_device(&name, Some(Arc::new(survivor)));
    let env = Env::new(&uri(&name)).unwrap();
    let last = Database::open(&env, "/db").unwrap().check().unwrap();
    assert!((1..batch).contains(&last), "batch {last} of {batch} is the last");
}

fn write_before(device: &PowerCut, batch: u64) {
    let uri = uri(&format!("log-refused-{batch}"));
    let env = Env::new(&uri).unwrap();
    let database = Database::open(&env, "/db").unwrap();
    (1..batch).for_each(|batch| database.write(batch, batch == 1).unwrap());
    let system = System::open(&uri).unwrap();
    device.arm(CutAt::Change(1));
    // Or a flush in the background is the change at which the power goes.
    let _refused = system.make_directory("/other").and_then(|()| system.sync_directory(false));
    assert!(device.cut_report().is_some(), "the power is off");
    assert!(database.write(batch, false).is_err(), "batch {batch} without power");
}

#[test]
fn a_log_that_cannot_be_made_is_an_error_and_no_abort() {
    lives::in_a_child("a_log_that_cannot_be_made_is_an_error_and_no_abort", || {
        let switching = batch_that_switches();
        assert!(switching > AROUND + 1, "batch {switching} switches");
        (switching - AROUND..=switching + AROUND).for_each(cut_before);
    });
}
