//! The store in place: reuse of slots, order of durability, opening again, cuts, blocks that cannot be written.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::cell::Cell;
use std::sync::Arc;

use common::{Toy, block_device, create_in_place, id, in_place_options, look_again_while_reads_fail};
use zonda_device::{
    AlignedBuf, BlockDevice, CutAt, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Lba, MemBlockDevice,
    MemDevice, PowerCutBlock,
};
use zonda_pages::{
    AreaKind, CachePolicy, ChunkAddress, Heat, InPlaceOptions, InPlaceStore, Liveness, NewPage, PageAddress, PageError,
    PageId, PageStore, Reclaimed, Relocate, Relocated, Stamp, StoreId, StoreOptions,
};
use zonda_rt::atomic::Ordering;
use zonda_rt::{DeviceCall, Rng};

type InPlaceToy = Toy<InPlaceStore>;

#[test]
fn neighbours_leave_in_one_write() {
    let device = block_device();
    let store = create_in_place(&device);
    let body = vec![5; store.page_body_bytes(1)];
    let before = device.counters();
    for n in 0..12 {
        store.place(Heat::Hot, &[NewPage { id: id(n), sequence: n, body: &body }]).unwrap();
    }
    store.settle(&mut |_, _, _| {}).unwrap();
    let done = device.counters().since(&before);
    assert_eq!((done.writes, done.written_bytes, done.flushes), (2, 13 * 4096, 1), "a segment header and one run");
    assert_eq!(store.written_by().flush, 12 * 4096);
}

#[test]
fn a_plan_longer_than_a_segment_lies_in_several() {
    let options = InPlaceOptions { segment_blocks: 16, ..in_place_options() };
    let store = InPlaceStore::create(block_device(), &options).unwrap();
    let toy: InPlaceToy = Toy::new(store);
    // Longer than a segment together, and longer than what may wait to be written.
    let bodies: Vec<_> = (0..40).map(|n| toy.body(id(n), n, 1 + n % 2)).collect();
    let plan: Vec<_> = bodies.iter().zip(0..).map(|(body, n)| NewPage { id: id(n), sequence: n, body }).collect();
    let placed = toy.store.place(Heat::Hot, &plan).unwrap();
    assert_eq!(toy.store.usage().live_page_bytes, 60 * 4096);
    for settled in [false, true] {
        for (page, &at) in plan.iter().zip(&placed) {
            toy.store.read(page.id, at, &mut |body| assert_eq!(body, page.body)).unwrap();
        }
        if !settled {
            toy.settle().unwrap();
        }
    }
    // A plan that finds no blocks for its last page leaves nothing behind.
    let all = vec![plan[0]; 4096];
    assert!(matches!(toy.store.place(Heat::Hot, &all), Err(PageError::Busy | PageError::NoSpace { .. })));
    assert_eq!(toy.store.usage().live_page_bytes, 60 * 4096);
    let longest = toy.body(id(0), 1, 16);
    let refused = toy.store.place(Heat::Hot, &[NewPage { id: id(0), sequence: 1, body: &longest }]).unwrap_err();
    assert!(matches!(refused, PageError::PageTooLong { blocks: 16, blocks_max: 14 }), "{refused}");
}

#[test]
fn slots_are_reused_after_a_durable_record_and_not_before() {
    let toy: InPlaceToy = Toy::new(create_in_place(&block_device()));
    for n in 0..200 {
        toy.put(id(n), n, 1).unwrap();
    }
    let used = |toy: &InPlaceToy| toy.store.map().iter().filter(|segment| segment.stream == Some("pages")).count();
    let segments = used(&toy);
    for n in 0..20_000 {
        toy.put(id(n % 200), 200 + n, 1).unwrap();
        toy.reclaim();
    }
    assert!(used(&toy) <= segments + 40, "{} segments for the pages of {segments}", used(&toy));
    assert!(toy.commits.load(zonda_rt::atomic::Ordering::Relaxed) < 400, "one record serves many slots");
    assert_eq!(toy.relocated.load(zonda_rt::atomic::Ordering::Relaxed), 0, "nothing is moved to reuse slots");
    toy.check_all();
}

