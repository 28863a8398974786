//! Cleaning: frees zones by resetting those in which nothing is live, and by moving the live bytes of others together.
//!
//! Order (I3): 1 a victim is claimed -> 2 its live extents are copied -> 3 the moves are recorded and durable, in one
//! commit that flushes the copies first; so are all removals so far -> 4 readers of old places are gone, because a place
//! changes under the content lock that they hold -> 5 the zone is reset.

use std::collections::{BTreeMap, HashMap};

use zonda_device::cut_label;
use zonda_rt::{MutexGuard, now};
use zonda_space::{SpaceError, ZoneId, ZoneUse, ZoneView};

use crate::change::{Change, EXTENTS_MAX};
use crate::claim::{COMPACTION, LAST_ZONES};
use crate::commit::can_be_tried_again;
use crate::copy::Copying;
use crate::extent::Place;
use crate::lanes::Lease;
use crate::options::{DATA, JOURNAL};
use crate::pace::NAP;
use crate::policy::VictimView;
use crate::store::{Core, Counters};
use crate::{Extent, FileError, FileId, FileStore, FileTags, Result};

/// A zone with more than this share of its bytes live is not worth moving, in percent.
const LIVE_PERCENT_MAX: u64 = 97;

/// What a step of cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Zones that are empty now.
    pub zones_freed: u32,
    /// Bytes that were copied for it.
    pub bytes_copied: u64,
}

/// What a round of cleaning did so far.
#[derive(Debug, Default)]
struct Round {
    all: Cleaned,
    /// Victims that were tried.
    passed_over: Vec<ZoneId>,
    /// Why a victim was not emptied or reset.
    failed: Option<FileError>,
}

impl Round {
    /// What it did; why it did nothing, if that was an error.
    fn done(self) -> Result<Cleaned> {
        match self.failed {
            Some(error) if self.all.zones_freed == 0 => Err(error),
            _ => Ok(self.all),
        }
    }
}

/// A live extent of a victim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveExtent {
    pub(crate) file: FileId,
    /// With the level that the version of its tree has: a table that was moved without being written again has that of its creation.
    pub(crate) tags: FileTags,
    pub(crate) extent: Extent,
}

impl FileStore {
    /// One step of cleaning, if less of the device is free than the options want, or than a compaction needs to find a zone: frees
    /// what is dead, or empties one zone, no faster than [`set_clean_rate`](Self::set_clean_rate) says. Writers that need space
    /// clean by themselves. `None`: nothing to do.
    ///
    /// A victim that is lost to the device, or has not its checksums, is left as it is and passed over until that file is gone
    /// ([`FileUsage::spoiled_zones`](crate::FileUsage)). One that the device does not read for now is tried again later, after one
    /// second, then two, up to 64; a writer that finds no other one does not wait for that.
    ///
    /// # Errors
    /// `Stopped`, `Unread` and `Space` for what is no fault of a victim.
    pub fn clean_step(&self) -> Result<Option<Cleaned>> {
        if self.core.ground.blocks().is_some() {
            return self.core.clean_blocks_step();
        }
        self.core.merge_dead()?;
        let core = &self.core;
        let has_dead = || core.dying_zones() > 0;
        if !core.is_short_of_zones(0) || !has_dead() && !core.is_short_with_doomed(0) {
            return Ok(None);
        }
        let _cleaning = core.cleaning.lock();
        let cleaned = core.clean(true)?.done()?;
        Ok((cleaned.zones_freed > 0).then_some(cleaned))
    }

