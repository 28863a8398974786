//! Faults below a modelled drive: errors come through, cost no time, and leave the rest of the drive usable; delays count.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{
    AlignedBuf, BlockDevice, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Lba, MemBlockDevice,
    MemDevice, ZoneId, ZoneState, ZonedDevice,
};
use zonda_flash::drive::{FlashBlock, FlashZoned, Spec, TimeMode};
use zonda_flash::profile::Profile;
use zonda_rt::{DeviceCall, now};

/// What a simulation counts for taking a lock.
const INSTANT: Duration = Duration::from_nanos(500);
const TIMED: TimeMode = TimeMode::Timed { k: 1 };

fn fault(call: DeviceCall, zone: Option<u32>, effect: FaultEffect) -> Fault {
    Fault { call: Some(call), zone: zone.map(ZoneId), when: FaultWhen::Nth(1), effect }
}

fn drive() -> (Faulty<MemDevice>, FlashZoned) {
    let below = Faulty::new(MemDevice::new(Geometry::new(1 << 20, 8).with_limits(4, 4)).unwrap(), 1);
    let drive = FlashZoned::over(Arc::new(below.clone()), &Profile::named("test").unwrap(), TIMED, 1).unwrap();
    (below, drive)
}

fn block(value: u8) -> AlignedBuf {
    let mut block = AlignedBuf::with_len(4096);
    block.fill(value);
    block
}

#[test]
fn a_media_error_is_one_read_s() {
    zonda_rt::sim::run(1, || {
        let (below, drive) = drive();
        drive.write(Lba(0), &block(7)).unwrap();
        below.inject(fault(DeviceCall::Read, Some(0), FaultEffect::Error(ErrorKind::Media)));
        let start = now();
        assert_eq!(drive.read(Lba(0), &mut block(0)).unwrap_err().kind(), ErrorKind::Media);
        assert!(now().since(start) < INSTANT, "what fails takes no time");
        let mut found = block(0);
        drive.read(Lba(0), &mut found).unwrap();
        assert_eq!(found[0], 7);
    });
}

#[test]
fn a_write_fault_retires_a_zone_with_live_data() {
    for (to, readable) in [(ZoneState::ReadOnly, true), (ZoneState::Offline, false)] {
        zonda_rt::sim::run(1, || {
            let (below, drive) = drive();
            drive.write(Lba(0), &block(7)).unwrap();
            below.inject(fault(DeviceCall::Write, Some(0), FaultEffect::Retire(to)));
            assert!(drive.write(Lba(1), &block(8)).is_err());
            assert_eq!(drive.report(ZoneId(0), 1).unwrap()[0].state, to);
            let mut found = block(0);
            assert_eq!(drive.read(Lba(0), &mut found).is_ok(), readable, "{to}");
            assert_eq!(found[0], if readable { 7 } else { 0 });
            assert!(drive.reset(ZoneId(0)).is_err() && drive.append(ZoneId(0), &block(1)).is_err());
            // Its resources are free, and the rest of the drive goes on.
            (1..5).for_each(|zone| drive.open(ZoneId(zone)).unwrap());
            drive.append(ZoneId(1), &block(9)).unwrap();
            drive.flush().unwrap();
        });
    }
}

#[test]
fn injected_delays_are_waited_for() {
    zonda_rt::sim::run(1, || {
        let data = MemDevice::new(Geometry::new(1 << 20, 8)).unwrap();
        let flash = FlashZoned::over(Arc::new(data), &Profile::named("test").unwrap(), TIMED, 1).unwrap();
        let drive = Faulty::new(flash, 1);
        drive.write(Lba(0), &block(7)).unwrap();
        let takes = || {
            let start = now();
            drive.read(Lba(0), &mut block(0)).unwrap();
            now().since(start)
        };
        let plain = takes();
        drive.inject(fault(DeviceCall::Read, None, FaultEffect::Delay(Duration::from_millis(3))));
        let delayed = takes();
        assert!(delayed.abs_diff(plain + Duration::from_millis(3)) < INSTANT, "{delayed:?} instead of {plain:?}");
        assert!(takes().abs_diff(plain) < INSTANT);
    });
}

