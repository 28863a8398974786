//! A simulated LSM-tree with levels that leaves a trace of its files: workload in, [`TraceRecord`]s out, no bytes.
//!
//! It stands in for a recorded trace, and says so wherever its figures are shown. What it has of a leveled `RocksDB`: memtables
//! and logs, tables cut at a target size, the levels' limits and scores, level 0 by its number of files, the file with the least
//! overlap first, trivial moves, lifetime hints by level. What it has not: jobs that run beside each other, filter and index
//! blocks, cuts at grandparents. Keys are uniform or, scattered over the key space, of Zipf's popularity: a table is a range and a
//! number of pairs of each class of popularity, and what merging tables yields follows from their densities.

mod lives;
mod merge;
mod popularity;

use zonda_files::lsm::{JobId, JobKind, KeyRange, TreeId};
use zonda_files::trace::{TraceEvent, TraceRecord};
use zonda_files::{FileId, FileKind, FilePath, FileTags, Lifetime};
use zonda_rt::Rng;

pub use lives::{Lives, lives};
use merge::{Run, merge};
use popularity::{CLASSES, Popularity};

/// Levels at most.
const LEVELS: usize = 7;

/// How the keys get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// All of them, in order: tables are moved down and never written again.
    InOrder,
    /// So many uniform draws: about two of three keys with as many draws as keys.
    Draws(u64),
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct LsmWorkload {
    /// Distinct keys.
    pub keys: u64,
    /// How they are loaded first.
    pub load: Load,
    /// Bytes of a key and its value.
    pub pair_bytes: u64,
    /// Pairs overwritten at random afterwards.
    pub overwrites: u64,
    /// Zipf's constant of these; 0 for uniform ones.
    pub skew: f64,
    /// Bytes of a memtable, and of a table.
    pub table_bytes: u64,
    /// Limit of level 1; each further level has ten times as much.
    pub level_bytes: u64,
    /// Files in level 0 that start a compaction.
    pub level0_files: usize,
    /// Of the random keys.
    pub seed: u64,
}

impl LsmWorkload {
    /// The CAZA paper's (section 5.1), divided by `divisor`: 40 GB loaded in order and 40 GB overwritten, pairs of 16 + 128 bytes,
    /// memtables and tables of 64 MB, levels from 256 MB on. With the memory divided too the number of tables stays.
    #[must_use]
    pub fn of_the_caza_paper(divisor: u64, seed: u64) -> Self {
        let keys = 40_000_000_000 / 144 / divisor;
        Self {
            keys,
            load: Load::InOrder,
            pair_bytes: 144,
            overwrites: keys,
            skew: 0.0,
            table_bytes: (64 << 20) / divisor,
            level_bytes: (256 << 20) / divisor,
            level0_files: 4,
            seed,
        }
    }
}

/// Name of the mark between load and overwrites.
pub const LOADED: &str = "loaded";

/// A table.
#[derive(Clone, Debug)]
struct Table {
    file: FileId,
    run: Run,
}

/// The tree while it is simulated.
struct Lsm {
    workload: LsmWorkload,
    levels: Vec<Vec<Table>>,
    trace: Vec<TraceRecord>,
    popularity: Popularity,
    next_file: u64,
    next_job: u64,
    rng: Rng,
}

const TREE: TreeId = TreeId(0);

/// The trace of a workload: load, mark, overwrites.
#[must_use]
pub fn trace(workload: LsmWorkload) -> Vec<TraceRecord> {
    let mut lsm = Lsm {
        workload,
        levels: vec![Vec::new(); LEVELS],
        trace: Vec::new(),
        popularity: Popularity::UNIFORM,
        next_file: 0,
        next_job: 0,
        rng: Rng::seeded(workload.seed),
    };
    let directory = FilePath::root();
    lsm.record(TraceEvent::Tree { tree: TREE, order: "bytewise".into(), family: 0, directory });
    match workload.load {
        Load::InOrder => lsm.load(),
        Load::Draws(draws) => lsm.write_random(draws),
    }
    lsm.record(TraceEvent::Mark { name: LOADED.into() });
    lsm.change_popularity();
    lsm.write_random(workload.overwrites);
    lsm.trace
}

impl Lsm {
    fn load(&mut self) {
        let per_table = self.pairs_per_table();
        let mut from = 0;
        while from < self.workload.keys {
            let pairs = per_table.min(self.workload.keys - from);
            self.flush(Run { first: from, last: from + pairs - 1, pairs, shares: [1.0; CLASSES] });
            from += pairs;
        }
    }

