//! Figure 11: what the tree writes, and what the drive gets; with the sizes of the trees (section 5.3).

use zonda_files::replay::{LevelBytes, ReplayReport, SplitReport};

use super::super::made::Maker;
use super::super::{DriveExperiment, DriveResults, DriveRow, Point};
use super::{Setting, collections, gib, mean, percent, row, run, spread};
use crate::Result;
use crate::lsm::trace;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// Systems, with the paper's size of the tree in GiB and its tables.
pub(super) const SYSTEMS: [(&str, Option<(f64, f64)>); 3] =
    [("ldp", Some((41.95, 2953.0))), ("splitzns", Some((41.97, 2873.0))), ("splitzns+", None)];
/// Workloads with Zipf's constant of their writes.
pub(super) const WORKLOADS: [(&str, f64); 2] = [("YCSB-A", 0.99), ("overwrite", 0.0)];
/// What the paper's text says of its competitors, which no replay has: the size of the tree in GiB, and its tables.
const NOT_RUN: [(&str, f64, f64); 2] = [("gear (paper only)", 37.38, 2509.0), ("llc (paper only)", 36.41, 2451.0)];
const USER: &str = "user GiB";
const DEVICE: &str = "device GiB";
pub(super) const COPIED: &str = "copied GiB";
const SIZE: &str = "tree GiB";
const TABLES: &str = "tables";
pub(super) const WRITTEN_IN: &str = "% written in subzones";
pub(super) const LIVE_IN: &str = "% live in subzones";

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig11",
    title: "written by the tree and by the drive; sizes of the trees",
    source: "SplitZNS figure 11 and section 5.3",
    how: "a replay: bytes, no time",
    points,
    columns: &[
        "created GiB",
        "moved GiB",
        USER,
        DEVICE,
        COPIED,
        SIZE,
        TABLES,
        WRITTEN_IN,
        LIVE_IN,
        "found none",
        "overflow MiB",
        "wasted MiB",
    ],
    charts,
    judge: |results| judge(results).into_iter().chain(counts(results)).collect(),
};

/// Twenty million overwrites: ten times the writes of the paper's run, so that what the last level gets is what it always gets.
const MILLIONS: u64 = 20;

pub(super) fn points(scale: Scale) -> Result<Vec<Point>> {
    let of_paper =
        |(system, gib, tables): (&str, f64, f64)| row(system, WORKLOADS[0].0).fact(SIZE, gib).fact(TABLES, tables);
    let run = move |_| Ok(NOT_RUN.map(of_paper).to_vec());
    let mut points = vec![Point::new("paper only", Maker::Here, run)];
    for (workload, skew) in WORKLOADS {
        let run = move |seed| levels(Setting::of(scale), (workload, skew), seed);
        points.push(Point::new(format!("levels {workload}"), Maker::Replay, run));
        for (system, paper) in SYSTEMS {
            let run = move |seed| one(Setting::of(scale), (system, paper), (workload, skew), seed);
            points.push(Point::new(format!("{system} {workload}"), Maker::Replay, run));
        }
    }
    Ok(points)
}

/// Bytes created and moved by level: the same for all systems, so of one of them.
fn levels(setting: Setting, (workload, skew): (&str, f64), seed: u64) -> Result<Vec<DriveRow>> {
    let trace = trace(setting.workload(setting.writes(MILLIONS), skew, seed));
    let report = run(&trace, &setting.options("ldp", 512)?)?;
    let row_of = |(level, bytes): (usize, &LevelBytes)| {
        row(workload, &format!("L{level}"))
            .number("created GiB", gib(bytes.created_bytes))
            .number("moved GiB", gib(bytes.moved_bytes))
    };
    Ok(report.levels.iter().enumerate().map(row_of).collect())
}

