//! What opening finds on the device, and what it refuses.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{COLD, DATA_BLOCKS, HOT, LOG, META, as_zoned, blocks, byte_at, device, format, new_store, options};
use zonda_device::{AlignedBuf, Geometry, Lba, MemDevice, ZoneId, ZoneState, ZonedDevice};
use zonda_space::{
    BLOCK_BYTES, NewStore, Recognised, Recovered, Space, SpaceError, SpaceOptions, StoreId, StreamSet, StreamSpec,
    Urgency, VERSION, ZoneHeader, ZoneUse,
};

fn open(device: &Arc<MemDevice>) -> (Space, Recovered) {
    Space::open(as_zoned(device), &options()).unwrap()
}

fn refused(device: &Arc<MemDevice>, options: &SpaceOptions) -> SpaceError {
    Space::open(as_zoned(device), options).unwrap_err()
}

/// A store with one sealed zone of cold data, a partly written log, and a header alone in a meta zone.
fn store(device: &Arc<MemDevice>) -> [ZoneId; 3] {
    let space = format(device);
    let mut cold = space.open_zone(COLD, Urgency::Foreground).unwrap();
    cold.write(&blocks(1, DATA_BLOCKS)).unwrap();
    let mut log = space.open_zone(LOG, Urgency::Reserve).unwrap();
    log.write(&blocks(2, 4)).unwrap();
    let meta = space.open_zone(META, Urgency::Reserve).unwrap();
    [cold.zone(), log.zone(), meta.zone()]
}

/// Puts a header into the first block of an empty zone.
fn plant(device: &MemDevice, zone: u32, header: &ZoneHeader) {
    let mut block = AlignedBuf::with_len(BLOCK_BYTES);
    header.encode(&mut block);
    device.write(device.geometry().zone_start(ZoneId(zone)), &block).unwrap();
}

fn header_of(device: &MemDevice, zone: ZoneId) -> ZoneHeader {
    let mut block = AlignedBuf::with_len(BLOCK_BYTES);
    device.read(device.geometry().zone_start(zone), &mut block).unwrap();
    ZoneHeader::decode(&block).unwrap()
}

#[test]
fn a_new_store_without_any_data_is_recognised() {
    let device = device(14);
    format(&device);
    let (space, recovered) = open(&device);
    assert_eq!(recovered.identity.superblock, b"superblock");
    assert_eq!((recovered.identity.store, recovered.identity.features), (StoreId(1), 1));
    assert_eq!((recovered.zones.len(), recovered.damaged.len()), (0, 0));
    let writers: Vec<_> = (0..2).map(|_| space.open_zone(META, Urgency::Reserve).unwrap()).collect();
    assert_eq!(space.usage().free_zones, 14, "the anchor's zone is free again");
    assert_eq!(writers[1].zone(), ZoneId(0));
}

#[test]
fn zones_come_back_by_generation_with_their_state() {
    let device = device(14);
    let [cold, log, meta] = store(&device);
    device.power_cycle();
    let before = device.counters();
    let (_, recovered) = open(&device);
    assert_eq!(device.counters().since(&before).writes, 0, "opening writes nothing");
    let found: Vec<_> = recovered.zones.iter().map(|zone| (zone.zone, zone.state, zone.written_blocks)).collect();
    assert_eq!(found, [(cold, ZoneUse::Sealed, 16), (log, ZoneUse::Partial, 5), (meta, ZoneUse::Partial, 1)]);
    assert!(recovered.zones.is_sorted_by_key(|zone| zone.generation));
    assert_eq!(recovered.zones[1].stream, LOG);
}

#[test]
fn a_partly_written_zone_is_continued_or_sealed() {
    let device = device(14);
    let [cold, log, meta] = store(&device);
    device.power_cycle();
    let (space, _) = open(&device);
    let mut writer = space.adopt_for_writing(log).unwrap();
    let block = writer.write(&blocks(3, 1)).unwrap();
    assert_eq!(block, space.first_block(log) + 5);
    assert_eq!((byte_at(&space, block - 1), byte_at(&space, block)), (2, 3));
    assert!(matches!(space.adopt_for_writing(log), Err(SpaceError::WrongState { state: "open", .. })));
    assert!(matches!(space.adopt_for_writing(cold), Err(SpaceError::WrongState { state: "sealed", .. })));
    assert_eq!(space.usage().active, 2);
    space.seal_recovered(meta).unwrap();
    assert_eq!(space.usage().active, 1);
    assert!(matches!(space.seal_recovered(meta), Err(SpaceError::WrongState { .. })));
}

