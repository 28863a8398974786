//! Tables in subzones: random operations and power cuts against the model, the life of a subzone step by step, a device without
//! subzones. Faults are in `splitzns_faults.rs`.
//!
//! A failure of the first names its seed; `ZONDA_FILES_SEED=n cargo test -p zonda-files --test splitzns` runs that one alone,
//! `ZONDA_FILES_RUNS=n` seeds 0 to n - 1.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::disturbed::Disturbed;
use common::split::{SUBZONE_BYTES, SUBZONES, geometry, memory, over};
use common::tables::{
    activate_two_split_zones, deep, is_in_subzone, put, put_wide, split, store, store_on, store_with, whole, zones,
};
use common::world::{Tally, World};
use common::{options_with, path};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemDevice};
use zonda_files::lsm::{KeyOrder, KeyRange, TableHint, VersionEdit};
use zonda_files::{Cleaned, FileError, FileKind, FileStore, FileStoreOptions, FileTags, Lifetime, SplitUsage, StoreId};
use zonda_flash::drive::TimeMode;
use zonda_rt::DeviceCall;

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("ZONDA_FILES_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..std::env::var("ZONDA_FILES_RUNS").map_or(count, |runs| runs.parse().unwrap())).collect(),
    }
}

#[test]
fn files_are_what_the_model_says_through_power_cuts() {
    let mut tally = Tally::default();
    for seed in seeds(100) {
        println!("seed {seed}");
        World::on_split_zones(seed).run(700, &mut tally);
    }
    println!("{tally:?}");
    if std::env::var("ZONDA_FILES_SEED").is_err() {
        let SplitUsage { tables, splits, merges, joins, overflowing, finishes, .. } = tally.split;
        assert!(tally.cuts > 80 && tables > 500 && merges > 200 && tally.copied_bytes > 0, "{tally:?}");
        assert!(splits > 100 && joins > 15 && overflowing > 100 && finishes > 20, "{tally:?}");
        assert!(tally.cuts_in_finishes > 80, "{tally:?}");
    }
}