    /// From now on keys are drawn by the popularity of the overwrites; what is there was drawn uniformly.
    fn change_popularity(&mut self) {
        if self.workload.skew <= 0.0 {
            return;
        }
        self.popularity = Popularity::zipf(self.workload.keys, self.workload.skew);
        self.levels.iter_mut().flatten().for_each(|table| table.run.shares = [table.run.density(); CLASSES]);
    }

    fn write_random(&mut self, mut left: u64) {
        let per_table = self.pairs_per_table();
        while left > 0 {
            let draws = per_table.min(left);
            left -= draws;
            let (first, last) = self.ends(draws);
            self.flush(self.popularity.drawn(draws, (first, last)));
        }
    }

    /// The least and the greatest of so many uniform keys.
    fn ends(&mut self, draws: u64) -> (u64, u64) {
        let keys = self.workload.keys;
        let margin = (keys / draws.max(1)).clamp(1, keys);
        let first = self.rng.below(margin);
        let last = keys - 1 - self.rng.below(margin);
        (first.min(last), first.max(last))
    }

    fn pairs_per_table(&self) -> u64 {
        (self.workload.table_bytes / self.workload.pair_bytes).max(1)
    }

    fn record(&mut self, event: TraceEvent) {
        let at_us = self.trace.len() as u64;
        self.trace.push(TraceRecord { at_us, event });
    }

    fn new_file(&mut self, suffix: &str) -> (FileId, FilePath) {
        let file = self.next_file;
        self.next_file += 1;
        (FileId(file), path(FileId(file), suffix))
    }

    /// A memtable was filled, behind its log, and becomes a table of level 0.
    fn flush(&mut self, run: Run) {
        let (log, log_path) = self.new_file("log");
        self.record(TraceEvent::Create { file: log, tags: FileTags::of(FileKind::Log), path: log_path.clone() });
        self.record(TraceEvent::Append { file: log, bytes: run.pairs * self.workload.pair_bytes });
        self.record(TraceEvent::Close { file: log });
        let job = self.begin_job(JobKind::Flush, 0, &[]);
        let table = self.write_table(job, 0, run);
        self.end_job(job, &[], &[(table.clone(), 0)]);
        self.levels[0].push(table);
        self.record(TraceEvent::Unlink { path: log_path });
        while let Some(level) = self.due() {
            self.compact(level);
        }
    }

    fn begin_job(&mut self, kind: JobKind, level: usize, inputs: &[Table]) -> JobId {
        let job = JobId(self.next_job);
        self.next_job += 1;
        let inputs = inputs.iter().map(|table| table.file).collect();
        self.record(TraceEvent::JobBegin { job, tree: TREE, kind, output_level: Some(number(level)), inputs });
        job
    }

    fn end_job(&mut self, job: JobId, removed: &[Table], added: &[(Table, usize)]) {
        self.edit(removed, added);
        self.record(TraceEvent::JobEnd { job });
    }

    fn edit(&mut self, removed: &[Table], added: &[(Table, usize)]) {
        let removed = removed.iter().map(|table| table.file).collect();
        let added = added.iter().map(|(table, level)| (table.file, number(*level), keys(&table.run))).collect();
        self.record(TraceEvent::Edit { tree: TREE, removed, added });
    }

    fn write_table(&mut self, job: JobId, level: usize, run: Run) -> Table {
        let (file, path) = self.new_file("sst");
        let kind = if level == 0 { FileKind::Flushed } else { FileKind::Data };
        let tags = FileTags::of(kind).with_lifetime(lifetime(level)).with_level(number(level));
        self.record(TraceEvent::Create { file, tags, path });
        let (tree, job, level) = (TREE, Some(job), number(level));
        self.record(TraceEvent::Describe { file, tree, job, level, range: None });
        self.record(TraceEvent::Append { file, bytes: run.pairs * self.workload.pair_bytes });
        self.record(TraceEvent::Describe { file, tree, job, level, range: Some(keys(&run)) });
        self.record(TraceEvent::Sync { file });
        self.record(TraceEvent::Close { file });
        Table { file, run }
    }

    /// The level with the highest score, if that is 1 or more.
    fn due(&self) -> Option<usize> {
        let scores = (0..LEVELS - 1).map(|level| (self.score_percent(level), level));
        scores.max_by_key(|(score, level)| (*score, LEVELS - level)).filter(|(score, _)| *score >= 100).map(|due| due.1)
    }

    fn score_percent(&self, level: usize) -> u64 {
        if level == 0 {
            return (self.levels[0].len() * 100 / self.workload.level0_files.max(1)) as u64;
        }
        let bytes: u64 = self.levels[level].iter().map(|table| table.run.pairs * self.workload.pair_bytes).sum();
        let limit = self.workload.level_bytes * 10_u64.pow(u32::try_from(level).expect("seven levels") - 1);
        bytes * 100 / limit.max(1)
    }

