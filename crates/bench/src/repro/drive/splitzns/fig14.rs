//! Figure 14: what each technique does to reads, right behind a burst of writes.

use super::super::{DriveExperiment, DriveResults};
use super::fig13::points;
use super::live::{COLUMNS, OPS, P50, P99, P999, READRANDOM};
use super::steps::{bars, ratio, too_few_in_subzones};
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
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let x = READRANDOM.name;
    vec![
        ("throughput", bars(results, x, &[OPS], "operations a second")),
        ("latency", bars(results, x, &[P50, P99, P999], "latency, us")),
    ]
}

/// What the paper's text says: a step, the one before it, the column, and the one over the other.
const STEPS: [(&str, &str, &str, f64); 9] = [
    ("+diff", "native", P999, 0.61),
    ("+SZR", "+diff", OPS, 1.427),
    ("+SZR", "+diff", P50, 0.61),
    ("+SZR", "+diff", P99, 0.70),
    ("+SZR", "+diff", P999, 0.25),
    ("+RP", "+SZR", P99, 1.29),
    ("+RP", "+SZR", P999, 1.295),
    ("+RS", "+RP", P99, 0.67),
    ("+RS", "+RP", P999, 0.73),
];

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |(one, other, column, paper): (&str, &str, &str, f64)| {
        let measured = ratio(results, READRANDOM.name, column, (one, other));
        let what = format!("readrandom, {column}, {one} over {other}");
        let of_side = if paper > 1.0 { Verdict::at_least } else { Verdict::at_most };
        of_side(what, measured, 1.0, "x").paper(paper)
    };
    STEPS.into_iter().map(of).collect()
}
