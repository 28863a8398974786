//! Cleaning: frees zones by resetting those in which nothing is live, and by moving the live bytes of others together.
//!
//! Order (I3): 1 a victim is claimed -> 2 its live extents are copied -> 3 the moves are recorded and durable, in one
//! commit that flushes the copies first; so are all removals so far -> 4 readers of old places are gone, because a place
//! changes under the content lock that they hold -> 5 the zone is reset.

use std::collections::{BTreeMap, HashMap};

use zonda_device::cut_label;
use zonda_space::{AlignedBuf, BLOCK_BYTES, SpaceError, Urgency, ZoneId, ZoneUse, ZoneView};

use crate::blocks::Blocks;
use crate::change::{Change, EXTENTS_MAX};
use crate::ground::GENERATION_OF_BLOCKS;
use crate::lanes::{Lease, Request};
use crate::options::{JOURNAL, RELOCATED};
use crate::policy::{Candidate, VictimView};
use crate::store::{Core, Counters};
use crate::{Extent, FileError, FileId, FileStore, FileTags, Result};

/// Blocks that one read or write of a copy moves at most.
const COPY_BLOCKS_MAX: u64 = 256;
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

/// A live extent of a victim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveExtent {
    file: FileId,
    tags: FileTags,
    extent: Extent,
}

impl FileStore {
    /// One step of cleaning, if less of the device is free than the options want: frees what is dead, or empties one zone, no
    /// faster than [`set_clean_rate`](Self::set_clean_rate) says. What [`Cleaner`](crate::Cleaner) calls; writers that need space
    /// clean by themselves. `None`: nothing to do.
    ///
    /// A victim that cannot be read, or has not its checksums, is left as it is and passed over from then on
    /// ([`FileUsage::spoiled_zones`](crate::FileUsage)).
    ///
    /// # Errors
    /// `Stopped`, `Space` for what is no fault of a victim.
    pub fn clean_step(&self) -> Result<Option<Cleaned>> {
        if self.core.ground.blocks().is_some() {
            return self.core.clean_blocks_step();
        }
        self.core.merge_dead()?;
        let usage = self.core.space().usage();
        let wanted = u64::from(usage.zones) * u64::from(self.core.options.clean_below_free_percent) / 100;
        if u64::from(usage.free_zones) + self.core.empty_subzones_as_zones()
            >= wanted.max(u64::from(usage.reserve_zones) + 1)
        {
            return Ok(None);
        }
        let _cleaning = self.core.cleaning.lock();
        let cleaned = self.core.clean(true)?;
        Ok((cleaned.zones_freed > 0).then_some(cleaned))
    }
}

impl FileStore {
    /// Limits how much cleaning in the background copies, in bytes per second, from now on; 0 for no limit. Writers that wait
    /// for space are not held up by it.
    pub fn set_clean_rate(&self, bytes_per_second: u64) {
        self.core.pace.set(bytes_per_second);
    }
}

impl Core {
    /// Cleans for a writer that found no zone; returns whether it makes sense to look again.
    ///
    /// # Errors
    /// `Stopped`, `Space`.
    pub(crate) fn clean_for_a_writer(&self, free_zones_kept: u32) -> Result<bool> {
        let _hurry = self.pace.hurry();
        let _cleaning = self.cleaning.lock();
        if self.lanes.free_now() > self.lanes.reserve_now() + free_zones_kept {
            return Ok(true);
        }
        Ok(self.clean(false)?.zones_freed > 0)
    }

    /// Resets zones in which nothing is live, if no zone is free for a writer that leaves so many: before a policy is asked,
    /// which may have to make do with less without an empty zone.
    ///
    /// # Errors
    /// `Stopped`, `Space`.
    pub(crate) fn reset_dead_if_short(&self, free_zones_kept: u32) -> Result<()> {
        let is_short = || self.lanes.free_now() <= self.lanes.reserve_now() + free_zones_kept;
        if is_short() {
            self.merge_dead()?;
        }
        if !is_short() || self.dead_zones().is_empty() {
            return Ok(());
        }
        let _hurry = self.pace.hurry();
        let _cleaning = self.cleaning.lock();
        self.reset_dead().map(|_| ())
    }

    /// Zones that were found damaged and still are what they were.
    pub(crate) fn spoiled_zones(&self) -> u64 {
        let mut spoiled = self.spoiled.lock();
        spoiled.retain(|(zone, generation)| self.ground.generation_of(*zone) == Some(*generation));
        spoiled.len() as u64
    }