fn one(
    setting: Setting,
    (system, paper): (&str, Option<(f64, f64)>),
    (workload, skew): (&str, f64),
    seed: u64,
) -> Result<Vec<DriveRow>> {
    let options = setting.options(system, 512)?;
    let trace_of = |seed| trace(setting.workload(setting.writes(MILLIONS), skew, seed));
    let runs: Vec<ReplayReport> =
        (seed..seed + setting.seeds).map(|seed| run(&trace_of(seed), &options)).collect::<Result<_>>()?;
    let (least, most) = spread(&runs, |report| gib(report.copied_bytes));
    let paper = paper.filter(|_| workload == WORKLOADS[0].0);
    let mut row = row(system, workload)
        .number(USER, mean(&runs, |report| gib(report.table_bytes)))
        .number(DEVICE, mean(&runs, |report| gib(report.table_bytes + report.copied_bytes)))
        .number(COPIED, mean(&runs, |report| gib(report.copied_bytes)))
        .number("least GiB", least)
        .number("most GiB", most)
        .number("collections", mean(&runs, collections))
        .number(SIZE, mean(&runs, |report| gib(report.live_bytes)))
        .number(TABLES, mean(&runs, |report| report.tables as f64))
        .fact(SIZE, paper.map(|paper| paper.0))
        .fact(TABLES, paper.map(|paper| paper.1))
        .option("seeds", setting.seeds);
    if runs.iter().all(|report| report.split.is_some()) {
        let of = |number: fn(&SplitReport) -> f64| mean(&runs, move |report| report.split.as_ref().map_or(0.0, number));
        let (written, live): (Share, Share) = (
            |split, report| percent(split.bytes, report.table_bytes),
            |split, report| percent(split.live_bytes, report.live_bytes),
        );
        row = row
            .number(WRITTEN_IN, mean(&runs, |report| report.split.as_ref().map_or(0.0, |split| written(split, report))))
            .number(LIVE_IN, mean(&runs, |report| report.split.as_ref().map_or(0.0, |split| live(split, report))))
            .number("found none", of(|split| split.refused.total() as f64))
            .number("overflow MiB", of(|split| split.overflow_bytes as f64 / 1_048_576.0))
            .number("wasted MiB", of(|split| split.wasted_bytes as f64 / 1_048_576.0))
            .number("merges", of(|split| split.merges as f64))
            .number("split zones", of(|split| split.split_zones_max as f64));
    }
    Ok(vec![row])
}

/// A share of a replay's bytes.
type Share = fn(&SplitReport, &ReplayReport) -> f64;

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels: Vec<String> = WORKLOADS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let series = SYSTEMS.iter().flat_map(|(system, _)| [(*system, "U", USER), (*system, "D", DEVICE)]);
    let values = |system, column| labels.iter().map(|x| results.number(system, x, column)).collect();
    let series = series
        .map(|(system, letter, column)| Series { name: format!("{system}-{letter}"), values: values(system, column) });
    let chart = Chart {
        title: "written by the tree (U) and to the drive (D)".to_owned(),
        x_label: String::new(),
        y_label: "written, GiB".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: series.collect(),
        labels: labels.clone(),
    };
    vec![("writes", chart)]
}

/// Without enough in subzones a run does not count.
pub(super) fn counts(results: &DriveResults) -> Vec<Verdict> {
    let of = |(workload, _): (&'static str, f64)| {
        let number = |column| results.number("splitzns", workload, column).unwrap_or(f64::NAN);
        [
            Verdict::at_least(
                format!("{workload}: of the written bytes in subzones, to count"),
                number(WRITTEN_IN),
                15.0,
                "%",
            ),
            Verdict::at_least(
                format!("{workload}: of the live bytes in subzones, to count"),
                number(LIVE_IN),
                50.0,
                "%",
            ),
        ]
    };
    WORKLOADS.into_iter().flat_map(of).collect()
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |(workload, _): (&'static str, f64)| {
        let user = |system| results.number(system, workload, USER).unwrap_or(f64::NAN);
        Verdict::at_most(
            format!("{workload}: written by the tree, splitzns over ldp"),
            user("splitzns") / user("ldp"),
            1.01,
            "x",
        )
    };
    WORKLOADS.into_iter().map(of).collect()
}
