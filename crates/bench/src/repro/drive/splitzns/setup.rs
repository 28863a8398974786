//! Bytes alone, untimed: by them it was decided how much the live figures load and where their tree has its levels, before anything was
//! timed.
//!
//! A set-up is good if cleaning has to copy at least 1.3 times what is written with `ldp`, as it has in the paper (figure 11), and
//! if the tree has at least half of its live bytes, and writes at least 15 %, at the levels that get subzones.

use super::super::{DriveExperiment, DriveResults, Point};
use super::live::{
    self, BASE_BYTES, COPIED, LIVE_IN, LIVE_OF, LOADED_BYTES, Live, OVERFLOW, REFUSED, TOLD_RIGHT, WRITTEN, WRITTEN_IN,
};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// What is loaded and the limit of level 1, in bytes at full size; the first is the one in use.
const CANDIDATES: [(u64, u64); 4] =
    [(LOADED_BYTES, BASE_BYTES), (48 << 30, 51 << 20), (46 << 30, 64 << 20), (50 << 30, 64 << 20)];
const SYSTEMS: [&str; 2] = ["ldp", "+RS"];

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-setup",
    title: "bytes written and copied for what is loaded, untimed; stock db_bench",
    source: "SplitZNS figure 11, for the set-up of the live figures",
    how: "untimed, bytes only",
    points,
    columns: &[WRITTEN, COPIED, LIVE_IN, WRITTEN_IN, LIVE_OF, REFUSED, OVERFLOW, TOLD_RIGHT],
    charts,
    judge,
};

fn name((loaded, base): (u64, u64)) -> String {
    format!("{} GiB, level 1 of {} MiB", loaded >> 30, base >> 20)
}

/// The candidates of a scale with their names.
pub(super) fn settings(scale: Scale) -> Vec<(String, Live)> {
    let candidates = scale.pick(&CANDIDATES[..1], &CANDIDATES, &CANDIDATES);
    let of = |(loaded, base): (u64, u64)| (name((loaded, base)), Live::of(scale).untimed(loaded, base));
    candidates.iter().copied().map(of).collect()
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    let of = |(name, live): (String, Live)| SYSTEMS.map(|system| live::counted(live, system, name.clone()));
    Ok(settings(scale).into_iter().flat_map(of).collect())
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels: Vec<String> = CANDIDATES.into_iter().map(name).collect();
    let values = |system: &str| labels.iter().map(|x| results.number(system, x, COPIED)).collect();
    let series = SYSTEMS.iter().map(|system| Series { name: (*system).to_owned(), values: values(system) });
    let chart = Chart {
        title: "copied by cleaning".to_owned(),
        x_label: "loaded".to_owned(),
        y_label: "copied, MiB".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: series.collect(),
        labels: labels.clone(),
    };
    vec![("copied", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let x = name(CANDIDATES[0]);
    let of = |system: &str, column: &str| results.number(system, &x, column).unwrap_or(f64::NAN);
    let gain = of("ldp", COPIED) / of("ldp", WRITTEN);
    vec![
        Verdict::at_least(format!("{x}: copied over written, ldp"), gain, 1.3, "x"),
        Verdict::at_most(
            format!("{x}: copied, splitzns over ldp (to reach 0.2)"),
            of("+RS", COPIED) / of("ldp", COPIED),
            0.2,
            "x",
        ),
        Verdict::at_least(format!("{x}: of the live bytes in subzones"), of("+RS", LIVE_IN), 50.0, "%"),
        Verdict::at_least(format!("{x}: of the bytes of tables written in subzones"), of("+RS", WRITTEN_IN), 15.0, "%"),
    ]
}