#[test]
fn block_drives_fail_block_by_block() {
    zonda_rt::sim::run(1, || {
        let below = Faulty::new(MemBlockDevice::new(4096, 1024).unwrap(), 1);
        let profile = Profile::named("test-conv").unwrap();
        let drive = FlashBlock::over(Arc::new(below.clone()), &profile, TIMED, 1).unwrap();
        below.inject(fault(DeviceCall::Write, None, FaultEffect::Error(ErrorKind::Media)));
        assert_eq!(drive.write(Lba(3), &block(1)).unwrap_err().kind(), ErrorKind::Media);
        drive.write(Lba(3), &block(2)).unwrap();
        let mut found = block(0);
        drive.read(Lba(3), &mut found).unwrap();
        assert_eq!((found[0], below.injected()), (2, 1));
    });
}

fn by_name(name: &str) -> Spec {
    name.parse().unwrap()
}

#[test]
fn faults_are_part_of_a_name() {
    zonda_rt::sim::run(1, || {
        let spec = by_name("test?faults=read/0:media@2,write/1:read-only@2,write/2:torn-1@1,finish:delay-3ms");
        let drive = spec.open_zoned().unwrap();
        drive.write(Lba(0), &block(9)).unwrap();
        let mut found = block(0);
        drive.read(Lba(0), &mut found).unwrap();
        assert_eq!(drive.read(Lba(0), &mut found).unwrap_err().kind(), ErrorKind::Media, "the second read of zone 0");
        drive.read(Lba(0), &mut found).unwrap();
        let zone_blocks = drive.geometry().zone_size_blocks;
        let at = |zone: u64, offset: u64| Lba(zone * zone_blocks + offset);
        drive.write(at(1, 0), &block(1)).unwrap();
        assert!(drive.write(at(1, 1), &block(2)).is_err());
        assert_eq!(drive.report(ZoneId(1), 1).unwrap()[0].state, ZoneState::ReadOnly);
        drive.read(at(1, 0), &mut found).unwrap();
        assert_eq!(found[0], 1, "its data is alive");
        assert_eq!(drive.write(at(2, 0), &AlignedBuf::with_len(8192)).unwrap_err().kind(), ErrorKind::Media);
        assert_eq!(drive.report(ZoneId(2), 1).unwrap()[0].write_pointer, Some(at(2, 1)), "one block of two");
        let start = now();
        drive.finish(ZoneId(3)).unwrap();
        assert!(now().since(start) >= Duration::from_millis(3));
    });
}

#[test]
fn the_power_of_a_named_drive_goes_and_what_was_written_stays() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive");
    let name = |faults: &str| format!("test?time=untimed&data={}{faults}", file.display());
    let drive = by_name(&name("&faults=any:power-lost@4+")).open_zoned().unwrap();
    let written = (0..8).take_while(|&offset| drive.write(Lba(offset), &block(3)).is_ok()).count() as u64;
    assert!(written > 0 && drive.flush().unwrap_err().kind() == ErrorKind::PowerLost, "{written}");
    drop(drive);
    let drive = by_name(&name("")).open_zoned().unwrap();
    assert_eq!(drive.report(ZoneId(0), 1).unwrap()[0].write_pointer, Some(Lba(written)));
}

#[test]
fn named_faults_of_conventional_drives_have_no_zones() {
    assert!("test-conv?faults=write/1:media".parse::<Spec>().is_err());
    assert!("test-conv?faults=write:offline".parse::<Spec>().is_err());
    assert!("splitzns?faults=write/1:media".parse::<Spec>().is_err(), "which part");
    let drive = by_name("test-conv?time=untimed&faults=trim:io@1").open_block().unwrap();
    assert_eq!(drive.trim(Lba(0), 1).unwrap_err().kind(), ErrorKind::Io);
    drive.trim(Lba(0), 1).unwrap();
}