#[test]
fn zones_of_an_earlier_life_count_in_the_share_of_their_stream() {
    let device = device(8);
    store(&device);
    let (space, _) = open(&device);
    let error = space.open_zone(LOG, Urgency::Reserve).unwrap_err();
    assert!(matches!(error, SpaceError::StreamFull { held: 1, held_max: 1, .. }), "{error}");
}

#[test]
fn an_interrupted_allocation_is_free_again_and_holds_no_token() {
    let device = device(4);
    store(&device);
    device.write(device.geometry().zone_start(ZoneId(9)), &blocks(0xee, 1)).unwrap();
    let (space, recovered) = open(&device);
    assert_eq!((recovered.zones.len(), recovered.damaged.len()), (3, 0));
    assert_eq!(space.usage().active, 3);
    space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_eq!(device.report(ZoneId(9), 1).unwrap()[0].state, ZoneState::Empty);
}

#[test]
fn an_open_zone_without_anything_in_it_is_free_again() {
    let device = device(4);
    store(&device);
    device.open(ZoneId(9)).unwrap();
    let (space, _) = open(&device);
    assert_eq!(space.usage().active, 3);
    space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert_eq!(device.report(ZoneId(9), 1).unwrap()[0].state, ZoneState::Empty);
}

#[test]
fn a_finished_zone_of_which_nothing_became_durable_is_free_again() {
    let device = device(14);
    store(&device);
    device.finish(ZoneId(7)).unwrap();
    let (space, recovered) = open(&device);
    assert!(recovered.damaged.is_empty());
    let mut taken = Vec::new();
    while let Ok(mut writer) = space.open_zone(HOT, Urgency::Reserve) {
        taken.push(writer.zone());
        writer.write(&blocks(5, DATA_BLOCKS)).unwrap();
    }
    assert!(taken.contains(&ZoneId(7)));
}

#[test]
fn a_damaged_header_with_data_behind_it_is_left_alone_until_it_is_named() {
    let device = device(14);
    let [_, _, meta] = store(&device);
    let highest = header_of(&device, meta).generation;
    device.write(device.geometry().zone_start(ZoneId(9)), &blocks(0xee, 3)).unwrap();
    device.finish(ZoneId(9)).unwrap();
    let (space, recovered) = open(&device);
    assert_eq!(recovered.damaged[0].zone, ZoneId(9));
    assert_eq!(space.view()[9].state, ZoneUse::Damaged);
    let writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert!(writer.generation() > highest + 1, "the hidden generation is not used again");
    space.reset(ZoneId(9)).unwrap();
    assert_eq!(space.view()[9].state, ZoneUse::Free);
}

#[test]
fn a_damaged_zone_counts_again_as_what_its_client_recognises() {
    let device = device(4);
    let [cold, log, meta] = store(&device);
    let newest = header_of(&device, meta).generation + 1;
    device.write(device.geometry().zone_start(ZoneId(9)), &blocks(0xee, 3)).unwrap();
    device.finish(ZoneId(9)).unwrap();
    device.write(device.geometry().zone_start(ZoneId(10)), &blocks(0xee, 3)).unwrap();
    let (space, recovered) = open(&device);
    assert_eq!(recovered.damaged.iter().map(|damaged| damaged.zone.0).collect::<Vec<_>>(), [9, 10]);
    let found = |generation| Recognised { stream: COLD, holds: StreamSet::of(COLD), generation };
    let of_another = space.generation_of(cold).unwrap();
    assert_eq!(space.recognise(ZoneId(9), found(of_another)).unwrap(), None, "a copy");
    for (zone, generation) in [(ZoneId(9), newest), (ZoneId(10), newest + 4)] {
        let zone = space.recognise(zone, found(generation)).unwrap().unwrap();
        assert_eq!((zone.stream, zone.generation, zone.state), (COLD, generation, ZoneUse::Sealed));
        assert_eq!((zone.written_blocks >= 3, space.generation_of(zone.zone)), (true, Some(generation)));
    }
    assert!(matches!(space.recognise(ZoneId(9), found(99)), Err(SpaceError::WrongState { .. })));
    assert!(matches!(space.recognise(log, found(99)), Err(SpaceError::WrongState { .. })));
    // The token of the active one is there when it is needed.
    let _second = space.open_zone(META, Urgency::Reserve).unwrap();
    assert_eq!(space.usage().active, 4);
    let hot = space.open_zone(HOT, Urgency::Foreground).unwrap();
    assert!(hot.generation() > newest + 4);
    assert_eq!(device.report(ZoneId(10), 1).unwrap()[0].state, ZoneState::Full);
    for zone in [ZoneId(9), ZoneId(10)] {
        assert_eq!(space.reset(zone).unwrap(), ZoneUse::Free);
    }
}

