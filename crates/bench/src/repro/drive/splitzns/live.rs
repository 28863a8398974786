//! Stock `db_bench` through the plugin on the modelled drive, in dilated time: what the live figures have in common.
//!
//! A system is a policy, a part of the drive's extensions and a share of zones that may be split; options of `RocksDB` are the same for all
//! ([`options`]). Each policy is loaded once, untimed, and its drive cloned for every system and workload, which then runs at dilation
//! [`Live::k`]. Rows are in the drive's time: operations per second times k, latencies over k. The set-up was chosen by bytes alone,
//! untimed ([`setup`](super::setup)).

pub(super) mod db_bench;
pub(super) mod images;
pub(super) mod options;

use std::sync::Arc;

use super::super::made::Maker;
use super::super::seeds::void;
pub(super) use super::super::seeds::{CPU, MACHINE, VOID};
use super::super::{DriveResults, DriveRow, Point, TOLD, printed};
use super::PROFILE;
use crate::Result;
use crate::report::Table;
use crate::repro::Scale;
use db_bench::{Outcome, Tools};
use images::Images;
use options::{COPY_BUFFER, LOG_BUFFER, RocksOptions};

/// Operations per second.
pub(super) const OPS: &str = "ops/s";
/// The same of writes and the compactions that they leave behind: what is due is waited for, and counts.
pub(super) const SETTLED: &str = "settled ops/s";
/// Percentiles of the operation that the workload is about, in microseconds.
pub(super) const P50: &str = "P50 us";
/// See [`P50`].
pub(super) const P99: &str = "P99 us";
/// See [`P50`].
pub(super) const P999: &str = "P99.9 us";
/// Percentiles of the other operation, where there are two: reads beside writes.
pub(super) const READ_P99: &str = "read P99 us";
/// Share of the time in which writers were held up.
pub(super) const STALLED: &str = "stalled %";
/// What compactions wrote in the time that they took.
pub(super) const COMPACTION: &str = "compaction MB/s";
/// Copied by cleaning.
pub(super) const COPIED: &str = "copied MiB";
/// Written to the drive.
pub(super) const WRITTEN: &str = "written MiB";
/// Of the live bytes.
pub(super) const LIVE_IN: &str = "live in subzones %";
/// Of the bytes of tables that were written.
pub(super) const WRITTEN_IN: &str = "written in subzones %";
/// Live bytes over the drive's, at the end.
pub(super) const LIVE_OF: &str = "live of the drive %";
/// Tables that were to have a subzone and got none, of all that were to have one.
pub(super) const REFUSED: &str = "refused %";
/// Of the same, those for which no more zones could be split.
const REFUSED_FOR_SHARE: &str = "for the share %";
/// Those for which no zone was empty.
const REFUSED_FOR_ZONES: &str = "for zones %";
/// Those for which all tokens were held.
const REFUSED_FOR_TOKENS: &str = "for tokens %";
/// Subzones that were given to tables for wide zones, for want of these: of all that were given to tables.
const PRESSED: &str = "pressed %";
/// Tables that cleaning moved into subzones.
const MOVED_IN: &str = "moved into subzones";
/// Bytes of tables behind the ends of their subzones.
pub(super) const OVERFLOW: &str = "overflow MiB";
/// Reads of subzones of which the drive guessed right whether they were of a compaction (section 4.5.3).
pub(super) const TOLD_RIGHT: &str = "told right %";
/// Reads of subzones by compactions that were answered from what was read ahead. Not of all reads in order: those of a mount, of
/// headers, are among them.
pub(super) const PREREAD_HITS: &str = "preread hits %";
/// Writes that waited for room in the ring.
pub(super) const RING_WAITS: &str = "ring waits";
/// Most erasures of one block since the drive was opened, loading left out.
pub(super) const WEAR: &str = "wear, most";
/// Fewest erasures of one block.
pub(super) const WEAR_LEAST: &str = "wear, least";
/// Of all blocks.
pub(super) const WEAR_MEAN: &str = "wear, mean";
/// Memory of ring, prefetcher and table of blocks (section 4.5.1).
pub(super) const MEMORY: &str = "drive memory MiB";

