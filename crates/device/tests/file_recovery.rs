//! What a file device remembers over a clean close, a `kill -9` and the worst moments between.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;
use zonda_device::{
    AlignedBuf, Direct, FileDevice, FileOptions, Geometry, ZoneId, ZoneState, ZonedDevice,
    format::{Entry, MARK_OFFSET, data_offset, encode_mark, entry_offset},
};

const BLOCK: usize = 4096;

fn geometry() -> Geometry {
    Geometry::new(16 * BLOCK as u64, 8).with_limits(3, 4)
}

fn options() -> FileOptions {
    FileOptions::default()
}

fn block(value: u8) -> AlignedBuf {
    AlignedBuf::from_slice(&[value; BLOCK])
}

fn values(device: &FileDevice, zone: u32) -> Vec<u8> {
    let mut all = AlignedBuf::with_len(16 * BLOCK);
    device.read(device.geometry().zone_start(ZoneId(zone)), &mut all).unwrap();
    all.chunks(BLOCK).map(|b| if b.iter().all(|x| *x == b[0]) { b[0] } else { 0xFF }).collect()
}

fn append(device: &FileDevice, zone: u32, values: impl IntoIterator<Item = u8>) {
    for value in values {
        device.append(ZoneId(zone), &block(value)).unwrap();
    }
}

fn states(device: &FileDevice) -> Vec<(ZoneState, u64)> {
    let reports = device.report(ZoneId(0), 8).unwrap();
    reports.iter().map(|r| (r.state, r.written_blocks())).collect()
}

/// Makes the file look as after a crash.
fn mark_unclean(path: &Path) {
    write_raw(path, MARK_OFFSET, &encode_mark(false));
}

fn write_raw(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

/// Zone 0 partly written, 1 full, 2 finished early, 3 reset, 4 opened only.
fn fill(device: &FileDevice) {
    append(device, 0, 1..=5);
    append(device, 1, 1..=16);
    append(device, 2, 7..=8);
    device.finish(ZoneId(2)).unwrap();
    append(device, 3, 1..=9);
    device.reset(ZoneId(3)).unwrap();
    device.open(ZoneId(4)).unwrap();
}

fn check_filled(device: &FileDevice) {
    use ZoneState::{Closed, Empty, Full};
    let wanted = [(Closed, 5), (Full, 16), (Full, 16), (Empty, 0), (Empty, 0), (Empty, 0), (Empty, 0), (Empty, 0)];
    assert_eq!(states(device), wanted);
    assert_eq!(values(device, 0)[..6], [1, 2, 3, 4, 5, 0]);
    assert_eq!(values(device, 1)[15], 16);
    assert_eq!(values(device, 2)[..3], [7, 8, 0]);
    assert_eq!(values(device, 3), [0; 16]);
}

#[test]
fn a_clean_close_remembers_everything() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    fill(&device);
    device.close().unwrap();
    assert!(device.append(ZoneId(0), &block(9)).is_err());
    drop(device);
    for _ in 0..2 {
        check_filled(&FileDevice::open(&path, &options()).unwrap());
        check_filled(&FileDevice::open_read_only(&path, &options()).unwrap());
    }
    let device = FileDevice::open(&path, &options()).unwrap();
    append(&device, 0, [6]);
    assert_eq!(values(&device, 0)[..7], [1, 2, 3, 4, 5, 6, 0]);
}

#[test]
fn after_a_crash_write_pointers_are_found_by_the_data() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    if !device.has_exact_holes() {
        return;
    }
    fill(&device);
    drop(device);
    // As the table stood before the close: zones in use are recorded as closed with nothing known to be written.
    let unknown = Entry { state: ZoneState::Closed, written_blocks: 0 };
    for zone in [0, 1] {
        write_raw(&path, entry_offset(ZoneId(zone)), &unknown.encode(ZoneId(zone)));
    }
    mark_unclean(&path);
    check_filled(&FileDevice::open_read_only(&path, &options()).unwrap());
    check_filled(&FileDevice::open(&path, &options()).unwrap());
}

#[test]
fn data_of_a_zone_recorded_as_empty_never_comes_back() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    append(&device, 0, 1..=9);
    drop(device);
    // A crash after the reset was recorded and before its hole was punched.
    let empty = Entry { state: ZoneState::Empty, written_blocks: 0 };
    write_raw(&path, entry_offset(ZoneId(0)), &empty.encode(ZoneId(0)));
    mark_unclean(&path);
    let device = FileDevice::open(&path, &options()).unwrap();
    assert_eq!(values(&device, 0), [0; 16]);
    append(&device, 0, [77]);
    drop(device);
    mark_unclean(&path);
    let device = FileDevice::open(&path, &options()).unwrap();
    assert_eq!(states(&device)[0], (ZoneState::Closed, 1));
    assert_eq!(values(&device, 0)[..2], [77, 0]);
}