    /// What subzones that are empty would make in whole zones.
    fn empty_subzones_as_zones(&self) -> u64 {
        let Some(subzones) = self.space().subzones() else { return 0 };
        let empty = self.space().split_view().iter().map(|view| u64::from(view.empty)).sum::<u64>();
        empty / u64::from(subzones)
    }

    /// Written zones in which nothing is live. Subzones are merged by commits.
    fn dead_zones(&self) -> Vec<ZoneId> {
        let is_dead = |view: &ZoneView| {
            let is_ours = view.stream.is_some_and(|stream| stream != JOURNAL);
            is_ours && view.live_bytes == 0 && matches!(view.state, ZoneUse::Sealed | ZoneUse::Partial)
        };
        self.space().view().iter().filter(|view| is_dead(view)).map(|view| view.zone).collect()
    }

    /// Frees what is dead, else empties the best victim. A zone that cannot be reset is passed over; its error is returned only if
    /// no zone became free.
    fn clean(&self, is_paced: bool) -> Result<Cleaned> {
        self.stop.check()?;
        while self.lanes.finish_dead()? {}
        let merged = self.merge_dead()?;
        let (reset, mut failed) = self.reset_dead()?;
        let zones_freed = merged + reset;
        if zones_freed > 0 {
            return Ok(Cleaned { zones_freed, bytes_copied: 0 });
        }
        let (mut passed_over, mut all) = (Vec::new(), Cleaned::default());
        while let Some(victim) = self.victim(&passed_over) {
            passed_over.push(victim.zone);
            let Some(live) = self.live_extents(victim.zone) else { continue };
            match self.empty(victim.zone, &live, is_paced) {
                Ok(cleaned) => {
                    all.zones_freed += cleaned.zones_freed;
                    all.bytes_copied += cleaned.bytes_copied;
                    if all.zones_freed > 0 {
                        break;
                    }
                }
                Err(error) if is_of_the_victim(&error) => {
                    self.spoiled.lock().insert((victim.zone, victim.generation));
                }
                Err(FileError::Space(SpaceError::NoSpace { .. } | SpaceError::TokensHeld { .. })) => break,
                Err(FileError::Space(error @ SpaceError::Device(_))) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) if all.zones_freed == 0 => Err(error.into()),
            _ => Ok(all),
        }
    }

    /// Resets every written zone in which nothing is live, all removals being durable; returns how many are free now, and why
    /// one is not: it keeps nobody from the others, and is tried again next time.
    fn reset_dead(&self) -> Result<(u32, Option<SpaceError>)> {
        let dead = self.dead_zones();
        if dead.is_empty() {
            return Ok((0, None));
        }
        self.commit_to(self.names.last())?;
        let (mut zones_freed, mut failed) = (0, None);
        for zone in dead {
            match self.space().reset(zone) {
                Ok(now) => zones_freed += u32::from(now == ZoneUse::Free),
                Err(error) => failed = Some(error),
            }
        }
        Counters::add(&self.counters.resets_without_copy, u64::from(zones_freed));
        Ok((zones_freed, failed))
    }

