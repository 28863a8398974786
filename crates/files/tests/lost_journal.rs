//! A journal that is lost, whole or in part: what it named is never taken for nobody's.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::{AlignedBuf, Lba, MemDevice, ZoneState, ZonedDevice};
use zonda_files::{FileError, FileKind, FileStore, FileTags, Finding, StoreId, ZoneId};
use zonda_space::StreamId;

const BLOCK: usize = 4096;

fn device() -> Arc<MemDevice> {
    Arc::new(MemDevice::new(geometry(14)).unwrap())
}

fn format(device: &Arc<MemDevice>) -> FileStore {
    FileStore::format(device.clone(), StoreId(1), false, options_with("liza-zns")).unwrap()
}

fn mounted(device: &Arc<MemDevice>) -> Result<FileStore, FileError> {
    FileStore::mount(device.clone(), options_with("liza-zns")).map(|(store, _)| store)
}

fn read_only(device: &Arc<MemDevice>) -> Result<FileStore, FileError> {
    FileStore::mount_read_only(device.clone(), options_with("liza-zns")).map(|(store, _)| store)
}

fn put(store: &FileStore, name: &str, kind: FileKind) {
    let mut writer = store.create(&path(name), FileTags::of(kind)).unwrap();
    writer.append(&[7; 20_000]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    store.sync_names().unwrap();
}

/// The journal's zones, oldest first.
fn journal_zones(store: &FileStore) -> Vec<ZoneId> {
    let mut views: Vec<_> = store.space().view().into_iter().filter(|it| it.stream == Some(StreamId(0))).collect();
    views.sort_by_key(|view| view.generation);
    views.iter().map(|view| view.zone).collect()
}

/// Writes what is in a zone again, changed, so that the device has nothing to say.
fn rewrite(device: &Arc<MemDevice>, zone: ZoneId, change: impl FnOnce(&mut [u8])) {
    let report = device.report(zone, 1).unwrap()[0];
    let mut bytes = AlignedBuf::with_len(usize::try_from(report.written_blocks()).unwrap() * BLOCK);
    device.read(report.start, &mut bytes).unwrap();
    change(&mut bytes);
    device.reset(zone).unwrap();
    device.write(report.start, &bytes).unwrap();
}

/// Refuses both kinds of mount, and does nothing to the device.
fn is_refused(device: &Arc<MemDevice>) -> FileError {
    let before = device.counters();
    let refused = read_only(device).unwrap_err();
    assert!(matches!(refused, FileError::JournalLost { .. }), "{refused}");
    let refused = mounted(device).unwrap_err();
    let since = device.counters().since(&before);
    assert_eq!((since.writes, since.resets, since.finishes), (0, 0, 0), "nothing was changed");
    refused
}

#[test]
fn a_store_whose_journal_is_offline_is_not_mounted_as_an_empty_one() {
    for kind in [FileKind::Log, FileKind::Meta, FileKind::Data] {
        let device = device();
        let store = format(&device);
        put(&store, "/file", kind);
        let journal = journal_zones(&store);
        drop(store);
        assert_eq!(journal.len(), 1);
        device.retire(journal[0], ZoneState::Offline).unwrap();
        let refused = is_refused(&device);
        assert!(matches!(refused, FileError::JournalLost { .. }), "{kind:?}: {refused}");
    }
}

/// Without a file that has bytes in a zone, only the journal itself tells that there was something: behind what is damaged, or by its age.
#[test]
fn a_store_whose_snapshot_is_damaged_is_not_mounted_as_an_empty_one() {
    for (mounts, block) in [0, 1].into_iter().flat_map(|mounts| (1..4).map(move |block| (mounts, block))) {
        let device = device();
        let store = format(&device);
        store.make_directory(&path("/names")).unwrap();
        store.sync_names().unwrap();
        drop(store);
        (0..mounts).for_each(|_| drop(mounted(&device).unwrap()));
        let journal = journal_zones(&read_only(&device).unwrap());
        assert_eq!(journal.len(), 1);
        // A bit of the number of a chunk: its checksum does not fit.
        rewrite(&device, journal[0], |bytes| bytes[block * BLOCK + 8] ^= 1);
        let refused = is_refused(&device);
        assert!(matches!(refused, FileError::JournalLost { .. }), "{mounts} mounts, block {block}: {refused}");
        rewrite(&device, journal[0], |bytes| bytes[block * BLOCK + 8] ^= 1);
        assert!(mounted(&device).unwrap().info(&path("/names")).unwrap().is_directory);
    }
}

/// A journal that goes on in a second zone, without the first.
#[test]
fn records_without_their_snapshot_are_not_taken_for_nothing() {
    let device = device();
    let store = format(&device);
    while journal_zones(&store).len() < 2 {
        store.make_directory(&path("/name")).unwrap();
        store.remove_directory(&path("/name")).unwrap();
        store.sync_names().unwrap();
    }
    let first = journal_zones(&store)[0];
    drop(store);
    device.retire(first, ZoneState::Offline).unwrap();
    is_refused(&device);
}

/// A store that was being made when the power went has nothing to lose, as often as that happens.
#[test]
fn a_store_that_was_being_made_is_mounted() {
    let device = device();
    let store = format(&device);
    let journal = journal_zones(&store)[0];
    drop(store);
    for blocks in [3, 2, 1] {
        let report = device.report(journal, 1).unwrap()[0];
        let mut bytes = AlignedBuf::with_len(blocks * BLOCK);
        device.read(report.start, &mut bytes).unwrap();
        let made = self::device();
        // Zones that never could be used are no sign of anything.
        made.retire(ZoneId(20), ZoneState::Offline).unwrap();
        made.write(Lba(report.start.0), &bytes).unwrap();
        assert_eq!(mounted(&made).unwrap().list(&path("/")).unwrap(), [], "{blocks} blocks");
    }
}

/// The store goes on, and what is acknowledged is in a new journal, however often its zone is lost.
#[test]
fn what_is_acknowledged_after_the_journal_went_offline_is_there() {
    let device = device();
    let store = format(&device);
    for round in 0..5 {
        put(&store, &format!("/{round}"), FileKind::Data);
        let journal = *journal_zones(&store).last().unwrap();
        device.retire(journal, ZoneState::Offline).unwrap();
        store.make_directory(&path(&format!("/d{round}"))).unwrap();
        store.sync_names().unwrap();
        drop(read_only(&device).unwrap());
    }
    drop(store);
    let store = mounted(&device).unwrap();
    for round in 0..5 {
        assert!(store.info(&path(&format!("/d{round}"))).unwrap().is_directory);
        let mut read = [0; 20_000];
        assert_eq!(store.open(&path(&format!("/{round}"))).unwrap().read_at(0, &mut read).unwrap(), 20_000);
        assert_eq!(read, [7; 20_000]);
    }
    assert_eq!(store.check().unwrap().findings, []);
}

/// The mount goes on without what is missing, and says so; so does a check.
#[test]
fn a_record_that_is_damaged_is_told() {
    let device = device();
    let store = format(&device);
    for name in 0..6 {
        store.make_directory(&path(&format!("/{name}"))).unwrap();
        store.sync_names().unwrap();
    }
    let journal = journal_zones(&store)[0];
    assert_eq!(store.check().unwrap().findings, []);
    drop(store);
    // The header, three of the snapshot, and the first record.
    rewrite(&device, journal, |bytes| bytes[5 * BLOCK + 8] ^= 1);
    let found = [Finding::Journal { records: 0, chunks: 4 }];
    let (store, report) = FileStore::mount_read_only(device.clone(), options_with("liza-zns")).unwrap();
    assert!(report.journal_damage().is_some());
    assert_eq!(store.check().unwrap().findings, found);
    let (store, report) = FileStore::mount(device.clone(), options_with("liza-zns")).unwrap();
    assert!(report.damage().is_some());
    assert_eq!((store.check().unwrap().findings, store.list(&path("/")).unwrap()), (found.to_vec(), vec![path("/0")]));
    // From now on that is what is recorded.
    drop(store);
    let (store, report) = FileStore::mount(device, options_with("liza-zns")).unwrap();
    assert_eq!((report.damage(), store.check().unwrap().findings), (None, vec![]));
}

/// What was written to a log whose creation is lost with the end of the journal is still in its zone: it is no other file's (I5).
#[test]
fn a_log_has_nothing_of_one_whose_creation_is_lost() {
    let device = device();
    let store = format(&device);
    let log = |name: &str| {
        let mut log = store.create(&path(name), FileTags::of(FileKind::Log)).unwrap();
        log.append(&[7; 100]).unwrap();
        log.sync().unwrap();
        // Nobody closes it: the power goes.
        std::mem::forget(log);
    };
    log("/kept");
    log("/lost");
    let journal = journal_zones(&store)[0];
    // The last record.
    rewrite(&device, journal, |bytes| {
        let last = bytes.len() - BLOCK;
        bytes[last + 8] ^= 1;
    });
    let store = mounted(&device).unwrap();
    assert_eq!(store.list(&path("/")).unwrap(), [path("/kept")]);
    std::mem::forget(store.create(&path("/new"), FileTags::of(FileKind::Log)).unwrap());
    store.sync_names().unwrap();
    let store = mounted(&device).unwrap();
    let bytes = ["/kept", "/new"].map(|name| store.info(&path(name)).unwrap().size_bytes);
    assert_eq!(bytes, [100, 0]);
}
