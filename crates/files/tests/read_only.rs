//! A read-only mount beside the live one: it sees what was durable, writes nothing, and says `Stale` rather than give other bytes.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::disturbed::Disturbed;
use common::{geometry, options, path};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, ZonedDevice};
use zonda_files::{FileError, FileKind, FileStore, FileTags, FileWriter, Finding, StoreId, ZoneId};
use zonda_rt::{DeviceCall, Mutex, Rng};
use zonda_space::SpaceError;

fn put(store: &FileStore, name: &str, byte: u8, bytes: usize) {
    let mut writer = store.create(&path(name), FileTags::of(FileKind::Data)).unwrap();
    writer.append(&vec![byte; bytes]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
}

#[test]
fn it_reads_what_was_durable_and_writes_nothing() {
    let device: Arc<dyn ZonedDevice> = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = FileStore::format(Arc::clone(&device), StoreId(1), false, options(0)).unwrap();
    put(&live, "/a", 1, 20_000);
    let before = device.report(ZoneId(0), 24).unwrap();
    let (store, report) = FileStore::mount_read_only(Arc::clone(&device), options(0)).unwrap();
    assert_eq!(device.report(ZoneId(0), 24).unwrap(), before, "no zone was touched");
    assert_eq!((report.files, store.info(&path("/a")).unwrap().size_bytes), (1, 20_000));
    put(&live, "/b", 2, 5_000);
    assert!(matches!(store.open(&path("/b")), Err(FileError::NotFound { .. })), "that came later");
    let tags = FileTags::of(FileKind::Data);
    assert!(matches!(store.create(&path("/c"), tags), Err(FileError::ReadOnly)));
    assert!(matches!(store.remove(&path("/a")), Err(FileError::ReadOnly)));
    assert!(matches!(store.append_to(&path("/a")), Err(FileError::ReadOnly)));
    assert!(matches!(store.rename(&path("/a"), &path("/z")), Err(FileError::ReadOnly)));
    store.sync_names().unwrap();
    let mut bytes = vec![0; 20_000];
    assert_eq!(store.open(&path("/a")).unwrap().read_at(0, &mut bytes).unwrap(), 20_000);
    assert!(bytes.iter().all(|byte| *byte == 1));
    assert_eq!(store.check().unwrap().findings, []);
    drop(store);
    put(&live, "/d", 3, 5_000);
    assert_eq!(live.check().unwrap().findings, [], "the live store noticed nothing");
}

#[test]
fn what_was_cleaned_meanwhile_is_stale_and_never_other_bytes() {
    let device: Arc<dyn ZonedDevice> = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = FileStore::format(Arc::clone(&device), StoreId(1), false, options(0)).unwrap();
    let mut rng = Rng::seeded(7);
    let (mut stale, mut whole) = (0, 0);
    for round in 0..60 {
        for file in 0..6 {
            put(&live, &format!("/{file}"), u8::try_from((round * 6 + file) % 251).unwrap(), 30_000);
        }
        let (store, _) = FileStore::mount_read_only(Arc::clone(&device), options(0)).unwrap();
        for _ in 0..rng.below(30) {
            put(&live, &format!("/{}", rng.below(6)), 255, 30_000);
        }
        for file in 0..6 {
            let expected = u8::try_from((round * 6 + file) % 251).unwrap();
            let mut bytes = vec![0; 30_000];
            match store.open(&path(&format!("/{file}"))).unwrap().read_at(0, &mut bytes) {
                Ok(count) => {
                    assert!(count == 30_000 && bytes.iter().all(|byte| *byte == expected), "round {round}");
                    whole += 1;
                }
                Err(FileError::Stale { .. }) => stale += 1,
                Err(error) => panic!("round {round}: {error}"),
            }
        }
    }
    assert!(stale > 0 && whole > 0, "{stale} stale, {whole} whole");
}

/// A zone that was reset has no header to read, and when it is asked whether it is empty somebody may have written it anew.
#[test]
fn a_zone_that_is_written_anew_between_two_looks_is_stale() {
    let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let zoned = || Arc::new(device.clone()) as Arc<dyn ZonedDevice>;
    let live = FileStore::format(zoned(), StoreId(1), false, options(0)).unwrap();
    put(&live, "/a", 1, 30_000);
    let (store, _) = FileStore::mount_read_only(zoned(), options(0)).unwrap();
    let zone = store.extents(&path("/a")).unwrap()[0].zone;
    let reader = store.open(&path("/a")).unwrap();
    live.remove(&path("/a")).unwrap();
    let read = || reader.read_at(0, &mut [0; 30_000]);
    let is_stale = || matches!(read(), Err(FileError::Stale { found: Some(_), .. }));
    let again = (0..1_000).find(|_| {
        put(&live, "/b", 2, 30_000);
        is_stale()
    });
    assert!(again.is_some(), "{zone} is never written again");
    // The bytes are read first, then the header.
    let (call, effect) = (Some(DeviceCall::Read), FaultEffect::Error(ErrorKind::Media));
    device.inject(Fault { call, zone: Some(zone), when: FaultWhen::Nth(2), effect });
    assert!(is_stale() && device.injected() == 1);
    device.inject(Fault { call, zone: Some(zone), when: FaultWhen::From(2), effect });
    assert!(matches!(read(), Err(FileError::Space(SpaceError::Device(_)))), "{:?}", read());
}

#[test]
fn a_check_tells_what_the_live_store_did_from_damage() {
    let device: Arc<dyn ZonedDevice> = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = FileStore::format(Arc::clone(&device), StoreId(1), false, options(0)).unwrap();
    let mounted = || FileStore::mount_read_only(Arc::clone(&device), options(0)).unwrap().0;
    for file in 0..6 {
        put(&live, &format!("/{file}"), file, 60_000);
    }
    let early = mounted();
    for round in 0..60 {
        put(&live, &format!("/{}", round % 5), 100 + round, 60_000);
    }
    let mut report = early.check().unwrap();
    assert!(!report.stale.is_empty() && report.findings.is_empty(), "{report:?}");
    let stale = report.stale.clone();
    mounted().settle_stale(&mut report);
    assert_eq!((report.stale, report.findings), (stale, vec![]), "deleted or moved");
    let lost = live.extents(&path("/5")).unwrap()[0];
    drop(live);
    device.reset(lost.zone).unwrap();
    let mut report = mounted().check().unwrap();
    assert!(
        report.stale.iter().any(|(_, extent)| extent.zone == lost.zone) && report.findings.is_empty(),
        "{report:?}"
    );
    mounted().settle_stale(&mut report);
    let is_lost =
        |finding: &Finding| matches!(finding, Finding::WrongGeneration { extent, .. } if extent.zone == lost.zone);
    assert!(!report.findings.is_empty() && report.findings.iter().all(is_lost), "{report:?}");
    assert_eq!(report.stale, [], "nobody has moved it");
}

/// Nobody can say what is in a zone whose header is lost: that ends no check.
#[test]
fn a_header_that_cannot_be_read_is_a_finding() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let device: Arc<dyn ZonedDevice> = Arc::new(faulty.clone());
    let live = FileStore::format(Arc::clone(&device), StoreId(1), false, options(0)).unwrap();
    ["/a", "/b", "/c"].iter().for_each(|name| put(&live, name, 1, 60_000));
    let at = live.extents(&path("/b")).unwrap()[0];
    drop(live);
    let lose = |when| {
        let effect = FaultEffect::Error(ErrorKind::Media);
        faulty.inject(Fault { call: Some(DeviceCall::Read), zone: Some(at.zone), when, effect });
    };
    for at_mount in [false, true] {
        if at_mount {
            lose(FaultWhen::Nth(1));
        }
        let (store, _) = FileStore::mount_read_only(Arc::clone(&device), options(0)).unwrap();
        lose(FaultWhen::From(1 + u64::from(!at_mount)));
        let report = store.check().unwrap();
        let is_lost = |finding: &Finding| matches!(finding, Finding::Unreadable { extent, .. } if *extent == at);
        assert!(report.findings.len() == 1 && is_lost(&report.findings[0]), "{at_mount}: {report:?}");
        assert!(report.findings[0].told(&report.names).starts_with("/b: "), "{at_mount}: {report:?}");
        faulty.heal();
    }
}

