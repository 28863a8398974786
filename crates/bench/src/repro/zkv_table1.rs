//! Device reads and writes per operation, counted, against the formulas of the paper.
//!
//! The formulas count node accesses: `log_b m` for a search, divided by K for a buffered write. All levels above the
//! leaves are in memory here as in the paper's own systems, so what is left of `log_b m` on the device is one leaf: a read
//! costs at most 1, a write of the B+-tree about 1 (and more, for splits), and K is how many times less a buffered tree
//! writes.

use super::contenders::{BDTREE, BTREE, ZKV, ZONDA, all};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Results, SPLINTERDB, Scale};
use crate::contest::Step;
use crate::race::Race;
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-table1",
    title: "I/O cost per operation, counted, against the formulas",
    source: "ZKV table 1, section 3.6",
    races,
    metrics: &[Metric::WriteIo, Metric::ReadIo, Metric::LeafReads, Metric::Written, Metric::Read],
    figures: &[Figure {
        name: "",
        title: "4 KiB writes per insert, 4 KiB reads per get",
        phases: &["zkv-a", "get"],
        axis: Axis::Phase,
        metric: Metric::WriteIo,
        log: true,
    }],
    facts: &[
        Fact::ratio("K: B+-Tree / ZKV, write I/O", 30.0, WRITE_BTREE, cell(ZKV, "", "zkv-a", Metric::WriteIo)),
        Fact::ratio("K of zonda", 30.0, WRITE_BTREE, cell(ZONDA, "", "zkv-a", Metric::WriteIo)),
        Fact::ratio("L: B+-Tree / BD-Tree, write I/O", 9.79, WRITE_BTREE, cell(BDTREE, "", "zkv-a", Metric::WriteIo)),
        Fact::value("B+-Tree, read: one leaf", 1.0, "I/O", cell(BTREE, "", "get", Metric::ReadIo)),
        Fact::value("BD-Tree, read: one leaf, deltas in memory", 1.0, "I/O", cell(BDTREE, "", "get", Metric::ReadIo)),
        Fact::value("ZKV, read: one leaf", 1.0, "I/O", cell(ZKV, "", "get", Metric::ReadIo)),
    ],
    absent: &[SPLINTERDB],
    judge,
};

const WRITE_BTREE: super::Cell = cell(BTREE, "", "zkv-a", Metric::WriteIo);

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let mut race = Race::new("", scale.records(), threads)
        .step(Step::new("zkv-a", scale.writes(), threads))
        .step(Step::new("get", scale.reads(), threads));
    race.id = "pairs".into();
    race.contenders = all(scale.memory());
    vec![race]
}

fn judge(results: &Results) -> Vec<Verdict> {
    let reads = [ZONDA, ZKV, BDTREE, BTREE].into_iter().filter_map(|series| {
        let leaf_reads = results.value(&cell(series, "", "get", Metric::LeafReads))?;
        Some(Verdict::at_most(format!("leaf reads per get of {series} (I8)"), leaf_reads, 1.0, ""))
    });
    reads.collect()
}
