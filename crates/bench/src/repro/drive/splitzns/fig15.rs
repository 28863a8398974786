//! Figure 15: how long writers are held up, and how fast compactions are, with one technique after the other.

use super::super::{DriveExperiment, DriveResults};
use super::fig13::{STEPS, points};
use super::live::{COLUMNS, COMPACTION, OVERWRITE, STALLED};
use super::steps::{bars, ratio};
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig15",
    title: "stalls and speed of compactions with one technique after the other; stock db_bench, live",
    source: "SplitZNS figure 15",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let x = OVERWRITE.name;
    vec![
        ("stalls", bars(results, x, &[STALLED], "percent of the time")),
        ("compaction", bars(results, x, &[COMPACTION], "MB/s")),
    ]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |(one, other, paper): (&str, &str, Option<f64>)| {
        paper?;
        let faster = ratio(results, OVERWRITE.name, COMPACTION, (one, other));
        Some(Verdict::at_least(format!("speed of compactions, {one} over {other}"), faster, 1.0, "x"))
    };
    STEPS.into_iter().filter_map(of).collect()
}
