//! Full stores: who is refused first, and what goes on all the same.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{geometry, options_with, path};
use zonda_device::{ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, MemBlockDevice, MemDevice, ZoneState};
use zonda_files::{
    Claim, Cleaner, FileError, FileKind, FilePath, FileStore, FileStoreOptions, FileTags, FileWriter, Placement,
    StoreId,
};
use zonda_rt::{DeviceCall, sleep};

fn on_zones(active: u32) -> FileStore {
    let device = Arc::new(MemDevice::new(geometry(active)).unwrap());
    FileStore::format(device, StoreId(1), false, options_with("liza-zns")).unwrap()
}

fn again_on_zones(store: FileStore) -> FileStore {
    let device = Arc::clone(store.space().device());
    drop(store);
    FileStore::mount(device, options_with("liza-zns")).unwrap().0
}

fn on_blocks(placement: Placement) -> FileStore {
    let device = Arc::new(MemBlockDevice::new(4096, 40 << 8).unwrap());
    FileStore::format_on_blocks(device, placement, StoreId(1), false, FileStoreOptions::default()).unwrap()
}

fn create(store: &FileStore, name: &str, kind: FileKind) -> FileWriter {
    store.create(&path(name), FileTags::of(kind)).unwrap()
}

/// Appends and syncs until that is refused; returns the bytes.
fn fill(store: &FileStore, name: &str, kind: FileKind, piece: usize) -> u64 {
    let mut writer = create(store, name, kind);
    while writer.append(&vec![7; piece]).and_then(|()| writer.sync()).is_ok() {}
    let bytes = writer.size_bytes();
    let refused = writer.append(&[7; 1 << 20]).and_then(|()| writer.sync()).unwrap_err();
    assert!(refused.is_no_space(), "{refused}");
    drop(writer);
    bytes
}

/// As an LSM-tree fills a device: tables, the tables of flushes, logs; the last of these is refused.
fn fill_up(store: &FileStore) {
    for (name, kind) in [("/table", FileKind::Data), ("/flushed", FileKind::Flushed), ("/log", FileKind::Log)] {
        assert!(fill(store, name, kind, 20_000) > 0 || kind == FileKind::Log, "{name}");
    }
}

/// What makes room begins with a record in a MANIFEST.
fn takes_records_and_gives_back(store: &FileStore, records: usize, context: &str) {
    fill_up(store);
    let mut manifest = create(store, "/MANIFEST", FileKind::Meta);
    for record in 0..records {
        let done = manifest.append(&[1; 100]).and_then(|()| manifest.sync());
        assert!(done.is_ok(), "{context}, record {record}: {done:?}, {:?}", store.usage());
    }
    store.remove(&path("/flushed")).unwrap();
    store.remove(&path("/table")).unwrap();
    manifest.append(&[1; 100]).and_then(|()| manifest.sync()).unwrap();
    manifest.close().unwrap();
    fill(store, "/again", FileKind::Data, 20_000);
    assert_eq!(store.check().unwrap().findings, [], "{context}");
}

#[test]
fn a_manifest_has_room_where_logs_have_none() {
    for active in [3, 4, 6, 14] {
        takes_records_and_gives_back(&on_zones(active), 12, &format!("{active} active"));
    }
    for placement in Placement::ALL {
        takes_records_and_gives_back(&on_blocks(placement), 12, placement.name());
    }
}

/// Nobody knows after a mount who opened the zones that are open: they are not given away then.
#[test]
fn the_last_zones_are_so_after_a_mount() {
    for active in [3, 4, 6, 14] {
        let mut store = on_zones(active);
        fill_up(&store);
        for mount in 0..4 {
            let manifest = format!("/MANIFEST {mount}");
            let mut manifest = create(&store, &manifest, FileKind::Meta);
            let done = manifest.append(&[1; 100]).and_then(|()| manifest.sync());
            assert!(done.is_ok(), "{active} active, mount {mount}: {done:?}, {:?}", store.usage());
            manifest.close().unwrap();
            store = again_on_zones(store);
            fill(&store, &format!("/log {mount}"), FileKind::Log, 20_000);
        }
        assert_eq!(store.check().unwrap().findings, [], "{active} active");
    }
}

