//! Zones that wear out when they are reset: their space is gone, and nobody hears of it as an error.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{geometry, options_with, path};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemDevice, ZoneState};
use zonda_files::{Cleaner, FileKind, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_rt::DeviceCall;
use zonda_space::{StreamId, ZoneId};

const JOURNAL: StreamId = StreamId(0);
const WORN: [FaultEffect; 2] = [FaultEffect::Retire(ZoneState::ReadOnly), FaultEffect::Retire(ZoneState::Offline)];

fn store() -> (Faulty<MemDevice>, FileStore) {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options_with("liza-caza")).unwrap();
    (faulty, store)
}

fn put(store: &FileStore, kind: FileKind, name: &str, bytes: usize) {
    let mut writer = store.create(&path(name), FileTags::of(kind)).unwrap();
    writer.append(&vec![7; bytes]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
}

fn fails_at_reset(faulty: &Faulty<MemDevice>, zone: Option<ZoneId>, when: FaultWhen, effect: FaultEffect) {
    faulty.inject(Fault { call: Some(DeviceCall::Reset), zone, when, effect });
}

/// Rewrites ten tables, round and round, and half of them in every round: cleaning has something to do.
fn rewrite(store: &FileStore, rounds: usize) {
    for round in 0..rounds {
        put(store, FileKind::Flushed, &format!("/{}", round * 7 % 10), 30_000);
    }
}

fn is_whole(store: &FileStore, lost: u32) {
    assert_eq!(store.usage().space.lost_zones, lost);
    assert_eq!(store.check().unwrap().findings, []);
    let mut read = vec![0; 30_000];
    for name in 0..10 {
        assert_eq!(store.open(&path(&format!("/{name}"))).unwrap().read_at(0, &mut read).unwrap(), 30_000);
        assert!(read.iter().all(|byte| *byte == 7));
    }
}

#[test]
fn flushes_go_on_when_dead_zones_of_tables_wear_out() {
    for effect in WORN {
        let (faulty, store) = store();
        for lost in 1..=4 {
            let of_tables = store.space().view().into_iter().filter(|view| view.stream.is_some_and(|it| it != JOURNAL));
            let zones: Vec<ZoneId> = of_tables.map(|view| view.zone).collect();
            // Whichever of them is reset next.
            let already = faulty.injected();
            fails_at_reset(&faulty, zones.first().copied(), FaultWhen::Nth(1), effect);
            let mut rounds = 0;
            while faulty.injected() == already {
                rewrite(&store, 10);
                rounds += 1;
                assert!(rounds < 1000, "the zone is never reset");
            }
            rewrite(&store, 100);
            is_whole(&store, lost);
        }
    }
}

#[test]
fn the_journal_goes_on_when_its_old_zone_wears_out() {
    for effect in WORN {
        let (faulty, store) = store();
        rewrite(&store, 10);
        let of_journal = |store: &FileStore| -> Vec<ZoneId> {
            let views = store.space().view().into_iter();
            views.filter(|view| view.stream == Some(JOURNAL)).map(|view| view.zone).collect()
        };
        let old = of_journal(&store)[0];
        fails_at_reset(&faulty, Some(old), FaultWhen::Nth(1), effect);
        let mut rounds = 0;
        while faulty.injected() == 0 {
            rewrite(&store, 10);
            rounds += 1;
            assert!(rounds < 1000, "the journal is never renewed");
        }
        assert!(!of_journal(&store).contains(&old), "the worn zone is the journal's no more");
        rewrite(&store, 100);
        is_whole(&store, 1);
    }
}

/// A reset that fails though the zone lives on is tried again later; who writes uses other zones meanwhile.
#[test]
fn a_zone_whose_reset_fails_for_a_while_holds_nobody_up() {
    for has_cleaner in [false, true] {
        let (faulty, store) = store();
        let _cleaner = has_cleaner.then(|| Cleaner::start(store.clone()).unwrap());
        reset_fails_for_a_while(&faulty, &store);
    }
}

fn reset_fails_for_a_while(faulty: &Faulty<MemDevice>, store: &FileStore) {
    rewrite(store, 10);
    let of_tables = store.space().view().into_iter().filter(|view| view.stream.is_some_and(|it| it != JOURNAL));
    let zone = of_tables.map(|view| view.zone).next().unwrap();
    fails_at_reset(faulty, Some(zone), FaultWhen::From(1), FaultEffect::Error(ErrorKind::Media));
    rewrite(store, 300);
    let mut rounds = 0;
    // The thread that cleans may not run for a while.
    while faulty.injected() <= 1 {
        rewrite(store, 10);
        rounds += 1;
        assert!(rounds < 1000, "it is not tried again");
    }
    is_whole(store, 0);
    faulty.heal();
    rewrite(store, 100);
    is_whole(store, 0);
}

/// A finish that fails is nobody's error while there are other zones, and is tried again by who needs the token; so is one whose zone
/// somebody resets meanwhile.
#[test]
fn a_zone_whose_finish_fails_for_a_while_holds_nobody_up() {
    finishes_fail(false);
    (0..10).for_each(|_| finishes_fail(true));
}

fn finishes_fail(has_cleaner: bool) {
    let slow = Faulty::new(MemDevice::new(geometry(5)).unwrap(), 1);
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Delay(Duration::from_millis(1)));
    slow.inject(Fault { call, zone: None, when: FaultWhen::Chance(0.5), effect });
    let faulty = Faulty::new(slow, 1);
    // Whoever is through with a zone that is half full finishes it.
    let options = FileStoreOptions { finish_percent: 60, ..options_with("liza-caza") };
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options).unwrap();
    let _cleaner = has_cleaner.then(|| Cleaner::start(store.clone()).unwrap());
    rewrite(&store, 10);
    let mut struck = 0;
    let mut round = 0;
    while round < 300 || struck <= 10 {
        assert!(round < 30_000, "it failed {struck} times");
        if round == 0 || faulty.injected() > struck {
            struck = faulty.injected();
            // Every second one: who tries again is luckier.
            let (call, effect) = (Some(DeviceCall::Finish), FaultEffect::Error(ErrorKind::Media));
            faulty.inject(Fault { call, zone: None, when: FaultWhen::Nth(2), effect });
        }
        rewrite(&store, 1);
        round += 1;
    }
    faulty.heal();
    rewrite(&store, 100);
    is_whole(&store, 0);
    assert!(store.usage().space.active <= 5);
}

