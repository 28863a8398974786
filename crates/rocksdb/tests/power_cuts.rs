//! Power cuts under a RocksDB that writes: what was synced is there, and what is there is a prefix in the order of writing.
//!
//! The process survives: RocksDB sees failing calls, gives up, and is opened again on what the device kept. The power may go
//! at any operation, also while the file system is mounted or the database recovers from the cut before, of which nobody has looked
//! at anything until then. Meanwhile another thread takes
//! checkpoints; the last one that was finished must open with what it was taken of. A life may also end in an assertion of
//! `RocksDB` (`common/lives.rs`). Nothing may fail before the power has gone, and nothing of ours may panic after it either.
//!
//! `ZONDA_CUTS=500 cargo test --release -p zonda-rocksdb --test power_cuts` cuts more often than an ordinary run.
#![cfg(with_rocksdb)]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "common/database.rs"]
mod database;
#[path = "common/lives.rs"]
mod lives;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use database::{Database, Env};
use zonda_device::{CutAt, Geometry, MemDevice, PowerCut, ZonedDevice};
use zonda_flash::drive::{FlashZoned, SplitData, TimeMode, geometry_below};
use zonda_flash::profile::Profile;
use zonda_rocksdb::{Failure, System, mounted_before, offer_device};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{Mutex, Rng, Seed};

/// Cuts of an ordinary run.
const CUTS: u64 = 4;
const SEED: u64 = 20_261_122;
/// What the file store was doing, as it labels its operations; so many cuts must have hit each.
const KINDS: [&str; 10] =
    ["finish", "journal", "journal roll", "log", "mount", "names", "relocation", "rename over", "reset", "table"];
const CUTS_FOR_ALL_KINDS: u64 = 400;
/// Those that are aimed at.
const SELDOM: [&str; 5] = ["finish", "journal roll", "relocation", "rename over", "reset"];
/// Batches that one life writes at most.
const BATCHES_MAX: u64 = 1200;
/// Threads for flushes and for compactions: those of a life that an assertion ended are gone for good.
const THREADS: i32 = 32;

/// One for each life in turn: tables that another has placed are cleaned and continued by it.
const POLICIES: [&str; 5] = ["liza-zenfs", "caza", "liza-zns", "level-keys", "ldp"];
/// The same on a drive that splits zones, whose ring is what a flush makes durable in every second life (`split=redo-log`).
const SPLIT_POLICIES: [&str; 4] = ["splitzns,from=1", "splitzns+,from=1", "ldp", "splitzns,from-bottom=1,share=80"];
/// Subzones of a zone of that drive.
const SUBZONES: u16 = 4;

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

/// What failed in a life while the power was on: nothing may. Collected, as a panic would leave the other thread waiting.
#[derive(Debug)]
struct Failures {
    power: PowerCut,
    with_power: Mutex<Vec<String>>,
}

impl Failures {
    fn of(power: &PowerCut) -> Arc<Self> {
        Arc::new(Self { power: power.clone(), with_power: Mutex::default() })
    }

    /// What succeeded. Asked for the power at once: it may go later, while the database is closed.
    fn ok<T>(&self, what: &str, outcome: Result<T, String>) -> Option<T> {
        let is_on = self.power.cut_report().is_none();
        outcome
            .inspect_err(|error| {
                if is_on {
                    self.with_power.lock().push(format!("{what}: {error}"))
                }
            })
            .ok()
    }
}

/// What is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drive {
    /// Zones.
    Zones,
    /// Zones that can be split; what keeps their data is cut.
    SplitZones,
}

impl Drive {
    fn geometry(self) -> Geometry {
        match self {
            Self::Zones => Geometry::new(256 << 10, 32).with_limits(14, 14),
            // Subzones of 128 KiB: tables have 32 and more, and what they leave of theirs is lost. With half as many zones the
            // database fills the device, and an error of its log may be an assertion with the power on.
            Self::SplitZones => Geometry::new(512 << 10, 64).with_limits(14, 14),
        }
    }

