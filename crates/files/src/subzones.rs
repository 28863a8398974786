//! Tables in subzones: when their subzones are emptied, and what became of them in numbers.
//!
//! Life of a subzone of a table: 1 the policy wants one, and the allocator finds it -> 2 the table is written to it; what does not fit
//! goes into a wide zone -> 3 the file is closed: the subzone is finished, and the split zone if it is full -> 4 the file is gone, and
//! the record of that durable: the subzone is reset by the next commit (the paper's MERGE), at no copy -> 5 when all subzones of a zone
//! are empty it is an ordinary zone again. Cleaning never moves anything out of a subzone; deep tables it moves into empty ones.

use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_space::{ZoneId, ZoneUse, ZoneView};

use crate::catalogue::Inode;
use crate::clean::LiveExtent;
use crate::lanes::{Lease, Request, SplitSteps};
use crate::policy::{Candidate, Lacking, Refusals, SubzoneWish};
use crate::store::{Core, Counters};
use crate::{FileKind, FileTags, Result};

/// How often a table waits for a zone that can be split, where others take those that become empty.
const WAITS_MAX: u32 = 16;

/// What happened to subzones since the mount.
#[derive(Debug, Default)]
pub(crate) struct SubzoneCounters {
    tables: AtomicU64,
    refused: Mutex<Refusals>,
    pressed: AtomicU64,
    moved: AtomicU64,
    table_bytes: AtomicU64,
    subzone_bytes: AtomicU64,
    overflowing: AtomicU64,
    overflow_bytes: AtomicU64,
    merges: AtomicU64,
    joins: AtomicU64,
}

/// Split zones of a store now, and what happened to them since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitUsage {
    /// Split zones.
    pub split_zones: u64,
    /// Those that hold an active token.
    pub active_split_zones: u64,
    /// Subzones of them that are full, empty, and being written.
    pub full_subzones: u64,
    /// See there.
    pub empty_subzones: u64,
    /// See there.
    pub written_subzones: u64,
    /// Bytes of full subzones that nobody wants: their tables did not fill them, or are gone and not merged yet.
    pub wasted_bytes: u64,
    /// Tables that got a subzone.
    pub tables: u64,
    /// Tables that the policy wanted in a subzone and that went into a wide zone.
    pub refused: Refusals,
    /// Times that a table got an empty subzone because there was no wide zone left for it.
    pub pressed: u64,
    /// Tables that cleaning moved out of wide zones into empty subzones.
    pub moved: u64,
    /// Bytes of tables that were written, wherever.
    pub table_bytes: u64,
    /// Of these, bytes that were written in subzones.
    pub subzone_bytes: u64,
    /// Tables that were longer than their subzone.
    pub overflowing: u64,
    /// Bytes of these that are in other zones, padding included.
    pub overflow_bytes: u64,
    /// Zones that were split.
    pub splits: u64,
    /// Split zones that were finished because tokens were short; not those that were full.
    pub finishes: u64,
    /// Subzones that were reset alone.
    pub merges: u64,
    /// Split zones that became ordinary ones again.
    pub joins: u64,
}

/// Subzones that can be reset once the removals of their files are durable.
#[derive(Debug, Default)]
pub(crate) struct DeadSubzones {
    /// Full ones in which nothing is live, with their generations.
    full: Vec<(ZoneId, u64)>,
    /// Whether a split zone has only empty ones.
    has_empty_zones: bool,
}

impl DeadSubzones {
    /// Whether there is nothing to do.
    pub(crate) fn is_nothing(&self) -> bool {
        self.full.is_empty() && !self.has_empty_zones
    }
}

impl SubzoneCounters {
    /// Bytes of a table were written.
    pub(crate) fn note_table_bytes(&self, bytes: u64, in_subzone: bool) {
        Counters::add(&self.table_bytes, bytes);
        Counters::add(&self.subzone_bytes, if in_subzone { bytes } else { 0 });
    }

    /// A table begins to overflow.
    pub(crate) fn note_overflowing(&self) {
        Counters::add(&self.overflowing, 1);
    }

    /// Bytes of a table that overflows were written elsewhere.
    pub(crate) fn note_overflow(&self, bytes: u64) {
        Counters::add(&self.overflow_bytes, bytes);
    }
}

