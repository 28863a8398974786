//! What a store did is known after it was mounted again, and to who reads beside it.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{geometry, options, path};
use zonda_device::MemDevice;
use zonda_files::policy::Rule;
use zonda_files::{FileKind, FileStore, FileStoreOptions, FileTags, StoreId, Work};

fn put(store: &FileStore, file: u32, bytes: usize) {
    let mut writer = store.create(&path(&format!("/{file}")), FileTags::of(FileKind::Data).with_level(3)).unwrap();
    writer.append(&vec![7; bytes]).unwrap();
    writer.close().unwrap();
    store.sync_names().unwrap();
}

/// Fills zones, lets half of what is in them die and cleans, until every count has grown since `before`.
fn work(store: &FileStore, before: &Work) {
    let counts = |work: &Work| {
        [work.copied_bytes, work.finished_unwritten_bytes, work.resets_with_copy, work.resets_without_copy]
    };
    while counts(&store.work()).iter().zip(counts(before)).any(|(now, then)| *now <= then) {
        // At times one ends just before a zone does.
        (0..18).for_each(|file| put(store, file, [30_000, 30_000, 53_000][file as usize % 3]));
        (0..18).filter(|file| file % 3 != 1).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
        store.sync_names().unwrap();
        while store.clean_step().unwrap().is_some() {}
    }
    // What was done after the last commit is recorded with the next.
    put(store, 99, 1);
}

#[test]
fn work_is_kept_over_mounts_and_seen_beside_one() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let options = FileStoreOptions { clean_below_free_percent: 60, finish_percent: 20, ..options(2) };
    let store = FileStore::format(device.clone(), StoreId(1), false, options.clone()).unwrap();
    assert_eq!(store.work(), Work::default());
    work(&store, &Work::default());
    let first = store.work();
    assert!(first.allocations[&(Rule::Lifetime, Some(3))] > 5 && first.finishing_time > Duration::ZERO, "{first:?}");
    let (beside, _) = FileStore::mount_read_only(device.clone(), options.clone()).unwrap();
    assert_eq!((beside.work(), beside.usage().copied_bytes), (first.clone(), 0));
    drop((beside, store));

    let (store, _) = FileStore::mount(device, options).unwrap();
    assert_eq!((store.work(), store.usage().copied_bytes), (first.clone(), 0));
    work(&store, &first);
    let usage = store.usage();
    assert_eq!(store.work().copied_bytes, first.copied_bytes + usage.copied_bytes);
    assert_eq!(store.work().resets_with_copy, first.resets_with_copy + usage.resets_with_copy);
}

/// A sync that has nothing else to make durable writes nothing for it.
#[test]
fn work_alone_makes_no_commit() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let options = FileStoreOptions { clean_below_free_percent: 60, ..options(2) };
    let store = FileStore::format(device.clone(), StoreId(1), false, options.clone()).unwrap();
    (0..12).for_each(|file| put(&store, file, 60_000));
    (0..12).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
    while store.clean_step().unwrap().is_some() {}
    let commits = store.usage().writes.commits;
    (0..2).for_each(|_| store.sync_names().unwrap());
    assert_eq!(store.usage().writes.commits, commits);
    let (beside, _) = FileStore::mount_read_only(device, options).unwrap();
    assert_ne!(beside.work(), store.work(), "zones were reset after the last commit");
}
