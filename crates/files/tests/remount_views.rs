//! What policies see of zones is the same after a remount: lifetime, level, room and age of those that are open.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options_with, path};
use zonda_device::MemDevice;
use zonda_files::policy::OpenZoneView;
use zonda_files::{FileKind, FileStore, FileStoreOptions, FileTags, Lifetime, StoreId, ZoneId};

fn put(store: &FileStore, name: &str, tags: FileTags, bytes: usize) {
    let mut writer = store.create(&path(name), tags).unwrap();
    writer.append(&vec![7; bytes]).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
}

fn table(lifetime: Lifetime, level: u8) -> FileTags {
    FileTags::of(FileKind::Data).with_lifetime(lifetime).with_level(level)
}

/// The zone of a file's end.
fn zone_of(store: &FileStore, name: &str) -> ZoneId {
    store.extents(&path(name)).unwrap().last().unwrap().zone
}

/// Open zones from the oldest on, without the number of openings, which begins anew.
fn views(store: &FileStore) -> Vec<OpenZoneView> {
    let mut views = store.open_zones();
    views.sort_by_key(|view| view.opened);
    (0..).zip(views).map(|(opened, view)| OpenZoneView { opened, ..view }).collect()
}

/// A device with a store, and the policy that it is mounted with.
struct Scene {
    device: Arc<MemDevice>,
    policy: &'static str,
}

impl Scene {
    fn new(active_max: u32, policy: &'static str) -> (Self, FileStore) {
        let device = Arc::new(MemDevice::new(geometry(active_max)).unwrap());
        let store = FileStore::format(device.clone(), StoreId(1), false, options_with(policy)).unwrap();
        (Self { device, policy }, store)
    }

    fn remount(&self, store: FileStore) -> FileStore {
        drop(store);
        FileStore::mount(self.device.clone(), options_with(self.policy)).unwrap().0
    }
}

#[test]
fn open_zones_have_the_lifetimes_and_levels_that_they_had() {
    for policy in ["levels", "liza-zns", "liza-caza", "caza"] {
        let (scene, store) = Scene::new(14, policy);
        // Zones of one level fill one after the other: an open one may have a smaller number than an older one.
        for round in 0..3 {
            for (lifetime, level) in [(Lifetime::Extreme, 4), (Lifetime::Medium, 1), (Lifetime::Long, 2)] {
                put(&store, &format!("/{level}-{round}"), table(lifetime, level), 28_000);
            }
        }
        put(&store, "/log", FileTags::of(FileKind::Log), 5000);
        let before = views(&store);
        let of_tables: Vec<_> = before.iter().filter_map(|view| Some((view.level?, view.lifetime))).collect();
        let zones_min = if policy == "levels" { 3 } else { 1 };
        assert!(of_tables.len() >= zones_min, "{policy}: {before:?}");
        let live = |store: &FileStore, name: &str| store.space().live_bytes(zone_of(store, name));
        let full = live(&store, "/4-0");
        let store = scene.remount(store);
        assert_eq!(views(&store), before, "{policy}");
        assert_eq!(live(&store, "/4-0"), full, "{policy}: of a full zone live bytes are all there is to know");
        let kept = store.info(&path("/4-0")).unwrap().tags;
        assert_eq!((kept.lifetime, kept.level), (Lifetime::Extreme, Some(4)), "{policy}");
        if policy == "levels" {
            put(&store, "/4-next", table(Lifetime::Extreme, 4), 4000);
            assert_eq!(zone_of(&store, "/4-next"), zone_of(&store, "/4-2"), "it joins what there is of its level");
        }
    }
}

/// Zones say nothing of files, and the journal forgets those that are gone: a zone is of what is left in it.
#[test]
fn a_zone_whose_first_file_is_gone_is_of_the_first_that_is_left() {
    let (scene, store) = Scene::new(14, "levels");
    put(&store, "/first", table(Lifetime::Long, 2), 9000);
    put(&store, "/second", table(Lifetime::Long, 2), 9000);
    put(&store, "/other", table(Lifetime::Extreme, 3), 9000);
    store.remove(&path("/first")).unwrap();
    store.sync_names().unwrap();
    let before = views(&store);
    let second = store.info(&path("/second")).unwrap().file;
    let store = scene.remount(store);
    let after = views(&store);
    let is_as_it_was = |(now, then): (&OpenZoneView, &OpenZoneView)| *now == OpenZoneView { first: now.first, ..*then };
    assert!(after.len() == before.len() && after.iter().zip(&before).all(is_as_it_was), "{before:?} {after:?}");
    let zone = zone_of(&store, "/second");
    assert_eq!(after.iter().find(|view| view.zone == zone).unwrap().first, second);
}

/// Where a zone had to be shared with another lifetime it is taken for that one when its first file is gone: no worse place than
/// before for what is still in it.
#[test]
fn a_shared_zone_is_taken_for_the_lifetime_that_is_left() {
    // One token for tables.
    let (scene, store) = Scene::new(3, "liza-zns");
    put(&store, "/first", table(Lifetime::Medium, 1), 9000);
    put(&store, "/second", table(Lifetime::Extreme, 3), 9000);
    assert_eq!(zone_of(&store, "/first"), zone_of(&store, "/second"));
    let hint = |store: &FileStore| {
        let zone = zone_of(store, "/second");
        let view = store.open_zones().into_iter().find(|view| view.zone == zone).unwrap();
        (view.lifetime, view.level)
    };
    let store = scene.remount(store);
    assert_eq!(hint(&store), (Lifetime::Medium, Some(1)), "the first file is there");
    store.remove(&path("/first")).unwrap();
    store.sync_names().unwrap();
    assert_eq!(hint(&store), (Lifetime::Medium, Some(1)), "while it is mounted the zone stays what it was");
    let store = scene.remount(store);
    assert_eq!(hint(&store), (Lifetime::Extreme, Some(3)));
}

/// With fewer active zones more streams share one: a zone of an earlier life is written on only if a mount would look there for all that
/// they write.
#[test]
fn logs_do_not_go_on_in_a_zone_that_no_mount_walks_for_them() {
    for active in [2, 3] {
        let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
        let store = FileStore::format(device.clone(), StoreId(1), false, options_with("liza-zenfs")).unwrap();
        put(&store, "/table", table(Lifetime::Long, 3), 10_000);
        put(&store, "/1.log", FileTags::of(FileKind::Log), 5_000);
        drop(store);
        let fewer = || FileStoreOptions { active_limit: Some(active), ..options_with("liza-zenfs") };
        let (store, _) = FileStore::mount(device.clone(), fewer()).unwrap();
        let mut meta = store.create(&path("/MANIFEST"), FileTags::of(FileKind::Meta)).unwrap();
        meta.append(&[3; 3_000]).unwrap();
        meta.sync().unwrap();
        let mut log = store.create(&path("/2.log"), FileTags::of(FileKind::Log)).unwrap();
        log.append(&[4; 3_000]).unwrap();
        log.sync().unwrap();
        // What a mount finds while they are being written is what one would find after a crash.
        let (found, _) = FileStore::mount_read_only(device, fewer()).unwrap();
        for (name, bytes) in [("/MANIFEST", 3_000), ("/2.log", 3_000), ("/table", 10_000), ("/1.log", 5_000)] {
            assert_eq!(found.info(&path(name)).unwrap().size_bytes, bytes, "{active} active, {name}");
        }
    }
}
