//! Cleaning as a service: beside writers, at a rate, past damage, and never in the way of who needs space.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{geometry, options, options_with, path};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemDevice, ZoneId, ZonedDevice};
use zonda_files::{Cleaner, FileError, FileKind, FileStore, FileStoreOptions, FileTags, Finding, StoreId};
use zonda_rt::{DeviceCall, now, sleep};

fn store(device: Arc<dyn ZonedDevice>, which: u64) -> FileStore {
    let options = FileStoreOptions { clean_below_free_percent: 60, ..options(which) };
    FileStore::format(device, StoreId(1), false, options).unwrap()
}

fn memory() -> Arc<dyn ZonedDevice> {
    Arc::new(MemDevice::new(geometry(14)).unwrap())
}

fn put(store: &FileStore, kind: FileKind, name: &str, bytes: usize) -> Result<(), FileError> {
    let mut writer = store.create(&path(name), FileTags::of(kind))?;
    writer.append(&vec![name.as_bytes()[name.len() - 1]; bytes])?;
    writer.sync()?;
    writer.close()
}

fn whole(store: &FileStore, name: &str, bytes: usize) -> bool {
    let mut read = vec![0; bytes];
    let count = store.open(&path(name)).unwrap().read_at(0, &mut read).unwrap();
    count == bytes && read.iter().all(|byte| *byte == name.as_bytes()[name.len() - 1])
}

/// A zone that somebody reset by hand is used again: what is left of the file that it had takes nothing from the one that it has now, nor
/// its bytes for its own (I5), although it was the last zone that was opened.
#[test]
fn a_file_that_lost_its_zone_takes_nothing_with_it() {
    let device = memory();
    let options = || FileStoreOptions { clean_below_free_percent: 60, ..options(2) };
    let store = FileStore::format(Arc::clone(&device), StoreId(1), false, options()).unwrap();
    put(&store, FileKind::Data, "/t", 60_000).unwrap();
    let lost = store.extents(&path("/t")).unwrap()[0].zone;
    drop(store);
    device.reset(ZoneId(lost.0)).unwrap();
    let (store, report) = FileStore::mount(device, options()).unwrap();
    assert!(report.extents_lost > 0 && report.damage().is_some(), "{report:?}");
    let is_stale = || matches!(store.open(&path("/t")), Err(FileError::Stale { zone, .. }) if zone == lost.0);
    assert!(is_stale());
    let names: Vec<String> = (0..200).map(|file| format!("/{file}")).collect();
    let taker = names.iter().find(|name| {
        put(&store, FileKind::Data, name, 60_000).unwrap();
        let has_it = store.extents(&path(name)).unwrap().iter().any(|extent| extent.zone == lost);
        if !has_it {
            store.remove(&path(name)).unwrap();
        }
        has_it
    });
    let taker = taker.expect("a zone is used again some time");
    assert!(is_stale());
    store.remove(&path("/t")).unwrap();
    store.sync_names().unwrap();
    while store.clean_step().unwrap().is_some() {}
    let mut filled = (0..100).take_while(|file| put(&store, FileKind::Data, &format!("/more{file}"), 60_000).is_ok());
    assert!(filled.by_ref().count() > 3);
    assert!(whole(&store, taker, 60_000));
    assert_eq!(store.check().unwrap().findings, []);
}

