//! Stock `db_bench` through the plugin on the modelled drive, in dilated time: what the live figures have in common.
//!
//! A system is a policy, a part of the drive's extensions and a share of zones that may be split; options of `RocksDB` are the same for all
//! ([`options`]). Each policy is loaded once, untimed, and its drive cloned for every system and workload, which then runs at dilation
//! [`Live::k`]. Rows are in the drive's time: operations per second times k, latencies over k.

pub(super) mod db_bench;
mod images;
pub(super) mod options;

use std::sync::Arc;

use super::super::{DriveRow, Point};
use crate::Result;
use crate::repro::Scale;
use db_bench::{Outcome, Tools};
use images::Images;
use options::RocksOptions;

/// Operations per second.
pub(super) const OPS: &str = "ops/s";
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
/// CPU time of `db_bench`, the modelled drive in it, over the machine's.
pub(super) const CPU: &str = "CPU %";
/// The processors' busy time, all programs together.
pub(super) const MACHINE: &str = "machine busy %";
/// 1 if the row is void: [`CPU`] above 60.
pub(super) const VOID: &str = "void";
/// Of the live bytes.
pub(super) const LIVE_IN: &str = "live in subzones %";
/// A run above this share says more about the host than about the drive.
const CPU_PERCENT_MAX: f64 = 60.0;

/// Columns of the live figures.
pub(super) const COLUMNS: &[&str] =
    &[OPS, P50, P99, P999, READ_P99, STALLED, COMPACTION, COPIED, WRITTEN, LIVE_IN, CPU, MACHINE, VOID];

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
/// One thread writes while the others read; not in the paper.
pub(super) const READWHILEWRITING: Run = Run {
    name: "readwhilewriting",
    arguments: &["--benchmarks=readwhilewriting,stats"],
    works: &[Work { name: "readwhilewriting", step: "readwhilewriting", is_of_writes: false }],
};
/// The mixes of YCSB with the skew of `mixgraph`: a power law that gives the most popular hundredth of the keys two thirds of the
/// accesses, as Zipf's 0.99 does.
macro_rules! mix {
    ($name:literal, $get:literal, $put:literal, $seek:literal, $writes:literal) => {
        Run {
            name: $name,
            arguments: &[
                "--benchmarks=mixgraph,stats",
                concat!("--mix_get_ratio=", $get),
                concat!("--mix_put_ratio=", $put),
                concat!("--mix_seek_ratio=", $seek),
                "--mix_max_scan_len=100",
                "--value_theta=1024",
                "--value_k=0",
                "--value_sigma=0.001",
                "--key_dist_b=0.087",
            ],
            works: &[Work { name: $name, step: "mixgraph", is_of_writes: $writes }],
        }
    };
}
/// Half reads, half writes.
pub(super) const YCSB_A: Run = mix!("YCSB-A mix", "0.5", "0.5", "0", true);
/// 95 % reads.
pub(super) const YCSB_B: Run = mix!("YCSB-B mix", "0.95", "0.05", "0", false);
/// Reads only.
pub(super) const YCSB_C: Run = mix!("YCSB-C mix", "1", "0", "0", false);
/// 95 % scans.
pub(super) const YCSB_E: Run = mix!("YCSB-E mix", "0", "0.05", "0.95", false);

/// Sizes of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    /// The drive is so many times smaller than the paper's.
    pub(super) divisor: u64,
    /// Dilation.
    pub(super) k: u64,
    /// Zones of the drive.
    zones: u64,
    /// Keys that are loaded, each once.
    keys: u64,
    /// Operations of each of the threads.
    operations: u64,
    options: RocksOptions,
}

const THREADS: u64 = 4;

