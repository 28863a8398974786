//! Areas: order, costs, torn tails, segments over reopening.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{block_device, create, create_in_place, device, device_of, in_place_options, options};
use zonda_device::{AlignedBuf, CutAt, Geometry, Lba, MemDevice, PowerCut, ZonedDevice};
use zonda_pages::{AreaKind, ChunkAddress, InPlaceStore, PageError, PageStore, SegmentId, ZonedStore};
use zonda_rt::Rng;

/// The first 4 bytes of every chunk of an area, in order.
fn numbers(store: &dyn PageStore, kind: AreaKind) -> Vec<u32> {
    let (area, mut numbers) = (store.area(kind), Vec::new());
    for segment in area.segments() {
        area.read_segment(segment.id, &mut |chunk| {
            numbers.push(u32::from_le_bytes(*chunk.payload.first_chunk().unwrap()));
            Ok(true)
        })
        .unwrap();
    }
    numbers
}

fn payload(number: u32, bytes: usize) -> Vec<u8> {
    let mut payload = vec![number.to_le_bytes()[0]; bytes.max(4)];
    payload[..4].copy_from_slice(&number.to_le_bytes());
    payload
}

#[test]
fn a_small_log_chunk_is_exactly_one_device_write() {
    let device = device();
    let store = create(&device);
    let log = store.area(AreaKind::Log);
    log.append(b"first").unwrap();
    for bytes in [0, 1, 4072] {
        let before = device.counters();
        log.append(&vec![1; bytes]).unwrap();
        log.flush().unwrap();
        let done = device.counters().since(&before);
        assert_eq!((done.writes, done.written_bytes, done.flushes), (1, 4096, 1), "{bytes} bytes");
    }
    assert_eq!(store.written_by().log, 4 * 4096);
}

#[test]
fn chunks_come_back_in_order_over_segments_and_lives() {
    let device = device();
    for life in 0..4 {
        let store = match life {
            0 => create(&device),
            _ => ZonedStore::open(device.clone(), &options()).unwrap().0,
        };
        for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
            assert_eq!(numbers(&*store, kind), (0..life * 50).collect::<Vec<_>>(), "{kind:?}");
            for n in 0..50 {
                store.area(kind).append(&payload(life * 50 + n, (n * 397 % 15_000) as usize)).unwrap();
            }
            let ids: Vec<_> = store.area(kind).segments().iter().map(|segment| segment.id).collect();
            assert!(ids.is_sorted() && ids.len() > life as usize);
        }
    }
}

/// Decision 0053: a life that ends at once takes a block of a zone, and no zone.
#[test]
fn the_metalog_goes_on_in_its_newest_segment() {
    let device = device();
    drop(create(&device));
    for life in 0..100 {
        let (store, _) = ZonedStore::open(device.clone(), &options()).unwrap();
        assert_eq!(numbers(&*store, AreaKind::Meta), (0..life).collect::<Vec<_>>());
        let meta = store.area(AreaKind::Meta);
        meta.append(&payload(life, 5000)).unwrap();
        // Two blocks each, 63 behind a zone's header.
        assert_eq!(meta.segments().len(), life as usize / 31 + 1, "life {life}");
    }
}

#[test]
fn in_place_the_metalog_goes_on_in_its_newest_segment() {
    let device = block_device();
    drop(create_in_place(&device));
    for life in 0..100 {
        let store = InPlaceStore::open(device.clone(), &in_place_options()).unwrap().0;
        assert_eq!(numbers(&*store, AreaKind::Meta), (0..life).collect::<Vec<_>>());
        let meta = store.area(AreaKind::Meta);
        meta.append(&payload(life, 5000)).unwrap();
        if life % 7 == 0 {
            meta.flush().unwrap();
        }
        // Two blocks each, 62 or 63 behind a segment's header.
        assert_eq!(meta.segments().len(), life as usize / 31 + 1, "life {life}");
    }
}

/// A drive may keep its write pointer over a power cut, and not what was written last.
#[test]
fn what_the_metalog_says_behind_a_long_hole_is_found() {
    const ZONE_BLOCKS: u64 = 2048;
    for (chunks, hole_blocks, segments) in
        [(1, 0, 1), (1, 1022, 1), (1, 1100, 2), (1200, 0, 1), (900, 1000, 1), (900, 1100, 2)]
    {
        let device = Arc::new(MemDevice::new(Geometry::new(ZONE_BLOCKS * 4096, 64).with_limits(14, 14)).unwrap());
        let store = create(&device);
        let append = |store: &ZonedStore, number| store.area(AreaKind::Meta).append(&payload(number, 4)).unwrap().0;
        let last = (0..chunks).fold(ChunkAddress(0), |_, number| append(&store, number));
        drop(store);
        if hole_blocks > 0 {
            device.write(Lba(last.0 + 1), &AlignedBuf::with_len(hole_blocks * 4096)).unwrap();
        }
        for number in chunks..chunks + 3 {
            let (store, _) = ZonedStore::open(device.clone(), &options()).unwrap();
            assert_eq!(
                numbers(&*store, AreaKind::Meta),
                (0..number).collect::<Vec<_>>(),
                "a hole of {hole_blocks} blocks"
            );
            append(&store, number);
            assert_eq!(store.area(AreaKind::Meta).segments().len(), segments, "a hole of {hole_blocks} blocks");
        }
    }
}