/// Columns of the live figures.
pub(super) const COLUMNS: &[&str] = &[
    OPS, P50, P99, P999, READ_P99, STALLED, COMPACTION, COPIED, WRITTEN, LIVE_IN, WRITTEN_IN, LIVE_OF, TOLD_RIGHT, CPU,
    MACHINE, VOID,
];
/// What of the drive stands in a table of its own.
const OF_DRIVE: [&str; 13] = [
    WEAR,
    WEAR_MEAN,
    WEAR_LEAST,
    RING_WAITS,
    PREREAD_HITS,
    REFUSED,
    REFUSED_FOR_SHARE,
    REFUSED_FOR_ZONES,
    REFUSED_FOR_TOKENS,
    PRESSED,
    MOVED_IN,
    OVERFLOW,
    MEMORY,
];
/// Bytes of tables that came to a level: its number follows.
const CREATED: &str = "created MiB L";
/// Those that moved there without being written.
const MOVED: &str = "moved MiB L";
/// Those that cleaning copied.
const COPIED_OF: &str = "copied MiB L";

/// Tables of their own below that of the columns: bytes by level, first of all, and what the drive did. Empty for what is not live.
pub(in super::super) fn tables(shown: &DriveResults) -> String {
    let rows: Vec<&DriveRow> = shown.rows.iter().filter(|row| row.numbers.contains_key(WEAR)).collect();
    let mut levels: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| row.numbers.keys()).filter(|name| name.starts_with(CREATED)) {
        if !levels.contains(&name.as_str()) {
            levels.push(name);
        }
    }
    levels.sort_unstable();
    let others = [MOVED, COPIED_OF].map(|other| levels.iter().map(move |level| level.replace(CREATED, other)));
    let others: Vec<String> = others.into_iter().flatten().collect();
    let of_levels: Vec<&str> = levels.iter().copied().chain(others.iter().map(String::as_str)).collect();
    let mut text = String::new();
    for (what, columns) in [("bytes of tables by level", &of_levels[..]), ("the drive", &OF_DRIVE[..])] {
        if rows.is_empty() || columns.is_empty() {
            continue;
        }
        let mut table = Table::new(&[&["what", "at"], columns].concat());
        for row in &rows {
            let number = |column: &&str| row.numbers.get(*column).map_or("-".to_owned(), |value| format!("{value:.1}"));
            table.row([row.series.clone(), row.x.clone()].into_iter().chain(columns.iter().map(number)));
        }
        text.push_str(&format!("\n{what}:\n{}", table.render()));
    }
    text
}

/// A system: what places tables, and what the drive does for subzones.
#[derive(Clone, Copy, Debug)]
pub(super) struct System {
    pub(super) name: &'static str,
    /// Keys of the file system's name.
    policy: &'static str,
    /// The drive's `split`.
    split: &'static str,
}

/// The steps of the break-down (section 5.4), `LDP`, and the policy that looks where tables will move.
pub(super) const SYSTEMS: [System; 7] = [
    System { name: "ldp", policy: "policy=ldp&clean_threshold=20", split: "all" },
    System { name: "native", policy: "policy=splitzns,from=0,share=90&clean_threshold=20", split: "native" },
    System { name: "+diff", policy: "policy=splitzns&clean_threshold=20", split: "native" },
    System { name: "+SZR", policy: "policy=splitzns&clean_threshold=20", split: "ring" },
    System { name: "+RP", policy: "policy=splitzns&clean_threshold=20", split: "prefetch" },
    System { name: "+RS", policy: "policy=splitzns&clean_threshold=20", split: "all" },
    System { name: "splitzns+", policy: "policy=splitzns%2B&clean_threshold=20", split: "all" },
];
/// The whole by the paper's rule: a table that finds no subzone goes by its lifetime at once.
pub(super) const STRICT: System =
    System { name: "rule=paper", policy: "policy=splitzns,rule=paper&clean_threshold=20", split: "all" };
/// The whole, with subzones for level 3 as well, which no system of the paper's has.
pub(super) const DEEPER: System =
    System { name: "from=3", policy: "policy=splitzns,from=3&clean_threshold=20", split: "all" };
