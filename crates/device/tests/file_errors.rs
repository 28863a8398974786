//! Bad files, bad requests and a full disk: typed errors with numbers, and nothing written.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use zonda_device::{
    AlignedBuf, DeviceError, DeviceUri, Direct, ErrorKind, FileBlockDevice, FileDevice, FileOptions, Geometry, Io,
    OpenMode, ZoneId, ZoneState, ZonedDevice,
};

fn options() -> FileOptions {
    FileOptions::default()
}

fn geometry() -> Geometry {
    Geometry::new(64 << 10, 100)
}

/// A device with something in zone 1.
fn make(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    device.append(ZoneId(1), &AlignedBuf::from_slice(&[3; 8192])).unwrap();
    path
}

/// Opening must fail and must not change a byte.
fn refusal(path: &Path) -> DeviceError {
    let before = fs::read(path).unwrap_or_default();
    let error = FileDevice::open(path, &options()).unwrap_err();
    assert_eq!(fs::read(path).unwrap_or_default(), before, "a refused file was written to");
    assert_eq!(FileDevice::open_read_only(path, &options()).unwrap_err().kind(), error.kind());
    assert!(!error.to_string().is_empty());
    error
}

#[test]
fn files_that_are_not_devices() {
    let dir = TempDir::new().unwrap();
    assert!(matches!(refusal(dir.path()), DeviceError::NotADevice { reason: "it is a directory", .. }));
    assert_eq!(refusal(&dir.path().join("missing")).kind(), ErrorKind::Io);
    let path = dir.path().join("text");
    for content in [&b""[..], b"x", b"ZONDA", b"hello, this is a text file", &[0; 8192]] {
        fs::write(&path, content).unwrap();
        assert!(matches!(refusal(&path), DeviceError::NotADevice { .. }), "{content:?}");
    }
    fs::write(&path, b"ZONDADEV and then nothing").unwrap();
    assert!(matches!(refusal(&path), DeviceError::Truncated { bytes: 25, needed_bytes: 4096, .. }));
    assert!(matches!(refusal(Path::new("/dev/null")), DeviceError::NotADevice { .. }));
}

#[test]
fn block_and_zoned_files_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let (zoned, block) = (make(&dir), dir.path().join("block"));
    drop(FileBlockDevice::create(&block, 4096, 16, &options()).unwrap());
    assert!(matches!(refusal(&block), DeviceError::NotADevice { .. }));
    assert!(matches!(FileBlockDevice::open(&zoned, false, &options()), Err(DeviceError::NotADevice { .. })));
    fs::OpenOptions::new().write(true).open(&block).unwrap().set_len(70_000).unwrap();
    let cut = FileBlockDevice::open(&block, false, &options()).unwrap_err();
    assert!(matches!(cut, DeviceError::Truncated { bytes: 70_000, needed_bytes: 131_072, .. }));
}

#[test]
fn every_truncation_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let whole = fs::read(&path).unwrap();
    let data_end = 65_536 + 65_536 + 8192;
    for bytes in [0, 7, 8, 4095, 4096, 4160, 8192, 14_592, 65_535, 65_536, data_end - 1] {
        fs::write(&path, &whole[..bytes]).unwrap();
        assert_eq!(refusal(&path).kind(), ErrorKind::Damaged, "{bytes} bytes");
    }
}

#[test]
fn every_flipped_bit_of_the_header_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let whole = fs::read(&path).unwrap();
    for byte in (0..4096).step_by(41) {
        let mut bad = whole.clone();
        bad[byte] ^= 1 << (byte % 8);
        fs::write(&path, &bad).unwrap();
        assert_eq!(refusal(&path).kind(), ErrorKind::Damaged, "byte {byte}");
    }
}

/// What was written there can be read still, and no other zone suffers.
#[test]
fn a_flipped_bit_of_the_table_costs_its_zone_at_most() {
    for record_pointers in [false, true] {
        let options = FileOptions { record_pointers, ..options() };
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("device");
        let device = FileDevice::create(&path, geometry(), &options).unwrap();
        device.append(ZoneId(1), &AlignedBuf::from_slice(&[3; 8192])).unwrap();
        device.close().unwrap();
        drop(device);
        for zone in 0..4_u32 {
            for bit in [0, 37, 8 * 63 + 7] {
                let whole = flip(&path, 8192 + u64::from(zone) * 64, bit);
                for open in [FileDevice::open_read_only, FileDevice::open] {
                    let device = open(&path, &options).unwrap();
                    let is: Vec<_> = device.report(ZoneId(0), 4).unwrap();
                    let is: Vec<_> = is.iter().map(|zone| (zone.state, zone.written_blocks())).collect();
                    let mut expected =
                        [(ZoneState::Empty, 0), (ZoneState::Closed, 2), (ZoneState::Empty, 0), (ZoneState::Empty, 0)];
                    // Where no holes tell, all blocks that the file has may be data. A read-only zone has no write pointer.
                    if zone == 1 || zone == 0 && record_pointers {
                        expected[zone as usize] = (ZoneState::ReadOnly, 16);
                    }
                    assert_eq!(is, expected, "bit {bit} of the entry of zone {zone}, {record_pointers}");
                    let mut block = AlignedBuf::with_len(4096);
                    device.read(device.geometry().zone_start(ZoneId(1)), &mut block).unwrap();
                    assert_eq!(block[0], 3);
                }
                fs::File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .write_all_at(&whole, 8192 + u64::from(zone) * 64)
                    .unwrap();
            }
        }
    }
}

