//! Figure 9: throughput of the workloads of table 2, by `zonda-db-bench`, in which the competitors run.
//!
//! Stock `db_bench` has no Zipf's law; its overwriting and reading are in figures 13 to 15. The competitors of section 5.1.3 run the four
//! workloads of which the paper's text gives their figures.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, BURST, COMPETITORS, GEAR, LDP, LLC, LLC_ROUND_ROBIN, MIN_OVERLAP, SPLITZNS, YCSB_A, YCSB_C};
use super::live::{COLUMNS, OPS};
use super::steps::{counts, number, ratio};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig9",
    title: "throughput under the workloads of table 2, live",
    source: "SplitZNS figure 9",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

/// The same for figures 9 and 10; what matters most first, so that a run that is stopped has it.
pub(super) fn points(scale: Scale) -> Result<Vec<Point>> {
    let setting = [driven::half(scale)];
    let both = [LDP, SPLITZNS];
    let first = [BURST, YCSB_A, YCSB_C];
    let others = [MIN_OVERLAP, GEAR, LLC, LLC_ROUND_ROBIN];
    let of = |contenders: &[_], runs: &[_]| driven::points(&setting, contenders, runs);
    let tiny = || of(&[GEAR], &[BURST]);
    let all = || {
        let rest = driven::RUNS.iter().filter(|run| !first.iter().any(|one| one.is(run))).copied().collect::<Vec<_>>();
        let mut points = of(&both, &first);
        points.extend(of(&others, &first));
        points.extend(of(&both, &rest));
        points
    };
    Ok(if scale == Scale::Tiny { tiny() } else { all() })
}

/// Bars of all over the workloads.
pub(super) fn by_work(results: &DriveResults, column: &str, y_label: &str) -> Chart {
    let works: Vec<&str> = driven::RUNS.iter().flat_map(driven::Run::names).collect();
    let values = |system: &str| works.iter().map(|work| number(results, system, work, column)).collect();
    let series = COMPETITORS.iter().map(|system| Series { name: system.name.to_owned(), values: values(system.name) });
    Chart {
        title: column.to_owned(),
        y_label: y_label.to_owned(),
        kind: Kind::Bars,
        log: true,
        series: series.collect(),
        labels: works.iter().map(|work| (*work).to_owned()).collect(),
    }
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    vec![("throughput", by_work(results, OPS, "operations a second"))]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let gain = ratio(results, driven::OVERWRITE.name, OPS, (SPLITZNS.name, LDP.name));
    let mut verdicts = vec![Verdict::at_least("overwrite, splitzns over ldp, to reach (paper: 2.77)", gain, 2.0, "x")];
    verdicts.extend(counts(results, driven::OVERWRITE.name, (SPLITZNS.name, LDP.name)));
    verdicts.extend(driven::gate(results));
    // The three of a workload, and the paper's gain over each; `RocksDB`'s own round robin stands beside LLC.
    let paper = [(driven::OVERWRITE.name, [2.77, 3.55, 2.68]), ("YCSB-A", [1.79, 1.63, 1.23])];
    let paper =
        paper.into_iter().chain([(driven::READRANDOM.name, [1.16, 2.05, 1.11]), ("YCSB-C", [1.29, 1.21, 1.07])]);
    for (x, [ldp, gear, llc]) in paper {
        for (other, paper) in [(LDP, ldp), (GEAR, gear), (LLC, llc), (LLC_ROUND_ROBIN, llc)] {
            let measured = ratio(results, x, OPS, (SPLITZNS.name, other.name));
            if measured.is_finite() {
                let what = format!("{x}, {} over {} (paper: {paper})", SPLITZNS.name, other.name);
                verdicts.push(Verdict::at_least(what, measured, 1.0, "x"));
            }
        }
    }
    verdicts
}
