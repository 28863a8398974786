//! A file store on a conventional drive: the model test with power cuts over both placements, and what is theirs alone.
//!
//! A failure names its seed; `ZONDA_FILES_SEED=n cargo test -p zonda-files --test blocks` runs that one alone,
//! `ZONDA_FILES_RUNS=n` seeds 0 to n - 1.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::world::{Tally, World};
use common::{options_with, path};
use zonda_device::{
    BlockDevice, BlockZones, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Geometry, Lba, MemBlockDevice,
};
use zonda_files::{FileError, FileKind, FileStore, FileStoreOptions, FileTags, Finding, Lifetime, Placement, StoreId};
use zonda_rt::DeviceCall;

fn run(placement: Placement, (count, steps): (u64, u32)) -> Tally {
    let seeds: Vec<u64> = match std::env::var("ZONDA_FILES_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..std::env::var("ZONDA_FILES_RUNS").map_or(count, |runs| runs.parse().unwrap())).collect(),
    };
    let mut tally = Tally::default();
    for seed in seeds {
        println!("seed {seed} {}", placement.name());
        World::on_blocks(seed, placement).run(steps, &mut tally);
    }
    println!("{tally:?}");
    tally
}

#[test]
fn extents_are_what_the_model_says_through_power_cuts() {
    let tally = run(Placement::XfsLike, (40, 1500));
    if std::env::var("ZONDA_FILES_SEED").is_err() {
        assert!(tally.cuts > 40 && tally.no_space > 0 && tally.spilled_bytes > 0, "{tally:?}");
        assert_eq!(tally.copied_bytes, 0, "nothing is cleaned");
    }
}

#[test]
fn segments_are_what_the_model_says_through_power_cuts() {
    let tally = run(Placement::F2fsLike, (11, 5000));
    if std::env::var("ZONDA_FILES_SEED").is_err() {
        assert!(tally.cuts > 40 && tally.copied_bytes > 0 && tally.moved_while_open > 0, "{tally:?}");
        assert!(tally.spilled_bytes > 0, "{tally:?}");
    }
}

fn memory(mib: u64) -> Arc<MemBlockDevice> {
    Arc::new(MemBlockDevice::new(4096, mib << 8).unwrap())
}

fn made(device: Arc<MemBlockDevice>, placement: Placement) -> FileStore {
    FileStore::format_on_blocks(device, placement, StoreId(7), false, FileStoreOptions::default()).unwrap()
}

fn write(store: &FileStore, name: &str, mib: usize, byte: u8) -> Result<(), FileError> {
    let mut writer = store.create(&path(name), FileTags::of(FileKind::Data).with_lifetime(Lifetime::Long))?;
    writer.append(&vec![byte; mib << 20])?;
    writer.sync()?;
    writer.close()
}

#[test]
fn space_comes_back_with_the_files() {
    for placement in Placement::ALL {
        let device = memory(40);
        let store = made(device.clone(), placement);
        let empty = store.usage().blocks.unwrap();
        let mut written = 0_u32;
        for round in 0..60_u8 {
            let name = format!("/{}", round % 5);
            // Seven times as much as the device holds, and none of it is ever refused.
            write(&store, &name, 5, round).unwrap();
            written += 5;
        }
        assert!(u64::from(written) << 20 > 7 * empty.capacity_bytes, "{placement:?}");
        assert!(store.check().unwrap().findings.is_empty(), "{placement:?}");
        drop(store);
        let (store, report) = FileStore::mount_on_blocks(device.clone(), FileStoreOptions::default()).unwrap();
        assert_eq!((report.files, report.extents_lost), (5, 0), "{placement:?}");
        let mut byte = [0];
        store.open(&path("/3")).unwrap().read_at(4 << 20, &mut byte).unwrap();
        assert_eq!(byte[0], 58, "{placement:?}");
        for name in 0..5 {
            store.remove(&path(&format!("/{name}"))).unwrap();
        }
        store.sync_names().unwrap();
        let after = store.usage().blocks.unwrap();
        assert_eq!((after.live_bytes, after.dead_bytes, after.free_bytes), (0, 0, empty.free_bytes), "{placement:?}");
        assert!(device.counters().trims > 0, "what is deleted is discarded");
    }
}

#[test]
fn a_full_drive_refuses_compactions_first_and_goes_on_after_a_deletion() {
    for placement in Placement::ALL {
        let store = made(memory(40), placement);
        let refused = (0..100).find_map(|number| write(&store, &format!("/{number}"), 1, 1).err()).unwrap();
        assert!(refused.is_no_space(), "{placement:?}: {refused}");
        assert_eq!(store.usage().free_bytes, 0, "{placement:?}: what is said to be free can be had");
        let mut flushed = store.create(&path("/flushed"), FileTags::of(FileKind::Flushed)).unwrap();
        flushed.append(&[2; 100_000]).unwrap();
        flushed.sync().unwrap();
        drop(flushed);
        store.remove(&path("/0")).unwrap();
        store.remove(&path("/1")).unwrap();
        write(&store, "/again", 1, 3).unwrap();
        assert!(store.check().unwrap().findings.is_empty(), "{placement:?}");
    }
}

