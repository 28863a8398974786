//! Drives that split zones, as devices: states, limits, errors, what a power cut leaves.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]
use std::sync::Arc;

use zonda_device::{
    AlignedBuf, CutAt, DeviceError, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Lba, MemDevice,
    PowerCut, SplitZones, SubzoneId, ZoneId, ZoneState, ZonedDevice, conformance,
};
use zonda_flash::drive::{FlashZoned, Spec, SplitData, TimeMode, geometry_below};
use zonda_flash::profile::Profile;
use zonda_rt::{DeviceCall, Rng};

const SUBZONES: u16 = 4;
const BLOCK: usize = 4096;

/// Zones of 16 blocks, in subzones of 4; two may be open, three active.
fn geometry() -> Geometry {
    Geometry::new(16 * BLOCK as u64, 6).with_limits(2, 3)
}

fn over(below: Arc<dyn ZonedDevice>) -> SplitData {
    SplitData::over(below, geometry(), SUBZONES).unwrap()
}

fn memory() -> Arc<MemDevice> {
    Arc::new(MemDevice::new(geometry_below(&geometry(), SUBZONES).unwrap()).unwrap())
}

fn blocks(count: usize, value: u8) -> AlignedBuf {
    let mut buffer = AlignedBuf::with_len(count * BLOCK);
    buffer.fill(value);
    buffer
}

fn id(zone: u32, index: u16) -> SubzoneId {
    SubzoneId { zone: ZoneId(zone), index }
}