#[test]
fn a_superseded_page_stays_where_it_is_until_its_successor_is_durable() {
    let device = PowerCutBlock::over(MemBlockDevice::new(4096, 4096).unwrap());
    let toy: InPlaceToy = Toy::new(create_in_place(&Arc::new(device.clone())));
    for n in 0..100 {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.commit().unwrap();
    let committed = toy.leaves.lock().clone();
    for n in 0..400 {
        toy.put(id(n % 100), 100 + n, 1).unwrap();
    }
    toy.settle().unwrap();
    let survivor = device.reopen(&mut Rng::seeded(2));
    let (store, _) = InPlaceStore::open(Arc::new(survivor), &in_place_options()).unwrap();
    let toy = Toy::recover(store);
    assert_eq!(*toy.leaves.lock(), committed);
    toy.check_all();
}

#[test]
fn segments_are_made_when_log_and_values_need_them() {
    let toy: InPlaceToy = Toy::new(create_in_place(&block_device()));
    let pages = toy.store.usage().usable_bytes * 60 / 100 / 4096;
    let mut rng = Rng::seeded(4);
    for n in 0..pages {
        toy.put(id(n), n, 1).unwrap();
    }
    // Holes everywhere, no free segment: only moving pages makes one.
    for n in 0..pages / 2 {
        toy.delete(id(rng.below(pages)));
        toy.put(id(rng.below(pages)), n, 1).unwrap();
    }
    let values: Vec<_> = (0..100u8).map(|n| toy.put_value(&vec![n; 14_000]).unwrap()).collect();
    assert_eq!(values.len(), 100);
    toy.check_values();
    toy.check_all();
}

#[test]
fn dead_values_give_their_segments_back_after_reopening_too() {
    let device = block_device();
    let toy: InPlaceToy = Toy::new(create_in_place(&device));
    let values: Vec<_> = (0..150u8).map(|n| toy.put_value(&vec![n; 30_000]).unwrap()).collect();
    values.iter().skip(10).for_each(|&at| toy.delete_value(at));
    toy.commit().unwrap();
    drop(toy);
    let (store, _) = InPlaceStore::open(device, &in_place_options()).unwrap();
    let toy = Toy::recover(store);
    assert!(toy.store.usage().live_value_bytes > 100 * 30_000, "an estimate");
    let pages = (toy.store.usage().usable_bytes - 30 * 40_960) / 4096;
    for n in 0..pages {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.check_all();
    toy.check_values();
}

#[test]
fn pages_areas_and_numbers_are_there_after_reopening() {
    let device = block_device();
    let toy: InPlaceToy = Toy::new(create_in_place(&device));
    for n in 0..300 {
        toy.put(id(n % 200), n, 1 + n % 2).unwrap();
    }
    toy.store.area(AreaKind::Log).append(b"a record").unwrap();
    toy.commit().unwrap();
    let (leaves, usage) = (toy.leaves.lock().clone(), toy.store.usage());
    let log = toy.store.area(AreaKind::Log).segments();
    drop(toy);
    let (store, superblock) = InPlaceStore::open(device.clone(), &in_place_options()).unwrap();
    assert_eq!(superblock, b"super");
    let toy = Toy::recover(store);
    assert_eq!((toy.leaves.lock().clone(), toy.store.usage().live_page_bytes), (leaves, usage.live_page_bytes));
    assert_eq!(toy.store.area(AreaKind::Log).segments(), log);
    let (_, segment) = toy.store.area(AreaKind::Log).append(b"another life").unwrap();
    assert!(log.iter().all(|old| old.id < segment));
    toy.check_all();
}

#[test]
fn one_superblock_is_enough_and_the_other_is_made_good() {
    let device = block_device();
    create_in_place(&device);
    let mut block = AlignedBuf::with_len(4096);
    for damaged in [0, 4095] {
        device.write(Lba(damaged), &AlignedBuf::from_slice(&[3; 4096])).unwrap();
        assert!(!InPlaceStore::is_blank(device.clone()).unwrap());
        InPlaceStore::open(device.clone(), &in_place_options()).unwrap();
        device.read(Lba(damaged), &mut block).unwrap();
        assert_eq!(&block[..8], b"ZONDABLK");
    }
    for damaged in [0, 4095] {
        device.write(Lba(damaged), &AlignedBuf::from_slice(&[3; 4096])).unwrap();
    }
    let refused = InPlaceStore::open(device, &in_place_options()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("neither copy"), "{refused}");
}

#[test]
fn what_is_no_store_or_has_unknown_features_is_refused() {
    let empty = block_device();
    assert!(InPlaceStore::is_blank(empty.clone()).unwrap());
    assert!(matches!(InPlaceStore::open(empty.clone(), &in_place_options()), Err(PageError::Space(_))));
    let with = |common| InPlaceOptions { common, ..in_place_options() };
    let featured = with(StoreOptions { features: 4, ..common::options() });
    InPlaceStore::create(empty.clone(), &featured).unwrap();
    assert!(matches!(InPlaceStore::open(empty.clone(), &in_place_options()), Err(PageError::Space(_))));
    let again = StoreOptions { store_id: StoreId(5), ..common::options() };
    assert!(InPlaceStore::create(empty.clone(), &with(again.clone())).is_err(), "not without overwrite");
    InPlaceStore::create(empty.clone(), &with(StoreOptions { overwrite: true, ..again })).unwrap();
    assert!(InPlaceStore::open(empty, &in_place_options()).is_ok());
}

#[test]
fn absurd_options_and_devices_are_refused_before_anything_is_written() {
    let with = |common| InPlaceOptions { common, ..in_place_options() };
    for bad in [
        with(StoreOptions { group_pages: 0, ..common::options() }),
        with(StoreOptions { group_pages: 65, ..common::options() }),
        with(StoreOptions { sequencer_groups_max: 0, ..common::options() }),
        with(StoreOptions { log_limit_bytes: u64::MAX / 8, ..common::options() }),
        with(StoreOptions { extra_reserve_zones: 64, ..common::options() }),
        with(StoreOptions { superblock: vec![0; 2049], ..common::options() }),
        InPlaceOptions { segment_blocks: 7, ..in_place_options() },
        InPlaceOptions { segment_blocks: 4096, ..in_place_options() },
    ] {
        let device = block_device();
        assert!(matches!(InPlaceStore::create(device.clone(), &bad), Err(PageError::Space(_))), "{bad:?}");
        assert_eq!(device.counters().writes, 0);
    }
}

#[test]
fn pages_that_are_refused_leave_the_device_of_the_log_as_it_was() {
    let log = Arc::new(MemDevice::new(Geometry::new(1 << 20, 16)).unwrap());
    let make = |pages: Arc<dyn BlockDevice>| {
        InPlaceStore::create_with_log(pages, Arc::clone(&log) as Arc<_>, &in_place_options()).map(|_| ())
    };
    let (small, used) = (Arc::new(MemBlockDevice::new(4096, 256).unwrap()), block_device());
    assert!(make(small).is_err());
    create_in_place(&used);
    assert!(make(used).is_err());
    make(block_device()).unwrap();
}

#[test]
fn devices_with_short_blocks_serve_as_well() {
    let device = Arc::new(MemBlockDevice::new(512, 8 * 4096).unwrap());
    let toy: InPlaceToy = Toy::new(create_in_place(&device));
    for n in 0..3000 {
        toy.put(id(n % 300), n, 1 + n % 3).unwrap();
        toy.reclaim();
    }
    toy.commit().unwrap();
    drop(toy);
    let toy = Toy::recover(InPlaceStore::open(device, &in_place_options()).unwrap().0);
    toy.check_all();
    let odd = Arc::new(MemBlockDevice::new(8192, 2048).unwrap());
    assert!(matches!(InPlaceStore::create(odd, &in_place_options()), Err(PageError::Space(_))));
}

#[test]
fn the_lru_pool_keeps_what_was_written_and_never_what_was_reused() {
    let options = InPlaceOptions { cache: CachePolicy::Lru, ..in_place_options() };
    let toy: InPlaceToy = Toy::new(InPlaceStore::create(block_device(), &options).unwrap());
    for n in 0..40 {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.settle().unwrap();
    toy.check_all();
    assert_eq!(toy.store.reads().0, 0, "written pages are in the pool");
    for n in 0..5000 {
        toy.put(id(n % 400), n, 1).unwrap();
        toy.check(id(n * 7 % (n % 400 + 1)));
        toy.reclaim();
    }
    toy.check_all();
}

/// Random writes, deletes, values and reclaim until the power goes.
fn run_until_cut(device: &PowerCutBlock, toy: &InPlaceToy, rng: &mut Rng, version: u64) -> Result<(), PageError> {
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
    let mut relocated = 0;
    for seed in 0..24 {
        let mut rng = Rng::seeded(seed);
        let (block_bytes, blocks) = if seed % 3 == 0 { (512, 8 * 2560) } else { (4096, 2560) };
        let mut device = PowerCutBlock::over(MemBlockDevice::new(block_bytes, blocks).unwrap());
        let mut toy: InPlaceToy =
            Toy::new(InPlaceStore::create(Arc::new(device.clone()), &in_place_options()).unwrap());
        toy.commit().unwrap();
        for life in 0..4u64 {
            device.arm(CutAt::Change(1 + rng.below(2500)));
            let ended = run_until_cut(&device, &toy, &mut rng, (life + 1) << 20);
            relocated += toy.relocated.load(zonda_rt::atomic::Ordering::Relaxed);
            if let Err(error) = ended {
                assert!(device.cut_report().is_some(), "seed {seed} life {life}: {error}");
            }
            let survivor = device.reopen(&mut rng);
            device = PowerCutBlock::over(survivor);
            let (store, _) = InPlaceStore::open(Arc::new(device.clone()), &in_place_options())
                .unwrap_or_else(|error| panic!("seed {seed} life {life}: {error}"));
            let before = std::mem::replace(&mut toy, Toy::recover(store));
            toy.check_committed(&before);
            toy.check_all();
            toy.check_values();
        }
    }
    assert!(relocated > 100, "{relocated} pages moved");
}

#[test]
fn cuts_hit_every_labelled_point() {
    let device = PowerCutBlock::over(MemBlockDevice::new(4096, 2560).unwrap());
    let toy: InPlaceToy = Toy::new(InPlaceStore::create(Arc::new(device.clone()), &in_place_options()).unwrap());
    toy.store.area(AreaKind::Log).append(b"log").unwrap();
    run_until_cut(&device, &toy, &mut Rng::seeded(1), 1).unwrap();
    let labels = device.operations_by_label();
    for label in ["page group", "log", "address record", "journal switch", "values", "reset", "finish"] {
        assert!(labels.contains_key(label), "{label} is missing in {labels:?}");
    }
}

type FaultyDevice = Arc<Faulty<MemBlockDevice>>;

fn faulty() -> FaultyDevice {
    Arc::new(Faulty::new(MemBlockDevice::new(4096, 4096).unwrap(), 9))
}

fn fail(device: &FaultyDevice, call: DeviceCall, when: FaultWhen, effect: FaultEffect) {
    device.inject(Fault { call: Some(call), zone: None, when, effect });
}

#[test]
fn pages_whose_blocks_cannot_be_written_are_placed_again_and_old_addresses_still_lead_to_them() {
    for nth in 1..4 {
        let device = faulty();
        let toy: InPlaceToy = Toy::new(create_in_place(&device));
        for n in 0..20 {
            toy.put(id(n), n, 1 + n % 3).unwrap();
        }
        toy.settle().unwrap();
        for n in 20..26 {
            toy.put(id(n), n, 1 + n % 3).unwrap();
        }
        let before = toy.leaves.lock().clone();
        let superseded = before[&id(25)];
        toy.put(id(25), 99, 1).unwrap();
        // The run, and then some of its pages one by one.
        (1..=nth)
            .for_each(|nth| fail(&device, DeviceCall::Write, FaultWhen::Nth(nth), FaultEffect::Torn { blocks: 0 }));
        toy.settle().unwrap();
        assert_eq!(device.injected(), nth);
        toy.check_all();
        for (id, leaf) in before {
            let expected = toy.body(id, leaf.version, leaf.blocks);
            toy.store.read(id, leaf.at, &mut |body| assert!(body == expected)).unwrap();
        }
        assert_eq!(superseded.version, 25);
        let live: u64 = toy.leaves.lock().values().map(|leaf| leaf.at.len_bytes()).sum();
        assert_eq!(toy.store.usage().live_page_bytes, live);
        for n in 0..3000 {
            toy.put(id(n % 60), 100 + n, 1).unwrap();
            toy.reclaim();
        }
        toy.check_all();
    }
}

#[test]
fn a_value_that_was_busy_and_is_not_read_for_now_stays() {
    let device = faulty();
    let fail_reads = |nth: &[u64]| {
        let effect = FaultEffect::Error(zonda_device::ErrorKind::Io);
        nth.iter().for_each(|&nth| fail(&device, DeviceCall::Read, FaultWhen::Nth(nth), effect));
    };
    let toy: InPlaceToy = Toy::new(create_in_place(&device));
    // Not all come back: the first segments are taken first.
    look_again_while_reads_fail(&toy, &fail_reads);
    assert_eq!(device.injected(), 4);
}

/// Reclaim that finds no room for so many of the values that it would move.
struct Crowded<'a> {
    toy: &'a InPlaceToy,
    refusals: Cell<u32>,
}

impl Relocate for Crowded<'_> {
    fn relocate_page(&self, id: PageId, at: PageAddress, body: &[u8]) -> Result<Relocated, PageError> {
        self.toy.relocate_page(id, at, body)
    }

    fn relocate_value(&self, at: ChunkAddress, payload: &[u8]) -> Result<Relocated, PageError> {
        let moves = !self.toy.locked.load(Ordering::Relaxed) && self.toy.values.lock().contains_key(&at);
        if let Some(left) = self.refusals.get().checked_sub(1).filter(|_| moves) {
            self.refusals.set(left);
            return Err(PageError::Busy);
        }
        self.toy.relocate_value(at, payload)
    }

    fn value_liveness(&self, at: ChunkAddress, payload: &[u8]) -> Result<Liveness, PageError> {
        self.toy.value_liveness(at, payload)
    }

    fn writes(&self) -> u64 {
        self.toy.writes()
    }

    fn knows_values(&self) -> bool {
        true
    }

    fn stamp(&self) -> Stamp {
        self.toy.stamp()
    }

    fn commit_moves(&self) -> Result<(), PageError> {
        self.toy.commit_moves()
    }

    fn drained(&self, stamp: Stamp) -> bool {
        self.toy.drained(stamp)
    }
}

/// The keys of several values were locked when reclaim came to them; when it asks again, there is no room for the first.
#[test]
fn values_that_were_busy_stay_although_there_is_no_room_for_one_of_them() {
    let toy: InPlaceToy = Toy::new(create_in_place(&block_device()));
    toy.locked.store(true, Ordering::Relaxed);
    for n in 0_u32.. {
        if toy.store.is_short() {
            break;
        }
        let at = toy.put_value(&vec![n.to_le_bytes()[0]; 5_000]).unwrap();
        // Several are live in each segment.
        if n % 8 > 0 {
            toy.delete_value(at);
        }
    }
    let crowded = Crowded { toy: &toy, refusals: Cell::new(1) };
    let step = || toy.store.reclaim_step(&crowded).unwrap();
    assert!((0..1_000).any(|_| step() == Reclaimed::Waiting), "there is garbage, and something live in it");
    toy.locked.store(false, Ordering::Relaxed);
    while step() == Reclaimed::Progress {}
    assert_eq!(crowded.refusals.get(), 0);
    toy.check_values();
}

#[test]
fn chunks_that_cannot_be_written_go_to_another_segment_in_order() {
    for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
        let device = faulty();
        let store = create_in_place(&device);
        for n in 0..20u8 {
            if n % 7 == 3 {
                fail(&device, DeviceCall::Write, FaultWhen::Nth(1), FaultEffect::Torn { blocks: 1 });
            }
            store.area(kind).append(&vec![n; 9000]).unwrap();
        }
        let reopened = InPlaceStore::open(device.clone(), &in_place_options()).unwrap().0;
        for store in [store, reopened] {
            let mut seen = Vec::new();
            for segment in store.area(kind).segments() {
                let visit = &mut |chunk: zonda_pages::Chunk<'_>| {
                    seen.push(chunk.payload[0]);
                    Ok(true)
                };
                store.area(kind).read_segment(segment.id, visit).unwrap();
            }
            assert_eq!(seen, (0..20).collect::<Vec<_>>(), "{kind:?}");
        }
    }
}

