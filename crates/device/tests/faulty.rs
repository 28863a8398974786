//! Faults strike where the script says, and the contract's promises after an error hold.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::{sync::Arc, time::Duration};

use zonda_device::{
    AlignedBuf, BlockDevice, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Lba, MemBlockDevice,
    MemDevice, ZoneId, ZoneState, ZonedDevice, conformance,
};
use zonda_rt::DeviceCall;

fn device() -> Faulty<MemDevice> {
    Faulty::new(MemDevice::new(Geometry::new(64 << 10, 4).with_limits(2, 2)).unwrap(), 7)
}

fn blocks(count: usize) -> AlignedBuf {
    AlignedBuf::from_slice(&vec![5; count * 4096])
}

fn fault(call: DeviceCall, when: FaultWhen, effect: FaultEffect) -> Fault {
    Fault { call: Some(call), zone: None, when, effect }
}

#[test]
fn without_faults_it_conforms() {
    conformance::zoned(&mut |g| Arc::new(Faulty::new(MemDevice::new(g).unwrap(), 1))).assert_passed();
    conformance::block(&mut |b, n| Arc::new(Faulty::new(MemBlockDevice::new(b, n).unwrap(), 1))).assert_passed();
}

#[test]
fn the_nth_write_fails_and_changes_nothing() {
    let device = device();
    device.inject(fault(DeviceCall::Append, FaultWhen::Nth(2), FaultEffect::Error(ErrorKind::NoSpaceOnHost)));
    device.append(ZoneId(0), &blocks(1)).unwrap();
    assert_eq!(device.append(ZoneId(0), &blocks(1)).unwrap_err().kind(), ErrorKind::NoSpaceOnHost);
    assert_eq!(device.append(ZoneId(0), &blocks(1)).unwrap(), Lba(1));
    assert_eq!(device.injected(), 1);
}

#[test]
fn a_torn_write_leaves_its_first_blocks_and_a_report_says_so() {
    let device = device();
    device.inject(fault(DeviceCall::Write, FaultWhen::Nth(1), FaultEffect::Torn { blocks: 2 }));
    assert_eq!(device.write(Lba(0), &blocks(4)).unwrap_err().kind(), ErrorKind::Media);
    assert_eq!(device.report(ZoneId(0), 1).unwrap()[0].write_pointer, Some(Lba(2)));
}

#[test]
fn a_retired_zone_frees_its_resources_and_refuses_writes() {
    let device = device();
    device.append(ZoneId(0), &blocks(1)).unwrap();
    device.append(ZoneId(1), &blocks(1)).unwrap();
    device.inject(Fault {
        call: None,
        zone: Some(ZoneId(0)),
        when: FaultWhen::Nth(1),
        effect: FaultEffect::Retire(ZoneState::ReadOnly),
    });
    assert_eq!(device.append(ZoneId(0), &blocks(1)).unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(device.reset(ZoneId(0)).unwrap_err().kind(), ErrorKind::InvalidTransition);
    let report = device.report(ZoneId(0), 1).unwrap()[0];
    assert_eq!((report.state, report.write_pointer), (ZoneState::ReadOnly, None));
    let mut read = blocks(1);
    device.read(Lba(0), &mut read).unwrap();
    device.append(ZoneId(2), &blocks(1)).unwrap();
    device.inject(fault(DeviceCall::Read, FaultWhen::Nth(1), FaultEffect::Retire(ZoneState::Offline)));
    assert_eq!(device.read(Lba(16), &mut read).unwrap_err().kind(), ErrorKind::Offline);
    assert_eq!(device.read(Lba(16), &mut read).unwrap_err().kind(), ErrorKind::Offline);
}

#[test]
fn chance_replays_from_its_seed_and_delays_do_not_fail() {
    let run = |seed| {
        let device = Faulty::new(MemBlockDevice::new(4096, 8).unwrap(), seed);
        device.inject(fault(DeviceCall::Write, FaultWhen::Chance(0.5), FaultEffect::Error(ErrorKind::Io)));
        device.inject(fault(DeviceCall::Flush, FaultWhen::From(1), FaultEffect::Delay(Duration::from_micros(1))));
        device.flush().unwrap();
        (0..32).map(|_| device.write(Lba(0), &blocks(1)).is_ok()).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