/// Notes share zones with MANIFESTs, and would have the last of them.
fn notes_leave_it(store: &FileStore, context: &str) {
    let mut notes = create(store, "/LOG", FileKind::Meta);
    notes.claim(Claim::GiveWay);
    notes.append(&[2; 5_000]).and_then(|()| notes.sync()).unwrap();
    let mut manifest = create(store, "/MANIFEST", FileKind::Meta);
    manifest.append(&[1; 100]).and_then(|()| manifest.sync()).unwrap();
    fill_up(store);
    let before = store.usage().writes.meta_files;
    let refused = (0..1_000).find_map(|_| notes.append(&[2; 5_000]).and_then(|()| notes.sync()).err());
    assert!(refused.is_some_and(|refused| refused.is_no_space()), "{context}");
    assert_eq!(store.usage().writes.meta_files, before, "{context}");
    for record in 0..12 {
        let done = manifest.append(&[1; 100]).and_then(|()| manifest.sync());
        assert!(done.is_ok(), "{context}, record {record}: {done:?}");
    }
    store.remove(&path("/table")).unwrap();
    // What waited is there, and more is taken.
    let waited = notes.size_bytes();
    notes.append(&[2; 5_000]).and_then(|()| notes.sync()).unwrap();
    assert!(waited > 5_000 && notes.size_bytes() == waited + 5_000, "{context}: {waited}");
    notes.close().unwrap();
    manifest.close().unwrap();
    assert_eq!(store.check().unwrap().findings, [], "{context}");
}

#[test]
fn notes_that_give_way_leave_the_last_room_to_manifests() {
    for active in [3, 4, 6, 14] {
        notes_leave_it(&on_zones(active), &format!("{active} active"));
    }
    for placement in Placement::ALL {
        notes_leave_it(&on_blocks(placement), placement.name());
    }
}

/// Logs that begin on a full store: somebody cannot go on without their first records, and does without the rest.
fn first_records_leave_it_to_others(store: &FileStore, context: &str) {
    const LOGS: usize = 12;
    fill_up(store);
    let mut logs = Vec::new();
    for number in 0..LOGS {
        let mut log = create(store, &format!("/log {number}"), FileKind::Log);
        log.claim(Claim::Last);
        let done = log.append(&[3; 100]).and_then(|()| log.sync());
        assert!(done.is_ok(), "{context}, log {number}: {done:?}, {:?}", store.usage());
        log.claim(Claim::Usual);
        let refused = (0..1_000).find_map(|_| log.append(&[3; 5_000]).and_then(|()| log.sync()).err());
        assert!(refused.is_some_and(|refused| refused.is_no_space()), "{context}, log {number}");
        logs.push(log);
    }
    let mut manifest = create(store, "/MANIFEST", FileKind::Meta);
    manifest.append(&[1; 100]).and_then(|()| manifest.sync()).unwrap();
    store.remove(&path("/table")).unwrap();
    // All go on.
    for (number, log) in logs.into_iter().enumerate() {
        let bytes = log.size_bytes();
        let done = log.close();
        assert!(done.is_ok() && bytes > 5_000, "{context}, log {number} of {bytes} bytes: {done:?}");
        assert_eq!(store.info(&path(&format!("/log {number}"))).unwrap().size_bytes, bytes, "{context}, log {number}");
    }
    manifest.close().unwrap();
    assert_eq!(store.check().unwrap().findings, [], "{context}");
}