    /// What a thread of [`Cleaner`](crate::Cleaner) does at a time: empties one zone, if less is free than the options want with what
    /// is dead. To reset that is left to [`reset_in_background`](Self::reset_in_background), which takes as long as to copy. Returns
    /// how many zones, or segments of a conventional drive, are free for it already; `None`: there was nothing to do.
    ///
    /// # Errors
    /// As [`clean_step`](Self::clean_step).
    pub(crate) fn clean_in_background(&self) -> Result<Option<u32>> {
        let core = &self.core;
        if core.ground.blocks().is_some() {
            return Ok(core.clean_blocks_step()?.map(|cleaned| cleaned.zones_freed));
        }
        core.merge_dead()?;
        if !core.is_short_with_doomed(core.dying_zones()) {
            return Ok(None);
        }
        let _cleaning = core.cleaning.lock();
        core.stop.check()?;
        let mut round = Round::default();
        // Finishing fills up what could still be written.
        let has_dead = core.empty_one(true, &mut round)?.is_some() || core.finish_all_dead();
        match round.failed {
            Some(error) if !has_dead => return Err(error),
            _ if has_dead => core.call.call(),
            _ => {}
        }
        Ok(has_dead.then_some(0))
    }
}

impl FileStore {
    /// Limits how much cleaning in the background copies, in bytes per second, from now on; 0 for no limit. Writers that wait
    /// for space are not held up by it.
    pub fn set_clean_rate(&self, bytes_per_second: u64) {
        self.core.pace.set(bytes_per_second);
    }

    /// That limit; 0 for none.
    #[must_use]
    pub fn clean_rate(&self) -> u64 {
        self.core.pace.get()
    }
}

/// What of a victim was moved so far.
#[derive(Default)]
struct Moved {
    bytes: u64,
    /// The last that could not be read.
    bad: Option<FileError>,
}

impl Core {
    /// Cleans for a writer that found no zone; returns whether it makes sense to look again: also for what others are about to reset. A
    /// zone that can be neither read nor reset is no error of the writer's: it gave no space.
    ///
    /// # Errors
    /// `Stopped`, `Space` of the journal.
    pub(crate) fn clean_for_a_writer(&self, free_zones_kept: u32) -> Result<bool> {
        let has_zone = || self.lanes.free_now() > self.lanes.reserve_now() + free_zones_kept;
        self.waited(|| match self.cleaning_unless(&has_zone) {
            None => Ok(true),
            // In this order: what dies no more is free by then.
            Some(_cleaning) => Ok(self.clean(false)?.all.zones_freed > 0 || self.dying_zones() > 0 || has_zone()),
        })
    }