#[test]
fn every_other_kind_of_device_is_refused_by_name() {
    let empty = device(14);
    assert!(matches!(refused(&empty, &options()), SpaceError::NotAStore { written_zones: 0, zones: 16 }));
    empty.write(Lba(0), &blocks(9, 2)).unwrap();
    assert!(matches!(refused(&empty, &options()), SpaceError::NotAStore { written_zones: 1, .. }));

    let device = device(14);
    store(&device);
    let other_client = SpaceOptions { client: *b"files\0\0\0", ..options() };
    let error = refused(&device, &other_client).to_string();
    assert!(error.contains("a store of \"test\"") && error.contains("a file system of RocksDB"), "{error}");
    let fewer_features = SpaceOptions { known_features: 0b10, ..options() };
    assert!(matches!(refused(&device, &fewer_features), SpaceError::UnknownFeatures { unknown: 1 }));
}

#[test]
fn two_stores_on_one_device_are_named_and_not_touched() {
    let device = device(14);
    let [cold, ..] = store(&device);
    let mut foreign = header_of(&device, cold);
    (foreign.identity.store, foreign.zone) = (StoreId(2), 9);
    plant(&device, 9, &foreign);
    let error = refused(&device, &options());
    assert!(matches!(error, SpaceError::TwoStores { second: StoreId(2), second_zone: ZoneId(9), .. }), "{error}");
}

#[test]
fn a_newer_version_is_refused_by_number() {
    let device = device(14);
    let [cold, ..] = store(&device);
    let mut block = AlignedBuf::with_len(BLOCK_BYTES);
    header_of(&device, cold).encode(&mut block);
    block[8] = 9;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&block[..124]), &block[128..]);
    block[124..128].copy_from_slice(&crc.to_le_bytes());
    device.write(device.geometry().zone_start(ZoneId(9)), &block).unwrap();
    let error = refused(&device, &options());
    assert!(matches!(error, SpaceError::NewerVersion { found: 9, known: VERSION, .. }), "{error}");
}

#[test]
fn another_shape_of_device_is_refused_with_numbers() {
    let device = device(14);
    let [cold, ..] = store(&device);
    let header = header_of(&device, cold);
    let longer = Geometry { zone_count: 17, ..common::geometry(14) };
    let longer = Arc::new(MemDevice::new(longer).unwrap());
    plant(&longer, header.zone, &header);
    let error = refused(&longer, &options());
    assert!(matches!(error, SpaceError::GeometryChanged { stored: 16, actual: 17, .. }), "{error}");
}

#[test]
fn a_header_in_another_zone_than_its_own_does_not_count() {
    let device = device(14);
    let [cold, ..] = store(&device);
    plant(&device, 9, &header_of(&device, cold));
    device.write(device.geometry().zone_start(ZoneId(9)).plus(1), &blocks(1, 1)).unwrap();
    let (_, recovered) = open(&device);
    assert_eq!(recovered.damaged[0].zone, ZoneId(9));
}

/// No store ever gives out so many: nothing may be counted from there.
#[test]
fn a_generation_that_no_zone_ever_had_is_damage() {
    let device = device(14);
    let [cold, ..] = store(&device);
    let header = ZoneHeader { zone: 9, generation: u64::MAX, ..header_of(&device, cold) };
    plant(&device, 9, &header);
    device.write(Lba(device.geometry().zone_start(ZoneId(9)).0 + 1), &blocks(9, 1)).unwrap();
    let (space, recovered) = open(&device);
    assert_eq!(recovered.damaged.len(), 1);
    let found = Recognised { stream: COLD, holds: StreamSet::of(COLD), generation: u64::MAX };
    assert_eq!(space.recognise(ZoneId(9), found).unwrap(), None);
    space.open_zone(HOT, Urgency::Foreground).unwrap();
}