/// The same with cleaning that waits for what `RocksDB` is about to delete.
pub(super) const WAITING: System =
    System { name: "wait=doomed", policy: "policy=splitzns,from=3,wait=doomed&clean_threshold=20", split: "all" };

/// A run on a loaded drive: words for `db_bench`, and the workloads that it is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    name: &'static str,
    arguments: &'static [&'static str],
    works: &'static [Work],
}

/// A workload: a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
    /// The step of `db_bench` that is reported.
    pub(super) step: &'static str,
    /// Whether the workload is about its writes.
    pub(super) is_of_writes: bool,
}

/// Overwriting.
pub(super) const OVERWRITE: Work = Work { name: "overwrite", step: "overwrite", is_of_writes: true };
/// Reading right behind it: while what was written is compacted.
pub(super) const READRANDOM: Work = Work { name: "readrandom", step: "readrandom", is_of_writes: false };
/// Both, one after the other; what the file system reports is of both.
pub(super) const BURST: Run = Run {
    name: "burst",
    arguments: &["--benchmarks=overwrite,stats,readrandom,stats"],
    works: &[OVERWRITE, READRANDOM],
};
/// Overwriting, what is due for it, and reading from a tree in which nothing is left to compact.
pub(super) const SETTLING: Run = Run {
    name: "settling",
    arguments: &["--benchmarks=overwrite,stats,waitforcompaction,stats,readrandom,stats"],
    works: &[OVERWRITE, READRANDOM],
};

/// Sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    /// The drive is so many times smaller than the paper's.
    pub(super) divisor: u64,
    /// Dilation; nothing if only bytes are counted.
    time: Option<u64>,
    /// Zones of the drive.
    zones: u64,
    /// Keys that are loaded, each once.
    keys: u64,
    /// Overwrites of each of the threads.
    operations: u64,
    /// Behind the names of workloads.
    label: &'static str,
    options: RocksOptions,
}

const THREADS: u64 = 4;
/// Reads of each thread of a step that only reads: enough for a 99.9th percentile.
pub(super) const READS_MAX: u64 = 4_000;
/// Pairs that are loaded at full size, in bytes: 55 % of the drive. Chosen by [`setup`](super::setup).
pub(super) const LOADED_BYTES: u64 = 44 << 30;
/// Limit of level 1 at full size: with more, most of the tree would be above level 4.
pub(super) const BASE_BYTES: u64 = 51 << 20;
/// Keys of a tiny run.
const TINY_KEYS: u64 = 3_000;

impl Live {
    /// Of figures 13 to 15 and the controls.
    pub(super) fn of(scale: Scale) -> Self {
        Self::at(scale, scale.pick(256, 16, 8), scale.pick(4, 10, 10))
    }

    /// Of the figures with more runs: half as large.
    pub(super) fn of_half(scale: Scale) -> Self {
        Self::at(scale, scale.pick(256, 32, 16), scale.pick(4, 10, 10))
    }

    /// The paper's 160 zones and four threads of a million operations, divided.
    fn at(scale: Scale, divisor: u64, k: u64) -> Self {
        let keys = LOADED_BYTES / super::PAIR_BYTES / divisor;
        let operations = 1_000_000 / divisor;
        let options =
            RocksOptions::scaled(divisor, k, scale.pick(16 << 10, BASE_BYTES / divisor, BASE_BYTES / divisor));
        Self {
            divisor,
            time: Some(k),
            zones: scale.pick(40, 160, 160),
            keys: scale.pick(TINY_KEYS, keys, keys),
            operations: scale.pick(300, operations, operations),
            label: "",
            options,
        }
    }

    /// The same untimed, with so much loaded and such a limit of level 1, both at full size (not for tiny runs), and held up no more than a
    /// load.
    pub(super) fn untimed(self, loaded_bytes: u64, base_bytes: u64) -> Self {
        let keys = loaded_bytes / super::PAIR_BYTES / self.divisor;
        let is_tiny = self.keys == TINY_KEYS;
        let options = RocksOptions::scaled(self.divisor, 1, base_bytes / self.divisor).for_loading();
        match is_tiny {
            true => Self { time: None, options: self.options.for_loading(), ..self },
            false => Self { time: None, keys, options, ..self },
        }
    }

