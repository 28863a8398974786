//! Tables in subzones where the drive fails: subzones that fail, whose commands fail, and zones that are lost with all of theirs.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::losing::{Losing, Says};
use common::split::{SUBZONES, geometry, memory, over};
use common::tables::{activate_two_split_zones, deep, is_in_subzone, put, put_wide, split, store_on, whole, zones};
use common::{options_with, path};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, ZoneId, ZoneState, ZonedDevice};
use zonda_files::{FileKind, FileStore, FileStoreOptions, FileTags, Lifetime, StoreId};
use zonda_flash::drive::TimeMode;
use zonda_rt::DeviceCall;
use zonda_space::SplitZoneUse;

/// A drive that loses zones, and a store on it.
fn losing(says: Says) -> (Arc<Losing>, FileStore) {
    let device = Arc::new(Losing::over(over(Arc::new(memory()), TimeMode::Untimed, 1).unwrap(), says));
    let below = Arc::clone(&device) as Arc<dyn ZonedDevice>;
    (device, FileStore::format(below, StoreId(1), false, options_with("splitzns,share=90")).unwrap())
}

fn zone_of_subzone(store: &FileStore, name: &str) -> ZoneId {
    ZoneId((zones(store, name)[0] - geometry().zone_count) / u32::from(SUBZONES))
}

/// The drive has it back, and says so when it is asked.
#[test]
fn a_split_zone_that_is_lost_as_a_whole_gives_its_token_back() {
    for says in [Says::AsBefore, Says::Offline, Says::NotSplit] {
        let (device, store) = losing(says);
        activate_two_split_zones(&store);
        device.lose(zone_of_subzone(&store, "/1"));
        let medium = put_wide(&store, "/medium", Lifetime::Medium);
        assert_eq!(split(&store).active_split_zones, 2, "one token was left");
        let long = put_wide(&store, "/long", Lifetime::Long);
        assert_ne!(long, medium, "lifetimes are mixed for a zone that is gone, {says:?}");
        assert_eq!(split(&store).active_split_zones, 1, "{says:?}");
        let is_as_it_should_be = |store: &FileStore| {
            let gone = store.open(&path("/1")).and_then(|reader| reader.read_at(0, &mut [0; 10]));
            gone.is_err() && whole_of_sevens(store, "/4")
        };
        assert!(is_as_it_should_be(&store), "{says:?}");
        drop(store);
        let options = FileStoreOptions { gives_up_offline: true, ..options_with("splitzns,share=90") };
        assert!(is_as_it_should_be(&FileStore::mount(device, options).unwrap().0), "{says:?}");
    }
}

/// The table goes on elsewhere, and its subzone is not written for ever.
#[test]
fn so_does_one_that_is_lost_while_a_subzone_is_written() {
    for says in [Says::AsBefore, Says::Offline, Says::NotSplit] {
        let (device, store) = losing(says);
        put(&store, "/full", 4, 40_000).unwrap();
        let mut writer = store.create(&path("/1"), deep()).unwrap();
        writer.append(&[7; 20_000]).unwrap();
        writer.sync().unwrap();
        let gone = zone_of_subzone(&store, "/full");
        device.lose(gone);
        let written = writer.append(&[7; 20_000]).and_then(|()| writer.sync());
        drop(writer);
        assert!(written.is_ok(), "{says:?}: {written:?}");
        assert_eq!(split(&store).written_subzones, 0, "{says:?}");
        // As many tables as the zone had subzones, and more.
        (2..8).for_each(|table| put(&store, &format!("/{table}"), 4, 40_000).unwrap());
        assert!((2..8).all(|table| is_in_subzone(&store, &format!("/{table}"))), "{says:?}: {:?}", split(&store));
        assert!((2..8).all(|table| whole(&store, &format!("/{table}"), 40_000)), "{says:?}");
        let holds_token = |view: &SplitZoneUse| view.zone == gone && view.is_active;
        assert!(!store.space().split_view().iter().any(holds_token), "{says:?}");
    }
}

fn whole_of_sevens(store: &FileStore, name: &str) -> bool {
    let mut read = vec![0; 40_000];
    store.open(&path(name)).unwrap().read_at(0, &mut read).unwrap() == 40_000 && read.iter().all(|byte| *byte == 7)
}

/// The zone below that is the subzone of a file.
fn below_of(store: &FileStore, name: &str) -> ZoneId {
    let part = zones(store, name)[0] - geometry().zone_count;
    let count = u32::from(SUBZONES);
    ZoneId(part / count * (count + 1) + part % count)
}

