//! The zones in front of a conventional drive hold the journal and write-ahead logs; a log beyond them goes on in blocks.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::path;
use zonda_device::{AlignedBuf, BlockDevice, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Lba, MemBlockDevice};
use zonda_files::{BlocksUsage, FileError, FileKind, FileStore, FileStoreOptions, FileTags, Placement, StoreId};
use zonda_rt::DeviceCall;

/// 40 zones of 64 KiB in front.
const MIB: u64 = 40;

fn memory() -> MemBlockDevice {
    MemBlockDevice::new(4096, MIB << 8).unwrap()
}

fn made(device: Arc<dyn BlockDevice>, placement: Placement) -> FileStore {
    FileStore::format_on_blocks(device, placement, StoreId(7), false, FileStoreOptions::default()).unwrap()
}

fn mounted(device: Arc<dyn BlockDevice>) -> FileStore {
    let (store, report) = FileStore::mount_on_blocks(device, FileStoreOptions::default()).unwrap();
    assert_eq!((report.records_ignored, report.extents_lost), (0, 0), "{report:?}");
    store
}

/// What a mount would find if the power went now and took nothing that was written.
fn copy_of(device: &dyn BlockDevice) -> Arc<MemBlockDevice> {
    let copy = memory();
    let mut blocks = AlignedBuf::with_len(1 << 20);
    for at in (0..device.capacity_blocks()).step_by(256) {
        device.read(Lba(at), &mut blocks).unwrap();
        copy.write(Lba(at), &blocks).unwrap();
    }
    Arc::new(copy)
}

fn blocks(store: &FileStore) -> BlocksUsage {
    store.usage().blocks.unwrap()
}

/// The n-th piece of a log.
fn piece(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from((number * 31 + at) % 251).unwrap()).collect()
}

