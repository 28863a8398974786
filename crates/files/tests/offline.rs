//! Zones that go offline: what may have been the end of a log or of the journal is missed, and nothing else is.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::{AlignedBuf, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemDevice, ZoneState, ZonedDevice};
use zonda_files::{FileError, FileKind, FileStore, FileStoreOptions, FileTags, MountReport, StoreId, ZoneId};
use zonda_rt::DeviceCall;
use zonda_space::{ChunkHeader, ChunkKind, StreamId};

const JOURNAL: u8 = 0;
const KINDS: [(FileKind, u8); 2] = [(FileKind::Log, 1), (FileKind::Meta, 2)];
const BLOCK: usize = 4096;

type Device = Faulty<MemDevice>;

fn device() -> Device {
    Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1)
}

fn options(gives_up_offline: bool) -> FileStoreOptions {
    FileStoreOptions { gives_up_offline, ..options_with("liza-zns") }
}

fn format(device: &Device) -> FileStore {
    FileStore::format(Arc::new(device.clone()), StoreId(1), false, options(false)).unwrap()
}

type Mounted = Result<(FileStore, MountReport), FileError>;

fn mount(device: &Device, gives_up_offline: bool) -> Mounted {
    FileStore::mount(Arc::new(device.clone()), options(gives_up_offline))
}

fn read_only(device: &Device, gives_up_offline: bool) -> Mounted {
    FileStore::mount_read_only(Arc::new(device.clone()), options(gives_up_offline))
}

fn put(store: &FileStore, name: &str, kind: FileKind) {
    let mut writer = store.create(&path(name), FileTags::of(kind)).unwrap();
    writer.append(&[7; 20_000]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    store.sync_names().unwrap();
}

/// A log that is open when the power goes.
fn leave_open(store: &FileStore, name: &str, kind: FileKind) {
    let mut writer = store.create(&path(name), FileTags::of(kind)).unwrap();
    writer.append(&[8; 20_000]).unwrap();
    writer.sync().unwrap();
    std::mem::forget(writer);
}

fn lose(device: &Device, zone: ZoneId) {
    device.inner().retire(zone, ZoneState::Offline).unwrap();
}

fn newest_zone(store: &FileStore, stream: u8) -> ZoneId {
    let views = store.space().view().into_iter();
    views.filter(|view| view.stream == Some(StreamId(stream))).max_by_key(|view| view.generation).unwrap().zone
}

fn size(store: &FileStore, name: &str) -> u64 {
    store.info(&path(name)).unwrap().size_bytes
}

#[test]
fn a_log_whose_zone_is_offline_is_not_mounted_without_it() {
    for (kind, stream) in KINDS {
        let device = device();
        let store = format(&device);
        leave_open(&store, "/log", kind);
        let zone = newest_zone(&store, stream);
        drop(store);
        lose(&device, zone);
        let before = device.inner().counters();
        for refused in [read_only(&device, false), mount(&device, false)] {
            let refused = refused.unwrap_err();
            assert!(
                matches!(refused, FileError::LogUnreadable { zone: of, .. } if of == zone.0),
                "{kind:?}: {refused}"
            );
        }
        let since = device.inner().counters().since(&before);
        assert_eq!((since.writes, since.resets, since.finishes), (0, 0, 0), "nothing was changed");

        // Who says so goes on without, and the store then knows of it.
        assert_eq!(size(&read_only(&device, true).unwrap().0, "/log"), 0);
        let (store, _) = mount(&device, true).unwrap();
        assert_eq!(size(&store, "/log"), 0);
        leave_open(&store, "/next", kind);
        drop(store);
        assert_eq!(size(&mount(&device, false).unwrap().0, "/next"), 20_000);
    }
}

/// Some devices have zones that nobody can use, from the beginning; others wear out when they are reset, with nothing in them.
#[test]
fn zones_that_held_nothing_that_counts_are_not_missed() {
    let device = device();
    for zone in [0, 5, 6, 23] {
        lose(&device, ZoneId(zone));
    }
    let store = format(&device);
    put(&store, "/a", FileKind::Data);
    let worn = newest_zone(&store, 3);
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Retire(ZoneState::Offline));
    device.inject(Fault { call, zone: Some(worn), when: FaultWhen::Nth(1), effect });
    let mut rounds = 0;
    while device.injected() == 0 {
        put(&store, "/a", FileKind::Data);
        rounds += 1;
        assert!(rounds < 1000, "the zone is never reset");
    }
    // The journal says so with the next of its commits.
    store.sync_names().unwrap();
    leave_open(&store, "/log", FileKind::Log);
    drop(store);
    assert_eq!(device.report(worn, 1).unwrap()[0].state, ZoneState::Offline);
    assert_eq!(size(&read_only(&device, false).unwrap().0, "/log"), 20_000);
    let (store, report) = mount(&device, false).unwrap();
    assert_eq!((size(&store, "/log"), size(&store, "/a"), report.extents_lost), (20_000, 20_000, 0));
}

