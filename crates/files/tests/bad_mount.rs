//! Zones that fail while a store is mounted: they are set aside, and the mount goes on.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, ZonedDevice};
use zonda_files::{FileError, FileKind, FileStore, FileStoreOptions, FileTags, FileWriter, Lifetime, StoreId, ZoneId};
use zonda_rt::DeviceCall;
use zonda_space::{SpaceError, StreamId};

const KINDS: [FileKind; 4] = [FileKind::Log, FileKind::Meta, FileKind::Flushed, FileKind::Data];

fn name(kind: FileKind) -> String {
    format!("/{kind:?}")
}

fn write(store: &FileStore, name: &str, kind: FileKind, byte: u8) -> FileWriter {
    let mut writer = store.create(&path(name), FileTags::of(kind)).unwrap();
    writer.append(&[byte; 20_000]).unwrap();
    writer.sync().unwrap();
    writer
}

fn is_whole(store: &FileStore, name: &str, byte: u8) -> bool {
    let mut read = vec![0; 20_001];
    let count = store.open(&path(name)).unwrap().read_at(0, &mut read).unwrap();
    count == 20_000 && read[..count].iter().all(|found| *found == byte)
}

/// A store that was not closed: a zone of each kind of file, and of the journal, is partly written.
fn crashed(device: &Faulty<MemDevice>) {
    let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
    KINDS.iter().for_each(|&kind| std::mem::forget(write(&store, &name(kind), kind, 1)));
    // In zones with nothing live in them.
    KINDS.iter().for_each(|&kind| drop(write(&store, "/gone", kind, 2)));
    store.remove(&path("/gone")).unwrap();
    store.sync_names().unwrap();
}

#[test]
fn a_mount_goes_on_past_zones_that_the_device_does_not_finish_open_or_reset() {
    for call in [DeviceCall::Finish, DeviceCall::Open, DeviceCall::Reset] {
        for zone in 0..8 {
            let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
            crashed(&device);
            let (effect, zone) = (FaultEffect::Error(ErrorKind::Media), Some(ZoneId(zone)));
            device.inject(Fault { call: Some(call), zone, when: FaultWhen::From(1), effect });
            for life in 0..2 {
                let context = format!("{call:?} of {zone:?}, life {life}");
                let mounted = FileStore::mount(Arc::new(device.clone()), options_with("liza-zns"));
                let (store, report) = mounted.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!((report.records_ignored, report.extents_lost), (0, 0), "{context}");
                assert!(KINDS.iter().all(|&kind| is_whole(&store, &name(kind), 1)), "{context}");
                for kind in KINDS {
                    drop(write(&store, "/new", kind, 3));
                    assert!(is_whole(&store, "/new", 3), "{context}");
                }
                assert_eq!(store.check().unwrap().findings, [], "{context}");
            }
            device.heal();
            let (store, _) = FileStore::mount(Arc::new(device.clone()), options_with("liza-zns")).unwrap();
            assert!(KINDS.iter().all(|&kind| is_whole(&store, &name(kind), 1)));
        }
    }
}

fn mounted(device: &Faulty<MemDevice>) -> Result<FileStore, FileError> {
    FileStore::mount(Arc::new(device.clone()), options_with("liza-zns")).map(|(store, _)| store)
}

/// Everything behind its header is lost.
fn lose(device: &Faulty<MemDevice>, zone: ZoneId) {
    let effect = FaultEffect::Error(ErrorKind::Media);
    device.inject(Fault { call: Some(DeviceCall::Read), zone: Some(zone), when: FaultWhen::From(2), effect });
}

/// Everything is lost.
fn lose_all(device: &Faulty<MemDevice>, zone: ZoneId) {
    let effect = FaultEffect::Error(ErrorKind::Media);
    device.inject(Fault { call: Some(DeviceCall::Read), zone: Some(zone), when: FaultWhen::From(1), effect });
}

fn zone_of(store: &FileStore, stream: u8) -> ZoneId {
    let views = store.space().view().into_iter();
    views.filter(|view| view.stream == Some(StreamId(stream))).max_by_key(|view| view.generation).unwrap().zone
}