/// The header of the segment's earlier life is still there: it must not stand for what is appended now.
#[test]
fn what_is_appended_after_a_segment_header_failed_is_there_after_reopening() {
    for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
        let device = faulty();
        let toy: InPlaceToy = Toy::new(create_in_place(&device));
        let log = toy.store.area(AreaKind::Log);
        let (_, first) = log.append(b"recycled").unwrap();
        log.release(first).unwrap();
        toy.reclaim();
        let area = toy.store.area(kind);
        fail(&device, DeviceCall::Write, FaultWhen::Nth(1), FaultEffect::Error(ErrorKind::Io));
        assert!(area.append(b"refused").is_err(), "{kind:?}");
        let (at, segment) = area.append(b"kept").unwrap();
        area.flush().unwrap();
        drop(toy);
        let (store, _) = InPlaceStore::open(device.clone(), &in_place_options()).unwrap();
        let area = store.area(kind);
        assert_eq!(area.segments().iter().map(|segment| segment.id).collect::<Vec<_>>(), [segment], "{kind:?}");
        assert_eq!(area.read_chunk(at, 4).unwrap(), b"kept", "{kind:?}");
    }
}

#[test]
fn a_failed_flush_is_told_and_a_page_that_waits_is_not_lost() {
    let device = faulty();
    let toy: InPlaceToy = Toy::new(create_in_place(&device));
    toy.put(id(1), 1, 1).unwrap();
    fail(&device, DeviceCall::Flush, FaultWhen::Nth(1), FaultEffect::Error(ErrorKind::Io));
    assert!(toy.settle().is_err());
    fail(&device, DeviceCall::Write, FaultWhen::Nth(1), FaultEffect::Error(ErrorKind::Io));
    toy.put(id(2), 2, 1).unwrap();
    assert!(toy.settle().is_err());
    toy.check_all();
    toy.settle().unwrap();
    toy.check_all();
}

