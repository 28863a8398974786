//! Power cuts under a RocksDB that writes: what was synced is there, and what is there is a prefix in the order of writing.
//!
//! The process survives: RocksDB sees failing calls, gives up, and is opened again on what the device kept. The power may go
//! at any operation, also while the file system is mounted or the database recovers. Meanwhile another thread takes
//! checkpoints; the last one that was finished must open with what it was taken of. A life may also end in an assertion of
//! `RocksDB` (`common/lives.rs`).
//!
//! `ZONDA_CUTS=500 cargo test --release -p zonda-rocksdb --test power_cuts` cuts more often than an ordinary run.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "common/database.rs"]
mod database;
#[path = "common/lives.rs"]
mod lives;

use std::collections::BTreeMap;
use std::sync::Arc;

use database::{Database, Env};
use zonda_device::{CutAt, Geometry, MemDevice, PowerCut};
use zonda_rocksdb::{Failure, System, offer_device};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{Mutex, Rng, Seed};

/// Cuts of an ordinary run.
const CUTS: u64 = 4;
const SEED: u64 = 20_261_122;
/// What the file store was doing, as it labels its operations; so many cuts must have hit each.
const KINDS: [&str; 9] = ["finish", "journal", "journal roll", "log", "mount", "names", "relocation", "reset", "table"];
const CUTS_FOR_ALL_KINDS: u64 = 400;
/// Those that are aimed at.
const SELDOM: [&str; 4] = ["finish", "journal roll", "relocation", "reset"];
/// Batches that one life writes at most.
const BATCHES_MAX: u64 = 1200;
/// Threads for flushes and for compactions: those of a life that an assertion ended are gone for good.
const THREADS: i32 = 32;

/// One for each life in turn: tables that another has placed are cleaned and continued by it.
const POLICIES: [&str; 5] = ["liza-zenfs", "caza", "liza-zns", "level-keys", "ldp"];

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

/// The file system of a life of this number; one that was left behind keeps its own.
fn uri(life: &str, number: u64) -> String {
    let policy = POLICIES[usize::try_from(number).unwrap() % POLICIES.len()];
    format!("zonda://process:power-cut-{life}?create=on&write_buffer=64KiB&log_buffer=16KiB&policy={policy}")
}

fn offer(life: &str, device: Option<&PowerCut>) {
    offer_device(&format!("power-cut-{life}"), device.map(|device| Arc::new(device.clone()) as _));
}

#[test]
fn what_survives_a_power_cut_is_a_prefix_with_all_that_was_synced() {
    lives::in_a_child("what_survives_a_power_cut_is_a_prefix_with_all_that_was_synced", cut_again_and_again);
}

fn cut_again_and_again() {
    let cuts = std::env::var("ZONDA_CUTS").map_or(CUTS, |cuts| cuts.parse().unwrap());
    let mut rng = Seed(SEED).rng();
    let geometry = Geometry::new(256 << 10, 32).with_limits(14, 14);
    let mut device = PowerCut::new(geometry).unwrap();
    let (mut promised, mut hits) = (Promised::default(), BTreeMap::<String, u64>::new());
    let (mut cut, mut lives_begun) = (0, 0);
    while cut < cuts {
        device.arm(next_cut(&mut rng));
        lives_begun += 1;
        promised = live(&device, promised, lives_begun);
        // A life may end before its cut; the next one goes on where it ended.
        if let Some(hit) = device.cut_report() {
            cut += 1;
            *hits.entry(hit.label.to_owned()).or_default() += 1;
        }
        device = reopened(&device, &mut rng);
        let last = verify(&device, &promised, lives_begun);
        promised = Promised { synced: last, written: last, checkpoint: promised.checkpoint };
    }
    println!(
        "{cuts} cuts of seed {SEED} in {lives_begun} lives, {} batches at the end, {} assertions, {} lives that did not end ({} of them unlooked at); hit:",
        promised.written,
        lives::aborts(),
        lives::stuck(),
        lives::unknown()
    );
    hits.iter().for_each(|(what, times)| println!("{times:6} {what}"));
    // Second cuts, while what an earlier one left is mounted, among them.
    let missed = KINDS.iter().filter(|kind| !hits.contains_key(**kind)).collect::<Vec<_>>();
    assert!(cuts < CUTS_FOR_ALL_KINDS || missed.is_empty(), "no cut hit {missed:?}: {hits:?}");
}

