//! Reset: what it refuses, and that no generation number is ever used twice.

mod common;

use common::{COLD, DATA_BLOCKS, HOT, LOG, as_zoned, blocks, device, format, options};
use zonda_device::{ZoneState, ZonedDevice};
use zonda_space::{Space, SpaceError, Urgency, ZoneUse};

#[test]
fn a_zone_with_a_writer_or_nothing_in_it_is_not_reset() {
    let space = format(&device(14));
    let writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert!(matches!(space.reset(writer.zone()), Err(SpaceError::WrongState { state: "open", .. })));
    let free = zonda_device::ZoneId(9);
    assert!(matches!(space.reset(free), Err(SpaceError::WrongState { state: "free", .. })));
}

#[test]
#[should_panic(expected = "I3")]
fn a_zone_with_live_bytes_is_not_reset() {
    let space = format(&device(14));
    let writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    space.add_live(zone, 1);
    space.seal(writer);
    space.reset(zone).unwrap();
}

#[test]
fn the_newest_zone_is_kept_until_a_newer_header_is_durable() {
    let device = device(14);
    let space = format(&device);
    let old = space.open_zone(COLD, Urgency::Foreground).unwrap();
    let newest = space.open_zone(LOG, Urgency::Reserve).unwrap();
    let (zone, generation) = (newest.zone(), newest.generation());
    space.seal(old);
    space.seal(newest);
    space.reset(zone).unwrap();
    assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::Retired);
    drop(space);

    let (space, recovered) = Space::open(as_zoned(&device), &options()).unwrap();
    assert_eq!(recovered.zones.len(), 2, "the retired zone is still there");
    space.reset(zone).unwrap();
    let writer = space.open_zone(LOG, Urgency::Reserve).unwrap();
    assert!(writer.generation() > generation);
    assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::Free);
    assert_eq!(device.report(zone, 1).unwrap()[0].state, ZoneState::Empty);
}

#[test]
fn resets_flush_only_while_the_newest_header_is_not_durable() {
    let device = device(14);
    let space = format(&device);
    let mut zones = Vec::new();
    for _ in 0..4 {
        let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
        writer.write(&blocks(1, DATA_BLOCKS)).unwrap();
        zones.push(writer.zone());
    }
    space.flush().unwrap();
    let before = device.counters();
    for &zone in &zones[..3] {
        space.reset(zone).unwrap();
    }
    let done = device.counters().since(&before);
    assert_eq!((done.resets, done.flushes), (3, 0), "one flush before served them all");
    assert_eq!(space.usage().zones_reset, 4, "the anchor and three");
}

#[test]
fn a_partly_written_zone_gives_its_token_back_when_it_is_reset() {
    let space = format(&device(14));
    let first = space.open_zone(LOG, Urgency::Reserve).unwrap();
    let zone = first.zone();
    drop(first);
    let _newer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_eq!(space.usage().active, 2);
    space.reset(zone).unwrap();
    assert_eq!(space.usage().active, 1);
}
