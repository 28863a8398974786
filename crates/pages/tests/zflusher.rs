//! ZFlusher, sentence by sentence (ZKV, section 3.4): one test for what each promises.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::sync::Arc;

use common::{Toy, device, device_of, id, options};
use zonda_device::{Lba, MemDevice, ZonedDevice};
use zonda_pages::{CachePolicy, FLUSHERS_ANY, Heat, NewPage, PageError, PageStore, StoreOptions, ZonedStore};
use zonda_rt::{sim, spawn};

fn store(device: &Arc<MemDevice>, options: &StoreOptions) -> Arc<ZonedStore> {
    ZonedStore::create(Arc::clone(device) as _, options).unwrap()
}

fn toy(device: &Arc<MemDevice>, options: &StoreOptions) -> Toy {
    Toy::new(store(device, options))
}

/// "It will increase the offset in its zone and return it as the page's id": before anything is written.
#[test]
fn a_page_gets_its_place_when_it_enters_and_is_written_later() {
    let device = device();
    let toy = toy(&device, &options());
    toy.put(id(0), 0, 1).unwrap();
    let first = toy.leaves.lock()[&id(0)].at.block();
    let before = device.counters();
    for n in 1..4 {
        toy.put(id(n), n, 1).unwrap();
        assert_eq!(toy.leaves.lock()[&id(n)].at.block(), first + n);
    }
    assert_eq!(device.counters().since(&before).writes, 0);
    toy.check_all();
}

/// "First in, first out": the page that has waited longest is written first, at the write pointer.
#[test]
fn pages_leave_in_the_order_in_which_they_came() {
    let device = device();
    let options = StoreOptions { group_pages: 1, sequencer_groups_max: 64, hot_writers_max: 1, ..options() };
    let toy = toy(&device, &options);
    (0..40).for_each(|n| toy.put(id(n), n, 1).unwrap());
    let blocks: Vec<u64> = (0..40).map(|n| toy.leaves.lock()[&id(n)].at.block()).collect();
    assert!(blocks.windows(2).all(|pair| pair[1] == pair[0] + 1), "{blocks:?}");
    let zone = device.geometry().zone_of(Lba(blocks[0]));
    toy.settle().unwrap();
    let written = device.report(zone, 1).unwrap()[0].written_blocks();
    assert_eq!(written, 41, "header and pages: the device refuses a write away from the write pointer");
    toy.check_all();
}

/// "If there are consecutive pages that can be flushed, they are merged into a group": 4 by default, 1 to 16 by option.
#[test]
fn consecutive_pages_are_one_write_of_the_chosen_size() {
    for group_pages in [1_u32, 2, 4, 8, 16] {
        let device = device_of(64, 14);
        let toy = toy(&device, &StoreOptions { group_pages, hot_writers_max: 1, ..options() });
        toy.put(id(0), 0, 1).unwrap();
        toy.settle().unwrap();
        let before = device.counters();
        (1..33).for_each(|n| toy.put(id(n), n, 1).unwrap());
        toy.pump().unwrap();
        let done = device.counters().since(&before);
        assert_eq!((done.writes, done.written_bytes), (32 / u64::from(group_pages), 32 * 4096), "{group_pages} pages");
    }
    assert_eq!(StoreOptions::default().group_pages, 4);
}

/// The paper's pages are of 4 KB: a group is as long whatever a leaf takes, and a leaf that is longer is one.
#[test]
fn of_longer_pages_a_group_holds_fewer() {
    for (blocks, pages_at_once) in [(1, 4), (2, 2), (4, 1), (8, 1)] {
        let device = device_of(64, 14);
        let toy = toy(&device, &StoreOptions { hot_writers_max: 1, ..options() });
        toy.put(id(0), 0, 4).unwrap();
        toy.settle().unwrap();
        let before = device.counters();
        (1..5).for_each(|n| toy.put(id(n), n, blocks).unwrap());
        toy.pump().unwrap();
        let done = device.counters().since(&before);
        assert_eq!((done.writes, done.written_bytes), (4 / pages_at_once, 4 * blocks * 4096), "{blocks} blocks");
    }
}

/// "It retrieves a page by accessing three objects in turn: the write sequencer, the read cache, and the zone."
#[test]
fn a_page_is_looked_for_in_sequencer_cache_and_zone_in_turn() {
    let device = device();
    let toy = toy(&device, &options());
    toy.put(id(0), 0, 1).unwrap();
    let reads = |count: u64| {
        toy.check(id(0));
        assert_eq!(toy.store.reads().0, count);
    };
    reads(0);
    toy.settle().unwrap();
    // Read once while it waited: not above the threshold, so it is only in its zone.
    reads(1);
    // Now in the cache.
    reads(1);
}

/// "When the counter exceeds a predefined threshold, the page is not invalidated after flushing but migrated": 1 by default.
#[test]
fn pages_read_more_often_than_the_threshold_move_to_the_cache() {
    assert_eq!(StoreOptions::default().cache_threshold_reads, 1);
    for threshold in [0_u32, 1, 3] {
        let toy = toy(&device(), &StoreOptions { cache_threshold_reads: threshold, ..options() });
        for page in 0..6 {
            toy.put(id(page), page, 1).unwrap();
        }
        // Page n is read n times, in the group that is being filled and in a complete one.
        (0..6).for_each(|page| (0..page).for_each(|_| toy.check(id(page))));
        toy.settle().unwrap();
        let mut missed = 0;
        for page in 0..6 {
            toy.check(id(page));
            let reads = toy.store.reads().0;
            assert_eq!(reads > missed, page <= u64::from(threshold), "page {page} at threshold {threshold}");
            missed = reads;
        }
    }
}