#[test]
fn format_refuses_what_is_written_and_overwrites_when_asked() {
    let device = device(14);
    store(&device);
    let before = device.counters();
    let error = Space::format(as_zoned(&device), new_store(2), &options()).unwrap_err();
    assert!(matches!(&error, SpaceError::NotEmpty { written_zones: 3, .. }), "{error}");
    assert!(error.to_string().contains(&StoreId(1).to_string()), "{error}");
    assert_eq!(device.counters().since(&before).resets, 0);

    let new = NewStore { overwrite: true, ..new_store(2) };
    Space::format(as_zoned(&device), new, &options()).unwrap();
    let (_, recovered) = open(&device);
    assert_eq!((recovered.identity.store, recovered.zones.len()), (StoreId(2), 0));
}

#[test]
fn what_an_earlier_store_left_in_a_read_only_zone_is_nobodys() {
    let device = device(10);
    let [cold, ..] = store(&device);
    device.retire(cold, ZoneState::ReadOnly).unwrap();
    let new = NewStore { overwrite: true, ..new_store(2) };
    Space::format(as_zoned(&device), new, &options()).unwrap();
    assert_eq!(Space::identify(device.as_ref()).unwrap().store, StoreId(2));
    let (space, recovered) = open(&device);
    assert_eq!((recovered.identity.store, recovered.zones.len()), (StoreId(2), 0));
    assert_eq!((recovered.damaged.len(), recovered.torn.len()), (0, 0));
    let view = &space.view()[cold.0 as usize];
    assert_eq!((view.state, view.stream, view.generation), (ZoneUse::ReadOnly, None, 0), "it holds nothing");
}

#[test]
fn format_checks_before_it_writes() {
    let device = device(14);
    let refuse = |new: NewStore| Space::format(as_zoned(&device), new, &options()).unwrap_err();
    let long = refuse(NewStore { superblock: vec![0; 2049], ..new_store(1) });
    assert!(matches!(long, SpaceError::BadOption { value: 2049, .. }), "{long}");
    let features = refuse(NewStore { features: 0b101, ..new_store(1) });
    assert!(matches!(features, SpaceError::UnknownFeatures { unknown: 0b100 }), "{features}");
    assert_eq!(device.counters().written_bytes, 0);
    let longest = NewStore { superblock: vec![3; 2048], ..new_store(1) };
    Space::format(as_zoned(&device), longest, &options()).unwrap();
    assert_eq!(Space::identify(device.as_ref()).unwrap().superblock, vec![3; 2048]);
}

#[test]
fn a_device_with_small_blocks_works_and_a_torn_block_is_completed() {
    let geometry = Geometry {
        block_bytes: 512,
        zone_size_blocks: 128,
        zone_capacity_blocks: 100,
        ..Geometry::new(64 << 10, 16).with_limits(4, 4)
    };
    let device = Arc::new(MemDevice::new(geometry).unwrap());
    let small = SpaceOptions { streams: vec![StreamSpec::new(HOT, "hot", 0)], ..options() };
    let space = Space::format(as_zoned(&device), new_store(1), &small).unwrap();
    let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
    let (zone, first) = (writer.zone(), writer.next_block());
    writer.write(&blocks(4, 2)).unwrap();
    drop((writer, space));
    device.write(Lba((first + 2) * 8), &blocks(5, 1)[..512]).unwrap();

    let (space, recovered) = Space::open(as_zoned(&device), &small).unwrap();
    assert_eq!(recovered.zones[0].written_blocks, 3);
    let mut writer = space.adopt_for_writing(zone).unwrap();
    assert_eq!((writer.next_block(), writer.remaining_blocks()), (first + 3, 8));
    writer.write(&blocks(6, 8)).unwrap();
    assert_eq!((byte_at(&space, first + 1), byte_at(&space, first + 3)), (4, 6));
    assert_eq!(device.report(zone, 1).unwrap()[0].state, ZoneState::Full);
    assert_eq!(space.usage().active, 0);
}
