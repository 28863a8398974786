//! Which zones writers get, and how tokens are kept within the budget.

mod common;

use common::{
    COLD, DATA_BLOCKS, HOT, LOG, META, RELOCATED, VALUES, as_zoned, blocks, byte_at, device, format, options,
};
use zonda_device::{ZoneId, ZoneState, ZonedDevice};
use zonda_space::{Space, SpaceError, StreamId, Urgency, ZoneUse};

#[test]
fn the_lowest_free_zone_is_taken_and_generations_grow() {
    let space = format(&device(14));
    // Zone 0 holds the anchor until another header is durable.
    let first = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let second = space.open_zone(LOG, Urgency::Reserve).unwrap();
    assert_eq!((first.zone(), second.zone()), (ZoneId(1), ZoneId(0)));
    assert!(first.generation() < second.generation());
    assert_eq!(space.generation_of(ZoneId(0)), Some(second.generation()));
    assert_eq!(space.generation_of(ZoneId(5)), None);
    assert_eq!(first.next_block(), space.first_block(ZoneId(1)) + 1);
}

#[test]
fn zones_are_open_explicitly_while_they_are_written_and_full_ones_give_their_token_back() {
    let device = device(14);
    let space = format(&device);
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let zone = writer.zone();
    assert_eq!(device.report(zone, 1).unwrap()[0].state, ZoneState::ExplicitOpen);
    let first = writer.write(&blocks(7, DATA_BLOCKS - 1)).unwrap();
    assert_eq!(space.usage().active, 1);
    assert!(matches!(writer.write(&blocks(8, 2)), Err(SpaceError::DoesNotFit { blocks: 2, remaining: 1, .. })));
    writer.write(&blocks(8, 1)).unwrap();
    assert!(writer.is_closed());
    assert_eq!((space.usage().active, writer.remaining_blocks()), (0, 0));
    assert_eq!((byte_at(&space, first), byte_at(&space, first + DATA_BLOCKS - 1)), (7, 8));
    assert_eq!(space.view()[zone.0 as usize].state, ZoneUse::Sealed);
}

#[test]
fn a_stream_gets_no_more_zones_than_its_share() {
    let space = format(&device(8));
    let held: Vec<_> = (0..2).map(|_| space.open_zone(HOT, Urgency::Foreground).unwrap()).collect();
    let error = space.open_zone(HOT, Urgency::Foreground).unwrap_err();
    assert!(matches!(error, SpaceError::StreamFull { stream: HOT, held: 2, held_max: 2 }), "{error}");
    for writer in held {
        space.seal(writer);
    }
    assert!(space.open_zone(HOT, Urgency::Foreground).is_ok());
    assert!(matches!(space.open_zone(StreamId(9), Urgency::Foreground), Err(SpaceError::NoSuchStream(StreamId(9)))));
}

#[test]
fn with_four_active_zones_the_data_streams_share_one_zone_and_nothing_gets_stuck() {
    let device = device(4);
    let space = format(&device);
    let log = space.open_zone(LOG, Urgency::Reserve).unwrap();
    let meta = [(); 2].map(|()| space.open_zone(META, Urgency::Reserve).unwrap());
    for stream in [HOT, VALUES, COLD, RELOCATED] {
        let writer = space.open_zone(stream, Urgency::Foreground).unwrap();
        assert_eq!(writer.stream(), HOT);
        assert!([HOT, VALUES, COLD, RELOCATED].iter().all(|&stream| writer.holds().contains(stream)));
        assert!(!writer.holds().contains(LOG));
        assert!(matches!(space.open_zone(COLD, Urgency::Reserve), Err(SpaceError::StreamFull { .. })));
        assert_eq!(space.usage().active, 4);
        space.seal(writer);
    }
    drop((log, meta));
    assert_eq!(space.usage().active, 3, "zones of dropped writers keep their tokens");
}

#[test]
fn too_few_active_zones_are_refused_and_nothing_is_written() {
    let device = device(3);
    let error = Space::format(as_zoned(&device), common::new_store(1), &options()).unwrap_err();
    assert!(matches!(error, SpaceError::TooFewActive { active_max: 3, needed: 4 }), "{error}");
    assert_eq!(device.counters().written_bytes, 0);
}

#[test]
fn an_option_limits_the_tokens_further() {
    let limited = zonda_space::SpaceOptions { active_limit: Some(6), ..options() };
    let space = Space::format(as_zoned(&device(14)), common::new_store(1), &limited).unwrap();
    assert_eq!(space.usage().active_max, 6);
    assert_eq!(space.share_of(RELOCATED).unwrap().stream, COLD);
}

#[test]
fn a_device_with_few_zones_gets_a_smaller_budget_and_a_tiny_one_is_refused() {
    let with_zones = |zones| {
        let geometry = zonda_device::Geometry { zone_count: zones, ..common::geometry(14) };
        let device = std::sync::Arc::new(zonda_device::MemDevice::new(geometry).unwrap());
        Space::format(as_zoned(&device), common::new_store(1), &options())
    };
    assert_eq!(with_zones(10).unwrap().shares().iter().map(|share| share.zones).sum::<u32>(), 6);
    assert_eq!(with_zones(8).unwrap().shares().len(), 3);
    assert!(matches!(with_zones(7), Err(SpaceError::TooFewZones { zones: 7, needed: 8 })));
}

#[test]
fn written_bytes_are_counted_by_stream_and_headers_apart() {
    let space = format(&device(14));
    let mut writer = space.open_zone(VALUES, Urgency::Foreground).unwrap();
    writer.write(&blocks(1, 3)).unwrap();
    let written = space.written_by_stream();
    assert_eq!((written.headers, written.streams), (2 * 4096, vec![(VALUES, 3 * 4096)]));
}

#[test]
fn buffers_must_be_whole_blocks() {
    let space = format(&device(14));
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    for bytes in [0, 4095, 4097] {
        let buffer = zonda_device::AlignedBuf::with_len(bytes);
        assert!(matches!(writer.write(&buffer), Err(SpaceError::NotWholeBlocks { .. })));
    }
    assert_eq!(writer.remaining_blocks(), DATA_BLOCKS);
}
