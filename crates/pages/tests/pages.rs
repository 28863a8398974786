//! Reading one's own pages in every stage, and what writing them costs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{Leaf, Toy, create, device, device_of, id, options, read_listed};
use zonda_device::{MemDevice, ZonedDevice};
use zonda_pages::{Heat, PageAddress, PageError, PageId, PageStore, StoreOptions, ZonedStore};
use zonda_rt::Rng;
use zonda_space::SpaceError;

#[test]
fn a_page_is_read_while_it_waits_and_from_the_device() {
    let toy = Toy::new(create(&device()));
    for n in 0..6 {
        toy.put(id(n), n, 1).unwrap();
        toy.check_all();
    }
    assert_eq!(toy.store.reads().0, 0, "nothing was read from the device");
    toy.settle().unwrap();
    toy.check_all();
    toy.check_all();
    let (reads, bytes) = toy.store.reads();
    assert!(reads <= 6 && bytes <= 6 * 4096, "{reads} reads: the second round comes from the cache");
}

#[test]
fn pages_read_while_they_wait_enter_the_cache() {
    let toy = Toy::new(create(&device()));
    for n in 0..4 {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.check(id(0));
    toy.check(id(1));
    toy.check(id(1));
    toy.settle().unwrap();
    toy.check(id(1));
    assert_eq!(toy.store.reads().0, 0, "read twice: above the threshold of 1");
    toy.check(id(0));
    assert_eq!(toy.store.reads().0, 1, "read once: not above it");
}

#[test]
fn four_pages_are_one_device_write() {
    let device = device();
    let toy = Toy::new(create(&device));
    toy.put(id(0), 0, 1).unwrap();
    let before = device.counters();
    for n in 1..40 {
        toy.put(id(n), n, 1).unwrap();
    }
    toy.pump().unwrap();
    let done = device.counters().since(&before);
    assert_eq!((done.writes, done.written_bytes), (10, 40 * 4096));
    assert_eq!(toy.store.written_by().flush, 40 * 4096);
}

#[test]
fn a_plan_without_pages_is_placed_at_once() {
    let toy = Toy::new(create(&device()));
    assert_eq!(toy.store.place(Heat::Hot, &[]).unwrap(), []);
}

#[test]
fn a_plan_is_placed_whole_or_not_at_all() {
    let toy = Toy::new(create(&device()));
    let bodies: Vec<_> = (0..5).map(|n| toy.body(id(n), 1, 1)).collect();
    let plan: Vec<_> = (0..5)
        .map(|n| zonda_pages::NewPage { id: id(n), sequence: 1, body: &bodies[usize::try_from(n).unwrap()] })
        .collect();
    assert!(matches!(toy.store.place(Heat::Hot, &plan), Err(PageError::Busy)), "no zone is open yet");
    assert_eq!(toy.store.usage().live_page_bytes, 0);
    toy.pump().unwrap();
    let placed = toy.store.place(Heat::Hot, &plan).unwrap();
    assert_eq!((placed.len(), toy.store.usage().live_page_bytes), (5, 5 * 4096));
}

#[test]
fn a_plan_that_no_zone_holds_lies_in_several_or_nowhere() {
    let device = device_of(32, 14);
    let toy = Toy::new(create(&device));
    let body = toy.body(id(0), 1, 30);
    let plan = |pages: u64| -> Vec<_> {
        (0..pages).map(|n| zonda_pages::NewPage { id: id(n), sequence: 1, body: &body }).collect()
    };
    let placed = toy.store.place(Heat::Hot, &plan(5)).unwrap();
    let zones: BTreeSet<u64> = placed.iter().map(|at| at.block() / 64).collect();
    assert_eq!((placed.len(), zones.len()), (5, 3));
    assert_eq!(toy.store.usage().live_page_bytes, 5 * 30 * 4096);
    for settled in [false, true] {
        for (n, &at) in (0..).zip(&placed) {
            toy.store.read(id(n), at, &mut |read| assert_eq!(read, body, "{n}, {settled}")).unwrap();
        }
        toy.store.settle(&mut |_, _, _| {}).unwrap();
    }
    // More than there is.
    let refused = toy.store.place(Heat::Hot, &plan(200)).unwrap_err();
    assert!(matches!(refused, PageError::Busy | PageError::NoSpace { .. }), "{refused}");
    assert_eq!(toy.store.usage().live_page_bytes, 5 * 30 * 4096);
    let long = toy.body(id(0), 1, 64);
    let refused = toy.store.place(Heat::Hot, &[zonda_pages::NewPage { id: id(0), sequence: 1, body: &long }]);
    assert!(matches!(refused, Err(PageError::PageTooLong { blocks: 64, blocks_max: 63 })), "{refused:?}");
}

#[test]
fn long_pages_never_span_zones() {
    let toy = Toy::new(create(&device()));
    for n in 0..30 {
        toy.put(id(n), n, 1 + n % 7).unwrap();
    }
    for leaf in toy.leaves.lock().values() {
        assert_eq!(leaf.at.block() / 64, (leaf.at.block() + leaf.at.blocks() - 1) / 64);
    }
    toy.check_all();
    toy.settle().unwrap();
    toy.check_all();
}

#[test]
fn another_page_or_no_page_is_damage_not_data() {
    let toy = Toy::new(create(&device()));
    toy.put(id(1), 1, 1).unwrap();
    toy.put(id(2), 1, 1).unwrap();
    let [first, second] = [1, 2].map(|n| toy.leaves.lock()[&id(n)].at);
    for _ in 0..2 {
        for (page, at) in [
            (id(1), second),
            (id(2), first),
            (id(1), PageAddress::new(60 * 64 + 5, 1)),
            (id(1), PageAddress::new(1 << 39, 1)),
        ] {
            let answer = toy.store.read(page, at, &mut |_| panic!("a wrong page"));
            assert!(matches!(answer, Err(PageError::Damaged { .. })), "{answer:?}");
        }
        toy.settle().unwrap();
    }
}

#[test]
fn many_pages_are_read_from_wherever_they_are() {
    let toy = Toy::new(create(&device()));
    for n in 0..100 {
        toy.put(id(n), n, 1 + n % 3).unwrap();
    }
    toy.settle().unwrap();
    for n in 100..110 {
        toy.put(id(n), n, 1).unwrap();
    }
    let mut order: Vec<u64> = (0..110).collect();
    Rng::seeded(5).shuffle(&mut order);
    let pages: Vec<_> = order.iter().map(|&n| (id(n), toy.leaves.lock()[&id(n)].at)).collect();
    let mut seen = 0;
    read_listed(toy.store.as_ref(), &pages, |index, body| {
        let leaf = toy.leaves.lock()[&pages[index].0];
        assert_eq!(body, toy.body(pages[index].0, leaf.version, leaf.blocks));
        seen += 1;
    })
    .unwrap();
    assert_eq!(seen, 110);
}

#[test]
fn memory_stays_within_what_is_said() {
    let toy = Toy::new(create(&device()));
    for n in 0..1000 {
        toy.put(id(n % 300), n, 1).unwrap();
        toy.check(id(n * 7 % (n % 300 + 1)));
        let usage = toy.store.usage();
        assert!(usage.memory_bytes <= usage.memory_bytes_max, "{usage:?}");
    }
}

#[test]
fn pages_of_two_blocks_fill_groups_of_two() {
    let device = device();
    let toy = Toy::new(create(&device));
    toy.put(id(0), 0, 2).unwrap();
    let before = device.counters();
    for n in 1..20 {
        toy.put(id(n), n, 2).unwrap();
    }
    toy.settle().unwrap();
    let done = device.counters().since(&before);
    assert_eq!((done.writes, done.written_bytes, done.flushes), (10, 20 * 8192, 1));
}

#[test]
fn pages_read_ahead_are_read_once_and_only_if_they_are_on_the_device() {
    let device = device();
    let toy = Toy::new(ZonedStore::create(Arc::clone(&device) as _, &without_cache()).unwrap());
    let pages = placed(&toy, 40);
    toy.settle().unwrap();
    toy.put(id(40), 40, 1).unwrap();
    let before = device.counters();
    let mut ahead = toy.store.read_ahead().unwrap();
    ahead.want(&pages);
    ahead.want(&pages);
    ahead.want(&[(id(40), toy.leaves.lock()[&id(40)].at)]);
    for &(page, at) in pages.iter().skip(3) {
        let mut seen = false;
        assert!(ahead.take(page, at, &mut |body| seen = body == toy.body(page, u64::from(page.0), 1)));
        assert!(seen && !ahead.take(page, at, &mut |_| panic!("it was taken")));
    }
    assert!(!ahead.take(pages[0].0, pages[0].1, &mut |_| panic!("it was skipped")));
    assert_eq!(device.counters().since(&before).reads, 40, "each once, the waiting one not at all");
}

#[test]
fn what_is_read_ahead_is_bounded_and_given_back() {
    let options = StoreOptions { read_ahead_bytes: 10 * 4096, ..without_cache() };
    let toy = Toy::new(ZonedStore::create(device(), &options).unwrap());
    let pages = placed(&toy, 40);
    toy.settle().unwrap();
    let (mut first, mut second) = (toy.store.read_ahead().unwrap(), toy.store.read_ahead().unwrap());
    first.want(&pages);
    second.want(&pages);
    let taken = pages.iter().filter(|(page, at)| first.take(*page, *at, &mut |_| {})).count();
    assert_eq!(taken, 10);
    assert!(!second.take(pages[0].0, pages[0].1, &mut |_| {}), "the first has it all");
    second.want(&pages);
    drop((first, second));
    let mut third = toy.store.read_ahead().unwrap();
    third.want(&pages);
    assert!(third.take(pages[9].0, pages[9].1, &mut |_| {}), "everything was given back");
    let usage = toy.store.usage();
    assert!(usage.memory_bytes <= usage.memory_bytes_max, "{usage:?}");
}

#[test]
fn a_store_told_not_to_reads_nothing_ahead() {
    let options = StoreOptions { read_ahead_bytes: 0, ..options() };
    assert!(ZonedStore::create(device(), &options).unwrap().read_ahead().is_none());
}

#[test]
fn a_page_of_a_zone_that_was_used_again_is_not_taken() {
    let options = StoreOptions { hot_writers_max: 1, ..without_cache() };
    let toy = Toy::new(ZonedStore::create(device_of(24, 14), &options).unwrap());
    toy.put(id(0), 0, 1).unwrap();
    toy.settle().unwrap();
    let at = toy.leaves.lock()[&id(0)].at;
    let mut ahead = toy.store.read_ahead().unwrap();
    ahead.want(&[(id(0), at)]);
    let mut version = 1;
    // Overwrites until the same leaf lies at the same place in a later generation of the zone.
    let is_back = |leaf: Leaf| leaf.version > 0 && leaf.at == at;
    while version < 20_000 && !is_back(toy.leaves.lock()[&id(0)]) {
        toy.put(id(version % 4), version, 1).unwrap();
        version += 1;
    }
    toy.settle().unwrap();
    let leaf = toy.leaves.lock()[&id(0)];
    assert!(is_back(leaf), "after {version} versions: {leaf:?}");
    assert!(!ahead.take(id(0), at, &mut |_| panic!("I5 an old version")));
    ahead.want(&[(id(0), at)]);
    let mut seen = false;
    assert!(ahead.take(id(0), at, &mut |body| seen = body == toy.body(id(0), leaf.version, 1)));
    assert!(seen);
}

fn without_cache() -> StoreOptions {
    StoreOptions { read_cache_bytes: 0, ..options() }
}

/// Pages 0 to `count`, each of version and content of its own.
fn placed(toy: &Toy, count: u64) -> Vec<(PageId, PageAddress)> {
    (0..count).for_each(|n| toy.put(id(n), n, 1).unwrap());
    (0..count).map(|n| (id(n), toy.leaves.lock()[&id(n)].at)).collect()
}

#[test]
fn pages_that_are_refused_leave_the_device_of_the_log_as_it_was() {
    let (log, pages) = (device(), device());
    let make = |pages: &Arc<MemDevice>| ZonedStore::create_with_log(pages.clone(), log.clone(), &options()).map(|_| ());
    let small = make(&device_of(8, 14));
    assert!(matches!(small, Err(PageError::Space(SpaceError::TooFewZones { .. }))), "{small:?}");
    let used = device();
    create(&used);
    let refused = make(&used);
    assert!(matches!(refused, Err(PageError::Space(SpaceError::NotEmpty { .. }))), "{refused:?}");
    make(&pages).unwrap();
}
