//! Overwriting for four times as long as in figure 13: a burst of the paper's length is partly over before what it makes cleaning copy has
//! to be copied, because a drive with a fifth free bears it.

use super::super::{DriveExperiment, DriveResults, Point};
use super::live::{self, COLUMNS, DEEPER, LONG_BURST, Live, OPS, OVERWRITE, P99, READRANDOM};
use super::steps::{counts, number, ratio};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const LDP: &str = "ldp";
const SPLITZNS: &str = "+RS";
/// The last is no system of the paper's: level 3 is what the paper's policy copies most, because wide zones are nearly full of what lives.
const SYSTEMS: [&str; 3] = [LDP, SPLITZNS, DEEPER.name];
/// So many times as many overwrites as in figure 13.
const TIMES: u64 = 4;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-sustained",
    title: "overwriting four times as long as in figure 13; stock db_bench, live",
    source: "beyond SplitZNS figure 13",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

/// That of figure 13, for longer.
pub(super) fn setting(scale: Scale) -> Live {
    Live::of(scale).longer(TIMES)
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    Ok(live::points(&setting(scale), &SYSTEMS, &[LONG_BURST]))
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let works = [OVERWRITE.name, READRANDOM.name];
    let values = |system: &str| works.iter().map(|work| number(results, system, work, OPS)).collect();
    let chart = Chart {
        title: "overwriting for long, reading behind it".to_owned(),
        y_label: "operations a second".to_owned(),
        kind: Kind::Bars,
        log: true,
        series: SYSTEMS.map(|system| Series { name: system.to_owned(), values: values(system) }).into(),
        labels: works.map(str::to_owned).into(),
    };
    vec![("throughput", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for ours in [SPLITZNS, DEEPER.name] {
        let of = |x, column| ratio(results, x, column, (ours, LDP));
        let name = |what: &str| format!("{what}, {ours} over {LDP}");
        verdicts.push(Verdict::at_least(name("overwrite"), of(OVERWRITE.name, OPS), 2.0, "x").paper(2.77));
        verdicts.push(Verdict::at_most(name("overwrite, P99"), of(OVERWRITE.name, P99), 1.0, "x").paper(0.43));
        verdicts.push(Verdict::at_least(name("readrandom"), of(READRANDOM.name, OPS), 1.0, "x").paper(1.16));
        verdicts.push(Verdict::at_most(name("readrandom, P99"), of(READRANDOM.name, P99), 1.0, "x").paper(0.57));
        verdicts.extend(counts(results, OVERWRITE.name, (ours, LDP)));
    }
    verdicts
}