#[test]
fn the_file_grows_zone_by_zone_and_shrinks_by_resets() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let large = Geometry::new(1 << 20, 64);
    let device = FileDevice::create(&path, large, &options()).unwrap();
    let empty = path.metadata().unwrap();
    append(&device, 2, std::iter::repeat_n(1, 256));
    device.flush().unwrap();
    let full = path.metadata().unwrap();
    assert_eq!(full.len() - empty.len(), 3 << 20);
    assert!(full.blocks() * 512 >= 1 << 20);
    device.reset(ZoneId(2)).unwrap();
    if device.has_exact_holes() {
        assert!(path.metadata().unwrap().blocks() * 512 < 1 << 20, "a reset gives the space back");
    }
}

#[test]
fn recorded_pointers_come_back_as_of_the_last_flush() {
    let dir = TempDir::new().unwrap();
    let (path, copy) = (dir.path().join("device"), dir.path().join("copy"));
    let device = FileDevice::create(&path, geometry(), &FileOptions { record_pointers: true, ..options() }).unwrap();
    assert!(!device.has_exact_holes());
    append(&device, 0, 1..=3);
    append(&device, 1, 1..=16);
    device.flush().unwrap();
    append(&device, 0, 4..=5);
    append(&device, 2, [9]);
    // The file as it is while in use, without its holes.
    std::fs::copy(&path, &copy).unwrap();
    let after = FileDevice::open(&copy, &options()).unwrap();
    assert_eq!(states(&after)[..3], [(ZoneState::Closed, 3), (ZoneState::Full, 16), (ZoneState::Empty, 0)]);
    assert_eq!(values(&after, 0)[..5], [1, 2, 3, 0, 0]);
    append(&after, 0, [8]);
    assert_eq!(values(&after, 0)[..5], [1, 2, 3, 8, 0]);
}

#[test]
fn more_active_zones_than_allowed_are_finished_fullest_first() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    for zone in 0..6u8 {
        append(&device, zone.into(), 0..=zone + 1);
        device.finish(ZoneId(zone.into())).unwrap();
    }
    drop(device);
    for zone in 0..6 {
        let active = Entry { state: ZoneState::Closed, written_blocks: zone + 2 };
        let zone = ZoneId(u32::try_from(zone).unwrap());
        write_raw(&path, entry_offset(zone), &active.encode(zone));
    }
    mark_unclean(&path);
    let device = FileDevice::open(&path, &options()).unwrap();
    let full = states(&device).iter().map(|s| s.0 == ZoneState::Full).collect::<Vec<_>>();
    assert_eq!(full, [false, false, false, false, true, true, false, false], "I2");
    assert_eq!(values(&device, 5)[..8], [0, 1, 2, 3, 4, 5, 6, 0]);
}

/// Not a test: the process that is killed. Appends blocks of rising values to three zones, resets them when full, and
/// says what is done.
#[test]
#[ignore = "only runs as a child of the kill tests"]
fn child_writes_until_killed() {
    let Ok(path) = std::env::var("ZONDA_TEST_DEVICE") else { return };
    // On one processor the harness runs no threads, and has begun a line with the name of the test.
    println!();
    let direct = if std::env::var("ZONDA_TEST_DIRECT").is_ok() { Direct::Auto } else { Direct::Off };
    // A flush for every round of the zones has blanks written, one for eight appends has not.
    let flush_every = if std::env::var("ZONDA_TEST_SMALL_STEPS").is_ok() { 3 } else { 8 };
    let device = FileDevice::open(path, &FileOptions { direct, ..options() }).unwrap();
    for round in 0u32.. {
        let zone = round % 3;
        if device.report(ZoneId(zone), 1).unwrap()[0].remaining_blocks() == 0 {
            device.reset(ZoneId(zone)).unwrap();
            println!("reset {zone}");
        }
        let at = device.append(ZoneId(zone), &block(value_of(round))).unwrap();
        println!("append {zone} {} {round}", at.0 % 16);
        if round % flush_every == flush_every - 1 {
            device.flush().unwrap();
        }
    }
}

fn value_of(round: u32) -> u8 {
    u8::try_from(round % 250 + 1).unwrap()
}