/// A zone that somebody reset by hand, and what is in it by now beside what the names still have there.
#[test]
fn a_file_that_lost_its_zone_keeps_nobody_from_cleaning_it() {
    let device = memory();
    let options = || FileStoreOptions { clean_below_free_percent: 90, ..options(2) };
    let store = FileStore::format(Arc::clone(&device), StoreId(1), false, options()).unwrap();
    put(&store, FileKind::Data, "/t", 60_000).unwrap();
    let lost = store.extents(&path("/t")).unwrap()[0].zone;
    drop(store);
    device.reset(ZoneId(lost.0)).unwrap();
    let (store, _) = FileStore::mount(Arc::clone(&device), options()).unwrap();
    let is_in = |store: &FileStore, name: &String| store.extents(&path(name)).unwrap().iter().any(|it| it.zone == lost);
    let names: Vec<String> = (0..40).map(|file| format!("/{file}")).collect();
    let takes = |name: &&String| {
        put(&store, FileKind::Data, name, 20_000).unwrap();
        is_in(&store, name)
    };
    let first = names.iter().position(|name| takes(&name)).expect("the lowest free zone is taken first");
    let mut others = names[first + 1..].iter().take_while(takes);
    let (dies, lives) = (&names[first], others.next().expect("three files share a zone"));
    others.for_each(drop);
    store.remove(&path(dies)).unwrap();
    store.sync_names().unwrap();
    let findings = store.check().unwrap().findings;
    assert!(!findings.is_empty(), "a file is lost");
    for finding in findings {
        assert!(matches!(finding, Finding::WrongGeneration { .. }), "{finding}");
    }
    while store.clean_step().unwrap().is_some() {}
    assert!(!is_in(&store, lives) && whole(&store, lives, 20_000), "what lives was moved");
}

/// Zones half of which are dead.
fn half_dead(store: &FileStore) {
    for file in 0..20 {
        put(store, FileKind::Data, &format!("/{file}"), 30_000).unwrap();
    }
    (0..20).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
}

#[test]
fn a_thread_cleans_and_ends_with_its_handle() {
    let store = store(memory(), 2);
    half_dead(&store);
    let free = store.usage().space.free_zones;
    let cleaner = Cleaner::start(store.clone()).unwrap();
    while store.usage().copied_bytes == 0 || store.usage().space.free_zones <= free {
        sleep(Duration::from_millis(1));
    }
    while cleaner.report().zones_freed == 0 {
        sleep(Duration::from_millis(1));
    }
    drop(cleaner);
    assert!((1..20).step_by(2).all(|file| whole(&store, &format!("/{file}"), 30_000)));
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn copies_are_counted_by_level() {
    let store = store(memory(), 2);
    let levels = [None, Some(2), Some(9)];
    for file in 0..21 {
        let tags = FileTags { level: levels[file % 3], ..FileTags::of(FileKind::Data) };
        let mut writer = store.create(&path(&format!("/{file}")), tags).unwrap();
        writer.append(&[7; 30_000]).unwrap();
        writer.close().unwrap();
    }
    (0..21).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
    while store.clean_step().unwrap().is_some() {}
    let usage = store.usage();
    let of = usage.copied_of_levels;
    assert!(of[2] > 0 && of[6] > 0, "deeper ones count as the last: {of:?}");
    assert!(of[2] + of[6] < usage.copied_bytes, "some are of no level: {usage:?}");
    assert_eq!(of.iter().sum::<u64>(), of[2] + of[6]);
}

/// As long as a test waits for another thread.
const LONG: Duration = Duration::from_secs(60);

/// Ten files, all of them gone.
fn all_dead(store: &FileStore) {
    (0..10).for_each(|file| put(store, FileKind::Data, &format!("/{file}"), 60_000).unwrap());
    (0..10).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
}

#[test]
fn a_thread_resets_what_is_dead_before_anybody_needs_it() {
    let options = FileStoreOptions { clean_below_free_percent: 0, ..options(2) };
    let store = FileStore::format(memory(), StoreId(1), false, options).unwrap();
    all_dead(&store);
    assert!(store.usage().space.free_zones > 10, "so much is free that nothing need be cleaned");
    let _cleaner = Cleaner::start(store.clone()).unwrap();
    while store.usage().resets_without_copy < 8 {
        sleep(Duration::from_millis(1));
    }
    assert_eq!(store.usage().copied_bytes, 0);
}

#[test]
fn resets_of_a_thread_are_in_flight_together() {
    zonda_rt::sim::run(1, || {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let store = store(Arc::new(faulty.clone()), 2);
        all_dead(&store);
        let each = Duration::from_millis(400);
        let effect = FaultEffect::Delay(each);
        faulty.inject(Fault { call: Some(DeviceCall::Reset), zone: None, when: FaultWhen::From(1), effect });
        let began = now();
        let cleaner = Cleaner::start(store.clone()).unwrap();
        while store.usage().resets_without_copy < 8 {
            assert!(now().since(began) < LONG, "{:?}", store.usage());
            sleep(Duration::from_millis(1));
        }
        assert!(now().since(began) <= each + Duration::from_millis(50), "eight resets took {:?}", now().since(began));
        drop(cleaner);
    });
}

#[test]
fn no_more_is_copied_at_a_time_than_the_buffer_holds() {
    let reads_of_blocks = |copy_buffer_bytes: u32| {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let options = FileStoreOptions { clean_below_free_percent: 60, copy_buffer_bytes, ..options(2) };
        let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options).unwrap();
        half_dead(&store);
        let (call, when) = (Some(DeviceCall::Read), FaultWhen::From(1));
        faulty.inject(Fault { call, zone: None, when, effect: FaultEffect::Delay(Duration::ZERO) });
        while store.usage().copied_bytes < 100_000 {
            store.clean_step().unwrap();
        }
        (faulty.injected(), store.usage().copied_bytes / 4096)
    };
    let (reads, blocks) = reads_of_blocks(4096);
    assert!(reads >= blocks, "{reads} reads of {blocks} blocks");
    let (reads, blocks) = reads_of_blocks(1 << 20);
    assert!(2 * reads < blocks, "{reads} reads of {blocks} blocks");
    let options = FileStoreOptions { copy_buffer_bytes: 1000, ..options(2) };
    let refused = FileStore::format(memory(), StoreId(1), false, options).err().unwrap();
    assert!(refused.to_string().contains("copy_buffer_bytes"), "{refused}");
}