fn fault(call: DeviceCall, zone: Option<ZoneId>, effect: FaultEffect) -> Fault {
    Fault { call: Some(call), zone, when: FaultWhen::Nth(1), effect }
}

#[test]
fn a_subzone_that_fails_costs_its_table_nothing() {
    for (to, readable) in [(ZoneState::ReadOnly, true), (ZoneState::Offline, false)] {
        let faulty = Faulty::new(memory(), 1);
        let store = store_on(Arc::new(faulty.clone()), "splitzns");
        put(&store, "/a", 5, 40_000).unwrap();
        let after = ZoneId(below_of(&store, "/a").0 + 1);
        let tags = FileTags::of(FileKind::Data).with_level(5);
        let mut writer = store.create(&path("/b"), tags).unwrap();
        writer.append(&[b'b'; 20_000]).unwrap();
        writer.flush().unwrap();
        assert_eq!(below_of_open(&store, &writer), after);
        faulty.inject(fault(DeviceCall::Write, Some(after), FaultEffect::Retire(to)));
        writer.append(&[b'b'; 20_000]).unwrap();
        writer.sync().unwrap();
        writer.close().unwrap();
        assert!(whole(&store, "/a", 40_000));
        let mut read = vec![0; 40_000];
        let found = store.open(&path("/b")).unwrap().read_at(0, &mut read);
        assert_eq!(found.is_ok(), readable, "{to}: {found:?}");
        assert!(!readable || read.iter().all(|&byte| byte == b'b'));
        // The zone goes on without it, and its token comes back.
        (0..20).for_each(|file| put(&store, &format!("/{file}"), 5, 40_000).unwrap());
        assert!((0..20).all(|file| whole(&store, &format!("/{file}"), 40_000)));
        ["/a", "/b"].iter().for_each(|name| store.remove(&path(name)).unwrap());
        store.sync_names().unwrap();
        assert!(split(&store).merges >= 1);
    }
}

#[test]
fn a_subzone_whose_header_is_not_read_costs_nothing() {
    for which in 0..3 {
        let faulty = Faulty::new(memory(), 1);
        let store = store_on(Arc::new(faulty.clone()), "splitzns");
        ["/a", "/gone"].iter().for_each(|name| put(&store, name, 5, 40_000).unwrap());
        let mut writer = store.create(&path("/b"), deep()).unwrap();
        writer.append(&[b'b'; 20_000]).unwrap();
        writer.sync().unwrap();
        let below = [below_of(&store, "/a"), below_of(&store, "/gone"), below_of_open(&store, &writer)][which];
        store.remove(&path("/gone")).unwrap();
        store.sync_names().unwrap();
        std::mem::forget(writer);
        drop(store);
        for life in 0..2 {
            faulty.inject(fault(DeviceCall::Read, Some(below), FaultEffect::Error(ErrorKind::Media)));
            let device = over(Arc::new(faulty.clone()), TimeMode::Untimed, 1).unwrap();
            let (store, report) = FileStore::mount(device, options_with("splitzns")).unwrap();
            faulty.heal();
            assert_eq!(report.extents_lost, 0, "{which}, life {life}");
            assert!(whole(&store, "/a", 40_000) && whole(&store, "/b", 20_000), "{which}, life {life}");
            assert_eq!(
                (split(&store).written_subzones, split(&store).active_split_zones),
                (0, 0),
                "{which}, life {life}"
            );
            assert_eq!(store.check().unwrap().findings, [], "{which}, life {life}");
        }
    }
}

fn below_of_open(store: &FileStore, writer: &zonda_files::FileWriter) -> ZoneId {
    assert_eq!(writer.size_bytes(), 20_000);
    let open = store.space().subzone_view();
    let open = open.iter().find(|view| view.written_bytes == 20_480).unwrap().zone.0 - geometry().zone_count;
    let count = u32::from(SUBZONES);
    ZoneId(open / count * (count + 1) + open % count)
}

