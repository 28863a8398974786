//! A host whose file system is full under a device in a file: callers hear that there is no space, and all goes on when there is some.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::{CutAt, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemBlockDevice, MemDevice, PowerCut};
use zonda_files::{FileError, FileKind, FileStore, FileTags, Placement, StoreId};
use zonda_rt::{DeviceCall, Rng};

const KINDS: [FileKind; 4] = [FileKind::Log, FileKind::Meta, FileKind::Flushed, FileKind::Data];

fn full(call: DeviceCall, nth: u64) -> Fault {
    let effect = FaultEffect::Error(ErrorKind::NoSpaceOnHost);
    Fault { call: Some(call), zone: None, when: FaultWhen::From(nth), effect }
}

fn put(store: &FileStore, kind: FileKind, name: &str, bytes: usize) -> Result<(), FileError> {
    let mut writer = store.create(&path(name), FileTags::of(kind))?;
    writer.append(&vec![name.as_bytes()[1]; bytes])?;
    writer.sync()?;
    writer.close()
}

fn is_whole(store: &FileStore, name: &str, bytes: usize) -> bool {
    let mut read = vec![0; bytes + 1];
    let count = store.open(&path(name)).unwrap().read_at(0, &mut read).unwrap();
    count == bytes && read[..bytes].iter().all(|byte| *byte == name.as_bytes()[1])
}

/// Files are made and replaced until the host is full at the n-th call; then it has room again.
fn goes_on(device: &Faulty<MemDevice>, kind: FileKind, fault: Fault) {
    let context = format!("{kind:?}, {fault:?}");
    let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
    put(&store, kind, "/a", 50_000).unwrap();
    let mut half = store.create(&path("/half"), FileTags::of(kind)).unwrap();
    half.append(&[b'h'; 20_000]).unwrap();
    half.sync().unwrap();
    device.inject(fault);
    let mut refused = None;
    for file in 0..40 {
        refused = refused.or_else(|| put(&store, kind, &format!("/{}", file % 6), 30_000).err());
    }
    assert!(refused.as_ref().is_some_and(FileError::is_no_space), "{context}: {refused:?}");
    half.append(&[b'h'; 100]).unwrap();
    assert!(half.sync().is_err_and(|error| error.is_no_space()), "{context}");
    assert!(is_whole(&store, "/a", 50_000) && is_whole(&store, "/half", 20_100), "{context}");
    device.heal();
    half.sync().unwrap_or_else(|error| panic!("{context}: {error}"));
    store.rename(&path("/a"), &path("/z")).unwrap();
    (0..40).for_each(|file| put(&store, kind, &format!("/{}", file % 6), 30_000).unwrap());
    // Nobody closes: the power goes.
    std::mem::forget(half);
    drop(store);
    let (store, report) = FileStore::mount(Arc::new(device.clone()), options_with("liza-zns")).unwrap();
    assert_eq!((report.records_ignored, report.chunks_ignored, report.extents_lost), (0, 0, 0), "{context}");
    let mut read = vec![0; 50_000];
    assert_eq!(store.open(&path("/z")).unwrap().read_at(0, &mut read).unwrap(), 50_000, "{context}");
    assert!(read.iter().all(|byte| *byte == b'a') && is_whole(&store, "/half", 20_100), "{context}");
    assert!((0..6).all(|file| is_whole(&store, &format!("/{file}"), 30_000)), "{context}");
    assert_eq!(store.check().unwrap().findings, [], "{context}");
}

#[test]
fn writes_that_find_the_host_full_are_refused_and_nothing_stops() {
    for kind in KINDS {
        for nth in 1..24 {
            goes_on(&Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1), kind, full(DeviceCall::Write, nth));
        }
    }
}

/// Where write pointers are recorded, a flush writes them.
#[test]
fn flushes_that_find_the_host_full_are_refused_and_nothing_stops() {
    for kind in KINDS {
        for nth in 1..8 {
            goes_on(&Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1), kind, full(DeviceCall::Flush, nth));
        }
    }
}

/// Among them the last flush of a journal that begins anew.
#[test]
fn any_flush_that_finds_the_host_full_once_stops_nothing() {
    for nth in 1..100 {
        let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
        put(&store, FileKind::Data, "/0", 30_000).unwrap();
        device.inject(Fault { when: FaultWhen::Nth(nth), ..full(DeviceCall::Flush, nth) });
        let name = |number: u32| path(&format!("/{number}"));
        let mut refused = 0;
        for number in 0..60 {
            store.rename(&name(number), &name(number + 1)).unwrap();
            if let Err(error) = store.sync_names() {
                assert!(error.is_no_space(), "flush {nth}: {error}");
                refused += 1;
            }
        }
        assert!(refused <= 1, "flush {nth}: {refused} refused");
        device.heal();
        store.sync_names().unwrap_or_else(|error| panic!("flush {nth}: {error}"));
        drop(store);
        let (store, report) = FileStore::mount(Arc::new(device), options_with("liza-zns")).unwrap();
        assert_eq!((report.records_ignored, report.extents_lost), (0, 0), "flush {nth}");
        assert!(store.open(&name(60)).is_ok() && store.check().unwrap().findings.is_empty(), "flush {nth}");
    }
}

/// A record never outlives the bytes that it names, though the flush between them was refused when they were first to be recorded.
#[test]
fn what_a_refused_flush_was_to_keep_is_flushed_before_it_is_recorded() {
    for (seed, change) in (0..20).flat_map(|seed| (1..6).map(move |change| (seed, change))) {
        let power = PowerCut::new(geometry(14)).unwrap();
        let device = Faulty::new(power.clone(), 1);
        let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
        device.inject(full(DeviceCall::Flush, 1));
        assert!(put(&store, FileKind::Data, "/a", 30_000).is_err());
        device.heal();
        power.arm(CutAt::Change(change));
        let is_synced = store.sync_names().is_ok();
        power.cut();
        drop(store);
        let left = Arc::new(power.reopen(&mut Rng::seeded(seed)));
        let (store, report) = FileStore::mount(left, options_with("liza-zns")).unwrap();
        let context = format!("seed {seed}, change {change}");
        assert_eq!((report.records_ignored, report.extents_lost), (0, 0), "{context}");
        assert_eq!(store.check().unwrap().findings, [], "{context}");
        assert!(!is_synced || is_whole(&store, "/a", 30_000), "{context}");
    }
}

#[test]
fn blocks_in_a_file_are_refused_and_nothing_stops() {
    for placement in Placement::ALL {
        for nth in 1..12 {
            let device = Faulty::new(MemBlockDevice::new(4096, 4096).unwrap(), 1);
            let below = Arc::new(device.clone());
            let store =
                FileStore::format_on_blocks(below, placement, StoreId(1), false, options_with("liza-zns")).unwrap();
            put(&store, FileKind::Data, "/a", 50_000).unwrap();
            device.inject(full(DeviceCall::Write, nth));
            let refused = (0..12).find_map(|file| put(&store, FileKind::Data, &format!("/{file}"), 30_000).err());
            assert!(refused.as_ref().is_some_and(FileError::is_no_space), "{placement:?}, {nth}: {refused:?}");
            device.heal();
            (0..12).for_each(|file| put(&store, FileKind::Data, &format!("/{file}"), 30_000).unwrap());
            assert!(is_whole(&store, "/a", 50_000), "{placement:?}, {nth}");
            assert_eq!(store.check().unwrap().findings, [], "{placement:?}, {nth}");
        }
    }
}