#[test]
fn a_page_that_decayed_keeps_its_segment_and_hurts_nobody_else() {
    let device = block_device();
    let toy: InPlaceToy = Toy::new(create_in_place(&device));
    let pages = toy.store.usage().usable_bytes * 70 / 100 / 4096;
    for n in 0..pages {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.settle().unwrap();
    let decayed = toy.leaves.lock()[&id(7)].at;
    device.write(Lba(decayed.block()), &AlignedBuf::from_slice(&[0xAA; 4096])).unwrap();
    let mut rng = Rng::seeded(1);
    for n in 0..pages * 4 {
        let page = rng.below(pages);
        if page != 7 {
            toy.put(id(page), n, 1).unwrap();
        }
        if n % 50 == 0 {
            let at = toy.put_value(&[3; 9000]).unwrap();
            toy.delete_value(at);
        }
        if n % 8 == 0 {
            while toy.store.reclaim_step(&toy).unwrap() == Reclaimed::Progress {}
        }
    }
    let answer = toy.store.read(id(7), decayed, &mut |_| ());
    assert!(matches!(answer, Err(PageError::Damaged { .. })));
    (0..pages).filter(|&n| n != 7).for_each(|n| toy.check(id(n)));
}

/// A segment that its life did not seal ends behind its last whole chunk, not before the first that is damaged.
#[test]
fn what_lies_behind_a_damaged_chunk_of_an_open_segment_is_there() {
    for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
        let device = block_device();
        let store = create_in_place(&device);
        let area = store.area(kind);
        let chunks: Vec<_> = (0..10_u8).map(|n| area.append(&[n; 5_000]).unwrap()).collect();
        area.flush().unwrap();
        drop(store);
        let mut block = AlignedBuf::with_len(4096);
        let is_of_third = |at: &Lba| {
            device.read(*at, &mut block).unwrap();
            block[100..].iter().all(|byte| *byte == 3)
        };
        let at = (0..4096).map(Lba).find(is_of_third).unwrap();
        block[2_000] ^= 1;
        device.write(at, &block).unwrap();
        let (store, _) = InPlaceStore::open(device, &in_place_options()).unwrap();
        let area = store.area(kind);
        let mut found = Vec::new();
        area.read_segment(chunks[0].1, &mut |chunk| {
            found.push(chunk.payload[0]);
            Ok(true)
        })
        .unwrap();
        assert_eq!(found, [0, 1, 2, 4, 5, 6, 7, 8, 9], "{kind:?}");
        assert_eq!(area.segments().iter().map(|segment| segment.bytes).sum::<u64>(), 10 * 2 * 4096, "{kind:?}");
    }
}

