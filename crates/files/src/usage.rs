//! Space of a file store in numbers.

use std::time::Duration;

use zonda_rt::atomic::Ordering;
use zonda_space::{SpaceUsage, ZoneUse, ZoneView};

use crate::FileKind;
use crate::claim::COMPACTION;
use crate::options::{DATA, JOURNAL};
use crate::store::Core;

/// Levels of an LSM-tree that are told apart by [`FileUsage::copied_of_levels`]: as many as a tree of `RocksDB` has unless told otherwise.
pub const LEVELS_COUNTED: usize = 7;

/// Space and work of a store. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileUsage {
    /// What all zones can hold.
    pub capacity_bytes: u64,
    /// What live bytes may fill (I9): all but the reserve, and what zones that logs, meta files and cleaning have open could still hold.
    pub usable_bytes: u64,
    /// Live bytes, the journal's included.
    pub live_bytes: u64,
    /// What can still be written after cleaning, without what is kept for flushes, logs and MANIFESTs, what tables left of their
    /// subzones, and dead bytes in zones that cleaning passes over, because they have few of them, are spoiled, or could not be read or
    /// reset when that was last tried.
    /// At 0 a compaction is refused.
    pub free_bytes: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the journal that a mount reads.
    pub journal_bytes: u64,
    /// Written for users since the mount, with padding and chunk headers.
    pub written_bytes: u64,
    /// Device writes since the mount, by what they were for.
    pub writes: WriteCounts,
    /// Copied by cleaning since the mount.
    pub copied_bytes: u64,
    /// Of these, of tables whose level is known, by level; the last stands for all deeper ones, too.
    pub copied_of_levels: [u64; LEVELS_COUNTED],
    /// Zones that cleaning passes over, because it found a file damaged there: as long as it is there, it stays as it is.
    pub spoiled_zones: u64,
    /// Zones that were reset after what was live in them had been copied, since the mount.
    pub resets_with_copy: u64,
    /// Zones that were reset without copying anything, since the mount.
    pub resets_without_copy: u64,
    /// Left in zones that were finished before they were full, since the mount.
    pub finished_unwritten_bytes: u64,
    /// Time that finishing zones took, since the mount.
    pub finishing_time: Duration,
    /// Time that writers of files waited for another's write to the same zone, all of them together, since the mount.
    pub zone_wait: Duration,
    /// Time that writers waited until zones were cleaned for them, all together, since the mount.
    pub waiting_time: Duration,
    /// Time that copying out of victims took, all cleaners together, since the mount.
    pub copying_time: Duration,
    /// Time that callers waited for the journal, all together, since the mount.
    pub committing_time: Duration,
    /// Bytes of tables that wait in memory for their keys to be known.
    pub held_bytes: u64,
    /// The blocks behind the zones, on a conventional drive.
    pub blocks: Option<BlocksUsage>,
    /// Zones and tokens.
    pub space: SpaceUsage,
}

/// Device writes of a store by what they were for. Without copies of cleaning and headers of zones, and for a conventional drive only
/// those to the zones in front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Of write-ahead logs.
    pub logs: u64,
    /// Of small files that are read when a database is opened, and what people read.
    pub meta_files: u64,
    /// Of tables that were flushed from memory.
    pub flushed_tables: u64,
    /// Of other tables.
    pub tables: u64,
    /// Commits of the journal: one write each, or some more if there is much to record, and a flush of the device.
    pub commits: u64,
}

impl WriteCounts {
    fn of(core: &Core) -> Self {
        let of_kind = |kind: FileKind| core.counters.writes[kind as usize].load(Ordering::Relaxed);
        Self {
            logs: of_kind(FileKind::Log),
            meta_files: of_kind(FileKind::Meta),
            flushed_tables: of_kind(FileKind::Flushed),
            tables: of_kind(FileKind::Data),
            commits: core.committer.commits(),
        }
    }
}

/// Blocks of a conventional drive behind its zones, which hold all files but write-ahead logs. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlocksUsage {
    /// All of them.
    pub capacity_bytes: u64,
    /// Of files.
    pub live_bytes: u64,
    /// Of files that are gone, but not durably: free with the next sync.
    pub dead_bytes: u64,
    /// What can still be written, without what is kept for flushes, logs and MANIFESTs: at 0 a compaction is refused.
    pub free_bytes: u64,
    /// Of write-ahead logs, written to blocks since the mount because no zone in front was left for them.
    pub spilled_bytes: u64,
}

