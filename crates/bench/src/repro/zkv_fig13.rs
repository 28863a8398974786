//! What each technique adds, one switch at a time.
//!
//! The steps of the paper: a B+-tree in place; on zones through the flusher; with the merged filter in front; with adaptive
//! delta buffers for its pages; with cooperative batch insertion.

use super::contenders::{FILTER_SHARE, btree, zkv};
use super::fact::cell;
use super::{Axis, Cell, Experiment, Fact, Figure, Metric, Results, Scale};
use crate::contest::Step;
use crate::race::{Contender, Race};
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig13",
    title: "ablation: base, +ZFlusher, +MergedFilter, +ADB, +BatchMerge",
    source: "ZKV figure 13, Exp#4",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Read, Metric::Cpu, Metric::P99],
    figures: &[Figure {
        name: "",
        title: "inserts (YCSB-a) and reads (YCSB-d)",
        phases: &["zkv-a", "zkv-d"],
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: true,
    }],
    facts: &[
        Fact::ratio("reads: +ZFlusher / base", 1.55, kops(FLUSHER, "zkv-d"), kops(BASE, "zkv-d")),
        Fact::ratio("inserts: +MergedFilter / +ZFlusher, up to", 3.21, kops(FILTER, "zkv-a"), kops(FLUSHER, "zkv-a")),
        Fact::ratio("inserts: +ADB / +MergedFilter, up to", 3.72, kops(ADB, "zkv-a"), kops(FILTER, "zkv-a")),
        Fact::ratio("inserts: +BatchMerge / +ADB", 1.19, kops(BATCH, "zkv-a"), kops(ADB, "zkv-a")),
        Fact::ratio("reads: +BatchMerge / +ZFlusher", 0.927, kops(BATCH, "zkv-d"), kops(FLUSHER, "zkv-d")),
    ],
    absent: &[],
    judge,
};

const BASE: &str = "base";
const FLUSHER: &str = "+ZFlusher";
const FILTER: &str = "+MergedFilter";
const ADB: &str = "+ADB";
const BATCH: &str = "+BatchMerge";

const fn kops(series: &'static str, phase: &'static str) -> Cell {
    cell(series, "", phase, Metric::Kops)
}

fn ladder(memory_bytes: u64) -> Vec<Contender> {
    vec![
        btree(memory_bytes).called(BASE).with("store", "in-place").with("zflusher", "off"),
        btree(memory_bytes).called(FLUSHER),
        btree(memory_bytes).called(FILTER).with("filter", FILTER_SHARE),
        zkv(memory_bytes).called(ADB).with("batch-insertion", "off"),
        zkv(memory_bytes).called(BATCH),
    ]
}

fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.pick(30_000, 2_000_000, 100_000_000), scale.threads());
    let mut race = Race::new("", records, threads)
        .step(Step::new("zkv-a", records / 2, threads))
        .step(Step::new("zkv-d", scale.reads(), threads))
        .in_turns(4);
    race.id = "ladder".into();
    race.contenders = ladder(Scale::memory_for(records));
    vec![race]
}

/// Each step must gain in its direction.
fn judge(results: &Results) -> Vec<Verdict> {
    let gains = EXPERIMENT.facts.iter().filter(|fact| fact.paper > 1.0);
    gains.filter_map(|fact| Some(Verdict::at_least(fact.what, fact.ours(results)?, 1.0, "x"))).collect()
}