/// A segment whose header is damaged is known by the first whole frame behind it: it is not given to others, and what lies there is read.
#[test]
fn a_segment_with_a_damaged_header_keeps_what_it_holds() {
    (1..=2).for_each(|blocks| keeps_what_it_holds(blocks, &|block| block[100] ^= 1));
    // As of a segment that nobody ever wrote to.
    keeps_what_it_holds(1, &|block| block.fill(0));
}

/// With so many blocks damaged at the beginning of each segment, its header among them.
fn keeps_what_it_holds(damaged_blocks: u64, damage: &dyn Fn(&mut [u8])) {
    let device = block_device();
    let toy: InPlaceToy = Toy::new(create_in_place(&device));
    // What each segment begins with, and nobody needs later.
    toy.put(id(99), 1, 1).unwrap();
    let unneeded = toy.put_value(&[99; 5_000]).unwrap();
    toy.commit().unwrap();
    toy.delete(id(99));
    toy.delete_value(unneeded);
    (0..20).for_each(|n| toy.put(id(n), n, 1).unwrap());
    (0..20_u8).for_each(|n| assert!(toy.put_value(&[n; 5_000]).is_ok()));
    let append = |n: u8| toy.store.area(AreaKind::Log).append(&[n; 5_000]).unwrap();
    let logged: Vec<_> = (0..5).map(append).collect();
    toy.commit().unwrap();
    toy.store.area(AreaKind::Log).flush().unwrap();
    let (leaves, values) = (toy.leaves.lock().clone(), toy.values.lock().clone());
    drop(toy);
    // The first block of each segment begins with this.
    let mut block = AlignedBuf::with_len(4096);
    let mut is_header = |at: &u64| {
        device.read(Lba(*at), &mut block).unwrap();
        block.starts_with(b"ZONDASEG")
    };
    let headers: Vec<_> = (0..4096).filter(&mut is_header).collect();
    assert!(headers.len() >= 4, "log, MetaLog, pages, values: {headers:?}");
    for at in headers.into_iter().flat_map(|header| header..header + damaged_blocks).map(Lba) {
        device.read(at, &mut block).unwrap();
        damage(&mut block);
        device.write(at, &block).unwrap();
    }
    let (store, _) = InPlaceStore::open(device, &in_place_options()).unwrap();
    let mut found = Vec::new();
    let mut keep = |chunk: zonda_pages::Chunk<'_>| {
        found.push(chunk.payload[0]);
        Ok(true)
    };
    store.area(AreaKind::Log).read_segment(logged[0].1, &mut keep).unwrap();
    assert_eq!(found, [0, 1, 2, 3, 4][usize::from(damaged_blocks > 1)..]);
    let toy = Toy::recover(store);
    assert_eq!((&*toy.leaves.lock(), &*toy.values.lock()), (&leaves, &values));
    // What comes takes other segments.
    (100..600).for_each(|n| toy.put(id(n), n, 1).unwrap());
    (0..50_u8).for_each(|n| assert!(toy.put_value(&[n; 9_000]).is_ok()));
    toy.check_all();
    toy.check_values();
}

