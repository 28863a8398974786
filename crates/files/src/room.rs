//! Room: what files of one kind leave to those of another, and on a conventional drive blocks for writers, and segments that are emptied
//! for them.

use zonda_device::cut_label;
use zonda_rt::now;

use crate::blocks::{Run, Want};
use crate::clean::{Cleaned, LiveExtent, is_of_the_victim};
use crate::ground::GENERATION_OF_BLOCKS;
use crate::lanes::Lease;
use crate::options::META_RESERVE_ZONES;
use crate::policy::Candidate;
use crate::store::Core;
use crate::{BLOCK_BYTES, FileError, FileKind, FileUsage, Lifetime, Result, ZoneId};

/// The share of the blocks that flushed tables may take and compactions may not: one of so many.
const KEPT_OF: u64 = 64;
/// The share that only meta files may take, and blocks at the most: what makes room begins with a record in a MANIFEST.
const KEPT_FOR_META: (u64, u64) = (256, 4096);
/// The share of the zones in front that logs leave to the journal, beyond the reserve: a snapshot beside the old journal, with an extent
/// for each sync of a MANIFEST, may take many.
const KEPT_OF_ZONES: u32 = 4;

/// Who may have what is kept from a writer of this kind.
fn kept_for(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Data => "flushes, logs and MANIFESTs",
        FileKind::Flushed | FileKind::Log => "MANIFESTs",
        FileKind::Meta => "cleaning and the journal",
    }
}

impl Core {
    /// Live bytes of a zone, or of a group of blocks.
    pub(crate) fn live_bytes(&self, zone: ZoneId) -> u64 {
        match self.ground.group(zone) {
            Some((blocks, group)) => blocks.live_in(group) * BLOCK_BYTES as u64,
            None => self.space().live_bytes(zone),
        }
    }

    /// Free zones above the reserve that a writer of this kind must leave.
    pub(crate) fn zones_kept_from(&self, kind: FileKind) -> u32 {
        match kind {
            FileKind::Data => self.options.flush_reserve_zones + META_RESERVE_ZONES,
            FileKind::Flushed | FileKind::Log => META_RESERVE_ZONES,
            FileKind::Meta => 0,
        }
    }

    /// A writer of this kind finds no zone.
    pub(crate) fn no_space(&self, kind: FileKind) -> FileError {
        let usage = self.space().usage();
        let zone_bytes = usage.capacity_bytes / u64::from(usage.zones - usage.lost_zones).max(1);
        FileError::NoSpace {
            live_bytes: usage.live_bytes,
            usable_bytes: self.usable_bytes(&usage),
            kept_bytes: u64::from(self.zones_kept_from(kind)) * zone_bytes,
            kept_for: kept_for(kind),
            free_zones: usage.free_zones,
        }
    }

    /// Blocks that a writer of this kind must leave: compactions are refused first.
    pub(crate) fn blocks_kept_from(&self, kind: FileKind) -> u64 {
        let count = self.ground.blocks().map_or(0, |blocks| blocks.count());
        let for_meta = (count / KEPT_FOR_META.0).min(KEPT_FOR_META.1);
        match kind {
            FileKind::Data => count / KEPT_OF + for_meta,
            FileKind::Flushed | FileKind::Log => for_meta,
            FileKind::Meta => 0,
        }
    }

    /// A zone in front for a write-ahead log; `None` if there is none that the journal does not need. Zones in which nothing is live
    /// are reset for it; nothing is copied: the log can go on in blocks. No lock of a file may be held.
    ///
    /// # Errors
    /// `Stopped`, `Space`.
    pub(crate) fn place_in_front(&self, candidate: &Candidate<'_>) -> Result<Option<Lease>> {
        self.stop.check()?;
        let kept = self.space().usage().zones / KEPT_OF_ZONES;
        self.reset_dead_if_short(kept)?;
        self.place_by_policy(&self.request(candidate, kept), candidate)
    }

    /// Blocks for new bytes of a file; what is dead is freed if there are none. No lock of a file may be held.
    ///
    /// # Errors
    /// `NoSpace`, `Stopped`, `Space`.
    pub(crate) fn allocate(&self, want: &Want, kind: FileKind) -> Result<Run> {
        self.allocate_keeping(want, (self.blocks_kept_from(kind), kind))
    }