#[test]
fn what_was_deleted_is_not_overwritten_before_that_is_durable() {
    // A file is deleted and its blocks wanted; a mount that knows nothing of the deletion must find it whole.
    let device = memory(40);
    let store = made(device.clone(), Placement::XfsLike);
    write(&store, "/old", 20, 1).unwrap();
    store.remove(&path("/old")).unwrap();
    assert!(store.usage().blocks.unwrap().dead_bytes >= 20 << 20);
    let mut new = store.create(&path("/new"), FileTags::of(FileKind::Flushed)).unwrap();
    new.append(&vec![2; 10 << 20]).unwrap();
    new.flush().unwrap();
    let (found, _) = FileStore::mount_on_blocks(copy_of(&device), FileStoreOptions::default()).unwrap();
    assert!(found.check_file(&path("/old")).unwrap().findings.is_empty());
}

#[test]
fn damage_is_found() {
    let device = memory(40);
    let store = made(device.clone(), Placement::F2fsLike);
    write(&store, "/one", 3, 1).unwrap();
    let extent = store.extents(&path("/one")).unwrap()[0];
    let first = BlockZones::open(device.clone()).unwrap().blocks();
    let zoned_blocks = first - 2;
    device.write(Lba(first + extent.block - zoned_blocks), &zonda_device::AlignedBuf::with_len(4096)).unwrap();
    let findings = store.check().unwrap().findings;
    assert!(matches!(findings[..], [Finding::Damaged { .. }]), "{findings:?}");
}

/// A block that cannot be read keeps nobody from finding the rest.
#[test]
fn all_damage_is_found_with_its_names() {
    let device = Faulty::new(MemBlockDevice::new(4096, 40 << 8).unwrap(), 1);
    let placement = Placement::XfsLike;
    let options = FileStoreOptions::default();
    let store = FileStore::format_on_blocks(Arc::new(device.clone()), placement, StoreId(7), false, options).unwrap();
    ["/lost", "/flipped", "/whole"].iter().for_each(|name| write(&store, name, 1, 1).unwrap());
    let [lost, flipped] = ["/lost", "/flipped"].map(|name| store.extents(&path(name)).unwrap()[0]);
    assert!(lost.block < flipped.block);
    let first = BlockZones::open(Arc::new(device.clone())).unwrap().blocks();
    let zoned_blocks = first - 2;
    let mut block = zonda_device::AlignedBuf::with_len(4096);
    block.fill(1);
    block[77] ^= 4;
    device.write(Lba(first + flipped.block - zoned_blocks), &block).unwrap();
    let lose = |when| {
        device.heal();
        let effect = FaultEffect::Error(ErrorKind::Media);
        device.inject(Fault { call: Some(DeviceCall::Read), zone: None, when, effect });
    };
    lose(FaultWhen::Nth(1));
    let report = store.check().unwrap();
    let [Finding::Unreadable { extent: first, .. }, Finding::Damaged { extent: second, .. }] = report.findings[..]
    else {
        panic!("{report:?}")
    };
    assert_eq!((first, second), (lost, flipped));
    let told: Vec<String> = report.findings.iter().map(|finding| finding.told(&report.names)).collect();
    assert!(told[0].starts_with("/lost: ") && told[1].starts_with("/flipped: "), "{told:?}");
    lose(FaultWhen::Nth(1));
    let of_file = store.check_file(&path("/lost")).unwrap().findings;
    assert!(matches!(of_file[..], [Finding::Unreadable { .. }]), "{of_file:?}");
}

