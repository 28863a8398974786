//! Figure 12: what cleaning copies. Nothing of it comes out of subzones: the replay asserts it, as the store does.

use super::super::{DriveExperiment, DriveResults};
use super::fig11::{COPIED, LIVE_IN, SYSTEMS, WORKLOADS, WRITTEN_IN, counts, points};
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig12",
    title: "copied by cleaning",
    source: "SplitZNS figure 12",
    how: "a replay: bytes, no time",
    points,
    columns: &[COPIED, "least GiB", "most GiB", "collections", "merges", "split zones", WRITTEN_IN, LIVE_IN],
    charts,
    judge: |results| judge(results).into_iter().chain(counts(results)).collect(),
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels: Vec<String> = WORKLOADS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let values = |system: &str| labels.iter().map(|x| results.number(system, x, COPIED)).collect();
    let series = SYSTEMS.iter().map(|(system, _)| Series { name: (*system).to_owned(), values: values(system) });
    let chart = Chart {
        title: "copied by cleaning".to_owned(),
        x_label: String::new(),
        y_label: "copied, GiB".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: series.collect(),
        labels: labels.clone(),
    };
    vec![("copied", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |(workload, _): (&'static str, f64)| {
        let copied = |system| results.number(system, workload, COPIED).unwrap_or(f64::NAN);
        ["splitzns", "splitzns+"].map(|system| {
            let ratio = copied(system) / copied("ldp");
            Verdict::at_most(format!("{workload}: copied, {system} over ldp"), ratio, 0.2, "x")
        })
    };
    WORKLOADS.into_iter().flat_map(of).collect()
}
