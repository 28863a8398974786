//! Two processes, one file: one writes, cleans and deletes, the other mounts for reading again and again. What it reads is what was
//! written, or `Stale`; never refused, never other bytes, never a file that has lost its end.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{options_with, path};
use zonda_device::{DeviceError, Direct, FileDevice, FileOptions, Geometry, ZonedDevice};
use zonda_files::{Cleaner, FileError, FileKind, FilePath, FileStore, FileStoreOptions, FileTags, StoreId};
use zonda_rt::{Rng, now};

/// Tables that live at once: two thirds of the device.
const TABLES: u64 = 26;
const TABLE_BYTES: usize = 130_000;
const LOG_BYTES: usize = 60_000;
/// A child whose parent is gone ends by itself.
const CHILD_LIVES: Duration = Duration::from_secs(1_200);
const READING: Duration = Duration::from_secs(4);

/// How a device file is made and used.
#[derive(Clone, Copy, Debug)]
struct Way {
    direct: Direct,
    record_pointers: bool,
}

const WAYS: [Way; 3] = [
    Way { direct: Direct::Auto, record_pointers: false },
    Way { direct: Direct::Off, record_pointers: false },
    Way { direct: Direct::Auto, record_pointers: true },
];

impl Way {
    fn options(self) -> FileOptions {
        FileOptions { direct: self.direct, record_pointers: self.record_pointers, ..FileOptions::default() }
    }
}

fn store_options() -> FileStoreOptions {
    FileStoreOptions { clean_below_free_percent: 25, ..options_with("liza-zenfs") }
}

/// The bytes of file `number`, of which every 8 say which file and which place they are.
fn content(number: u64, bytes: usize) -> Vec<u8> {
    (0..).flat_map(|at: u64| (number << 32 | at).to_le_bytes()).take(bytes).collect()
}

fn write(store: &FileStore, name: &FilePath, kind: FileKind, data: &[u8], step: usize) {
    let mut writer = store.create(name, FileTags::of(kind)).unwrap();
    for part in data.chunks(step) {
        writer.append(part).unwrap();
        writer.sync().unwrap();
    }
    writer.close().unwrap();
}

/// One round of a program like RocksDB: a log that grows by syncs, a table, and a file that names the newest table. Whatever is
/// called `/table-` or `/old-` is whole.
fn round(store: &FileStore, number: u64, rng: &mut Rng) {
    write(store, &path("/log"), FileKind::Log, &content(number, LOG_BYTES), 3_000);
    store.rename(&path("/log"), &path(&format!("/old-{number}"))).unwrap();
    write(store, &path("/new"), FileKind::Data, &content(number, TABLE_BYTES), 50_000);
    store.rename(&path("/new"), &path(&format!("/table-{number}"))).unwrap();
    write(store, &path("/next"), FileKind::Meta, &content(number, 8), 8);
    store.rename(&path("/next"), &path("/CURRENT")).unwrap();
    store.sync_names().unwrap();
    let tables: Vec<FilePath> =
        store.list(&FilePath::root()).unwrap().into_iter().filter(|name| name.as_str().contains("table")).collect();
    let many = tables.len() as u64;
    if many > TABLES {
        store.remove(&tables[usize::try_from(rng.below(many)).unwrap()]).unwrap();
    }
    if number > 3 {
        store.remove(&path(&format!("/old-{}", number - 3))).unwrap();
    }
}

#[test]
#[ignore = "run by the others, which end it"]
fn child_writes_until_killed() {
    let Some(file) = std::env::var_os("ZONDA_TEST_DEVICE") else { return };
    let way = WAYS[std::env::var("ZONDA_TEST_WAY").unwrap().parse::<usize>().unwrap()];
    let device: Arc<dyn ZonedDevice> = Arc::new(FileDevice::open(file, &way.options()).unwrap());
    let (store, _) = FileStore::mount(device, store_options()).unwrap();
    let cleaner = Cleaner::start(store.clone()).unwrap();
    let (mut rng, began) = (Rng::seeded(3), now());
    for number in 1.. {
        round(&store, number, &mut rng);
        if now().since(began) > CHILD_LIVES {
            break;
        }
    }
    drop(cleaner);
}

/// The other process; ends with the test.
struct Writer(Child);

impl Writer {
    fn start(file: &Path, way: usize) -> Self {
        let geometry = Geometry::new(128 << 10, 64).with_limits(8, 8);
        let options = WAYS[way].options();
        let device: Arc<dyn ZonedDevice> = Arc::new(FileDevice::create(file, geometry, &options).unwrap());
        drop(FileStore::format(device, StoreId(7), false, store_options()).unwrap());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_writes_until_killed", "--ignored", "--nocapture"]).stdout(Stdio::null());
        command.env("ZONDA_TEST_DEVICE", file).env("ZONDA_TEST_WAY", way.to_string());
        Self(command.spawn().unwrap())
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.0.kill();
        let _status = self.0.wait();
    }
}

/// What a reader met.
#[derive(Debug, Default)]
struct Met {
    mounts: u32,
    unsettled: u32,
    whole: u32,
    stale: u32,
    newest: u64,
}

