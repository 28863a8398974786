//! Zones on a block device keep what was flushed, whatever the power does.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::sync::Arc;

use zonda_device::{
    AlignedBuf, BlockDevice, BlockZones, CutAt, DeviceError, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty,
    Geometry, Lba, MemBlockDevice, PowerCutBlock, ZoneId, ZoneState, ZonedDevice,
};
use zonda_rt::{DeviceCall, Rng};

const ZONE_BLOCKS: u64 = 8;

fn geometry() -> Geometry {
    Geometry::new(ZONE_BLOCKS * 4096, 4).with_limits(3, 3)
}

fn blocks(count: usize, value: u8) -> AlignedBuf {
    let mut buffer = AlignedBuf::with_len(count * 4096);
    buffer.fill(value);
    buffer
}

fn memory() -> MemBlockDevice {
    MemBlockDevice::new(4096, 2 + 4 * ZONE_BLOCKS + 5).unwrap()
}

#[test]
fn zones_come_back_with_their_shape_and_limits() {
    let device = Arc::new(memory());
    let zones = BlockZones::create(device.clone(), geometry()).unwrap();
    assert_eq!(zones.blocks(), 2 + 4 * ZONE_BLOCKS);
    zones.append(ZoneId(1), &blocks(3, 7)).unwrap();
    zones.append(ZoneId(2), &blocks(1, 8)).unwrap();
    zones.finish(ZoneId(2)).unwrap();
    zones.flush().unwrap();
    let zones = BlockZones::open(device.clone()).unwrap();
    assert_eq!(zones.geometry(), &geometry());
    let states = zones.report(ZoneId(0), 4).unwrap();
    let seen: Vec<_> = states.iter().map(|zone| (zone.state, zone.written_blocks())).collect();
    assert_eq!(seen[..2], [(ZoneState::Empty, 0), (ZoneState::Closed, 3)]);
    assert_eq!(seen[2].0, ZoneState::Full);
    let mut read = blocks(1, 0);
    zones.read(zones.geometry().zone_start(ZoneId(2)), &mut read).unwrap();
    assert_eq!(read[0], 8, "a finished zone keeps its data");
    // Zones of an earlier life do not come back.
    BlockZones::create(device.clone(), geometry()).unwrap();
    let zones = BlockZones::open(device).unwrap();
    assert!(zones.report(ZoneId(0), 4).unwrap().iter().all(|zone| zone.state == ZoneState::Empty));
}

#[test]
fn what_holds_no_zones_is_refused() {
    let device = Arc::new(memory());
    assert!(matches!(BlockZones::open(device.clone()), Err(DeviceError::Damaged { .. })));
    let too_many = Geometry::new(4096, 600);
    assert!(matches!(BlockZones::create(device.clone(), too_many), Err(DeviceError::Geometry { .. })));
    let too_large = Geometry::new(64 << 10, 9);
    assert!(matches!(BlockZones::create(device, too_large), Err(DeviceError::OutOfRange { .. })));
}

/// Random work with a cut somewhere; what was flushed is there, and nothing that was thrown away.
fn cut(seed: u64) -> bool {
    let rng = &mut Rng::seeded(seed);
    let device = PowerCutBlock::over(memory());
    let zones = BlockZones::create(Arc::new(device.clone()), geometry()).unwrap();
    device.arm(CutAt::Change(1 + rng.below(60)));
    // Of each zone: values written, how many of them are flushed, and whether it may be empty by a reset in progress.
    let mut model = vec![(Vec::new(), 0_usize, false); 4];
    for value in 1..=200_u8 {
        let zone = ZoneId(u32::try_from(rng.below(4)).unwrap());
        let of = &mut model[zone.0 as usize];
        let outcome = match rng.below(8) {
            0 => {
                of.2 = true;
                let done = zones.reset(zone);
                if done.is_ok() {
                    *of = (Vec::new(), 0, false);
                }
                done
            }
            1 | 2 => {
                let done = zones.flush();
                if done.is_ok() {
                    model.iter_mut().for_each(|(values, flushed, _)| *flushed = values.len());
                }
                done
            }
            _ if of.0.len() < usize::try_from(ZONE_BLOCKS).unwrap() => {
                // Counted before: a write that was cut may be there.
                of.0.push(value);
                match zones.append(zone, &blocks(1, value)) {
                    Ok(_) => Ok(()),
                    Err(DeviceError::TooManyActive { .. }) => {
                        of.0.pop();
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Ok(()),
        };
        if outcome.is_err() {
            break;
        }
    }
    let was_cut = device.cut_report().is_some();
    let zones = BlockZones::open(Arc::new(device.reopen(rng))).unwrap();
    for (zone, (values, flushed, may_be_empty)) in model.iter().enumerate() {
        let report = zones.report(ZoneId(u32::try_from(zone).unwrap()), 1).unwrap()[0];
        let written = usize::try_from(report.written_blocks()).unwrap();
        if *may_be_empty && written == 0 {
            continue;
        }
        assert!((*flushed..=values.len()).contains(&written), "seed {seed} zone {zone}: {written} of {values:?}");
        let mut read = blocks(*flushed, 0);
        if *flushed > 0 {
            zones.read(report.start, &mut read).unwrap();
        }
        let read: Vec<u8> = read.chunks(4096).map(|block| block[0]).collect();
        assert_eq!(read, values[..*flushed], "seed {seed} zone {zone}");
    }
    was_cut
}

#[test]
fn flushed_bytes_survive_a_cut_and_old_ones_do_not_come_back() {
    let cuts = (0..600).filter(|&seed| cut(seed)).count();
    assert!(cuts > 300, "{cuts} of 600 runs were cut");
}

#[test]
fn a_reset_that_was_not_recorded_did_not_happen() {
    let device = Faulty::new(memory(), 1);
    let zones = BlockZones::create(Arc::new(device.clone()), geometry()).unwrap();
    zones.append(ZoneId(0), &blocks(2, 3)).unwrap();
    zones.flush().unwrap();
    let effect = FaultEffect::Error(ErrorKind::Io);
    device.inject(Fault { call: Some(DeviceCall::Flush), zone: None, when: FaultWhen::Nth(1), effect });
    zones.reset(ZoneId(0)).unwrap_err();
    assert_eq!(zones.report(ZoneId(0), 1).unwrap()[0].written_blocks(), 2);
    let mut read = blocks(1, 0);
    zones.read(Lba(0), &mut read).unwrap();
    assert_eq!(read[0], 3);
    zones.reset(ZoneId(0)).unwrap();
    assert_eq!(zones.report(ZoneId(0), 1).unwrap()[0].state, ZoneState::Empty);
    assert!(device.capacity_blocks() > zones.blocks());
}
