//! Drives with their data in a file are read as files are: beside other readers, where zones say what they are beside their writer, and
//! without a byte written.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::fs;
use std::path::Path;

use zonda_device::{AlignedBuf, BlockDevice, DeviceError, Lba, OpenMode, SubzoneId, ZoneId, ZoneState, ZonedDevice};
use zonda_flash::drive::Spec;

/// Of each kind of drive with zones one, and whether it is read beside its writer.
const ZONED: [(&str, bool); 3] =
    [("test?", true), ("splitzns?scale=1/256&zones=8&", false), ("test?zrwa=65536&", false)];

fn spec(name: &str, file: &Path) -> Spec {
    format!("{name}time=untimed&data={}", file.display()).parse().unwrap()
}

fn block(byte: u8) -> AlignedBuf {
    AlignedBuf::from_slice(&[byte; 4096])
}

fn first_byte(drive: &dyn ZonedDevice, at: u64) -> u8 {
    let mut read = AlignedBuf::with_len(4096);
    drive.read(Lba(at), &mut read).unwrap();
    read[0]
}

fn is_locked<T>(opened: Result<T, DeviceError>) -> bool {
    matches!(opened, Err(DeviceError::Locked { .. }))
}

#[test]
fn readers_share_a_drive_and_keep_its_writer_out() {
    for (name, _) in ZONED {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("drive");
        let drive = spec(name, &file);
        assert!(drive.open_zoned_as(OpenMode::ReadOnly).is_err() && !file.exists(), "{name}: a reader makes none");
        let writer = drive.open_zoned().unwrap();
        writer.write(Lba(0), &block(1)).unwrap();
        writer.flush().unwrap();
        assert!(is_locked(drive.open_zoned_as(OpenMode::ReadOnly)), "{name}: beside a writer");
        drop(writer);
        let before = fs::read(&file).unwrap();
        let readers = [OpenMode::ReadOnly, OpenMode::ReadOnly].map(|mode| drive.open_zoned_as(mode).unwrap());
        readers.iter().for_each(|reader| assert_eq!(first_byte(reader, 0), 1, "{name}"));
        assert!(is_locked(drive.open_zoned()), "{name}: beside readers");
        drop(readers);
        assert!(before == fs::read(&file).unwrap(), "{name}: the file changed");
        drive.open_zoned().unwrap().write(Lba(1), &block(2)).unwrap();
    }
}

#[test]
fn zones_are_read_beside_their_writer_where_they_say_what_they_are() {
    for (name, is_beside) in ZONED {
        let directory = tempfile::tempdir().unwrap();
        let drive = spec(name, &directory.path().join("drive"));
        let writer = drive.open_zoned().unwrap();
        writer.write(Lba(0), &block(1)).unwrap();
        writer.flush().unwrap();
        if !is_beside {
            assert!(is_locked(drive.open_zoned_as(OpenMode::ReadBeside)), "{name}");
            continue;
        }
        let reader = drive.open_zoned_as(OpenMode::ReadBeside).unwrap();
        assert_eq!(first_byte(&reader, 0), 1);
        let second = writer.geometry().zone_start(ZoneId(1));
        writer.write(second, &block(2)).unwrap();
        writer.flush().unwrap();
        assert_eq!(reader.report(ZoneId(1), 1).unwrap()[0].written_blocks(), 1);
        assert_eq!(first_byte(&reader, second.0), 2, "what was written after the reader came");
        assert!(reader.write(Lba(1), &block(3)).is_err());
        writer.write(Lba(1), &block(3)).unwrap();
    }
}

#[test]
fn what_a_split_zone_lacks_is_made_up_for_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive");
    let drive = spec("splitzns?scale=1/256&zones=8&", &file);
    let writer = drive.open_zoned().unwrap();
    let zones = writer.geometry().max_open.unwrap();
    let split = |zone: u32| {
        writer.split_zones().unwrap().split(ZoneId(zone)).unwrap();
        let id = SubzoneId { zone: ZoneId(zone), index: 0 };
        writer.split_zones().unwrap().append_subzone(id, &block(7)).unwrap();
    };
    (0..zones.min(3)).for_each(split);
    writer.flush().unwrap();
    // As a crash leaves it.
    let crashed = directory.path().join("crashed");
    fs::copy(&file, &crashed).unwrap();
    drop(writer);
    let before = fs::read(&crashed).unwrap();
    let reader = spec("splitzns?scale=1/256&zones=8&", &crashed).open_zoned_as(OpenMode::ReadOnly).unwrap();
    let subzones = reader.split_zones().unwrap().report_subzones(ZoneId(0)).unwrap();
    assert_eq!((subzones[0].state == ZoneState::Empty, first_byte(&reader, 0)), (false, 7));
    drop(reader);
    assert!(before == fs::read(&crashed).unwrap(), "the file changed");
}

#[test]
fn a_conventional_drive_is_claimed_to_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive");
    let drive = spec("test-conv?capacity=8388608&", &file);
    assert!(drive.open_block_as(OpenMode::ReadOnly).is_err() && !file.exists());
    let writer = drive.open_block().unwrap();
    writer.write(Lba(3), &block(1)).unwrap();
    writer.flush().unwrap();
    assert!(is_locked(drive.open_block_as(OpenMode::ReadOnly)));
    assert!(matches!(drive.open_block_as(OpenMode::ReadBeside), Err(DeviceError::NotSupported { .. })));
    drop(writer);
    let before = fs::read(&file).unwrap();
    let readers = [OpenMode::ReadOnly, OpenMode::ReadOnly].map(|mode| drive.open_block_as(mode).unwrap());
    let mut read = AlignedBuf::with_len(4096);
    readers.iter().for_each(|reader| reader.read(Lba(3), &mut read).unwrap());
    assert!(read[0] == 1 && is_locked(drive.open_block()) && readers[0].write(Lba(0), &block(2)).is_err());
    drop(readers);
    assert!(before == fs::read(&file).unwrap(), "the file changed");
}
