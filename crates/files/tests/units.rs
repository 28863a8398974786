//! What a store writes ends with units of the flash: a drive without a write buffer programs nothing twice.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::path;
use zonda_device::{Geometry, MemDevice};
use zonda_files::{FileKind, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_flash::drive::{FlashZoned, TimeMode};
use zonda_flash::profile::Profile;

/// Programmed at once by a die of the drive.
const UNIT_BYTES: usize = 64 << 10;
const TABLE_BYTES: usize = 6 << 20;

/// A drive of 12 zones of 32 MiB without a buffer, and a store on it.
fn store() -> (FlashZoned, FileStore) {
    let profile = Profile::named("splitzns").unwrap().scaled(16).unwrap();
    let data = MemDevice::new(Geometry::new(32 << 20, 12).with_limits(8, 8)).unwrap();
    let drive = FlashZoned::over(Arc::new(data), &profile, TimeMode::Untimed, 1).unwrap();
    let options = FileStoreOptions { clean_below_free_percent: 90, ..FileStoreOptions::default() };
    (drive.clone(), FileStore::format(Arc::new(drive), StoreId(1), false, options).unwrap())
}

/// Programs, but for those that filled zones up.
fn programs(drive: &FlashZoned) -> u64 {
    let report = drive.flash_report();
    report.core.dies.iter().map(|die| die.programs).sum::<u64>() - report.writes.padding_bytes / UNIT_BYTES as u64
}

fn write(store: &FileStore, name: &str) {
    let mut writer = store.create(&path(name), FileTags::of(FileKind::Data).with_level(3)).unwrap();
    for piece in vec![7; TABLE_BYTES].chunks(100_000) {
        writer.append(piece).unwrap();
    }
    writer.close().unwrap();
}

/// Units of a table, and one more for each of its ends and for the records of it.
const PROGRAMS_MAX: u64 = (TABLE_BYTES / UNIT_BYTES) as u64 + 4;

#[test]
fn a_table_is_programmed_once() {
    let (drive, store) = store();
    for name in ["/first", "/behind another"] {
        let before = programs(&drive);
        write(&store, name);
        let of_table = programs(&drive) - before;
        assert!(of_table <= PROGRAMS_MAX, "{of_table} programs for {} units", TABLE_BYTES / UNIT_BYTES);
    }
}

#[test]
fn what_is_moved_is_programmed_once() {
    let (drive, store) = store();
    for table in 0..10 {
        write(&store, &format!("/{table}"));
    }
    (0..10).filter(|table| table % 5 != 1).for_each(|table| store.remove(&path(&format!("/{table}"))).unwrap());
    store.sync_names().unwrap();
    let before = (programs(&drive), store.usage().copied_bytes);
    while store.clean_step().unwrap().is_some() {}
    let (of_moves, moved) = (programs(&drive) - before.0, store.usage().copied_bytes - before.1);
    let tables = moved / TABLE_BYTES as u64;
    assert!(tables > 0 && of_moves <= tables * PROGRAMS_MAX, "{of_moves} programs for {moved} B");
}