/// One block that the device does not read costs nothing but itself; where it reads none, nothing tells what is there.
#[test]
fn a_segment_with_a_damaged_header_is_in_use_if_something_can_be_read_there() {
    for (reads, is_known) in [(FaultWhen::Nth(67), true), (FaultWhen::From(67), false)] {
        let device = faulty();
        let toy: InPlaceToy = Toy::new(create_in_place(&device));
        (0..20).for_each(|n| toy.put(id(n), n, 1).unwrap());
        toy.settle().unwrap();
        let leaves = toy.leaves.lock().clone();
        drop(toy);
        let header = Lba(leaves.values().map(|leaf| leaf.at.block()).min().unwrap() - 1);
        device.write(header, &AlignedBuf::from_slice(&[0xAA; 4096])).unwrap();
        // Behind both superblocks and 64 headers.
        fail(&device, DeviceCall::Read, reads, FaultEffect::Error(ErrorKind::Media));
        let opened = InPlaceStore::open(Arc::clone(&device) as Arc<dyn BlockDevice>, &in_place_options());
        if !is_known {
            let refused = opened.map(drop).unwrap_err();
            assert!(matches!(refused, PageError::Damaged { what: "segment header", .. }), "{refused}");
            continue;
        }
        let store = opened.unwrap().0;
        store.adopt(&mut leaves.values().map(|leaf| leaf.at));
        assert_eq!(store.usage().live_page_bytes, 20 * 4096);
        leaves.iter().for_each(|(&id, leaf)| store.read(id, leaf.at, &mut |_| ()).unwrap());
    }
}