#[test]
fn faults_of_splitting_and_merging_leave_a_store_that_works() {
    for (call, nth) in
        [(DeviceCall::Finish, 1), (DeviceCall::Reset, 1), (DeviceCall::Write, 3), (DeviceCall::Report, 2)]
    {
        let faulty = Faulty::new(memory(), 1);
        let store = store_on(Arc::new(faulty.clone()), "splitzns");
        put(&store, "/0", 5, 40_000).unwrap();
        let effect = FaultEffect::Error(ErrorKind::Media);
        faulty.inject(Fault { call: Some(call), zone: None, when: FaultWhen::Nth(nth), effect });
        let mut failed = 0;
        for file in 1..12 {
            let name = format!("/{}", file % 5);
            failed += u32::from(put(&store, &name, 5, 40_000).is_err());
            failed += u32::from(store.sync_names().is_err());
        }
        faulty.heal();
        assert!(failed <= 2, "{call:?}: {failed} operations failed for one fault");
        for file in 0..5 {
            let name = format!("/{file}");
            put(&store, &name, 5, 40_000).unwrap_or_else(|error| panic!("{call:?}: {error}"));
            assert!(whole(&store, &name, 40_000), "{call:?}");
        }
        assert_eq!(store.check().unwrap().findings, [], "{call:?}");
    }
}

/// The token of its zone is not pinned for good: the subzone is merged once its table is gone, and finished by whoever closes another.
#[test]
fn a_subzone_that_could_not_be_finished_comes_back() {
    let unfinished = || {
        let faulty = Faulty::new(memory(), 1);
        let store = store_on(Arc::new(faulty.clone()), "splitzns");
        put(&store, "/0", 5, 40_000).unwrap();
        let effect = FaultEffect::Error(ErrorKind::Media);
        faulty.inject(Fault { call: Some(DeviceCall::Finish), zone: None, when: FaultWhen::From(1), effect });
        put(&store, "/1", 5, 40_000).unwrap();
        assert_eq!(split(&store).written_subzones, 1, "{:?}", split(&store));
        faulty.heal();
        store
    };
    let store = unfinished();
    ["/0", "/1"].iter().for_each(|name| store.remove(&path(name)).unwrap());
    store.sync_names().unwrap();
    assert_eq!(split(&store).written_subzones, 0, "the one that has the newest header waits for a newer one");
    let store = unfinished();
    put(&store, "/2", 5, 40_000).unwrap();
    let usage = split(&store);
    assert_eq!((usage.full_subzones, usage.written_subzones), (3, 0));
    assert!((0..3).all(|file| whole(&store, &format!("/{file}"), 40_000)));
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn a_subzone_whose_header_cannot_be_written_is_passed_over() {
    let faulty = Faulty::new(memory(), 1);
    let store = store_on(Arc::new(faulty.clone()), "splitzns");
    put(&store, "/0", 5, 40_000).unwrap();
    let bad = zones(&store, "/0")[0] + 1;
    let (call, zone) = (Some(DeviceCall::Write), Some(ZoneId(below_of(&store, "/0").0 + 1)));
    faulty.inject(Fault { call, zone, when: FaultWhen::From(1), effect: FaultEffect::Error(ErrorKind::Media) });
    (1..6).for_each(|file| put(&store, &format!("/{file}"), 5, 40_000).unwrap());
    assert!(
        (1..6).all(|file| is_in_subzone(&store, &format!("/{file}")) && zones(&store, &format!("/{file}")) != [bad])
    );
    assert_eq!(faulty.injected(), 1, "it is taken last");
    faulty.heal();
    (6..9).for_each(|file| put(&store, &format!("/{file}"), 5, 40_000).unwrap());
    assert!((0..9).all(|file| whole(&store, &format!("/{file}"), 40_000)));
    assert_eq!(store.check().unwrap().findings, []);
}

/// What was to be durable is durable, and the subzone is reset another time.
#[test]
fn a_subzone_that_cannot_be_reset_fails_no_sync() {
    let faulty = Faulty::new(memory(), 1);
    let store = store_on(Arc::new(faulty.clone()), "splitzns");
    (0..3).for_each(|file| put(&store, &format!("/{file}"), 5, 40_000).unwrap());
    let (call, effect) = (Some(DeviceCall::Reset), FaultEffect::Error(ErrorKind::Media));
    faulty.inject(Fault { call, zone: None, when: FaultWhen::From(1), effect });
    store.remove(&path("/1")).unwrap();
    store.sync_names().unwrap();
    put(&store, "/3", 5, 40_000).unwrap();
    assert!(faulty.injected() > 0 && split(&store).merges == 0);
    faulty.heal();
    put(&store, "/4", 5, 40_000).unwrap();
    assert_eq!(split(&store).merges, 1);
    assert!([0, 2, 3, 4].iter().all(|file| whole(&store, &format!("/{file}"), 40_000)));
    assert_eq!(store.check().unwrap().findings, []);
}
