//! Zones that fail under a write: pages are placed again, chunks too, nobody reads anything wrong.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{Toy, create, id, look_again_while_reads_fail, options};
use zonda_device::{
    ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, ZoneId, ZoneState, ZonedDevice,
};
use zonda_pages::{AreaKind, PageStore, ZoneUse, ZonedStore};
use zonda_rt::{DeviceCall, Rng};

type Device = Arc<Faulty<MemDevice>>;

fn faulty() -> Device {
    let geometry = Geometry::new(256 << 10, 64).with_limits(14, 14);
    Arc::new(Faulty::new(MemDevice::new(geometry).unwrap(), 9))
}

fn fail(device: &Device, when: FaultWhen, effect: FaultEffect) {
    device.inject(Fault { call: Some(DeviceCall::Write), zone: None, when, effect });
}

const EFFECTS: [FaultEffect; 3] =
    [FaultEffect::Torn { blocks: 0 }, FaultEffect::Torn { blocks: 2 }, FaultEffect::Retire(ZoneState::ReadOnly)];

#[test]
fn pages_of_a_failed_zone_are_placed_again_and_old_addresses_still_lead_to_them() {
    for effect in EFFECTS {
        let device = faulty();
        let toy = Toy::new(create(&device));
        for n in 0..20 {
            toy.put(id(n), n, 1 + n % 3).unwrap();
        }
        toy.settle().unwrap();
        for n in 20..30 {
            toy.put(id(n), n, 1 + n % 3).unwrap();
        }
        let before = toy.leaves.lock().clone();
        fail(&device, FaultWhen::Nth(1), effect);
        toy.settle().unwrap();
        assert_eq!(device.injected(), 1);
        toy.check_all();
        let moved = before.iter().filter(|(id, leaf)| toy.leaves.lock()[id].at != leaf.at).count();
        assert!(moved >= 2, "{effect:?}: {moved} moved");
        for (id, leaf) in before {
            let expected = toy.body(id, leaf.version, leaf.blocks);
            toy.store.read(id, leaf.at, &mut |body| assert!(body == expected)).unwrap();
        }
        let live: u64 = toy.leaves.lock().values().map(|leaf| leaf.at.len_bytes()).sum();
        assert_eq!(toy.store.usage().live_page_bytes, live, "{effect:?}");
    }
}

/// What is on the device before the zone failed is counted there, the rest where it is placed again.
#[test]
fn whatever_the_device_wrote_of_a_failed_write_is_counted_once() {
    for blocks in 0..=4 {
        let device = faulty();
        let toy = Toy::new(create(&device));
        (0..4).for_each(|n| toy.put(id(n), n, 1).unwrap());
        fail(&device, FaultWhen::Nth(1), FaultEffect::Torn { blocks });
        toy.settle().unwrap();
        assert_eq!((device.injected(), toy.store.written_by().flush), (1, 4 * 4096), "{blocks} blocks");
        fail(&device, FaultWhen::Nth(1), FaultEffect::Torn { blocks: blocks.min(3) });
        toy.store.area(AreaKind::Log).append(&[1; 9000]).unwrap();
        assert_eq!((device.injected(), toy.store.written_by().log), (2, 3 * 4096), "{blocks} blocks of a chunk");
    }
}

#[test]
fn pages_released_while_their_zone_fails_stay_readable_and_are_counted_once() {
    let device = faulty();
    let toy = Toy::new(create(&device));
    for n in 0..4 {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.put(id(0), 100, 1).unwrap();
    let old = toy.leaves.lock()[&id(1)];
    toy.put(id(1), 101, 1).unwrap();
    fail(&device, FaultWhen::Nth(1), FaultEffect::Torn { blocks: 0 });
    toy.settle().unwrap();
    let expected = toy.body(id(1), old.version, 1);
    toy.store.read(id(1), old.at, &mut |body| assert!(body == expected, "an older reader's page")).unwrap();
    assert_eq!(toy.store.usage().live_page_bytes, 4 * 4096);
    toy.check_all();
}

#[test]
fn chunks_of_a_failed_zone_are_written_again_in_order() {
    // The last is an error of a chunk that is on the device whole: as of a command that a reset of the drive's controller answers.
    for effect in EFFECTS.into_iter().chain([FaultEffect::Torn { blocks: 3 }]) {
        for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
            let device = faulty();
            let store = create(&device);
            let area = store.area(kind);
            for n in 0..20u8 {
                if n % 7 == 3 {
                    fail(&device, FaultWhen::Nth(1), effect);
                }
                let (at, _) = area.append(&vec![n; 9000]).unwrap();
                assert_eq!(area.read_chunk(at, 9000).unwrap(), vec![n; 9000]);
            }
            assert_eq!(device.injected(), 3);
            let mut found = Vec::new();
            for segment in area.segments() {
                let visit = &mut |chunk: zonda_pages::Chunk<'_>| {
                    found.push(chunk.payload[0]);
                    Ok(true)
                };
                area.read_segment(segment.id, visit).unwrap();
            }
            assert_eq!(found, (0..20).collect::<Vec<_>>(), "{kind:?} {effect:?}");
        }
    }
}