impl Core {
    /// A subzone for a table of which nothing is written, if the policy wants one and one can be had. Where no zone is empty that may be
    /// split, it cleans as for a wide zone if the policy insists: a table that is copied costs more than one that waits.
    ///
    /// # Errors
    /// `Space` other than for want of zones or tokens; those of [`commit_to`](Self::commit_to) and
    /// [`clean_for_a_writer`](Self::clean_for_a_writer).
    pub(crate) fn place_as_wished(&self, request: &Request<'_>, wish: &SubzoneWish<'_>) -> Result<Option<Lease>> {
        let Some(percent) = self.percent_for(request.tags, wish) else { return Ok(None) };
        let mut placed = self.place_in_subzone(request, percent)?;
        let waits_max = if self.options.policy.insists_on_subzones() { WAITS_MAX } else { 0 };
        for _ in 0..waits_max {
            if !matches!(placed, Err(Lacking::Zones)) || !self.clean_for_a_writer(request.free_zones_kept)? {
                break;
            }
            placed = self.place_in_subzone(request, percent)?;
        }
        match placed {
            Ok(lease) => {
                Counters::add(&self.subzones.tables, 1);
                Ok(Some(lease))
            }
            Err(lacking) => {
                self.subzones.refused.lock().count(lacking);
                Ok(None)
            }
        }
    }

    /// Percent of the zones that may be split for a table; `None` if it is to have no subzone.
    fn percent_for(&self, tags: &FileTags, wish: &SubzoneWish<'_>) -> Option<u32> {
        let policy = &self.options.policy;
        let wants = || policy.wants_subzone(wish, &self.follow.lock().shape);
        policy.split_percent_max().filter(|_| self.lanes.splits() && is_table(tags.kind) && wants())
    }

    /// An empty subzone, of a zone that is split already, for a table that cleaning moves as a whole: from there it is moved no more.
    ///
    /// # Errors
    /// `Space` other than for want of zones or tokens.
    pub(crate) fn place_moved_in_subzone(&self, table: &[LiveExtent]) -> Result<Option<Lease>> {
        let (Some(LiveExtent { file, tags, .. }), Some(room)) = (table.first(), self.space().subzone_bytes()) else {
            return Ok(None);
        };
        if !self.options.policy.insists_on_subzones() {
            return Ok(None);
        }
        let is_whole = |inode: &Inode| inode.extents.iter().count() == table.len();
        let fits = table.iter().map(|live| live.extent.device_bytes()).sum::<u64>() <= room;
        if !fits || !self.names.lock().catalogue.inode(*file).is_some_and(is_whole) {
            return Ok(None);
        }
        let keys = self.keys_of(*file);
        let level = tags.level;
        let (tree, range) = (keys.as_ref().map(|keys| keys.tree), keys.as_ref().map(|keys| &keys.range));
        if self.percent_for(tags, &SubzoneWish { level, tree, range }).is_none() {
            return Ok(None);
        }
        let candidate = Candidate { file: *file, tags, bytes: 0, table: None };
        let placed = self.lanes.place_subzone(&self.request(&candidate, 0), None)?.ok();
        Counters::add(&self.subzones.moved, placed.is_some().into());
        Ok(placed)
    }

    /// A subzone, if there is one when what is dead is freed.
    fn place_in_subzone(&self, request: &Request<'_>, percent: u32) -> Result<std::result::Result<Lease, Lacking>> {
        let placed = self.lanes.place_subzone(request, Some(percent))?;
        if matches!(placed, Err(Lacking::Zones | Lacking::Share)) && self.free_what_is_dead(request.free_zones_kept)? {
            return self.lanes.place_subzone(request, Some(percent));
        }
        Ok(placed)
    }

    /// Merges dead subzones, and resets dead zones if none is free: as for a table that would go into a wide zone. Returns whether any
    /// were dead.
    fn free_what_is_dead(&self, free_zones_kept: u32) -> Result<bool> {
        let has_dead = !self.dead_subzones().is_nothing() || self.dying_zones() > 0;
        self.merge_dead()?;
        self.reset_dead_if_short(free_zones_kept)?;
        Ok(has_dead)
    }

    /// Any empty subzone, for bytes of a table for which there is no wide zone: rather than to refuse them.
    ///
    /// # Errors
    /// `Space` other than for want of zones or tokens.
    pub(crate) fn press_into_subzone(&self, request: &Request<'_>) -> Result<Option<Lease>> {
        if !self.lanes.splits() || !is_table(request.tags.kind) {
            return Ok(None);
        }
        let Ok(lease) = self.lanes.place_subzone(request, None)? else { return Ok(None) };
        Counters::add(&self.subzones.pressed, 1);
        Ok(Some(lease))
    }

