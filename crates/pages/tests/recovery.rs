//! Opening again: after a clean end, and after a power cut at any operation with reclaim running (I3, I4).
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{Toy, create, device, id, options};
use zonda_device::{
    AlignedBuf, CutAt, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Lba, MemDevice, PowerCut, ZoneId,
    ZoneState, ZonedDevice,
};
use zonda_pages::{AreaKind, PageError, PageStore, SegmentId, StoreId, StoreOptions, ZonedStore};
use zonda_rt::{DeviceCall, Rng};
use zonda_space::{StreamId, StreamSet, ZoneHeader};

#[test]
fn pages_and_their_live_bytes_are_there_after_reopening() {
    let device = device();
    let toy = Toy::new(create(&device));
    for n in 0..300 {
        toy.put(id(n % 200), n, 1 + n % 2).unwrap();
    }
    toy.commit().unwrap();
    let (leaves, usage) = (toy.leaves.lock().clone(), toy.store.usage());
    drop(toy);
    let (store, superblock) = ZonedStore::open(device.clone(), &options()).unwrap();
    assert_eq!(superblock, b"super");
    let toy = Toy::recover(store);
    assert_eq!(*toy.leaves.lock(), leaves);
    assert_eq!(toy.store.usage().live_page_bytes, usage.live_page_bytes);
    toy.check_all();
    let active = toy.store.usage().active_zones;
    for n in 300..320 {
        toy.put(id(n), n, 1).unwrap();
    }
    assert_eq!(toy.store.usage().active_zones, active, "the partly written zone is continued");
    toy.check_all();
}

/// Pages, values, log and MetaLog in zones that are partly written, and some that are full.
fn with_everything() -> (Faulty<MemDevice>, Toy, SegmentId) {
    let device = Faulty::new(MemDevice::new(Geometry::new(256 << 10, 64).with_limits(14, 14)).unwrap(), 1);
    let toy = Toy::new(ZonedStore::create(Arc::new(device.clone()), &options()).unwrap());
    for n in 0..200 {
        toy.put(id(n), n, 1 + n % 2).unwrap();
        toy.put_value(&vec![u8::try_from(n).unwrap(); 3_000]).unwrap();
    }
    let (_, segment) = toy.store.area(AreaKind::Log).append(b"logged").unwrap();
    toy.commit().unwrap();
    (device, toy, segment)
}

/// A store that was left with a zone of the MetaLog and one of pages partly written.
fn with_zones_to_go_on() -> Faulty<MemDevice> {
    let device = Faulty::new(MemDevice::new(Geometry::new(256 << 10, 64).with_limits(4, 4)).unwrap(), 1);
    let toy = Toy::new(ZonedStore::create(Arc::new(device.clone()), &options()).unwrap());
    toy.put(id(1), 1, 1).unwrap();
    toy.commit().unwrap();
    device
}

#[test]
fn a_zone_that_was_to_go_on_and_is_not_opened_is_finished() {
    let device = with_zones_to_go_on();
    let active = || device.report(ZoneId(0), 64).unwrap().into_iter().filter(|zone| zone.state.is_active());
    let before: Vec<_> = active().map(|zone| zone.zone).collect();
    assert_eq!(before.len(), 2, "MetaLog and pages");
    for &zone in &before {
        let effect = FaultEffect::Error(ErrorKind::Media);
        device.inject(Fault { call: Some(DeviceCall::Open), zone: Some(zone), when: FaultWhen::From(1), effect });
    }
    let toy = Toy::recover(ZonedStore::open(Arc::new(device.clone()), &options()).unwrap().0);
    assert_eq!(active().count(), 0);
    toy.check_all();
    toy.put(id(2), 1, 1).unwrap();
    toy.commit().unwrap();
    toy.check_all();
    assert!(active().all(|zone| !before.contains(&zone.zone)));
}

#[test]
fn a_zone_that_was_to_go_on_and_may_not_be_written_any_more_stays_as_it_is() {
    let device = with_zones_to_go_on();
    for zone in device.report(ZoneId(0), 64).unwrap().into_iter().filter(|zone| zone.state.is_active()) {
        let effect = FaultEffect::Retire(ZoneState::ReadOnly);
        device.inject(Fault { call: Some(DeviceCall::Open), zone: Some(zone.zone), when: FaultWhen::Nth(1), effect });
    }
    let toy = Toy::recover(ZonedStore::open(Arc::new(device.clone()), &options()).unwrap().0);
    toy.check_all();
    toy.put(id(2), 1, 1).unwrap();
    toy.commit().unwrap();
    toy.check_all();
}

