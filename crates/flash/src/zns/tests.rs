use super::*;
use crate::profile::Profile;

fn model(name: &str) -> ZonedModel {
    let profile = Profile::named(name).unwrap();
    ZonedModel::new(profile.core_shape(1), profile.zoned_shape().unwrap())
}

fn run(model: &mut ZonedModel) -> Vec<Answer> {
    let mut out = Vec::new();
    model.advance(u64::MAX, &mut out);
    out
}

fn last_ns(model: &mut ZonedModel) -> Nanos {
    run(model).iter().map(|answer| answer.at).max().unwrap()
}

const MIB: u64 = 1 << 20;

/// Speed in MiB/s, rounded to a tenth.
fn mib_s(bytes: u64, ns: Nanos) -> f64 {
    (bytes as f64 / MIB as f64 / (ns as f64 / 1e9) * 10.0).round() / 10.0
}

/// Speed in KiB per millisecond, which is what the paper's geometry gives in round numbers.
fn kib_ms(bytes: u64, ns: Nanos) -> f64 {
    (bytes as f64 / 1024.0 / (ns as f64 / 1e6) * 10.0).round() / 10.0
}

#[test]
fn splitzns_writes_with_all_chips_and_with_one() {
    let mut full = model("splitzns");
    full.submit(0, 1, Command::Write { at: 0, bytes: 96 * MIB, stream: 0 });
    assert_eq!(kib_ms(96 * MIB, last_ns(&mut full)), 1066.7, "64 KiB x 16 / 960 us");
    let mut chip = model("splitzns");
    for row in 0..64 {
        chip.core.program(
            0,
            &Program { die: 5, bytes: 64 << 10, buffer_bytes: 0, class: Class::Host, tag: row, for_write: None },
        );
    }
    run(&mut chip);
    assert_eq!(kib_ms(64 * (64 << 10), chip.core().now()), 66.7, "64 KiB / 960 us");
}

#[test]
fn splitzns_reads_of_one_plane() {
    let mut read = model("splitzns");
    read.preset(0, 512 * MIB, false);
    for page in 0..1_000 {
        read.submit(0, page, Command::Read { at: page / 4 * MIB + page % 4 * (16 << 10), bytes: 16 << 10 });
    }
    let bytes: u64 = 1_000 * (16 << 10);
    assert_eq!(mib_s(bytes, last_ns(&mut read)), 446.4, "16 KiB / 35 us");
}

#[test]
fn a_finished_zone_is_padded_and_a_reset_erases_all_its_dies() {
    let mut drive = model("zn540");
    let half = 1077 * MIB / 2 / (192 << 10) * (192 << 10);
    drive.preset(3, half, false);
    drive.submit(0, 1, Command::Finish { zone: 3 });
    let ms = last_ns(&mut drive) as f64 / 1e6;
    assert!((ms / 457.0 - 1.0).abs() < 0.05, "finish at half: {ms} ms");
    assert!(drive.flash_writes().padding_bytes.abs_diff(1077 * MIB - half) < MIB);
    let now = drive.core().now();
    drive.submit(now, 2, Command::Reset { zone: 3 });
    let ms = (last_ns(&mut drive) - now) as f64 / 1e6;
    assert!((ms / 8.49 - 1.0).abs() < 0.05, "reset at half, finished: {ms} ms");
    assert_eq!((drive.flash_writes().erases, drive.wear(3)), (28, 1));
}

#[test]
fn a_reset_erases_the_blocks_of_a_zone_as_a_whole_where_it_has_one_of_each_die() {
    let reset = |drive: &mut ZonedModel| {
        let now = drive.core().now();
        drive.submit(now, 9, Command::Reset { zone: 3 });
        (last_ns(drive) - now, drive.flash_writes().erases)
    };
    for (written, dies) in [(512 * MIB, 16), (256 * MIB, 16), (4096, 1), (5 * (64 << 10), 5)] {
        for finished in [false, true] {
            let mut drive = model("splitzns");
            drive.preset(3, written, finished);
            assert_eq!(reset(&mut drive), (3_000_000, dies), "{written} bytes, as a subzone");
        }
    }
    let mut opened = model("splitzns");
    opened.submit(0, 1, Command::Open { zone: 3 });
    last_ns(&mut opened);
    assert_eq!(reset(&mut opened), (0, 0), "nothing is in it");
}