    /// The same with so many times as many overwrites.
    pub(super) fn longer(self, times: u64) -> Self {
        Self { operations: times * self.operations, ..self }
    }

    /// The same with so many bytes loaded at full size (not for tiny runs), which `label` says behind the names of workloads.
    pub(super) fn loaded(self, bytes: u64, label: &'static str) -> Self {
        let keys = if self.keys == TINY_KEYS { TINY_KEYS } else { bytes / super::PAIR_BYTES / self.divisor };
        Self { keys, label, ..self }
    }

    /// See [`loaded`](Self::loaded).
    pub(super) fn label(&self) -> &'static str {
        self.label
    }

    /// A workload's name in results.
    pub(super) fn named(&self, work: &Work) -> String {
        format!("{}{}", work.name, self.label)
    }

    /// Whether time is the drive's, not only bytes.
    pub(super) fn is_timed(&self) -> bool {
        self.time.is_some()
    }

    /// Dilation.
    pub(super) fn k(&self) -> u64 {
        self.time.unwrap_or(1)
    }

    /// Reads of each thread.
    pub(super) fn reads(&self) -> u64 {
        self.operations.min(READS_MAX)
    }

    /// Zones of the drive.
    pub(super) fn zones(&self) -> u64 {
        self.zones
    }

    /// Operations of each thread.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// Limit of level 1.
    pub(super) fn base_bytes(&self) -> u64 {
        self.options.base_bytes()
    }

    /// All that a run is told: name, the paper's or the default, ours.
    pub(super) fn lines(&self) -> Vec<options::Line> {
        let pair = super::PAIR_BYTES;
        let sizes = Sizes { keys: self.keys, pair, operations: self.operations, reads: self.reads() };
        sizes.lines(self.divisor, self.k()).into_iter().chain(self.options.lines()).collect()
    }

    /// The name of the drive with a system's file system.
    fn uri(&self, system: &System, path: &std::path::Path, is_timed: bool) -> String {
        let Self { divisor, zones, .. } = self;
        let time = if is_timed { format!("k={}", self.k()) } else { "time=untimed".to_owned() };
        let (policy, split) = (system.policy.replace("%2B", "+"), system.split);
        let data = path.display();
        format!(
            "zonda://flash:{PROFILE}?scale=1/{divisor}&zones={zones}&{time}&split={split}&data={data}&{policy}&log_buffer={LOG_BUFFER}&copy_buffer={COPY_BUFFER}"
        )
    }
}

/// How much a run does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) keys: u64,
    /// Bytes of a pair.
    pub(super) pair: u64,
    /// Of each thread.
    pub(super) operations: u64,
    /// Of each thread, of a step that only reads.
    pub(super) reads: u64,
}

impl Sizes {
    /// As [`options::RocksOptions::lines`], before them: the drive, and how much is loaded and done.
    pub(super) fn lines(self, divisor: u64, k: u64) -> Vec<options::Line> {
        let line = |name, paper: &str, ours: u64| (name, paper.to_owned(), ours.to_string());
        vec![
            ("drive", "1".to_owned(), format!("1/{divisor}")),
            line("dilation", "1", k),
            line("threads", "4", THREADS),
            line("bytes loaded", "50 GiB, about", self.keys * self.pair),
            line("keys loaded", "-", self.keys),
            line("operations of a thread", "1000000", self.operations),
            line("reads of a thread", "1000000", self.reads),
            ("log_buffer of the file system", "1MiB".to_owned(), LOG_BUFFER.to_owned()),
            ("copy_buffer of the file system", "128KiB".to_owned(), COPY_BUFFER.to_owned()),
        ]
    }
}

