//! Several reads at once give what they give one after the other, and are in flight together.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::sync::Arc;

use common::{geometry, options, path};
use zonda_device::{MemDevice, ZonedDevice};
use zonda_files::{FileKind, FileRead, FileReader, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_rt::{now, rng::Rng};

/// Bytes that tell where they are.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from(at * 7 % 253).unwrap()).collect()
}

/// A file of `bytes` bytes; its writer is kept, so that its end waits in memory.
fn written(store: &FileStore, bytes: usize) -> (zonda_files::FileWriter, FileReader) {
    let mut writer = store.create(&path("/a"), FileTags::of(FileKind::Data)).unwrap();
    pattern(bytes).chunks(5000).for_each(|chunk| writer.append(chunk).unwrap());
    (writer, store.open(&path("/a")).unwrap())
}

fn read_all(reader: &FileReader, ranges: &[(u64, usize)]) -> Vec<Vec<u8>> {
    let mut buffers: Vec<Vec<u8>> = ranges.iter().map(|(_, bytes)| vec![0; *bytes]).collect();
    let with_range = buffers.iter_mut().zip(ranges);
    let mut reads: Vec<FileRead<'_>> =
        with_range.map(|(into, (offset, _))| FileRead { offset: *offset, into, bytes: 9 }).collect();
    reader.read_many(&mut reads, None).unwrap();
    let counts: Vec<usize> = reads.iter().map(|read| read.bytes).collect();
    buffers.iter_mut().zip(counts).for_each(|(buffer, bytes)| buffer.truncate(bytes));
    buffers
}

#[test]
fn many_reads_are_what_they_are_one_by_one() {
    const BYTES: usize = 200_001;
    let device: Arc<dyn ZonedDevice> = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let store = FileStore::format(Arc::clone(&device), StoreId(1), false, options(2)).unwrap();
    let (mut writer, reader) = written(&store, BYTES);
    let expected = pattern(BYTES);
    let ends = [(0, 0), (BYTES as u64, 10), (BYTES as u64 - 3, 10), (u64::MAX, 1), (0, BYTES + 1)];
    let mut rng = Rng::seeded(7);
    let mut check = |reader: &FileReader| {
        let random = (0..60).map(|_| (rng.below(BYTES as u64), usize::try_from(rng.below(30_000)).unwrap()));
        let ranges: Vec<_> = ends.into_iter().chain(random).collect();
        for ((offset, bytes), found) in ranges.iter().zip(read_all(reader, &ranges)) {
            let from = usize::try_from(*offset).map_or(BYTES, |offset| offset.min(BYTES));
            assert!(found == expected[from..(from + bytes).min(BYTES)], "{bytes} bytes from {offset}");
        }
    };
    check(&reader);
    writer.sync().unwrap();
    check(&reader);
    let (beside, _) = FileStore::mount_read_only(device, options(2)).unwrap();
    check(&beside.open(&path("/a")).unwrap());
}

/// Cleaned and written over since the mount: every read asks.
#[test]
fn many_reads_of_a_zone_that_holds_something_else_are_stale() {
    let device: Arc<dyn ZonedDevice> = Arc::new(MemDevice::new(geometry(14)).unwrap());
    let options = FileStoreOptions { clean_below_free_percent: 90, ..options(2) };
    let store = FileStore::format(Arc::clone(&device), StoreId(1), false, options.clone()).unwrap();
    let (mut writer, _) = written(&store, 300_000);
    writer.sync().unwrap();
    writer.close().unwrap();
    let (beside, _) = FileStore::mount_read_only(device, options).unwrap();
    let reader = beside.open(&path("/a")).unwrap();
    store.remove(&path("/a")).unwrap();
    store.sync_names().unwrap();
    while store.clean_step().unwrap().is_some() {}
    let mut buffers = [[0; 100]; 2];
    let mut reads: Vec<_> = buffers.iter_mut().map(|into| FileRead { offset: 5, into, bytes: 0 }).collect();
    let error = reader.read_many(&mut reads, None).unwrap_err();
    assert!(matches!(error, zonda_files::FileError::Stale { .. }), "{error}");
}

#[test]
fn many_reads_are_in_flight_together() {
    zonda_rt::sim::run(1, || {
        let device = zonda_flash::drive::open_zoned("zn540?scale=1/64&zones=40").unwrap();
        let store = FileStore::format(device, StoreId(1), false, FileStoreOptions::default()).unwrap();
        let (mut writer, reader) = written(&store, 16 << 20);
        writer.sync().unwrap();
        let ranges: Vec<(u64, usize)> = (0..32).map(|nth| (nth * (500 << 10), 4096)).collect();
        let began = now();
        ranges.iter().for_each(|one| drop(read_all(&reader, &[*one])));
        let one_by_one = now().since(began);
        let began = now();
        read_all(&reader, &ranges);
        let together = now().since(began);
        assert!(together * 8 < one_by_one, "{together:?} instead of {one_by_one:?}");
    });
}
