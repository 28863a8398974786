//! What a drive that splits zones makes of the reads of a store: its read pointer has to see through the header that every subzone
//! begins with, and through the reads of a mount.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use zonda_device::{Geometry, MemDevice};
use zonda_files::policy::by_name;
use zonda_files::{FileKind, FilePath, FileStore, FileStoreOptions, FileTags, Lifetime, ReadOrigin, StoreId};
use zonda_flash::drive::{FlashZoned, SplitData, TimeMode, geometry_below};
use zonda_flash::profile::Profile;
use zonda_flash::zns::ReadCounts;

const SUBZONES: u16 = 16;
const TABLE_BYTES: usize = (2 << 20) - (64 << 10);
/// What a compaction reads at a time.
const STEP: usize = 256 << 10;

/// Tables on a drive of the paper at a sixteenth.
struct Tables {
    data: Arc<SplitData>,
    drive: FlashZoned,
    store: FileStore,
}

fn drive_on(data: &Arc<SplitData>) -> FlashZoned {
    let profile = Profile::named("splitzns").unwrap().scaled(16).unwrap();
    FlashZoned::over_split(Arc::clone(data), &profile, TimeMode::Untimed, 1).unwrap()
}

fn options() -> FileStoreOptions {
    FileStoreOptions { policy: by_name("splitzns").unwrap(), ..FileStoreOptions::default() }
}

impl Tables {
    fn new() -> Self {
        let geometry = Geometry::new(32 << 20, 12).with_limits(8, 8);
        let below = MemDevice::new(geometry_below(&geometry, SUBZONES).unwrap()).unwrap();
        let data = Arc::new(SplitData::over(Arc::new(below), geometry, SUBZONES).unwrap());
        let drive = drive_on(&data);
        let store = FileStore::format(Arc::new(drive.clone()), StoreId(1), false, options()).unwrap();
        Self { data, drive, store }
    }

    /// The same after an unmount, all of it on flash.
    fn mounted_again(self) -> Self {
        let Self { data, drive, store } = self;
        drop((store, drive));
        let drive = drive_on(&data);
        let (store, _) = FileStore::mount(Arc::new(drive.clone()), options()).unwrap();
        Self { data, drive, store }
    }

    fn write(&self, name: &str) {
        let tags = FileTags::of(FileKind::Data).with_lifetime(Lifetime::Long).with_level(4);
        let mut writer = self.store.create(&path(name), tags).unwrap();
        writer.append(&vec![7; TABLE_BYTES]).unwrap();
        writer.sync().unwrap();
        writer.close().unwrap();
        assert!(self.store.extents(&path(name)).unwrap().iter().all(|extent| extent.zone.0 >= 12), "in a subzone");
    }

    /// Reads these side by side, as a compaction does.
    fn compact(&self, names: &[&str]) {
        let readers: Vec<_> = names.iter().map(|name| self.store.open(&path(name)).unwrap()).collect();
        let mut into = vec![0; STEP];
        for at in (0..TABLE_BYTES).step_by(STEP) {
            for reader in &readers {
                let read = reader.read_told(at as u64, &mut into, Some(ReadOrigin::Compaction)).unwrap();
                assert!(into[..read].iter().all(|byte| *byte == 7));
            }
        }
    }

    /// Two blocks at every so many bytes, as a query of a pair does.
    fn query(&self, name: &str, every: usize) {
        let reader = self.store.open(&path(name)).unwrap();
        for at in (0..TABLE_BYTES).rev().step_by(every) {
            reader.read_told(at as u64 / 4096 * 4096, &mut [0; 8192], Some(ReadOrigin::Query)).unwrap();
        }
    }

    fn counts(&self) -> ReadCounts {
        self.drive.split_counts().unwrap().reads
    }
}

fn path(name: &str) -> FilePath {
    FilePath::parse(name).unwrap()
}

fn told_right_percent(counts: &ReadCounts) -> u64 {
    100 * counts.told_right / (counts.told_right + counts.told_wrong)
}

#[test]
fn tables_read_in_order_are_known_as_inputs_and_read_ahead() {
    let tables = Tables::new();
    for name in ["/a", "/b", "/c"] {
        tables.write(name);
    }
    let tables = tables.mounted_again();
    assert_eq!(tables.counts().prereads, 0, "a mount reads headers only");
    tables.compact(&["/a", "/b", "/c"]);
    let counts = tables.counts();
    assert_eq!(told_right_percent(&counts), 100, "{counts:?}");
    // Of 24 reads the first three find nothing, and of three tables one's reader is at work itself.
    assert!(counts.preread_hits >= 10 && counts.preread_hit_bytes >= 10 * (STEP as u64 * 9 / 10), "{counts:?}");
}

#[test]
fn a_table_of_this_session_is_known_too() {
    let tables = Tables::new();
    tables.write("/a");
    tables.write("/b");
    tables.compact(&["/a", "/b"]);
    let counts = tables.counts();
    assert_eq!((told_right_percent(&counts), counts.told_right), (100, 16), "{counts:?}");
}

#[test]
fn random_reads_are_known_as_queries_and_disturb_no_compaction() {
    let tables = Tables::new();
    for name in ["/a", "/b"] {
        tables.write(name);
    }
    let tables = tables.mounted_again();
    tables.query("/a", 37 << 10);
    let queries = tables.counts();
    assert!(told_right_percent(&queries) > 95 && queries.prereads == 0, "{queries:?}");
    tables.compact(&["/a", "/b"]);
    let counts = tables.counts();
    assert_eq!(counts.told_wrong, queries.told_wrong, "{counts:?}");
}
