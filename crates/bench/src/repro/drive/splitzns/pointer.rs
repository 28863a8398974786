//! Section 4.5.3: how often the drive guesses right, by its read pointers, whether a read is a compaction's or a query's: as the paper has
//! pointers (`split=paper`), with reads near the pointer taken for reads at it (`split=all`, as in all other figures), and with pointers
//! that begin again at a read of the start of a subzone besides (`split=fixed`).
//!
//! The plugin tells the drive who reads, which counts and otherwise ignores it. The paper looks every 10,000 reads and gives the least, the
//! most and the mean of these; here there is one figure for a run, and the least and the most are over seeds.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, Contender, SPLITZNS, Setting, YCSB_A};
use super::live::{COLUMNS, TOLD_RIGHT};
use super::steps::{number, too_few_in_subzones};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// The same with the other rules.
const PAPER: Contender = SPLITZNS.on("splitzns, paper", "paper");
const FIXED: Contender = SPLITZNS.on("splitzns, fixed", "fixed");
pub(super) const CONTENDERS: [Contender; 3] = [PAPER, SPLITZNS, FIXED];
/// The paper's least, in percent.
const PAPER_LEAST: f64 = 78.93;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-pointer",
    title: "reads told apart by the drive, with three rules of the read pointer, live",
    source: "SplitZNS section 4.5.3",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

/// The paper's YCSB-A, loaded by YCSB-L: runs of figure 9.
pub(super) fn settings(scale: Scale) -> [Setting; 1] {
    let [uniform, skewed] = super::fig9::settings(scale);
    [scale.pick(uniform, skewed.clone(), skewed)]
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    Ok(driven::points(&settings(scale), scale.pick(&CONTENDERS[2..], &CONTENDERS, &CONTENDERS), &[YCSB_A]))
}

fn of(results: &DriveResults, contender: &Contender) -> Option<f64> {
    let [setting] = settings(results.scale);
    number(results, contender.name, &setting.named("YCSB-A"), TOLD_RIGHT)
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let chart = Chart {
        title: "reads that the drive told right".to_owned(),
        x_label: String::new(),
        y_label: "reads of subzones, %".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: vec![Series {
            name: "YCSB-A".to_owned(),
            values: CONTENDERS.iter().map(|contender| of(results, contender)).collect(),
        }],
        labels: CONTENDERS.iter().map(|contender| contender.name.to_owned()).collect(),
    };
    vec![("told-right", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let verdict = |(contender, rule): (&Contender, &str)| {
        let measured = of(results, contender).unwrap_or(f64::NAN);
        Verdict::at_least(format!("YCSB-A, reads of subzones told right, {rule}"), measured, PAPER_LEAST, "%")
    };
    let paper = "94.16, 78.93 to 99.17";
    vec![
        verdict((&PAPER, "the paper's read pointer")).paper(paper),
        verdict((&SPLITZNS, "read pointers that take what begins near them")),
        verdict((&FIXED, "read pointers that begin again")),
    ]
}