/// Flips a bit of a table entry; returns what was there.
fn flip(path: &Path, offset: u64, bit: usize) -> [u8; 64] {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut entry = [0; 64];
    file.read_exact_at(&mut entry, offset).unwrap();
    let mut bad = entry;
    bad[bit / 8] ^= 1 << (bit % 8);
    file.write_all_at(&bad, offset).unwrap();
    entry
}

#[test]
fn a_flipped_bit_of_the_mark_only_costs_a_recovery() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let whole = fs::read(&path).unwrap();
    for byte in 4096..4160 {
        let mut bad = whole.clone();
        bad[byte] ^= 4;
        fs::write(&path, &bad).unwrap();
        let device = FileDevice::open(&path, &options()).unwrap();
        assert!(device.report(ZoneId(1), 1).unwrap()[0].written_blocks() >= 2);
    }
}

#[test]
fn a_second_opener_is_locked_out() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let writer = FileDevice::open(&path, &options()).unwrap();
    let queue = writer.queue(1).unwrap();
    assert!(matches!(FileDevice::open(&path, &options()), Err(DeviceError::Locked { .. })));
    assert!(matches!(FileDevice::open_read_only(&path, &options()), Err(DeviceError::Locked { .. })));
    drop(writer);
    assert!(FileDevice::open(&path, &options()).is_err(), "a queue keeps the device open");
    drop(queue);
    let reader = FileDevice::open_read_only(&path, &options()).unwrap();
    let second = FileDevice::open_read_only(&path, &options()).unwrap();
    assert!(matches!(FileDevice::open(&path, &options()), Err(DeviceError::Locked { .. })));
    drop((reader, second));
    FileDevice::open(&path, &options()).unwrap();
}

#[test]
fn a_dropped_queue_leaves_the_device_unlocked_and_written() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    for direct in [Direct::Off, Direct::Auto] {
        for _ in 0..8 {
            let device = FileDevice::open(&path, &FileOptions { direct, ..options() }).unwrap();
            let mut queue = device.queue(8).unwrap();
            queue.submit(1, Io::Append { zone: ZoneId(5), from: AlignedBuf::with_len(4096) }).unwrap();
            drop(device);
        }
    }
    let device = FileDevice::open(&path, &options()).unwrap();
    let report = device.report(ZoneId(5), 1).unwrap()[0];
    assert_eq!((report.state, report.written_blocks()), (ZoneState::Full, 16));
}