    fn power(self) -> PowerCut {
        match self {
            Self::Zones => PowerCut::new(self.geometry()).unwrap(),
            Self::SplitZones => PowerCut::new(geometry_below(&self.geometry(), SUBZONES).unwrap()).unwrap(),
        }
    }

    /// The file system of a life of this number; one that was left behind keeps its own.
    fn uri(self, life: &str, number: u64) -> String {
        let all = if self == Self::Zones { &POLICIES[..] } else { &SPLIT_POLICIES };
        let policy = all[usize::try_from(number).unwrap() % all.len()];
        format!("zonda://process:power-cut-{life}?create=on&write_buffer=64KiB&log_buffer=16KiB&policy={policy}")
    }

    /// Offers it to a life; `false` if the power went while the drive looked at its zones.
    fn offer(self, life: &str, number: u64, power: &PowerCut) -> bool {
        let device: Option<Arc<dyn ZonedDevice>> = match self {
            Self::Zones => Some(Arc::new(power.clone())),
            Self::SplitZones => split(power, self.geometry(), number),
        };
        let is_there = device.is_some();
        offer_device(&format!("power-cut-{life}"), device);
        is_there
    }
}

fn take_back(life: &str) {
    offer_device(&format!("power-cut-{life}"), None);
}

/// The paper's drive with four chips, over what may be cut.
fn split(power: &PowerCut, geometry: Geometry, number: u64) -> Option<Arc<dyn ZonedDevice>> {
    let text = Profile::text("splitzns").unwrap();
    let text = text.replace("channels = 8", "channels = 2").replace("dies = 16", "dies = 4");
    let mut profile = Profile::parse(&text.replace("dies_per_zone = 16", "dies_per_zone = 4")).unwrap();
    let parts = profile.zoned.as_mut().and_then(|zoned| zoned.split.as_mut()).unwrap();
    parts.ring_durable = number.is_multiple_of(2);
    let data = SplitData::over(Arc::new(power.clone()), geometry, SUBZONES).ok()?;
    Some(Arc::new(FlashZoned::over_split(Arc::new(data), &profile, TimeMode::Untimed, number).ok()?))
}

#[test]
fn what_survives_a_power_cut_is_a_prefix_with_all_that_was_synced() {
    let name = "what_survives_a_power_cut_is_a_prefix_with_all_that_was_synced";
    lives::in_a_child(name, || cut_again_and_again(Drive::Zones));
}

#[test]
fn on_split_zones_what_survives_a_power_cut_is_a_prefix_with_all_that_was_synced() {
    let name = "on_split_zones_what_survives_a_power_cut_is_a_prefix_with_all_that_was_synced";
    lives::in_a_child(name, || cut_again_and_again(Drive::SplitZones));
}

