//! The log on a device of its own (ZKV, section 3.5): the same promises, also when the power fails on one of the two alone; and clear words
//! for a log device that is missing, or a stranger's.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{Place, fill, options};
use zonda::{Db, Durability, Error, Options, StoreKind};
use zonda_device::{CutAt, Geometry, MemBlockDevice, MemDevice, PowerCut, PowerCutBlock, ZonedDevice};
use zonda_rt::{Rng, sim};

fn with_log(place: &Place, kind: StoreKind) -> Options {
    options().store(kind).log_device(place.named("test.log"))
}

#[test]
fn the_log_goes_to_its_device_and_is_replayed_from_there() {
    for kind in StoreKind::ALL {
        let place = Place::new();
        // Nobody writes between two counts, or between two copies.
        let db = with_log(&place, kind).background(false).open(&place.uri()).unwrap();
        fill(&db, 1_000);
        db.sync().unwrap();
        let stats = db.stats().unwrap();
        let log = stats.log_device.as_ref().unwrap();
        assert!(log.written_bytes >= stats.written.log_bytes && stats.written.log_bytes > 0, "{stats:?}");
        // In place, the superblock is written twice beside what is counted.
        let here = stats.written.total_bytes() - stats.written.log_bytes + 2 * 4096;
        assert!(stats.device.written_bytes <= here, "no log beside the pages: {stats:?}");
        let copies = [place.named("copy.zonda"), place.named("copy.log")];
        std::fs::copy(place.uri(), &copies[0]).unwrap();
        std::fs::copy(place.named("test.log"), &copies[1]).unwrap();
        drop(db);
        // As a crash left them: nothing but the log has the pairs.
        let db = options().log_device(&copies[1]).open(&copies[0]).unwrap();
        assert_eq!(db.iter().unwrap().count(), 1_000);
        db.close().unwrap();
        let db = with_log(&place, kind).open(&place.uri()).unwrap();
        assert_eq!(db.iter().unwrap().count(), 1_000);
        assert!(options().open(&place.uri()).is_err(), "locked");
        db.close().unwrap();
        let db = with_log(&place, kind).open_read_only(&place.uri()).unwrap();
        assert_eq!(db.iter().unwrap().count(), 1_000);
    }
}

#[test]
fn a_missing_or_foreign_log_is_told_and_nothing_is_written() {
    for kind in StoreKind::ALL {
        let (place, other) = (Place::new(), Place::new());
        with_log(&place, kind).open(&place.uri()).unwrap().close().unwrap();
        // Store ids come from the seed.
        with_log(&other, kind).seed(8).open(&other.uri()).unwrap().close().unwrap();
        let plain = place.named("plain.zonda");
        options().store(kind).open(&plain).unwrap().close().unwrap();
        let zoned = place.named("zoned.zonda");
        options().open(&zoned).unwrap().close().unwrap();
        let before = std::fs::read(place.uri()).unwrap();
        let refused = |options: Options, uri: &str| options.open(uri).unwrap_err();
        let missing = refused(options(), &place.uri());
        let said = missing.to_string();
        assert!(matches!(missing, Error::LogDevice { .. }) && said.contains("device of its own"), "{said}");
        let gone = refused(options().log_device(place.named("no.log")), &place.uri());
        assert!(matches!(&gone, Error::LogDevice { why } if why.contains("no.log")), "{gone}");
        assert!(!std::path::Path::new(&place.named("no.log")).exists(), "a lost log is not replaced by an empty one");
        let foreign = refused(options().log_device(other.named("test.log")), &place.uri());
        let said = foreign.to_string();
        assert!(matches!(foreign, Error::LogDevice { .. }) && said.contains("belongs to store"), "{said}");
        let store = refused(options().log_device(&zoned), &place.uri());
        assert!(matches!(store, Error::NotAStore { .. }) && store.to_string().contains("treelog"), "{store}");
        let unasked = refused(options().log_device(place.named("test.log")), &plain);
        let said = unasked.to_string();
        assert!(matches!(unasked, Error::LogDevice { .. }) && said.contains("beside its pages"), "{said}");
        assert_eq!(std::fs::read(place.uri()).unwrap(), before);
        assert_eq!(with_log(&place, kind).open(&place.uri()).unwrap().iter().unwrap().count(), 0);
    }
}