    /// The right to clean, once nobody else has it; `None` if `is_done` before that.
    fn cleaning_unless(&self, is_done: &dyn Fn() -> bool) -> Option<MutexGuard<'_, ()>> {
        let _hurry = self.pace.hurry();
        while !is_done() {
            if let Some(cleaning) = self.cleaning.try_lock() {
                return Some(cleaning);
            }
            self.space().wait_for_change(NAP);
        }
        None
    }

    /// Does what a writer waits for, and counts the time.
    pub(crate) fn waited<T>(&self, wait: impl FnOnce() -> T) -> T {
        let began = now();
        let done = wait();
        Counters::add_since(&self.counters.waiting_nanos, began);
        done
    }

    /// Whether less would be free with so many zones more than the options want, or than a compaction needs to find one. Of zones that are
    /// not split: nothing is moved out of subzones, so to keep a part of theirs free would have all of it copied out of the others.
    pub(crate) fn is_short_of_zones(&self, more: usize) -> bool {
        let zones = u64::from(self.space().device().geometry().zone_count) - self.space().split_view().len() as u64;
        let share = zones * u64::from(self.options.clean_below_free_percent) / 100;
        u64::from(self.lanes.free_now()) + (more as u64) < share.max(self.least_wanted())
    }

    /// Free zones with which a compaction finds one.
    fn least_wanted(&self) -> u64 {
        u64::from(self.options.reserve_zones.max(self.lanes.reserve_now()) + self.zones_kept_from(COMPACTION)) + 1
    }

    /// The same for the background, whose policy may [wait](crate::policy::Policy::waits_for_doomed) for what is doomed: as long as a
    /// compaction finds a zone.
    fn is_short_with_doomed(&self, more: usize) -> bool {
        let has_least = || u64::from(self.lanes.free_now()) + (more as u64) >= self.least_wanted();
        let is_short = self.is_short_of_zones(more);
        if !is_short || !self.options.policy.waits_for_doomed() || !has_least() {
            return is_short;
        }
        self.is_short_of_zones(more + self.doomed_zones())
    }

    /// How many zones what is [doomed](crate::lsm::LsmShape::doomed) would fill, of what is in full ones: only these are cleaned. None of
    /// it is in subzones, which give no room to others. Cost: one pass over the extents of what is doomed, with the names locked.
    fn doomed_zones(&self) -> usize {
        let views = self.space().view();
        let full: HashMap<ZoneId, u64> = views
            .iter()
            .filter(|view| view.state == ZoneUse::Sealed && view.stream.is_some_and(|stream| stream != JOURNAL))
            .map(|view| (view.zone, view.capacity_bytes))
            .collect();
        let names = self.names.lock();
        let doomed: Vec<FileId> = self.follow.lock().shape.doomed().collect();
        let extents =
            doomed.into_iter().filter_map(|file| names.catalogue.inode(file)).flat_map(|inode| inode.extents.iter());
        let is_in_full = |extent: &&Extent| full.contains_key(&extent.zone) && self.ground.is_there(extent);
        let in_full = extents.filter(is_in_full).map(Extent::device_bytes);
        let capacity_bytes = full.values().max().copied().unwrap_or(1).max(1);
        usize::try_from(in_full.sum::<u64>() / capacity_bytes).unwrap_or(usize::MAX)
    }

    /// Zones that were found damaged, as long as a file has there what is.
    pub(crate) fn spoiled_zones(&self) -> u64 {
        self.forget_healed();
        self.spoiled.lock().len() as u64
    }

    /// Cleaning tries zones again whose damaged file is gone.
    pub(crate) fn forget_healed(&self) {
        let names = self.names.lock();
        self.spoiled.lock().retain(|&(zone, generation), &mut (file, block)| {
            names.catalogue.has_extent(file, Place { zone, generation, block })
        });
    }

    /// Frees what is dead, else empties the best victim. A zone that cannot be emptied or reset is passed over.
    fn clean(&self, is_paced: bool) -> Result<Round> {
        self.stop.check()?;
        self.finish_all_dead();
        let merged = self.merge_dead()?;
        let (reset, failed) = self.reset_dead(self.resets())?;
        let mut round = Round { failed: failed.map(FileError::from), ..Round::default() };
        round.all.zones_freed = merged + reset;
        while round.all.zones_freed == 0
            && let Some(emptied) = self.empty_one(is_paced, &mut round)?
        {
            let (reset, failed) = self.reset_dead(self.resets())?;
            round.all.zones_freed += reset.max(u32::from(self.is_gained(emptied)));
            round.failed = failed.map(FileError::from).or(round.failed);
        }
        Ok(round)
    }

    /// Whether an emptied zone can be written again: a thread that resets may have had it. What is lost was emptied for what it held.
    fn is_gained(&self, emptied: ZoneId) -> bool {
        let is_lost = |view: &ZoneView| matches!(view.state, ZoneUse::ReadOnly | ZoneUse::Offline);
        let is_dead = self.dead_zones().contains(&emptied);
        !is_dead && !self.space().view().iter().any(|view| view.zone == emptied && is_lost(view))
    }

    /// Finishes open zones in which nothing is live and that nobody writes; returns whether there was one.
    fn finish_all_dead(&self) -> bool {
        let mut has_finished = false;
        while self.lanes.finish_dead() {
            has_finished = true;
        }
        has_finished
    }

    /// Empties the best victim that can be emptied; it is dead then. `None`: there is none.
    fn empty_one(&self, is_paced: bool, round: &mut Round) -> Result<Option<ZoneId>> {
        while let Some(victim) = self.claim_victim(&round.passed_over, is_paced) {
            round.passed_over.push(victim.zone);
            match self.empty(victim.zone, is_paced) {
                Ok((bytes_copied, is_empty)) => {
                    self.put_off.forget(victim.zone);
                    round.all.bytes_copied += bytes_copied;
                    if is_empty {
                        return Ok(Some(victim.zone));
                    }
                }
                Err(FileError::Damaged { file, block, .. }) => {
                    self.spoiled.lock().insert((victim.zone, victim.generation), (FileId(file), block));
                }
                Err(FileError::Space(error)) if can_be_tried_again(&error) => return Ok(None),
                Err(error @ (FileError::Unread { .. } | FileError::Space(SpaceError::Device(_)))) => {
                    self.put_off.put_off((victim.zone, victim.generation), now());
                    round.failed = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Claims the zone to be emptied: nobody else resets it when it dies. One that could not be read lately is for a writer that
    /// finds no other.
    fn claim_victim(&self, passed_over: &[ZoneId], is_paced: bool) -> Option<ZoneView> {
        let _claiming = self.claiming.lock();
        self.forget_healed();
        let began = now();
        let is_put_off = |view: &ZoneView| self.put_off.is_put_off((view.zone, view.generation), began);
        let readable = self.victim(passed_over, &|view| !is_put_off(view));
        let victim = readable.or_else(|| self.victim(passed_over, &|_| true).filter(|_| !is_paced))?;
        self.space().begin_relocation(victim.zone).then_some(victim)
    }

    /// The zone to be emptied, as the options choose it, of those that may be and have enough dead bytes. Read-only ones are first, if
    /// there are zones for what they hold beside the one of cleaning: emptying them gains none, and without that one nothing else could be.
    fn victim(&self, passed_over: &[ZoneId], may_be: &dyn Fn(&ZoneView) -> bool) -> Option<ZoneView> {
        let has_spare = self.lanes.free_now() > self.lanes.reserve_now() + LAST_ZONES;
        let spoiled = self.spoiled.lock();
        let is_worth_it = |view: &ZoneView| {
            let is_ours = view.stream.is_some_and(|stream| stream != JOURNAL);
            let is_wanted = match view.state {
                ZoneUse::Sealed => has_enough_dead(view),
                ZoneUse::ReadOnly => has_spare,
                _ => false,
            };
            let is_whole = !spoiled.contains_key(&(view.zone, view.generation));
            let is_candidate = is_ours && is_wanted && is_whole && view.live_bytes > 0;
            is_candidate && !passed_over.contains(&view.zone) && may_be(view)
        };
        if !self.options.policy.chooses_victims() {
            return self.space().victim(self.options.victims, &is_worth_it);
        }
        let worth: Vec<ZoneView> =
            self.space().view().into_iter().filter(is_worth_it).filter(|view| !view.relocating).collect();
        drop(spoiled);
        if let Some(worn) = worth.iter().find(|view| view.state == ZoneUse::ReadOnly) {
            return Some(*worn);
        }
        let zones = self.with_files(&worth);
        let zone = self.options.policy.victim(&zones, &self.follow.lock().shape)?;
        worth.into_iter().find(|view| view.zone == zone)
    }

    /// Dead bytes that cleaning leaves where they are: in zones with too few of them, in spoiled ones, in those whose last reading
    /// or reset failed, and in those whose header is damaged and that the mount could not reset.
    pub(crate) fn stuck_bytes(&self) -> u64 {
        let (spoiled, unresettable) = (self.spoiled.lock(), self.unresettable.lock());
        let is_passed_over = |view: &ZoneView| {
            let zone = (view.zone, view.generation);
            !has_enough_dead(view) || spoiled.contains_key(&zone) || self.put_off.has_failed(zone)
        };
        let is_stuck = |view: &&ZoneView| {
            let is_ours = view.stream.is_some_and(|stream| stream != JOURNAL);
            let is_done = matches!(view.state, ZoneUse::Sealed | ZoneUse::Partial);
            let is_left = view.state == ZoneUse::Sealed && view.live_bytes > 0 && is_passed_over(view);
            let is_dead = is_done && view.live_bytes == 0;
            let is_damaged = view.state == ZoneUse::Damaged;
            is_damaged || is_ours && (is_left || is_dead && unresettable.contains(&view.zone))
        };
        let views = self.space().view();
        views.iter().filter(is_stuck).map(|view| view.capacity_bytes.saturating_sub(view.live_bytes)).sum()
    }

    /// Zones as policies see them that choose victims. Cost: one pass over the extents of all files, with the names locked.
    fn with_files(&self, zones: &[ZoneView]) -> Vec<VictimView> {
        let mut live: HashMap<ZoneId, BTreeMap<FileId, u64>> =
            zones.iter().map(|view| (view.zone, BTreeMap::new())).collect();
        for (file, inode) in self.names.lock().catalogue.files() {
            for extent in inode.extents.iter() {
                if let Some(zone) = live.get_mut(&extent.zone).filter(|_| self.ground.is_there(extent)) {
                    *zone.entry(file).or_default() += extent.device_bytes();
                }
            }
        }
        let of_zone = |view: &ZoneView| VictimView {
            zone: *view,
            gain_bytes: view.capacity_bytes.saturating_sub(view.live_bytes),
            live: live.remove(&view.zone).unwrap_or_default().into_iter().collect(),
        };
        zones.iter().map(of_zone).collect()
    }

    /// What is live in a zone or group, file by file; `None` if some of it cannot be moved now: it is in no record, or belongs to a file
    /// that has readers but no name.
    pub(crate) fn live_extents(&self, zone: ZoneId) -> Option<Vec<LiveExtent>> {
        let names = self.names.lock();
        let following = self.follow.lock();
        let mut live = Vec::new();
        for (file, inode) in names.catalogue.files() {
            let here = inode.extents.iter().filter(|extent| extent.zone == zone && self.ground.is_there(extent));
            let tags = || following.shape.tags_now(file, inode.tags);
            live.extend(here.map(|extent| LiveExtent { file, tags: tags(), extent: *extent }));
        }
        let known = live.iter().map(|live| live.extent.device_bytes()).sum::<u64>();
        live.sort_by_key(|live| (live.file, live.extent.block));
        (known == self.live_bytes(zone)).then_some(live)
    }

    /// Moves everything out of a claimed zone, and gives up the claim. Returns how many bytes were moved, and whether nothing in the
    /// zone is live.
    fn empty(&self, zone: ZoneId, is_paced: bool) -> Result<(u64, bool)> {
        assert!(!self.space().is_subzone(zone), "nothing is moved out of subzones: {zone}");
        let _label = cut_label("relocation");
        let began = now();
        let live = self.record_what_is_in(zone).map(|()| self.live_extents(zone));
        let moved = live.and_then(|live| live.map_or(Ok(0), |live| self.move_all(&live, is_paced)));
        Counters::add_since(&self.counters.copying_nanos, began);
        let is_empty = moved.is_ok() && self.space().live_bytes(zone) == 0;
        if is_empty {
            self.emptied.lock().insert(zone);
        }
        self.space().end_relocation(zone);
        moved.map(|bytes| (bytes, is_empty))
    }

    /// Moves everything that can be moved; a bad extent stays, and is told of at the end. With the second that cannot be read it ends: a
    /// device that is away may take long to say so. Each file's bytes go where the policy has them.
    pub(crate) fn move_all(&self, live: &[LiveExtent], is_paced: bool) -> Result<u64> {
        let mut moved = Moved::default();
        for of_file in live.chunk_by(|one, next| one.file == next.file) {
            let mut lease = self.place_moved_in_subzone(of_file)?;
            let ended = of_file.iter().try_for_each(|one| self.move_one(one, is_paced, &mut lease, &mut moved));
            if let Some(subzone) = lease.filter(|lease| self.space().is_subzone(lease.zone().zone())) {
                self.release(subzone, DATA);
            }
            ended?;
        }
        let Moved { bytes, bad } = moved;
        bad.map_or(Ok(bytes), Err)
    }

    fn move_one(&self, one: &LiveExtent, is_paced: bool, lease: &mut Option<Lease>, moved: &mut Moved) -> Result<()> {
        let mut copy = Copying::new(self, one, is_paced);
        match copy.run(lease) {
            Ok(true) => {
                moved.bytes += one.extent.device_bytes();
                self.counters.add_copied(one.tags.level, one.extent.device_bytes());
                self.publish(one, copy.copies())?;
            }
            Ok(false) => self.bury(copy.copies()),
            Err(error) => {
                self.bury(copy.copies());
                match (&error, &moved.bad) {
                    (FileError::Unread { .. }, Some(FileError::Unread { .. })) => return Err(error),
                    // It says that there may be more to move later.
                    (FileError::Damaged { .. }, Some(FileError::Unread { .. })) => {}
                    (FileError::Unread { .. } | FileError::Damaged { .. }, _) => moved.bad = Some(error),
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Bytes that nobody will refer to.
    fn bury(&self, extents: &[Extent]) {
        self.ground.bury(extents);
    }

    /// Lets the file have its bytes in the new place, unless it changed meanwhile.
    fn publish(&self, live: &LiveExtent, copies: &[Extent]) -> Result<()> {
        if copies.len() > EXTENTS_MAX {
            self.bury(copies);
            return Ok(());
        }
        let from = live.extent.place();
        let change = Change::Move { file: live.file, from, to: copies.to_vec() };
        loop {
            let open = self.names.lock().open_file(live.file);
            // Waits for its readers.
            let mut content = open.as_ref().map(|file| file.content_mut());
            let mut names = self.names.lock();
            let opened_meanwhile = open.is_none() && names.open_file(live.file).is_some();
            if opened_meanwhile {
                continue;
            }
            // On a conventional drive an open file may go on right behind it, or have something else there by now.
            let is_copied = |extent: &Extent| *extent == live.extent;
            let inode = names.catalogue.inode(live.file);
            let is_unchanged = inode.is_some_and(|inode| inode.extents.at(from).is_some_and(is_copied))
                && content.as_ref().is_none_or(|content| content.extents.at(from).is_some_and(is_copied));
            if !is_unchanged || names.change(&change, &self.ground).is_err() {
                self.bury(copies);
                return Ok(());
            }
            if let Some(inode) = names.catalogue.inode(live.file) {
                self.follow.moved(live.file, inode);
            }
            if let Some(content) = &mut content {
                let replaced = content.extents.replace(from, copies);
                assert!(replaced.is_some(), "it was seen there with the same bytes");
            }
            self.bury(&[live.extent]);
            return Ok(());
        }
    }
}

/// Whether a zone has so many dead bytes that it is worth moving the others.
fn has_enough_dead(view: &ZoneView) -> bool {
    view.live_bytes * 100 <= view.capacity_bytes * LIVE_PERCENT_MAX
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zonda_device::{Geometry, MemDevice};

    use super::*;
    use crate::{FileKind, FilePath, FileStoreOptions, StoreId};

    #[test]
    fn a_writer_tries_what_the_background_has_put_off() {
        let device = Arc::new(MemDevice::new(Geometry::new(64 << 10, 24).with_limits(6, 6)).unwrap());
        let options = FileStoreOptions { write_buffer_bytes: 16 << 10, ..FileStoreOptions::default() };
        let store = FileStore::format(device, StoreId(1), false, options).unwrap();
        for number in 0..10 {
            let path = FilePath::parse(&format!("/{number}")).unwrap();
            let mut writer = store.create(&path, FileTags::of(FileKind::Data)).unwrap();
            writer.append(&[7; 30_000]).unwrap();
            writer.close().unwrap();
            if number % 2 == 0 {
                store.remove(&path).unwrap();
            }
        }
        let core = &store.core;
        // However long this takes.
        let later = now() + std::time::Duration::from_secs(3_600);
        core.space().view().iter().for_each(|view| core.put_off.put_off((view.zone, view.generation), later));
        assert_eq!(core.claim_victim(&[], true), None);
        let victim = core.claim_victim(&[], false).unwrap();
        core.space().end_relocation(victim.zone);
        core.put_off.forget(victim.zone);
        assert_eq!(core.claim_victim(&[], true).map(|view| view.zone), Some(victim.zone));
    }
}