    fn compact(&mut self, level: usize) {
        let upper = if level == 0 { std::mem::take(&mut self.levels[0]) } else { vec![self.take_best(level)] };
        let lower: Vec<Table> = {
            let overlaps = |table: &mut Table| upper.iter().any(|other| other.run.overlaps(&table.run));
            self.levels[level + 1].extract_if(.., overlaps).collect()
        };
        let apart = |(at, one): (usize, &Table)| upper[at + 1..].iter().all(|other| !one.run.overlaps(&other.run));
        if lower.is_empty() && upper.iter().enumerate().all(apart) {
            let moved: Vec<(Table, usize)> = upper.iter().map(|table| (table.clone(), level + 1)).collect();
            self.edit(&upper, &moved);
            self.levels[level + 1].extend(upper);
            return;
        }
        let inputs: Vec<Table> = upper.into_iter().chain(lower).collect();
        let job = self.begin_job(JobKind::Compaction, level + 1, &inputs);
        let runs: Vec<Run> = inputs.iter().map(|table| table.run).collect();
        let merged = merge(&runs, self.pairs_per_table(), &self.popularity);
        let outputs: Vec<Table> = merged.into_iter().map(|run| self.write_table(job, level + 1, run)).collect();
        let added: Vec<(Table, usize)> = outputs.iter().map(|table| (table.clone(), level + 1)).collect();
        self.end_job(job, &inputs, &added);
        self.levels[level + 1].extend(outputs);
        inputs.iter().for_each(|table| self.record(TraceEvent::Unlink { path: path(table.file, "sst") }));
    }

    /// The table with the least overlap below for its size, out of its level.
    fn take_best(&mut self, level: usize) -> Table {
        let below = &self.levels[level + 1];
        let overlap = |table: &Table| {
            let pairs = below.iter().filter(|other| other.run.overlaps(&table.run)).map(|other| other.run.pairs);
            pairs.sum::<u64>().saturating_mul(1000) / table.run.pairs.max(1)
        };
        let ranked = self.levels[level].iter().enumerate().map(|(at, table)| (overlap(table), table.file, at));
        let (.., at) = ranked.min().expect("a level over its limit has tables");
        self.levels[level].swap_remove(at)
    }
}

/// The hint that `RocksDB` gives for a level.
fn lifetime(level: usize) -> Lifetime {
    match level {
        0 | 1 => Lifetime::Medium,
        2 => Lifetime::Long,
        _ => Lifetime::Extreme,
    }
}

fn number(level: usize) -> u8 {
    u8::try_from(level).expect("seven levels")
}

fn keys(run: &Run) -> KeyRange {
    KeyRange::new(run.first.to_be_bytes(), run.last.to_be_bytes())
}

fn path(file: FileId, suffix: &str) -> FilePath {
    FilePath::parse(&format!("/{:06}.{suffix}", file.0)).expect("a good path")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn small() -> LsmWorkload {
        LsmWorkload::of_the_caza_paper(1000, 1)
    }

    #[test]
    fn the_levels_never_overlap_and_hold_all_keys() {
        let mut live: BTreeMap<FileId, (u8, KeyRange)> = BTreeMap::new();
        for record in trace(small()) {
            let TraceEvent::Edit { removed, added, .. } = record.event else { continue };
            removed.iter().for_each(|file| drop(live.remove(file)));
            added.into_iter().for_each(|(file, level, range)| drop(live.insert(file, (level, range))));
            for level in 1..7 {
                let mut ranges: Vec<&KeyRange> =
                    live.values().filter(|(at, _)| *at == level).map(|(_, range)| range).collect();
                ranges.sort_by(|one, other| one.smallest.cmp(&other.smallest));
                assert!(ranges.windows(2).all(|pair| pair[0].largest < pair[1].smallest), "level {level}");
            }
        }
        assert!(live.len() > 500, "{} tables of some 600", live.len());
    }

    #[test]
    fn every_table_that_leaves_is_unlinked_and_no_other() {
        let (mut made, mut gone) = (0, 0);
        for record in trace(small()) {
            match record.event {
                TraceEvent::Create { .. } => made += 1,
                TraceEvent::Unlink { .. } => gone += 1,
                _ => {}
            }
        }
        assert!(gone > 1000 && made - gone > 500 && made - gone < 1200, "{made} made, {gone} gone");
    }

    #[test]
    fn one_seed_is_one_trace() {
        assert_eq!(trace(small()), trace(small()));
        assert_ne!(trace(small()), trace(LsmWorkload { seed: 2, ..small() }));
    }
}