fn cut_again_and_again(drive: Drive) {
    let cuts = std::env::var("ZONDA_CUTS").map_or(CUTS, |cuts| cuts.parse().unwrap());
    let mut rng = Seed(SEED).rng();
    let mut device = drive.power();
    let (mut promised, mut hits) = (Promised::default(), BTreeMap::<String, u64>::new());
    let (mut cut, mut second_cuts, mut lives_begun) = (0, 0, 0);
    // A whole life first: what is cut later has tables below level 0, in subzones where there are some.
    promised = live(drive, &device, promised, lives_begun);
    let mut checkpoints = BTreeSet::from([promised.checkpoint.expect("one of a life with power").0]);
    let subzones = verify(drive, &device, &promised, lives_begun).1;
    assert!(drive == Drive::Zones || subzones > 0, "no subzone is full after a compaction of everything");
    let mut is_recovered = true;
    while cut < cuts {
        device.arm(if is_recovered { next_cut(&mut rng) } else { early_cut(&mut rng) });
        lives_begun += 1;
        promised = live(drive, &device, promised, lives_begun);
        // A life may end before its cut; the next one goes on where it ended.
        let hit = device.cut_report();
        if let Some(hit) = &hit {
            cut += 1;
            second_cuts += u64::from(!is_recovered);
            *hits.entry(hit.label.to_owned()).or_default() += 1;
        }
        device = reopened(&device, &mut rng);
        is_recovered = hit.is_none() || rng.below(3) > 0;
        if is_recovered {
            let (last, _) = verify(drive, &device, &promised, lives_begun);
            checkpoints.extend(promised.checkpoint.map(|(number, _)| number));
            promised = Promised { synced: last, written: last, checkpoint: promised.checkpoint };
        }
    }
    println!(
        "{cuts} cuts of seed {SEED} in {lives_begun} lives ({second_cuts} of what no life had recovered), {} batches at the end, \
         {} checkpoints compared, {} assertions, {} lives that did not end ({} of them unlooked at); hit:",
        promised.written,
        checkpoints.len(),
        lives::aborts(),
        lives::stuck(),
        lives::unknown()
    );
    hits.iter().for_each(|(what, times)| println!("{times:6} {what}"));
    assert!(cuts < CUTS_FOR_ALL_KINDS || checkpoints.len() as u64 > cuts / 10, "checkpoints {checkpoints:?}");
    if drive == Drive::SplitZones {
        return;
    }
    let missed = KINDS.iter().filter(|kind| !hits.contains_key(**kind)).collect::<Vec<_>>();
    let is_enough = missed.is_empty() && second_cuts > cuts / 10;
    assert!(cuts < CUTS_FOR_ALL_KINDS || is_enough, "no cut hit {missed:?}, {second_cuts} second cuts: {hits:?}");
}

/// Of a life that finds what a cut left.
fn early_cut(rng: &mut Rng) -> CutAt {
    CutAt::Change(1 + rng.below(60))
}

/// One in four while it is mounted and opened; one in five at what happens seldom.
fn next_cut(rng: &mut Rng) -> CutAt {
    if rng.below(5) == 0 {
        let which = usize::try_from(rng.below(SELDOM.len() as u64)).unwrap();
        return CutAt::Label { label: SELDOM[which], nth: 1 + rng.below(4) };
    }
    if rng.below(4) == 0 { early_cut(rng) } else { CutAt::Change(1 + rng.below(1500)) }
}

fn reopened(device: &PowerCut, rng: &mut Rng) -> PowerCut {
    let survivor: MemDevice = device.reopen(rng);
    PowerCut::over(survivor)
}

/// One life: mounts, opens, writes until the power goes or enough is written.
fn live(drive: Drive, device: &PowerCut, before: Promised, cut: u64) -> Promised {
    let life = format!("life-{cut}");
    if !drive.offer(&life, cut, device) {
        assert!(device.cut_report().is_some(), "cut {cut} of seed {SEED}: the drive does not open with the power on");
        return before;
    }
    let (promised, failures) = (Arc::new(Mutex::new(before)), Failures::of(device));
    let (in_life, heard, uri) = (Arc::clone(&promised), Arc::clone(&failures), drive.uri(&life, cut));
    let write = move || write_on(&uri, &in_life, &heard, (before, cut));
    let has_ended = lives::live(write, || device.cut_report().is_some());
    let failed = failures.with_power.lock().clone();
    assert!(failed.is_empty(), "cut {cut} of seed {SEED}, with the power on: {failed:?}");
    assert_eq!(lives::panics(), 0, "cut {cut} of seed {SEED}: a panic became an error of a call");
    assert!(has_ended || device.cut_report().is_some(), "cut {cut} of seed {SEED}: an assertion with the power on");
    take_back(&life);
    let after = *promised.lock();
    let is_whole = after.written == before.written + BATCHES_MAX;
    assert!(
        is_whole || device.cut_report().is_some(),
        "cut {cut} of seed {SEED}: an error with the power on: {after:?}"
    );
    after
}

