//! Goes through a trace.

use std::collections::{BTreeMap, HashMap};

use super::ReplayOptions;
use super::model::{File, Model, is_empty};
use super::oracle::{change_of, is_used_twice};
use super::report::{End, InvalidShares, LevelBytes, ReplayReport};
use super::split::SplitReport;
use crate::catalogue::Catalogue;
use crate::lsm::{JobId, KeyOrder, KeyRange, LsmShape, Table, TableHint, TreeId};
use crate::policy::Rule;
use crate::trace::{TraceEvent, TraceRecord};
use crate::{FileError, FileId, FileKind, Result};

/// Samples of the zones in every stretch of bytes that a zone holds.
const SAMPLES_PER_ZONE: u64 = 4;

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) table_bytes: u64,
    pub(super) log_bytes: u64,
    pub(super) copied_bytes: u64,
    pub(super) copied_per_reset: Vec<u64>,
    pub(super) cleanings: u64,
    pub(super) cleanings_short: u64,
    pub(super) finished_unwritten_bytes: u64,
    pub(super) allocations: BTreeMap<(Rule, Option<u8>), u64>,
    pub(super) compactions: u64,
    pub(super) zones_of_inputs: u64,
    pub(super) invalidated_bytes: u64,
    pub(super) peak_live_bytes: u64,
    pub(super) levels: Vec<LevelBytes>,
    samples: Vec<InvalidShares>,
}

impl Counts {
    /// What is counted of a level.
    pub(super) fn level(&mut self, level: u8) -> &mut LevelBytes {
        let level = usize::from(level);
        if self.levels.len() <= level {
            self.levels.resize(level + 1, LevelBytes::default());
        }
        &mut self.levels[level]
    }
}

/// A replay that is going on.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) options: &'a ReplayOptions,
    pub(super) model: Model,
    pub(super) shape: LsmShape,
    pub(super) counts: Counts,
    /// Bytes that wait for their keys.
    pub(super) held: u64,
    names: Catalogue,
    trees: HashMap<TreeId, TreeId>,
    jobs: HashMap<JobId, JobId>,
    /// Of tables that policies look at the keys of: a store knows it before the table is complete, a trace tells the keys later.
    pub(super) first_keys: HashMap<FileId, Vec<u8>>,
    next_sample: u64,
}

/// The first key of each table, as it is told first: by its description or by the version it is in.
fn first_keys(trace: &[TraceRecord]) -> HashMap<FileId, Vec<u8>> {
    let mut keys: HashMap<FileId, Vec<u8>> = HashMap::new();
    let mut note = |file: FileId, range: &KeyRange| {
        keys.entry(file).or_insert_with(|| range.smallest.clone());
    };
    for record in trace {
        match &record.event {
            TraceEvent::Describe { file, range: Some(range), .. } => note(*file, range),
            TraceEvent::Edit { added, .. } => added.iter().for_each(|(file, _, range)| note(*file, range)),
            _ => {}
        }
    }
    keys
}

impl<'a> Run<'a> {
    pub(super) fn new(trace: &[TraceRecord], options: &'a ReplayOptions) -> Result<Self> {
        let marks = trace.iter().filter_map(|record| match &record.event {
            TraceEvent::Mark { name } => Some(name.as_str()),
            _ => None,
        });
        if let Some(wanted) = &options.measure_from
            && !marks.into_iter().any(|mark| mark == wanted)
        {
            return Err(FileError::NoSuchMark { mark: wanted.clone() });
        }
        Ok(Self {
            options,
            model: Model::new(options)?,
            shape: LsmShape::default(),
            counts: Counts::default(),
            held: 0,
            names: Catalogue::default(),
            trees: HashMap::new(),
            jobs: HashMap::new(),
            first_keys: if options.policy.needs_keys() { first_keys(trace) } else { HashMap::new() },
            next_sample: 0,
        })
    }

    pub(super) fn all(mut self, trace: &[TraceRecord]) -> Result<ReplayReport> {
        for (record, line) in trace.iter().zip(1..) {
            if is_used_twice(&self.names, &record.event) {
                return Err(FileError::BadTrace { line, why: "counted in records: a number of a file is used twice" });
            }
            self.event(&record.event)?;
            self.sample();
        }
        let samples = std::mem::take(&mut self.counts.samples);
        let split =
            self.model.splits.then(|| SplitReport { live_bytes: self.model.split.live(), ..self.model.split.counts });
        let end = End { live_bytes: self.model.live(), tables: self.tables(), split };
        Ok(ReplayReport::new(self.options, trace.len(), &self.counts, (&samples, end)))
    }

    /// Tables that are there.
    fn tables(&self) -> u64 {
        let is_table = |file: &&File| matches!(file.tags.kind, FileKind::Flushed | FileKind::Data);
        self.model.files.values().filter(is_table).count() as u64
    }

    fn event(&mut self, event: &TraceEvent) -> Result<()> {
        self.change_names(event);
        match event {
            TraceEvent::Tree { tree, order, .. } => {
                let order = if order == "reverse" { KeyOrder::reverse() } else { KeyOrder::bytewise() };
                let known = self.shape.add_tree(order);
                self.trees.insert(*tree, known);
            }
            TraceEvent::TreeGone { tree } => {
                if let Some(known) = self.trees.remove(tree) {
                    self.shape.remove_tree(known);
                }
            }
            TraceEvent::JobBegin { job, inputs, .. } => {
                let known = self.shape.begin_job(inputs.clone());
                self.jobs.insert(*job, known);
            }
            TraceEvent::JobEnd { job } => {
                if let Some(known) = self.jobs.remove(job) {
                    self.shape.end_job(known);
                }
            }
            TraceEvent::Edit { tree, removed, added } => self.edit(*tree, removed, added),
            TraceEvent::Mark { name } if self.options.measure_from.as_ref() == Some(name) => {
                self.counts = Counts { peak_live_bytes: self.model.live(), ..Counts::default() };
                self.model.split.forget();
            }
            other => return self.file_event(other),
        }
        Ok(())
    }