#[test]
fn many_logs_begin_where_none_goes_on() {
    for active in [3, 4, 6, 14] {
        first_records_leave_it_to_others(&on_zones(active), &format!("{active} active"));
    }
    for placement in Placement::ALL {
        first_records_leave_it_to_others(&on_blocks(placement), placement.name());
    }
}

/// Names fill the journal as bytes fill zones. What takes them away again finds its way into a journal that could take no more.
#[test]
fn names_leave_room_for_a_journal_without_them() {
    const NAMES: usize = 1_300;
    let name = |number: usize| path(&format!("/{number:0250}"));
    for names_first in [true, false] {
        let device = Arc::new(MemDevice::new(Geometry::new(64 << 10, 40).with_limits(6, 6)).unwrap());
        let store = FileStore::format(device, StoreId(1), false, options_with("liza-zns")).unwrap();
        let mut refused = 0;
        let mut make_names = |store: &FileStore| {
            for number in 0..NAMES {
                create(store, name(number).as_str(), FileKind::Data).close().unwrap();
                if number % 20 == 0 {
                    refused += usize::from(store.sync_names().is_err_and(|error| error.is_no_space()));
                }
            }
        };
        if names_first {
            make_names(&store);
        }
        fill(&store, "/table", FileKind::Data, 20_000);
        if !names_first {
            make_names(&store);
        }
        assert_eq!(refused > 0, !names_first, "{:?}", store.usage());
        let store = again_on_zones(store);
        let left = store.list(&FilePath::root()).unwrap();
        let all = left.len() == NAMES + 1;
        assert!(left.len() > 100 && all == names_first, "{names_first}: {} names", left.len());
        left.iter().for_each(|path| store.remove(path).unwrap());
        store.sync_names().unwrap();
        let store = again_on_zones(store);
        assert_eq!(store.list(&FilePath::root()).unwrap(), [], "{names_first}");
        assert!(fill(&store, "/again", FileKind::Data, 20_000) > 1 << 20);
        assert_eq!(store.check().unwrap().findings, [], "{names_first}");
    }
}