/// Like a MANIFEST: each record says which table there is now. A new table is there before, the one before it goes after.
fn name_next_table(live: &FileStore, manifest: &mut FileWriter, number: u32) {
    put(live, &format!("/table{number}"), 1, 5_000);
    manifest.append(&number.to_le_bytes()).unwrap();
    manifest.sync().unwrap();
    live.remove(&path(&format!("/table{}", number - 1))).unwrap();
    live.sync_names().unwrap();
}

/// Mounts again and again, while the live store goes on at the first, second, ... call of the mount. Returns how many calls a mount makes.
fn mounts_at_every_call(names_before: u32) -> u64 {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = Arc::new(FileStore::format(Arc::clone(&device) as _, StoreId(1), false, options(0)).unwrap());
    put(&live, "/table0", 1, 5_000);
    let manifest = Arc::new(Mutex::new(live.create(&path("/MANIFEST"), FileTags::of(FileKind::Meta)).unwrap()));
    (1..=names_before).for_each(|number| name_next_table(&live, &mut manifest.lock(), number));
    for (at, number) in (1..).zip(names_before + 1..) {
        let (writer, records) = (Arc::clone(&live), Arc::clone(&manifest));
        let goes_on = move || name_next_table(&writer, &mut records.lock(), number);
        let beside = Arc::new(Disturbed::new(device.clone(), at, Box::new(goes_on)));
        let (store, report) = FileStore::mount_read_only(Arc::clone(&beside) as _, options(0)).unwrap();
        assert!(!report.moments_differ, "it goes on once");
        if !beside.was_disturbed() {
            return at;
        }
        let says = store.open(&path("/MANIFEST")).unwrap();
        let mut last = 0_u32.to_le_bytes();
        says.read_at(says.size_bytes().saturating_sub(4), &mut last).unwrap();
        let named = path(&format!("/table{}", u32::from_le_bytes(last)));
        assert!(store.info(&named).is_ok(), "{names_before} names, call {at}: {named} is named and is not there");
    }
    unreachable!("a mount ends")
}

