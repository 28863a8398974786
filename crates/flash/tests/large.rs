//! Drives larger than memory, without data: a conventional one of 128 GiB through its translation layer, a zoned one of 1 TB.
use zonda_device::{AlignedBuf, BlockDevice, Lba, ZoneId, ZoneState, ZonedDevice};
use zonda_flash::drive::Spec;
use zonda_rt::Rng;

const GIB: u64 = 1 << 30;
/// Blocks of one write.
const WRITE_BLOCKS: u64 = 256;

#[test]
fn a_conventional_drive_of_128_gib_collects_and_keeps_no_data() {
    let bytes = 128 * GIB;
    let name = format!("atc21-7op?time=untimed&data=none&capacity={bytes}");
    let drive = name.parse::<Spec>().unwrap().open_block().unwrap();
    assert_eq!((drive.capacity_bytes(), drive.table_bytes()), (bytes, bytes / 16_384 * 4));
    let buffer = AlignedBuf::with_len(usize::try_from(WRITE_BLOCKS).unwrap() * 4096);
    let writes = drive.capacity_blocks() / WRITE_BLOCKS;
    for write in 0..writes {
        drive.write(Lba(write * WRITE_BLOCKS), &buffer).unwrap();
    }
    let filled = drive.flash_report();
    assert_eq!(filled.writes.collection_bytes, 0, "written once, in order");
    let (first, mut found) = (Lba(0), AlignedBuf::with_len(4096));
    let reads = || drive.flash_report().core.dies.iter().map(|die| die.reads).sum::<u64>();
    let before = reads();
    drive.read(first, &mut found).unwrap();
    assert_eq!(reads(), before + 1, "the first block is on flash");
    // Now in pieces at random: what dies is spread, and collection must move what lives beside it.
    let mut rng = Rng::seeded(3);
    for _ in 0..writes / 4 {
        drive.write(Lba(rng.below(writes) * WRITE_BLOCKS), &buffer).unwrap();
    }
    let report = drive.flash_report();
    let since = report.writes.since(&filled.writes);
    assert!(since.collection_bytes > GIB, "{since:?}");
    assert!((1.1..12.0).contains(&since.amplification()), "{since:?}");
    drive.trim(Lba(0), drive.capacity_blocks()).unwrap();
    // What collection had begun ends beside the first reads.
    let costs_none = |_| {
        let before = reads();
        drive.read(first, &mut found).unwrap();
        reads() == before
    };
    assert!((0..10).any(costs_none), "nothing is anywhere after a trim");
}

#[test]
fn a_zoned_drive_of_its_real_size_takes_no_memory_for_data() {
    let drive = "zn540?time=untimed&data=none".parse::<Spec>().unwrap().open_zoned().unwrap();
    let geometry = drive.geometry().clone();
    assert!(geometry.capacity_bytes() > 900 * GIB);
    let last = ZoneId(geometry.zone_count - 1);
    let buffer = AlignedBuf::with_len(1 << 20);
    let start = geometry.zone_start(last);
    for mib in 0..geometry.zone_capacity_blocks / 256 {
        drive.write(start.plus(mib * 256), &buffer).unwrap();
    }
    assert_eq!(drive.report(last, 1).unwrap()[0].state, ZoneState::Full);
    assert_eq!(drive.flash_report().writes.host_bytes, geometry.zone_capacity_blocks * 4096);
    drive.reset(last).unwrap();
    assert_eq!(drive.report(last, 1).unwrap()[0].state, ZoneState::Empty);
}
