//! Device reads and writes per operation, counted, against the formulas of the paper.
//!
//! The formulas count node accesses: `log_b m` for a search, divided by K for a buffered write. All levels above the
//! leaves are in memory here as in the paper's own systems, so what is left of `log_b m` on the device is one leaf: a read
//! costs at most 1, a write of the B+-tree about 1 (and more, for splits), and K is how many times less a buffered tree
//! writes. The paper's table has formulas and no counts, so they stand beside the counts as they are printed there; K is "typically around
//! 30" in it, and L the length of a list of deltas.

use super::contenders::{BDTREE, BTREE, ZKV, ZONDA, all};
use super::fact::cell;
use super::{Axis, Experiment, F2FS, Fact, Figure, Metric, Ours, Results, Scale};
use crate::contest::Step;
use crate::race::Race;
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-table1",
    title: "I/O cost per operation, counted, against the formulas",
    source: "ZKV table 1, section 3.6",
    races,
    metrics: &[Metric::WriteIo, Metric::ReadIo, Metric::LeafReads, Metric::Written, Metric::Read],
    figures: &[
        Figure {
            name: "written",
            title: "4 KiB writes per insert",
            phases: &["zkv-a"],
            x: None,
            axis: Axis::Phase,
            metric: Metric::WriteIo,
            log: true,
        },
        Figure {
            name: "read",
            title: "4 KiB reads per insert and per get",
            phases: &["zkv-a", "get"],
            x: None,
            axis: Axis::Phase,
            metric: Metric::ReadIo,
            log: true,
        },
    ],
    facts: &[
        Fact::formula("B+-Tree, read", "log_b m", Ours::Value(cell(BTREE, "", "get", Metric::ReadIo))),
        Fact::formula("B+-Tree, write", "log_b m", Ours::Value(WRITE_BTREE)),
        Fact::formula("B-epsilon tree, read", "log_b m / e", Ours::Absent),
        Fact::formula("B-epsilon tree, write", "log_b m / e * B^(1-e)", Ours::Absent),
        Fact::formula("BD-Tree, read", "log_b m + L", Ours::Value(cell(BDTREE, "", "get", Metric::ReadIo))),
        Fact::formula("BD-Tree, write", "log_b m / L", Ours::Value(cell(BDTREE, "", "zkv-a", Metric::WriteIo))),
        Fact::formula("ZKV, read", "log_b m", Ours::Value(cell(ZKV, "", "get", Metric::ReadIo))),
        Fact::formula("ZKV, write", "log_b m / K", Ours::Value(cell(ZKV, "", "zkv-a", Metric::WriteIo))),
        Fact::formula("zonda beside ZKV's, read", "log_b m", Ours::Value(cell(ZONDA, "", "get", Metric::ReadIo))),
        Fact::formula(
            "zonda beside ZKV's, write",
            "log_b m / K",
            Ours::Value(cell(ZONDA, "", "zkv-a", Metric::WriteIo)),
        ),
        Fact::ratio("K: B+-Tree / ZKV, write", 30.0, WRITE_BTREE, cell(ZKV, "", "zkv-a", Metric::WriteIo)),
        Fact::ratio("K: B+-Tree / zonda, write", 30.0, WRITE_BTREE, cell(ZONDA, "", "zkv-a", Metric::WriteIo)),
        Fact::ratio(
            "L: B+-Tree / BD-Tree, write; lists of 32 deltas in the paper",
            32.0,
            WRITE_BTREE,
            cell(BDTREE, "", "zkv-a", Metric::WriteIo),
        ),
    ],
    absent: &[("B-epsilon tree", "its formulas only: SplinterDB, the paper's, is not packaged"), F2FS],
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