/// Half of what is in each zone is dead: cleaning goes on where the journal has as many zones to come as are free.
#[test]
fn names_that_fill_the_journal_leave_room_for_cleaning() {
    let device = Arc::new(MemDevice::new(Geometry::new(64 << 10, 40).with_limits(6, 6)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options_with("liza-zns")).unwrap();
    // One behind the other, three to a zone.
    let tables = (0..1_000).take_while(|table| put(&store, &format!("/{table}"), 20_480).is_ok()).count();
    for number in 0..2_000 {
        create(&store, &format!("/{number:0250}"), FileKind::Data).close().unwrap();
        if number % 20 == 0 && store.sync_names().is_err() {
            break;
        }
    }
    let before = store.usage();
    (0..tables).step_by(2).for_each(|table| store.remove(&path(&format!("/{table}"))).unwrap());
    store.sync_names().unwrap();
    let bytes = fill(&store, "/more", FileKind::Data, 20_000);
    assert!(bytes > 500_000 && store.usage().copied_bytes > 0, "{bytes} bytes: {before:?}, {:?}", store.usage());
    assert_eq!(store.check().unwrap().findings, []);
}

fn put(store: &FileStore, name: &str, bytes: usize) -> Result<(), FileError> {
    let mut writer = store.create(&path(name), FileTags::of(FileKind::Flushed))?;
    writer.append(&vec![7; bytes])?;
    writer.close()
}

/// What a flush leaves of a zone that a compaction was refused is for other flushes.
#[test]
fn a_compaction_takes_nothing_of_the_reserve_of_flushes() {
    for active in [3, 4, 6, 14] {
        let store = on_zones(active);
        fill(&store, "/table", FileKind::Data, 20_000);
        let mut flushed = 0;
        while put(&store, &format!("/flushed {flushed}"), 20_480).is_ok() {
            flushed += 1;
            let mut table = create(&store, "/refused", FileKind::Data);
            let written = table.append(&[7; 4_096]).and_then(|()| table.sync());
            assert!(written.is_err_and(|error| error.is_no_space()), "{active} active, behind flush {flushed}");
        }
        // Three to a zone.
        assert!(flushed >= 6, "{active} active: {flushed}");
        store.remove(&path("/table")).unwrap();
        put(&store, "/flushed", 20_480).unwrap();
        assert!(fill(&store, "/again", FileKind::Data, 20_000) > 500_000, "{active} active");
        assert_eq!(store.check().unwrap().findings, [], "{active} active");
    }
}

/// Which zones flushes opened is on no device: those in which no compaction wrote are theirs after a mount, too.
#[test]
fn nor_does_a_compaction_after_a_mount() {
    for active in [3, 4, 6, 14] {
        let mut store = on_zones(active);
        fill(&store, "/table", FileKind::Data, 20_000);
        let mut flushed = 0;
        while put(&store, &format!("/flushed {flushed}"), 20_480).is_ok() {
            flushed += 1;
            store.sync_names().unwrap();
            store = again_on_zones(store);
            let mut table = create(&store, "/refused", FileKind::Data);
            let written = table.append(&[7; 4_096]).and_then(|()| table.sync());
            assert!(written.is_err_and(|error| error.is_no_space()), "{active} active, behind flush {flushed}");
        }
        // Three to a zone.
        assert!(flushed >= 6, "{active} active: {flushed}");
        store.remove(&path("/table")).unwrap();
        assert!(fill(&store, "/again", FileKind::Data, 20_000) > 500_000, "{active} active");
        assert_eq!(store.check().unwrap().findings, [], "{active} active");
    }
}

/// What a compaction left of its own zone is for compactions after a mount, too.
#[test]
fn a_compaction_goes_on_in_its_zone_after_a_mount() {
    for active in [3, 4, 6, 14] {
        let most = fill(&on_zones(active), "/table", FileKind::Data, 20_000);
        let store = on_zones(active);
        let mut table = create(&store, "/table", FileKind::Data);
        // A third of its last zone is left.
        (1..most / 20_000).for_each(|_| table.append(&[7; 20_000]).and_then(|()| table.sync()).unwrap());
        table.close().unwrap();
        let zone = |store: &FileStore, name: &str| store.extents(&path(name)).unwrap().last().unwrap().zone;
        let last = zone(&store, "/table");
        // It takes a zone of those that compactions have to leave.
        let mut log = create(&store, "/log", FileKind::Log);
        log.append(&[7; 100]).and_then(|()| log.sync()).unwrap();
        drop(log);
        let store = again_on_zones(store);
        let mut table = create(&store, "/goes on", FileKind::Data);
        table.append(&[7; 4_096]).unwrap();
        table.close().unwrap();
        assert_eq!(zone(&store, "/goes on"), last, "{active} active");
        let mut table = create(&store, "/refused", FileKind::Data);
        let written = table.append(&[7; 40_000]).and_then(|()| table.sync());
        assert!(written.is_err_and(|error| error.is_no_space()), "{active} active");
    }
}

/// Emptying a zone that can be written no more gains none: cleaning does not give its own zone for that.
#[test]
fn cleaning_goes_on_beside_a_read_only_zone() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let options = || options_with("liza-caza");
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options()).unwrap();
    put(&store, "/worn", 57_344).unwrap();
    put(&store, "/dies", 4_096).unwrap();
    let worn = store.extents(&path("/worn")).unwrap()[0].zone;
    // Two to a zone.
    let put_pair = |pair: usize| {
        put(&store, &format!("/dies {pair}"), 32_768).and_then(|()| put(&store, &format!("/lives {pair}"), 28_672))
    };
    let pairs = (0..1_000).take_while(|pair| put_pair(*pair).is_ok()).count();
    fill(&store, "/MANIFEST", FileKind::Meta, 20_000);
    (0..pairs).for_each(|pair| store.remove(&path(&format!("/dies {pair}"))).unwrap());
    store.remove(&path("/dies")).and_then(|()| store.sync_names()).unwrap();
    drop(store);
    faulty.inner().retire(worn, ZoneState::ReadOnly).unwrap();
    let store = FileStore::mount(Arc::new(faulty), options()).unwrap().0;
    let refused = put(&store, "/more", 20_480).err();
    assert!(refused.is_none() && pairs > 10, "{refused:?} behind {pairs} pairs: {:?}", store.usage());
    while store.clean_step().unwrap().is_some() {}
    assert_ne!(store.extents(&path("/worn")).unwrap()[0].zone, worn, "it is emptied when there is room");
    assert_eq!(store.check().unwrap().findings, []);
}