    /// The zone to be emptied, as the options choose it, of those with enough dead bytes.
    fn victim(&self, passed_over: &[ZoneId]) -> Option<ZoneView> {
        let spoiled = self.spoiled.lock();
        let is_worth_it = |view: &ZoneView| {
            let is_ours = view.stream.is_some_and(|stream| stream != JOURNAL);
            let has_dead = has_enough_dead(view);
            let is_done = matches!(view.state, ZoneUse::Sealed | ZoneUse::ReadOnly);
            let is_whole = !spoiled.contains(&(view.zone, view.generation));
            is_ours && is_done && has_dead && is_whole && view.live_bytes > 0 && !passed_over.contains(&view.zone)
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

    /// Dead bytes that cleaning leaves where they are: in zones with too few of them, and in spoiled ones.
    pub(crate) fn stuck_bytes(&self) -> u64 {
        let spoiled = self.spoiled.lock();
        let is_stuck = |view: &&ZoneView| {
            let is_ours = view.stream.is_some_and(|stream| stream != JOURNAL);
            let is_passed_over = !has_enough_dead(view) || spoiled.contains(&(view.zone, view.generation));
            is_ours && view.state == ZoneUse::Sealed && view.live_bytes > 0 && is_passed_over
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
                if let Some(zone) = live.get_mut(&extent.zone) {
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

    /// What is live in a zone or group; `None` if some of it cannot be moved now: it belongs to a file that is being written, or to
    /// one that has readers but no name.
    pub(crate) fn live_extents(&self, zone: ZoneId) -> Option<Vec<LiveExtent>> {
        let names = self.names.lock();
        let mut live = Vec::new();
        for (file, inode) in names.catalogue.files() {
            let here = inode.extents.iter().filter(|extent| extent.zone == zone).copied();
            let before = live.len();
            live.extend(here.map(|extent| LiveExtent { file, tags: inode.tags, extent }));
            let is_written = live.len() > before && names.open_file(file).is_some_and(|file| file.has_writer());
            if is_written {
                return None;
            }
        }
        let known = live.iter().map(|live| live.extent.device_bytes()).sum::<u64>();
        live.sort_by_key(|live| live.extent.block);
        (known == self.live_bytes(zone)).then_some(live)
    }

    /// Moves everything out of a zone and resets it; no zone is freed if it turns out to be worn, or is wanted again.
    fn empty(&self, zone: ZoneId, live: &[LiveExtent], is_paced: bool) -> Result<Cleaned> {
        assert!(!self.space().is_subzone(zone), "nothing is moved out of subzones: {zone}");
        if !self.space().begin_relocation(zone) {
            return Ok(Cleaned::default());
        }
        let _label = cut_label("relocation");
        let copied = self.move_all(live, is_paced).and_then(|bytes| self.commit_to(self.names.last()).map(|()| bytes));
        let bytes_copied = match copied {
            Ok(bytes) if self.space().live_bytes(zone) == 0 => bytes,
            outcome => {
                self.space().end_relocation(zone);
                return outcome.map(|bytes_copied| Cleaned { zones_freed: 0, bytes_copied });
            }
        };
        let is_lost = matches!(self.space().reset(zone)?, ZoneUse::ReadOnly | ZoneUse::Offline);
        Ok(Cleaned { zones_freed: u32::from(!is_lost), bytes_copied })
    }

    /// Moves everything that can be moved; a bad extent stays, and is told of at the end.
    pub(crate) fn move_all(&self, live: &[LiveExtent], is_paced: bool) -> Result<u64> {
        let (mut lease, mut bytes, mut bad) = (None, 0, None);
        for one in live {
            let mut copy = Copy { core: self, live: one, is_paced, at_block: 0, crc: 0, copies: Vec::new() };
            match copy.run(&mut lease) {
                Ok(true) => {
                    bytes += one.extent.device_bytes();
                    self.publish(one, &copy.copies)?;
                }
                Ok(false) => self.bury(&copy.copies),
                Err(error) => {
                    self.bury(&copy.copies);
                    if !is_of_the_victim(&error) {
                        return Err(error);
                    }
                    bad = Some(error);
                }
            }
        }
        Counters::add(&self.counters.copied, bytes);
        bad.map_or(Ok(bytes), Err)
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
            if names.change(&change, &self.ground).is_err() {
                self.bury(copies);
                return Ok(());
            }
            if let Some(inode) = names.catalogue.inode(live.file) {
                self.follow.moved(live.file, inode);
            }
            if let Some(content) = &mut content {
                let replaced = content.extents.replace(from, copies);
                assert!(replaced.is_some(), "an open file has what is recorded of it");
            }
            self.bury(&[live.extent]);
            return Ok(());
        }
    }
}

/// A copy in progress.
struct Copy<'a> {
    core: &'a Core,
    live: &'a LiveExtent,
    is_paced: bool,
    at_block: u64,
    crc: u32,
    copies: Vec<Extent>,
}

impl Copy<'_> {
    /// Copies to zones of relocated bytes, checking the checksum; returns whether somebody still wants the copy.
    fn run(&mut self, lease: &mut Option<Lease>) -> Result<bool> {
        let blocks = self.live.extent.blocks();
        while self.at_block < blocks {
            if self.core.names.lock().catalogue.inode(self.live.file).is_none() {
                return Ok(false);
            }
            let count = (blocks - self.at_block).min(COPY_BLOCKS_MAX);
            let mut buffer = AlignedBuf::with_len(usize::try_from(count).expect("at most 256") * BLOCK_BYTES);
            let read = self.core.ground.read(self.live.extent.block + self.at_block, &mut buffer);
            read.map_err(|_| self.damaged())?;
            self.write(&buffer, lease)?;
            if self.is_paced {
                self.core.pace.after(buffer.len() as u64);
            }
        }
        match self.live.extent.crc {
            Some(crc) if crc != self.crc => Err(self.damaged()),
            _ => Ok(true),
        }
    }

    fn damaged(&self) -> FileError {
        let extent = &self.live.extent;
        FileError::Damaged { file: self.live.file.0, zone: extent.zone.0, block: extent.block }
    }

    /// Writes one buffer, in pieces where a zone ends.
    fn write(&mut self, mut buffer: &[u8], lease: &mut Option<Lease>) -> Result<()> {
        if let Some((blocks, _)) = self.core.ground.group(self.live.extent.zone) {
            return self.write_to_blocks(blocks, buffer);
        }
        while !buffer.is_empty() {
            let open = match lease.take() {
                Some(open) => open,
                None => self.place()?,
            };
            let written = self.write_to(&open, buffer)?;
            buffer = &buffer[written..];
            if written > 0 {
                *lease = Some(open);
            }
        }
        Ok(())
    }

    /// Writes one buffer, in pieces where a run of free blocks ends.
    fn write_to_blocks(&mut self, blocks: &Blocks, mut buffer: &[u8]) -> Result<()> {
        while !buffer.is_empty() {
            let run = self.core.allocate_for_copy((buffer.len() / BLOCK_BYTES) as u64, self.live.tags.lifetime)?;
            let (now, later) = buffer.split_at(usize::try_from(run.blocks).expect("within the buffer") * BLOCK_BYTES);
            if let Err(error) = blocks.write(run.first, now, self.live.tags.lifetime) {
                blocks.give_back(run);
                return Err(self.core.write_failed(error));
            }
            let (zone, block) = self.core.ground.place_of(blocks, run);
            self.note(zone, GENERATION_OF_BLOCKS, block, now);
            buffer = later;
        }
        Ok(())
    }

    fn place(&self) -> Result<Lease> {
        let LiveExtent { file, tags, extent } = self.live;
        let request = Request {
            stream: RELOCATED,
            file: *file,
            tags,
            urgency: Urgency::Reserve,
            free_zones_kept: self.core.lanes.reserve_now() - 1,
            finish_below_bytes: self.core.finish_below_bytes(),
        };
        let table = self.core.keys_of(*file);
        let candidate = Candidate { file: *file, tags, bytes: extent.bytes, table: table.as_ref() };
        let lease = self.core.place_by_policy(&request, &candidate)?;
        lease.ok_or_else(|| self.core.space().usage().no_space().into())
    }

    /// Writes what the zone holds of `buffer`; returns how many bytes.
    fn write_to(&mut self, lease: &Lease, buffer: &[u8]) -> Result<usize> {
        let zone = lease.zone();
        let mut guard = zone.writer();
        let Some(writer) = guard.as_mut() else { return Ok(0) };
        let blocks = writer.remaining_blocks().min((buffer.len() / BLOCK_BYTES) as u64);
        if blocks == 0 {
            return Ok(0);
        }
        let bytes = usize::try_from(blocks).expect("within the buffer") * BLOCK_BYTES;
        self.core.space().add_live(zone.zone(), bytes as u64);
        let written = writer.write(&buffer[..bytes]);
        zone.note_remaining(writer.remaining_blocks());
        match written {
            Ok(block) => {
                self.note(zone.zone(), zone.generation(), block, &buffer[..bytes]);
                Ok(bytes)
            }
            Err(error) => {
                self.core.space().sub_live(zone.zone(), bytes as u64);
                match error {
                    SpaceError::ZoneFailed { .. } => Ok(0),
                    error => Err(self.core.write_failed(error)),
                }
            }
        }
    }

    /// Adds what was written to the copies.
    fn note(&mut self, zone: ZoneId, generation: u64, block: u64, buffer: &[u8]) {
        let extent = &self.live.extent;
        let skip = if self.at_block == 0 { extent.skip } else { 0 };
        let data_at = (self.at_block * BLOCK_BYTES as u64).saturating_sub(u64::from(extent.skip));
        let bytes = (extent.bytes - data_at).min(buffer.len() as u64 - u64::from(skip));
        let data = &buffer[skip as usize..][..usize::try_from(bytes).expect("within the buffer")];
        let crc = crc32c::crc32c(data);
        self.crc = crc32c::crc32c_combine(self.crc, crc, data.len());
        let mut all = crate::extent::Extents::default();
        let next = Extent { zone, generation, block, skip, bytes, crc: Some(crc) };
        self.copies.drain(..).chain([next]).for_each(|extent| all.push(extent));
        self.copies = all.iter().copied().collect();
        self.at_block += (buffer.len() / BLOCK_BYTES) as u64;
    }
}

/// Whether a zone has so many dead bytes that it is worth moving the others.
fn has_enough_dead(view: &ZoneView) -> bool {
    view.live_bytes * 100 <= view.capacity_bytes * LIVE_PERCENT_MAX
}

/// Whether cleaning failed for what is in the victim: another one may do.
pub(crate) fn is_of_the_victim(error: &FileError) -> bool {
    matches!(error, FileError::Damaged { .. })
}
