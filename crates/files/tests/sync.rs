//! What a sync covers besides new bytes.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{geometry, options, path};
use zonda_device::{
    BlockDevice, CutAt, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemBlockDevice, MemDevice, PowerCut,
};
use zonda_files::{FileError, FileKind, FileStore, FileTags, Placement, StoreId};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{DeviceCall, Seed};

const KINDS: [FileKind; 4] = [FileKind::Log, FileKind::Meta, FileKind::Flushed, FileKind::Data];

/// A file that was longer and is cut, and synced with nothing new in it; then what a mount beside it finds.
fn cut_and_sync(live: &FileStore, kind: FileKind, mount: impl FnOnce() -> FileStore) {
    let mut writer = live.create(&path("/file"), FileTags::of(kind)).unwrap();
    writer.append(&[1; 50_000]).unwrap();
    writer.sync().unwrap();
    writer.truncate(777).unwrap();
    writer.sync().unwrap();
    assert_eq!(mount().info(&path("/file")).unwrap().size_bytes, 777, "{kind:?}");
}

#[test]
fn a_cut_is_durable_with_the_next_sync_even_if_nothing_was_added() {
    for kind in KINDS {
        let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
        let live = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
        cut_and_sync(&live, kind, || FileStore::mount_read_only(device, options(0)).unwrap().0);
    }
    for placement in Placement::ALL {
        for kind in KINDS {
            let device = Arc::new(MemBlockDevice::new(4096, 4096).unwrap());
            let live = FileStore::format_on_blocks(device.clone(), placement, StoreId(1), false, options(0)).unwrap();
            cut_and_sync(&live, kind, || FileStore::mount_on_blocks(copy_of(&*device), options(0)).unwrap().0);
        }
    }
}

/// What a mount would find if the power went now and took nothing that was written.
fn copy_of(device: &dyn BlockDevice) -> Arc<MemBlockDevice> {
    let copy = MemBlockDevice::new(4096, device.capacity_blocks()).unwrap();
    let mut blocks = zonda_device::AlignedBuf::with_len(64 * 4096);
    for at in (0..device.capacity_blocks()).step_by(64) {
        device.read(zonda_device::Lba(at), &mut blocks).unwrap();
        copy.write(zonda_device::Lba(at), &blocks).unwrap();
    }
    Arc::new(copy)
}

/// Whoever takes numbers waits for no commit that waits for him.
#[test]
fn numbers_are_taken_beside_commits() {
    let store =
        FileStore::format(Arc::new(MemDevice::new(geometry(14)).unwrap()), StoreId(1), false, options(0)).unwrap();
    let of_reader = store.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let reader_ends = Arc::clone(&is_over);
    let reader = zonda_rt::spawn("numbers", move || {
        let mut files_max = 0;
        while !reader_ends.load(Ordering::Relaxed) {
            files_max = files_max.max(of_reader.usage().files);
        }
        // However late it came.
        files_max.max(of_reader.usage().files)
    });
    for round in 0..2_000 {
        let mut writer = store.create(&path(&format!("/{}", round % 3)), FileTags::of(FileKind::Meta)).unwrap();
        writer.append(b"a line").unwrap();
        writer.sync().unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(reader.join(), Ok(3));
    assert!(store.usage().writes.commits >= 2_000);
}

/// A log that was made after the last commit: what of it is on the device is there when the process dies.
#[test]
fn a_flushed_log_outlives_its_process_whatever_was_synced_before() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
    let older = live.create(&path("/1.log"), FileTags::of(FileKind::Log)).unwrap();
    live.sync_names().unwrap();
    let mut newer = live.create(&path("/2.log"), FileTags::of(FileKind::Log)).unwrap();
    newer.append(&[7; 50_000]).unwrap();
    newer.flush().unwrap();
    let (found, _) = FileStore::mount_read_only(device, options(0)).unwrap();
    assert_eq!(found.info(&path("/2.log")).unwrap().size_bytes, 50_000);
    drop(older);
}

/// `CreateColumnFamilyWithImport` links tables and syncs its MANIFEST, and nothing else.
#[test]
fn changes_of_names_are_durable_with_the_next_sync_of_any_file() {
    for (kind, adds) in KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
        let live = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
        let mut writer = live.create(&path("/written"), FileTags::of(kind)).unwrap();
        writer.append(b"before").unwrap();
        writer.sync().unwrap();
        let mut table = live.create(&path("/table"), FileTags::of(FileKind::Data)).unwrap();
        table.append(&[5; 20_000]).unwrap();
        table.sync().unwrap();
        table.close().unwrap();
        live.link(&path("/table"), &path("/imported")).unwrap();
        live.remove(&path("/table")).unwrap();
        if adds {
            writer.append(b"names it").unwrap();
        }
        writer.sync().unwrap();
        let (found, _) = FileStore::mount_read_only(device, options(0)).unwrap();
        assert_eq!(found.info(&path("/imported")).unwrap().size_bytes, 20_000, "{kind:?} {adds}");
        assert!(found.info(&path("/table")).is_err(), "{kind:?} {adds}");
        let commits = live.usage().writes.commits;
        if adds && matches!(kind, FileKind::Log | FileKind::Meta) {
            writer.append(b"nothing new").unwrap();
        }
        writer.sync().unwrap();
        assert_eq!(live.usage().writes.commits, commits, "{kind:?} {adds}: a sync behind which no name changed");
    }
}

