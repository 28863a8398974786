//! What a file store is told at creation and mount.

use std::sync::Arc;

use zonda_space::{SpaceOptions, StreamId, StreamSpec, VictimPolicy};

use crate::policy::{Ldp, Policy};
use crate::trace::TraceWriter;
use crate::{FileError, FileKind, Result};

/// The journal of names and extents.
pub(crate) const JOURNAL: StreamId = StreamId(0);
/// Write-ahead logs.
pub(crate) const LOG: StreamId = StreamId(1);
/// MANIFEST, CURRENT, OPTIONS.
pub(crate) const META: StreamId = StreamId(2);
/// Tables and everything else.
pub(crate) const DATA: StreamId = StreamId(3);
/// What cleaning moved.
pub(crate) const RELOCATED: StreamId = StreamId(4);

/// What a stream is called in reports.
#[must_use]
pub fn stream_name(stream: StreamId) -> &'static str {
    match stream {
        JOURNAL => "journal",
        LOG => "logs",
        META => "meta files",
        DATA => "tables",
        RELOCATED => "moved tables",
        _ => "unknown",
    }
}

/// Feature bit of a store on a device that splits zones: extents may lie in subzones. Its superblock is the number of subzones
/// of a zone, in 4 bytes.
pub(crate) const FEATURE_SUBZONES: u64 = 1;

/// Feature bit of a store on a conventional drive: extents may lie in blocks behind the zones. Its superblock is the number of
/// a [`Placement`](crate::Placement), in one byte.
pub(crate) const FEATURE_BLOCKS: u64 = 2;

/// Open zones of tables at the most: as many as a device without limits lets a policy have.
const DATA_ZONES_MAX: u32 = 4096;

/// The name in zone headers of a file store.
pub(crate) const CLIENT: [u8; 8] = *b"files\0\0\0";

/// Options of a mount; none of them is fixed at creation.
#[derive(Clone, Debug)]
pub struct FileStoreOptions {
    /// Which open zone a file's bytes go to.
    pub policy: Arc<dyn Policy>,
    /// Zones that only cleaning (one) and the journal (the others) may take, so that cleaning can always go on: at least 3.
    pub reserve_zones: u32,
    /// Zones above the reserve, and those for MANIFESTs and first records of logs, that only logs and flushed tables may take, so that
    /// compactions are refused first: one for each. Fewer than the device has.
    pub flush_reserve_zones: u32,
    /// A zone with less than this share of its capacity left is finished when its file is closed, in percent.
    pub finish_percent: u8,
    /// [`FileStore::clean_step`](crate::FileStore::clean_step) cleans while less than this share of the zones that are not split
    /// is free, in percent.
    pub clean_below_free_percent: u8,
    /// Which zone is emptied.
    pub victims: VictimPolicy,
    /// Bytes that a table or other large file collects in memory before they are written: a multiple of 4096.
    pub write_buffer_bytes: u32,
    /// The same for logs and meta files, which are mostly written by their syncs.
    pub log_buffer_bytes: u32,
    /// Bytes that cleaning reads at a time and then writes: a multiple of 4096.
    pub copy_buffer_bytes: u32,
    /// Bytes of tables that may wait in memory until their keys are known, for policies that place by keys. Tables past it are
    /// placed as they are written, by their first key and those of their jobs' inputs.
    pub held_bytes_max: u64,
    /// Whether a mount goes on without what may have been in zones that are offline, the ends of logs and of the journal. It is refused
    /// else: what was synced is not dropped silently. Once mounted for writing, the store misses these zones no more.
    pub gives_up_offline: bool,
    /// On a conventional drive: whether lifetimes become streams of the drive.
    pub streams: bool,
    /// Fewer active zones than the device allows.
    pub active_limit: Option<u32>,
    /// Seconds since 1970, for modification times.
    pub clock_seconds: fn() -> u64,
    /// Where what happens is recorded, for [`replay`](crate::trace).
    pub trace: Option<Arc<TraceWriter>>,
}

impl Default for FileStoreOptions {
    fn default() -> Self {
        Self {
            policy: Arc::new(Ldp),
            reserve_zones: 3,
            flush_reserve_zones: 2,
            finish_percent: 5,
            clean_below_free_percent: 20,
            victims: VictimPolicy::Greedy,
            write_buffer_bytes: 1 << 20,
            log_buffer_bytes: 64 << 10,
            copy_buffer_bytes: 1 << 20,
            held_bytes_max: 256 << 20,
            gives_up_offline: false,
            streams: false,
            active_limit: None,
            clock_seconds: || 0,
            trace: None,
        }
    }
}

impl FileStoreOptions {
    /// Refuses what cannot work on a device of so many zones.
    pub(crate) fn check_on(&self, zones: u32) -> Result<()> {
        if self.flush_reserve_zones >= zones {
            let (option, rule) = ("flush_reserve_zones", "there must be more zones on the device");
            return Err(FileError::BadOption { option, value: self.flush_reserve_zones.into(), rule });
        }
        self.check()
    }

