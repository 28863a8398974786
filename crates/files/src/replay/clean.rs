//! Cleaning in a replay.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use zonda_space::victim::choose;
use zonda_space::{VictimPolicy, ZoneId, ZoneUse, ZoneView};

use super::FreeSpace;
use super::model::is_empty;
use super::run::Run;
use super::write::{LOG_ZONES, Want};
use crate::policy::{TableKeys, VictimView};
use crate::{FileId, FileKind, Result};

/// A zone of which less than this share is gained is not worth moving, in percent.
const GAIN_PERCENT_MIN: u64 = 3;

impl Run<'_> {
    /// Resets all zones in which nothing is live and that nobody writes; those that wait for more bytes only if `waiting_too`.
    pub(super) fn reset_dead(&mut self, waiting_too: bool) {
        for zone in 0..self.model.zones.len() {
            let it = &self.model.zones[zone];
            let is_done = waiting_too || it.lane.is_none();
            if is_done && !is_empty(it) && !it.is_split && it.live == 0 && it.writers == 0 {
                self.reset(zone, 0);
            }
        }
    }

    /// Empties zones until the threshold is free above the reserve, and until so many zones are empty; returns whether any became
    /// empty.
    ///
    /// # Errors
    /// `NoSpace` if the bytes of a victim find no place.
    pub(super) fn clean(&mut self, empty_zones: u32) -> Result<bool> {
        self.counts.cleanings += 1;
        let before = self.model.empty_zones();
        self.reset_dead(true);
        while self.is_below_threshold() || self.model.empty_zones() < empty_zones {
            let Some(victim) = self.victim() else {
                self.counts.cleanings_short += 1;
                break;
            };
            self.empty(victim)?;
        }
        Ok(self.model.empty_zones() > before)
    }

    /// Whether less is free above the reserve than cleaning is to keep free, with what is doomed if the policy waits for that and a table
    /// finds a zone meanwhile: of zones that are not split as in a store.
    pub(super) fn is_below_threshold(&self) -> bool {
        let kept = self.options.reserve_zones + self.zones_kept_from(FileKind::Data);
        let waits = self.options.policy.waits_for_doomed() && self.model.empty_zones() > kept;
        let has_with_doomed = || !self.is_below_with(self.doomed_bytes() / self.model.capacity);
        self.is_below_with(0) && !(waits && has_with_doomed())
    }

    /// Bytes that are doomed, in full zones, which are not split.
    fn doomed_bytes(&self) -> u64 {
        let is_full = |zone: usize| !self.model.split.is_subzone(zone) && self.model.zones[zone].lane.is_none();
        let doomed = self.shape.doomed().filter_map(|file| self.model.files.get(&file));
        doomed.flat_map(|file| &file.pieces).filter(|(zone, _)| is_full(*zone)).map(|(_, bytes)| bytes).sum()
    }

    /// Whether less would be free with so many zones more.
    fn is_below_with(&self, more: u64) -> bool {
        let zones = u64::from(self.options.zones) - self.model.split.zones();
        let share = zones * u64::from(self.options.threshold_percent) / 100;
        let (empty, reserve) = (u64::from(self.model.empty_zones()) + more, u64::from(self.options.reserve_zones));
        match self.options.free {
            FreeSpace::EmptyZones => empty < reserve + share.max(u64::from(LOG_ZONES) + 1),
            FreeSpace::AsStore => empty < share.max(reserve + u64::from(self.zones_kept_from(FileKind::Data)) + 1),
            FreeSpace::Room => {
                self.model.free_bytes() + more * self.model.capacity < (reserve + share) * self.model.capacity
            }
        }
    }

    /// The zone to be emptied, of those that nobody writes to and that gain enough.
    fn victim(&self) -> Option<usize> {
        let busy = self.zones_being_written();
        let is_wide = |zone: &usize| !is_empty(&self.model.zones[*zone]) && !self.model.zones[*zone].is_split;
        let idle = (0..self.model.zones.len()).filter(|zone| is_wide(zone) && !busy.contains(zone));
        let views: Vec<ZoneView> = idle.map(|zone| self.model.victim_view(zone)).collect();
        let is_worth_it = |view: &&ZoneView| self.gain(view) * 100 >= view.capacity_bytes * GAIN_PERCENT_MIN;
        let worth: Vec<&ZoneView> = views.iter().filter(is_worth_it).collect();
        let best = match self.options.victims {
            _ if self.options.policy.chooses_victims() => {
                self.options.policy.victim(&self.with_files(&worth), &self.shape)
            }
            VictimPolicy::Greedy => {
                let best = worth.into_iter().max_by_key(|view| (self.gain(view), Reverse(view.generation)));
                best.map(|view| view.zone)
            }
            VictimPolicy::CostBenefit => choose(VictimPolicy::CostBenefit, worth).map(|view| view.zone),
        };
        let best = best.or_else(|| Self::waiting_victim(&views).filter(|_| self.options.free == FreeSpace::EmptyZones));
        best.map(|zone| zone.0 as usize)
    }

    /// The best of the zones that wait for more bytes, where only empty zones are free and none that is done is worth it.
    fn waiting_victim(views: &[ZoneView]) -> Option<ZoneId> {
        let waiting = views.iter().filter(|view| view.live_bytes * 100 <= view.written_bytes * 97);
        waiting.min_by_key(|view| (view.live_bytes, view.generation)).map(|view| view.zone)
    }

    /// What emptying a zone gains. Of a zone that waits for tables the rest was free before, where room counts as free; where only
    /// empty zones do, it is left alone.
    fn gain(&self, view: &ZoneView) -> u64 {
        match (view.state, self.options.free) {
            (ZoneUse::Sealed, _) => view.capacity_bytes - view.live_bytes,
            (_, FreeSpace::Room) if self.model.waits_for_tables(view.zone.0 as usize) => {
                view.written_bytes - view.live_bytes
            }
            _ => 0,
        }
    }

    /// Zones as policies see them that choose victims. Cost: one pass over all files.
    fn with_files(&self, zones: &[&ZoneView]) -> Vec<VictimView> {
        let mut live: HashMap<usize, Vec<(FileId, u64)>> = HashMap::new();
        for (file, it) in &self.model.files {
            it.pieces.iter().for_each(|(zone, bytes)| live.entry(*zone).or_default().push((*file, *bytes)));
        }
        let of_zone = |view: &&ZoneView| {
            let mut live = live.remove(&(view.zone.0 as usize)).unwrap_or_default();
            live.sort_unstable();
            VictimView { zone: **view, gain_bytes: self.gain(view), live }
        };
        zones.iter().map(of_zone).collect()
    }

    /// Zones with a writer, or with bytes of a file that is being written: a file here is open for one flush or compaction. (The file store
    /// moves those bytes, for files that stay open.)
    fn zones_being_written(&self) -> HashSet<usize> {
        let open = self.model.files.values().filter(|file| file.is_open);
        let of_files = open.flat_map(|file| file.pieces.iter().map(|(zone, _)| *zone));
        let of_zones = (0..self.model.zones.len()).filter(|zone| self.model.zones[*zone].writers > 0);
        of_files.chain(of_zones).collect()
    }

    /// Moves what is live in a zone, and resets it.
    fn empty(&mut self, zone: usize) -> Result<()> {
        assert!(!self.model.zones[zone].is_split, "cleaning moves nothing out of a subzone, and zone {zone} is split");
        self.model.finish(zone);
        let is_here = |file: &&FileId| self.model.files[*file].pieces.iter().any(|(at, _)| *at == zone);
        let mut files: Vec<FileId> = self.model.files.keys().filter(is_here).copied().collect();
        files.sort_unstable();
        let mut copied = 0;
        for file in files {
            copied += self.move_out(file, zone)?;
        }
        self.counts.copied_bytes += copied;
        self.reset(zone, copied);
        Ok(())
    }

    /// Moves the pieces of a file out of a zone; returns their bytes. Where free space is counted as a store does, the policy chooses a
    /// zone for the first, and again when that is full; else for each. A table that is moved as a whole may get an empty subzone.
    fn move_out(&mut self, file: FileId, zone: usize) -> Result<u64> {
        let mut lease = self.place_moved_in_subzone(file, zone);
        let subzone = lease;
        let Some(it) = self.model.files.get_mut(&file) else { return Ok(0) };
        let (tags, pieces) = (self.shape.tags_now(file, it.tags), std::mem::take(&mut it.pieces));
        // As a store has them: of the version, not of the job that wrote the table.
        let keys = self.shape.find(file).map(|(tree, table)| TableKeys {
            tree,
            level: table.level,
            range: table.range.clone(),
        });
        let mut moved = 0;
        for (at, bytes) in pieces {
            if at != zone {
                self.model.files.get_mut(&file).expect("just seen").pieces.push((at, bytes));
                continue;
            }
            moved += bytes;
            if let Some(level) = tags.level {
                self.counts.level(level).copied_bytes += bytes;
            }
            let mut left = bytes;
            while left > 0 {
                let want = Want { file, tags: &tags, bytes: left, table: keys.as_ref(), is_moved: true };
                let is_kept = |to: &usize| self.options.free == FreeSpace::AsStore && !self.model.is_done(*to);
                let to = match lease.filter(|to| subzone == Some(*to) || is_kept(to)) {
                    Some(to) => to,
                    None => self.place(&want)?,
                };
                lease = Some(to);
                left -= self.model.write(to, file, left);
            }
            self.model.kill(zone, bytes);
        }
        subzone.into_iter().for_each(|subzone| self.model.close_subzone(subzone));
        let zones = self.model.files[&file].zones();
        self.shape.set_zones(file, &zones);
        Ok(moved)
    }

    fn reset(&mut self, zone: usize, copied: u64) {
        self.model.reset(zone);
        self.counts.copied_per_reset.push(copied);
    }
}
