//! After a cut exactly the states of I4 come back.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use std::collections::BTreeSet;

use zonda_device::{
    AlignedBuf, BlockDevice, CrashModel, CutAt, DeviceError, Geometry, Lba, MemBlockDevice, MemDevice, PowerCut,
    PowerCutBlock, ZoneId, ZoneState, ZonedDevice, conformance, cut_label,
};
use zonda_rt::Rng;

fn device() -> PowerCut {
    PowerCut::new(Geometry::new(64 << 10, 6).with_limits(2, 3)).unwrap()
}

fn blocks(count: usize, value: u8) -> AlignedBuf {
    let mut buffer = AlignedBuf::with_len(count * 4096);
    buffer.fill(value);
    buffer
}

fn first_bytes(device: &MemDevice, zone: u32) -> Vec<u8> {
    let mut all = AlignedBuf::with_len(64 << 10);
    device.read(device.geometry().zone_start(ZoneId(zone)), &mut all).unwrap();
    all.chunks(4096).map(|block| block[0]).collect()
}

fn written(device: &MemDevice, zone: u32) -> u64 {
    device.report(ZoneId(zone), 1).unwrap()[0].written_blocks()
}

#[test]
fn without_cuts_it_conforms() {
    use std::sync::Arc;
    conformance::zoned(&mut |geometry| Arc::new(PowerCut::new(geometry).unwrap())).assert_passed();
    conformance::block(&mut |bytes, count| Arc::new(PowerCutBlock::over(MemBlockDevice::new(bytes, count).unwrap())))
        .assert_passed();
}

#[test]
fn a_prefix_of_the_unflushed_writes_survives_in_each_zone() {
    let mut fills = BTreeSet::new();
    for seed in 0..200 {
        let device = device();
        device.append(ZoneId(0), &blocks(2, 1)).unwrap();
        device.flush().unwrap();
        device.append(ZoneId(0), &blocks(2, 2)).unwrap();
        device.append(ZoneId(1), &blocks(2, 3)).unwrap();
        let after = device.reopen(&mut Rng::seeded(seed));
        let (zone0, zone1) = (written(&after, 0), written(&after, 1));
        assert!((2..=4).contains(&zone0) && zone1 <= 2, "seed {seed}: {zone0} {zone1}");
        let wanted: Vec<u8> = [1, 1, 2, 2].into_iter().take(zone0.try_into().unwrap()).collect();
        assert_eq!(first_bytes(&after, 0)[..wanted.len()], wanted, "seed {seed}");
        fills.insert((zone0, zone1));
    }
    assert_eq!(fills.len(), 9, "every combination is reached: {fills:?}");
}

#[test]
fn devices_on_one_supply_go_together_and_keep_what_each_flushed() {
    let mut fills = BTreeSet::new();
    for seed in 0..200 {
        let first = device();
        let second = first.beside(MemDevice::new(Geometry::new(64 << 10, 2)).unwrap());
        first.append(ZoneId(0), &blocks(2, 1)).unwrap();
        second.append(ZoneId(1), &blocks(2, 2)).unwrap();
        second.flush().unwrap();
        first.arm(CutAt::Change(2));
        second.append(ZoneId(1), &blocks(1, 3)).unwrap();
        let cut = if seed % 2 == 0 { first.flush() } else { second.append(ZoneId(1), &blocks(1, 4)).map(drop) };
        assert!(matches!(cut, Err(DeviceError::PowerLost)), "{cut:?}");
        let late = (first.append(ZoneId(1), &blocks(1, 5)), second.append(ZoneId(0), &blocks(1, 5)));
        assert!(matches!(late, (Err(DeviceError::PowerLost), Err(DeviceError::PowerLost))), "{late:?}");
        assert_eq!(first.cut_report(), second.cut_report());
        assert_eq!((first.operations(), second.operations()), (5, 5));
        let mut rng = Rng::seeded(seed);
        let (first, second) = (first.reopen(&mut rng), second.reopen(&mut rng));
        assert_eq!(written(&first, 1) + written(&second, 0), 0, "nothing happens after the cut");
        fills.insert((written(&first, 0), written(&second, 1)));
    }
    // The first device flushed nothing, the second two blocks; what survives on one says nothing of the other.
    let legal = (0..=2).flat_map(|first| (2..=4).map(move |second| (first, second)));
    assert_eq!(fills, legal.collect());
}

#[test]
fn zones_beside_blocks_lose_the_power_at_the_same_operation_and_their_own_share_of_work() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let pages = PowerCutBlock::over(MemBlockDevice::new(4096, 8).unwrap());
        let log = pages.beside(MemDevice::new(Geometry::new(64 << 10, 2)).unwrap());
        pages.write(Lba(0), &blocks(1, 1)).unwrap();
        log.append(ZoneId(1), &blocks(1, 2)).unwrap();
        log.flush().unwrap();
        pages.arm(CutAt::Change(2));
        log.append(ZoneId(1), &blocks(1, 3)).unwrap();
        let cut = if seed % 2 == 0 { pages.flush() } else { log.append(ZoneId(1), &blocks(1, 4)).map(drop) };
        assert!(matches!(cut, Err(DeviceError::PowerLost)), "{cut:?}");
        let late = (pages.write(Lba(1), &blocks(1, 5)), log.append(ZoneId(0), &blocks(1, 5)));
        assert!(matches!(late, (Err(DeviceError::PowerLost), Err(DeviceError::PowerLost))), "{late:?}");
        assert_eq!((pages.cut_report(), pages.operations()), (log.cut_report(), log.operations()));
        let mut rng = Rng::seeded(seed);
        let (pages, log) = (pages.reopen(&mut rng), log.reopen(&mut rng));
        let mut block = blocks(1, 9);
        pages.read(Lba(0), &mut block).unwrap();
        seen.insert((block[0], written(&log, 1)));
    }
    let legal = [0, 1].into_iter().flat_map(|first| (1..=3).map(move |second| (first, second)));
    assert_eq!(seen, legal.collect());
}