#[test]
fn deep_tables_get_subzones_and_others_do_not() {
    let store = store("splitzns");
    assert_eq!(store.placement(), ("splitzns", None));
    put(&store, "/a", 4, 50_000).unwrap();
    put(&store, "/b", 6, SUBZONE_BYTES).unwrap();
    put(&store, "/c", 3, 50_000).unwrap();
    let mut log = store.create(&path("/log"), FileTags::of(FileKind::Log)).unwrap();
    log.append(&[1; 5_000]).unwrap();
    log.sync().unwrap();
    log.close().unwrap();
    assert!(is_in_subzone(&store, "/a") && is_in_subzone(&store, "/b"));
    assert!(!is_in_subzone(&store, "/c"));
    let first = geometry().zone_count + zones(&store, "/a")[0].saturating_sub(geometry().zone_count) / 4 * 4;
    assert_eq!((zones(&store, "/a"), zones(&store, "/b")), (vec![first], vec![first + 1]), "one split zone");
    let usage = split(&store);
    assert_eq!((usage.split_zones, usage.full_subzones, usage.empty_subzones, usage.tables), (1, 2, 2, 2));
    assert_eq!(usage.wasted_bytes, SUBZONE_BYTES as u64 - 53_248, "what /a left of its subzone");
    assert!(whole(&store, "/a", 50_000) && whole(&store, "/b", SUBZONE_BYTES));
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn a_subzone_is_merged_when_its_table_goes_and_the_zone_joined_when_all_are() {
    let store = store("splitzns");
    (0..4).for_each(|file| put(&store, &format!("/{file}"), 5, 40_000).unwrap());
    assert_eq!(split(&store).full_subzones, 4);
    let reader = store.open(&path("/0")).unwrap();
    (0..3).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    assert_eq!(split(&store).merges, 0, "their removal is not durable");
    store.sync_names().unwrap();
    assert_eq!((split(&store).merges, split(&store).empty_subzones), (2, 2), "one has a reader");
    let mut byte = [0];
    reader.read_at(39_999, &mut byte).unwrap();
    assert_eq!(byte, [b'0']);
    drop(reader);
    put(&store, "/4", 5, 40_000).unwrap();
    let usage = split(&store);
    assert_eq!(
        (usage.split_zones, usage.splits, usage.merges),
        (1, 1, 3),
        "an empty subzone was used again: {usage:?}"
    );
    let free = store.usage().space.free_zones;
    ["/3", "/4"].iter().for_each(|name| store.remove(&path(name)).unwrap());
    store.sync_names().unwrap();
    let usage = split(&store);
    assert_eq!((usage.split_zones, usage.merges, usage.joins), (1, 5, 0), "the newest header of the store stays");
    // Until there is a newer one.
    put(&store, "/wide", 1, 4_000).unwrap();
    store.sync_names().unwrap();
    store.remove(&path("/wide")).unwrap();
    store.sync_names().unwrap();
    assert_eq!((split(&store).split_zones, split(&store).joins), (0, 1));
    assert!(store.usage().space.free_zones >= free);
    assert_eq!(store.usage().copied_bytes, 0);
}

#[test]
fn a_store_full_of_rests_says_so() {
    let store = store("splitzns");
    let refused = (0..10_000).find_map(|file| put(&store, &format!("/{file}"), 5, 9_000).err()).unwrap();
    let FileError::NoSpace { live_bytes, usable_bytes, unfilled_bytes, .. } = refused else { panic!("{refused}") };
    assert_eq!(unfilled_bytes, split(&store).wasted_bytes);
    assert!(live_bytes < usable_bytes / 2 && unfilled_bytes > live_bytes, "{refused}");
    assert!(refused.to_string().contains(&format!("{unfilled_bytes} of these cannot be filled")), "{refused}");
}

/// Who finds no room commits first, and so do all who sync.
#[test]
fn subzones_of_tables_that_are_gone_count_as_free() {
    let faulty = Faulty::new(memory(), 1);
    let store = store_on(Arc::new(faulty.clone()), "splitzns,share=90");
    (0..8).for_each(|file| put(&store, &format!("/{file}"), 4, 40_000).unwrap());
    let before = store.usage().free_bytes;
    // Of two split zones, so that none becomes an ordinary one.
    ["/0", "/1", "/4"].iter().for_each(|name| store.remove(&path(name)).unwrap());
    assert_eq!(store.usage().free_bytes - before, 3 * SUBZONE_BYTES as u64);
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
    faulty.inject(Fault { call, zone: None, when: FaultWhen::From(1), effect });
    store.sync_names().unwrap();
    assert_eq!(split(&store).merges, 0);
    assert_eq!(store.usage().free_bytes, before, "nobody counts on what was not reset");
    faulty.heal();
    store.make_directory(&path("/d")).and_then(|()| store.sync_names()).unwrap();
    assert_eq!(split(&store).merges, 3);
    assert_eq!(store.usage().free_bytes - before, 3 * SUBZONE_BYTES as u64);
}

#[test]
fn a_table_that_overflows_gets_its_tail_in_a_wide_zone() {
    let store = store("splitzns");
    put(&store, "/a", 4, SUBZONE_BYTES + 9_000).unwrap();
    let zones = zones(&store, "/a");
    assert!(zones.len() == 2 && zones[0] >= geometry().zone_count && zones[1] < geometry().zone_count, "{zones:?}");
    let usage = split(&store);
    assert_eq!((usage.overflowing, usage.overflow_bytes, usage.wasted_bytes), (1, 12_288, 0));
    assert!(whole(&store, "/a", SUBZONE_BYTES + 9_000));
}

#[test]
fn no_more_zones_are_split_than_the_share_allows_and_nobody_waits() {
    let store = store("splitzns,share=10");
    for file in 0..12 {
        put(&store, &format!("/{file}"), 4, 40_000).unwrap();
    }
    let usage = split(&store);
    assert_eq!((usage.split_zones, usage.tables, usage.refused.share), (2, 8, 4), "{usage:?}");
    assert!((0..12).all(|file| whole(&store, &format!("/{file}"), 40_000)));
}

#[test]
fn a_table_gets_the_subzone_of_one_that_is_gone_where_there_is_no_other() {
    let store = store("splitzns,share=10");
    (0..8).for_each(|file| put(&store, &format!("/{file}"), 4, 40_000).unwrap());
    store.remove(&path("/3")).unwrap();
    put(&store, "/9", 4, 40_000).unwrap();
    let usage = split(&store);
    assert_eq!((usage.tables, usage.refused.total(), usage.merges), (9, 0, 1), "{usage:?}");
    assert!(is_in_subzone(&store, "/9") && whole(&store, "/9", 40_000));
}

#[test]
fn a_zone_that_is_dead_is_split_for_a_table_where_there_is_no_other() {
    let store = store("splitzns,share=90");
    (0..8).for_each(|file| put(&store, &format!("/wide{file}"), 1, 80_000).unwrap());
    let mut deep = 0;
    while split(&store).refused.zones == 0 {
        put(&store, &format!("/deep{deep}"), 4, 40_000).unwrap();
        deep += 1;
    }
    (0..8).for_each(|file| store.remove(&path(&format!("/wide{file}"))).unwrap());
    put(&store, "/9", 4, 40_000).unwrap();
    assert_eq!((split(&store).refused.total(), split(&store).tables), (1, deep), "{:?}", split(&store));
    assert!(is_in_subzone(&store, "/9") && whole(&store, "/9", 40_000));
}

/// Rather than to put the table among others of which it would have to be moved.
#[test]
fn a_zone_is_emptied_and_split_for_a_table_where_there_is_no_other() {
    let store = store("splitzns,share=90");
    (0..24).for_each(|file| put(&store, &format!("/wide{file}"), 1, 80_000).unwrap());
    (0..).take_while(|deep| put(&store, &format!("/deep{deep}"), 4, 40_000).is_ok()).for_each(drop);
    let before = split(&store);
    assert!(before.refused.zones > 0, "{before:?}");
    (0..24).step_by(2).for_each(|file| store.remove(&path(&format!("/wide{file}"))).unwrap());
    put(&store, "/9", 4, 40_000).unwrap();
    let after = split(&store);
    assert_eq!((after.refused, after.tables), (before.refused, before.tables + 1));
    assert!(is_in_subzone(&store, "/9") && whole(&store, "/9", 40_000));
    assert!(store.usage().copied_bytes > 0, "{:?}", store.usage());
    assert!((1..24).step_by(2).all(|file| whole(&store, &format!("/wide{file}"), 80_000)));
}

/// It goes into a wide zone at once, here beside a file that will live longer.
#[test]
fn by_the_papers_rule_no_zone_is_emptied_for_a_table() {
    let store = store("splitzns,share=90,rule=paper");
    (0..16).for_each(|file| put(&store, &format!("/deep{file}"), 4, 40_000).unwrap());
    (0..21).for_each(|file| put(&store, &format!("/wide{file}"), 1, 80_000).unwrap());
    let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Extreme).with_level(1);
    let mut longer = store.create(&path("/longer"), tags).unwrap();
    longer.append(&[1; 4_000]).unwrap();
    longer.close().unwrap();
    let before = split(&store);
    assert_eq!((before.refused.total(), before.tables, before.empty_subzones), (0, 16, 0));
    (0..21).step_by(2).for_each(|file| store.remove(&path(&format!("/wide{file}"))).unwrap());
    put(&store, "/9", 4, 40_000).unwrap();
    let after = split(&store);
    assert_eq!((after.refused.zones, after.refused.total(), after.tables), (1, 1, 16), "{after:?}");
    assert_eq!(zones(&store, "/9"), zones(&store, "/longer"));
    assert_eq!(store.usage().copied_bytes, 0, "nothing was cleaned for it");
    assert!(whole(&store, "/9", 40_000));
}

