//! A MANIFEST of many small edits, each synced: they share blocks, and none is lost that was synced, whatever a cut of the power leaves.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options, options_with, path};
use zonda_device::{CutAt, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, MemDevice, PowerCut};
use zonda_files::{FileKind, FileStore, FileTags, FileWriter, StoreId};
use zonda_rt::{DeviceCall, Rng};

const EDIT_BYTES: usize = 150;

fn edit(number: usize) -> Vec<u8> {
    vec![u8::try_from(number % 251).unwrap(); EDIT_BYTES]
}

fn edits(count: usize) -> Vec<u8> {
    (0..count).flat_map(edit).collect()
}

fn manifest_of(store: &FileStore) -> Vec<u8> {
    let reader = store.open(&path("/MANIFEST")).unwrap();
    let mut read = vec![0; usize::try_from(reader.size_bytes()).unwrap()];
    assert_eq!(reader.read_at(0, &mut read).unwrap(), read.len());
    read
}

fn create(store: &FileStore) -> FileWriter {
    store.create(&path("/MANIFEST"), FileTags::of(FileKind::Meta)).unwrap()
}

/// With a block for each they would not fit the device.
#[test]
fn small_edits_share_blocks() {
    const EDITS: usize = 700;
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device.clone(), StoreId(1), false, options(0)).unwrap();
    let mut manifest = create(&store);
    for number in 0..EDITS {
        manifest.append(&edit(number)).unwrap();
        manifest.sync().unwrap();
    }
    let in_full_chunks = (EDITS * EDIT_BYTES).div_ceil(4096 - 40) as u64;
    let most = (in_full_chunks + in_full_chunks / 10) * 4096;
    let is_of_files = |view: &&zonda_space::ZoneView| view.stream.is_some_and(|stream| stream.0 != 0);
    let live: u64 = store.space().view().iter().filter(is_of_files).map(|view| view.live_bytes).sum();
    assert!(live <= most, "{live} bytes are live, for {EDITS} edits of {EDIT_BYTES}");
    assert_eq!(manifest_of(&store), edits(EDITS));
    // The process dies.
    std::mem::forget(manifest);
    drop(store);
    let (store, report) = FileStore::mount(device, options(0)).unwrap();
    assert_eq!((report.records_ignored, report.extents_lost), (0, 0));
    assert_eq!(manifest_of(&store), edits(EDITS));
    assert!(store.extents(&path("/MANIFEST")).unwrap().len() as u64 * 4096 <= most);
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn edits_of_any_length_come_back_in_order() {
    let mut rng = Rng::seeded(7);
    for round in 0..20 {
        let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
        let store = FileStore::format(device.clone(), StoreId(1), false, options(round)).unwrap();
        let (mut manifest, mut expected) = (create(&store), Vec::new());
        for number in 0..120_u8 {
            let bytes =
                vec![number; usize::try_from(1 + rng.below(if number % 9 == 0 { 9_000 } else { 600 })).unwrap()];
            expected.extend_from_slice(&bytes);
            manifest.append(&bytes).unwrap();
            match rng.below(8) {
                0 => manifest.flush().unwrap(),
                1 => {}
                _ => manifest.sync().unwrap(),
            }
            assert_eq!(manifest_of(&store), expected, "round {round}");
        }
        manifest.sync().unwrap();
        if round % 2 == 0 {
            manifest.close().unwrap();
            store.sync_names().unwrap();
            assert_eq!(store.check().unwrap().findings, [], "round {round}");
        } else {
            std::mem::forget(manifest);
        }
        drop(store);
        let (store, _) = FileStore::mount(device, options(round)).unwrap();
        assert_eq!(manifest_of(&store), expected, "round {round}");
        assert_eq!(store.check().unwrap().findings, [], "round {round}");
    }
}

/// Edits until the power goes; counts those that were synced.
fn write_until_cut(store: &FileStore, manifest: &mut FileWriter, synced: &mut usize) -> zonda_files::Result<()> {
    for round in 0.. {
        manifest.append(&edit(*synced))?;
        manifest.sync()?;
        *synced += 1;
        // Logs come and go beside it, so that zones are filled, die and are reset.
        if round % 3 == 0 {
            let mut log = store.create(&path("/log"), FileTags::of(FileKind::Log))?;
            log.append(&[7; 9_000])?;
            log.sync()?;
            log.close()?;
        }
    }
    Ok(())
}

