//! The reserve, back-pressure, and what usage says.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::time::Duration;

use common::{DATA_BLOCKS, HOT, RELOCATED, blocks, device, format};
use zonda_device::ZoneId;
use zonda_space::{Space, SpaceError, Urgency, VictimPolicy};

/// Fills zones with `live` bytes each until foreground writers get no more; returns how many.
fn fill(space: &Space, live: u64) -> u32 {
    for filled in 0.. {
        match space.open_zone(HOT, Urgency::Foreground) {
            Ok(mut writer) => {
                space.add_live(writer.zone(), live);
                writer.write(&blocks(1, DATA_BLOCKS)).unwrap();
            }
            Err(SpaceError::NoSpace { free_zones, reserve_zones, .. }) => {
                assert_eq!((free_zones, reserve_zones), (3, 3));
                return filled;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a device is finite")
}

#[test]
fn foreground_writers_leave_the_reserve_and_relocation_may_take_it() {
    let space = format(&device(14));
    assert_eq!(fill(&space, 4096), 13);
    for _ in 0..3 {
        let writer = space.open_zone(RELOCATED, Urgency::Reserve).unwrap();
        space.seal(writer);
    }
    let error = space.open_zone(RELOCATED, Urgency::Reserve).unwrap_err();
    assert!(matches!(error, SpaceError::NoSpace { free_zones: 0, live_bytes: 53_248, .. }), "{error}");
}

#[test]
fn usage_adds_up() {
    let space = format(&device(8));
    fill(&space, 1000);
    let usage = space.usage();
    let zone_bytes = DATA_BLOCKS * 4096;
    assert_eq!(usage.capacity_bytes, 16 * zone_bytes);
    assert_eq!(usage.reserve_bytes, (3 + 8) * zone_bytes);
    assert_eq!(usage.usable_bytes, 5 * zone_bytes);
    assert_eq!((usage.live_bytes, usage.free_zones, usage.zones), (13_000, 3, 16));
}

#[test]
fn a_waiting_writer_wakes_when_a_zone_is_reset() {
    for seed in 0..20 {
        zonda_rt::sim::run(seed, || {
            let space = format(&device(14));
            fill(&space, 4096);
            let cleaner = space.clone();
            let cleaning = zonda_rt::spawn("cleaner", move || {
                zonda_rt::sleep(Duration::from_millis(5));
                cleaner.sub_live(ZoneId(3), 4096);
                let victim = cleaner.victim(VictimPolicy::Greedy, &|_| true).unwrap();
                assert_eq!(victim.zone, ZoneId(3));
                cleaner.reset(victim.zone).unwrap();
            });
            space.wait_for_free(Duration::from_secs(3600), &|_| false).unwrap();
            assert!(zonda_rt::now().since(zonda_rt::Time::default()) < Duration::from_secs(60), "woken, not timed out");
            assert_eq!(space.open_zone(HOT, Urgency::Foreground).unwrap().zone(), ZoneId(3));
            cleaning.join().unwrap();
        });
    }
}

#[test]
fn a_waiting_writer_gives_up_when_it_is_hopeless() {
    let space = format(&device(14));
    fill(&space, DATA_BLOCKS * 4096);
    let hopeless = |usage: &zonda_space::SpaceUsage| usage.live_bytes > usage.usable_bytes;
    let error = space.wait_for_free(Duration::from_secs(3600), &hopeless).unwrap_err();
    assert!(matches!(error, SpaceError::NoSpace { .. }), "{error}");
}

#[test]
fn a_claimed_zone_is_no_victim_again() {
    let space = format(&device(14));
    fill(&space, 4096);
    let any = |_: &_| true;
    let victim = space.victim(VictimPolicy::Greedy, &any).unwrap();
    assert!(space.begin_relocation(victim.zone));
    assert!(!space.begin_relocation(victim.zone));
    assert_ne!(space.victim(VictimPolicy::Greedy, &any).unwrap().zone, victim.zone);
    space.end_relocation(victim.zone);
    assert_eq!(space.victim(VictimPolicy::Greedy, &any).unwrap().zone, victim.zone);
}

#[test]
fn age_is_counted_in_blocks_written_since_the_last_death() {
    let space = format(&device(14));
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    space.add_live(zone, 100);
    writer.write(&blocks(1, 5)).unwrap();
    assert_eq!(space.view()[zone.0 as usize].age_blocks, 6);
    space.sub_live(zone, 40);
    assert_eq!((space.view()[zone.0 as usize].age_blocks, space.live_bytes(zone)), (0, 60));
    space.sub_live(zone, 4096);
    assert_eq!(space.live_bytes(zone), 0);
}