#[test]
fn a_split_zone_gives_its_token_back_when_it_is_full() {
    let store = store("splitzns,share=90");
    for file in 0..16 {
        put(&store, &format!("/{file}"), 4, 40_000).unwrap();
    }
    let usage = split(&store);
    assert_eq!((usage.split_zones, usage.active_split_zones, usage.finishes), (4, 0, 0), "{usage:?}");
    // A subzone of one that was finished is used again with a token.
    let first = zones(&store, "/0")[0];
    store.remove(&path("/0")).unwrap();
    store.sync_names().unwrap();
    let mut writer = store.create(&path("/again"), deep()).unwrap();
    writer.append(&[7; 40_000]).unwrap();
    writer.sync().unwrap();
    assert_eq!((zones(&store, "/again"), split(&store).active_split_zones), (vec![first], 1));
    writer.close().unwrap();
    assert_eq!(split(&store).active_split_zones, 0);
    assert_eq!(store.check().unwrap().findings, []);
}

/// Its tables have left their subzones for wide zones before they are closed.
#[test]
fn a_split_zone_that_is_full_of_overflowing_tables_gives_its_token_back() {
    for bytes in [SUBZONE_BYTES, SUBZONE_BYTES + 9_000] {
        let store = store("splitzns,share=90");
        (0..4).for_each(|file| put(&store, &format!("/{file}"), 4, bytes).unwrap());
        let usage = split(&store);
        assert_eq!((usage.full_subzones, usage.empty_subzones), (4, 0), "{usage:?}");
        assert_eq!(usage.active_split_zones, 0, "tables of {bytes} bytes");
        assert!((0..4).all(|file| whole(&store, &format!("/{file}"), bytes)));
    }
}