#[test]
fn a_reset_of_a_zone_of_which_nothing_is_on_flash_erases_nothing() {
    let mut drive = model("zn540");
    drive.submit(0, 1, Command::Open { zone: 3 });
    drive.submit(0, 2, Command::Write { at: 5 << 31, bytes: 8 * MIB, stream: 0 });
    let (now, mut answers) = (8_200_000, Vec::new());
    drive.advance(now, &mut answers);
    assert_eq!(answers.len(), 2, "all dies program for the other zone");
    drive.submit(now, 3, Command::Reset { zone: 3 });
    let at = run(&mut drive).iter().find(|answer| answer.token == 3).unwrap().at;
    assert_eq!((at - now, drive.flash_writes().erases), (drive.shape().reset_base_ns, 0));
}

#[test]
fn what_is_still_in_the_buffer_is_read_from_it() {
    let mut drive = model("zn540");
    drive.submit(0, 1, Command::Write { at: 0, bytes: 4096, stream: 0 });
    let now = last_ns(&mut drive);
    drive.submit(now, 2, Command::Read { at: 0, bytes: 4096 });
    let buffered = last_ns(&mut drive) - now;
    assert!(buffered < 20_000, "{buffered}");
    drive.preset(5, 192 << 10, false);
    let now = drive.core().now();
    drive.submit(now, 3, Command::Read { at: 5 << 31, bytes: 4096 });
    let flash = last_ns(&mut drive) - now;
    assert!(flash > 60_000, "{flash}");
}

#[test]
fn a_flush_waits_for_programs_if_the_buffer_is_volatile() {
    let mut drive = model("test");
    drive.submit(0, 1, Command::Write { at: 0, bytes: 4096, stream: 0 });
    let now = last_ns(&mut drive);
    drive.submit(now, 2, Command::Flush);
    let takes = last_ns(&mut drive) - now;
    assert!(takes >= drive.core().shape().program_ns, "{takes}");
    let now = drive.core().now();
    drive.submit(now, 3, Command::Flush);
    assert!(last_ns(&mut drive) - now < 50_000, "nothing is left to flush");
}

#[test]
fn partial_units_of_many_zones_do_not_block_the_buffer() {
    let mut drive = model("test");
    let zones = drive.shape().zones;
    let zone_bytes = drive.shape().zone_size_bytes;
    let bytes = drive.shape().unit_bytes - 4096;
    assert!(u64::from(zones) * bytes > drive.core().shape().buffer_bytes, "the test needs more zones");
    for zone in 0..zones {
        let at = u64::from(zone) * zone_bytes;
        drive.submit(0, zone.into(), Command::Write { at, bytes, stream: 0 });
    }
    assert_eq!(run(&mut drive).len(), zones as usize);
}

#[test]
fn small_zones_lie_on_few_dies() {
    let drive = model("test");
    let width = drive.shape().dies_per_zone;
    let dies = |zone| (0..64).map(|unit| drive.die_of(zone, unit)).collect::<std::collections::BTreeSet<_>>();
    assert_eq!((dies(0).len(), dies(1).len()), (width, width));
    assert!(dies(0).is_disjoint(&dies(1)));
}

#[test]
fn a_zone_is_finished_without_padding_where_the_drive_needs_none() {
    let mut drive = model("splitzns");
    drive.preset(3, 128 * MIB, false);
    drive.submit(0, 1, Command::Append { zone: 3, bytes: 64 << 10 });
    drive.submit(0, 2, Command::Finish { zone: 3 });
    assert_eq!(last_ns(&mut drive), 960_000, "the append's page");
    assert_eq!(drive.flash_writes().padding_bytes, 0);
    let now = drive.core().now();
    drive.submit(now, 3, Command::Finish { zone: 3 });
    assert_eq!(last_ns(&mut drive), now, "once more");
}

#[test]
fn a_write_larger_than_the_buffer_does_not_wait_for_ever() {
    let mut drive = model("test");
    drive.submit(0, 0, Command::Append { zone: 0, bytes: 4096 });
    run(&mut drive);
    let now = drive.core().now();
    drive.submit(now, 1, Command::Append { zone: 1, bytes: MIB / 2 });
    drive.submit(now, 2, Command::Append { zone: 2, bytes: MIB / 2 + 4096 });
    drive.submit(now, 3, Command::Append { zone: 3, bytes: MIB / 2 });
    assert_eq!(run(&mut drive).len(), 3);
}
