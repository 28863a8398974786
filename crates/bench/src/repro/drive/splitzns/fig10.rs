//! Figure 10: latency of reads and writes under the workloads of figure 9.

use super::super::{DriveExperiment, DriveResults};
use super::fig9::{by_driven_work, by_work, points};
use super::live::{COLUMNS, OVERWRITE, P99, P999, READ_P99, READRANDOM};
use super::steps::ratio;
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

/// The paper's four cases: the 99th percentile of SplitZNS over that of LDP.
const CASES: [(&str, &str, &str, f64); 4] = [
    ("overwrite, writes", OVERWRITE.name, P99, 0.428),
    ("readrandom", READRANDOM.name, P99, 0.569),
    ("YCSB-C", "YCSB-C mix", P99, 0.608),
    ("YCSB-A, writes", "YCSB-A mix", P99, 0.604),
];

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig10",
    title: "latency under the workloads that db_bench has, live; +RS is the paper's SplitZNS",
    source: "SplitZNS figure 10",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let us = "microseconds";
    vec![
        ("p99", by_work(results, P99, us)),
        ("p999", by_work(results, P999, us)),
        ("read-p99", by_work(results, READ_P99, us)),
        ("p99-driven", by_driven_work(results, P99, us)),
        ("read-p99-driven", by_driven_work(results, READ_P99, us)),
    ]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |(what, x, column, paper): (&str, &str, &str, f64)| {
        let measured = ratio(results, x, column, ("+RS", "ldp"));
        Verdict::at_most(format!("P99, {what}, splitzns over ldp (paper: {paper})"), measured, 1.0, "x")
    };
    CASES.into_iter().map(of).collect()
}
