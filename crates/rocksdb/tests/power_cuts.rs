//! Power cuts under a RocksDB that writes: what was synced is there, and what is there is a prefix in the order of writing.
//!
//! The process survives: RocksDB sees failing calls, gives up, and is opened again on what the device kept. The power may go
//! at any operation, also while the file system is mounted or the database recovers. Meanwhile another thread takes
//! checkpoints; the last one that was finished must open with what it was taken of.
//!
//! `ZONDA_CUTS=500 cargo test --release -p zonda-rocksdb --test power_cuts` cuts more often than an ordinary run.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "common/database.rs"]
mod database;

use std::collections::BTreeMap;
use std::sync::Arc;

use database::{Database, Env};
use zonda_device::{CutAt, Geometry, MemDevice, PowerCut};
use zonda_rocksdb::{Failure, System, offer_device};
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};
use zonda_rt::{Rng, Seed};

/// Cuts of an ordinary run.
const CUTS: u64 = 4;
const SEED: u64 = 20_261_122;
/// Batches that one life writes at most.
const BATCHES_MAX: u64 = 1200;
const URI: &str = "zonda://process:power-cut?create=on&write_buffer=64KiB&log_buffer=16KiB";

/// What must be true after a cut.
#[derive(Clone, Copy, Debug, Default)]
struct Promised {
    /// The last batch that was synced.
    synced: u64,
    /// The last one that was written at all.
    written: u64,
    /// Number of the last checkpoint that was finished, and the batch that had been synced when it began.
    checkpoint: Option<(u64, u64)>,
}

#[test]
fn what_survives_a_power_cut_is_a_prefix_with_all_that_was_synced() {
    let cuts = std::env::var("ZONDA_CUTS").map_or(CUTS, |cuts| cuts.parse().unwrap());
    let mut rng = Seed(SEED).rng();
    let geometry = Geometry::new(256 << 10, 120).with_limits(14, 14);
    let mut device = PowerCut::new(geometry).unwrap();
    let (mut promised, mut hits) = (Promised::default(), BTreeMap::<String, u64>::new());
    for cut in 0..cuts {
        // One in four while it is mounted and recovers.
        let range = if rng.below(4) == 0 { 60 } else { 1500 };
        device.arm(CutAt::Change(1 + rng.below(range)));
        promised = live(&device, promised, cut);
        let report = device.cut_report();
        let hit = report.map_or("nothing".to_owned(), |hit| format!("{} ({:?})", hit.label, hit.call));
        *hits.entry(hit).or_default() += 1;
        device = reopened(&device, &mut rng);
        let last = verify(&device, &promised, cut);
        promised = Promised { synced: last, written: last, checkpoint: promised.checkpoint };
    }
    println!("{cuts} cuts of seed {SEED}, {} batches at the end; hit:", promised.written);
    hits.iter().for_each(|(what, times)| println!("{times:6} {what}"));
    offer_device("power-cut", None);
}

fn reopened(device: &PowerCut, rng: &mut Rng) -> PowerCut {
    let survivor: MemDevice = device.reopen(rng);
    PowerCut::over(survivor)
}

/// One life: mounts, opens, writes until the power goes or enough is written.
fn live(device: &PowerCut, before: Promised, cut: u64) -> Promised {
    offer_device("power-cut", Some(Arc::new(device.clone())));
    let mut promised = before;
    let Ok(env) = Env::new(URI) else { return promised };
    let Ok(database) = Database::open(&env, "/db") else { return promised };
    let (is_over, synced) = (AtomicBool::new(false), AtomicU64::new(promised.synced));
    std::thread::scope(|threads| {
        let checkpoints = threads.spawn(|| take_checkpoints(&env, &database, before.checkpoint, &synced, &is_over));
        let mut rng = Seed(SEED).derive(&format!("life {cut}")).rng();
        for batch in before.written + 1..=before.written + BATCHES_MAX {
            let is_synced = rng.below(20) == 0;
            promised.written = batch;
            if database.write(batch, is_synced).is_err() {
                break;
            }
            if is_synced {
                promised.synced = batch;
                synced.store(batch, Ordering::Release);
            }
        }
        is_over.store(true, Ordering::Release);
        promised.checkpoint = checkpoints.join().unwrap();
    });
    promised
}

/// Takes checkpoints until the work is over; returns the last that was finished.
fn take_checkpoints(
    env: &Env,
    database: &Database<'_>,
    mut last: Option<(u64, u64)>,
    synced: &AtomicU64,
    is_over: &AtomicBool,
) -> Option<(u64, u64)> {
    while !is_over.load(Ordering::Acquire) {
        let number = last.map_or(1, |(number, _)| number + 1);
        let at = synced.load(Ordering::Acquire);
        // A cut checkpoint may have left its name; it is not ours any more.
        let _gone = env.destroy(&format!("/checkpoint-{number}"));
        if database.checkpoint(&format!("/checkpoint-{number}")).is_err() {
            return last;
        }
        if let Some((old, _)) = last.replace((number, at)) {
            let _gone = env.destroy(&format!("/checkpoint-{old}"));
        }
    }
    last
}

/// With the power on: everything opens, and holds what it must. Returns the last batch.
fn verify(device: &PowerCut, promised: &Promised, cut: u64) -> u64 {
    offer_device("power-cut", Some(Arc::new(device.clone())));
    let context = format!("cut {cut} of seed {SEED}, {promised:?}");
    let env = Env::new(URI).unwrap_or_else(|error| panic!("{context}: {error}"));
    let database = Database::open(&env, "/db").unwrap_or_else(|error| panic!("{context}: {error}"));
    let last = database.check().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(last >= promised.synced && last <= promised.written, "{context}: batch {last} is the last");
    drop(database);
    sweep(promised.checkpoint).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    if let Some((number, at_least)) = promised.checkpoint {
        let path = format!("/checkpoint-{number}");
        let checkpoint = Database::open(&env, &path).unwrap_or_else(|error| panic!("{context}: {path}: {error}"));
        let held = checkpoint.check().unwrap_or_else(|error| panic!("{context}: {path}: {error}"));
        assert!(held >= at_least, "{context}: {path} ends with batch {held}");
    }
    last
}

/// Removes what cut checkpoints left.
fn sweep(kept: Option<(u64, u64)>) -> Result<(), Failure> {
    let system = System::open(URI)?;
    let kept = kept.map(|(number, _)| format!("checkpoint-{number}"));
    for (name, _) in system.list("/")? {
        if name.starts_with("checkpoint-") && Some(&name) != kept.as_ref() {
            for (file, _) in system.list(&name)? {
                system.remove(&format!("{name}/{file}"))?;
            }
            system.remove_directory(&name)?;
        }
    }
    Ok(())
}