/// Files that take several reads to copy: whichever is copied first has lost its name before the second.
#[test]
fn removing_a_file_ends_its_copy() {
    zonda_rt::sim::run(1, || {
        let zones = Geometry::new(4 << 20, 24).with_limits(14, 14);
        let faulty = Faulty::new(MemDevice::new(zones).unwrap(), 1);
        let store = store(Arc::new(faulty.clone()), 2);
        for file in 0..11 {
            put(&store, FileKind::Data, &format!("/{file}"), 3 << 20).unwrap();
            put(&store, FileKind::Data, "/short", 900 << 10).unwrap();
        }
        store.sync_names().unwrap();
        let (call, when) = (Some(DeviceCall::Read), FaultWhen::From(1));
        faulty.inject(Fault { call, zone: None, when, effect: FaultEffect::Delay(Duration::from_secs(10)) });
        let cleaner = Cleaner::start(store.clone()).unwrap();
        while faulty.injected() == 0 {
            sleep(Duration::from_millis(1));
        }
        (0..11).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
        while store.usage().space.free_zones < 20 {
            sleep(Duration::from_secs(1));
        }
        drop(cleaner);
        assert_eq!(store.usage().copied_bytes, 0, "{} reads", faulty.injected());
        assert!(faulty.injected() <= 2, "a read of what nobody wants: {}", faulty.injected());
        assert_eq!(store.check().unwrap().findings, []);
    });
}

/// Nobody is short, so that the first thing a thread would do is to reset; then everybody is.
#[test]
fn what_dies_while_a_thread_copies_is_free_at_once() {
    zonda_rt::sim::run(1, || {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let store = store(Arc::new(faulty.clone()), 2);
        let whole_zones = ["/a", "/b", "/c"];
        whole_zones.iter().for_each(|name| put(&store, FileKind::Data, name, 61_440).unwrap());
        half_dead(&store);
        let slow = Duration::from_secs(10);
        let (call, when) = (Some(DeviceCall::Read), FaultWhen::From(1));
        faulty.inject(Fault { call, zone: None, when, effect: FaultEffect::Delay(slow) });
        let cleaner = Cleaner::start(store.clone()).unwrap();
        while faulty.injected() == 0 {
            sleep(Duration::from_millis(1));
        }
        let (began, before) = (now(), store.usage().resets_without_copy);
        whole_zones.iter().for_each(|name| store.remove(&path(name)).unwrap());
        while store.usage().resets_without_copy < before + 3 {
            assert!(now().since(began) < slow / 2, "{:?}", store.usage());
            sleep(Duration::from_millis(10));
        }
        assert_eq!(store.usage().copied_bytes, 0, "the first victim is still being read");
        faulty.heal();
        drop(cleaner);
        assert!((1..20).step_by(2).all(|file| whole(&store, &format!("/{file}"), 30_000)));
        assert_eq!(store.check().unwrap().findings, []);
    });
}

