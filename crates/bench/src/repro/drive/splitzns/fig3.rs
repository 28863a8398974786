//! Figure 3, its migration: zones of 128 MiB to 1 GiB under lifetime-based placement, overwritten by ten million pairs; and section
//! 2.3, the tree without any cleaning.

use zonda_files::FileError;
use zonda_files::replay::{CleaningTrigger, ReplayOptions, ReplayReport, replay};

use super::super::made::Maker;
use super::super::{DriveExperiment, DriveResults, DriveRow, Point};
use super::{GIB, Setting, collections, gib, mean, refused, row, run, spread};
use crate::Result;
use crate::lsm::{Load, LsmWorkload, trace};
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// Sizes of a zone in MiB, what the paper says is migrated by a collection (MiB), and how many there are.
const ZONES: [(u64, Option<(f64, f64)>); 4] =
    [(128, Some((43.0, 298.0))), (256, None), (512, None), (1024, Some((386.0, 144.0)))];
const POLICY: &str = "ldp";
const MIGRATED: &str = "MiB per collection";
const COLLECTIONS: &str = "collections";
const SPACE: &str = "space amplification";
const NO_CLEANING: &str = "no cleaning";

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig3",
    title: "what cleaning copies, by the size of zones; no throughput",
    source: "SplitZNS figure 3 and section 2.3",
    how: "a replay: bytes, no time",
    points,
    columns: &[MIGRATED, COLLECTIONS, "least", "most", "tables GiB", "copied GiB", "amplification", "live GiB", SPACE],
    charts,
    judge,
};

fn points(scale: Scale) -> Result<Vec<Point>> {
    let point = |(mib, paper)| {
        let run = move |seed| zones(Setting::of_section_3(scale), mib, paper, seed);
        Point::new(format!("{POLICY} {mib} MiB"), Maker::Replay, run)
    };
    let run = move |seed| without_cleaning(Setting::of_section_3(scale), seed);
    let none = Point::new(NO_CLEANING, Maker::Replay, run);
    Ok(ZONES.into_iter().map(point).chain([none]).collect())
}

fn zones(setting: Setting, mib: u64, paper: Option<(f64, f64)>, seed: u64) -> Result<Vec<DriveRow>> {
    let options = setting.options(POLICY, mib)?;
    let trace_of = |seed| trace(setting.workload(setting.writes(10), 0.0, seed));
    let runs: Vec<ReplayReport> =
        (seed..seed + setting.seeds).map(|seed| run(&trace_of(seed), &options)).collect::<Result<_>>()?;
    let per_collection =
        |report: &ReplayReport| report.copied_bytes as f64 / 1_048_576.0 / collections(report).max(1.0);
    let (least, most) = spread(&runs, per_collection);
    let row = row(POLICY, &format!("{mib} MiB"))
        .number(MIGRATED, mean(&runs, per_collection))
        .number(COLLECTIONS, mean(&runs, collections))
        .number("least", least)
        .number("most", most)
        .number("tables GiB", mean(&runs, |report| gib(report.table_bytes)))
        .number("copied GiB", mean(&runs, |report| gib(report.copied_bytes)))
        .number("amplification", mean(&runs, |report| report.amplification))
        .number("live GiB", mean(&runs, |report| gib(report.live_bytes)))
        .fact(MIGRATED, paper.map(|paper| paper.0))
        .fact(COLLECTIONS, paper.map(|paper| paper.1))
        .option("zones", options.zones)
        .option("seeds", setting.seeds);
    Ok(vec![row])
}

/// Random draws until no zone is left; only zones in which nothing is live are reset.
fn without_cleaning(setting: Setting, seed: u64) -> Result<Vec<DriveRow>> {
    let base = setting.options(POLICY, 512)?;
    let options = ReplayOptions { trigger: CleaningTrigger::Never, measure_from: None, ..base };
    let mut amplifications = Vec::new();
    for seed in seed..seed + setting.seeds {
        let keys = setting.capacity / super::PAIR_BYTES;
        let workload = LsmWorkload { keys, load: Load::Draws(2 * keys), ..setting.workload(0, 0.0, seed) };
        let live = match replay(&trace(workload), &options) {
            Ok(report) => report.live_bytes,
            Err(FileError::NoSpace { live_bytes, .. }) => live_bytes,
            Err(error) => return Err(refused(error)),
        };
        amplifications.push(setting.capacity as f64 / live.max(1) as f64);
    }
    let mean = amplifications.iter().sum::<f64>() / amplifications.len() as f64;
    let row = row(NO_CLEANING, "512 MiB").number(SPACE, mean).fact(SPACE, 2.94);
    Ok(vec![row.number("live GiB", setting.capacity as f64 / GIB / mean).option("seeds", setting.seeds)])
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels: Vec<String> = ZONES.iter().map(|(mib, _)| format!("{mib} MiB")).collect();
    let of = |x: &String| results.number(POLICY, x, MIGRATED);
    let ours = Series { name: "ours".to_owned(), values: labels.iter().map(of).collect() };
    let values = ZONES.iter().map(|(_, paper)| paper.map(|paper| paper.0)).collect();
    let theirs = Series { name: "the paper's".to_owned(), values };
    let chart = Chart {
        title: "copied by a collection, by the size of zones".to_owned(),
        x_label: "capacity of a zone".to_owned(),
        y_label: "copied by a collection, MiB".to_owned(),
        kind: Kind::Bars,
        log: false,
        labels,
        series: vec![ours, theirs],
    };
    vec![("migrated", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let ratio = |name| {
        let of = |x| results.number(POLICY, x, name).unwrap_or(f64::NAN);
        of("1024 MiB") / of("128 MiB")
    };
    vec![
        Verdict::at_least("copied by a collection, 1024 over 128 MiB", ratio(MIGRATED), 4.5, "x").paper(9.0),
        Verdict::at_most("collections, 1024 over 128 MiB", ratio(COLLECTIONS), 0.97, "x").paper(0.48),
        Verdict::at_least("copied in all, 1024 over 128 MiB", ratio("copied GiB"), 1.0, "x"),
    ]
}
