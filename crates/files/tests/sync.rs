//! What a sync covers besides new bytes.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options, path};
use zonda_device::{BlockDevice, MemBlockDevice, MemDevice};
use zonda_files::{FileKind, FileStore, FileTags, Placement, StoreId};
use zonda_rt::atomic::{AtomicBool, Ordering};

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