#[test]
fn a_value_that_was_busy_and_is_not_read_for_now_stays() {
    let device = faulty();
    let fail_reads = |nth: &[u64]| {
        let effect = FaultEffect::Error(ErrorKind::Io);
        let rule = |&nth| Fault { call: Some(DeviceCall::Read), zone: None, when: FaultWhen::Nth(nth), effect };
        nth.iter().map(rule).for_each(|rule| device.inject(rule));
    };
    assert!(look_again_while_reads_fail(&Toy::new(create(&device)), &fail_reads), "a zone stays for good");
    assert_eq!(device.injected(), 4);
}

#[test]
fn a_device_that_fails_every_write_ends_in_an_error() {
    let device = faulty();
    let toy = Toy::new(create(&device));
    toy.put(id(1), 1, 1).unwrap();
    fail(&device, FaultWhen::From(1), FaultEffect::Torn { blocks: 0 });
    assert!(toy.settle().is_err());
    assert!(toy.store.area(AreaKind::Log).append(b"x").is_err());
    toy.check(id(1));
    device.heal();
    toy.settle().unwrap();
    toy.check(id(1));
}

#[test]
fn writing_and_reclaiming_go_on_over_many_failures() {
    let device = faulty();
    let toy = Toy::new(create(&device));
    let mut rng = Rng::seeded(4);
    fail(&device, FaultWhen::Chance(0.008), FaultEffect::Torn { blocks: 1 });
    for n in 0..12_000 {
        toy.put(id(rng.below(1200)), n, 1).unwrap();
        if n % 8 == 0 {
            toy.reclaim();
        }
    }
    assert!(device.injected() > 5);
    toy.check_all();
    assert_eq!(toy.store.usage().live_page_bytes, toy.leaves.lock().len() as u64 * 4096);
}

/// Of the copies in the second zone some are dead from the beginning; each is counted once, or the zone is reset under a page that lives.
#[test]
fn pages_whose_zones_fail_one_after_the_other_stay_live() {
    for seed in 0..4 {
        let device = faulty();
        let toy = Toy::new(create(&device));
        let pages = toy.store.usage().usable_bytes * 95 / 100 / 4096;
        let mut rng = Rng::seeded(seed);
        for n in 0..pages * 6 {
            if n == pages {
                fail(&device, FaultWhen::Chance(0.008), FaultEffect::Torn { blocks: 1 });
            }
            let page = if n < pages { n } else { rng.below(pages) };
            toy.put(id(page), n, 1).unwrap_or_else(|error| panic!("seed {seed}, put {n} of {pages} pages: {error}"));
        }
        assert!(device.injected() > 5);
        device.heal();
        toy.check_all();
    }
}