fn contents(store: &FileStore, name: &str) -> Vec<u8> {
    let reader = store.open(&path(name)).unwrap();
    let mut bytes = vec![0; usize::try_from(reader.size_bytes()).unwrap()];
    assert_eq!(reader.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

#[test]
fn a_long_info_log_takes_no_zone() {
    for placement in Placement::ALL {
        let device = Arc::new(memory());
        let store = made(device.clone(), placement);
        let before = store.usage().space;
        let mut info = store.create(&path("/LOG"), FileTags::of(FileKind::Meta)).unwrap();
        for number in 0..200 {
            info.append(&piece(number, 100_000)).unwrap();
            info.flush().unwrap();
        }
        let after = store.usage().space;
        assert_eq!((after.live_bytes, after.free_zones), (before.live_bytes, before.free_zones), "{placement:?}");
        assert!(blocks(&store).live_bytes >= 20_000_000, "{placement:?}");
        // Whatever is synced makes it durable up to its last flush.
        info.append(&[1; 1000]).unwrap();
        let mut log = store.create(&path("/1.log"), FileTags::of(FileKind::Log)).unwrap();
        log.append(b"a record").unwrap();
        log.sync().unwrap();
        assert_eq!(blocks(&store).spilled_bytes, 0, "{placement:?}: there is room for logs");
        let found = mounted(copy_of(&*device));
        assert_eq!(found.info(&path("/LOG")).unwrap().size_bytes, 20_000_000, "{placement:?}");
        assert_eq!(contents(&found, "/1.log"), b"a record");
        assert!(found.check().unwrap().findings.is_empty());
    }
}

#[test]
fn a_log_beyond_the_zones_goes_on_in_blocks() {
    for placement in Placement::ALL {
        let device = Arc::new(memory());
        let store = made(device.clone(), placement);
        let empty = blocks(&store);
        let mut log = store.create(&path("/1.log"), FileTags::of(FileKind::Log)).unwrap();
        let mut written = Vec::new();
        for number in 0..100 {
            let piece = piece(number, 60_000);
            log.append(&piece).unwrap();
            log.sync().unwrap();
            written.extend(piece);
            if number % 20 == 19 {
                assert_eq!(contents(&mounted(copy_of(&*device)), "/1.log"), written, "{placement:?} {number}");
            }
        }
        let spilled_bytes = blocks(&store).spilled_bytes;
        assert!(spilled_bytes > 3_500_000 && spilled_bytes < 5_500_000, "{placement:?}: {spilled_bytes} of 6 MB");
        // A flush of it is enough for a process that dies, as it is in zones.
        log.append(b"the end").unwrap();
        log.flush().unwrap();
        written.extend(b"the end");
        let found = mounted(copy_of(&*device));
        assert_eq!(contents(&found, "/1.log"), written, "{placement:?}");
        assert!(found.check().unwrap().findings.is_empty());
        log.close().unwrap();
        assert_eq!(contents(&store, "/1.log"), written, "{placement:?}");
        // The zones are there for the next log, and the blocks for tables.
        store.remove(&path("/1.log")).unwrap();
        store.sync_names().unwrap();
        let spilled_bytes = blocks(&store).spilled_bytes;
        assert_eq!(blocks(&store), BlocksUsage { spilled_bytes, ..empty }, "{placement:?}");
        let mut log = store.create(&path("/2.log"), FileTags::of(FileKind::Log)).unwrap();
        log.append(&piece(0, 1_000_000)).unwrap();
        log.sync().unwrap();
        assert_eq!(blocks(&store).spilled_bytes, spilled_bytes, "{placement:?}: zones again");
    }
}

#[test]
fn logs_leave_the_journal_its_zones() {
    // A sync of a MANIFEST is a record and an extent, so that snapshots of the journal are long, while logs take what they get.
    let store = made(Arc::new(memory()), Placement::XfsLike);
    let mut manifest = store.create(&path("/MANIFEST-000001"), FileTags::of(FileKind::Meta)).unwrap();
    for number in 0..40 {
        let mut log = store.create(&path(&format!("/{number}.log")), FileTags::of(FileKind::Log)).unwrap();
        log.append(&piece(number, 150_000)).unwrap();
        for edit in 0..100 {
            manifest.append(&piece(edit, 90)).unwrap();
            manifest.sync().unwrap();
        }
        log.append(&piece(number, 150_000)).unwrap();
        log.sync().unwrap();
        if number >= 10 {
            store.remove(&path(&format!("/{}.log", number - 10))).unwrap();
        }
    }
    assert!(store.usage().journal_bytes > 3 * (64 << 10), "{}: more than the reserve", store.usage().journal_bytes);
    assert!(blocks(&store).spilled_bytes > 0);
    assert_eq!(manifest.size_bytes(), 40 * 100 * 90);
}

#[test]
fn no_space_for_logs_is_no_space_in_blocks() {
    for placement in Placement::ALL {
        let store = made(Arc::new(memory()), placement);
        let mut table = store.create(&path("/table"), FileTags::of(FileKind::Data)).unwrap();
        let refused = (0..MIB).find_map(|_| table.append(&vec![1; 1 << 20]).err()).unwrap();
        assert!(refused.is_no_space(), "{placement:?}: {refused}");
        assert_eq!(blocks(&store).free_bytes, 0, "{placement:?}: what is said to be free can be had");
        // The log has all zones, and what is kept from compactions but for the room of MANIFESTs, before it is refused.
        let mut log = store.create(&path("/1.log"), FileTags::of(FileKind::Log)).unwrap();
        let mut refused = None;
        while refused.is_none() {
            refused = log.append(&[2; 50_000]).and_then(|()| log.sync()).err();
        }
        let refused = refused.unwrap();
        let FileError::NoSpace { usable_bytes, kept_for: "MANIFESTs", .. } = refused else {
            panic!("{placement:?}: {refused:?}")
        };
        assert_eq!(usable_bytes, blocks(&store).capacity_bytes, "{placement:?}: it is of blocks that nothing is left");
        assert!(log.size_bytes() > 1_800_000, "{placement:?}: {}", log.size_bytes());
        drop(table);
        store.remove(&path("/table")).unwrap();
        log.sync().unwrap();
        log.close().unwrap();
        assert_eq!(store.check().unwrap().findings, [], "{placement:?}");
    }
}

#[test]
fn what_was_synced_survives_an_error_anywhere() {
    let mut struck = [0_u32; 3];
    for (which, call) in [DeviceCall::Write, DeviceCall::Flush, DeviceCall::Trim].into_iter().enumerate() {
        for nth in (1..700).step_by(41) {
            let device = Faulty::new(memory(), 1);
            let store = made(Arc::new(device.clone()), Placement::ALL[usize::try_from(nth % 2).unwrap()]);
            let effect = FaultEffect::Error(ErrorKind::Media);
            device.inject(Fault { call: Some(call), zone: None, when: FaultWhen::Nth(nth), effect });
            let synced = logs_and_tables(&store);
            struck[which] += u32::try_from(device.injected()).unwrap();
            drop(store);
            device.heal();
            let found = mounted(Arc::new(device));
            for (name, bytes) in synced {
                assert!(contents(&found, &name).starts_with(&bytes), "{call:?} {nth}: {name}");
            }
            assert!(found.check().unwrap().findings.is_empty(), "{call:?} {nth}");
        }
    }
    assert!(struck.iter().all(|count| *count > 0), "{struck:?}");
}

/// Logs that are longer than the zones, each removed when the next one but one begins, meta files and tables between them, until
/// something fails; returns what was synced then, and was not about to be removed.
fn logs_and_tables(store: &FileStore) -> Vec<(String, Vec<u8>)> {
    let mut synced: Vec<(String, Vec<u8>)> = Vec::new();
    for number in 0..5 {
        if synced.len() > 3 {
            let removed: Vec<String> = synced.drain(..3).map(|(name, _)| name).collect();
            if removed.iter().try_for_each(|name| store.remove(&path(name))).is_err() {
                return synced;
            }
        }
        for (kind, bytes) in [(FileKind::Meta, 3_000), (FileKind::Flushed, 400_000), (FileKind::Log, 1_900_000)] {
            let name = format!("/{number}-{}", kind.name());
            let Ok(mut writer) = store.create(&path(&name), FileTags::of(kind)) else { return synced };
            let mut written = Vec::new();
            synced.push((name, Vec::new()));
            let mut step = |part| {
                let part = piece(part, bytes / 10);
                written.extend(&part);
                writer.append(&part).and_then(|()| writer.sync()).map(|()| written.clone())
            };
            for part in 0..10 {
                match step(part) {
                    Ok(written) => synced.last_mut().unwrap().1 = written,
                    Err(_) => {
                        synced.retain(|(_, bytes)| !bytes.is_empty());
                        return synced;
                    }
                }
            }
        }
    }
    synced
}