#[test]
fn a_zone_header_that_is_not_read_costs_nothing() {
    let (device, toy, segment) = with_everything();
    let (leaves, values) = (toy.leaves.lock().clone(), toy.values.lock().clone());
    drop(toy);
    let mut segments = None;
    for zone in (0..64).map(ZoneId) {
        let effect = FaultEffect::Error(ErrorKind::Media);
        device.inject(Fault { call: Some(DeviceCall::Read), zone: Some(zone), when: FaultWhen::Nth(1), effect });
        let (store, _) = ZonedStore::open(Arc::new(device.clone()), &options()).unwrap();
        device.heal();
        let ids = |kind| store.area(kind).segments().iter().map(|segment| segment.id).collect::<Vec<_>>();
        let found = [AreaKind::Log, AreaKind::Meta].map(ids);
        assert_eq!(*segments.get_or_insert_with(|| found.clone()), found, "{zone}");
        let mut logged = Vec::new();
        store
            .area(AreaKind::Log)
            .read_segment(segment, &mut |chunk| {
                logged.push(chunk.payload.to_vec());
                Ok(true)
            })
            .unwrap();
        assert_eq!(logged, [b"logged"], "{zone}");
        let toy = Toy::recover(store);
        assert_eq!(*toy.leaves.lock(), leaves, "{zone}");
        assert_eq!(*toy.values.lock(), values, "{zone}");
        toy.check_all();
        toy.check_values();
    }
}

#[test]
fn a_zone_that_may_be_the_end_of_the_log_is_not_opened_without() {
    let (device, toy, _) = with_everything();
    drop(toy);
    let mut refused = 0;
    for zone in (0..64).map(ZoneId) {
        let effect = FaultEffect::Error(ErrorKind::Media);
        device.inject(Fault { call: Some(DeviceCall::Read), zone: Some(zone), when: FaultWhen::From(1), effect });
        if let Err(error) = ZonedStore::open(Arc::new(device.clone()), &options()) {
            assert!(matches!(error, PageError::Damaged { what: "zone header", .. }), "{error}");
            refused += 1;
        }
        device.heal();
    }
    assert!(refused >= 4, "log, MetaLog, pages, values: {refused}");
}

/// Puts into an empty zone a header that is intact, and names a stream that has no zones on the device.
fn plant_stream(device: &MemDevice, stream: u8) {
    let mut block = AlignedBuf::with_len(4096);
    device.read(Lba(0), &mut block).unwrap();
    let mut header = ZoneHeader::decode(&block).unwrap();
    let stream = StreamId(stream);
    (header.zone, header.generation, header.stream, header.holds) = (40, 1_000, Some(stream), StreamSet::of(stream));
    header.encode(&mut block);
    device.write(device.geometry().zone_start(ZoneId(40)), &block).unwrap();
}

#[test]
fn a_header_of_a_stream_that_the_device_has_no_zones_for_is_damage() {
    let is_damage = |opened: Result<(Arc<ZonedStore>, Vec<u8>), PageError>| {
        let error = opened.map(|_| ()).unwrap_err();
        assert!(matches!(error, PageError::Damaged { what: "zone header", .. }), "{error}");
    };
    let alone = device();
    drop(create(&alone));
    plant_stream(&alone, 9);
    is_damage(ZonedStore::open(alone, &options()));
    for (log_stream, pages_stream) in [(None, Some(0)), (Some(2), None)] {
        let (pages, log) = (device(), device());
        drop(ZonedStore::create_with_log(pages.clone(), log.clone(), &options()).unwrap());
        log_stream.into_iter().for_each(|stream| plant_stream(&log, stream));
        pages_stream.into_iter().for_each(|stream| plant_stream(&pages, stream));
        is_damage(ZonedStore::open_with_log(pages, log, &options()));
    }
}