#[test]
fn the_wrong_device_is_refused() {
    let device = memory(40);
    drop(made(device.clone(), Placement::XfsLike));
    let again = |overwrite| {
        let options = FileStoreOptions::default();
        FileStore::format_on_blocks(device.clone(), Placement::F2fsLike, StoreId(8), overwrite, options)
    };
    assert!(again(false).is_err(), "there is a store on it");
    let zones = Arc::new(BlockZones::open(device.clone()).unwrap());
    let from_zones_alone = FileStore::mount(zones, FileStoreOptions::default()).map(drop).unwrap_err();
    assert!(matches!(from_zones_alone, FileError::OtherDevice { .. }), "{from_zones_alone}");
    assert_eq!(again(true).unwrap().placement().0, "f2fs-like");

    let device = memory(40);
    let zones = BlockZones::create(device.clone(), Geometry::new(64 << 10, 64)).unwrap();
    drop(FileStore::format(Arc::new(zones), StoreId(1), false, FileStoreOptions::default()).unwrap());
    let on_blocks = FileStore::mount_on_blocks(device, FileStoreOptions::default()).map(drop).unwrap_err();
    assert!(matches!(on_blocks, FileError::OtherDevice { .. }), "{on_blocks}");
    let tiny = Arc::new(MemBlockDevice::new(4096, 258).unwrap());
    assert!(
        FileStore::format_on_blocks(tiny, Placement::XfsLike, StoreId(1), false, FileStoreOptions::default()).is_err()
    );
}

#[test]
fn a_store_is_made_on_a_blank_drive_only() {
    let format = |device: &Arc<MemBlockDevice>| {
        let (id, options) = (StoreId(8), FileStoreOptions::default());
        FileStore::format_on_blocks(device.clone(), Placement::XfsLike, id, false, options).map(drop)
    };
    let zeros = |device: &Arc<MemBlockDevice>, at, blocks: usize| {
        device.write(Lba(at), &zonda_device::AlignedBuf::with_len(blocks << 12)).unwrap();
    };
    for placement in Placement::ALL {
        let device = memory(40);
        write(&made(device.clone(), placement), "/one", 3, 1).unwrap();
        // The tables of zones alone, and all of the first MiB.
        for blocks in [2, 256] {
            zeros(&device, 0, blocks);
            let before = copy_of(&device);
            assert!(matches!(format(&device), Err(FileError::NotBlank { .. })), "{placement:?}");
            assert!(is_same(&before, &device), "{placement:?}");
        }
    }
    // What others have written: behind 64 KiB, at the end.
    for at in [16, 10239] {
        let device = memory(40);
        let mut block = zonda_device::AlignedBuf::with_len(4096);
        block[77] = 1;
        device.write(Lba(at), &block).unwrap();
        let refused = format(&device).unwrap_err();
        assert!(matches!(refused, FileError::NotBlank { block, .. } if block == at), "{refused}");
        zeros(&device, at, 1);
        format(&device).unwrap();
    }
}

fn copy_of(device: &MemBlockDevice) -> Arc<MemBlockDevice> {
    let copy = memory(40);
    let mut blocks = zonda_device::AlignedBuf::with_len(1 << 20);
    for at in (0..copy.capacity_blocks()).step_by(256) {
        device.read(Lba(at), &mut blocks).unwrap();
        copy.write(Lba(at), &blocks).unwrap();
    }
    copy
}

fn is_same(one: &MemBlockDevice, other: &MemBlockDevice) -> bool {
    let [mut first, mut second] = [1 << 20, 1 << 20].map(zonda_device::AlignedBuf::with_len);
    (0..one.capacity_blocks()).step_by(256).all(|at| {
        one.read(Lba(at), &mut first).unwrap();
        other.read(Lba(at), &mut second).unwrap();
        *first == *second
    })
}

/// What the drive keeps longer is no error of whoever removed a file.
#[test]
fn a_trim_that_fails_is_no_error_of_a_sync() {
    for placement in Placement::ALL {
        let device = Faulty::new(MemBlockDevice::new(4096, 4096).unwrap(), 1);
        let below = Arc::new(device.clone());
        let store = FileStore::format_on_blocks(below, placement, StoreId(1), false, options_with("liza-zns")).unwrap();
        let effect = FaultEffect::Error(ErrorKind::Media);
        device.inject(Fault { call: Some(zonda_rt::DeviceCall::Trim), zone: None, when: FaultWhen::From(1), effect });
        // Of the same blocks, again and again.
        for _ in 0..40 {
            let mut writer = store.create(&path("/table"), FileTags::of(FileKind::Data)).unwrap();
            writer.append(&vec![7; 1 << 20]).unwrap();
            writer.close().unwrap();
            store.remove(&path("/table")).unwrap();
            store.sync_names().unwrap();
        }
        assert!(device.injected() > 0, "{placement:?}");
    }
}

