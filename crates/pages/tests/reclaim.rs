//! Reclaim: live pages move, dead zones come back, in the order of I3.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use common::{Toy, create, device, device_of, id};
use std::collections::BTreeSet;
use std::sync::Arc;
use zonda_device::ZonedDevice;
use zonda_pages::{AreaKind, PageAddress, PageError, PageStore, Reclaimed, SegmentId, ZoneUse, ZonedStore};
use zonda_rt::Rng;
use zonda_rt::atomic::Ordering;

/// Pages whose live bytes are `percent` % of the usable space.
fn pages_for(toy: &Toy, percent: u64) -> u64 {
    toy.store.usage().usable_bytes * percent / 100 / 4096
}

fn churn(toy: &Toy, pages: u64, writes: u64, seed: u64) {
    let mut rng = Rng::seeded(seed);
    for n in 0..pages {
        toy.put(id(n), n, 1).unwrap();
        toy.reclaim();
    }
    for n in 0..writes {
        toy.put(id(rng.below(pages)), n, 1).unwrap();
        if n % 16 == 0 {
            toy.reclaim();
        }
    }
}

#[test]
fn overwriting_goes_on_for_ever_at_usable_space_of_1_25_times_the_live_bytes() {
    let toy = Toy::new(create(&device()));
    let pages = pages_for(&toy, 80);
    churn(&toy, pages, pages * 10, 1);
    toy.check_all();
    let (usage, written) = (toy.store.usage(), toy.store.written_by());
    assert_eq!(usage.live_page_bytes, pages * 4096);
    assert!(usage.zones_reset > 0 && written.relocation > 0);
    assert!(written.relocation < 3 * written.flush, "amplification: {written:?}");
}

#[test]
fn overwriting_goes_on_at_four_active_zones_and_with_cost_benefit() {
    let device = device_of(64, 4);
    let options =
        zonda_pages::StoreOptions { victim_policy: zonda_pages::VictimPolicy::CostBenefit, ..common::options() };
    let toy = Toy::new(ZonedStore::create(device.clone(), &options).unwrap());
    let pages = pages_for(&toy, 80);
    let values: Vec<_> = (0..20).map(|n| toy.put_value(&vec![n; 9000]).unwrap()).collect();
    churn(&toy, pages - 100, pages * 5, 2);
    toy.check_all();
    toy.check_values();
    assert_eq!(toy.values.lock().len(), values.len());
    assert!(toy.store.usage().active_zones <= 4);
}

