//! Figure 9: throughput of the workloads of table 2 that `db_bench` can do.
//!
//! Not here: YCSB-L (loading by Zipf's law), D (reads of what is newest) and F (reads with modifications, of skewed keys), which stock
//! `db_bench` does not have. A, B, C and E are mixes of `mixgraph`: their skew is a power law, not Zipf's.

use super::super::{DriveExperiment, DriveResults, Point};
use super::live::{
    self, BURST, COLUMNS, OPS, OVERWRITE, READRANDOM, READWHILEWRITING, Run, YCSB_A, YCSB_B, YCSB_C, YCSB_E,
};
use super::steps::{counts, number, ratio};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// What is run, and the names of its workloads.
const RUNS: [Run; 6] = [BURST, YCSB_A, YCSB_C, YCSB_B, READWHILEWRITING, YCSB_E];
const WORKS: [&str; 7] =
    ["overwrite", "readrandom", "YCSB-A mix", "YCSB-B mix", "YCSB-C mix", "YCSB-E mix", "readwhilewriting"];
pub(super) const SYSTEMS: [&str; 3] = ["ldp", "+RS", "splitzns+"];

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig9",
    title: "throughput under the workloads that db_bench has, live; +RS is the paper's SplitZNS",
    source: "SplitZNS figure 9",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

/// The same for figures 9 and 10.
pub(super) fn points(scale: Scale) -> Result<Vec<Point>> {
    let systems = scale.pick(&SYSTEMS[1..2], &SYSTEMS, &SYSTEMS);
    Ok(live::points(scale, systems, scale.pick(&RUNS[1..2], &RUNS, &RUNS)))
}

/// Bars of the three systems over the workloads.
pub(super) fn by_work(results: &DriveResults, column: &str, y_label: &str) -> Chart {
    let values = |system: &str| WORKS.iter().map(|work| number(results, system, work, column)).collect();
    Chart {
        title: column.to_owned(),
        y_label: y_label.to_owned(),
        kind: Kind::Bars,
        log: true,
        labels: WORKS.iter().map(|work| (*work).to_owned()).collect(),
        series: SYSTEMS.iter().map(|system| Series { name: (*system).to_owned(), values: values(system) }).collect(),
    }
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    vec![("throughput", by_work(results, OPS, "operations a second"))]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |x| ratio(results, x, OPS, ("+RS", "ldp"));
    vec![
        Verdict::at_least("overwrite, splitzns over ldp (paper: 2.77)", of(OVERWRITE.name), 2.0, "x"),
        Verdict::at_least("YCSB-A, splitzns over ldp (paper: 1.79)", of(WORKS[2]), 1.0, "x"),
        Verdict::at_least("readrandom, splitzns over ldp (paper: 1.16)", of(READRANDOM.name), 1.0, "x"),
        Verdict::at_least("YCSB-C, splitzns over ldp (paper: 1.29)", of(WORKS[4]), 1.0, "x"),
        counts(results, OVERWRITE.name),
    ]
}
