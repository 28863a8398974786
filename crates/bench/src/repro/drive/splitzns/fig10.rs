//! Figure 10: latency of reads and writes under the workloads of figure 9.

use super::super::{DriveExperiment, DriveResults};
use super::driven::{self, LDP, SPLITZNS};
use super::fig9::{by_work, points};
use super::live::{COLUMNS, P99, P999, READ_P99};
use super::steps::ratio;
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

/// The paper's four cases: the 99th percentile of SplitZNS over that of LDP, and the 99.9th where its text has it.
const CASES: [(&str, &str, f64, Option<f64>); 4] = [
    ("overwrite, writes", driven::OVERWRITE.name, 0.43, Some(0.47)),
    ("readrandom", driven::READRANDOM.name, 0.57, None),
    ("YCSB-C", "YCSB-C", 0.61, None),
    ("YCSB-A, writes", "YCSB-A", 0.60, Some(0.75)),
];
/// So many of them have to be below one.
const CASES_MIN: f64 = 3.0;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig10",
    title: "latency under the workloads of table 2, live",
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
    ]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |x, column| ratio(results, x, column, (SPLITZNS.name, LDP.name));
    let down = CASES.iter().filter(|(_, x, ..)| of(x, P99) < 1.0).count();
    let mut verdicts = vec![Verdict::at_least("P99 down, of four cases", down as f64, CASES_MIN, "cases")];
    for (what, x, p99, p999) in CASES {
        let text = |column: &str, paper: f64| format!("{column}, {what}, splitzns over ldp (paper: {paper})");
        verdicts.push(Verdict::at_most(text("P99", p99), of(x, P99), 1.0, "x"));
        verdicts.extend(p999.map(|paper| Verdict::at_most(text("P99.9", paper), of(x, P999), 1.0, "x")));
    }
    verdicts
}