/// Of three tokens two are with split zones: one that is full but for a subzone, and another.
fn with_two_split_zones_active() -> FileStore {
    let store = store("splitzns,share=90");
    activate_two_split_zones(&store);
    store
}

#[test]
fn the_split_zone_used_longest_ago_gives_its_token_to_a_wide_one() {
    let store = with_two_split_zones_active();
    let wide = |name: &str, lifetime: Lifetime| put_wide(&store, name, lifetime);
    let medium = wide("/medium", Lifetime::Medium);
    assert_eq!((split(&store).active_split_zones, split(&store).finishes), (2, 0), "one token was left");
    let long = wide("/long", Lifetime::Long);
    assert_ne!(long, medium, "lifetimes are mixed while a split zone idles");
    assert_eq!((split(&store).active_split_zones, split(&store).finishes), (1, 1));
    // One is left to tables that want a subzone.
    assert!([medium, long].contains(&wide("/extreme", Lifetime::Extreme)));
    assert_eq!((split(&store).active_split_zones, split(&store).finishes), (1, 1));
    put(&store, "/deep", 4, 40_000).unwrap();
    assert!(is_in_subzone(&store, "/deep"));
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn plus_gives_a_subzone_to_what_will_be_moved() {
    let store = store("splitzns+");
    let tree = store.tree(&path("/"), 0, KeyOrder::bytewise());
    let write = |name: &str, level: u8, keys: (&str, &str)| {
        let mut writer = store.create(&path(name), FileTags::of(FileKind::Data)).unwrap();
        writer.append(&[7; 30_000]).unwrap();
        let range = Some(KeyRange::new(keys.0, keys.1));
        writer.describe(TableHint { tree, job: None, level, range }).unwrap();
        writer.sync().unwrap();
        writer.close().unwrap();
    };
    write("/deep", 4, ("10", "19"));
    let added = vec![(path("/deep"), 4, KeyRange::new("10", "19"))];
    store.apply_edit(tree, &VersionEdit { removed: Vec::new(), added });
    write("/apart", 3, ("30", "39"));
    write("/over", 3, ("15", "16"));
    write("/high", 2, ("50", "59"));
    let found = ["/deep", "/apart", "/over", "/high"].map(|name| is_in_subzone(&store, name));
    assert_eq!(found, [true, true, false, false]);
}

#[test]
fn a_device_without_subzones_is_used_by_lifetimes_and_says_so() {
    let device = Arc::new(MemDevice::new(common::geometry(14)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options_with("splitzns")).unwrap();
    assert_eq!(store.placement(), ("liza-zns", Some("the device does not split zones")));
    put(&store, "/a", 6, 40_000).unwrap();
    assert!(store.split_usage().is_none() && whole(&store, "/a", 40_000));
}

#[test]
fn a_store_with_subzones_is_refused_where_there_are_none() {
    let below = Arc::new(memory());
    drop(store_on(below.clone(), "splitzns"));
    let device = over(below, TimeMode::Untimed, 1).unwrap();
    let without = Disturbed::new(device.clone(), u64::MAX, Box::new(|| ()));
    let refused = FileStore::mount_read_only(Arc::new(without), options_with("ldp")).map(drop).unwrap_err();
    assert!(refused.to_string().contains("number of subzones"), "{refused}");
    let (store, _) = FileStore::mount(device, options_with("ldp")).unwrap();
    assert_eq!(store.space().subzones(), Some(SUBZONES.into()), "another policy mounts it");
}

#[test]
fn subzones_are_found_again_and_finished() {
    let below = Arc::new(memory());
    let store = store_on(below.clone(), "splitzns");
    (0..6).for_each(|file| put(&store, &format!("/{file}"), 5, 40_000).unwrap());
    store.remove(&path("/1")).unwrap();
    store.sync_names().unwrap();
    drop(store);
    let device = over(below, TimeMode::Untimed, 1).unwrap();
    let (store, report) = FileStore::mount(device, options_with("splitzns")).unwrap();
    assert_eq!((report.extents_lost, report.files), (0, 5));
    let usage = split(&store);
    assert_eq!((usage.split_zones, usage.full_subzones, usage.active_split_zones), (2, 5, 0), "{usage:?}");
    assert!([0, 2, 3, 4, 5].iter().all(|file| whole(&store, &format!("/{file}"), 40_000)));
    assert_eq!(store.check().unwrap().findings, []);
    (0..6).filter(|file| *file != 1).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
    assert_eq!((split(&store).split_zones, split(&store).merges), (0, 5));
}

/// A share of the zones that are not split is to be free, not of all: what is in subzones cannot be moved to make room.
#[test]
fn cleaning_keeps_a_part_of_the_zones_that_are_not_split() {
    let options = FileStoreOptions { clean_below_free_percent: 65, ..options_with("splitzns,share=30") };
    let store = store_with(Arc::new(memory()), options);
    (0..24).for_each(|file| put(&store, &format!("/deep{file}"), 5, SUBZONE_BYTES).unwrap());
    ["/a", "/b", "/c"].iter().for_each(|name| put(&store, name, 1, 80_000).unwrap());
    store.remove(&path("/a")).unwrap();
    store.sync_names().unwrap();
    assert_eq!(split(&store).split_zones, 6, "of 20");
    for file in 0..12 {
        let free = store.usage().space.free_zones;
        let cleaned = store.clean_step().unwrap();
        assert_eq!(cleaned.is_some_and(|cleaned| cleaned.bytes_copied > 0), free < 9, "{free} free, {cleaned:?}");
        if cleaned.is_some() {
            return;
        }
        put(&store, &format!("/{file}"), 1, 120_000).unwrap();
    }
    panic!("never cleaned: {:?}", store.usage());
}

/// Of three tables one is dead, one left its version and one lives, in zones of which one more is wanted free: with how many are, and
/// what a step of cleaning does.
fn cleaned_beside_doomed(policy: &str, free_zones: u32) -> (FileStore, Option<Cleaned>) {
    let options = FileStoreOptions { clean_below_free_percent: 65, ..options_with(policy) };
    let store = store_with(Arc::new(memory()), options);
    let tree = store.tree(&path("/"), 0, KeyOrder::bytewise());
    let mut names = Vec::new();
    while store.usage().space.free_zones > free_zones {
        let name = format!("/{}", names.len());
        let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Long).with_level(1);
        let mut writer = store.create(&path(&name), tags).unwrap();
        writer.append(&[7; 80_000]).unwrap();
        let range = Some(KeyRange::new("10", "19"));
        writer.describe(TableHint { tree, job: None, level: 1, range }).unwrap();
        writer.sync().unwrap();
        writer.close().unwrap();
        names.push(path(&name));
    }
    // The last one lives: a zone with nothing else in it would be dead.
    names.pop();
    names.iter().step_by(3).for_each(|name| store.remove(name).unwrap());
    let removed = names.into_iter().skip(1).step_by(3).collect();
    store.apply_edit(tree, &VersionEdit { removed, added: Vec::new() });
    store.sync_names().unwrap();
    let cleaned = store.clean_step().unwrap();
    (store, cleaned)
}

#[test]
fn cleaning_waits_for_what_is_doomed_while_there_is_room() {
    // 13 of 20 are wanted free.
    let cleaned = |policy, free| cleaned_beside_doomed(policy, free).1.is_some_and(|cleaned| cleaned.bytes_copied > 0);
    assert!(cleaned("splitzns", 12));
    assert!(!cleaned("splitzns,wait=doomed", 12), "one is doomed");
    assert!(cleaned("splitzns,wait=doomed", 8), "not four more");
    let (store, _) = cleaned_beside_doomed("splitzns,wait=doomed", 12);
    assert_eq!(store.check().unwrap().findings, []);
}

/// Deep tables in a wide zone that is to be cleaned, for some of which there are subzones by now; with the names of these tables.
fn deep_tables_beside_empty_subzones(policy: &str) -> (FileStore, Vec<String>) {
    let options = FileStoreOptions { clean_below_free_percent: 90, ..options_with(policy) };
    let store = store_with(Arc::new(memory()), options);
    let deep = |range: std::ops::Range<u32>| range.map(|file| format!("/deep{file}")).collect::<Vec<_>>();
    deep(0..20).iter().for_each(|name| put(&store, name, 4, 40_000).unwrap());
    let wide: Vec<String> = deep(0..20).into_iter().filter(|name| !is_in_subzone(&store, name)).collect();
    assert_eq!((split(&store).refused.share, wide.len()), (12, 12));
    // Two of the first wide zone go, and three subzones become empty.
    for name in deep(0..3).iter().chain(&wide[..2]) {
        store.remove(&path(name)).unwrap();
    }
    store.sync_names().unwrap();
    (store, wide[2..].to_vec())
}

/// Those that found none when they were written: then they are moved once.
#[test]
fn a_deep_table_that_is_moved_gets_an_empty_subzone() {
    let (store, left) = deep_tables_beside_empty_subzones("splitzns,share=10");
    while split(&store).moved == 0 {
        assert!(store.clean_step().unwrap().is_some(), "{:?}", split(&store));
    }
    let usage = split(&store);
    assert_eq!((usage.moved, usage.tables, usage.empty_subzones, usage.written_subzones), (3, 8, 0, 0), "{usage:?}");
    assert_eq!(left.iter().filter(|name| is_in_subzone(&store, name)).count(), 3);
    let first = (3..8).map(|file| format!("/deep{file}"));
    assert!(left.into_iter().chain(first).all(|name| whole(&store, &name, 40_000)));
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn by_the_papers_rule_a_deep_table_that_is_moved_stays_in_wide_zones() {
    let (store, left) = deep_tables_beside_empty_subzones("splitzns,share=10,rule=paper");
    while store.clean_step().unwrap().is_some() {}
    let usage = split(&store);
    assert!(store.usage().copied_bytes > 0);
    assert_eq!((usage.moved, usage.empty_subzones), (0, 3), "{usage:?}");
    assert!(left.iter().all(|name| !is_in_subzone(&store, name) && whole(&store, name, 40_000)));
    assert_eq!(store.check().unwrap().findings, []);
}

/// Overwrites at 70 % of the device for a while: nothing is ever moved out of a subzone (which is asserted where it would be), and
/// nobody is refused.
#[test]
fn a_full_device_goes_on_without_moving_tables_out_of_subzones() {
    let store = store("splitzns");
    let mut written = 0;
    for round in 0..400_u32 {
        let file = round * 7 % 40;
        let level = if file < 8 { 2 } else { 5 };
        put(&store, &format!("/{file}"), level, 52_000).unwrap();
        written += 52_000;
    }
    let (usage, split) = (store.usage(), split(&store));
    assert!(split.merges > 200, "{split:?}");
    assert!(usage.copied_bytes * 5 < written, "{usage:?}");
    assert!((0..40).all(|file| whole(&store, &format!("/{file}"), 52_000)));
    assert_eq!(store.check().unwrap().findings, []);
}