/// A point for each size, system and run, in this order.
pub(super) fn points(lives: &[Live], systems: &[&str], runs: &[Run]) -> Vec<Point> {
    let images = Arc::new(Images::default());
    let mut points = Vec::new();
    let systems: Vec<&System> = systems.iter().filter_map(|name| system(name)).collect();
    let of_live = |live: &Live| systems.iter().map(|system| (*live, **system)).collect::<Vec<_>>();
    let of_system = |pair: (Live, System)| runs.iter().map(move |run| (pair, *run));
    for ((live, system), run) in lives.iter().flat_map(of_live).flat_map(of_system) {
        let images = Arc::clone(&images);
        let id = format!("live {} {}{} 1/{} k={}", system.name, run.name, live.label, live.divisor, live.k());
        let run = move |seed| one((&live, &images), (&system, &run), |work| live.named(work), seed);
        points.push(Point::new(id, Maker::Plugin(Some(PROFILE)), run).told(live.options.text()));
    }
    points
}

/// One of [`SYSTEMS`], or [`STRICT`], [`DEEPER`] or [`WAITING`].
fn system(name: &str) -> Option<&'static System> {
    SYSTEMS.iter().chain([&STRICT, &DEEPER, &WAITING]).find(|system| system.name == name)
}

/// Overwriting and reading on a drive that is loaded for this alone, untimed.
pub(super) fn counted(live: Live, name: &'static str, x: String) -> Point {
    let run = {
        let x = x.clone();
        move |seed| {
            let Some(system) = system(name) else { return Ok(Vec::new()) };
            let rows = one((&live, &Images::default()), (system, &BURST), |_| x.clone(), seed)?;
            Ok(rows.into_iter().take(1).collect())
        }
    };
    let id = format!("{} untimed {name} {x} 1/{}", super::super::LIVE, live.divisor);
    Point::new(id, Maker::Plugin(Some(PROFILE)), run).told(live.options.text())
}

/// A row for each workload, or none with a line why.
fn one(
    (live, images): (&Live, &Images),
    (system, run): (&System, &Run),
    x: impl Fn(&Work) -> String,
    seed: u64,
) -> Result<Vec<DriveRow>> {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(missing) => {
            eprintln!("not run: {missing}");
            return Ok(Vec::new());
        }
    };
    let image = images.of(live, system, &tools, seed)?;
    let outcome = db_bench::run(&tools, live, system, (&image, run.arguments), seed)?;
    Ok(run.works.iter().map(|work| row(live, (system, work), x(work), &outcome)).collect())
}

fn row(live: &Live, (system, work): (&System, &Work), x: String, outcome: &Outcome) -> DriveRow {
    let row = DriveRow {
        series: system.name.to_owned(),
        x,
        profile: super::super::LIVE.to_owned(),
        k: u32::try_from(live.k()).ok(),
        ..DriveRow::default()
    };
    let mut row = numbers(row, (live.k(), (32 << 20) / live.divisor), work, outcome);
    if !live.is_timed() {
        // Bytes are what they are, however busy the machine is.
        row.numbers.remove(VOID);
    }
    row.option("scale", format!("1/{}", live.divisor))
        .option("threads", THREADS)
        .option("operations of a thread", live.operations)
        .option("reads of a thread", live.reads())
        .option("keys", live.keys)
        .option("log buffer", LOG_BUFFER)
        .option(TOLD, live.options.text())
}