#[test]
fn an_unflushed_reset_and_rewrite_is_old_or_empty_or_new_never_mixed() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let device = device();
        device.append(ZoneId(0), &blocks(3, 1)).unwrap();
        device.flush().unwrap();
        device.append(ZoneId(0), &blocks(1, 2)).unwrap();
        device.reset(ZoneId(0)).unwrap();
        device.append(ZoneId(0), &blocks(2, 9)).unwrap();
        let after = device.reopen(&mut Rng::seeded(seed));
        let content: Vec<u8> = first_bytes(&after, 0).into_iter().take_while(|&b| b != 0).collect();
        assert_eq!(content.len() as u64, written(&after, 0));
        seen.insert(content);
    }
    let legal = [vec![1, 1, 1], vec![1, 1, 1, 2], vec![], vec![9], vec![9, 9]];
    assert_eq!(seen, BTreeSet::from(legal));
}

#[test]
fn the_active_limit_holds_after_a_cut() {
    for seed in 0..300 {
        let device = device();
        for zone in 0..3 {
            device.append(ZoneId(zone), &blocks(1, 1)).unwrap();
        }
        device.flush().unwrap();
        device.finish(ZoneId(0)).unwrap();
        device.reset(ZoneId(1)).unwrap();
        device.append(ZoneId(3), &blocks(1, 4)).unwrap();
        device.append(ZoneId(4), &blocks(1, 5)).unwrap();
        let after = device.reopen(&mut Rng::seeded(seed));
        let reports = after.report(ZoneId(0), 6).unwrap();
        let active = reports.iter().filter(|r| r.state.is_active()).count();
        let open = reports.iter().filter(|r| r.state.is_open()).count();
        assert!(active <= 3 && open <= 2, "I2 seed {seed}: {reports:?}");
    }
}

#[test]
fn open_zones_come_back_closed_or_empty_or_sometimes_open() {
    let mut states = BTreeSet::new();
    for seed in 0..100 {
        let device = device();
        device.append(ZoneId(0), &blocks(1, 1)).unwrap();
        device.open(ZoneId(1)).unwrap();
        device.flush().unwrap();
        let after = device.reopen(&mut Rng::seeded(seed)).report(ZoneId(0), 2).unwrap();
        assert_eq!(after[1].state, ZoneState::Empty);
        states.insert(after[0].state as u8);
    }
    assert_eq!(states, BTreeSet::from([ZoneState::Closed as u8, ZoneState::ExplicitOpen as u8]));
}

#[test]
fn the_power_goes_at_the_armed_operation_and_stays_off() {
    let device = device();
    device.arm(CutAt::Label { label: "log", nth: 2 });
    device.append(ZoneId(0), &blocks(1, 1)).unwrap();
    {
        let _label = cut_label("log");
        device.append(ZoneId(0), &blocks(1, 2)).unwrap();
        assert!(matches!(device.flush(), Err(DeviceError::PowerLost)));
    }
    assert!(matches!(device.report(ZoneId(0), 1), Err(DeviceError::PowerLost)));
    assert!(matches!(device.append(ZoneId(0), &blocks(1, 2)), Err(DeviceError::PowerLost)));
    assert_eq!(device.cut_report().unwrap().label, "log");
    assert_eq!((device.operations(), device.operations_by_label()["log"]), (3, 2));
}

#[test]
fn the_write_that_is_hit_may_be_there() {
    let mut fills = BTreeSet::new();
    for seed in 0..64 {
        let device = device();
        device.arm(CutAt::Change(1));
        assert!(device.append(ZoneId(0), &blocks(3, 1)).is_err());
        fills.insert(written(&device.reopen(&mut Rng::seeded(seed)), 0));
    }
    assert_eq!(fills, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn the_page_cache_model_keeps_what_was_flushed() {
    let mut lost = 0;
    for seed in 0..64 {
        let device = device();
        device.append(ZoneId(0), &blocks(2, 1)).unwrap();
        device.flush().unwrap();
        device.append(ZoneId(0), &blocks(6, 2)).unwrap();
        let after = device.reopen_as(&mut Rng::seeded(seed), CrashModel::PageCache);
        let bytes = first_bytes(&after, 0);
        assert_eq!(bytes[..2], [1, 1]);
        lost += bytes[2..].iter().take(usize::try_from(written(&after, 0)).unwrap() - 2).filter(|&&b| b == 0).count();
    }
    assert!(lost > 0, "some unflushed block below the write pointer reads as zeros");
}

#[test]
fn a_seed_replays() {
    let run = || {
        let device = device();
        device.append(ZoneId(0), &blocks(5, 1)).unwrap();
        device.append(ZoneId(1), &blocks(5, 1)).unwrap();
        device.reopen(&mut Rng::seeded(77)).report(ZoneId(0), 6).unwrap()
    };
    assert_eq!(run(), run());
}

#[test]
fn each_block_is_any_of_its_versions() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let device = PowerCutBlock::over(MemBlockDevice::new(4096, 8).unwrap());
        device.write(Lba(0), &blocks(2, 1)).unwrap();
        device.flush().unwrap();
        device.write(Lba(0), &blocks(2, 2)).unwrap();
        device.write(Lba(1), &blocks(1, 3)).unwrap();
        let after = device.reopen(&mut Rng::seeded(seed));
        let mut both = blocks(2, 0);
        after.read(Lba(0), &mut both).unwrap();
        seen.insert((both[0], both[4096]));
        assert!(device.flush().is_err());
    }
    assert_eq!(seen, BTreeSet::from([(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]));
}
