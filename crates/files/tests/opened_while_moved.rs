//! Files that are opened while cleaning moves them are read where they went. In virtual time, with threads that change often.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::MemDevice;
use zonda_files::{FileKind, FileReader, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{sim, spawn, yield_now};

const FILES: u8 = 20;
const BYTES: usize = 30_000;
const SEEDS: u64 = 100;

/// Zones half of which are dead.
fn half_dead() -> FileStore {
    let options = FileStoreOptions { clean_below_free_percent: 90, ..options_with("liza-zns") };
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options).unwrap();
    for file in 0..FILES {
        let mut writer = store.create(&path(&format!("/{file}")), FileTags::of(FileKind::Data)).unwrap();
        writer.append(&[file; BYTES]).unwrap();
        writer.close().unwrap();
    }
    (0..FILES).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
    store
}

/// Opens the files that are left again and again, and keeps the readers of those that were moved just then.
fn opened_in_between(store: &FileStore, is_cleaned: &AtomicBool) -> Vec<(u8, FileReader)> {
    let mut readers = Vec::new();
    let is_kept = |readers: &[(u8, FileReader)], file| readers.iter().any(|(kept, _)| *kept == file);
    while !is_cleaned.load(Ordering::Acquire) {
        for file in (1..FILES).step_by(2) {
            let name = path(&format!("/{file}"));
            let before = store.extents(&name).unwrap();
            let reader = store.open(&name).unwrap();
            yield_now();
            if store.extents(&name).unwrap() != before && !is_kept(&readers, file) {
                readers.push((file, reader));
            }
        }
    }
    readers
}

#[test]
fn who_opens_a_file_while_it_is_moved_reads_it_where_it_went() {
    let mut in_between = 0;
    for seed in 0..SEEDS {
        let options = sim::Options { schedule_probability: 0.5, ..sim::Options::seeded(seed) };
        in_between += sim::run_with(&options, || {
            let (store, is_cleaned) = (half_dead(), Arc::new(AtomicBool::new(false)));
            let opening = {
                let (store, is_cleaned) = (store.clone(), Arc::clone(&is_cleaned));
                spawn("opening", move || opened_in_between(&store, &is_cleaned))
            };
            while store.clean_step().unwrap().is_some() {}
            is_cleaned.store(true, Ordering::Release);
            let readers = opening.join().unwrap();
            for (file, reader) in &readers {
                let mut bytes = vec![0; BYTES];
                let count =
                    reader.read_at(0, &mut bytes).unwrap_or_else(|error| panic!("seed {seed}, {file}: {error}"));
                assert!(count == BYTES && bytes.iter().all(|byte| byte == file), "seed {seed}: file {file}");
            }
            assert_eq!(store.check().unwrap().findings, [], "seed {seed}");
            readers.len()
        });
    }
    println!("{in_between} files were moved while they were opened");
    assert!(in_between > 50, "{in_between}");
}