/// The journal's old zone waits for its reset, and the store goes on.
#[test]
fn the_journal_goes_on_while_the_reset_of_its_old_zone_fails() {
    let (faulty, store) = store();
    rewrite(&store, 10);
    let of_journal = |store: &FileStore| -> Vec<ZoneId> {
        let views = store.space().view().into_iter();
        views.filter(|view| view.stream == Some(JOURNAL)).map(|view| view.zone).collect()
    };
    let old = of_journal(&store)[0];
    fails_at_reset(&faulty, Some(old), FaultWhen::From(1), FaultEffect::Error(ErrorKind::Media));
    while faulty.injected() < 2 {
        rewrite(&store, 10);
    }
    assert!(of_journal(&store).contains(&old));
    is_whole(&store, 0);
    faulty.heal();
    while of_journal(&store).contains(&old) {
        rewrite(&store, 10);
    }
    is_whole(&store, 0);
}

/// What it holds may be lost next, however little of it is dead. No zone is gained by it.
#[test]
fn a_zone_that_turned_read_only_is_emptied_even_if_all_of_it_is_live() {
    let (faulty, store) = store();
    put(&store, FileKind::Flushed, "/0", 61_440);
    let zone_of = |store: &FileStore| store.extents(&path("/0")).unwrap()[0].zone;
    let worn = zone_of(&store);
    drop(store);
    faulty.inner().retire(worn, ZoneState::ReadOnly).unwrap();
    let (store, _) = FileStore::mount(Arc::new(faulty), options_with("liza-caza")).unwrap();
    // Until less is free than a compaction needs.
    (0..16).for_each(|file| put(&store, FileKind::Flushed, &format!("/live {file}"), 61_440));
    let before = store.usage().space.free_zones;
    assert_eq!(store.clean_step().unwrap(), None, "no zone is freed");
    assert_ne!(zone_of(&store), worn);
    let usage = store.usage();
    assert_eq!((usage.space.free_zones, usage.copied_bytes), (before - 1, 61_440));
    assert_eq!(store.check().unwrap().findings, []);
}
