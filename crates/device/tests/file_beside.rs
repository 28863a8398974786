//! A device file is read beside its writer: what is seen is of the moment, and nobody is kept out.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use zonda_device::{
    AlignedBuf, DeviceError, DeviceUri, Direct, FileDevice, FileOptions, Geometry, Io, OpenMode, ZoneId, ZoneState,
    ZonedDevice,
    format::{Entry, entry_offset},
};

const BLOCK: usize = 4096;
const ZONE_BLOCKS: u64 = 16;

fn options(direct: Direct) -> FileOptions {
    FileOptions { direct, ..FileOptions::default() }
}

fn make(dir: &TempDir, direct: Direct) -> (PathBuf, FileDevice) {
    let path = dir.path().join("device");
    let geometry = Geometry::new(ZONE_BLOCKS * BLOCK as u64, 8).with_limits(3, 4);
    let device = FileDevice::create(&path, geometry, &options(direct)).unwrap();
    (path, device)
}

fn append(device: &FileDevice, zone: u32, values: impl IntoIterator<Item = u8>) {
    for value in values {
        device.append(ZoneId(zone), &AlignedBuf::from_slice(&[value; BLOCK])).unwrap();
    }
}

/// State, and blocks written, of a zone; by one call for it and by one for all.
fn zone(device: &FileDevice, zone: u32) -> (ZoneState, u64) {
    let reported = device.report(ZoneId(zone), 1).unwrap()[0];
    assert_eq!(device.report(ZoneId(0), 8).unwrap()[zone as usize], reported);
    (reported.state, reported.written_blocks())
}

/// The first byte of each block of a zone; by a call and by a queue.
fn values(device: &FileDevice, zone: u32) -> Vec<u8> {
    let at = device.geometry().zone_start(ZoneId(zone));
    let mut all = AlignedBuf::with_len(16 * BLOCK);
    device.read(at, &mut all).unwrap();
    let mut queue = device.queue(1).unwrap();
    queue.submit(1, Io::Read { at, into: AlignedBuf::from_slice(&[9; 16 * BLOCK]) }).unwrap();
    let mut done = Vec::new();
    queue.complete(1, &mut done).unwrap();
    assert_eq!(done[0].buffer.as_deref().unwrap(), &all[..]);
    all.chunks(BLOCK).map(|block| block[0]).collect()
}

fn write_entry(path: &Path, zone: u32, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, entry_offset(ZoneId(zone))).unwrap();
}

#[test]
fn what_the_writer_does_is_seen() {
    for direct in [Direct::Auto, Direct::Off] {
        let dir = TempDir::new().unwrap();
        let (path, writer) = make(&dir, direct);
        let reader = FileDevice::open_beside(&path, &options(direct)).unwrap();
        assert_eq!(zone(&reader, 1), (ZoneState::Empty, 0));
        append(&writer, 1, 1..=5);
        writer.flush().unwrap();
        assert_eq!((zone(&reader, 1), &values(&reader, 1)[..7]), ((ZoneState::Closed, 5), &[1, 2, 3, 4, 5, 0, 0][..]));
        append(&writer, 1, 6..=16);
        assert_eq!((zone(&reader, 1), values(&reader, 1)[15]), ((ZoneState::Full, 16), 16));
        writer.reset(ZoneId(1)).unwrap();
        assert_eq!((zone(&reader, 1), values(&reader, 1)), ((ZoneState::Empty, 0), vec![0; 16]));
        append(&writer, 1, [7, 8]);
        writer.finish(ZoneId(1)).unwrap();
        assert_eq!((zone(&reader, 1).0, &values(&reader, 1)[..3]), (ZoneState::Full, &[7, 8, 0][..]));
    }
}

#[test]
fn nobody_is_kept_out_and_nothing_is_written() {
    let dir = TempDir::new().unwrap();
    let (path, writer) = make(&dir, Direct::Auto);
    append(&writer, 0, [1]);
    let reader = FileDevice::open_beside(&path, &options(Direct::Auto)).unwrap();
    let locked = |opened: Result<FileDevice, DeviceError>| matches!(opened, Err(DeviceError::Locked { .. }));
    assert!(locked(FileDevice::open(&path, &options(Direct::Auto))), "one writer at a time");
    assert!(locked(FileDevice::open_read_only(&path, &options(Direct::Auto))), "or readers without one");
    let block = AlignedBuf::with_len(BLOCK);
    assert!(matches!(reader.append(ZoneId(0), &block), Err(DeviceError::WriteProtected { .. })));
    assert!(matches!(reader.reset(ZoneId(0)), Err(DeviceError::WriteProtected { .. })));
    drop(writer);
    let before = fs::read(&path).unwrap();
    assert_eq!(values(&reader, 0)[0], 1);
    assert!(before == fs::read(&path).unwrap(), "the file changed");
    let writer = FileDevice::open(&path, &options(Direct::Auto)).unwrap();
    append(&writer, 0, [2]);
    drop(reader);
    assert!(locked(FileDevice::open(&path, &options(Direct::Auto))), "the end of a reader frees nobody's lock");
}