    /// Blocks for what cleaning moves.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub(crate) fn allocate_for_copy(&self, blocks: u64, lifetime: Lifetime) -> Result<Run> {
        self.allocate_keeping(&Want { blocks, more: 0, after: None, lifetime, is_moved: true }, (0, FileKind::Meta))
    }

    fn allocate_keeping(&self, want: &Want, (kept, kind): (u64, FileKind)) -> Result<Run> {
        let no_space = || self.no_blocks(kept, kind);
        let blocks = self.ground.blocks().ok_or_else(no_space)?;
        loop {
            self.stop.check()?;
            if let Some(run) = blocks.allocate(want, kept) {
                return Ok(run);
            }
            // Each round frees what was dead before it; when nothing is, there is nothing to wait for.
            blocks.last_dead().ok_or_else(no_space)?;
            self.commit_to(self.names.last())?;
        }
    }

    /// Refuses what its file can do without while a compaction would be refused: what is left is for those that others depend on.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn check_room_for_notes(&self) -> Result<()> {
        match FileUsage::of(self).free_bytes {
            0 if self.ground.blocks().is_some() => {
                Err(self.no_blocks(self.blocks_kept_from(FileKind::Data), FileKind::Data))
            }
            0 => Err(self.no_space(FileKind::Data)),
            _ => Ok(()),
        }
    }

    fn no_blocks(&self, kept: u64, kind: FileKind) -> FileError {
        let (count, (free, dead)) = self.ground.blocks().map_or((0, (0, 0)), |blocks| (blocks.count(), blocks.free()));
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        FileError::NoSpace {
            live_bytes: bytes(count - free - dead),
            usable_bytes: bytes(count),
            kept_bytes: bytes(kept),
            kept_for: kept_for(kind),
            free_zones: self.space().usage().free_zones,
        }
    }

    /// Empties a segment if fewer than wanted are free, for placements that need free ones.
    ///
    /// # Errors
    /// `Stopped`, `Unread` and `Space` for what is no fault of the segment.
    pub(crate) fn clean_blocks_step(&self) -> Result<Option<Cleaned>> {
        let Some(blocks) = self.ground.blocks() else { return Ok(None) };
        let wanted = blocks.groups() * u64::from(self.options.clean_below_free_percent) / 100;
        let is_short = || blocks.free_groups().is_some_and(|free| free < wanted);
        if is_short() && blocks.last_dead().is_some() {
            self.commit_to(self.names.last())?;
        }
        if !is_short() {
            return Ok(None);
        }
        let _cleaning = self.cleaning.lock();
        let (mut passed_over, mut failed, began) = (Vec::new(), None, now());
        let as_zone = |group| (self.ground.zone_of_group(group), GENERATION_OF_BLOCKS);
        let is_whole = |group| {
            let zone = as_zone(group);
            !self.spoiled.lock().contains(&zone) && !self.put_off.is_put_off(zone, began)
        };
        while let Some(group) = blocks.victim(&|group| !passed_over.contains(&group) && is_whole(group)) {
            passed_over.push(group);
            match self.empty_group(group) {
                Ok(Some(cleaned)) => {
                    self.put_off.forget(as_zone(group).0);
                    return Ok(Some(cleaned));
                }
                Ok(None) => {}
                Err(error) if is_of_the_victim(&error) => drop(self.spoiled.lock().insert(as_zone(group))),
                Err(error @ FileError::Unread { .. }) => {
                    self.put_off.put_off(as_zone(group), now());
                    failed = Some(error);
                }
                Err(error) if error.is_no_space() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Moves everything out of a group; `None` if some of it cannot be moved now.
    fn empty_group(&self, group: u64) -> Result<Option<Cleaned>> {
        let (Some(blocks), zone) = (self.ground.blocks(), self.ground.zone_of_group(group)) else { return Ok(None) };
        let Some(live) = self.live_extents(zone).filter(|live| !self.is_any_written(live)) else { return Ok(None) };
        let _label = cut_label("relocation");
        blocks.set_emptied(Some(group));
        let moved = self.move_all(&live, true).and_then(|bytes| self.commit_to(self.names.last()).map(|()| bytes));
        blocks.set_emptied(None);
        let zones_freed = u32::from(blocks.live_in(group) == 0);
        moved.map(|bytes_copied| (zones_freed > 0).then_some(Cleaned { zones_freed, bytes_copied }))
    }

    /// Whether one of the files is being written: it may be given blocks of the same group, right behind those that would be moved.
    fn is_any_written(&self, live: &[LiveExtent]) -> bool {
        let names = self.names.lock();
        live.iter().any(|live| names.open_file(live.file).is_some_and(|file| file.has_writer()))
    }
}
