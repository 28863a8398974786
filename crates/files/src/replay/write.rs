//! Bytes of a replay find their zones.

use super::run::Run;
use super::{CleaningTrigger, FreeSpace};
use crate::lsm::{Table, TableHint};
use crate::policy::{Candidate, Choice, Choices, Decision, Rule, TableKeys, least_bad};
use crate::{Claim, FileError, FileId, FileKind, FileStoreOptions, FileTags, Result, claim};

/// Empty zones above the reserve that tables leave to logs and meta files: a policy that opens many zones would starve them.
pub(super) const LOG_ZONES: u32 = 2;

/// Who wants a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want<'a> {
    pub(super) file: FileId,
    pub(super) tags: &'a FileTags,
    pub(super) bytes: u64,
    pub(super) table: Option<&'a TableKeys>,
    /// Moved by cleaning.
    pub(super) is_moved: bool,
}

impl Run<'_> {
    /// Bytes at the end of a file: tables wait where the policy needs keys, everything else is written.
    pub(super) fn append(&mut self, file: FileId, bytes: u64) -> Result<()> {
        let Some(open) = self.model.files.get_mut(&file) else { return Ok(()) };
        open.waiting = open.waiting.saturating_add(bytes);
        let is_table = matches!(open.tags.kind, FileKind::Flushed | FileKind::Data);
        let waits = is_table && !open.is_placed_early && self.options.policy.needs_keys();
        if is_table {
            self.counts.table_bytes = self.counts.table_bytes.saturating_add(bytes);
            self.shape.wrote(bytes);
            let level = open.hint.as_ref().map(|hint| hint.level).or(open.tags.level);
            if let Some(level) = level {
                let created = &mut self.counts.level(level).created_bytes;
                *created = created.saturating_add(bytes);
            }
        } else {
            self.counts.log_bytes = self.counts.log_bytes.saturating_add(bytes);
        }
        let open = self.model.files.get_mut(&file).expect("just seen");
        if waits {
            let bytes = bytes.min(u64::MAX - self.held);
            open.held += bytes;
            self.held += bytes;
            if self.held <= self.options.held_bytes_max {
                return Ok(());
            }
        }
        open.is_placed_early = is_table;
        self.write_waiting(file)
    }

    /// Places all that waits of a file.
    pub(super) fn write_waiting(&mut self, file: FileId) -> Result<()> {
        let keys = self.keys(file);
        self.release_held(file);
        while let Some((bytes, lease, tags)) = self.model.files.get(&file).map(|it| (it.waiting, it.lease, it.tags))
            && bytes > 0
        {
            let zone = match lease {
                Some(zone) => zone,
                None => self.lease(file, &tags, bytes, keys.as_ref())?,
            };
            let written = self.model.write(zone, file, bytes);
            // Nothing else makes more bytes live: what cleaning writes was live before.
            self.counts.peak_live_bytes = self.counts.peak_live_bytes.max(self.model.live());
            let it = self.model.files.get_mut(&file).expect("just seen");
            it.waiting -= written;
            let begins_in_subzone = it.pieces.first().is_some_and(|(first, _)| self.model.split.is_subzone(*first));
            if begins_in_subzone && !self.model.split.is_subzone(zone) {
                self.model.split.counts.overflow_bytes += written;
            }
            if self.model.is_done(zone) {
                self.unlease(file);
            }
        }
        self.note_table(file, keys);
        Ok(())
    }

    fn release_held(&mut self, file: FileId) {
        if let Some(it) = self.model.files.get_mut(&file) {
            self.held -= std::mem::take(&mut it.held);
        }
    }

    fn lease(&mut self, file: FileId, tags: &FileTags, bytes: u64, table: Option<&TableKeys>) -> Result<usize> {
        let want = Want { file, tags, bytes, table, is_moved: false };
        let zone = match self.place_in_subzone(&want)? {
            Some(subzone) => subzone,
            None => self.place(&want)?,
        };
        if !self.model.split.is_subzone(zone) {
            self.model.zones[zone].writers += 1;
        }
        if let Some(it) = self.model.files.get_mut(&file) {
            it.lease = Some(zone);
        }
        Ok(zone)
    }

    /// The file is not written to its zone any more; returns that, unless it was a subzone, which is finished.
    pub(super) fn unlease(&mut self, file: FileId) -> Option<usize> {
        let zone = self.model.files.get_mut(&file)?.lease.take()?;
        if self.model.split.is_subzone(zone) {
            self.model.close_subzone(zone);
            return None;
        }
        self.model.zones[zone].writers -= 1;
        Some(zone)
    }

    /// The keys that a table has, or may have. The first one is known when it is placed early, as in a store.
    pub(super) fn keys(&self, file: FileId) -> Option<TableKeys> {
        let TableHint { tree, job, level, range } = self.model.files.get(&file)?.hint.as_ref()?;
        let first_key = self.first_keys.get(&file).map(Vec::as_slice);
        let range = range.clone().or_else(|| self.shape.expected_range(*tree, *job, first_key))?;
        Some(TableKeys { tree: *tree, level: *level, range })
    }

    /// A table counts from its first byte in a zone on.
    fn note_table(&mut self, file: FileId, keys: Option<TableKeys>) {
        let zones = self.model.files.get(&file).map(super::model::File::zones);
        if let (Some(TableKeys { tree, level, range }), Some(zones)) = (keys, zones) {
            self.shape.put(tree, file, Table { level, range, zones });
        }
    }

    /// A zone with room.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(super) fn place(&mut self, want: &Want<'_>) -> Result<usize> {
        let lane = self.model.lane_of(want.tags, want.is_moved);
        let is_as_store = self.options.free == FreeSpace::AsStore;
        let mut may_clean = !want.is_moved && self.options.trigger != CleaningTrigger::Never;
        if !want.is_moved && self.options.trigger == CleaningTrigger::BelowThreshold && self.is_below_threshold() {
            self.clean(0)?;
        }
        loop {
            let kept = self.zones_kept(want, self.zones_of_cleaning());
            if self.model.empty_zones() <= kept && !want.is_moved {
                self.reset_dead(!is_as_store);
            }
            let views = self.model.views(lane);
            // A store gives up the victim where it has no zone to move to; here it goes on with the last ones.
            let kept = if want.is_moved && views.is_empty() { 0 } else { kept };
            let (has_token, has_empty) = (self.model.has_token(lane), self.model.empty_zones() > kept);
            let wants_new = || views.is_empty() || !matches!(self.ask(want, &views, true).choice, Choice::Open(_));
            if has_empty && !has_token && wants_new() && self.model.take_split_token(lane) {
                continue;
            }
            // A store does not clean for a choice: where no zone may be opened an open one is joined.
            let wants_empty = has_token && !has_empty && !is_as_store;
            if views.is_empty() && !(has_token && has_empty) {
                if std::mem::take(&mut may_clean) && self.clean(self.zones_wanted(want))? {
                    continue;
                }
                if let Some(subzone) = self.press_into_subzone(want) {
                    return Ok(subzone);
                }
                return Err(self.no_space());
            }
            let Decision { choice, rule } = self.ask(want, &views, has_token && has_empty);
            let (zone, rule) = match choice {
                Choice::Open(zone) => (Some(zone), rule),
                Choice::New if has_token && has_empty => (None, rule),
                Choice::New
                    if wants_empty && std::mem::take(&mut may_clean) && self.clean(self.zones_wanted(want))? =>
                {
                    continue;
                }
                Choice::FinishThenNew(zone) if has_empty && self.has_little(zone.0 as usize) => {
                    self.counts.finished_unwritten_bytes += self.model.finish(zone.0 as usize);
                    (None, rule)
                }
                Choice::New | Choice::FinishThenNew(_) => (least_bad(want.tags, &views), Rule::Lifetime),
            };
            *self.counts.allocations.entry((rule, want.tags.level)).or_default() += 1;
            if let Some(zone) = zone {
                return Ok(zone.0 as usize);
            }
            return self.model.open(lane, want.file, want.tags).ok_or_else(|| self.no_space());
        }
    }

    /// Zones of the reserve that cleaning has open, where these count.
    fn zones_of_cleaning(&self) -> u32 {
        if self.options.free == FreeSpace::Room { self.model.moved_zones() } else { 0 }
    }

    /// Empty zones that cleaning for `want` must reach, whatever the threshold.
    pub(super) fn zones_wanted(&self, want: &Want<'_>) -> u32 {
        if self.options.free == FreeSpace::Room { self.zones_kept(want, 0) + 1 } else { 0 }
    }

    /// Empty zones that are not for `want`. The zones that cleaning has open are of its reserve: else tables that open many zones
    /// would leave logs none.
    fn zones_kept(&self, want: &Want<'_>, of_cleaning: u32) -> u32 {
        let reserve = self.options.reserve_zones.saturating_sub(of_cleaning).max(1);
        match self.options.free {
            FreeSpace::AsStore if want.is_moved => reserve - 1,
            _ if want.is_moved => 0,
            _ => reserve + self.zones_kept_from(want.tags.kind),
        }
    }

    /// Empty zones above the reserve that new bytes of this kind leave.
    pub(super) fn zones_kept_from(&self, kind: FileKind) -> u32 {
        match (self.options.free, kind) {
            (FreeSpace::AsStore, _) => {
                claim::zones_kept_from((kind, Claim::Usual), FileStoreOptions::default().flush_reserve_zones)
            }
            (_, FileKind::Log | FileKind::Meta) => 0,
            (_, FileKind::Flushed | FileKind::Data) => LOG_ZONES,
        }
    }

    fn ask(&self, want: &Want<'_>, open: &[crate::policy::OpenZoneView], may_open: bool) -> Decision {
        let candidate = Candidate { file: want.file, tags: want.tags, bytes: want.bytes, table: want.table };
        let (policy, choices) = (&self.options.policy, Choices { open, may_open, shape: &self.shape });
        let decision = match want.is_moved {
            true => policy.choose_for_moved(&candidate, &choices),
            false => policy.choose(&candidate, &choices),
        };
        let is_known = |zone| open.iter().any(|view| view.zone == zone);
        match decision.choice {
            Choice::Open(zone) if !is_known(zone) => Choice::New.by(Rule::Lifetime),
            _ => decision,
        }
    }

    /// Whether a zone has so little room that it is finished rather than kept.
    pub(super) fn has_little(&self, zone: usize) -> bool {
        let remaining = self.model.capacity - self.model.zones[zone].written;
        remaining < self.model.capacity * u64::from(self.options.finish_percent) / 100
    }

    pub(super) fn no_space(&self) -> FileError {
        let kept_zones = self.options.reserve_zones + self.zones_kept_from(FileKind::Data);
        FileError::NoSpace {
            live_bytes: self.model.live(),
            usable_bytes: u64::from(self.options.zones.saturating_sub(kept_zones)) * self.model.capacity,
            unfilled_bytes: 0,
            kept_bytes: u64::from(kept_zones) * self.model.capacity,
            kept_for: "cleaning and logs",
            free_zones: self.model.empty_zones(),
        }
    }
}