    /// What there is to do about subzones. The removals of files in dead ones are queued, if not durable.
    pub(crate) fn dead_subzones(&self) -> DeadSubzones {
        if self.space().subzones().is_none() {
            return DeadSubzones::default();
        }
        // One that the device did not finish is dead as well: nobody writes it.
        let is_written = |state| matches!(state, ZoneUse::Sealed | ZoneUse::Partial);
        let dead = |view: &&ZoneView| is_written(view.state) && view.live_bytes == 0;
        let full = self.space().subzone_view().iter().filter(dead).map(|view| (view.zone, view.generation)).collect();
        let is_empty = |view: &zonda_space::SplitZoneUse| view.full == 0 && view.written == 0;
        DeadSubzones { full, has_empty_zones: self.space().split_view().iter().any(is_empty) }
    }

    /// What nobody can use of full subzones: what tables leave of theirs, and dead ones whose last reset failed. Others that are dead are
    /// free with the next commit, and who finds no room commits first.
    pub(crate) fn unusable_subzone_bytes(&self) -> u64 {
        let unresettable = self.unresettable.lock();
        let is_freed = |view: &&ZoneView| {
            view.state == ZoneUse::Sealed && view.live_bytes == 0 && !unresettable.contains(&view.zone)
        };
        let freed = self.space().subzone_view().iter().filter(is_freed).map(|view| view.capacity_bytes).sum();
        let wasted = self.space().split_view().iter().map(|view| view.wasted_bytes).sum::<u64>();
        wasted.saturating_sub(freed)
    }

    /// Resets subzones that were dead before a commit that is durable now; somebody who is at it already does it for all. What fails is
    /// tried again with later commits: it is no error of whoever made something durable.
    ///
    /// # Errors
    /// `Stopped`, `ReadOnly`: a mount for reading resets nothing.
    pub(crate) fn merge(&self, dead: &DeadSubzones) -> Result<()> {
        self.stop.check()?;
        let Some(_merging) = self.merging.try_lock() else { return Ok(()) };
        let still_dead = self.dead_subzones();
        for &(zone, _) in still_dead.full.iter().filter(|zone| dead.full.contains(zone)) {
            let reset = self.space().reset(zone);
            Counters::add(&self.subzones.merges, matches!(reset, Ok(ZoneUse::Free | ZoneUse::Retired)).into());
            let mut unresettable = self.unresettable.lock();
            let _changed = if reset.is_ok() { unresettable.remove(&zone) } else { unresettable.insert(zone) };
        }
        Counters::add(&self.subzones.joins, self.lanes.join_empty());
        Ok(())
    }

    /// Commits what was removed, if that empties subzones; returns how many zones became free by it.
    ///
    /// # Errors
    /// As [`commit_to`](Self::commit_to).
    pub(crate) fn merge_dead(&self) -> Result<u32> {
        if self.dead_subzones().is_nothing() {
            return Ok(0);
        }
        let before = self.space().usage().free_zones;
        self.commit_to(self.names.last())?;
        Ok(self.space().usage().free_zones.saturating_sub(before))
    }

    /// Split zones in numbers; `None` if the device does not split zones.
    pub(crate) fn split_usage(&self) -> Option<SplitUsage> {
        self.space().subzones()?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (counters, SplitSteps { splits, finishes }) = (&self.subzones, &self.lanes.split_steps);
        let since = SplitUsage {
            tables: count(&counters.tables),
            refused: *counters.refused.lock(),
            pressed: count(&counters.pressed),
            moved: count(&counters.moved),
            table_bytes: count(&counters.table_bytes),
            subzone_bytes: count(&counters.subzone_bytes),
            overflowing: count(&counters.overflowing),
            overflow_bytes: count(&counters.overflow_bytes),
            splits: count(splits),
            finishes: count(finishes),
            merges: count(&counters.merges),
            joins: count(&counters.joins),
            ..SplitUsage::default()
        };
        Some(self.space().split_view().iter().fold(since, |sum, view| SplitUsage {
            split_zones: sum.split_zones + 1,
            active_split_zones: sum.active_split_zones + u64::from(view.is_active),
            full_subzones: sum.full_subzones + u64::from(view.full),
            empty_subzones: sum.empty_subzones + u64::from(view.empty),
            written_subzones: sum.written_subzones + u64::from(view.written),
            wasted_bytes: sum.wasted_bytes + view.wasted_bytes,
            ..sum
        }))
    }
}

fn is_table(kind: FileKind) -> bool {
    matches!(kind, FileKind::Flushed | FileKind::Data)
}