/// The files in it are lost, and that is known: the others are not.
#[test]
fn a_zone_of_tables_that_goes_offline_costs_its_tables() {
    let device = device();
    let store = format(&device);
    put(&store, "/a", FileKind::Data);
    leave_open(&store, "/log", FileKind::Log);
    let zone = store.extents(&path("/a")).unwrap()[0].zone;
    drop(store);
    lose(&device, zone);
    let (store, report) = mount(&device, false).unwrap();
    assert_eq!((size(&store, "/log"), report.extents_lost > 0), (20_000, true));
    assert!(matches!(store.open(&path("/a")).unwrap_err(), FileError::Stale { .. }));
}

/// What it held is written again nowhere: it takes no room, at once and after a mount.
#[test]
fn a_zone_that_goes_offline_under_its_writer_takes_no_room_of_others() {
    let device = device();
    let store = format(&device);
    let mut writer = store.create(&path("/a"), FileTags::of(FileKind::Data)).unwrap();
    writer.append(&[7; 20_000]).and_then(|()| writer.sync()).unwrap();
    lose(&device, store.extents(&path("/a")).unwrap()[0].zone);
    // It goes on in another.
    writer.append(&[7; 20_000]).and_then(|()| writer.sync()).unwrap();
    writer.close().unwrap();
    store.sync_names().unwrap();
    let before = store.usage();
    drop(store);
    let (store, report) = mount(&device, false).unwrap();
    let after = store.usage();
    assert_eq!((before.space.lost_zones, report.extents_lost), (1, 1));
    assert_eq!((before.live_bytes, before.free_bytes), (after.live_bytes, after.free_bytes));
}

/// Logs that are closed are recorded.
#[test]
fn a_zone_of_closed_logs_that_goes_offline_refuses_no_mount() {
    for (kind, stream) in KINDS {
        let device = device();
        let store = format(&device);
        put(&store, "/closed", kind);
        let zone = newest_zone(&store, stream);
        drop(store);
        lose(&device, zone);
        assert!(mount(&device, false).unwrap().1.extents_lost > 0);
    }
}

/// Rewrites the ends of snapshots as earlier versions wrote them.
fn without_offline(device: &Device, zone: ZoneId) {
    let report = device.report(zone, 1).unwrap()[0];
    let mut bytes = AlignedBuf::with_len(usize::try_from(report.written_blocks()).unwrap() * BLOCK);
    device.read(report.start, &mut bytes).unwrap();
    for block in bytes.chunks_mut(BLOCK) {
        if let Some(header) = ChunkHeader::peek(block).filter(|header| header.kind == ChunkKind::SnapshotEnd) {
            assert!(header.payload_bytes > 0);
            ChunkHeader { payload_bytes: 0, ..header }.encode(block);
        }
    }
    device.inner().reset(zone).unwrap();
    device.inner().write(report.start, &bytes).unwrap();
}

#[test]
fn a_store_of_an_earlier_version_is_mounted_as_it_was() {
    let device = device();
    let store = format(&device);
    leave_open(&store, "/log", FileKind::Log);
    let journal = newest_zone(&store, JOURNAL);
    drop(store);
    without_offline(&device, journal);
    lose(&device, ZoneId(20));
    let (store, _) = mount(&device, false).unwrap();
    assert_eq!(size(&store, "/log"), 20_000);
    // From now on it says which there are.
    leave_open(&store, "/log", FileKind::Log);
    drop(store);
    let (store, _) = mount(&device, false).unwrap();
    leave_open(&store, "/log", FileKind::Log);
    drop(store);
    lose(&device, ZoneId(22));
    assert!(matches!(mount(&device, false).unwrap_err(), FileError::LogUnreadable { zone: 22, .. }));
}

/// The journal before the last is there still, as its zone was not reset. What it says is older than what other zones hold.
#[test]
fn an_older_journal_is_not_taken_for_one_that_is_offline() {
    let device = device();
    let store = format(&device);
    put(&store, "/a", FileKind::Data);
    let old = newest_zone(&store, JOURNAL);
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
    device.inject(Fault { call, zone: Some(old), when: FaultWhen::From(1), effect });
    while device.injected() == 0 {
        store.make_directory(&path("/d")).unwrap();
        store.remove_directory(&path("/d")).unwrap();
        store.sync_names().unwrap();
    }
    let new = newest_zone(&store, JOURNAL);
    put(&store, "/b", FileKind::Data);
    drop(store);
    assert_ne!(old, new);
    lose(&device, new);
    for refused in [read_only(&device, false), mount(&device, false)] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, FileError::JournalOffline { zone } if zone == new.0), "{refused}");
    }
    let (store, _) = mount(&device, true).unwrap();
    assert_eq!(size(&store, "/a"), 20_000);
    assert!(store.info(&path("/b")).is_err());
}