#[test]
fn store_and_log_are_not_taken_for_each_other() {
    for kind in StoreKind::ALL {
        let place = Place::new();
        with_log(&place, kind).open(&place.uri()).unwrap().close().unwrap();
        let swapped = options().log_device(place.uri()).open(&place.named("test.log")).unwrap_err();
        let twice = options().log_device(place.uri()).open(&place.uri()).unwrap_err();
        let said = swapped.to_string();
        let alone = options().open(&place.named("test.log")).unwrap_err().to_string();
        assert!(alone.contains("the log of a store") || kind == StoreKind::InPlace, "{alone}");
        match kind {
            StoreKind::Zoned => {
                assert!(matches!(swapped, Error::NotAStore { .. }) && said.contains("the log of a store"), "{said}")
            }
            // A log is on zones: the file says that it is not.
            _ => assert!(matches!(swapped, Error::BadOption { name: "store", .. }), "{said}"),
        }
        assert!(matches!(twice, Error::Locked { .. }), "{twice}");
    }
}

#[test]
fn a_log_device_that_holds_something_or_is_too_small_is_refused() {
    for kind in StoreKind::ALL {
        let place = Place::new();
        with_log(&place, kind).open(&place.uri()).unwrap().close().unwrap();
        let taken = with_log(&place, kind).open(&place.named("another.zonda")).unwrap_err();
        assert!(matches!(taken, Error::AlreadyExists { .. }), "{taken}");
        let small = options().store(kind).log_device("mem:?zones=3").open("mem:").unwrap_err();
        assert!(matches!(small, Error::UnsuitableDevice { .. }) && small.to_string().contains('3'), "{small}");
    }
}

/// What goes with more memory is a longer log, but no device grows.
#[test]
fn a_store_is_opened_with_more_memory_than_its_log_device_was_made_for() {
    for kind in StoreKind::ALL {
        let place = Place::new();
        let made =
            options().store(kind).memory(2 << 20).log_device(place.named("test.log") + "?zones=12&zone_size=1MiB");
        let db = made.open(&place.uri()).unwrap();
        fill(&db, 1_000);
        db.close().unwrap();
        for more in [with_log(&place, kind).memory(64 << 20), with_log(&place, kind).memory(256 << 20).filter(0.5)] {
            let db = more.open(&place.uri()).unwrap();
            assert_eq!(db.iter().unwrap().count(), 1_000);
            for number in 0..20_000_u64 {
                db.put(number.to_be_bytes(), [7; 500]).unwrap();
            }
            (0..20_000_u64).for_each(|number| db.delete(number.to_be_bytes()).unwrap());
            db.close().unwrap();
        }
    }
}

#[test]
fn a_backup_has_its_log_beside_its_pages_or_where_it_is_told() {
    for kind in StoreKind::ALL {
        let place = Place::new();
        let db = with_log(&place, kind).open(&place.uri()).unwrap();
        fill(&db, 200);
        let beside = options().store(kind);
        assert_eq!(db.backup_with(&place.named("plain.zonda"), &beside, &mut |_| {}).unwrap(), 200);
        let split = beside.log_device(place.named("split.log"));
        assert_eq!(db.backup_with(&place.named("split.zonda"), &split, &mut |_| {}).unwrap(), 200);
        db.close().unwrap();
        assert_eq!(options().open(&place.named("plain.zonda")).unwrap().iter().unwrap().count(), 200);
        assert_eq!(split.open(&place.named("split.zonda")).unwrap().iter().unwrap().count(), 200);
    }
}

/// A device behind a switch, and what is behind the switch.
enum Switched {
    Zones(PowerCut, MemDevice),
    Blocks(PowerCutBlock, MemBlockDevice),
}

impl Switched {
    fn zones(live: MemDevice) -> Self {
        Self::Zones(PowerCut::over(live.clone()), live)
    }

    fn blocks(live: MemBlockDevice) -> Self {
        Self::Blocks(PowerCutBlock::over(live.clone()), live)
    }

    fn arm(&self, at: CutAt) {
        match self {
            Self::Zones(power, _) => power.arm(at),
            Self::Blocks(power, _) => power.arm(at),
        }
    }