    /// Refuses what can work nowhere.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |option, value: u64, rule| Err(FileError::BadOption { option, value, rule });
        if self.reserve_zones < 3 {
            return bad("reserve_zones", self.reserve_zones.into(), "cleaning and the journal need 3");
        }
        let buffers = [
            ("write_buffer_bytes (write_buffer=)", self.write_buffer_bytes),
            ("log_buffer_bytes (log_buffer=)", self.log_buffer_bytes),
            ("copy_buffer_bytes (copy_buffer=)", self.copy_buffer_bytes),
        ];
        for (option, bytes) in buffers {
            if bytes == 0 || !bytes.is_multiple_of(4096) || bytes > 64 << 20 {
                return bad(option, bytes.into(), "it is a multiple of 4096 up to 64 MiB");
            }
        }
        for (option, percent) in [
            ("finish_percent", self.finish_percent),
            ("clean_below_free_percent (clean_threshold=)", self.clean_below_free_percent),
        ] {
            if percent > 90 {
                return bad(option, percent.into(), "it is 0 to 90");
            }
        }
        Ok(())
    }

    /// Streams and reserve for the zone manager. At 14 active zones: journal 1, log 1, meta 1, relocated 2, data 9; at 4
    /// relocated shares zones with data; at 3 also meta with log; at 2 all but the journal share.
    pub(crate) fn space(&self) -> SpaceOptions {
        SpaceOptions {
            streams: vec![
                StreamSpec::new(JOURNAL, "journal", 0).alone(),
                StreamSpec::new(LOG, "log", 10),
                StreamSpec::new(META, "meta", 12),
                StreamSpec::new(DATA, "data", 20).zones(1, DATA_ZONES_MAX),
                StreamSpec::new(RELOCATED, "relocated", 21).zones(1, 2),
            ],
            ..self.space_in_front()
        }
    }

    /// Streams and reserve for the zones in front of a conventional drive: all else is in blocks.
    pub(crate) fn space_in_front(&self) -> SpaceOptions {
        SpaceOptions {
            client: CLIENT,
            streams: vec![StreamSpec::new(JOURNAL, "journal", 0).alone(), StreamSpec::new(LOG, "log", 10)],
            known_features: FEATURE_SUBZONES | FEATURE_BLOCKS,
            reserve_zones: self.reserve_zones,
            active_limit: self.active_limit,
        }
    }
}

/// The stream of new bytes of a file.
pub(crate) fn stream_of(kind: FileKind) -> StreamId {
    match kind {
        FileKind::Log => LOG,
        FileKind::Meta => META,
        FileKind::Flushed | FileKind::Data => DATA,
    }
}

#[cfg(test)]
mod tests {
    use zonda_device::{Geometry, MemDevice};
    use zonda_space::Budget;

    use super::*;
    use crate::{FileStore, StoreId};

    #[test]
    fn the_budget_works_from_two_active_zones_on() {
        let streams = FileStoreOptions::default().space().streams;
        let shares = |active| {
            let budget = Budget::plan(active, &streams).expect("enough");
            budget.shares().iter().map(|share| (share.stream, share.zones)).collect::<Vec<_>>()
        };
        assert_eq!(shares(100), [(JOURNAL, 1), (LOG, 1), (META, 1), (DATA, 95), (RELOCATED, 2)]);
        assert_eq!(shares(14), [(JOURNAL, 1), (LOG, 1), (META, 1), (DATA, 9), (RELOCATED, 2)]);
        assert_eq!(shares(5), [(JOURNAL, 1), (LOG, 1), (META, 1), (DATA, 1), (RELOCATED, 1)]);
        assert_eq!(shares(4), [(JOURNAL, 1), (LOG, 1), (META, 1), (DATA, 1)]);
        assert_eq!(shares(3), [(JOURNAL, 1), (LOG, 1), (DATA, 1)]);
        assert_eq!(shares(2), [(JOURNAL, 1), (LOG, 1)]);
        assert!(Budget::plan(1, &streams).is_err());
    }

    #[test]
    fn in_front_of_a_conventional_drive_two_zones_are_open() {
        let streams = FileStoreOptions::default().space_in_front().streams;
        assert_eq!(Budget::plan(64, &streams).expect("enough").zones(), 2);
    }

    #[test]
    fn absurd_options_are_refused() {
        let base = FileStoreOptions::default();
        base.check().expect("the defaults are fine");
        for bad in [
            FileStoreOptions { reserve_zones: 2, ..base.clone() },
            FileStoreOptions { write_buffer_bytes: 0, ..base.clone() },
            FileStoreOptions { log_buffer_bytes: 4097, ..base.clone() },
            FileStoreOptions { finish_percent: 91, ..base.clone() },
        ] {
            assert!(matches!(bad.check(), Err(FileError::BadOption { .. })));
        }
        for flush_reserve_zones in [u32::MAX, 1_000_000, 24] {
            let bad = FileStoreOptions { flush_reserve_zones, ..base.clone() };
            let device = Arc::new(MemDevice::new(Geometry::new(64 << 10, 24)).expect("a good geometry"));
            let refused = FileStore::format(device.clone(), StoreId(1), false, bad.clone()).map(drop);
            let option = |refused| match refused {
                Err(FileError::BadOption { option, .. }) => option,
                other => panic!("{flush_reserve_zones}: {other:?}"),
            };
            assert_eq!(option(refused), "flush_reserve_zones");
            drop(FileStore::format(device.clone(), StoreId(1), false, base.clone()).expect("nothing was written"));
            assert_eq!(option(FileStore::mount(device.clone(), bad.clone()).map(drop)), "flush_reserve_zones");
            assert_eq!(option(FileStore::mount_read_only(device, bad).map(drop)), "flush_reserve_zones");
        }
    }
}