/// One in four while it is mounted and recovers; one in five at what happens seldom.
fn next_cut(rng: &mut Rng) -> CutAt {
    if rng.below(5) == 0 {
        let which = usize::try_from(rng.below(SELDOM.len() as u64)).unwrap();
        return CutAt::Label { label: SELDOM[which], nth: 1 + rng.below(4) };
    }
    let range = if rng.below(4) == 0 { 60 } else { 1500 };
    CutAt::Change(1 + rng.below(range))
}

fn reopened(device: &PowerCut, rng: &mut Rng) -> PowerCut {
    let survivor: MemDevice = device.reopen(rng);
    PowerCut::over(survivor)
}

/// One life: mounts, opens, writes until the power goes or enough is written.
fn live(device: &PowerCut, before: Promised, cut: u64) -> Promised {
    let life = format!("life-{cut}");
    offer(&life, Some(device));
    let promised = Arc::new(Mutex::new(before));
    let (in_life, uri) = (Arc::clone(&promised), uri(&life, cut));
    let has_ended = lives::live(move || write_on(&uri, &in_life, before, cut), || device.cut_report().is_some());
    assert!(has_ended || device.cut_report().is_some(), "cut {cut} of seed {SEED}: an assertion with the power on");
    offer(&life, None);
    *promised.lock()
}

fn write_on(uri: &str, promised: &Mutex<Promised>, before: Promised, cut: u64) {
    let Ok(env) = Env::new(uri) else { return };
    env.set_threads(THREADS);
    let Ok(database) = Database::open(&env, "/db") else { return };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| take_checkpoints(&env, &database, promised, &is_over));
        let mut rng = Seed(SEED).derive(&format!("life {cut}")).rng();
        for batch in before.written + 1..=before.written + BATCHES_MAX {
            let is_synced = rng.below(20) == 0;
            promised.lock().written = batch;
            if database.write(batch, is_synced).is_err() {
                break;
            }
            if is_synced {
                promised.lock().synced = batch;
            }
        }
        is_over.store(true, Ordering::Release);
    });
}

/// Takes checkpoints until the work is over; the last that was finished is promised.
fn take_checkpoints(env: &Env, database: &Database<'_>, promised: &Mutex<Promised>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        let before = *promised.lock();
        let number = before.checkpoint.map_or(1, |(number, _)| number + 1);
        // A cut checkpoint may have left its name; it is not ours any more.
        let _gone = env.destroy(&format!("/checkpoint-{number}"));
        if database.checkpoint(&format!("/checkpoint-{number}")).is_err() {
            return;
        }
        promised.lock().checkpoint = Some((number, before.synced));
        if let Some((old, _)) = before.checkpoint {
            let _gone = env.destroy(&format!("/checkpoint-{old}"));
        }
    }
}

/// With the power on: everything opens, and holds what it must. Returns the last batch.
fn verify(device: &PowerCut, promised: &Promised, cut: u64) -> u64 {
    let life = format!("after-{cut}");
    offer(&life, Some(device));
    let context = format!("cut {cut} of seed {SEED}, {promised:?}");
    let env = Env::new(&uri(&life, cut)).unwrap_or_else(|error| panic!("{context}: {error}"));
    let database = Database::open(&env, "/db").unwrap_or_else(|error| panic!("{context}: {error}"));
    let last = database.check().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(last >= promised.synced && last <= promised.written, "{context}: batch {last} is the last");
    drop(database);
    sweep(&uri(&life, cut), promised.checkpoint).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    if let Some((number, at_least)) = promised.checkpoint {
        let path = format!("/checkpoint-{number}");
        let checkpoint = Database::open(&env, &path).unwrap_or_else(|error| panic!("{context}: {path}: {error}"));
        let held = checkpoint.check().unwrap_or_else(|error| panic!("{context}: {path}: {error}"));
        assert!(held >= at_least, "{context}: {path} ends with batch {held}");
    }
    drop(env);
    offer(&life, None);
    last
}

/// Removes what cut checkpoints left.
fn sweep(uri: &str, kept: Option<(u64, u64)>) -> Result<(), Failure> {
    let system = System::open(uri)?;
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