    fn cut(&self) {
        match self {
            Self::Zones(power, _) => power.cut(),
            Self::Blocks(power, _) => power.cut(),
        }
    }

    fn lost_power(&self) -> bool {
        match self {
            Self::Zones(power, _) => power.cut_report().is_some(),
            Self::Blocks(power, _) => power.cut_report().is_some(),
        }
    }

    /// After a cut a legal part of what was not flushed is gone; a device that kept its power has lost nothing.
    fn restart(&mut self, rng: &mut Rng) {
        let lost_power = self.lost_power();
        *self = match self {
            Self::Zones(power, live) => Self::zones(if lost_power { power.reopen(rng) } else { live.clone() }),
            Self::Blocks(power, live) => Self::blocks(if lost_power { power.reopen(rng) } else { live.clone() }),
        };
    }
}

fn open(pages: &Switched, log: &Switched, options: &Options) -> zonda::Result<Db> {
    let Switched::Zones(log, _) = log else { panic!("a log is on zones") };
    let log: Arc<dyn ZonedDevice> = Arc::new(log.clone());
    match pages {
        Switched::Zones(power, _) => Db::open_devices(Arc::new(power.clone()), Some(log), options),
        Switched::Blocks(power, _) => Db::open_block_devices(Arc::new(power.clone()), Some(log), options),
    }
}

/// Puts and deletes in their order, and how many of them must survive.
#[derive(Default)]
struct History {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    synced: usize,
}

impl History {
    fn state(&self, changes: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut state = BTreeMap::new();
        for (key, value) in &self.changes[..changes] {
            match value {
                Some(value) => drop(state.insert(key.clone(), value.clone())),
                None => drop(state.remove(key)),
            }
        }
        state
    }

    /// One change; `false` once the power has gone.
    fn step(&mut self, db: &Db, rng: &mut Rng) -> bool {
        let key = rng.below(300).to_be_bytes().to_vec();
        let len = if rng.chance(0.02) { 3_000 } else { rng.index(60) };
        let mut value = vec![0; len];
        rng.fill(&mut value);
        let value = rng.chance(0.85).then_some(value);
        self.changes.push((key.clone(), value.clone()));
        let durability = if rng.chance(0.05) { Durability::Synced } else { Durability::Buffered };
        let done = match &value {
            Some(value) => db.put_with(&key, value, durability),
            None => db.delete_with(&key, durability),
        };
        if done.is_ok() && durability == Durability::Synced {
            self.synced = self.changes.len();
        }
        done.is_ok() && (!rng.chance(0.002) || db.checkpoint().is_ok())
    }

    /// What the store holds is the state after some number of changes, not before those that were synced.
    fn check(&mut self, db: &Db, seed: u64) {
        let found: BTreeMap<_, _> = db.iter().unwrap().map(Result::unwrap).collect();
        let survived = (self.synced..=self.changes.len()).rev().find(|&changes| self.state(changes) == found);
        let all = self.changes.len();
        let survived = survived.unwrap_or_else(|| panic!("I4 seed {seed}: none of {}..={all} changes", self.synced));
        self.changes.truncate(survived);
        self.synced = survived;
    }
}

/// Lives of a store whose power fails on the pages, on the log, or on both; returns (cuts, zones reset).
fn lives(seed: u64, kind: StoreKind) -> (u64, u64) {
    let mut rng = Rng::seeded(seed);
    let mut pages = match kind {
        StoreKind::InPlace => Switched::blocks(MemBlockDevice::new(4096, 150 * 16).unwrap()),
        _ => Switched::zones(MemDevice::new(Geometry::new(64 << 10, 150).with_limits(14, 14)).unwrap()),
    };
    let mut log = Switched::zones(MemDevice::new(Geometry::new(64 << 10, 120).with_limits(4, 4)).unwrap());
    let options = Options::new().memory(2 << 20).log_limit(1 << 20).zone_bytes(64 << 10).seed(seed).log_instances(2);
    let (mut history, mut cuts, mut resets) = (History::default(), 0, 0);
    drop(open(&pages, &log, &options).unwrap());
    for _ in 0..6 {
        let cut_after = CutAt::Operation(1 + rng.below(3_000));
        let who = rng.below(3);
        let armed = if who == 0 { &pages } else { &log };
        armed.arm(cut_after);
        // The power may go while the store opens, too.
        let opened = open(&pages, &log, &options);
        let went_well = opened.as_ref().is_ok_and(|db| (0..4_000).all(|_| history.step(db, &mut rng)));
        assert!(went_well || pages.lost_power() || log.lost_power(), "seed {seed}: an error with the power on");
        if let Ok(db) = opened {
            resets += db.stats().unwrap().space.zones_reset;
            if who == 2 {
                pages.cut();
                log.cut();
            }
        }
        cuts += u64::from(pages.lost_power()) + u64::from(log.lost_power());
        pages.restart(&mut rng);
        log.restart(&mut rng);
        let db = open(&pages, &log, &options).unwrap();
        history.check(&db, seed);
        let mut findings = Vec::new();
        db.check(&mut |_, _| {}, &mut |finding| findings.push(finding)).unwrap();
        assert!(findings.is_empty(), "seed {seed}: {findings:?}");
    }
    (cuts, resets)
}

