//! Figure 14: what each technique does to reads, right behind a burst of writes.

use super::super::{DriveExperiment, DriveResults};
use super::fig13::points;
use super::live::{COLUMNS, OPS, P50, P99, P999, READRANDOM};
use super::steps::{bars, ratio};
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig14",
    title: "reading behind writes with one technique after the other; stock db_bench, live",
    source: "SplitZNS figure 14",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let x = READRANDOM.name;
    vec![
        ("throughput", bars(results, x, &[OPS], "operations a second")),
        ("latency", bars(results, x, &[P50, P99, P999], "microseconds")),
    ]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |column, one, other| ratio(results, READRANDOM.name, column, (one, other));
    vec![
        Verdict::at_least("readrandom, +SZR over +diff (paper: 1.43)", of(OPS, "+SZR", "+diff"), 1.0, "x"),
        Verdict::at_most("P99 of reads, +SZR over +diff (paper: 0.70)", of(P99, "+SZR", "+diff"), 1.0, "x"),
        Verdict::at_least("P99 of reads, +RP over +SZR (paper: 1.29)", of(P99, "+RP", "+SZR"), 1.0, "x"),
        Verdict::at_most("P99 of reads, +RS over +RP (paper: 0.67)", of(P99, "+RS", "+RP"), 1.0, "x"),
        Verdict::at_most("P99.9 of reads, +RS over +RP (paper: 0.73)", of(P999, "+RS", "+RP"), 1.0, "x"),
    ]
}