/// At every change of the device, one after the other, in whatever way a drive may lose what was not flushed.
#[test]
fn no_synced_edit_is_lost_by_a_cut() {
    let policies = ["liza-zns", "liza-caza", "f2fs-like"];
    let mut rng = Rng::seeded(3);
    let mut cuts = 0;
    for cut_at in 1..=330_u64 {
        for active in [2, 4] {
            let options = options_with(policies[usize::try_from(cut_at).unwrap() % policies.len()]);
            let switch = PowerCut::over(MemDevice::new(geometry(active)).unwrap());
            let store = FileStore::format(Arc::new(switch.clone()), StoreId(1), false, options.clone()).unwrap();
            let mut manifest = create(&store);
            manifest.sync().unwrap();
            switch.arm(CutAt::Change(cut_at));
            let mut synced = 0;
            write_until_cut(&store, &mut manifest, &mut synced).unwrap_err();
            assert!(switch.cut_report().is_some(), "cut at {cut_at}");
            cuts += 1;
            drop((manifest, store));
            let after = switch.reopen(&mut rng);
            let (store, report) = FileStore::mount(Arc::new(after), options).unwrap();
            assert_eq!(report.damage(), None, "cut at {cut_at}");
            let found = manifest_of(&store);
            let is_whole = found == edits(synced) || found == edits(synced + 1);
            assert!(is_whole, "cut at {cut_at}, {active} active: {} bytes, {synced} edits were synced", found.len());
            assert_eq!(store.check().unwrap().findings, [], "cut at {cut_at}");
        }
    }
    assert_eq!(cuts, 660);
}

/// What is found before the flush is what it was before the write: nobody may reset the zone of what is synced.
#[test]
fn a_chunk_stays_until_the_one_for_it_is_durable() {
    for edits_before in 1..60 {
        let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with("liza-zns")).unwrap();
        let mut manifest = create(&store);
        for number in 0..edits_before {
            manifest.append(&edit(number)).unwrap();
            manifest.sync().unwrap();
        }
        let live =
            |store: &FileStore| -> Vec<u64> { store.space().view().iter().map(|view| view.live_bytes).collect() };
        let before = live(&store);
        let effect = FaultEffect::Error(ErrorKind::Io);
        device.inject(Fault { call: Some(DeviceCall::Flush), zone: None, when: FaultWhen::From(1), effect });
        manifest.append(&edit(edits_before)).unwrap();
        assert!(manifest.sync().is_err());
        let after = live(&store);
        let has_died = before.iter().zip(&after).any(|(before, after)| after < before);
        assert!(!has_died, "{edits_before} edits: {before:?} bytes were live, and {after:?} are before the flush");
    }
}

/// What is in no record yet is live all the same: the newest chunks, those that they stand for while they may be lost, and a file that
/// somebody still has open without a name.
#[test]
fn an_open_manifest_is_no_damage_whatever_became_of_its_last_flush() {
    for policy in ["liza-zns", "f2fs-like"] {
        let device = Faulty::new(MemDevice::new(geometry(14)).unwrap(), 1);
        let store = FileStore::format(Arc::new(device.clone()), StoreId(1), false, options_with(policy)).unwrap();
        let findings = || store.check().unwrap().findings;
        let mut manifest = create(&store);
        for number in 0..60 {
            manifest.append(&edit(number)).unwrap();
            manifest.sync().unwrap();
            assert_eq!(findings(), [], "{policy}, {number} edits");
        }
        store.remove(&path("/MANIFEST")).unwrap();
        assert_eq!(findings(), [], "{policy}, without a name");
        let mut manifest = create(&store);
        manifest.append(&edit(0)).unwrap();
        manifest.sync().unwrap();
        let effect = FaultEffect::Error(ErrorKind::Io);
        device.inject(Fault { call: Some(DeviceCall::Flush), zone: None, when: FaultWhen::From(1), effect });
        manifest.append(&edit(1)).unwrap();
        assert!(manifest.sync().is_err());
        assert_eq!(findings(), [], "{policy}, before a flush");
    }
}

/// Nobody asks a mount for what has no name.
#[test]
fn chunks_of_a_file_without_a_name_are_given_back_too() {
    let device = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(device, StoreId(1), false, options_with("liza-zns")).unwrap();
    let mut manifest = create(&store);
    manifest.sync().unwrap();
    store.remove(&path("/MANIFEST")).unwrap();
    let is_of_files = |view: &&zonda_space::ZoneView| view.stream.is_some_and(|stream| stream.0 != 0);
    let live = || store.space().view().iter().filter(is_of_files).map(|view| view.live_bytes).sum::<u64>();
    let before = live();
    for number in 0..20 {
        manifest.append(&edit(number)).unwrap();
        manifest.sync().unwrap();
    }
    assert!(live() <= before + 4096, "{} bytes more are live, for {} in the file", live() - before, 20 * EDIT_BYTES);
    assert_eq!(manifest.size_bytes(), 20 * EDIT_BYTES as u64);
    manifest.close().unwrap();
    assert_eq!(store.check().unwrap().findings, []);
}
