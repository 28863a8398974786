//! Room on a conventional drive: blocks for writers, and segments that are emptied for them.

use zonda_device::cut_label;
use zonda_rt::now;

use crate::blocks::{Blocks, NoRun, Run, Want};
use crate::claim::{Claim, Claimant};
use crate::clean::{Cleaned, LiveExtent};
use crate::ground::GENERATION_OF_BLOCKS;
use crate::lanes::Lease;
use crate::policy::Candidate;
use crate::store::Core;
use crate::{BLOCK_BYTES, FileError, FileId, FileKind, Lifetime, Result, ZoneId};

/// The share of the zones in front that logs leave to the journal, beyond the reserve: a snapshot beside the old journal, with an extent
/// for each sync of a MANIFEST, may take many.
const KEPT_OF_ZONES: u32 = 4;

impl Core {
    /// Live bytes of a zone, or of a group of blocks.
    pub(crate) fn live_bytes(&self, zone: ZoneId) -> u64 {
        match self.ground.group(zone) {
            Some((blocks, group)) => blocks.live_in(group) * BLOCK_BYTES as u64,
            None => self.space().live_bytes(zone),
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
    pub(crate) fn allocate(&self, want: &Want, by: Claimant) -> Result<Run> {
        let blocks = self.ground.blocks().ok_or_else(|| self.no_blocks(by))?;
        let kept = self.blocks_kept_from(by);
        loop {
            self.stop.check()?;
            match blocks.allocate(want, kept) {
                Ok(run) => return Ok(run),
                // There is nothing to wait for.
                Err(NoRun::Full) => return Err(self.no_blocks(by)),
                // Each round frees what was dead before it, or waits for another thread that does.
                Err(NoRun::Dead { freed }) => {
                    self.commit_to(self.names.last())?;
                    blocks.wait_for_freed(freed);
                }
            }
        }
    }

    /// Blocks for what cleaning moves.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub(crate) fn allocate_for_copy(&self, blocks: u64, lifetime: Lifetime) -> Result<Run> {
        let want = Want { blocks, more: 0, after: None, lifetime, is_moved: true };
        self.allocate(&want, (FileKind::Data, Claim::Last))
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
        self.forget_healed();
        let (mut passed_over, mut failed, began) = (Vec::new(), None, now());
        let as_zone = |group| (self.ground.zone_of_group(group), GENERATION_OF_BLOCKS);
        let is_whole = |group| {
            let zone = as_zone(group);
            !self.spoiled.lock().contains_key(&zone) && !self.put_off.is_put_off(zone, began)
        };
        while let Some(group) = blocks.begin_emptying(&|group| !passed_over.contains(&group) && is_whole(group)) {
            passed_over.push(group);
            let emptied = self.empty_group(blocks, group);
            blocks.end_emptying();
            match emptied {
                Ok(Some(cleaned)) => {
                    self.put_off.forget(as_zone(group).0);
                    return Ok(Some(cleaned));
                }
                Ok(None) => {}
                Err(FileError::Damaged { file, block, .. }) => {
                    self.spoiled.lock().insert(as_zone(group), (FileId(file), block));
                }
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

    /// Moves everything out of a group in which no file grows any more; `None` if some of it cannot be moved now.
    fn empty_group(&self, blocks: &Blocks, group: u64) -> Result<Option<Cleaned>> {
        let zone = self.ground.zone_of_group(group);
        let Some(live) = self.live_extents(zone).filter(|live| !self.is_any_written(live)) else { return Ok(None) };
        let _label = cut_label("relocation");
        let moved = self.move_all(&live, true).and_then(|bytes| self.commit_to(self.names.last()).map(|()| bytes));
        let zones_freed = u32::from(blocks.live_in(group) == 0);
        moved.map(|bytes_copied| (zones_freed > 0).then_some(Cleaned { zones_freed, bytes_copied }))
    }

    /// Whether one of the files is being written: it may have been given blocks of the same group, right behind those that would be moved.
    fn is_any_written(&self, live: &[LiveExtent]) -> bool {
        let names = self.names.lock();
        live.iter().any(|live| names.open_file(live.file).is_some_and(|file| file.has_writer()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zonda_device::MemBlockDevice;

    use super::*;
    use crate::{FilePath, FileStore, FileStoreOptions, FileTags, FileWriter, Placement, StoreId};

    /// Files in a segment.
    const FILES: u64 = 4;

    /// A store whose segments are full but for the last, which are left to cleaning, and the first: of that a quarter is left.
    fn with_slack() -> FileStore {
        let device = Arc::new(MemBlockDevice::new(4096, 40 << 8).unwrap());
        let options = FileStoreOptions::default();
        let store = FileStore::format_on_blocks(device, Placement::F2fsLike, StoreId(1), false, options).unwrap();
        let blocks = store.core.ground.blocks().unwrap();
        for file in 0..(blocks.groups() - 2) * FILES {
            let mut writer = store.create(&name(file), FileTags::of(FileKind::Data)).unwrap();
            writer.append(&vec![7; 512 << 10]).unwrap();
            writer.close().unwrap();
        }
        (1..FILES).for_each(|file| store.remove(&name(file)).unwrap());
        store.sync_names().unwrap();
        assert_eq!((blocks.free_groups(), blocks.live_in(0)), (Some(2), 128));
        store
    }

    fn name(file: u64) -> FilePath {
        FilePath::parse(&format!("/{file}")).unwrap()
    }

    /// A writer of the file that is left, which has gone on with what is in no record.
    fn goes_on(store: &FileStore) -> FileWriter {
        let mut writer = store.append_to(&name(0)).unwrap();
        writer.append(&[7; 8192]).unwrap();
        writer.flush().unwrap();
        writer
    }

    #[test]
    fn what_a_file_goes_on_right_behind_is_not_moved() {
        let store = with_slack();
        let zone = store.core.ground.zone_of_group(0);
        let live = store.core.live_extents(zone).unwrap();
        let writer = goes_on(&store);
        store.core.move_all(&live, true).unwrap();
        assert_eq!(store.extents(&name(0)).unwrap(), [live[0].extent]);
        writer.close().unwrap();
        let extents = store.extents(&name(0)).unwrap();
        assert!(extents.len() == 1 && extents[0].blocks() == live[0].extent.blocks() + 2, "{extents:?}");
        assert_eq!(store.check().unwrap().findings, []);
    }

    #[test]
    fn no_file_goes_on_in_a_segment_that_is_being_emptied() {
        let store = with_slack();
        let blocks = store.core.ground.blocks().unwrap();
        assert_eq!(blocks.begin_emptying(&|_| true), Some(0));
        let zone = store.core.ground.zone_of_group(0);
        let live = store.core.live_extents(zone).unwrap();
        let writer = goes_on(&store);
        store.core.move_all(&live, true).unwrap();
        blocks.end_emptying();
        writer.close().unwrap();
        assert!(store.extents(&name(0)).unwrap().iter().all(|extent| extent.zone != zone));
        assert_eq!(store.check().unwrap().findings, []);
    }
}