/// What the child said that it had done, by zone.
fn run_and_kill(path: &Path, direct: bool, small_steps: bool, lines: usize) -> Vec<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_writes_until_killed", "--ignored", "--nocapture"]);
    command.env("ZONDA_TEST_DEVICE", path).stdout(Stdio::piped()).stderr(Stdio::null());
    if direct {
        command.env("ZONDA_TEST_DIRECT", "1");
    }
    if small_steps {
        command.env("ZONDA_TEST_SMALL_STEPS", "1");
    }
    let mut child = command.spawn().unwrap();
    let mut said = vec![Vec::new(); 3];
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    for line in output.by_ref().take(lines) {
        note(&mut said, &line);
    }
    // As a copy made by somebody does: what is allocated ahead of write pointers comes into the page cache.
    std::fs::read(path).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    output.for_each(|line| note(&mut said, &line));
    said
}

fn note(said: &mut [Vec<u8>], line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["reset", zone] => said[zone.parse::<usize>().unwrap()].clear(),
        ["append", zone, offset, round] => {
            let zone = &mut said[zone.parse::<usize>().unwrap()];
            assert_eq!(zone.len(), offset.parse::<usize>().unwrap());
            zone.push(value_of(round.parse().unwrap()));
        }
        _ => {}
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_kill_9() {
    let dir = TempDir::new().unwrap();
    for round in 0..16usize {
        let path = dir.path().join(round.to_string());
        drop(FileDevice::create(&path, geometry(), &options()).unwrap());
        let said = run_and_kill(&path, round % 2 == 0, round % 4 < 2, 20 + round * 23);
        let device = FileDevice::open(&path, &options()).unwrap();
        for zone in 0..3 {
            check_killed_zone(&device, zone, &said[zone as usize]);
        }
        check_killed_space(&path, &device);
    }
}

/// What the process that was killed had taken ahead of its write pointers goes back with the next clean close.
fn check_killed_space(path: &Path, device: &FileDevice) {
    let written: u64 = states(device).iter().map(|(_, blocks)| blocks).sum();
    device.close().unwrap();
    let most = data_offset(8) + written * BLOCK as u64 + (16 << 10);
    let taken = path.metadata().unwrap().blocks() * 512;
    assert!(taken <= most || !device.has_exact_holes(), "{taken} bytes for {written} blocks");
}

/// The zone holds what was said, and at most one append more, or a reset more. (A line may be cut off, so one operation
/// more than that.)
fn check_killed_zone(device: &FileDevice, zone: u32, said: &[u8]) {
    let found: Vec<u8> = values(device, zone).into_iter().take_while(|&v| v != 0).collect();
    let written = device.report(ZoneId(zone), 1).unwrap()[0].written_blocks();
    assert_eq!(found.len() as u64, written, "zone {zone}: no gap below the write pointer");
    let kept = found.starts_with(said) && found.len() <= said.len() + 2;
    let was_reset = said.len() >= 15 && found.len() <= 2;
    assert!(kept || was_reset, "zone {zone}: said {said:?}, found {found:?}");
}

/// Appends and flushes one block at a time, as a log does whose every record is durable: the zone gets blanks.
fn append_durably(device: &FileDevice, zone: u32, values: impl IntoIterator<Item = u8>) {
    for value in values {
        append(device, zone, [value]);
        device.flush().unwrap();
    }
}

/// The table as it stood while a zone was written.
fn forget_pointer(path: &Path, zone: u32) {
    let unknown = Entry { state: ZoneState::Closed, written_blocks: 0 };
    write_raw(path, entry_offset(ZoneId(zone)), &unknown.encode(ZoneId(zone)));
    mark_unclean(path);
}

#[test]
fn blanks_ahead_of_a_log_are_no_data_after_a_crash() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let mut device = FileDevice::create(&path, geometry(), &options()).unwrap();
    if !device.has_exact_holes() {
        return;
    }
    append(&device, 1, 1..=3);
    for last in 9..16 {
        append_durably(&device, 0, if last == 9 { 1..=9 } else { last..=last });
        let own = u64::from(last) * BLOCK as u64 + 3 * BLOCK as u64;
        let written = device.counters().written_bytes;
        assert!(last > 9 || written > own, "{written} bytes: no blanks were written, and nothing is shown here");
        drop(device);
        forget_pointer(&path, 0);
        forget_pointer(&path, 1);
        for read_only in [true, false] {
            let open = if read_only { FileDevice::open_read_only } else { FileDevice::open };
            let again = open(&path, &options()).unwrap();
            assert_eq!(states(&again)[..2], [(ZoneState::Closed, u64::from(last)), (ZoneState::Closed, 3)]);
            let wanted: Vec<u8> = (1..=16).map(|value| if value <= last { value } else { 0 }).collect();
            assert_eq!(values(&again, 0), wanted);
        }
        device = FileDevice::open(&path, &options()).unwrap();
    }
    append(&device, 0, [16]);
    assert_eq!(states(&device)[0], (ZoneState::Full, 16));
}