/// A zone that can be written no more is not emptied into the last zones: they are for what makes room.
#[test]
fn the_last_zones_are_not_for_what_a_read_only_zone_holds() {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let options = || FileStoreOptions { clean_below_free_percent: 90, ..options_with("liza-caza") };
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options()).unwrap();
    put(&store, "/worn", 61_440).unwrap();
    let worn = |store: &FileStore| store.extents(&path("/worn")).unwrap()[0].zone;
    let before = worn(&store);
    fill_up(&store);
    drop(store);
    faulty.inner().retire(before, ZoneState::ReadOnly).unwrap();
    let store = FileStore::mount(Arc::new(faulty), options()).unwrap().0;
    let free_zones = store.usage().space.free_zones;
    assert_eq!(store.clean_step().unwrap(), None);
    assert_eq!((worn(&store), store.usage().space.free_zones), (before, free_zones), "{:?}", store.usage());
    // A zone of these for each.
    for manifest in ["/MANIFEST 1", "/MANIFEST 2"] {
        let mut manifest = create(&store, manifest, FileKind::Meta);
        let done = manifest.append(&[1; 50_000]).and_then(|()| manifest.sync());
        assert!(done.is_ok(), "{done:?}, {:?}", store.usage());
    }
    store.remove(&path("/flushed")).unwrap();
    store.remove(&path("/table")).and_then(|()| store.sync_names()).unwrap();
    while store.clean_step().unwrap().is_some() {}
    assert_ne!(worn(&store), before, "it is emptied when there is room");
    assert_eq!(store.check().unwrap().findings, []);
}

/// The device says of a MANIFEST's chunk, which stands for the one before it and more, that it was not written, though it was; there is no
/// other zone for it until somebody makes room. By then so much waits that it begins behind the one before.
#[test]
fn a_chunk_that_failed_and_is_there_hides_nothing_that_is_written_later() {
    const BLOCK: usize = 4096;
    const ZONE_BLOCKS: usize = 64;
    let geometry = Geometry::new((ZONE_BLOCKS * BLOCK) as u64, 24).with_limits(14, 14);
    let faulty = Faulty::new(MemDevice::new(geometry).unwrap(), 1);
    let options = || options_with("liza-zns");
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options()).unwrap();
    let mut manifest = create(&store, "/MANIFEST", FileKind::Meta);
    manifest.sync().unwrap();
    put(&store, "/dies", (ZONE_BLOCKS - 1) * BLOCK).unwrap();
    fill_up(&store);
    fill(&store, "/notes", FileKind::Meta, 5 * BLOCK);
    store.remove(&path("/dies")).and_then(|()| store.sync_names()).unwrap();
    let mut written = Vec::new();
    let mut write = |manifest: &mut FileWriter, bytes: usize, byte: u8| {
        written.extend(std::iter::repeat_n(byte, bytes));
        manifest.append(&vec![byte; bytes]).and_then(|()| manifest.sync())
    };
    // All of its zone but for two blocks: of so full a one nothing is moved.
    write(&mut manifest, (ZONE_BLOCKS - 3) * BLOCK - 3_000, 1).unwrap();
    write(&mut manifest, 100, 2).unwrap();
    let effect = FaultEffect::Torn { blocks: 1 };
    faulty.inject(Fault { call: Some(DeviceCall::Write), zone: None, when: FaultWhen::Nth(1), effect });
    let refused = write(&mut manifest, 100, 3).unwrap_err();
    assert!(faulty.injected() == 1 && refused.is_no_space(), "{refused}");
    store.remove(&path("/table")).unwrap();
    write(&mut manifest, BLOCK, 4).unwrap();
    // The process dies.
    std::mem::forget(manifest);
    drop(store);
    let (store, _) = FileStore::mount(Arc::new(faulty), options()).unwrap();
    let mut read = vec![0; written.len() + 1];
    let count = store.open(&path("/MANIFEST")).unwrap().read_at(0, &mut read).unwrap();
    assert!(read[..count] == written, "{count} bytes of {}", written.len());
    assert_eq!(store.check().unwrap().findings, []);
}