    fn file_event(&mut self, event: &TraceEvent) -> Result<()> {
        match event {
            TraceEvent::Create { file, tags, .. } => {
                self.model.files.insert(*file, File::new(*tags));
            }
            TraceEvent::Existing { file, tags, bytes, .. } => {
                self.model.files.insert(*file, File::new(*tags));
                self.append(*file, bytes.saturating_mul(self.options.scale))?;
                self.close(*file)?;
            }
            TraceEvent::Retag { file, lifetime, level } => {
                if let Some(it) = self.model.files.get_mut(file) {
                    (it.tags.lifetime, it.tags.level) = (*lifetime, *level);
                }
            }
            TraceEvent::Describe { file, tree, job, level, range } => {
                let (tree, range) = (self.trees.get(tree).copied(), range.clone());
                let job = job.and_then(|job| self.jobs.get(&job).copied());
                if let (Some(it), Some(tree)) = (self.model.files.get_mut(file), tree) {
                    it.hint = Some(TableHint { tree, job, level: *level, range });
                }
            }
            TraceEvent::Append { file, bytes } => self.append(*file, bytes.saturating_mul(self.options.scale))?,
            TraceEvent::Truncate { file, size } => self.truncate(*file, size.saturating_mul(self.options.scale)),
            TraceEvent::Sync { file } => self.write_waiting(*file)?,
            TraceEvent::Close { file } => self.close(*file)?,
            _ => {}
        }
        Ok(())
    }

    /// Names change; a file that lost its last one dies.
    fn change_names(&mut self, event: &TraceEvent) {
        let Some(change) = change_of(event) else { return };
        // A directory that is removed is an unlink in a trace, and a name that is not there was lost before it began.
        let Ok(dropped) = self.names.apply(&change) else { return };
        let Some(file) = dropped.file else { return };
        self.unlease(file);
        self.shape.remove_file(file);
        if let Some(gone) = self.model.files.remove(&file) {
            self.held -= gone.held;
            gone.pieces.iter().for_each(|(zone, bytes)| self.model.kill(*zone, *bytes));
        }
    }

    fn truncate(&mut self, file: FileId, size: u64) {
        let Some(it) = self.model.files.get_mut(&file) else { return };
        let placed: u64 = it.pieces.iter().map(|(_, bytes)| bytes).sum();
        it.waiting = size.saturating_sub(placed).min(it.waiting);
        let (mut excess, mut cuts) = (placed.saturating_sub(size), Vec::new());
        while excess > 0
            && let Some((zone, bytes)) = it.pieces.pop()
        {
            let cut = bytes.min(excess);
            excess -= cut;
            cuts.push((zone, cut));
            if bytes > cut {
                it.pieces.push((zone, bytes - cut));
            }
        }
        cuts.into_iter().for_each(|(zone, cut)| self.model.kill(zone, cut));
    }

    /// What follows a close: a zone that nobody writes and that is nearly full gives its token back.
    fn close(&mut self, file: FileId) -> Result<()> {
        self.write_waiting(file)?;
        if let Some(it) = self.model.files.get_mut(&file) {
            it.is_open = false;
        }
        if let Some(zone) = self.unlease(file)
            && self.model.zones[zone].writers == 0
            && self.has_little(zone)
        {
            self.counts.finished_unwritten_bytes += self.model.finish(zone);
        }
        Ok(())
    }

    fn edit(&mut self, tree: TreeId, removed: &[FileId], added: &[(FileId, u8, KeyRange)]) {
        let Some(&tree) = self.trees.get(&tree) else { return };
        let is_added = |file: &FileId| added.iter().any(|(other, ..)| other == file);
        let dead: Vec<FileId> = removed.iter().copied().filter(|file| !is_added(file)).collect();
        self.count_compaction(&dead);
        removed.iter().for_each(|file| self.shape.remove(tree, *file));
        for (file, level, range) in added {
            if removed.contains(file) {
                let bytes = self.model.files.get(file).map_or(0, File::bytes);
                self.counts.level(*level).moved_bytes += bytes;
            }
            let zones = self.model.files.get(file).map(File::zones).unwrap_or_default();
            self.shape.put(tree, *file, Table { level: *level, range: range.clone(), zones });
        }
    }

    /// How many zones a compaction's inputs are in.
    fn count_compaction(&mut self, dead: &[FileId]) {
        let pieces = dead.iter().filter_map(|file| self.model.files.get(file)).flat_map(|file| &file.pieces);
        let (mut zones, mut bytes) = (Vec::new(), 0);
        for (zone, in_zone) in pieces {
            zones.push(*zone);
            bytes += in_zone;
        }
        zones.sort_unstable();
        zones.dedup();
        if !zones.is_empty() {
            self.counts.compactions += 1;
            self.counts.zones_of_inputs += zones.len() as u64;
            self.counts.invalidated_bytes += bytes;
        }
    }

    fn sample(&mut self) {
        if self.model.written < self.next_sample {
            return;
        }
        self.next_sample = self.model.written + self.model.capacity / SAMPLES_PER_ZONE;
        let mut shares = InvalidShares::default();
        for (at, zone) in self.model.zones.iter().enumerate() {
            let invalid = if zone.is_split { self.model.split.invalid(at) } else { zone.written - zone.live };
            shares.add((!is_empty(zone)).then_some((invalid, self.model.capacity)));
        }
        self.counts.samples.push(shares);
    }
}