#[test]
fn what_one_file_says_of_others_is_of_the_same_moment_whenever_the_live_store_goes_on() {
    // Each time the zones of names and logs are other ones.
    for names_before in 0..16 {
        let calls = mounts_at_every_call(names_before);
        assert!(calls > 48, "a mount makes {calls} calls, too few to tell");
    }
}

/// What a program does that keeps a log: a record is there before anything else speaks of it.
struct Logging {
    live: FileStore,
    log: FileWriter,
    manifest: FileWriter,
    number: u32,
}

impl Logging {
    fn on(device: &Arc<MemDevice>) -> Arc<Mutex<Self>> {
        let live = FileStore::format(Arc::clone(device) as _, StoreId(1), false, options(0)).unwrap();
        let writer = |name: &str, kind| live.create(&path(name), FileTags::of(kind)).unwrap();
        let (log, manifest) = (writer("/log", FileKind::Log), writer("/MANIFEST", FileKind::Meta));
        let mut logging = Self { live, log, manifest, number: 0 };
        logging.goes_on();
        Arc::new(Mutex::new(logging))
    }

    fn goes_on(&mut self) {
        self.number += 1;
        for file in [&mut self.log, &mut self.manifest] {
            file.append(&self.number.to_le_bytes()).unwrap();
            file.sync().unwrap();
        }
        self.live.make_directory(&path(&format!("/{}", self.number))).unwrap();
        self.live.sync_names().unwrap();
    }
}

fn last_number(store: &FileStore, name: &str) -> u32 {
    let reader = store.open(&path(name)).unwrap();
    let mut last = 0_u32.to_le_bytes();
    reader.read_at(reader.size_bytes().saturating_sub(4), &mut last).unwrap();
    u32::from_le_bytes(last)
}

fn log_is_no_older_than_manifest(beside: &Arc<Disturbed>, context: &str) {
    let (store, report) = FileStore::mount_read_only(Arc::clone(beside) as _, options(0)).unwrap();
    let (logged, named) = (last_number(&store, "/log"), last_number(&store, "/MANIFEST"));
    assert!(logged >= named, "{context}: the log ends at {logged}, the MANIFEST at {named}, {report:?}");
}

/// A log that is newer than its MANIFEST is replayed again in part; one that is older lacks what the MANIFEST counts on.
#[test]
fn logs_are_no_older_than_what_is_said_of_them() {
    for active in [14, 3] {
        let device = Arc::new(MemDevice::new(geometry(active)).unwrap());
        let logging = Logging::on(&device);
        for at in 1.. {
            let again = Arc::clone(&logging);
            let goes_on = Box::new(move || again.lock().goes_on());
            let beside = Arc::new(Disturbed::new(device.clone(), at, goes_on));
            log_is_no_older_than_manifest(&beside, &format!("call {at}, {active} active"));
            if !beside.was_disturbed() {
                break;
            }
        }
    }
}

#[test]
fn logs_are_no_older_where_the_live_store_never_rests() {
    let device = Arc::new(MemDevice::new(Geometry::new(16 << 20, 24).with_limits(14, 14)).unwrap());
    let logging = Logging::on(&device);
    for at in 1..20 {
        let again = Arc::clone(&logging);
        let goes_on = Box::new(move || again.lock().goes_on());
        let beside = Arc::new(Disturbed::new(device.clone(), at, goes_on).restless());
        log_is_no_older_than_manifest(&beside, &format!("from call {at} on"));
    }
}
