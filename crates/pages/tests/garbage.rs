//! Reclaim while zones are free, so that a store does not hold much more than what is live.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use common::{Toy, device_of, id};
use std::sync::Arc;
use zonda_device::MemBlockDevice;
use zonda_pages::{GARBAGE_ZONES_MIN, InPlaceOptions, InPlaceStore, PageStore, StoreOptions, ZonedStore};
use zonda_rt::atomic::Ordering;

/// Bytes of zones and segments.
const ZONE_BYTES: u64 = 256 << 10;
const ZONES: u32 = 256;

fn options(garbage_percent_max: Option<u32>) -> StoreOptions {
    StoreOptions { garbage_percent_max, ..common::options() }
}

fn zoned(garbage: Option<u32>) -> Arc<dyn PageStore> {
    ZonedStore::create(device_of(ZONES, 14), &options(garbage)).unwrap()
}

fn in_place(garbage: Option<u32>) -> Arc<dyn PageStore> {
    let device = MemBlockDevice::new(4096, u64::from(ZONES) * ZONE_BYTES / 4096).unwrap();
    let options =
        InPlaceOptions { common: options(garbage), segment_blocks: ZONE_BYTES / 4096, ..InPlaceOptions::default() };
    InPlaceStore::create(Arc::new(device), &options).unwrap()
}

/// Zones, or segments, that hold something, after the writes of `work`, which leave little of each live.
fn held_after(store: Arc<dyn PageStore>, work: fn(&Toy<dyn PageStore>)) -> (u64, u64) {
    let toy = Toy::new(store);
    work(&toy);
    let (commits, resets) = (toy.commits.load(Ordering::Relaxed), toy.store.usage().zones_reset);
    assert!(commits <= resets / 4 + 2, "{commits} commits for {resets} zones: a commit may be a whole checkpoint");
    toy.commit().unwrap();
    toy.reclaim();
    toy.check_all();
    toy.check_values();
    let usage = toy.store.usage();
    (u64::from(usage.zones - usage.free_zones), (usage.live_page_bytes + usage.live_value_bytes).div_ceil(ZONE_BYTES))
}

/// Sixty zones of pages; one of sixty stays.
fn pages(toy: &Toy<dyn PageStore>) {
    for n in 0..3_600 {
        let page = if n % 60 == 0 { 1_000 + n } else { n % 7 };
        toy.put(id(page), n, 1).unwrap();
        toy.store.reclaim_step(toy).unwrap();
    }
}

/// About as many of values; one of twenty stays.
fn values(toy: &Toy<dyn PageStore>) {
    for n in 0..1_600_u64 {
        let at = toy.put_value(&[u8::try_from(n % 251).unwrap(); 9_000]).unwrap();
        if n % 20 != 0 {
            toy.delete_value(at);
        }
        toy.store.reclaim_step(toy).unwrap();
    }
}

#[test]
fn what_is_dead_is_bounded_by_what_is_live_if_that_is_wanted() {
    type Store = fn(Option<u32>) -> Arc<dyn PageStore>;
    type Work = fn(&Toy<dyn PageStore>);
    let scenes: [(Store, Work); 3] = [(zoned, pages), (zoned, values), (in_place, values)];
    for (nth, (store, work)) in scenes.into_iter().enumerate() {
        // What is being filled, what waits for a commit, and log and MetaLog.
        let others = 6 + 8 + u64::from(GARBAGE_ZONES_MIN);
        for percent in [50, 100, 400] {
            let (held, live) = held_after(store(Some(percent)), work);
            let most = live * (100 + u64::from(percent)) / 100 + others;
            assert!(held <= most, "scene {nth}, {percent} %: {held} zones are held, {live} would do, {most} at most");
        }
        let (held, _) = held_after(store(None), work);
        assert!(held > 50, "scene {nth}: {held} zones");
    }
}

#[test]
fn nothing_is_moved_while_half_of_everything_is_live() {
    let toy = Toy::new(zoned(Some(10)));
    for n in 0..3_000 {
        // Two of three pages stay.
        toy.put(id(if n % 3 == 0 { 9_999 } else { n }), n, 1).unwrap();
        toy.store.reclaim_step(&toy).unwrap();
    }
    assert_eq!(toy.relocated.load(Ordering::Relaxed), 0);
    toy.check_all();
}