#[test]
fn a_full_store_says_so_and_accepts_writes_again_after_deletes() {
    let toy = Toy::new(create(&device()));
    let mut full = 0;
    for n in 0.. {
        match toy.put(id(n), n, 1) {
            Ok(()) => toy.reclaim(),
            Err(PageError::NoSpace { live_bytes, usable_bytes, .. }) => {
                assert!(live_bytes + 4096 > usable_bytes, "I9 {live_bytes} of {usable_bytes}");
                full = n;
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(full >= pages_for(&toy, 100), "I9 {full} pages fit");
    toy.check_all();
    for n in 0..full / 2 {
        toy.delete(id(n * 2));
    }
    toy.reclaim();
    for n in 0..full / 4 {
        toy.put(id(n * 2), 7, 1).unwrap();
        toy.reclaim();
    }
    toy.check_all();
}

#[test]
fn zones_whose_pages_all_died_are_reset_without_being_read() {
    let toy = Toy::new(create(&device()));
    for round in 0..40 {
        for n in 0..64 {
            toy.put(id(n), round, 1).unwrap();
        }
        toy.reclaim();
    }
    assert!(toy.store.usage().zones_reset > 0);
    assert_eq!((toy.store.reads(), toy.relocated.load(Ordering::Relaxed)), ((0, 0), 0));
}

#[test]
fn nothing_is_reset_before_its_readers_are_gone() {
    let device = device();
    let toy = Toy::new(create(&device));
    toy.drained.store(false, Ordering::Relaxed);
    for n in 0..64 * 12 {
        toy.put(id(n % 64), n, 1).unwrap();
    }
    let old: Vec<PageAddress> = toy.leaves.lock().values().map(|leaf| leaf.at).collect();
    let resets = device.counters().resets;
    for _ in 0..100 {
        assert_ne!(toy.store.reclaim_step(&toy).unwrap(), Reclaimed::Idle);
    }
    assert_eq!(device.counters().resets, resets, "I3");
    assert!(toy.store.map().iter().any(|zone| zone.condemned));
    toy.drained.store(true, Ordering::Relaxed);
    toy.reclaim();
    assert!(device.counters().resets > resets);
    assert_eq!(toy.leaves.lock().values().filter(|leaf| old.contains(&leaf.at)).count(), 64);
    toy.check_all();
}

#[test]
fn a_latched_leaf_keeps_its_zone_until_it_is_free() {
    let toy = Toy::new(create(&device()));
    let pages = pages_for(&toy, 80);
    toy.latched.lock().extend((0..pages).map(id));
    for n in 0..pages {
        toy.put(id(n), n, 1).unwrap();
    }
    let mut waited = false;
    let mut rng = Rng::seeded(3);
    for n in 0.. {
        // With nobody to reclaim, `admit` would wait for ever.
        match toy.put_without_waiting(id(rng.below(pages)), n) {
            Ok(()) => waited |= toy.store.reclaim_step(&toy).unwrap() == Reclaimed::Waiting,
            Err(PageError::Busy) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(waited);
    assert_eq!(toy.relocated.load(Ordering::Relaxed), 0);
    toy.latched.lock().clear();
    toy.reclaim();
    assert!(toy.relocated.load(Ordering::Relaxed) > 0);
    toy.put_without_waiting(id(0), 0).unwrap();
    toy.check_all();
}

#[test]
fn a_zone_whose_pages_find_no_room_gives_way_to_one_in_which_more_has_died() {
    let toy = Toy::new(create(&device()));
    let pages = pages_for(&toy, 80);
    (0..pages).for_each(|n| toy.put(id(n), n, 1).unwrap());
    toy.homeless.lock().extend((0..pages).map(id));
    let mut rng = Rng::seeded(5);
    while toy.put_without_waiting(id(rng.below(pages)), 1).is_ok() {}
    toy.reclaim();
    let zones_reset = toy.store.usage().zones_reset;
    toy.reclaim();
    assert_eq!(toy.store.usage().zones_reset, zones_reset, "it is stuck");
    // All but one page of another zone die, and that one has room.
    let sealed = toy.store.map().into_iter().filter(|entry| entry.state == ZoneUse::Sealed);
    let fullest = sealed.max_by_key(|entry| entry.live_bytes).unwrap().zone.0;
    let zone_of = |leaf: &common::Leaf| u32::try_from(leaf.at.block() / 64).unwrap();
    let leaves = toy.leaves.lock().clone();
    let mut inside: Vec<_> = leaves.iter().filter(|(_, leaf)| zone_of(leaf) == fullest).map(|(&id, _)| id).collect();
    let last = inside.pop().unwrap();
    inside.into_iter().for_each(|id| toy.delete(id));
    toy.homeless.lock().retain(|&id| id != last);
    toy.reclaim();
    assert!(toy.store.usage().zones_reset > zones_reset);
    toy.check_all();
}

#[test]
fn a_page_of_a_reset_zone_is_never_served_from_the_cache() {
    let toy = Toy::new(create(&device()));
    toy.put(id(1), 1, 1).unwrap();
    toy.settle().unwrap();
    toy.check(id(1));
    let old = toy.leaves.lock()[&id(1)].at;
    for n in 0..3000 {
        toy.put(id(1 + n % 60), n, 1).unwrap();
        toy.reclaim();
    }
    toy.settle().unwrap();
    let answer = toy.store.read(id(1), old, &mut |body| {
        let leaf = toy.leaves.lock()[&id(1)];
        assert!(leaf.at == old && body == toy.body(id(1), leaf.version, 1), "I5 a stale page");
    });
    assert!(answer.is_err() || toy.leaves.lock()[&id(1)].at == old);
}

#[test]
fn values_move_and_their_zones_come_back() {
    let toy = Toy::new(create(&device()));
    let mut kept = Vec::new();
    for n in 0..4000u64 {
        let at =
            toy.put_value(&vec![u8::try_from(n % 251).unwrap(); 5000 + usize::try_from(n % 7000).unwrap()]).unwrap();
        if n % 40 == 0 {
            kept.push(n);
        } else {
            toy.delete_value(at);
        }
        toy.reclaim();
    }
    assert_eq!(toy.values.lock().len(), kept.len());
    toy.check_values();
    let usage = toy.store.usage();
    assert!(usage.zones_reset > 50 && usage.live_value_bytes <= 101 * 12288, "{usage:?}");
}

/// Values of a block each, 85 % of the usable space, each overwritten now and then until it is moved: then it is cold.
/// Segments that new values went to, and those that moved ones went to.
fn overwritten_values(active: u32) -> (BTreeSet<SegmentId>, BTreeSet<SegmentId>) {
    let toy = Toy::new(create(&device_of(64, active)));
    let (mut places, mut new) = (Vec::new(), BTreeSet::new());
    let mut put = |n: usize| {
        let at = toy.put_value(&[u8::try_from(n % 251).unwrap(); 3000]).unwrap();
        let segment = toy.values.lock()[&at].0;
        new.insert(segment);
        toy.reclaim();
        (at, segment)
    };
    let count = usize::try_from(pages_for(&toy, 85)).unwrap();
    (0..count).for_each(|n| places.push(put(n)));
    let mut rng = Rng::seeded(1);
    for n in (0..4 * count).map(|_| rng.index(count)) {
        let (at, segment) = places[n];
        if toy.values.lock().get(&at).is_some_and(|found| found.0 == segment) {
            toy.delete_value(at);
            places[n] = put(n);
        }
    }
    toy.check_values();
    let values = toy.values.lock();
    let all = values.iter().map(|(&at, &(segment, _))| (at, segment));
    let moved = all.filter(|place| !places.contains(place)).map(|(_, segment)| segment).collect();
    (new, moved)
}

#[test]
fn values_that_reclaim_moves_lie_apart_from_new_ones_where_there_is_a_zone_for_them() {
    let (new, moved) = overwritten_values(14);
    assert!(moved.len() > 1 && new.is_disjoint(&moved), "{moved:?}");
    let (new, moved) = overwritten_values(8);
    assert!(!new.is_disjoint(&moved), "one zone of values at a time");
}

#[test]
fn released_segments_come_back_although_readers_stay() {
    let toy = Toy::new(create(&device()));
    toy.drained.store(false, Ordering::Relaxed);
    let log = toy.store.area(AreaKind::Log);
    for _ in 0..20 {
        let (_, segment) = log.append(&[1; 200_000]).unwrap();
        let before: Vec<_> = log.segments().into_iter().filter(|other| other.id < segment).collect();
        before.iter().for_each(|old| log.release(old.id).unwrap());
        toy.reclaim();
        assert!(log.segments().len() == 1);
    }
    assert!(toy.store.usage().zones_reset >= 15);
}

#[test]
fn the_map_says_what_lives_where() {
    let device = device();
    let toy = Toy::new(create(&device));
    toy.put(id(1), 1, 1).unwrap();
    toy.store.area(AreaKind::Log).append(b"log").unwrap();
    toy.settle().unwrap();
    let map = toy.store.map();
    let named = |name| map.iter().find(|zone| zone.stream == Some(name)).unwrap();
    assert_eq!((map.len(), named("hot").live_bytes, named("log").live_bytes), (64, 4096, 4096));
    assert_eq!(named("hot").state, ZoneUse::Open);
    let _also_as_a_trait_object: Arc<dyn PageStore> = toy.store.clone();
    assert_eq!(device.geometry().zone_count, 64);
}

#[test]
fn value_bytes_of_an_earlier_life_are_an_estimate_that_reclaim_corrects() {
    let device = device();
    let toy = Toy::new(create(&device));
    let values: Vec<_> =
        (0..700u64).map(|n| toy.put_value(&vec![u8::try_from(n % 250).unwrap(); 12_000]).unwrap()).collect();
    values.iter().enumerate().filter(|(n, _)| n % 4 != 0).for_each(|(_, at)| toy.delete_value(*at));
    let known = toy.store.usage().live_value_bytes;
    toy.commit().unwrap();
    drop(toy);
    let toy = Toy::recover(ZonedStore::open(device, &common::options()).unwrap().0);
    let estimate = toy.store.usage().live_value_bytes;
    assert!(estimate > 3 * known, "{estimate} bytes for all that is known, {known} in truth");
    let pages = (toy.store.usage().usable_bytes - known) / 4096 * 9 / 10;
    for n in 0..pages {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.check_all();
    toy.check_values();
    let usage = toy.store.usage();
    assert!(usage.live_value_bytes < estimate && usage.live_page_bytes == pages * 4096, "{usage:?}");
}

#[test]
fn a_full_store_admits_merges_of_deletes_but_no_new_pages() {
    let toy = Toy::new(create(&device()));
    let full = (0..).find(|&n| toy.put(id(n), n, 1).is_err()).unwrap();
    assert!(matches!(toy.store.admit(1), Err(PageError::NoSpace { .. })));
    toy.store.admit(0).unwrap();
    toy.put_at(zonda_pages::Heat::Hot, id(0), 9, 1).unwrap();
    (0..full / 10).for_each(|n| toy.delete(id(n)));
    toy.store.admit(1).unwrap();
}