/// What it holds is moved whatever that gains, and hides nothing from a writer who needs many zones.
#[test]
fn a_writer_of_many_zones_gets_them_although_one_went_read_only_nearly_full() {
    let device = faulty();
    let toy = Toy::new(create(&device));
    (0..30).for_each(|n| toy.put(id(n), n, 1).unwrap());
    toy.settle().unwrap();
    let worn = ZoneId(u32::try_from(toy.leaves.lock()[&id(0)].at.block() / 64).unwrap());
    // Its last write fails.
    let effect = FaultEffect::Retire(ZoneState::ReadOnly);
    for n in 30.. {
        let usage = toy.store.map().into_iter().find(|entry| entry.zone == worn).unwrap();
        if usage.live_bytes >= 60 * 4096 {
            break;
        }
        toy.put(id(n), n, 1).unwrap();
        toy.pump().unwrap();
    }
    device.inject(Fault { call: Some(DeviceCall::Write), zone: Some(worn), when: FaultWhen::From(1), effect });
    for n in 2_000..2_000 + 64 * 14 {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.settle().unwrap();
    let state = |zone| toy.store.map().into_iter().find(|entry| entry.zone == zone).unwrap();
    assert!(state(worn).state == ZoneUse::ReadOnly && state(worn).live_bytes >= 56 * 4096, "{:?}", state(worn));
    (2_000..2_000 + 64 * 14).filter(|n| n % 2 == 0).for_each(|n| toy.delete(id(n)));
    let zones = (1..64).take_while(|zones| toy.store.press_for(zones * 63)).last().unwrap();
    assert!(!toy.store.press_for((zones + 4) * 63));
    toy.reclaim();
    assert!(toy.store.press_for((zones + 4) * 63), "seven zones' worth of the others was dead");
    toy.check_all();
}

/// A zone that wears out when it is reset costs its space and nothing else.
#[test]
fn reclaiming_goes_on_when_zones_wear_out_at_their_reset() {
    for effect in [FaultEffect::Retire(ZoneState::ReadOnly), FaultEffect::Retire(ZoneState::Offline)] {
        let device = faulty();
        let toy = Toy::new(create(&device));
        let mut rng = Rng::seeded(5);
        for n in 0..6_000 {
            if n % 1_500 == 1_000 {
                device.inject(Fault { call: Some(DeviceCall::Reset), zone: None, when: FaultWhen::Nth(1), effect });
            }
            toy.put(id(rng.below(1200)), n, 1).unwrap();
            if n % 8 == 0 {
                toy.reclaim();
            }
        }
        assert_eq!(device.injected(), 4, "{effect:?}");
        toy.check_all();
        assert_eq!(toy.store.usage().live_page_bytes, toy.leaves.lock().len() as u64 * 4096);
    }
}

/// Nobody needs what is in such a zone, so it is nobody's error, and it is not lost either.
#[test]
fn reclaiming_goes_on_past_zones_that_are_not_reset() {
    let device = faulty();
    let toy = Toy::new(create(&device));
    let mut rng = Rng::seeded(6);
    let unreset = [ZoneId(3), ZoneId(4)];
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
    for zone in unreset {
        device.inject(Fault { call, zone: Some(zone), when: FaultWhen::From(1), effect });
    }
    let mut came_back = BTreeSet::new();
    for n in 0..12_000 {
        if n == 6_000 {
            assert!(device.injected() > 2, "they are tried again");
            assert_eq!(came_back, BTreeSet::new());
            device.heal();
        }
        // Writers look for room by themselves, as nobody reclaims before they are short of it.
        toy.put(id(rng.below(1200)), n, 1).unwrap();
        let reports = device.report(ZoneId(0), device.geometry().zone_count).unwrap();
        let is_empty = |zone: &ZoneId| n > 1_000 && reports[zone.0 as usize].state == ZoneState::Empty;
        came_back.extend(unreset.into_iter().filter(is_empty));
    }
    assert_eq!(came_back, BTreeSet::from(unreset));
    toy.check_all();
    assert_eq!(toy.store.usage().live_page_bytes, toy.leaves.lock().len() as u64 * 4096);
}

/// Of such a zone half is dead for good, and every other zone can be filled: its token is not missed, but its space is.
#[test]
fn a_zone_that_was_not_finished_at_first_is_cleaned() {
    let device = faulty();
    let toy = Toy::new(create(&device));
    let unfinished = ZoneId(3);
    let (call, effect) = (Some(DeviceCall::Finish), FaultEffect::Error(ErrorKind::Media));
    device.inject(Fault { call, zone: Some(unfinished), when: FaultWhen::Nth(1), effect });
    for n in 0..1_000 {
        toy.put(id(n), n, 2).unwrap();
    }
    let pinned = || {
        let leaves = toy.leaves.lock();
        leaves.iter().filter(|(id, leaf)| id.0 % 2 == 0 && leaf.at.block() / 64 == 3).count()
    };
    assert!(pinned() > 5 && device.injected() == 1, "{} pages, {} faults", pinned(), device.injected());
    let mut rng = Rng::seeded(7);
    for n in 1_000..8_000 {
        toy.put(id(rng.below(500) * 2 + 1), n, 2).unwrap();
        if n % 8 == 0 {
            toy.reclaim();
        }
    }
    assert_eq!(pinned(), 0, "they were moved, and the zone was reset");
    toy.check_all();
}

/// A store, and the device of its log, of which every zone is reset once its segment is released.
fn with_log() -> (Toy<ZonedStore>, Device) {
    let log = faulty();
    let below = Arc::clone(&log) as Arc<dyn ZonedDevice>;
    (Toy::new(ZonedStore::create_with_log(faulty(), below, &options()).unwrap()), log)
}

fn written_zones(log: &Device) -> usize {
    let reports = log.report(ZoneId(0), log.geometry().zone_count).unwrap();
    reports.iter().filter(|report| report.state != ZoneState::Empty).count()
}

/// Logs some zones, and releases all but the last.
fn log_and_release(toy: &Toy<ZonedStore>) {
    let area = toy.store.area(AreaKind::Log);
    for _ in 0..100 {
        area.append(&[7; 9000]).unwrap();
    }
    let segments = area.segments();
    segments[..segments.len() - 1].iter().for_each(|segment| area.release(segment.id).unwrap());
}

#[test]
fn a_zone_that_failed_on_a_device_of_the_log_alone_comes_back() {
    let (toy, log) = with_log();
    for _ in 0..4 {
        fail(&log, FaultWhen::Nth(20), FaultEffect::Torn { blocks: 1 });
        log_and_release(&toy);
        (0..4).for_each(|_| toy.reclaim());
        assert!(written_zones(&log) <= 2, "{} zones are written", written_zones(&log));
    }
    assert_eq!(log.injected(), 4);
}

#[test]
fn a_zone_of_the_log_that_is_not_reset_for_now_is_nobodys_error() {
    let (toy, log) = with_log();
    log_and_release(&toy);
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
    log.inject(Fault { call, zone: None, when: FaultWhen::From(1), effect });
    (0..4).for_each(|_| toy.reclaim());
    assert!(log.injected() > 1 && written_zones(&log) > 2);
    toy.store.area(AreaKind::Log).append(&[7; 9000]).unwrap();
    log.heal();
    (0..4).for_each(|_| toy.reclaim());
    assert!(written_zones(&log) <= 2, "{} zones are written", written_zones(&log));
}