/// The retry of a write that failed may be shorter, as another zone has another phase; the log goes on behind the retry.
#[test]
fn a_write_that_failed_and_reached_the_device_does_not_cut_the_log_short() {
    const BYTES: usize = 200_000;
    for kind in [FileKind::Log, FileKind::Meta] {
        for (first, nth) in
            [61_400, 61_401, 126_000, 20_000].into_iter().flat_map(|first| (1..4).map(move |nth| (first, nth)))
        {
            let device = Faulty::new(MemDevice::new(Geometry::new(1 << 20, 16).with_limits(14, 14)).unwrap(), 1);
            let options = FileStoreOptions::default();
            let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options).unwrap();
            let mut writer = store.create(&path("/log"), FileTags::of(kind)).unwrap();
            let bytes: Vec<u8> = (0..BYTES).map(|at| u8::try_from(at % 251).unwrap()).collect();
            writer.append(&bytes[..first]).unwrap();
            let effect = FaultEffect::Torn { blocks: 16 };
            device.inject(Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Nth(nth), effect });
            bytes[first..].chunks(4_000).for_each(|part| writer.append(part).unwrap());
            writer.sync().unwrap();
            std::mem::forget(writer);
            drop(store);
            let store = mounted(&device).unwrap();
            let mut read = vec![0; BYTES + 1];
            let count = store.open(&path("/log")).unwrap().read_at(0, &mut read).unwrap();
            assert_eq!(count, BYTES, "{kind:?}, write {nth} behind {first} bytes");
            assert!(read[..count] == bytes);
        }
    }
}

/// Logs and MANIFESTs are found by walking zones: what they lose there nobody else knows of.
#[test]
fn a_log_whose_end_may_be_lost_is_not_mounted_without_it() {
    for (kind, stream) in [(FileKind::Log, 1), (FileKind::Meta, 2)] {
        let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
        drop(write(&store, "/closed", kind, 2));
        std::mem::forget(write(&store, &name(kind), kind, 1));
        let zone = zone_of(&store, stream);
        drop(store);
        lose(&device, zone);
        let error = mounted(&device).unwrap_err();
        let first = u64::from(zone.0) * 16;
        let is_named = |block: u64| first < block && block < first + 16;
        assert!(
            matches!(error, FileError::LogUnreadable { zone: of, block, .. } if of == zone.0 && is_named(block)),
            "{error}"
        );
        device.heal();
        assert!(is_whole(&mounted(&device).unwrap(), &name(kind), 1), "nothing was changed");
    }
}

#[test]
fn a_log_that_begins_behind_what_is_lost_is_mounted_and_one_with_a_gap_is_not() {
    for has_gap in [false, true] {
        let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
        let mut before = write(&store, "/before", FileKind::Log, 2);
        let zone = zone_of(&store, 1);
        while zone_of(&store, 1) == zone {
            before.append(&[2; 8_000]).unwrap();
            before.sync().unwrap();
        }
        if has_gap {
            std::mem::forget(before);
        } else {
            before.close().unwrap();
            store.sync_names().unwrap();
            std::mem::forget(write(&store, "/Log", FileKind::Log, 1));
        }
        drop(store);
        lose(&device, zone);
        match mounted(&device) {
            Ok(store) => assert!(!has_gap && is_whole(&store, "/Log", 1)),
            Err(error) => {
                assert!(
                    has_gap && matches!(error, FileError::LogUnreadable { zone: of, .. } if of == zone.0),
                    "{error}"
                );
            }
        }
    }
}

/// Closed files are recorded: what is lost of them is heard by who reads it.
#[test]
fn lost_blocks_that_no_open_log_needs_refuse_no_mount() {
    let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
    drop(write(&store, "/closed", FileKind::Log, 2));
    store.sync_names().unwrap();
    let zone = zone_of(&store, 1);
    drop(store);
    lose(&device, zone);
    let store = mounted(&device).unwrap();
    assert!(store.open(&path("/closed")).unwrap().read_at(0, &mut [0; 20_000]).is_err());
    device.heal();
    drop(write(&store, "/new", FileKind::Log, 3));
    assert!(is_whole(&store, "/new", 3));
}

#[test]
fn a_journal_whose_end_may_be_lost_is_not_mounted_without_it() {
    let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    crashed(&device);
    let journal = ZoneId(1);
    lose(&device, journal);
    let error = mounted(&device).unwrap_err();
    let is_named = matches!(error, FileError::Space(SpaceError::JournalUnreadable { zone, .. }) if zone == journal);
    assert!(is_named, "{error}");
    device.heal();
    let store = mounted(&device).unwrap();
    assert!(KINDS.iter().all(|&kind| is_whole(&store, &name(kind), 1)));
}