/// A row with what came out, in the drive's time: of dilation, bytes of a subzone, workload and outcome.
pub(super) fn numbers(row: DriveRow, (k, subzone_bytes): (u64, u64), work: &Work, outcome: &Outcome) -> DriveRow {
    let k = k as f64;
    let step = outcome.steps.iter().find(|step| step.name == work.step);
    let (mut of_writes, mut of_reads) = (None, None);
    if let Some(step) = step {
        (of_writes, of_reads) = (step.writes, step.reads);
    }
    let (first, other) = if work.is_of_writes { (of_writes, of_reads) } else { (of_reads.or(of_writes), None) };
    let report = |name: &str| outcome.report.get(name).copied().unwrap_or(0.0);
    let mib = |name: &str| report(name) / 1_048_576.0;
    let in_subzones = report("subzones_full") * subzone_bytes as f64 - report("subzones_wasted_bytes");
    let share = |part: &str, whole: f64| (whole > 0.0).then(|| 100.0 * report(part) / whole);
    let wanted = report("subzone_tables_refused") + report("subzone_tables");
    let given = report("subzone_tables_pressed") + report("subzone_tables");
    let row = row
        .number(WRITTEN_IN, share("subzone_bytes", report("table_bytes")))
        .number(LIVE_OF, share("live_bytes", report("capacity_bytes")))
        .number(REFUSED, share("subzone_tables_refused", wanted))
        .number(REFUSED_FOR_SHARE, share("subzone_tables_refused_for_share", wanted))
        .number(REFUSED_FOR_ZONES, share("subzone_tables_refused_for_zones", wanted))
        .number(REFUSED_FOR_TOKENS, share("subzone_tables_refused_for_tokens", wanted))
        .number(PRESSED, share("subzone_tables_pressed", given))
        .number(MOVED_IN, report("subzone_tables_moved"))
        .number(OVERFLOW, mib("subzone_overflow_bytes"))
        .number(TOLD_RIGHT, share("reads_told_right", report("reads_told_right") + report("reads_told_wrong")))
        .number(PREREAD_HITS, share("preread_hits", report("subzone_compaction_read_count")))
        .number(RING_WAITS, report("ring_waits"))
        .number(WEAR, report("flash_wear_max"))
        .number(WEAR_LEAST, report("flash_wear_min"))
        .number(WEAR_MEAN, report("flash_wear_total") / report("flash_blocks").max(1.0))
        .number(MEMORY, mib("ring_memory_bytes") + mib("preread_memory_bytes") + mib("split_table_memory_bytes"));
    let mut row = row;
    for of in &outcome.levels {
        for (name, bytes) in [(CREATED, of.created), (MOVED, of.moved), (COPIED_OF, of.copied)] {
            row = row.number(&format!("{name}{}", of.level), bytes / 1_048_576.0);
        }
    }
    row.number(OPS, step.map(|step| step.per_second * k))
        .number(SETTLED, step.and_then(printed::Step::settled_per_second).map(|speed| speed * k))
        .number(P50, first.map(|latency| latency.p50 / k))
        .number(P99, first.map(|latency| latency.p99 / k))
        .number(P999, first.map(|latency| latency.p999 / k))
        .number(READ_P99, other.map(|latency| latency.p99 / k))
        .number(STALLED, step.and_then(|step| step.stalled_percent))
        .number(COMPACTION, step.and_then(|step| step.compaction_mb_s).map(|speed| speed * k))
        .number(COPIED, mib("copied_bytes"))
        .number(WRITTEN, mib("written_bytes"))
        .number(LIVE_IN, 100.0 * in_subzones.max(0.0) / report("live_bytes").max(1.0))
        .number(CPU, outcome.cpu_percent)
        .number(MACHINE, outcome.machine_percent)
        .number(VOID, void(outcome.cpu_percent, outcome.machine_percent))
}

#[cfg(test)]
mod tests {
    use super::db_bench::OfLevel;
    use super::*;

    #[test]
    fn bytes_by_level_and_wear_stand_in_tables_of_their_own() {
        let mut outcome = Outcome {
            levels: vec![
                OfLevel { created: 2_097_152.0, ..OfLevel::default() },
                OfLevel { level: 4, moved: 1_048_576.0, copied: 3_145_728.0, ..OfLevel::default() },
            ],
            ..Outcome::default()
        };
        let report =
            [("flash_wear_max", 7.0), ("flash_wear_min", 1.0), ("flash_wear_total", 10.0), ("flash_blocks", 4.0)];
        outcome.report = report.map(|(name, value)| (name.to_owned(), value)).into();
        let mut results = DriveResults::new("splitzns-fig13", Scale::Laptop);
        results.rows = vec![numbers(DriveRow::of("ldp", "overwrite"), (10, 1 << 21), &OVERWRITE, &outcome)];
        let text = tables(&results);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let of = |cells: &[&str]| lines.iter().any(|line| line.starts_with(cells));
        assert!(text.contains("created MiB L0") && text.contains("moved MiB L4"), "{text}");
        assert!(
            of(&["ldp", "overwrite", "2.0", "0.0", "0.0", "1.0", "0.0", "3.0"])
                && of(&["ldp", "overwrite", "7.0", "2.5", "1.0"]),
            "{text}"
        );
        assert_eq!(tables(&DriveResults::new("zns-fig1", Scale::Laptop)), "");
    }
}