#[test]
fn a_damaged_entry_is_told() {
    let dir = TempDir::new().unwrap();
    let (path, writer) = make(&dir, Direct::Auto);
    append(&writer, 2, 1..=3);
    let reader = FileDevice::open_beside(&path, &options(Direct::Auto)).unwrap();
    let whole = Entry { state: ZoneState::Closed, written_blocks: 0 }.encode(ZoneId(2));
    let mut torn = whole;
    torn[8..30].fill(7);
    write_entry(&path, 2, &torn);
    let at = reader.geometry().zone_start(ZoneId(2));
    let damaged = |outcome: Result<(), DeviceError>| matches!(outcome, Err(DeviceError::Damaged { .. }));
    assert!(damaged(reader.read(at, &mut AlignedBuf::with_len(BLOCK))));
    assert!(damaged(reader.report(ZoneId(0), 1).map(|_| ())));
    assert!(damaged(FileDevice::open_beside(&path, &options(Direct::Auto)).map(|_| ())));
    assert_eq!(values(&reader, 3), [0; 16], "other zones can be read");
}

#[test]
fn a_zone_recorded_as_empty_reads_as_zeros_before_its_hole_is_there() {
    let dir = TempDir::new().unwrap();
    let (path, writer) = make(&dir, Direct::Auto);
    append(&writer, 4, 1..=9);
    let reader = FileDevice::open_beside(&path, &options(Direct::Auto)).unwrap();
    write_entry(&path, 4, &Entry { state: ZoneState::Empty, written_blocks: 0 }.encode(ZoneId(4)));
    assert_eq!((zone(&reader, 4), values(&reader, 4)), ((ZoneState::Empty, 0), vec![0; 16]));
}

#[test]
fn a_copy_that_kept_no_holes_is_believed_its_clean_end() {
    let dir = TempDir::new().unwrap();
    let (path, writer) = make(&dir, Direct::Auto);
    append(&writer, 0, 1..=5);
    append(&writer, 3, [1]);
    writer.close().unwrap();
    let copy = dir.path().join("copy");
    fs::write(&copy, fs::read(&path).unwrap()).unwrap();
    let reader = FileDevice::open_beside(&copy, &options(Direct::Auto)).unwrap();
    assert_eq!((zone(&reader, 0), zone(&reader, 3)), ((ZoneState::Closed, 5), (ZoneState::Closed, 1)));
}

#[test]
fn more_zones_may_seem_active_than_can_be() {
    let dir = TempDir::new().unwrap();
    let (path, writer) = make(&dir, Direct::Auto);
    (0..4).for_each(|zone| append(&writer, zone, [1, 2]));
    writer.finish(ZoneId(0)).unwrap();
    append(&writer, 4, [1]);
    let reader = FileDevice::open_beside(&path, &options(Direct::Auto)).unwrap();
    // As if zone 0 had been looked at before it was finished.
    write_entry(&path, 0, &Entry { state: ZoneState::Closed, written_blocks: 2 }.encode(ZoneId(0)));
    let active = reader.report(ZoneId(0), 8).unwrap().iter().filter(|zone| zone.state.is_active()).count();
    assert_eq!((active, &values(&reader, 4)[..2]), (4, &[1, 0][..]));
}

#[test]
fn a_name_opens_zones_beside_and_blocks_not() {
    let dir = TempDir::new().unwrap();
    let (path, writer) = make(&dir, Direct::Auto);
    append(&writer, 0, [1]);
    let uri: DeviceUri = format!("file:{}?zones=8", path.display()).parse().unwrap();
    assert_eq!(uri.open_zoned(OpenMode::ReadBeside).unwrap().report(ZoneId(0), 8).unwrap().len(), 8);
    assert!(matches!(uri.open_zoned(OpenMode::ReadOnly), Err(DeviceError::Locked { .. })));
    assert!(matches!(uri.open_block(OpenMode::ReadBeside), Err(DeviceError::NotSupported { .. })));
    assert!(OpenMode::ReadBeside.is_read_only() && OpenMode::ReadOnly.is_read_only() && !OpenMode::Open.is_read_only());
}