/// A flush waits for the only zone that can be emptied, beside a dead one whose reset fails, if that is wanted. Returns what becomes of it
/// when the reset of the victim is so.
fn flush_while_the_last_victim_is_reset(reset: FaultEffect, is_beside_bad: bool) -> Result<(), FileError> {
    let faulty = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
    let store = FileStore::format(Arc::new(faulty.clone()), StoreId(1), false, options_with("ldp")).unwrap();
    for (dies, lives) in [("/dies 1", "/lives 1"), ("/dies 2", "/lives 2")] {
        put(&store, dies, 40_960).unwrap();
        put(&store, lives, 20_480).unwrap();
    }
    (0..).take_while(|full| put(&store, &format!("/{full}"), 61_440).is_ok()).for_each(drop);
    let zone_of = |name| store.extents(&path(name)).unwrap()[0].zone;
    let (bad, victim) = (zone_of("/0"), zone_of("/lives 2"));
    let die = |name| store.remove(&path(name)).and_then(|()| store.sync_names()).unwrap();
    // The first victim's bytes leave room for those of the last.
    die("/dies 1");
    while store.clean_step().unwrap().is_some() {}
    die("/dies 2");
    let inject = |call, zone, effect| {
        faulty.inject(Fault { call: Some(call), zone: Some(zone), when: FaultWhen::From(1), effect });
    };
    inject(DeviceCall::Read, victim, FaultEffect::Delay(Duration::from_secs(1)));
    inject(DeviceCall::Reset, victim, reset);
    let cleaner = Cleaner::start(store.clone()).unwrap();
    // While it is read, or reset.
    while faulty.injected() < 1 + u64::from(is_beside_bad) {
        sleep(Duration::from_millis(1));
    }
    if is_beside_bad {
        inject(DeviceCall::Reset, bad, FaultEffect::Error(ErrorKind::Media));
        die("/0");
    }
    let flushed = put(&store, "/flush", 30_000);
    assert!(faulty.injected() < 100, "{} attempts", faulty.injected());
    drop(cleaner);
    faulty.heal();
    assert_eq!(store.check().unwrap().findings, []);
    flushed
}

#[test]
fn a_flush_waits_while_another_resets_the_last_victim() {
    for seed in 1..=8 {
        zonda_rt::sim::run(seed, move || {
            for is_beside_bad in [false, true] {
                let context = format!("seed {seed}, beside a bad zone: {is_beside_bad}");
                let slow = FaultEffect::Delay(Duration::from_secs(10));
                let flushed = flush_while_the_last_victim_is_reset(slow, is_beside_bad);
                assert!(flushed.is_ok(), "{context}: {flushed:?}");
                let fails = FaultEffect::Error(ErrorKind::Media);
                let refused = flush_while_the_last_victim_is_reset(fails, is_beside_bad).unwrap_err();
                assert!(refused.is_no_space(), "{context}: {refused}");
            }
        });
    }
}