/// The header of a zone is not read.
fn lose_header(device: &Faulty<MemDevice>, zone: ZoneId) {
    let effect = FaultEffect::Error(ErrorKind::Media);
    device.inject(Fault { call: Some(DeviceCall::Read), zone: Some(zone), when: FaultWhen::Nth(1), effect });
}

/// Of a MANIFEST and of tables, before cleaning.
const ROUNDS: usize = 4;

fn has(store: &FileStore, name: &str, bytes: usize) -> bool {
    let mut read = vec![0; bytes + 1];
    let count = store.open(&path(name)).unwrap().read_at(0, &mut read).unwrap();
    count == bytes && read[..count].iter().all(|found| *found == 4)
}

/// A store after cleaning: pieces of a MANIFEST that is being written were moved, to zones where tables were moved too. They say the
/// generation of the zones that they were written to, which are empty, or could not be reset.
fn cleaned(device: &Faulty<MemDevice>, resets: bool) -> (FileStore, FileWriter) {
    let options = FileStoreOptions { clean_below_free_percent: 90, ..options_with("f2fs-like") };
    let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options).unwrap();
    let as_tables = FileTags::of(FileKind::Meta).with_lifetime(Lifetime::Long);
    let mut manifest = store.create(&path("/MANIFEST"), as_tables).unwrap();
    for round in 0..ROUNDS {
        manifest.append(&[4; 5_000]).unwrap();
        manifest.sync().unwrap();
        let mut table = store.create(&path(&format!("/table{round}")), FileTags::of(FileKind::Data)).unwrap();
        table.append(&[4; 5_000]).unwrap();
        table.close().unwrap();
        KINDS.iter().for_each(|&kind| drop(write(&store, "/gone", kind, 2)));
    }
    store.remove(&path("/gone")).unwrap();
    store.sync_names().unwrap();
    if !resets {
        let effect = FaultEffect::Error(ErrorKind::Media);
        device.inject(Fault { call: Some(DeviceCall::Reset), zone: None, when: FaultWhen::From(1), effect });
    }
    while matches!(store.clean_step(), Ok(Some(_))) {}
    device.heal();
    let zones = |name: &str| store.extents(&path(name)).unwrap().into_iter().map(|extent| extent.zone);
    let of_tables: Vec<ZoneId> = (0..ROUNDS).flat_map(|round| zones(&format!("/table{round}"))).collect();
    assert!(store.usage().copied_bytes > 0 && zones("/MANIFEST").any(|zone| of_tables.contains(&zone)));
    (store, manifest)
}

/// The same, and what is written after it; it was not closed.
fn crashed_after_cleaning(device: &Faulty<MemDevice>, resets: bool) {
    let (store, mut manifest) = cleaned(device, resets);
    KINDS.iter().for_each(|&kind| std::mem::forget(write(&store, &name(kind), kind, 1)));
    manifest.append(&[4; 5_000]).unwrap();
    manifest.sync().unwrap();
    std::mem::forget(manifest);
}

/// Every zone in turn, in three lives.
fn lose_each_header(active: u32, crashed: &dyn Fn(&Faulty<MemDevice>), is_whole: &dyn Fn(&FileStore) -> bool) {
    for zone in 0..geometry(active).zone_count {
        let device = Faulty::new(MemDevice::new(geometry(active)).unwrap(), 1);
        crashed(&device);
        for life in 0..3 {
            let context = format!("{active} active, zone {zone}, life {life}");
            lose_header(&device, ZoneId(zone));
            let mounted = FileStore::mount(Arc::new(device.clone()), options_with("liza-zns"));
            let (store, report) = mounted.unwrap_or_else(|error| panic!("{context}: {error}"));
            device.heal();
            assert_eq!((report.records_ignored, report.extents_lost), (0, 0), "{context}");
            assert_eq!(store.usage().space.damaged_zones, 0, "{context}");
            assert!(is_whole(&store), "{context}");
            for kind in KINDS {
                drop(write(&store, "/new", kind, 3));
                assert!(self::is_whole(&store, "/new", 3), "{context}");
            }
            assert_eq!(store.check().unwrap().findings, [], "{context}");
        }
    }
}

#[test]
fn a_header_that_is_not_read_costs_nothing() {
    let are_whole = |store: &FileStore| KINDS.iter().all(|&kind| is_whole(store, &name(kind), 1));
    lose_each_header(14, &crashed, &are_whole);
    for (active, resets) in [14, 4, 2].into_iter().flat_map(|active| [(active, true), (active, false)]) {
        lose_each_header(active, &|device| crashed_after_cleaning(device, resets), &|store| {
            let has_tables = (0..ROUNDS).all(|round| has(store, &format!("/table{round}"), 5_000));
            are_whole(store) && has_tables && has(store, "/MANIFEST", 5_000 * (ROUNDS + 1))
        });
    }
}