fn kind<T: std::fmt::Debug>(result: Result<T, DeviceError>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn states(drive: &dyn SplitZones, zone: u32) -> Vec<ZoneState> {
    drive.report_subzones(ZoneId(zone)).unwrap().iter().map(|report| report.state).collect()
}

#[test]
fn wide_zones_keep_the_contract() {
    conformance::zoned(&mut |geometry| {
        let subzones = if geometry.zone_capacity_blocks.is_multiple_of(2) { 2 } else { 1 };
        let below = MemDevice::new(geometry_below(&geometry, subzones).unwrap()).unwrap();
        let data = SplitData::over(Arc::new(below), geometry, subzones).unwrap();
        Arc::new(FlashZoned::over(Arc::new(data), &Profile::named("splitzns").unwrap(), TimeMode::Untimed, 1).unwrap())
    })
    .assert_passed();
}

#[test]
fn a_split_zone_lives_as_figure_6_says() {
    let drive = over(memory());
    let split: &dyn SplitZones = &drive;
    split.split(ZoneId(1)).unwrap();
    assert_eq!(states(split, 1), [ZoneState::Empty; 4]);
    assert_eq!(split.append_subzone(id(1, 2), &blocks(1, 7)).unwrap(), Lba(16 + 8));
    assert_eq!(split.append_subzone(id(1, 2), &blocks(2, 8)).unwrap(), Lba(16 + 9));
    assert_eq!(states(split, 1)[2], ZoneState::ImplicitOpen);
    assert_eq!(kind(split.finish(ZoneId(1))), ErrorKind::InvalidTransition, "a subzone is open");
    split.finish_subzone(id(1, 2)).unwrap();
    assert_eq!(states(split, 1)[2], ZoneState::Full);
    assert_eq!(kind(split.append_subzone(id(1, 2), &blocks(1, 7))), ErrorKind::Full);
    assert_eq!(kind(split.join(ZoneId(1))), ErrorKind::InvalidTransition, "a subzone is full");
    let mut found = blocks(4, 1);
    drive.read(Lba(16 + 8), &mut found).unwrap();
    assert_eq!([0, 1, 2, 3].map(|block| found[block * BLOCK]), [7, 8, 8, 0]);
    split.finish(ZoneId(1)).unwrap();
    split.reset_subzone(id(1, 2)).unwrap();
    split.join(ZoneId(1)).unwrap();
    drive.write(Lba(16), &blocks(16, 9)).unwrap();
    assert_eq!(drive.report(ZoneId(1), 1).unwrap()[0].state, ZoneState::Full);
}

#[test]
fn everything_else_is_refused() {
    let drive = over(memory());
    let split: &dyn SplitZones = &drive;
    drive.write(Lba(0), &blocks(1, 1)).unwrap();
    assert_eq!(kind(split.split(ZoneId(0))), ErrorKind::InvalidTransition, "only empty zones are split");
    for refused in [
        split.report_subzones(ZoneId(0)).map(|_| ()),
        split.append_subzone(id(0, 0), &blocks(1, 1)).map(|_| ()),
        split.finish_subzone(id(0, 0)),
        split.reset_subzone(id(0, 0)),
        split.finish(ZoneId(0)),
        split.join(ZoneId(0)),
    ] {
        assert_eq!(kind(refused), ErrorKind::InvalidTransition, "wide zones have no subzones");
    }
    split.split(ZoneId(1)).unwrap();
    assert_eq!(kind(split.split(ZoneId(1))), ErrorKind::InvalidTransition);
    let zone = ZoneId(1);
    for refused in [
        drive.write(Lba(16), &blocks(1, 1)),
        drive.append(zone, &blocks(1, 1)).map(|_| ()),
        drive.open(zone),
        drive.close(zone),
        ZonedDevice::finish(&drive, zone),
        drive.reset(zone),
    ] {
        assert_eq!(kind(refused), ErrorKind::InvalidTransition, "ordinary commands are not for split zones");
    }
    assert_eq!(kind(split.append_subzone(id(1, 4), &blocks(1, 1))), ErrorKind::Invalid);
    assert_eq!(kind(split.append_subzone(id(9, 0), &blocks(1, 1))), ErrorKind::Invalid);
    assert_eq!(kind(split.append_subzone(id(1, 0), &blocks(5, 1))), ErrorKind::Boundary);
    assert_eq!(kind(split.append_subzone(id(1, 0), &blocks(1, 1)[..512])), ErrorKind::Invalid);
    assert_eq!(states(split, 1), [ZoneState::Empty; 4], "nothing of it was done");
}

/// Only one that is lost refuses it.
#[test]
fn a_subzone_is_finished_and_reset_whatever_it_holds() {
    let modelled: Spec = "splitzns?scale=1/64&zones=4&time=untimed".parse().unwrap();
    let drives: [Box<dyn ZonedDevice>; 2] = [Box::new(over(memory())), Box::new(modelled.open_zoned().unwrap())];
    for drive in drives {
        let (split, start) = (drive.split_zones().unwrap(), drive.geometry().zone_start(ZoneId(1)));
        let whole = usize::try_from(split.subzone_blocks()).unwrap();
        split.split(ZoneId(1)).unwrap();
        for (written, before) in [(0, ZoneState::Empty), (1, ZoneState::ImplicitOpen), (whole, ZoneState::Full)] {
            for index in 0..2 {
                if written > 0 {
                    split.append_subzone(id(1, index), &blocks(written, 7)).unwrap();
                }
                assert_eq!(states(split, 1)[usize::from(index)], before);
            }
            split.finish_subzone(id(1, 0)).unwrap();
            split.reset_subzone(id(1, 1)).unwrap();
            assert_eq!(states(split, 1)[..2], [ZoneState::Full, ZoneState::Empty], "from {before:?}");
            assert_eq!(kind(split.append_subzone(id(1, 0), &blocks(1, 8))), ErrorKind::Full, "from {before:?}");
            let mut found = blocks(2 * whole, 9);
            drive.read(start, &mut found).unwrap();
            let kept = [vec![7; written], vec![0; 2 * whole - written]].concat();
            assert!(found.chunks(BLOCK).map(|block| block[0]).eq(kept), "from {before:?}");
            split.reset_subzone(id(1, 0)).unwrap();
            assert_eq!(split.append_subzone(id(1, 0), &blocks(1, 8)).unwrap(), start, "from {before:?}");
            split.reset_subzone(id(1, 0)).unwrap();
        }
        split.join(ZoneId(1)).unwrap();
    }
}

#[test]
fn a_split_zone_holds_one_open_and_one_active_resource() {
    let drive = over(memory());
    let split: &dyn SplitZones = &drive;
    split.split(ZoneId(0)).unwrap();
    split.split(ZoneId(1)).unwrap();
    assert_eq!(kind(split.split(ZoneId(2))), ErrorKind::TooManyOpen, "I2");
    (0..4).for_each(|index| split.append_subzone(id(0, index), &blocks(4, 1)).map(|_| ()).unwrap());
    assert_eq!(kind(split.split(ZoneId(2))), ErrorKind::TooManyOpen, "full subzones change nothing");
    split.finish(ZoneId(0)).unwrap();
    split.split(ZoneId(2)).unwrap();
    split.reset_subzone(id(0, 3)).unwrap();
    assert_eq!(kind(split.append_subzone(id(0, 3), &blocks(1, 1))), ErrorKind::TooManyOpen);
    assert_eq!(states(split, 0)[3], ZoneState::Empty);
    split.finish(ZoneId(2)).unwrap();
    split.append_subzone(id(0, 3), &blocks(1, 1)).unwrap();
    assert_eq!(kind(split.split(ZoneId(3))), ErrorKind::TooManyOpen, "the finished zone has taken its resources again");
}

#[test]
fn what_was_split_and_written_is_found_again() {
    let below = memory();
    let drive = over(below.clone());
    drive.write(Lba(0), &blocks(6, 3)).unwrap();
    drive.split(ZoneId(2)).unwrap();
    drive.append_subzone(id(2, 1), &blocks(3, 4)).unwrap();
    drive.split(ZoneId(4)).unwrap();
    drive.append_subzone(id(4, 0), &blocks(4, 5)).unwrap();
    SplitZones::finish(&drive, ZoneId(4)).unwrap();
    drop(drive);
    let drive = over(below);
    let wide = drive.report(ZoneId(0), 1).unwrap();
    assert_eq!(wide[0].write_pointer, Some(Lba(6)));
    assert_eq!(states(&drive, 2)[1], ZoneState::ImplicitOpen);
    drive.append_subzone(id(2, 1), &blocks(1, 4)).unwrap();
    assert_eq!(states(&drive, 2)[1], ZoneState::Full, "an open subzone stays writable");
    assert_eq!(states(&drive, 4), [ZoneState::Full, ZoneState::Empty, ZoneState::Empty, ZoneState::Empty]);
}

/// A crash may undo a reset that gave back what was used again.
#[test]
fn what_is_active_beyond_the_limits_is_finished() {
    let below = memory();
    let drive = over(below.clone());
    for zone in [1, 2, 3] {
        drive.split(ZoneId(zone)).unwrap();
        drive.append_subzone(id(zone, 0), &blocks(4, 5)).unwrap();
        SplitZones::finish(&drive, ZoneId(zone)).unwrap();
    }
    drop(drive);
    // Each zone has 5 below: two blocks in a subzone of each split one, two in each wide one.
    for zone_below in [0, 6, 11, 16, 20, 25] {
        below.write(Lba(zone_below * 4), &blocks(2, 6)).unwrap();
    }
    let drive = over(below.clone());
    let found: Vec<ZoneState> = drive.report(ZoneId(0), 6).unwrap().iter().map(|report| report.state).collect();
    assert_eq!(found[..4], [ZoneState::Closed, ZoneState::ExplicitOpen, ZoneState::ExplicitOpen, ZoneState::Full]);
    assert_eq!(found[4..], [ZoneState::Full, ZoneState::Full], "three are active");
    assert_eq!(states(&drive, 3)[..2], [ZoneState::Full, ZoneState::Full]);
    for (zone, filled) in [(3, 4), (4, 0), (5, 0)] {
        let mut read = AlignedBuf::with_len(2 * BLOCK);
        drive.read(Lba(zone * 16 + filled), &mut read).unwrap();
        assert!(read.iter().all(|&byte| byte == 6), "what was written is there");
    }
}

/// A fault of the third part of zone 1, at the next such call.
fn fault_of_third_part(call: DeviceCall, effect: FaultEffect) -> Fault {
    let zone = Some(ZoneId(u32::from(SUBZONES) + 1 + 2));
    Fault { call: Some(call), zone, when: FaultWhen::Nth(1), effect }
}

#[test]
fn a_part_that_is_lost_ends_its_zone_and_what_was_written_before_stays() {
    for (to, refusal) in [(ZoneState::ReadOnly, ErrorKind::ReadOnly), (ZoneState::Offline, ErrorKind::Offline)] {
        let below = Faulty::new(MemDevice::new(geometry_below(&geometry(), SUBZONES).unwrap()).unwrap(), 1);
        let drive = over(Arc::new(below.clone()));
        drive.write(Lba(16), &blocks(9, 7)).unwrap();
        below.inject(fault_of_third_part(DeviceCall::Write, FaultEffect::Retire(to)));
        assert_eq!(kind(drive.write(Lba(16 + 9), &blocks(5, 8))), refusal);
        let check = |drive: &SplitData| {
            let report = drive.report(ZoneId(1), 1).unwrap()[0];
            assert_eq!((report.state, report.write_pointer), (to, None), "not a zone to write behind a hole");
            for at in [9, 12] {
                assert_eq!(kind(drive.write(Lba(16 + at), &blocks(1, 8))), refusal, "block {at}");
            }
            let mut found = blocks(16, 1);
            let read = drive.read(Lba(16), &mut found);
            assert_eq!(read.is_ok(), to == ZoneState::ReadOnly, "{read:?}");
            let filled = found.chunks(BLOCK).map(|block| block[0]).take_while(|&byte| byte == 7).count();
            assert!(read.is_err() || (filled == 9 && found[9 * BLOCK..].iter().all(|&byte| byte == 0)), "{filled}");
        };
        check(&drive);
        for zone in [0, 2] {
            drive.open(ZoneId(zone)).unwrap();
        }
        drop(drive);
        check(&over(Arc::new(below.clone())));
        // With the data alone: what was lost comes back full, and so does its zone.
        let drive = over(Arc::new(below.inner().clone()));
        assert_eq!(drive.report(ZoneId(1), 1).unwrap()[0].state, ZoneState::Full);
    }
}

#[test]
fn a_reset_that_fails_half_way_leaves_the_zone_as_its_parts_are() {
    let below = Faulty::new(MemDevice::new(geometry_below(&geometry(), SUBZONES).unwrap()).unwrap(), 1);
    let drive = over(Arc::new(below.clone()));
    drive.write(Lba(16), &blocks(15, 7)).unwrap();
    below.inject(fault_of_third_part(DeviceCall::Reset, FaultEffect::Error(ErrorKind::Io)));
    assert_eq!(kind(drive.reset(ZoneId(1))), ErrorKind::Io);
    assert_eq!(drive.report(ZoneId(1), 1).unwrap()[0].write_pointer, Some(Lba(16 + 12)), "its last part is empty");
    drive.write(Lba(16 + 12), &blocks(4, 8)).unwrap();
    drive.reset(ZoneId(1)).unwrap();
    drive.write(Lba(16), &blocks(16, 9)).unwrap();
}

/// Nobody counts on an active zone where he had a full one.
#[test]
fn a_full_zone_whose_reset_fails_half_way_stays_full() {
    let memory = MemDevice::new(geometry_below(&geometry(), SUBZONES).unwrap()).unwrap();
    let below = Faulty::new(memory, 1);
    let drive = over(Arc::new(below.clone()));
    drive.write(Lba(16), &blocks(16, 7)).unwrap();
    below.inject(fault_of_third_part(DeviceCall::Reset, FaultEffect::Error(ErrorKind::Io)));
    assert_eq!(kind(drive.reset(ZoneId(1))), ErrorKind::Io);
    let is_full = |drive: &SplitData| drive.report(ZoneId(1), 1).unwrap()[0].state == ZoneState::Full;
    assert!(is_full(&drive));
    let mut found = blocks(16, 1);
    drive.read(Lba(16), &mut found).unwrap();
    assert_eq!(found.chunks(BLOCK).take_while(|block| block[0] == 7).count(), 12, "what is left of it");
    for zone in [0, 2, 3] {
        drive.write(Lba(zone * 16), &blocks(1, 8)).unwrap();
    }
    assert!(is_full(&over(Arc::new(below.inner().clone()))), "to who looks at it anew as well");
    drive.reset(ZoneId(1)).unwrap();
    drive.reset(ZoneId(0)).unwrap();
    drive.write(Lba(16), &blocks(16, 9)).unwrap();
}

#[test]
fn errors_name_zones_and_blocks_of_the_drive() {
    let below = Faulty::new(MemDevice::new(geometry_below(&geometry(), SUBZONES).unwrap()).unwrap(), 1);
    let drive = over(Arc::new(below.clone()));
    drive.write(Lba(16), &blocks(16, 7)).unwrap();
    below.inject(fault_of_third_part(DeviceCall::Read, FaultEffect::Error(ErrorKind::Media)));
    let error = drive.read(Lba(16), &mut blocks(16, 0)).unwrap_err();
    assert!(matches!(error, DeviceError::Media { at: Lba(24) }), "{error}");
    below.inject(fault_of_third_part(DeviceCall::Reset, FaultEffect::Retire(ZoneState::ReadOnly)));
    let error = drive.reset(ZoneId(1)).unwrap_err();
    assert!(matches!(error, DeviceError::InvalidTransition { zone: ZoneId(1), .. }), "{error}");
    drive.split(ZoneId(2)).unwrap();
    let (part, effect) = (ZoneId(2 * (u32::from(SUBZONES) + 1) + 3), FaultEffect::Torn { blocks: 2 });
    below.inject(Fault { call: Some(DeviceCall::Write), zone: Some(part), when: FaultWhen::Nth(1), effect });
    let error = drive.append_subzone(id(2, 3), &blocks(4, 1)).unwrap_err();
    assert!(matches!(error, DeviceError::Media { at: Lba(46) }), "{error}");
    assert_eq!(drive.report_subzones(ZoneId(2)).unwrap()[3].write_pointer, Some(Lba(46)));
}

/// Random work on split zones until the power goes, then what was flushed is there, in order, and work goes on.
#[test]
fn power_cuts_leave_what_was_flushed() {
    let mut cuts = 0;
    for seed in 1..60 {
        let mut rng = Rng::seeded(seed);
        let mut device = MemDevice::new(geometry_below(&geometry(), SUBZONES).unwrap()).unwrap();
        // Least and most blocks that each subzone of zone 1 may have after a cut, and what it has.
        let mut known = [(0_u64, 0_u64, 0_u64); 4];
        for _ in 0..4 {
            let power = PowerCut::over(device);
            let drive = over(Arc::new(power.clone()));
            let split: &dyn SplitZones = &drive;
            if let Ok(reports) = split.report_subzones(ZoneId(1)) {
                for (known, report) in known.iter_mut().zip(reports) {
                    let found = report.write_pointer.map_or(4, |pointer| pointer.0 - report.start.0);
                    assert!(found >= known.0 && found <= known.1, "seed {seed}: {found} of {known:?}");
                    *known = (found, found, found);
                }
            } else {
                assert_eq!(known, [(0, 0, 0); 4], "seed {seed}: a split zone is not split any more");
                split.split(ZoneId(1)).unwrap();
                drive.flush().unwrap();
            }
            power.arm(CutAt::Operation(1 + rng.below(30)));
            loop {
                let index = u16::try_from(rng.below(4)).unwrap();
                let entry = &mut known[usize::from(index)];
                let outcome = match rng.below(6) {
                    0 => {
                        drive.flush().map(|()| known.iter_mut().for_each(|entry| *entry = (entry.2, entry.2, entry.2)))
                    }
                    1 => {
                        // A reset may persist before earlier unflushed writes elsewhere, or not.
                        entry.0 = 0;
                        split.reset_subzone(id(1, index)).map(|()| entry.2 = 0)
                    }
                    _ if entry.2 < 4 => {
                        entry.2 += 1;
                        entry.1 = entry.1.max(entry.2);
                        split.append_subzone(id(1, index), &blocks(1, 1)).map(|_| ())
                    }
                    _ => Ok(()),
                };
                if let Err(error) = outcome {
                    assert_eq!(error.kind(), ErrorKind::PowerLost, "seed {seed}: {error}");
                    cuts += 1;
                    break;
                }
            }
            drop(drive);
            device = power.reopen(&mut rng);
        }
    }
    assert!(cuts > 150, "{cuts}");
}

#[test]
fn the_paper_s_drive_is_opened_by_name() {
    let spec: Spec = "splitzns?scale=1/64&zones=4".parse().unwrap();
    zonda_rt::sim::run(1, || {
        let drive = spec.open_zoned().unwrap();
        let split = drive.split_zones().expect("it splits zones");
        assert_eq!((split.subzones(), split.subzone_blocks()), (16, 128));
        split.split(ZoneId(3)).unwrap();
        split.append_subzone(id(3, 5), &blocks(32, 6)).unwrap();
        let report = split.report_subzones(ZoneId(3)).unwrap();
        assert_eq!((report[5].chip, report[6].chip), (Some(0), None));
        let mut found = blocks(32, 0);
        drive.read(report[5].start, &mut found).unwrap();
        assert!(found.iter().all(|&byte| byte == 6));
        assert!(drive.split_counts().unwrap().reads.ring_bytes > 0);
    });
    assert!("splitzns?split=off".parse::<Spec>().unwrap().open_zoned().unwrap().split_zones().is_none());
    assert!("splitzns?split=most".parse::<Spec>().is_err());
    assert!("zn540?split=all".parse::<Spec>().is_err());
    for (chips, subzones) in [(8, 8), (16, 16), (64, 64)] {
        let spec: Spec = format!("splitzns?scale=1/64&chips={chips}&zones=4&time=untimed").parse().unwrap();
        let drive = spec.open_zoned().unwrap();
        assert_eq!(drive.split_zones().unwrap().subzones(), subzones);
        assert_eq!(drive.geometry().zone_size_blocks, 2048, "zones stay as large");
    }
    assert!("splitzns?chips=0".parse::<Spec>().is_err() && "splitzns?scale=1/256&chips=64".parse::<Spec>().is_err());
    assert!("test-conv?chips=8".parse::<Spec>().is_err());
}

/// A table that was finished, and its zone with it, loses its end. The zone may be active again, or the table must not be open.
#[test]
fn a_finished_zone_whose_subzone_lost_its_end_is_active_or_has_no_open_subzone() {
    for (others, zone, subzone) in
        [(23, ZoneState::ExplicitOpen, ZoneState::ImplicitOpen), (24, ZoneState::Full, ZoneState::Full)]
    {
        let spec: Spec = "splitzns?scale=1/64&zones=26&time=untimed&split=redo-log".parse().unwrap();
        let drive = spec.open_zoned().unwrap();
        let split = drive.split_zones().unwrap();
        split.split(ZoneId(0)).unwrap();
        split.append_subzone(id(0, 0), &blocks(16, 1)).unwrap();
        drive.flush().unwrap();
        split.append_subzone(id(0, 0), &blocks(3, 2)).unwrap();
        split.finish_subzone(id(0, 0)).unwrap();
        SplitZones::finish(split, ZoneId(0)).unwrap();
        (1..=others).for_each(|zone| _ = drive.append(ZoneId(zone), &blocks(1, 3)).unwrap());
        drive.lose_power().unwrap();
        assert_eq!(drive.report(ZoneId(0), 1).unwrap()[0].state, zone, "{others} others are active");
        assert_eq!(states(split, 0)[0], subzone);
        let mut found = blocks(19, 9);
        drive.read(Lba(0), &mut found).unwrap();
        assert_eq!(
            found.chunks(BLOCK).map(|block| block[0]).collect::<Vec<_>>(),
            [[1; 16].as_slice(), &[0; 3]].concat()
        );
    }
}

#[test]
fn the_power_takes_what_is_in_a_ring_without_capacitors() {
    for (parts, kept) in [("all", 3), ("redo-log", 0)] {
        let spec: Spec = format!("splitzns?scale=1/64&zones=4&time=untimed&split={parts}").parse().unwrap();
        let drive = spec.open_zoned().unwrap();
        let split = drive.split_zones().unwrap();
        split.split(ZoneId(0)).unwrap();
        split.append_subzone(id(0, 0), &blocks(16, 1)).unwrap();
        drive.flush().unwrap();
        split.append_subzone(id(0, 0), &blocks(3, 2)).unwrap();
        drive.lose_power().unwrap();
        let report = split.report_subzones(ZoneId(0)).unwrap();
        assert_eq!(report[0].write_pointer, Some(Lba(16 + kept)), "{parts}");
        split.append_subzone(id(0, 0), &blocks(1, 3)).unwrap();
    }
}