/// Nor is it after a cut of the power: what a meta file relies on is flushed before its chunk is written.
#[test]
fn what_a_meta_file_says_of_names_is_not_on_the_device_before_them() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
    let mut writer = live.create(&path("/MANIFEST"), FileTags::of(FileKind::Meta)).unwrap();
    writer.append(b"before").unwrap();
    writer.sync().unwrap();
    let mut table = live.create(&path("/table"), FileTags::of(FileKind::Data)).unwrap();
    table.append(&[5; 20_000]).unwrap();
    table.close().unwrap();
    live.sync_names().unwrap();
    live.link(&path("/table"), &path("/imported")).unwrap();
    writer.append(&[7; 30_000]).unwrap();
    let (found, _) = FileStore::mount_read_only(device, options(0)).unwrap();
    assert!(found.info(&path("/MANIFEST")).unwrap().size_bytes > 6, "some of it is there without a sync");
    assert_eq!(found.info(&path("/imported")).unwrap().size_bytes, 20_000);
}

/// Nor by a close, though a sync before it found no room for the names; and where the close finds none either, the bytes are not there.
#[test]
fn what_a_meta_file_says_of_names_is_not_on_the_device_before_them_though_a_sync_failed() {
    // The first write of a sync is the journal's.
    for fails_closing in [false, true] {
        let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let live = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options(0)).unwrap();
        let mut writer = live.create(&path("/MANIFEST"), FileTags::of(FileKind::Meta)).unwrap();
        writer.append(b"before").unwrap();
        writer.sync().unwrap();
        live.create(&path("/table"), FileTags::of(FileKind::Data)).unwrap().close().unwrap();
        live.sync_names().unwrap();
        live.link(&path("/table"), &path("/imported")).unwrap();
        writer.append(b"names it").unwrap();
        let effect = FaultEffect::Error(ErrorKind::NoSpaceOnHost);
        let fault = Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Nth(1), effect };
        device.inject(fault);
        assert!(writer.sync().is_err_and(|error| error.is_no_space()));
        device.heal();
        if fails_closing {
            device.inject(fault);
        }
        assert_eq!(writer.close().is_err(), fails_closing);
        device.heal();
        let (found, _) = FileStore::mount_read_only(Arc::new(device), options(0)).unwrap();
        let is_said = found.info(&path("/MANIFEST")).unwrap().size_bytes > 6;
        assert_eq!((is_said, found.info(&path("/imported")).is_ok()), (!fails_closing, !fails_closing));
    }
}

/// An info log is flushed line by line and never synced.
#[test]
fn a_flushed_info_log_outlives_its_process_though_nothing_was_synced() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
    let mut log = live.create(&path("/LOG"), FileTags::of(FileKind::Meta)).unwrap();
    let commits = live.usage().writes.commits;
    for _ in 0..5 {
        log.append(b"a line\n").unwrap();
        log.flush().unwrap();
    }
    assert_eq!(live.usage().writes.commits, commits + 1, "once for each file");
    let (found, _) = FileStore::mount_read_only(device, options(0)).unwrap();
    assert_eq!(found.info(&path("/LOG")).unwrap().size_bytes, 35);
}

/// As a CURRENT, whichever sync commits it.
#[test]
fn a_name_that_another_file_takes_is_of_one_of_the_two_after_a_cut_in_that() {
    let mut sizes = BTreeSet::new();
    for (nth, seed) in (1..=2).flat_map(|nth| (0..8).map(move |seed| (nth, seed))) {
        let device = PowerCut::new(geometry(14)).unwrap();
        let live = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options(0)).unwrap();
        for (name, bytes) in [("/CURRENT", b"old".as_slice()), ("/temporary", b"newer")] {
            let mut writer = live.create(&path(name), FileTags::of(FileKind::Meta)).unwrap();
            writer.append(bytes).unwrap();
            writer.close().unwrap();
        }
        live.sync_names().unwrap();
        live.rename(&path("/temporary"), &path("/CURRENT")).unwrap();
        device.arm(CutAt::Label { label: "rename over", nth });
        let mut log = live.create(&path("/1.log"), FileTags::of(FileKind::Log)).unwrap();
        assert!(log.sync().is_err(), "{nth} of seed {seed}");
        assert_eq!(device.cut_report().map(|cut| cut.label), Some("rename over"), "{nth} of seed {seed}");
        let survivor: MemDevice = device.reopen(&mut Seed(seed).rng());
        let (found, _) = FileStore::mount_read_only(Arc::new(survivor), options(0)).unwrap();
        let size = found.info(&path("/CURRENT")).unwrap().size_bytes;
        assert_eq!(found.info(&path("/temporary")).is_ok(), size == 3, "{nth} of seed {seed}");
        sizes.insert(size);
    }
    assert_eq!(sizes, BTreeSet::from([3, 5]));
}

#[test]
fn no_directory_is_renamed_so_that_a_name_below_it_is_too_long() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let live = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
    let deep = |first: &str| (0..16).fold(format!("/{first}"), |above, _| format!("{above}/{}", "y".repeat(250)));
    let mut directory = String::from("/a");
    live.make_directory(&path(&directory)).unwrap();
    for _ in 0..16 {
        directory = format!("{directory}/{}", "y".repeat(250));
        live.make_directory(&path(&directory)).unwrap();
    }
    assert_eq!(directory, deep("a"));
    let refused = live.rename(&path("/a"), &path(&format!("/{}", "b".repeat(100)))).unwrap_err();
    assert!(matches!(refused, FileError::BadPath { .. }), "{refused}");
    live.rename(&path("/a"), &path("/bb")).unwrap();
    live.sync_names().unwrap();
    drop(live);
    // Twice: the first mount writes a snapshot, the second reads it.
    for _ in 0..2 {
        let (store, report) = FileStore::mount(device.clone(), options(0)).unwrap();
        assert_eq!(report.records_ignored, 0);
        assert!(store.info(&path(&deep("bb"))).unwrap().is_directory);
    }
}
