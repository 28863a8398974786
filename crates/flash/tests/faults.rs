//! Faults below a modelled drive: errors come through, cost no time, and leave the rest of the drive usable; delays count.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{
    AlignedBuf, BlockDevice, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Lba, MemBlockDevice,
    MemDevice, ZoneId, ZoneState, ZonedDevice,
};
use zonda_flash::drive::{FlashBlock, FlashZoned, TimeMode};
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