#[test]
fn a_forked_child_can_neither_write_nor_close_nor_unlock() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let device = FileDevice::open(&path, &options()).unwrap();
    let block = AlignedBuf::with_len(4096);
    // SAFETY: the child calls only code that takes no lock another thread may hold, then ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(device.append(ZoneId(1), &block), Err(DeviceError::Forked { .. }));
        drop(device);
        // SAFETY: ends the process without running anything else.
        unsafe { libc::_exit(if refused { 7 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: waits for our child; `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(libc::WEXITSTATUS(status), 7);
    assert!(matches!(FileDevice::open(&path, &options()), Err(DeviceError::Locked { .. })), "still locked");
    device.append(ZoneId(1), &block).unwrap();
}

#[test]
fn a_read_only_device_refuses_every_change() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let before = fs::read(&path).unwrap();
    let device = FileDevice::open_read_only(&path, &options()).unwrap();
    let zone = ZoneId(1);
    let results = [
        device.append(zone, &AlignedBuf::with_len(4096)).map(|_| ()),
        device.reset(zone),
        device.finish(zone),
        ZonedDevice::open(&device, zone),
        ZonedDevice::close(&device, zone),
        device.flush(),
    ];
    assert!(results.iter().all(|r| r.as_ref().is_err_and(|e| e.kind() == ErrorKind::WriteProtected)), "{results:?}");
    drop(device);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn nothing_is_made_for_an_absurd_shape_or_over_an_existing_file() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("new");
    let absurd = Geometry { zone_count: 0, ..geometry() };
    assert!(matches!(
        FileDevice::create(&path, absurd, &options()),
        Err(DeviceError::Geometry { field: "zone_count", value: 0, .. })
    ));
    assert!(FileBlockDevice::create(&path, 1000, 8, &options()).is_err());
    assert!(!path.exists());
    let existing = make(&dir);
    assert_eq!(FileDevice::create(&existing, geometry(), &options()).unwrap_err().kind(), ErrorKind::Io);
    FileDevice::open(&existing, &options()).unwrap();
}

#[test]
fn names_check_the_shape_of_existing_devices() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let open = |query: &str| {
        format!("file:{}{query}", path.display()).parse::<DeviceUri>()?.open_zoned(OpenMode::OpenOrCreate)
    };
    assert!(open("").is_ok());
    assert!(open("?zones=100&zone_size=64KiB").is_ok());
    assert!(matches!(open("?zones=99"), Err(DeviceError::Mismatch { field: "zones", found: 100, asked: 99 })));
    let block = dir.path().join("block");
    let name = format!("{}?zones=4&zone_size=64KiB", block.display()).parse::<DeviceUri>().unwrap();
    assert_eq!(name.open_block(OpenMode::OpenOrCreate).unwrap().capacity_bytes(), 256 << 10);
    assert_eq!(name.open_block(OpenMode::OpenOrCreate).unwrap().capacity_bytes(), 256 << 10);
    assert!(name.open_block(OpenMode::Create).is_err());
    let block_as = |file: &str, query: &str, mode| {
        let name = format!("{}?{query}", dir.path().join(file).display());
        name.parse::<DeviceUri>()?.open_block(mode).map(|found| found.capacity_bytes())
    };
    for fits in ["", "zones=4&zone_size=64KiB", "zones=1&zone_size=256KiB", "zones=4", "zone_size=64KiB"] {
        assert_eq!(block_as("block", fits, OpenMode::Open).unwrap(), 256 << 10, "{fits}");
    }
    for other in ["zones=5&zone_size=64KiB", "zones=1048576&zone_size=64GiB"] {
        let error = block_as("block", other, OpenMode::Open).unwrap_err();
        assert!(matches!(error, DeviceError::Mismatch { field: "capacity", found: 262_144, .. }), "{other}: {error}");
    }
    for mode in [OpenMode::Create, OpenMode::Open] {
        assert_eq!(block_as("of default zones", "zones=2", mode).unwrap(), 32 << 20);
    }
}

#[test]
fn the_largest_limit_is_none() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let name = format!("{}?zones=4&zone_size=64KiB&max_open=4294967295&max_active=4294967295", path.display());
    for mode in [OpenMode::Create, OpenMode::Open] {
        let device = name.parse::<DeviceUri>().unwrap().open_zoned(mode).unwrap();
        assert_eq!((device.geometry().max_open, device.geometry().max_active), (None, None));
    }
}

/// Not a test: runs under a limit of file size, which the system tells as it tells a full disk.
#[test]
#[ignore = "only runs as a child of the disk full test"]
fn child_meets_a_full_disk() {
    let Ok(path) = std::env::var("ZONDA_TEST_DEVICE") else { return };
    let device = FileDevice::open(&path, &options()).unwrap();
    let block = AlignedBuf::from_slice(&[1; 4096]);
    device.append(ZoneId(1), &block).unwrap();
    let error = device.append(ZoneId(90), &block).unwrap_err();
    assert!(matches!(error, DeviceError::NoSpaceOnHost { .. }), "{error:?}");
    let report = device.report(ZoneId(90), 1).unwrap()[0];
    assert_eq!(report.written_blocks(), 0, "the write pointer has not moved");
    assert_eq!(report.state, ZoneState::Empty, "it holds no resources");
    device.append(ZoneId(1), &block).unwrap();
    device.flush().unwrap();
    device.close().unwrap();
    println!("survived");
}

#[test]
fn a_full_disk_is_told_and_the_device_lives_on() {
    let dir = TempDir::new().unwrap();
    let path = make(&dir);
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" --exact child_meets_a_full_disk --ignored --nocapture";
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(std::env::current_exe().unwrap()).env("ZONDA_TEST_DEVICE", &path);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("survived"), "{text}");
    let device = FileDevice::open(&path, &options()).unwrap();
    assert_eq!(device.report(ZoneId(1), 1).unwrap()[0].written_blocks(), 4);
}