impl Live {
    /// The paper's: 160 zones, some 42 GiB loaded, four threads of a million operations, divided.
    pub(super) fn of(scale: Scale) -> Self {
        let (divisor, k) = (scale.pick(256, 64, 8), scale.pick(4, 20, 20));
        let keys =
            scale.pick(3_000, (42 << 30) / super::PAIR_BYTES / divisor, (42 << 30) / super::PAIR_BYTES / divisor);
        let operations = scale.pick(300, 1_000_000 / divisor, 1_000_000 / divisor);
        // As in the replays: with more most of the tree would be above level 4.
        let base = scale.pick(16 << 10, (51 << 20) / divisor, (51 << 20) / divisor);
        let options = RocksOptions::scaled(divisor, k, base);
        Self { divisor, k, zones: scale.pick(40, 160, 160), keys, operations, options }
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

    /// Options of `RocksDB`.
    pub(super) fn rocksdb_lines(&self) -> Vec<options::Line> {
        self.options.lines()
    }

    /// The name of the drive with a system's file system.
    fn uri(&self, system: &System, path: &std::path::Path, is_timed: bool) -> String {
        let Self { divisor, k, zones, .. } = self;
        let time = if is_timed { format!("k={k}") } else { "time=untimed".to_owned() };
        let (policy, split) = (system.policy.replace("%2B", "+"), system.split);
        let data = path.display();
        format!("zonda://flash:splitzns?scale=1/{divisor}&zones={zones}&{time}&split={split}&data={data}&{policy}")
    }
}

/// A point for each system and run, in this order.
pub(super) fn points(scale: Scale, systems: &[&str], runs: &[Run]) -> Vec<Point> {
    let images = Arc::new(Images::default());
    let mut points = Vec::new();
    let systems = systems.iter().filter_map(|name| SYSTEMS.iter().find(|system| system.name == *name));
    for (system, run) in systems.flat_map(|system| runs.iter().map(move |run| (*system, *run))) {
        let (live, images) = (Live::of(scale), Arc::clone(&images));
        let id = format!("live {} {} 1/{} k={}", system.name, run.name, live.divisor, live.k);
        points.push(Point { id, run: Box::new(move |seed| one(&live, &images, (&system, &run), seed)) });
    }
    points
}

/// A row for each workload, or none with a line why.
fn one(live: &Live, images: &Images, (system, run): (&System, &Run), seed: u64) -> Result<Vec<DriveRow>> {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(missing) => {
            eprintln!("not run: {missing}");
            return Ok(Vec::new());
        }
    };
    let image = images.of(live, system, &tools, seed)?;
    let outcome = db_bench::run(&tools, live, system, (&image, run.arguments), seed)?;
    Ok(run.works.iter().map(|work| row(live, (system, work), &outcome)).collect())
}

fn row(live: &Live, (system, work): (&System, &Work), outcome: &Outcome) -> DriveRow {
    let row = DriveRow {
        series: system.name.to_owned(),
        x: work.name.to_owned(),
        profile: super::super::LIVE.to_owned(),
        k: u32::try_from(live.k).ok(),
        ..DriveRow::default()
    };
    numbers(row, (live.k, (32 << 20) / live.divisor), work, outcome)
        .option("scale", format!("1/{}", live.divisor))
        .option("threads", THREADS)
        .option("operations of a thread", live.operations)
        .option("rocksdb", live.options.text())
}

/// A row with what came out, in the drive's time: of dilation, bytes of a subzone, workload and outcome.
pub(super) fn numbers(row: DriveRow, (k, subzone_bytes): (u64, u64), work: &Work, outcome: &Outcome) -> DriveRow {
    let k = k as f64;
    let is_void = outcome.cpu_percent > CPU_PERCENT_MAX;
    let step = outcome.steps.iter().find(|step| step.name == work.step);
    let (mut of_writes, mut of_reads) = (None, None);
    if let Some(step) = step {
        (of_writes, of_reads) = (step.writes, step.reads);
    }
    let (first, other) = if work.is_of_writes { (of_writes, of_reads) } else { (of_reads.or(of_writes), None) };
    let report = |name: &str| outcome.report.get(name).copied().unwrap_or(0.0);
    let mib = |name: &str| report(name) / 1_048_576.0;
    let in_subzones = report("subzones_full") * subzone_bytes as f64 - report("subzones_wasted_bytes");
    row.number(OPS, step.map(|step| step.per_second * k))
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
        .number(VOID, if is_void { 1.0 } else { 0.0 })
}
