//! Every backend keeps every rule.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tempfile::TempDir;
use zonda_device::{
    BlockZones, Direct, FileBlockDevice, FileDevice, FileOptions, MemBlockDevice, MemDevice, QueueKind, conformance,
};

/// Paths of fresh files in a directory that goes away with it.
struct Files(TempDir, AtomicU32);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap(), AtomicU32::new(0))
    }

    fn next(&self) -> std::path::PathBuf {
        self.0.path().join(self.1.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

fn file_devices_conform(options: &FileOptions) {
    let files = Files::new();
    conformance::zoned(&mut |geometry| Arc::new(FileDevice::create(files.next(), geometry, options).unwrap()))
        .assert_passed();
    conformance::block(&mut |bytes, blocks| {
        Arc::new(FileBlockDevice::create(files.next(), bytes, blocks, options).unwrap())
    })
    .assert_passed();
}

/// False where the system has no such thing: then there is nothing to test.
fn possible(options: &FileOptions) -> bool {
    let files = Files::new();
    let made = FileBlockDevice::create(files.next(), 4096, 8, options);
    made.is_ok_and(|device| zonda_device::BlockDevice::queue(&device, 1).is_ok())
}

#[test]
fn memory() {
    conformance::zoned(&mut |geometry| Arc::new(MemDevice::new(geometry).unwrap())).assert_passed();
    conformance::block(&mut |bytes, blocks| Arc::new(MemBlockDevice::new(bytes, blocks).unwrap())).assert_passed();
}

#[test]
fn zones_on_a_block_device() {
    conformance::zoned(&mut |geometry| {
        let blocks = 2 + geometry.zone_size_blocks * u64::from(geometry.zone_count);
        let device = Arc::new(MemBlockDevice::new(4096, blocks).unwrap());
        Arc::new(BlockZones::create(device, geometry).unwrap())
    })
    .assert_passed();
}

#[test]
fn file_page_cache_plain_queue() {
    file_devices_conform(&FileOptions { direct: Direct::Off, queue: QueueKind::Sync, ..Default::default() });
}

#[test]
fn file_page_cache_uring() {
    let options = FileOptions { direct: Direct::Off, queue: QueueKind::Uring, ..Default::default() };
    if possible(&options) {
        file_devices_conform(&options);
    }
}

#[test]
fn file_direct_plain_queue() {
    let options = FileOptions { direct: Direct::On, queue: QueueKind::Sync, ..Default::default() };
    if possible(&options) {
        file_devices_conform(&options);
    }
}

#[test]
fn file_direct_uring_full_length() {
    let options = FileOptions { direct: Direct::On, queue: QueueKind::Uring, full_length: true, ..Default::default() };
    if possible(&options) {
        file_devices_conform(&options);
    }
}

#[test]
fn file_with_recorded_pointers() {
    file_devices_conform(&FileOptions { record_pointers: true, ..Default::default() });
}
