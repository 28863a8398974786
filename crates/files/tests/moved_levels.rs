//! A table that is moved to another level without being written again is cleaned as one of that level.

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::MemDevice;
use zonda_files::lsm::{KeyOrder, KeyRange, TableHint, VersionEdit};
use zonda_files::{FileKind, FileStore, FileStoreOptions, FileTags, StoreId};

#[test]
fn a_moved_table_is_placed_and_counted_by_its_level_now() {
    let options = FileStoreOptions { clean_below_free_percent: 90, ..options_with("levels") };
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options).unwrap();
    let tree = store.tree(&path("/"), 0, KeyOrder::bytewise());
    let (name, range) = (|file: usize| path(&format!("/{file}")), KeyRange::new("a", "b"));
    for file in 0..21 {
        let mut writer = store.create(&name(file), FileTags::of(FileKind::Data)).unwrap();
        writer.describe(TableHint { tree, job: None, level: 1, range: Some(range.clone()) }).unwrap();
        writer.append(&[7; 20_000]).unwrap();
        writer.close().unwrap();
        let added = vec![(name(file), 1, range.clone())];
        store.apply_edit(tree, &VersionEdit { removed: Vec::new(), added });
    }
    for file in (0..21).step_by(3) {
        store.remove(&name(file)).unwrap();
        let moved = name(file + 1);
        store.apply_edit(tree, &VersionEdit { removed: vec![moved.clone()], added: vec![(moved, 4, range.clone())] });
    }
    store.sync_names().unwrap();
    while store.clean_step().unwrap().is_some() {}
    let of = store.usage().copied_of_levels;
    assert!(of[1] > 0 && of[4] > 0, "{of:?}");
    let levels: Vec<_> = store.allocations().iter().map(|(_, level, _)| *level).collect();
    assert!(levels.contains(&Some(4)), "zones are chosen for level 4 only by cleaning: {levels:?}");
}
