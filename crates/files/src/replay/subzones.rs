//! Tables of a replay find their subzones, by the allocator that a store has.

use super::CleaningTrigger;
use super::run::Run;
use super::write::Want;
use crate::policy::{AfterFinish, Lacking, SplitChoice, SplitChoices, SubzoneWish, choose_subzone};
use crate::{FileId, FileKind, Result};

impl Run<'_> {
    /// An empty subzone for a table of which nothing is written, if the policy wants one and one can be had; cleans where no zone is empty
    /// that may be split, as a store does.
    ///
    /// # Errors
    /// `NoSpace` if the bytes of a victim find no place.
    pub(super) fn place_in_subzone(&mut self, want: &Want<'_>) -> Result<Option<usize>> {
        let Some(percent_max) = self.percent_for(want) else { return Ok(None) };
        let mut subzone = self.take_subzone(want, percent_max);
        let may_clean = self.options.trigger != CleaningTrigger::Never && self.options.policy.insists_on_subzones();
        if subzone == Err(Lacking::Zones) && may_clean && self.clean(self.zones_wanted(want))? {
            subzone = self.take_subzone(want, percent_max);
        }
        match subzone {
            Ok(_) => self.model.split.counts.tables += 1,
            Err(lacking) => self.model.split.counts.refused.count(lacking),
        }
        Ok(subzone.ok())
    }

    /// An empty subzone, of a zone that is split already, for a table that cleaning moves out of `victim` as a whole: from there it is
    /// moved no more.
    pub(super) fn place_moved_in_subzone(&mut self, file: FileId, victim: usize) -> Option<usize> {
        let it = self.model.files.get(&file)?;
        let bytes = it.pieces.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let is_whole = it.pieces.iter().all(|(zone, _)| *zone == victim);
        let insists = self.options.policy.insists_on_subzones();
        if !insists || !is_whole || !self.model.splits || bytes > self.model.split.part_bytes() {
            return None;
        }
        let (tags, keys) = (it.tags, self.keys(file));
        let want = Want { file, tags: &tags, bytes, table: keys.as_ref(), is_moved: false };
        let level = self.shape.find(file).map(|(_, table)| table.level).or(tags.level);
        if !is_table(&want) || !self.wants_subzone(&want, level) {
            return None;
        }
        let subzone = self.take_subzone(&want, 0).ok()?;
        self.model.split.counts.moved += 1;
        Some(subzone)
    }

    /// Percent of the zones that may be split for a table; `None` if it is to have no subzone.
    fn percent_for(&mut self, want: &Want<'_>) -> Option<u32> {
        let file = self.model.files.get(&want.file)?;
        if let [(first, _)] = file.pieces.as_slice()
            && self.model.split.is_subzone(*first)
        {
            self.model.split.counts.overflowing += 1;
        }
        if !self.model.splits || !is_table(want) || !file.pieces.is_empty() {
            return None;
        }
        let level = file.hint.as_ref().map(|hint| hint.level).or(want.tags.level);
        self.options.policy.split_percent_max().filter(|_| self.wants_subzone(want, level))
    }

    fn wants_subzone(&self, want: &Want<'_>, level: Option<u8>) -> bool {
        let hint = self.model.files.get(&want.file).and_then(|file| file.hint.as_ref());
        let (tree, range) = (hint.map(|hint| hint.tree), want.table.map(|table| &table.range));
        self.options.policy.wants_subzone(&SubzoneWish { level, tree, range }, &self.shape)
    }

    /// Any empty subzone, for bytes of a table for which there is no wide zone: rather than to refuse them.
    pub(super) fn press_into_subzone(&mut self, want: &Want<'_>) -> Option<usize> {
        if !self.model.splits || !is_table(want) || want.is_moved {
            return None;
        }
        let subzone = self.take_subzone(want, 0).ok()?;
        self.model.split.counts.pressed += 1;
        Some(subzone)
    }

    /// Zones may be split up to this share of all.
    fn take_subzone(&mut self, want: &Want<'_>, percent_max: u32) -> std::result::Result<usize, Lacking> {
        let lane = self.model.lane_of(want.tags, false);
        let views = self.model.split.views();
        let kept = self.zones_kept_from(want.tags.kind);
        let choices = SplitChoices {
            split: &views,
            zones: self.options.zones,
            empty_zones: self.model.empty_zones().saturating_sub(self.options.reserve_zones + kept),
            percent_max,
            has_token: self.model.has_split_token(lane),
        };
        let next = match choose_subzone(&choices)? {
            SplitChoice::Subzone(zone) => AfterFinish::Subzone(zone),
            SplitChoice::Split => AfterFinish::Split,
            SplitChoice::Finish(zone, next) => {
                self.model.split.finish(zone.0 as usize);
                next
            }
        };
        let zone = match next {
            AfterFinish::Subzone(zone) => zone.0 as usize,
            AfterFinish::Split => self.model.split_empty().ok_or(Lacking::Zones)?,
        };
        Ok(self.model.split.take(zone))
    }
}

fn is_table(want: &Want<'_>) -> bool {
    matches!(want.tags.kind, FileKind::Flushed | FileKind::Data)
}