impl BlocksUsage {
    fn of(core: &Core) -> Option<Self> {
        let blocks = core.ground.blocks()?;
        let (free, dead) = blocks.free();
        let bytes = |blocks: u64| blocks * crate::BLOCK_BYTES as u64;
        Some(Self {
            capacity_bytes: bytes(blocks.count()),
            live_bytes: bytes(blocks.count() - free - dead),
            dead_bytes: bytes(dead),
            free_bytes: bytes((free + dead).saturating_sub(core.blocks_kept_from(COMPACTION))),
            spilled_bytes: core.counters.spilled.load(Ordering::Relaxed),
        })
    }
}

impl Core {
    /// What live bytes may fill of the zones. Tables fill what other tables left of an open zone, and nothing else does.
    pub(crate) fn usable_bytes(&self, space: &SpaceUsage) -> u64 {
        let zone_bytes = space.capacity_bytes / u64::from(space.zones - space.lost_zones).max(1);
        let is_held = |view: &&ZoneView| {
            // To who only reads, those that the writer fills look as if nobody did.
            let is_filled = view.state == ZoneUse::Open || self.stop.is_read_only();
            let is_of_tables = is_filled && view.holds.contains(DATA);
            matches!(view.state, ZoneUse::Open | ZoneUse::Partial) && view.stream != Some(JOURNAL) && !is_of_tables
        };
        let views = self.space().view();
        let held_bytes: u64 =
            views.iter().filter(is_held).map(|view| view.capacity_bytes.saturating_sub(view.live_bytes)).sum();
        space.capacity_bytes.saturating_sub(u64::from(self.lanes.reserve_now()) * zone_bytes + held_bytes)
    }

    /// See [`FileUsage::free_bytes`]. Waits for no commit.
    pub(crate) fn free_bytes(&self) -> u64 {
        let of_zones = || self.free_bytes_of_zones(&self.space().usage());
        BlocksUsage::of(self).map_or_else(of_zones, |blocks| blocks.free_bytes)
    }

    fn free_bytes_of_zones(&self, space: &SpaceUsage) -> u64 {
        let zone_bytes = space.capacity_bytes / u64::from(space.zones - space.lost_zones).max(1);
        let kept_bytes = u64::from(self.zones_kept_from(COMPACTION)) * zone_bytes;
        let left_bytes = self.usable_bytes(space).saturating_sub(space.live_bytes).saturating_sub(kept_bytes);
        left_bytes.saturating_sub(self.unfilled_bytes())
    }

    /// What neither a writer nor cleaning can use of the usable bytes: what tables leave of their subzones, and dead bytes that stay.
    pub(crate) fn unfilled_bytes(&self) -> u64 {
        self.unusable_subzone_bytes() + self.stuck_bytes()
    }
}

impl FileUsage {
    pub(crate) fn of(core: &Core) -> Self {
        let space = core.space().usage();
        let usable_bytes = core.usable_bytes(&space);
        let blocks = BlocksUsage::of(core);
        let free_bytes = blocks.map_or_else(|| core.free_bytes_of_zones(&space), |blocks| blocks.free_bytes);
        // A statement of its own: within the last expression the names would stay locked to its end, and a commit locks them last.
        let files = core.names.lock().catalogue.files().count() as u64;
        let count = |counter: &zonda_rt::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            capacity_bytes: space.capacity_bytes + blocks.map_or(0, |blocks| blocks.capacity_bytes),
            usable_bytes: usable_bytes + blocks.map_or(0, |blocks| blocks.capacity_bytes),
            live_bytes: space.live_bytes + blocks.map_or(0, |blocks| blocks.live_bytes),
            free_bytes,
            blocks,
            files,
            journal_bytes: core.committer.journal_bytes(),
            written_bytes: count(&core.counters.written),
            writes: WriteCounts::of(core),
            copied_bytes: count(&core.counters.copied),
            copied_of_levels: std::array::from_fn(|level| count(&core.counters.copied_of_levels[level])),
            spoiled_zones: core.spoiled_zones(),
            resets_with_copy: count(&core.counters.resets_with_copy),
            resets_without_copy: count(&core.counters.resets_without_copy),
            finished_unwritten_bytes: core.lanes.finished_unwritten_bytes(),
            finishing_time: core.lanes.finishing_time(),
            zone_wait: Duration::from_nanos(core.counters.zone_wait.load(Ordering::Relaxed)),
            waiting_time: Duration::from_nanos(count(&core.counters.waiting_nanos)),
            copying_time: Duration::from_nanos(count(&core.counters.copying_nanos)),
            committing_time: Duration::from_nanos(count(&core.counters.committing_nanos)),
            held_bytes: core.held_bytes.load(Ordering::Relaxed),
            space,
        }
    }
}