#[test]
fn a_chunk_is_read_by_address_whatever_the_hint() {
    let store = create(&device());
    let values = store.area(AreaKind::Values);
    let chunk = payload(7, 40_000);
    let (at, segment) = values.append(&chunk).unwrap();
    let (next, _) = values.append(b"next").unwrap();
    for hint in [40_000, 0, 1_000_000_000] {
        assert_eq!(values.read_chunk(at, hint).unwrap(), chunk);
    }
    assert_eq!(values.read_chunk(next, 4).unwrap(), b"next");
    for wrong in [at.0 + 1, 0, 1 << 50] {
        assert!(matches!(values.read_chunk(ChunkAddress(wrong), 4), Err(PageError::Damaged { .. })), "{wrong}");
    }
    assert!(matches!(store.area(AreaKind::Log).read_chunk(at, 40_000), Err(PageError::Damaged { .. })));
    let unknown = values.read_segment(SegmentId(segment.0 + 1000), &mut |_| Ok(true));
    assert!(matches!(unknown, Err(PageError::NoSuchSegment(_))));
}

#[test]
fn the_longest_chunk_fits_and_one_byte_more_does_not() {
    let store = create(&device());
    for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
        let area = store.area(kind);
        let bytes_max = area.chunk_bytes_max();
        area.append(&payload(1, bytes_max)).unwrap();
        let refused = area.append(&payload(2, bytes_max + 1));
        assert!(matches!(refused, Err(PageError::ChunkTooLong { bytes, .. }) if bytes == bytes_max + 1));
        assert_eq!(numbers(&*store, kind), [1]);
    }
}

#[test]
fn a_released_segment_is_gone_and_releasing_is_idempotent() {
    let store = create(&device());
    let log = store.area(AreaKind::Log);
    let (_, first) = log.append(b"0000").unwrap();
    log.release(first).unwrap();
    log.release(first).unwrap();
    assert!(log.segments().is_empty());
    let (_, second) = log.append(b"0001").unwrap();
    assert!(second > first, "the segment that was written is sealed first");
    assert_eq!(numbers(&*store, AreaKind::Log).len(), 1);
}

/// As with a checkpoint in a full store, on a busy machine: what log and MetaLog released is all the room there is, and reclaim is late.
#[test]
fn records_go_into_zones_that_were_released_before_reclaim_comes_to_them() {
    for kind in [AreaKind::Log, AreaKind::Meta] {
        let device = device();
        let store = create(&device);
        let area = store.area(kind);
        let chunk = payload(0, 100_000);
        while area.append(&chunk).is_ok() {}
        assert_eq!(store.usage().free_zones, 0);
        let segments = area.segments();
        let (newest, old) = segments.split_last().unwrap();
        old.iter().for_each(|segment| area.release(segment.id).unwrap());
        let before = device.counters();
        for number in 1..old.len() {
            area.append(&payload(u32::try_from(number).unwrap(), 100_000)).unwrap();
        }
        assert!(area.segments().len() > old.len() / 2 && area.segments()[0].id == newest.id);
        assert_eq!(
            device.counters().since(&before).resets,
            old.len() as u64,
            "{kind:?}: all with the first that was needed"
        );
    }
}

#[test]
fn a_power_cut_leaves_a_prefix_that_holds_what_was_flushed() {
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let device = Arc::new(PowerCut::new(Geometry::new(256 << 10, 64).with_limits(8, 8)).unwrap());
        let store = create(&device);
        device.arm(CutAt::Change(1 + rng.below(120)));
        let (log, mut flushed, mut sent) = (store.area(AreaKind::Log), 0, 0);
        for n in 0..100u32 {
            sent = n + 1;
            if log.append(&payload(n, rng.index(9000))).is_err() {
                break;
            }
            if rng.chance(0.3) {
                if log.flush().is_err() {
                    break;
                }
                flushed = n + 1;
            }
        }
        let survivor: Arc<dyn ZonedDevice> = Arc::new(device.reopen(&mut rng));
        let (store, superblock) = ZonedStore::open(survivor, &options()).unwrap();
        assert_eq!(superblock, b"super");
        let found = numbers(&*store, AreaKind::Log);
        let count = u32::try_from(found.len()).unwrap();
        assert_eq!(found, (0..count).collect::<Vec<_>>(), "seed {seed}");
        assert!((flushed..=sent).contains(&count), "seed {seed}: {flushed} flushed, {sent} sent, {count} found");
        store.area(AreaKind::Log).append(&payload(count, 10)).unwrap();
        assert_eq!(numbers(&*store, AreaKind::Log), (0..=count).collect::<Vec<_>>(), "the torn tail is left behind");
    }
}

#[test]
fn values_and_pages_share_a_zone_at_four_active() {
    let store = create(&device_of(64, 4));
    let toy = common::Toy::new(store);
    let mut at = Vec::new();
    for n in 0..200 {
        toy.put(common::id(n), n, 1).unwrap();
        at.push(toy.put_value(&payload(u32::try_from(n).unwrap(), 5000)).unwrap());
    }
    toy.check_all();
    toy.check_values();
    assert_eq!(numbers(&*toy.store, AreaKind::Values), (0..200).collect::<Vec<_>>());
    let map = toy.store.map();
    assert!(map.iter().all(|zone| zone.stream.is_none_or(|name| name == "hot")));
}