/// A page that was superseded while it waited is written, as old readers may ask for it, but takes no room in the cache.
#[test]
fn superseded_pages_do_not_move_to_the_cache() {
    let toy = toy(&device(), &options());
    toy.put(id(0), 0, 1).unwrap();
    (0..5).for_each(|_| toy.check(id(0)));
    let at = toy.leaves.lock()[&id(0)].at;
    toy.put(id(0), 1, 1).unwrap();
    toy.settle().unwrap();
    let mut seen = false;
    toy.store.read(id(0), at, &mut |body| seen = body == toy.body(id(0), 0, 1)).unwrap();
    assert!(seen && toy.store.reads().0 == 1);
}

/// Without ZFlusher: page by page, through a buffer pool that keeps what was used last, written pages too.
#[test]
fn the_base_writes_page_by_page_through_an_lru_pool() {
    let device = device();
    let base = StoreOptions {
        group_pages: 1,
        hot_writers_max: 1,
        cache_policy: CachePolicy::Lru,
        read_cache_bytes: 16 * 4400,
        ..options()
    };
    let toy = toy(&device, &base);
    toy.put(id(0), 0, 1).unwrap();
    let before = device.counters();
    (1..41).for_each(|n| toy.put(id(n), n, 1).unwrap());
    toy.settle().unwrap();
    assert_eq!(device.counters().since(&before).writes, 41);
    (30..41).for_each(|n| toy.check(id(n)));
    assert_eq!(toy.store.reads().0, 0, "the newest are in the pool although nobody had read them");
    toy.check(id(3));
    assert_eq!(toy.store.reads().0, 1, "the oldest are not");
    (0..41).for_each(|n| toy.check(id(n)));
    for n in 0..4_000 {
        toy.put(id(n % 41), n, 1).unwrap();
        toy.check(id(n * 7 % 41));
    }
    toy.settle().unwrap();
    toy.check_all();
}

/// "Each open zone is assigned its own instance": a thread that finds one writing uses another, as far as the limits allow.
#[test]
fn as_many_flushers_write_at_a_time_as_the_limits_allow() {
    for (active, flushers) in [(14, 7), (8, 2), (6, 1), (4, 1)] {
        let most = sim::run(u64::from(active), || most_active(active));
        // Log, MetaLog, values, cold and relocated pages write nothing here.
        assert_eq!(most, flushers, "{active} active zones");
    }
}

/// The most zones that 12 threads keep open for their pages.
fn most_active(active: u32) -> u32 {
    let device = device_of(200, active);
    let options = StoreOptions { hot_writers_max: FLUSHERS_ANY, ..options() };
    let toy = Arc::new(toy(&device, &options));
    let writers: Vec<_> = (0..12_u64)
        .map(|thread| {
            let toy = Arc::clone(&toy);
            spawn(format!("writer {thread}"), move || {
                let mut most = 0;
                for n in 0..60 {
                    toy.put(id(thread * 1_000 + n), n, 1).unwrap();
                    most = most.max(toy.store.usage().active_zones);
                }
                most
            })
        })
        .collect();
    let most = writers.into_iter().map(|writer| writer.join().unwrap()).max().unwrap();
    toy.settle().unwrap();
    toy.check_all();
    assert!(toy.store.usage().active_zones <= active, "I2");
    most
}

/// "Threads get exclusive use of one": pages placed together lie one behind the other in one zone, whoever places beside them.
#[test]
fn plans_of_several_pages_are_not_mixed() {
    const THREADS: u64 = 4;
    const PLANS: u64 = 60;
    const PAGES: u64 = 3;
    for hot_writers_max in [1, 2, FLUSHERS_ANY] {
        sim::run(u64::from(hot_writers_max), move || {
            let store = store(&device(), &StoreOptions { hot_writers_max, ..options() });
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let store = Arc::clone(&store);
                    spawn("writer", move || {
                        let plans = (thread * PLANS..).take(usize::try_from(PLANS).unwrap());
                        plans.flat_map(|plan| place_plan(&store, plan * PAGES..(plan + 1) * PAGES)).collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut blocks: Vec<u64> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
            blocks.sort_unstable();
            blocks.dedup();
            assert_eq!(blocks.len() as u64, THREADS * PLANS * PAGES, "two pages got one place");
        });
    }
}

/// Places pages of these leaves together; returns where.
fn place_plan(store: &ZonedStore, leaves: std::ops::Range<u64>) -> Vec<u64> {
    let pages: Vec<NewPage<'_>> =
        leaves.map(|leaf| NewPage { id: id(leaf), sequence: leaf, body: &[7; 100] }).collect();
    let placed = loop {
        match store.place(Heat::Hot, &pages) {
            Err(PageError::Busy) => store.pump(&mut |_, _, _| {}).unwrap(),
            placed => break placed.unwrap(),
        }
        zonda_rt::yield_now();
    };
    let blocks: Vec<u64> = placed.iter().map(|at| at.block()).collect();
    assert!(blocks.windows(2).all(|pair| pair[1] == pair[0] + 1), "{blocks:?}");
    blocks
}
