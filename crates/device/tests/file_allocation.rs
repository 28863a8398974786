//! What the files of devices take of their file system: ahead of what is written, and no more than that.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::{os::unix::fs::MetadataExt, path::Path};

use tempfile::TempDir;
use zonda_device::{
    AlignedBuf, BlockDevice, FileBlockDevice, FileDevice, FileOptions, Geometry, Io, Lba, ZoneId, ZonedDevice,
};

const BLOCK: usize = 4096;

fn block(value: u8) -> AlignedBuf {
    AlignedBuf::from_slice(&[value; BLOCK])
}

fn append(device: &FileDevice, zone: u32, values: impl IntoIterator<Item = u8>) {
    for value in values {
        device.append(ZoneId(zone), &block(value)).unwrap();
    }
}

fn read(device: &FileDevice, zone: u32, blocks: usize) -> Vec<u8> {
    let mut all = AlignedBuf::with_len(blocks * BLOCK);
    device.read(device.geometry().zone_start(ZoneId(zone)), &mut all).unwrap();
    all.chunks(BLOCK).map(|b| if b.iter().all(|x| *x == b[0]) { b[0] } else { 0xFF }).collect()
}

fn allocated_bytes(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

#[test]
fn space_ahead_of_write_pointers_is_no_data_and_is_given_back() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, Geometry::new(4 << 20, 8), &FileOptions::default()).unwrap();
    if !device.has_exact_holes() || !device.describe().contains("O_DIRECT") {
        return;
    }
    let made = allocated_bytes(&path);
    append(&device, 0, [1]);
    append(&device, 1, [2]);
    let before = allocated_bytes(&path);
    append(&device, 2, 1..=20);
    let (few, own) = (allocated_bytes(&path) - before, 20 * BLOCK as u64);
    assert!(few > own && few <= 2 * own + (64 << 10), "{few} bytes for {own}");
    append(&device, 3, std::iter::repeat_n(3, 600));
    let beside = FileDevice::open_beside(&path, &FileOptions::default()).unwrap();
    let written = |zone| beside.report(ZoneId(zone), 1).unwrap()[0].written_blocks();
    assert_eq!([0, 1, 2, 3, 4].map(written), [1, 1, 20, 600, 0], "the end of data is that of what was written");
    device.finish(ZoneId(2)).unwrap();
    device.reset(ZoneId(3)).unwrap();
    device.close().unwrap();
    let (kept, own) = (allocated_bytes(&path) - made, 22 * BLOCK as u64);
    assert!(kept < own + (16 << 10), "{kept} bytes are kept for {own}, the file system's own blocks among them");
    assert_eq!([0, 1, 3].map(written), [1, 1, 0]);
    assert_eq!(read(&beside, 2, 21), (1..=20).chain([0]).collect::<Vec<u8>>());
}

#[test]
fn blocks_are_allocated_by_the_chunk_until_they_are_trimmed() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let (chunk_blocks, capacity_blocks) = (64, 64 * 9 + 5);
    let device = FileBlockDevice::create(&path, 4096, capacity_blocks, &FileOptions::default()).unwrap();
    if !device.describe().contains("O_DIRECT") {
        return;
    }
    let chunk_bytes = chunk_blocks * BLOCK as u64;
    let made = allocated_bytes(&path);
    let taken = || allocated_bytes(&path) - made;
    let about = |bytes| bytes..bytes + (16 << 10);
    device.write(Lba(3), &block(1)).unwrap();
    device.write(Lba(4), &block(2)).unwrap();
    assert!(about(chunk_bytes).contains(&taken()), "{} bytes for one chunk", taken());
    let mut queue = device.queue(4).unwrap();
    queue.submit(1, Io::Write { at: Lba(2 * chunk_blocks - 1), from: AlignedBuf::with_len(2 * BLOCK) }).unwrap();
    queue.complete(1, &mut Vec::new()).unwrap();
    device.write(Lba(capacity_blocks - 1), &block(3)).unwrap();
    let all = 3 * chunk_bytes + 5 * BLOCK as u64;
    assert!(about(all).contains(&taken()), "{} bytes for three chunks and a short one", taken());
    device.trim(Lba(4), chunk_blocks).unwrap();
    let left = all - chunk_bytes;
    assert!(about(left).contains(&taken()), "{} bytes are left", taken());
    device.write(Lba(8), &block(4)).unwrap();
    assert!(about(all - 4 * BLOCK as u64).contains(&taken()), "{} bytes: a trimmed chunk is allocated again", taken());
    let mut values = AlignedBuf::with_len(9 * BLOCK);
    device.read(Lba(0), &mut values).unwrap();
    let firsts: Vec<u8> = values.chunks(BLOCK).map(|block| block[0]).collect();
    assert_eq!(firsts, [0, 0, 0, 1, 0, 0, 0, 0, 4]);
}