/// All streams share zones: a log is written behind what was moved there, which is gone by now.
#[test]
fn a_log_is_found_without_a_header_behind_dead_pieces_of_another_generation() {
    let device = Faulty::new(MemDevice::new(geometry(2)).unwrap(), 1);
    let (store, manifest) = cleaned(&device, true);
    let open = store.open_zones()[0].zone;
    assert!(store.extents(&path("/MANIFEST")).unwrap().iter().any(|extent| extent.zone == open));
    let mut log = store.create(&path("/log"), FileTags::of(FileKind::Log)).unwrap();
    log.append(&[4; 3_000]).unwrap();
    log.sync().unwrap();
    std::mem::forget(log);
    assert_eq!(store.open_zones()[0].zone, open, "it has room");
    drop(manifest);
    store.remove(&path("/MANIFEST")).unwrap();
    (0..ROUNDS).for_each(|round| store.remove(&path(&format!("/table{round}"))).unwrap());
    store.sync_names().unwrap();
    drop(store);
    lose_header(&device, open);
    assert!(has(&mounted(&device).unwrap(), "/log", 3_000));
}

#[test]
fn a_zone_that_may_be_the_end_of_log_or_journal_is_not_mounted_without() {
    let mut refused = 0;
    for zone in (0..14).map(ZoneId) {
        let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        crashed(&device);
        let before = device.inner().counters();
        lose_all(&device, zone);
        match mounted(&device) {
            Err(FileError::ZoneUnreadable { zone: of, .. }) => {
                let since = device.inner().counters().since(&before);
                assert_eq!((of, since.writes, since.resets, since.finishes), (zone.0, 0, 0, 0), "nothing was changed");
                refused += 1;
            }
            Err(error) => panic!("{zone}: {error}"),
            // Nothing, or tables that are named.
            Ok(store) => assert!(KINDS.iter().all(|&kind| store.open(&path(&name(kind))).is_ok()), "{zone}"),
        }
        device.heal();
        let store = mounted(&device).unwrap();
        assert!(KINDS.iter().all(|&kind| is_whole(&store, &name(kind), 1)), "{zone}");
    }
    assert_eq!(
        refused, 4,
        "journal, log and meta, and the zone of a new store's header, which nobody can tell from these"
    );
}

/// Beside a live store nothing is recognised, and that is said.
#[test]
fn a_mount_for_reading_says_that_a_header_was_not_read() {
    let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    crashed(&device);
    let read_only = |device: &Faulty<MemDevice>| {
        FileStore::mount_read_only(Arc::new(device.clone()), options_with("liza-zns")).unwrap().1
    };
    assert_eq!(read_only(&device).warning(), None);
    let store = mounted(&device).unwrap();
    let zone = store.extents(&path(&name(FileKind::Data))).unwrap()[0].zone;
    drop(store);
    lose_all(&device, zone);
    let report = read_only(&device);
    assert_eq!(report.zones_unknown, 1);
    assert!(report.warning().is_some_and(|warning| warning.contains("headers")));
}

/// A header that cannot be read, of a zone that cannot be reset either.
#[test]
fn a_mount_goes_on_past_a_damaged_zone_that_the_device_does_not_reset() {
    let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    crashed(&device);
    let zone = {
        let (store, _) = FileStore::mount(Arc::new(device.clone()), options_with("liza-zns")).unwrap();
        drop(write(&store, "/other", FileKind::Data, 2));
        let zone = store.extents(&path("/other")).unwrap()[0].zone;
        KINDS.iter().for_each(|&kind| store.remove(&path(&name(kind))).unwrap());
        store.remove(&path("/other")).unwrap();
        store.sync_names().unwrap();
        zone
    };
    let effect = FaultEffect::Error(ErrorKind::Media);
    device.inject(Fault { call: Some(DeviceCall::Reset), zone: Some(zone), when: FaultWhen::From(1), effect });
    lose_header(&device, zone);
    let store = mounted(&device).unwrap();
    assert_eq!(store.usage().space.damaged_zones, 1);
    drop(write(&store, "/new", FileKind::Data, 3));
    assert!(is_whole(&store, "/new", 3));
}