/// Mounts once, reads every file, and checks the store.
fn read_all(file: &Path, way: Way, met: &mut Met) {
    let device: Arc<dyn ZonedDevice> = Arc::new(FileDevice::open_beside(file, &way.options()).unwrap());
    let store = match FileStore::mount_read_only(Arc::clone(&device), store_options()) {
        Ok((store, report)) => {
            assert_eq!((report.records_ignored, report.journal_damage()), (0, None), "{report:?}");
            store
        }
        Err(FileError::Unsettled { .. }) => {
            met.unsettled += 1;
            return;
        }
        Err(error) => panic!("{error}"),
    };
    met.mounts += 1;
    for name in store.list(&FilePath::root()).unwrap() {
        match read(&store, &name, met) {
            Ok(()) => met.whole += 1,
            Err(FileError::Stale { .. }) => met.stale += 1,
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let mut report = store.check().unwrap();
    if !report.stale.is_empty() {
        let later = FileStore::mount_read_only(device, store_options());
        let Ok((later, _)) = later else { return };
        later.settle_stale(&mut report);
    }
    assert_eq!(report.findings, [], "what the live store did is no damage");
}

fn read(store: &FileStore, name: &FilePath, met: &mut Met) -> Result<(), FileError> {
    let reader = store.open(name)?;
    let mut bytes = vec![0; usize::try_from(reader.size_bytes()).unwrap()];
    assert_eq!(reader.read_at(0, &mut bytes)?, bytes.len());
    let (kind, number) = name.as_str()[1..].split_once('-').unwrap_or((&name.as_str()[1..], "0"));
    let number: u64 = number.parse().unwrap();
    match kind {
        "table" => assert!(bytes == content(number, TABLE_BYTES), "{name}: {} bytes", bytes.len()),
        "old" => assert!(bytes == content(number, LOG_BYTES), "{name}: {} bytes", bytes.len()),
        // Being written: the beginning of what it will be.
        "log" | "new" | "next" => {
            let number = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first) >> 32);
            assert!(bytes == content(number, bytes.len()), "{name}");
        }
        "CURRENT" => {
            let newest = u64::from_le_bytes(*bytes.first_chunk().unwrap()) >> 32;
            assert!(newest >= met.newest, "{newest} after {}: an older moment", met.newest);
            met.newest = newest;
        }
        other => panic!("{other}"),
    }
    Ok(())
}

fn read_beside_writer(way: usize) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("device");
    let mut writer = Writer::start(&file, way);
    let (mut met, began) = (Met::default(), now());
    let is_enough =
        |met: &Met| met.newest >= 3 * TABLES && met.mounts > 10 && met.whole > 100 && met.unsettled < met.mounts;
    while now().since(began) < READING || !is_enough(&met) && writer.is_running() {
        read_all(&file, WAYS[way], &mut met);
    }
    assert!(writer.is_running(), "the writer was not disturbed: {met:?}");
    let refused = |opened: Result<FileDevice, DeviceError>| matches!(opened, Err(DeviceError::Locked { .. }));
    assert!(refused(FileDevice::open(&file, &WAYS[way].options())), "a second writer");
    assert!(refused(FileDevice::open_read_only(&file, &WAYS[way].options())), "a reader that wants it still");
    assert!(met.mounts > 10 && met.whole > 100 && met.unsettled < met.mounts, "{met:?}");
    println!("{:?}: {met:?}", WAYS[way]);
    drop(writer);
    let device: Arc<dyn ZonedDevice> = Arc::new(FileDevice::open(&file, &WAYS[way].options()).unwrap());
    let (store, _) = FileStore::mount(device, store_options()).unwrap();
    assert_eq!(store.check().unwrap().findings, []);
}

#[test]
fn a_reader_beside_a_writer_sees_what_was_written_or_stale() {
    read_beside_writer(0);
}

#[test]
fn the_same_through_the_page_cache() {
    read_beside_writer(1);
}

#[test]
fn the_same_where_write_pointers_are_recorded() {
    read_beside_writer(2);
}

#[test]
fn a_writer_comes_and_goes_beside_a_reader() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("device");
    let options = FileOptions::default();
    let geometry = Geometry::new(128 << 10, 64).with_limits(8, 8);
    let device: Arc<dyn ZonedDevice> = Arc::new(FileDevice::create(&file, geometry, &options).unwrap());
    let live = FileStore::format(Arc::clone(&device), StoreId(7), false, store_options()).unwrap();
    let beside: Arc<dyn ZonedDevice> = Arc::new(FileDevice::open_beside(&file, &options).unwrap());
    let mounted = || FileStore::mount_read_only(Arc::clone(&beside), store_options()).unwrap().0;
    write(&live, &path("/table-1"), FileKind::Data, &content(1, TABLE_BYTES), 50_000);
    read(&mounted(), &path("/table-1"), &mut Met::default()).unwrap();
    drop((live, device));
    let early = mounted();
    let device: Arc<dyn ZonedDevice> = Arc::new(FileDevice::open(&file, &options).unwrap());
    let (live, _) = FileStore::mount(device, store_options()).unwrap();
    write(&live, &path("/table-2"), FileKind::Data, &content(2, TABLE_BYTES), 50_000);
    read(&mounted(), &path("/table-2"), &mut Met::default()).unwrap();
    read(&early, &path("/table-1"), &mut Met::default()).unwrap();
    assert!(matches!(early.open(&path("/table-2")), Err(FileError::NotFound { .. })));
}
