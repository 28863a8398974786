//! Tables in subzones, and what became of them.

use std::sync::Arc;

use zonda_device::ZonedDevice;
use zonda_files::{FileError, FileKind, FileStore, FileStoreOptions, FileTags, Lifetime, SplitUsage, StoreId};
use zonda_flash::drive::TimeMode;

use super::split::{geometry, memory, over};
use super::{options_with, path};

pub(crate) fn store_on(below: Arc<dyn ZonedDevice>, policy: &str) -> FileStore {
    store_with(below, options_with(policy))
}

pub(crate) fn store_with(below: Arc<dyn ZonedDevice>, options: FileStoreOptions) -> FileStore {
    let device = over(below, TimeMode::Untimed, 1).unwrap();
    FileStore::format(device, StoreId(1), false, options).unwrap()
}

pub(crate) fn store(policy: &str) -> FileStore {
    store_on(Arc::new(memory()), policy)
}

pub(crate) fn put(store: &FileStore, name: &str, level: u8, bytes: usize) -> Result<(), FileError> {
    let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Long).with_level(level);
    let mut writer = store.create(&path(name), tags)?;
    writer.append(&vec![name.as_bytes()[name.len() - 1]; bytes])?;
    writer.sync()?;
    writer.close()
}

pub(crate) fn deep() -> FileTags {
    FileTags::of(FileKind::Data).with_lifetime(Lifetime::Long).with_level(4)
}

pub(crate) fn whole(store: &FileStore, name: &str, bytes: usize) -> bool {
    let mut read = vec![0; bytes];
    let count = store.open(&path(name)).unwrap().read_at(0, &mut read).unwrap();
    count == bytes && read.iter().all(|byte| *byte == name.as_bytes()[name.len() - 1])
}

pub(crate) fn split(store: &FileStore) -> SplitUsage {
    store.split_usage().unwrap()
}

pub(crate) fn zones(store: &FileStore, name: &str) -> Vec<u32> {
    store.extents(&path(name)).unwrap().iter().map(|extent| extent.zone.0).collect()
}

pub(crate) fn is_in_subzone(store: &FileStore, name: &str) -> bool {
    zones(store, name).iter().all(|zone| *zone >= geometry().zone_count)
}

pub(crate) fn activate_two_split_zones(store: &FileStore) {
    let write = |name: &str| {
        let mut writer = store.create(&path(name), deep()).unwrap();
        writer.append(&[7; 40_000]).unwrap();
        writer.sync().unwrap();
        writer
    };
    put(store, "/dies", 4, 40_000).unwrap();
    let writers = ["/1", "/2", "/3", "/4"].map(write);
    store.remove(&path("/dies")).unwrap();
    store.sync_names().unwrap();
    writers.into_iter().for_each(|writer| writer.close().unwrap());
    let usage = split(store);
    assert_eq!((usage.split_zones, usage.active_split_zones, usage.written_subzones), (2, 2, 0), "{usage:?}");
}

/// A little file in a wide zone; which.
pub(crate) fn put_wide(store: &FileStore, name: &str, lifetime: Lifetime) -> u32 {
    let tags = FileTags::of(FileKind::Data).with_lifetime(lifetime).with_level(1);
    let mut writer = store.create(&path(name), tags).unwrap();
    writer.append(&[7; 4_000]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    zones(store, name)[0]
}