/// A process dies, which leaves what its devices hold in their caches there; the power goes while the next one opens the store. What that
/// one had read of the log, and may have recorded, is lost with the cache of the log's device.
#[test]
fn the_power_goes_while_what_a_dead_process_left_is_opened() {
    for (seed, kind) in (0..24).flat_map(|seed| StoreKind::ALL.map(|kind| (seed, kind))) {
        let mut rng = Rng::seeded(seed);
        let mut pages = match kind {
            StoreKind::InPlace => Switched::blocks(MemBlockDevice::new(4096, 150 * 16).unwrap()),
            _ => Switched::zones(MemDevice::new(Geometry::new(64 << 10, 150).with_limits(14, 14)).unwrap()),
        };
        let mut log = Switched::zones(MemDevice::new(Geometry::new(64 << 10, 120).with_limits(4, 4)).unwrap());
        let options = Options::new()
            .memory(2 << 20)
            .log_limit(1 << 20)
            .zone_bytes(64 << 10)
            .seed(seed)
            .log_instances(2)
            .background(false);
        let db = open(&pages, &log, &options).unwrap();
        db.put_with([0; 8], "synced", Durability::Synced).unwrap();
        (1..300_u64).for_each(|nth| db.put(nth.to_be_bytes(), [1; 60]).unwrap());
        std::mem::forget(db);
        log.arm(CutAt::Change(1 + seed % 6));
        drop(open(&pages, &log, &options));
        pages.cut();
        log.cut();
        pages.restart(&mut rng);
        log.restart(&mut rng);
        let db = open(&pages, &log, &options).unwrap_or_else(|error| panic!("seed {seed}, {}: {error}", kind.name()));
        let keys: Vec<_> = db.iter().unwrap().map(|pair| pair.unwrap().0).collect();
        let expected: Vec<_> = (0..keys.len() as u64).map(|nth| nth.to_be_bytes().to_vec()).collect();
        assert!(!keys.is_empty() && keys == expected, "seed {seed}, {}: {} keys", kind.name(), keys.len());
    }
}

#[test]
fn the_power_fails_on_either_device_or_both() {
    for kind in StoreKind::ALL {
        let (mut cuts, mut resets) = (0, 0);
        for seed in 0..8 {
            let (cut, reset) = sim::run(seed, move || lives(seed, kind));
            cuts += cut;
            resets += reset;
        }
        assert!(cuts > 20 && resets > 6, "{}: {cuts} cuts, {resets} zones reset", kind.name());
    }
}

/// It would be gone with its process, and the store could not be opened any more.
#[test]
fn a_log_in_memory_is_refused_below_what_is_not() {
    let place = Place::new();
    let drive = format!("flash:test?time=untimed&zones=100&data={}", place.named("drive"));
    for (pages, log) in [(place.uri(), "mem:"), (drive, "mem:"), (place.uri(), "flash:test?time=untimed")] {
        let refused = options().log_device(log).open(&pages).unwrap_err();
        assert!(matches!(&refused, Error::LogDevice { why } if why.contains(log)), "{pages} {log}: {refused}");
        assert_eq!(std::fs::read_dir(place.named("")).unwrap().count(), 0, "nothing was made");
    }
    let db = options().log_device("mem:").open("mem:").unwrap();
    db.put("k", "v").unwrap();
}