#[test]
fn what_is_no_store_or_has_unknown_features_is_refused() {
    let empty = device();
    assert!(matches!(ZonedStore::open(empty.clone(), &options()), Err(PageError::Space(_))));
    let featured = StoreOptions { features: 4, ..options() };
    ZonedStore::create(empty.clone(), &featured).unwrap();
    assert!(matches!(ZonedStore::open(empty.clone(), &options()), Err(PageError::Space(_))));
    assert!(ZonedStore::open(empty.clone(), &featured).is_ok());
    let again = StoreOptions { store_id: StoreId(5), ..options() };
    assert!(matches!(ZonedStore::create(empty.clone(), &again), Err(PageError::Space(_))), "not without overwrite");
    assert!(ZonedStore::create(empty, &StoreOptions { overwrite: true, ..again }).is_ok());
}

#[test]
fn absurd_options_and_devices_are_refused_with_numbers() {
    for bad in [
        StoreOptions { group_pages: 0, ..options() },
        StoreOptions { group_pages: 65, ..options() },
        StoreOptions { sequencer_groups_max: 0, ..options() },
        StoreOptions { hot_writers_max: 0, ..options() },
        StoreOptions { active_limit: Some(3), ..options() },
        StoreOptions { log_limit_bytes: u64::MAX / 8, ..options() },
        StoreOptions { extra_reserve_zones: 64, ..options() },
        StoreOptions { superblock: vec![0; 2049], ..options() },
    ] {
        let device = device();
        assert!(matches!(ZonedStore::create(device.clone(), &bad), Err(PageError::Space(_))), "{bad:?}");
        assert_eq!(device.counters().writes, 0);
    }
}

/// Random writes, deletes, values and reclaim until the power goes; returns the last committed state.
fn run_until_cut(device: &PowerCut, toy: &Toy, rng: &mut Rng, version: u64) -> Result<(), PageError> {
    for n in 0..4000 {
        let page = id(rng.below(700));
        match rng.below(20) {
            0 => toy.delete(page),
            1 => drop(toy.put_value(&vec![u8::try_from(rng.below(250)).unwrap(); 1 + rng.index(20_000)])?),
            2 => {
                let at = toy.values.lock().keys().min().copied();
                at.into_iter().for_each(|at| toy.delete_value(at));
            }
            3 => toy.commit()?,
            _ => toy.put(page, version + n, 1 + rng.below(2))?,
        }
        for _ in 0..3 {
            toy.store.reclaim_step(toy)?;
        }
    }
    device.cut();
    Ok(())
}

#[test]
fn after_any_power_cut_the_last_commit_is_whole_and_the_store_goes_on() {
    let mut resets = 0;
    for seed in 0..24 {
        let mut rng = Rng::seeded(seed);
        let mut device = PowerCut::new(Geometry::new(256 << 10, 40).with_limits(6, 6)).unwrap();
        let mut toy = Toy::new(ZonedStore::create(Arc::new(device.clone()), &options()).unwrap());
        toy.commit().unwrap();
        for life in 0..4u64 {
            device.arm(CutAt::Change(1 + rng.below(2500)));
            let ended = run_until_cut(&device, &toy, &mut rng, (life + 1) << 20);
            resets += toy.store.usage().zones_reset;
            if let Err(error) = ended {
                assert!(device.cut_report().is_some(), "seed {seed} life {life}: {error}");
            }
            let survivor = device.reopen(&mut rng);
            device = PowerCut::over(survivor);
            let (store, _) = ZonedStore::open(Arc::new(device.clone()), &options())
                .unwrap_or_else(|error| panic!("seed {seed} life {life}: {error}"));
            let before = std::mem::replace(&mut toy, Toy::recover(store));
            toy.check_committed(&before);
            toy.check_all();
            toy.check_values();
        }
    }
    assert!(resets > 100, "{resets} resets");
}

#[test]
fn cuts_hit_every_labelled_point() {
    let device = PowerCut::new(Geometry::new(256 << 10, 40).with_limits(6, 6)).unwrap();
    let toy = Toy::new(ZonedStore::create(Arc::new(device.clone()), &options()).unwrap());
    toy.store.area(AreaKind::Log).append(b"log").unwrap();
    run_until_cut(&device, &toy, &mut Rng::seeded(1), 1).unwrap();
    let labels = device.operations_by_label();
    for label in ["page group", "log", "address record", "values", "reset", "finish"] {
        assert!(labels.contains_key(label), "{label} is missing in {labels:?}");
    }
}