/// Makes holes of blocks of zone 0, as a crash leaves them where a run of blanks was not written whole.
#[cfg(target_os = "linux")]
fn punch(path: &Path, blocks: std::ops::Range<u64>) {
    fallocate(path, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, blocks);
}

#[cfg(target_os = "linux")]
fn fallocate(path: &Path, mode: libc::c_int, blocks: std::ops::Range<u64>) {
    use std::os::fd::AsRawFd;
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let byte = |block: u64| i64::try_from(data_offset(8) + block * BLOCK as u64).unwrap();
    // SAFETY: takes a valid descriptor and plain numbers; touches no memory of ours.
    let done =
        unsafe { libc::fallocate(file.as_raw_fd(), mode, byte(blocks.start), byte(blocks.end) - byte(blocks.start)) };
    assert_eq!(done, 0);
}

/// Of a zone that is full there is no finish any more that would give it back, nor does a clean close.
#[cfg(target_os = "linux")]
#[test]
fn what_was_taken_ahead_in_a_finished_zone_goes_back_with_the_next_opening() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    if !device.has_exact_holes() {
        return;
    }
    append(&device, 0, 1..=3);
    device.finish(ZoneId(0)).unwrap();
    drop(device);
    let taken = || path.metadata().unwrap().blocks();
    let before = taken();
    // As of a process that was killed between the record of the finish and the giving back.
    fallocate(&path, libc::FALLOC_FL_KEEP_SIZE, 3..16);
    mark_unclean(&path);
    let with_it = taken();
    if with_it == before {
        return; // A file system that tells of allocations later, or takes them for advice.
    }
    drop(FileDevice::open_read_only(&path, &options()).unwrap());
    assert_eq!(taken(), with_it, "a reader changes nothing");
    let device = FileDevice::open(&path, &options()).unwrap();
    assert!(taken() <= before, "{} of {with_it}, {before} before", taken());
    assert_eq!((states(&device)[0], &values(&device, 0)[..4]), ((ZoneState::Full, 16), &[1, 2, 3, 0][..]));
}

#[cfg(target_os = "linux")]
#[test]
fn holes_among_blanks_are_no_data_either() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    if !device.has_exact_holes() {
        return;
    }
    append_durably(&device, 0, 1..=9);
    drop(device);
    forget_pointer(&path, 0);
    for holes in [14..15, 11..13, 9..10] {
        punch(&path, holes);
        let again = FileDevice::open_read_only(&path, &options()).unwrap();
        assert_eq!(states(&again)[0], (ZoneState::Closed, 9));
        assert_eq!(values(&again, 0)[7..11], [8, 9, 0, 0]);
    }
}

#[test]
fn a_zone_of_blanks_alone_is_empty_and_gives_its_space_back() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("device");
    let device = FileDevice::create(&path, geometry(), &options()).unwrap();
    if !device.has_exact_holes() {
        return;
    }
    let before = path.metadata().unwrap().blocks();
    append_durably(&device, 0, 1..=9);
    device.reset(ZoneId(0)).unwrap();
    assert_eq!(values(&device, 0), [0; 16]);
    assert!(path.metadata().unwrap().blocks() <= before + 8 * (BLOCK as u64 / 512), "blanks outlive their zone");
    append(&device, 0, [5]);
    device.finish(ZoneId(0)).unwrap();
    assert_eq!(values(&device, 0)[..2], [5, 0]);
    drop(device);
    mark_unclean(&path);
    let device = FileDevice::open(&path, &options()).unwrap();
    assert_eq!(values(&device, 0)[..2], [5, 0]);
}

#[test]
fn writes_in_larger_pieces_get_no_blanks() {
    let dir = TempDir::new().unwrap();
    let device = FileDevice::create(dir.path().join("device"), geometry(), &options()).unwrap();
    for zone in 0..3 {
        for _ in 0..5 {
            device.append(ZoneId(zone), &AlignedBuf::with_len(3 * BLOCK)).unwrap();
            device.flush().unwrap();
        }
    }
    assert_eq!(device.counters().written_bytes, 3 * 5 * 3 * BLOCK as u64);
}