/// A trim may take long: who needs what it makes free waits for it.
#[test]
fn a_writer_waits_for_what_another_thread_is_trimming() {
    for placement in Placement::ALL {
        zonda_rt::sim::run(1, || {
            let device = Faulty::new(MemBlockDevice::new(4096, 40 << 8).unwrap(), 1);
            let (below, options) = (Arc::new(device.clone()), FileStoreOptions::default());
            let store = FileStore::format_on_blocks(below, placement, StoreId(7), false, options).unwrap();
            let refused = (0..100).find_map(|number| write(&store, &format!("/{number}"), 1, 1).err()).unwrap();
            assert!(refused.is_no_space(), "{placement:?}: {refused}");
            (0..4).for_each(|number| store.remove(&path(&format!("/{number}"))).unwrap());
            let before = store.usage().blocks.unwrap();
            let effect = FaultEffect::Delay(Duration::from_secs(10));
            device.inject(Fault { call: Some(DeviceCall::Trim), zone: None, when: FaultWhen::From(1), effect });
            let freeing = {
                let store = store.clone();
                zonda_rt::spawn("freeing", move || store.sync_names())
            };
            while device.injected() == 0 {
                zonda_rt::sleep(Duration::from_millis(1));
            }
            assert_eq!(store.usage().blocks.unwrap(), before, "{placement:?}: neither live nor free");
            write(&store, "/again", 3, 3).unwrap_or_else(|error| panic!("{placement:?}: {error}"));
            freeing.join().unwrap().unwrap();
            assert_eq!(store.check().unwrap().findings, [], "{placement:?}");
        });
    }
}

/// A drive of segments of 2 MiB, with files of half a MiB: of each four every second is gone.
fn half_dead() -> (Faulty<MemBlockDevice>, FileStore) {
    let device = Faulty::new(MemBlockDevice::new(4096, 40 << 8).unwrap(), 1);
    let options = FileStoreOptions { clean_below_free_percent: 90, ..FileStoreOptions::default() };
    let below = Arc::new(device.clone());
    let store = FileStore::format_on_blocks(below, Placement::F2fsLike, StoreId(7), false, options).unwrap();
    for file in 0..16_u8 {
        let mut writer = store.create(&path(&format!("/{file}")), FileTags::of(FileKind::Data)).unwrap();
        writer.append(&vec![1 + file; 512 << 10]).unwrap();
        writer.close().unwrap();
    }
    (0..16).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
    store.sync_names().unwrap();
    (device, store)
}

#[test]
fn a_segment_is_not_damaged_because_its_files_go_while_they_are_read() {
    zonda_rt::sim::run(1, || {
        let (device, store) = half_dead();
        let effect = FaultEffect::Delay(Duration::from_secs(10));
        device.inject(Fault { call: Some(DeviceCall::Read), zone: None, when: FaultWhen::From(1), effect });
        let cleaning = {
            let store = store.clone();
            zonda_rt::spawn("cleaning", move || store.clean_step().map(drop))
        };
        while device.injected() == 0 {
            zonda_rt::sleep(Duration::from_millis(1));
        }
        (1..16).step_by(2).for_each(|file| store.remove(&path(&format!("/{file}"))).unwrap());
        store.sync_names().unwrap();
        assert_eq!(device.injected(), 1, "it is still being read");
        cleaning.join().unwrap().unwrap();
        assert_eq!((store.usage().spoiled_zones, store.usage().copied_bytes), (0, 0));
        assert_eq!(store.check().unwrap().findings, []);
    });
}

#[test]
fn a_segment_is_cleaned_again_when_its_damaged_file_is_gone() {
    let (device, store) = half_dead();
    let place = |name: &str| store.extents(&path(name)).unwrap()[0];
    let effect = FaultEffect::Error(ErrorKind::Media);
    device.inject(Fault { call: Some(DeviceCall::Read), zone: None, when: FaultWhen::Nth(1), effect });
    while store.clean_step().unwrap().is_some() {}
    assert_eq!((device.injected(), store.usage().spoiled_zones), (1, 1));
    // Where nothing else is free, tables go where it left some.
    let damaged = place("/1");
    let put = |name: &String| {
        store.create(&path(name), FileTags::of(FileKind::Flushed)).and_then(|mut writer| {
            writer.append(&vec![7; 512 << 10])?;
            writer.close()
        })
    };
    let names: Vec<String> = (0..100).map(|file| format!("/more{file}")).collect();
    let names: Vec<&String> = names.iter().take_while(|name| put(name).is_ok()).collect();
    let (beside, others): (Vec<&String>, Vec<&String>) =
        names.into_iter().partition(|name| place(name).zone == damaged.zone);
    others.iter().for_each(|name| store.remove(&path(name)).unwrap());
    store.sync_names().unwrap();
    while store.clean_step().unwrap().is_some() {}
    let is_there = || beside.iter().any(|name| place(name).zone == damaged.zone);
    assert!(is_there(), "beside what is damaged");
    store.remove(&path("/1")).unwrap();
    store.sync_names().unwrap();
    while store.clean_step().unwrap().is_some() {}
    assert!(!is_there(), "what is left was moved");
    assert_eq!(store.usage().spoiled_zones, 0);
    assert_eq!(store.check().unwrap().findings, []);
}
