//! Figure 9: throughput of the workloads of table 2 that `db_bench` can do.
//!
//! Stock `db_bench` has no YCSB-L (writing by Zipf's law), D (reads of what is newest) and F (reads with modifications, of skewed keys), and its A, B, C and E
//! are mixes of `mixgraph`, whose skew is a power law. `zonda-db-bench` has all of them, with Zipf's law ([`driven`]); the competitors run in it,
//! and what they are compared with once more.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, COMPETITORS, GEAR, LDP, LLC, LLC_ROUND_ROBIN, SPLITZNS};
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
    let mut points = live::points(scale, systems, scale.pick(&RUNS[1..2], &RUNS, &RUNS));
    let (one, all) = ([GEAR], COMPETITORS);
    let contenders = scale.pick(&one[..], &all, &all);
    let runs = scale.pick(&driven::RUNS[..1], &driven::RUNS, &driven::RUNS);
    points.extend(driven::points(&[driven::usual(scale)], contenders, runs));
    Ok(points)
}

/// Bars of the competitors over the workloads of `zonda-db-bench`.
pub(super) fn by_driven_work(results: &DriveResults, column: &str, y_label: &str) -> Chart {
    let works: Vec<&str> = driven::RUNS.iter().flat_map(driven::Run::names).collect();
    let values = |system: &str| works.iter().map(|work| number(results, system, work, column)).collect();
    let series = COMPETITORS.iter().map(|system| Series { name: system.name.to_owned(), values: values(system.name) });
    Chart {
        title: format!("{column}, zonda-db-bench"),
        y_label: y_label.to_owned(),
        kind: Kind::Bars,
        log: true,
        series: series.collect(),
        labels: works.iter().map(|work| (*work).to_owned()).collect(),
    }
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
    let of = "operations a second";
    vec![("throughput", by_work(results, OPS, of)), ("throughput-driven", by_driven_work(results, OPS, of))]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |x| ratio(results, x, OPS, ("+RS", "ldp"));
    let mut verdicts = vec![
        Verdict::at_least("overwrite, splitzns over ldp (paper: 2.77)", of(OVERWRITE.name), 2.0, "x"),
        Verdict::at_least("YCSB-A, splitzns over ldp (paper: 1.79)", of(WORKS[2]), 1.0, "x"),
        Verdict::at_least("readrandom, splitzns over ldp (paper: 1.16)", of(READRANDOM.name), 1.0, "x"),
        Verdict::at_least("YCSB-C, splitzns over ldp (paper: 1.29)", of(WORKS[4]), 1.0, "x"),
        counts(results, OVERWRITE.name),
    ];
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