fn write_on(uri: &str, promised: &Mutex<Promised>, failures: &Failures, (before, cut): (Promised, u64)) {
    let Some(env) = failures.ok("mount", Env::new(uri)) else { return };
    env.set_threads(THREADS);
    let Some(database) = failures.ok("open", Database::open(&env, "/db")) else { return };
    // What the cut before left may not have been looked at.
    let Some(last) = failures.ok("check", database.check()) else { return };
    let is_right = last >= before.synced && last <= before.written;
    assert!(is_right, "life {cut} of seed {SEED}, {before:?}: batch {last} is the last");
    // What was found after a cut is on the device, so the next one leaves it there.
    promised.lock().synced = last;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| take_checkpoints((&env, &database), promised, failures, &is_over));
        let mut rng = Seed(SEED).derive(&format!("life {cut}")).rng();
        for batch in last + 1..=before.written + BATCHES_MAX {
            let is_synced = rng.below(20) == 0;
            promised.lock().written = batch.max(before.written);
            if failures.ok("write", database.write(batch, is_synced)).is_none() {
                break;
            }
            if is_synced {
                promised.lock().synced = batch;
            }
        }
        is_over.store(true, Ordering::Release);
    });
    if cut == 0 {
        database.compact();
    }
}

/// Takes checkpoints until the work is over, one at least; the last that was finished is promised.
fn take_checkpoints(
    (env, database): (&Env, &Database<'_>),
    promised: &Mutex<Promised>,
    failures: &Failures,
    is_over: &AtomicBool,
) {
    loop {
        let before = *promised.lock();
        let number = before.checkpoint.map_or(1, |(number, _)| number + 1);
        // A cut checkpoint may have left its name; it is not ours any more.
        failures.ok("destroy", env.destroy(&format!("/checkpoint-{number}")));
        if failures.ok("checkpoint", database.checkpoint(&format!("/checkpoint-{number}"))).is_none() {
            return;
        }
        promised.lock().checkpoint = Some((number, before.synced));
        if let Some((old, _)) = before.checkpoint {
            failures.ok("destroy", env.destroy(&format!("/checkpoint-{old}")));
        }
        if is_over.load(Ordering::Acquire) {
            return;
        }
    }
}

/// With the power on: everything opens, and holds what it must. Returns the last batch, and how many subzones are full.
fn verify(drive: Drive, device: &PowerCut, promised: &Promised, cut: u64) -> (u64, u64) {
    let life = format!("after-{cut}");
    assert!(drive.offer(&life, cut, device), "cut {cut} of seed {SEED}: the drive does not open");
    let context = format!("cut {cut} of seed {SEED}, {promised:?}");
    let env = Env::new(&drive.uri(&life, cut)).unwrap_or_else(|error| panic!("{context}: {error}"));
    let database = Database::open(&env, "/db").unwrap_or_else(|error| panic!("{context}: {error}"));
    let last = database.check().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(last >= promised.synced && last <= promised.written, "{context}: batch {last} is the last");
    drop(database);
    sweep(&drive.uri(&life, cut), promised.checkpoint).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    if let Some((number, at_least)) = promised.checkpoint {
        let path = format!("/checkpoint-{number}");
        let checkpoint = Database::open(&env, &path).unwrap_or_else(|error| panic!("{context}: {path}: {error}"));
        let held = checkpoint.check().unwrap_or_else(|error| panic!("{context}: {path}: {error}"));
        assert!(held >= at_least, "{context}: {path} ends with batch {held}");
    }
    let report = mounted_before(&drive.uri(&life, cut)).unwrap_or_else(|error| panic!("{context}: {error:?}")).report();
    let (_, subzones) = report.split_once("\"subzones_full\": ").unwrap();
    drop(env);
    take_back(&life);
    (last, subzones.split(',').next().unwrap().parse().unwrap())
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
