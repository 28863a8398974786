//! Figure 13: what each technique adds, overwriting.

use super::super::{DriveExperiment, DriveResults, Point};
use super::live::{self, BURST, COLUMNS, Live, OPS, OVERWRITE, P50, P99, P999};
use super::steps::{bars, counts, ratio};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

/// Steps of the break-down, each with the one before it and the paper's gain.
const STEPS: [(&str, &str, Option<f64>); 4] =
    [("+diff", "native", Some(1.43)), ("+SZR", "+diff", Some(1.88)), ("+RP", "+SZR", Some(1.11)), ("+RS", "+RP", None)];

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig13",
    title: "overwriting with one technique after the other; stock db_bench, live",
    source: "SplitZNS figure 13",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

/// The same for figures 13, 14 and 15; what matters most first, so that a run that is stopped has it.
pub(super) fn points(scale: Scale) -> Result<Vec<Point>> {
    let all = ["ldp", "+RS", "+diff", "+SZR", "+RP", "native", "splitzns+"];
    let systems = scale.pick(&all[..2], &all, &all);
    Ok(live::points(&[Live::of(scale)], systems, &[BURST]))
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let x = OVERWRITE.name;
    vec![
        ("throughput", bars(results, x, &[OPS], "operations a second")),
        ("latency", bars(results, x, &[P50, P99, P999], "latency, us")),
    ]
}

/// What the paper's text says of tails of writes: a step, the one before it, the column, and the one over the other.
const TAILS: [(&str, &str, &str, f64); 3] =
    [("+diff", "native", P999, 0.46), ("+SZR", "+diff", P99, 0.71), ("+SZR", "+diff", P999, 0.47)];

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |column: &str, one: &str, other: &str| ratio(results, OVERWRITE.name, column, (one, other));
    let steps = STEPS.into_iter().filter_map(|(one, other, paper)| {
        let faster = Verdict::at_least(format!("overwrite, {one} over {other}"), of(OPS, one, other), 1.0, "x");
        Some(faster.paper(paper?))
    });
    let tail = |(one, other, column, paper): (&str, &str, &str, f64)| {
        let what = format!("overwrite, {column}, {one} over {other}");
        Verdict::at_most(what, of(column, one, other), 1.0, "x").paper(paper)
    };
    let gain = Verdict::at_least("overwrite, splitzns (+RS) over ldp", of(OPS, "+RS", "ldp"), 2.0, "x");
    steps
        .chain(TAILS.into_iter().map(tail))
        .chain([gain.paper(2.77)])
        .chain(counts(results, OVERWRITE.name, ("+RS", "ldp")))
        .collect()
}