/// What dies while it is copied, while others are reset, and whatever else can meet: nothing is lost and nothing is reset twice.
#[test]
fn threads_that_copy_and_reset_do_not_meet() {
    for seed in 1..=20 {
        zonda_rt::sim::run(seed, || {
            let store = store(memory(), seed);
            let cleaner = Cleaner::start(store.clone()).unwrap();
            for round in 0..40_u32 {
                let name = |file: u32| format!("/{file}");
                let _gone_already = store.remove(&path(&name(round * 7 % 12)));
                put(&store, FileKind::Data, &name(round % 12), 20_000 + 3_000 * (round as usize % 9)).unwrap();
                sleep(Duration::from_micros(u64::from(round % 5) * 100));
            }
            assert_eq!((cleaner.report().errors, cleaner.report().last_error), (0, None), "seed {seed}");
            drop(cleaner);
            assert_eq!(store.check().unwrap().findings, [], "seed {seed}");
            assert!(store.usage().space.zones_reset > 5, "seed {seed}");
        });
    }
}

#[test]
fn a_thread_keeps_a_zone_free_for_the_next_compaction() {
    let options = FileStoreOptions { clean_below_free_percent: 0, ..options(2) };
    // The last two are for MANIFESTs and first records of logs.
    let kept = options.reserve_zones + options.flush_reserve_zones + 2;
    let store = FileStore::format(memory(), StoreId(1), false, options).unwrap();
    let _cleaner = Cleaner::start(store.clone()).unwrap();
    let mut file = 0;
    // Every second file goes at once, so that no zone dies by itself.
    while store.usage().copied_bytes == 0 && file < 200 {
        put(&store, FileKind::Data, &format!("/{file}"), 30_000).unwrap();
        if file % 2 == 1 || file > 20 {
            store.remove(&path(&format!("/{file}"))).unwrap();
        }
        file += 1;
    }
    while store.usage().space.free_zones <= kept {
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_slow_cleaner_holds_up_neither_writers_nor_its_end() {
    let store = store(memory(), 2);
    half_dead(&store);
    // A byte a second: what it has begun it would end next year.
    store.set_clean_rate(1);
    let cleaner = Cleaner::start(store.clone()).unwrap();
    while store.space().usage().open_zones == 0 {
        sleep(Duration::from_millis(1));
    }
    let mut refused = 0;
    for round in 0..200 {
        refused += u32::from(put(&store, FileKind::Data, &format!("/{}", round % 20), 30_000).is_err());
    }
    assert_eq!(refused, 0, "writers clean for themselves");
    drop(cleaner);
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn a_damaged_victim_is_passed_over_and_others_are_cleaned() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let store = store(Arc::new(faulty.clone()), 2);
    half_dead(&store);
    let bad = store.extents(&path("/1")).unwrap()[0];
    let effect = FaultEffect::Error(ErrorKind::Media);
    faulty.inject(Fault { call: Some(DeviceCall::Read), zone: Some(bad.zone), when: FaultWhen::From(1), effect });
    let mut freed = 0;
    while let Some(cleaned) = store.clean_step().unwrap() {
        freed += cleaned.zones_freed;
    }
    assert!(freed > 3, "{freed}");
    assert_eq!(store.usage().spoiled_zones, 1);
    faulty.heal();
    assert!((1..20).step_by(2).all(|file| whole(&store, &format!("/{file}"), 30_000)));
    let still = store.extents(&path("/1")).unwrap()[0];
    assert_eq!(still, bad, "what cannot be read stays where it is");
}

/// What the device does not read for now is tried again when some time has passed, and nobody is refused for it meanwhile.
#[test]
fn a_victim_that_cannot_be_read_for_now_is_tried_again_later() {
    zonda_rt::sim::run(1, unreadable_for_now);
}

fn unreadable_for_now() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    // Whatever is gained, more is wanted.
    let options = FileStoreOptions { clean_below_free_percent: 90, ..options(2) };
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options).unwrap();
    half_dead(&store);
    let away = store.extents(&path("/1")).unwrap()[0];
    let effect = FaultEffect::Error(ErrorKind::Io);
    faulty.inject(Fault { call: Some(DeviceCall::Read), zone: Some(away.zone), when: FaultWhen::From(1), effect });
    let mut freed = 0;
    let refused = loop {
        match store.clean_step() {
            Ok(Some(cleaned)) => freed += cleaned.zones_freed,
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(freed > 3, "{freed}");
    assert!(refused.is_none_or(|error| matches!(error, FileError::Unread { zone, .. } if zone == away.zone.0)));
    assert_eq!(store.usage().spoiled_zones, 0);
    let tried = faulty.injected();
    assert!(tried > 0 && store.extents(&path("/1")).unwrap()[0] == away);
    assert_eq!((store.clean_step().unwrap(), faulty.injected()), (None, tried), "not at once");
    faulty.heal();
    while store.clean_step().unwrap().is_none() {
        zonda_rt::sleep(Duration::from_millis(50));
    }
    assert!(store.extents(&path("/1")).unwrap()[0] != away, "it was moved");
    assert!((1..20).step_by(2).all(|file| whole(&store, &format!("/{file}"), 30_000)));
    assert_eq!(store.check().unwrap().findings, []);
}

/// Tables of half a zone, every second of them gone, until a compaction is refused.
fn full_of_half_dead(store: &FileStore) {
    let mut files = 0;
    while put(store, FileKind::Data, &format!("/{files}"), 30_000).is_ok() {
        files += 1;
    }
    store.remove(&path(&format!("/{files}"))).unwrap();
    (0..files).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
}

/// What a victim fails with is not the writer's error: it may try again later, and until then nobody is told that there is room.
#[test]
fn a_writer_is_refused_for_want_of_space_where_no_victim_can_be_read() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
    full_of_half_dead(&store);
    let (zone, promised) = (store.space().zone_blocks() * 4096, store.usage().free_bytes);
    assert!(promised > 4 * zone, "{promised}");
    let effect = FaultEffect::Error(ErrorKind::Io);
    faulty.inject(Fault { call: Some(DeviceCall::Read), zone: None, when: FaultWhen::From(1), effect });
    let refused = (0..20).find_map(|file| put(&store, FileKind::Data, &format!("/more{file}"), 30_000).err());
    assert!(refused.as_ref().is_some_and(FileError::is_no_space), "{refused:?}");
    assert!(store.usage().free_bytes <= 2 * zone, "{:?}", store.usage());
    faulty.heal();
    let mut written = 0;
    while put(&store, FileKind::Data, &format!("/again{written}"), 30_000).is_ok() {
        written += 32_768;
    }
    assert!(written + 3 * zone >= promised, "{written} of {promised} written");
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn a_writer_is_refused_for_want_of_space_where_no_zone_can_be_reset() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
    full_of_half_dead(&store);
    (1..6).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
    let (zone, promised) = (store.space().zone_blocks() * 4096, store.usage().free_bytes);
    assert!(promised > 4 * zone, "{promised}");
    let effect = FaultEffect::Error(ErrorKind::Media);
    faulty.inject(Fault { call: Some(DeviceCall::Reset), zone: None, when: FaultWhen::From(1), effect });
    let refused = (0..20).find_map(|file| put(&store, FileKind::Data, &format!("/more{file}"), 30_000).err());
    assert!(refused.as_ref().is_some_and(FileError::is_no_space), "{refused:?}");
    assert!(store.usage().free_bytes <= 2 * zone, "{:?}", store.usage());
    faulty.heal();
    (0..4).for_each(|file| put(&store, FileKind::Data, &format!("/again{file}"), 30_000).unwrap());
    assert_eq!(store.check().unwrap().findings, []);
}

/// A zone of logs with a piece of a MANIFEST in each, that is being written all the while, and zones of tables with a piece of a table
/// that is.
#[test]
fn what_writers_have_left_behind_is_moved() {
    for active in [2, 3, 4] {
        let device = Arc::new(MemDevice::new(geometry(active)).unwrap());
        let options = FileStoreOptions { clean_below_free_percent: 90, ..options_with("liza-zns") };
        let store = FileStore::format(device.clone(), StoreId(1), false, options.clone()).unwrap();
        let mut manifest = store.create(&path("/MANIFEST"), FileTags::of(FileKind::Meta)).unwrap();
        let mut table = store.create(&path("/table"), FileTags::of(FileKind::Data)).unwrap();
        let pieces = 4_u8;
        for piece in 0..pieces {
            // More than half a block: the next one does not fit behind it.
            manifest.append(&[piece; 2_700]).unwrap();
            manifest.sync().unwrap();
            table.append(&[piece; 16 << 10]).unwrap();
            put(&store, FileKind::Log, "/log", 50_000).unwrap();
            put(&store, FileKind::Data, "/gone", 40_000).unwrap();
        }
        store.remove(&path("/log")).unwrap();
        store.remove(&path("/gone")).unwrap();
        let (before, of_table) = (store.usage().copied_bytes, table.size_bytes() - (16 << 10));
        while store.clean_step().unwrap().is_some() {}
        let copied = store.usage().copied_bytes - before;
        assert!(copied >= of_table, "{active} active: {copied} of {of_table} moved, {:?}", store.usage());
        manifest.append(&[9; 2_700]).unwrap();
        manifest.sync().unwrap();
        table.append(&[9; 5]).unwrap();
        table.sync().unwrap();
        // Nobody closes: the power goes.
        std::mem::forget((manifest, table));
        drop(store);
        let (store, report) = FileStore::mount(device, options).unwrap();
        assert_eq!((report.records_ignored, report.extents_lost), (0, 0), "{active} active");
        assert_eq!(store.check().unwrap().findings, [], "{active} active");
        let is_whole = |name: &str, piece_bytes: usize, last: usize| {
            let of_pieces = usize::from(pieces) * piece_bytes;
            let mut read = vec![0; of_pieces + last + 1];
            let count = store.open(&path(name)).unwrap().read_at(0, &mut read).unwrap();
            let is_piece =
                |(at, byte): (usize, &u8)| usize::from(*byte) == if at < of_pieces { at / piece_bytes } else { 9 };
            count + 1 == read.len() && read[..count].iter().enumerate().all(is_piece)
        };
        assert!(is_whole("/MANIFEST", 2_700, 2_700) && is_whole("/table", 16 << 10, 5), "{active} active");
    }
}

/// Tables replace each other, a MANIFEST and a log are written beside them: with few active zones all of these share zones, and what
/// cleaning needs must not be used up.
#[test]
fn half_full_stores_take_overwrites_with_few_active_zones() {
    for active in [2, 3, 4, 5] {
        for seed in 1..=3_u64 {
            zonda_rt::sim::run(seed, || overwrite_half_full(active, &format!("{active} active, seed {seed}")));
        }
    }
}

const WRITERS: u32 = 4;
const FILES_EACH: u32 = 17;

fn overwrite_half_full(active: u32, context: &str) {
    let device = Arc::new(MemDevice::new(Geometry::new(256 << 10, 40).with_limits(active, active)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options_with("liza-zns")).unwrap();
    let cleaner = Cleaner::start(store.clone()).unwrap();
    let writers: Vec<_> = (0..WRITERS).map(|writer| overwriting(&store, writer, context)).collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(cleaner.report().last_error, None, "{context}");
    drop(cleaner);
    let usage = store.usage();
    assert!(usage.copied_bytes > 0 && usage.live_bytes * 10 > usage.usable_bytes * 5, "{context}: {usage:?}");
    let mut files = (0..WRITERS).flat_map(|writer| (0..FILES_EACH).map(move |file| format!("/{writer}-{file}")));
    assert!(files.all(|file| whole(&store, &file, 80_000)), "{context}");
    assert_eq!(store.check().unwrap().findings, [], "{context}");
}

/// Replaces tables one after the other, beside what an LSM-tree has besides.
fn overwriting(store: &FileStore, writer: u32, context: &str) -> zonda_rt::JoinHandle<()> {
    let (store, context) = (store.clone(), context.to_string());
    zonda_rt::spawn("overwriting", move || {
        let manifest = path(&format!("/MANIFEST{writer}"));
        let mut manifest = store.create(&manifest, FileTags::of(FileKind::Meta)).unwrap();
        for round in 0..100_u32 {
            let file = if round < FILES_EACH { round } else { round * round * 7 % FILES_EACH };
            let kind = if round % 3 == 0 { FileKind::Flushed } else { FileKind::Data };
            let put = |kind, name: &str, bytes| {
                put(&store, kind, name, bytes).unwrap_or_else(|error| panic!("{context}, round {round}: {error}"));
            };
            put(kind, &format!("/{writer}-{file}"), 80_000);
            put(FileKind::Log, &format!("/log{writer}-{}", round % 2), 9_000);
            manifest.append(&[7; 100]).unwrap();
            if round % 10 == 0 {
                manifest.sync().unwrap();
            }
        }
        manifest.close().unwrap();
    })
}

/// What `free_bytes` says a compaction can write it can write, give or take what open zones and padding hold; flushes go on
/// behind it; deletes bring everything back without a mount.
#[test]
fn free_bytes_agree_with_no_space() {
    for active in [3, 4, 6, 14] {
        for which in 0..5 {
            let device = Arc::new(MemDevice::new(geometry(active)).unwrap());
            let store = FileStore::format(device, StoreId(1), false, options(which)).unwrap();
            let context = format!("{active} active, policy {which}");
            let zone = store.space().zone_blocks() * 4096;
            for life in 0..3 {
                let promised = store.usage().free_bytes;
                let (mut written, mut files) = (0, 0);
                while put(&store, FileKind::Data, &format!("/{life}-{files}"), 20_480).is_ok() {
                    written += 20_480;
                    files += 1;
                }
                assert!(written + 2 * zone >= promised, "{context}: {written} of {promised} written");
                assert!(store.usage().free_bytes <= 2 * zone, "{context}: {:?}", store.usage());
                put(&store, FileKind::Flushed, "/flushed", 8_192).unwrap();
                put(&store, FileKind::Log, "/log", 4_000).unwrap();
                (0..=files).for_each(|file| {
                    let removed = store.remove(&path(&format!("/{life}-{file}")));
                    assert!(removed.is_ok() || file == files, "{context}: {removed:?}");
                });
                assert_eq!(store.check().unwrap().findings, [], "{context}");
            }
        }
    }
}

/// Zones that may be open for tables hold tables: the more of them a device allows, the less is lost to other streams.
#[test]
fn free_bytes_are_what_can_be_written_however_many_zones_may_be_active() {
    for active in [4, 14, 40, 0] {
        let geometry = Geometry::new(64 << 10, 64);
        let geometry = if active == 0 { geometry } else { geometry.with_limits(active, active) };
        let device = Arc::new(MemDevice::new(geometry).unwrap());
        let store = FileStore::format(device, StoreId(1), false, options_with("liza-zns")).unwrap();
        let zone = (store.space().zone_blocks() - 1) * 4096;
        let mut files = 0;
        let mut put_one = || {
            files += 1;
            put(&store, FileKind::Data, &format!("/{files}"), 20_480).is_ok()
        };
        put(&store, FileKind::Log, "/log", 4_000).unwrap();
        put(&store, FileKind::Meta, "/MANIFEST", 4_000).unwrap();
        while store.usage().space.free_zones > 64 - 45 {
            assert!(put_one());
        }
        let (promised, mut written) = (store.usage().free_bytes, 0);
        while put_one() {
            written += 20_480;
        }
        assert!(written + 2 * zone >= promised && promised + 2 * zone >= written, "{active}: {promised}, {written}");
        assert!(store.usage().free_bytes <= 2 * zone && written > 10 * zone, "{active}: {:?}", store.usage());
    }
}

/// A large device may hold many zones' worth of dead bytes that no zone has enough of to be cleaned: these are not free.
#[test]
fn dead_bytes_that_cleaning_leaves_are_not_said_to_be_free() {
    let geometry = Geometry::new(160 << 10, 1000).with_limits(14, 14);
    let device = Arc::new(MemDevice::new(geometry).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options_with("liza-caza")).unwrap();
    let zone = (store.space().zone_blocks() - 1) * 4096;
    // Each zone is filled by a large file and a small one.
    let mut files = 0;
    while put(&store, FileKind::Data, &format!("/{files}"), usize::try_from(zone).unwrap() - 4096).is_ok()
        && put(&store, FileKind::Data, &format!("/s{files}"), 4096).is_ok()
    {
        files += 1;
    }
    assert!(files > 900, "{files}");
    (0..files).for_each(|file| store.remove(&path(&format!("/s{file}"))).unwrap());
    store.sync_names().unwrap();
    let (promised, mut written) = (store.usage().free_bytes, 0);
    while put(&store, FileKind::Data, &format!("/more{written}"), 20_480).is_ok() {
        written += 20_480;
    }
    let usage = store.usage();
    assert!(usage.free_bytes <= 2 * zone, "{usage:?}: a compaction was refused");
    assert!(written + 2 * zone >= promised, "{written} of {promised} written");
    let dead = usage.usable_bytes - usage.live_bytes;
    assert!(dead > 6 * zone, "{dead} dead bytes");
}

/// A FINISH may take long: with a thread that cleans, who closes a file does not wait for it.
#[test]
fn a_thread_finishes_zones_of_files_that_are_closed() {
    zonda_rt::sim::run(1, || {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let options = FileStoreOptions { finish_percent: 50, ..options_with("liza-caza") };
        let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options).unwrap();
        let slow = Duration::from_secs(1);
        let (call, when) = (Some(DeviceCall::Finish), FaultWhen::From(1));
        faulty.inject(Fault { call, zone: None, when, effect: FaultEffect::Delay(slow) });
        let cleaner = Cleaner::start(store.clone()).unwrap();
        let began = now();
        put(&store, FileKind::Data, "/1", 45_000).unwrap();
        assert!(now().since(began) < slow / 2, "it waited for its zone to be finished");
        while store.usage().finishing_time < slow {
            assert!(now().since(began) < 3 * slow, "nobody finishes it");
            sleep(Duration::from_millis(10));
        }
        put(&store, FileKind::Data, "/2", 45_000).unwrap();
        drop(cleaner);
        assert!(store.usage().finishing_time >= 2 * slow, "what was left is finished by who ends the thread");
        assert!(whole(&store, "/1", 45_000) && whole(&store, "/2", 45_000));
    });
}

/// A FINISH may take long: who closes a file waits for it, and nobody else.
#[test]
fn files_find_zones_while_a_zone_is_being_finished() {
    zonda_rt::sim::run(1, || {
        let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let options = FileStoreOptions { finish_percent: 50, ..options_with("liza-caza") };
        let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options).unwrap();
        let slow = Duration::from_secs(1);
        let (call, when) = (Some(DeviceCall::Finish), FaultWhen::Nth(1));
        faulty.inject(Fault { call, zone: None, when, effect: FaultEffect::Delay(slow) });
        let closing = {
            let store = store.clone();
            zonda_rt::spawn("closing", move || {
                let began = now();
                put(&store, FileKind::Data, "/1", 45_000).unwrap();
                now().since(began)
            })
        };
        while faulty.injected() == 0 {
            sleep(Duration::from_millis(1));
        }
        let began = now();
        put(&store, FileKind::Data, "/2", 8_000).unwrap();
        assert!(now().since(began) < slow / 2, "it waited for a zone that is not its own");
        assert!(closing.join().unwrap() >= slow);
        assert!(whole(&store, "/1", 45_000) && whole(&store, "/2", 8_000));
    });
}
