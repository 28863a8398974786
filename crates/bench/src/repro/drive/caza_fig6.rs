//! The CAZA paper's figure 6: in how many zones the inputs of a compaction lie, and how much of each dies with it.

use zonda_files::replay::ReplayReport;

use super::caza::{CAZA, INVALIDATED, LIMITS, LIZA, POLICIES, SOURCES, Setting, ZONES, points, settings, with_mean};
use super::text::y_axis;
use super::{DriveExperiment, DriveResults, DriveRow};
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const THRESHOLD: u8 = 15;
/// Zones, and megabytes in each, by policy. The paper does not say at which threshold.
const PAPER: [(&str, f64, f64); 2] = [(CAZA, 3.0, 83.0), (LIZA, 3.8, 74.0)];

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "caza-fig6",
    title: "zones of a compaction's inputs, threshold 15 %",
    source: "CAZA figure 6",
    how: "traces replayed",
    points: |scale| Ok(points(scale, settings(&POLICIES, &LIMITS, &[THRESHOLD]), rows)),
    columns: &[ZONES, INVALIDATED, "compactions"],
    charts: |results| vec![("zones", chart(results, ZONES)), ("invalidated", chart(results, INVALIDATED))],
    judge,
};

fn rows(setting: &Setting, reports: &[ReplayReport]) -> Vec<DriveRow> {
    let mut row = DriveRow::of(setting.policy, &setting.x());
    row = with_mean(row, ZONES, reports, |report| report.zones_per_compaction);
    row = with_mean(row, INVALIDATED, reports, |report| report.invalidated_bytes_per_zone / 1e6);
    row = with_mean(row, "compactions", reports, |report| report.compactions as f64);
    let paper = PAPER.iter().find(|(policy, ..)| *policy == setting.policy);
    vec![row.fact(ZONES, paper.map(|fact| fact.1)).fact(INVALIDATED, paper.map(|fact| fact.2))]
}

fn chart(results: &DriveResults, number: &str) -> Chart {
    let x = |source| Setting { source, policy: LIZA, active: None, threshold: THRESHOLD }.x();
    let series = POLICIES.map(|name| Series {
        name: name.to_owned(),
        values: SOURCES.map(|source| results.number(name, &x(source), number)).into(),
    });
    Chart {
        title: format!("{number}, threshold {THRESHOLD} %"),
        x_label: "traces".to_owned(),
        y_label: y_axis(number),
        kind: Kind::Bars,
        log: false,
        labels: SOURCES.map(|source| source.name().to_owned()).into(),
        series: series.into(),
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |setting: Setting| {
        let x = setting.x();
        let ratio = |name| {
            let number = |policy| results.number(policy, &x, name).unwrap_or(f64::NAN);
            number(CAZA) / number(LIZA)
        };
        let zones = format!("{x}: {ZONES}, {CAZA} over {LIZA} (paper {:.2})", PAPER[0].1 / PAPER[1].1);
        let bytes = format!("{x}: {INVALIDATED}, {CAZA} over {LIZA} (paper {:.2})", PAPER[0].2 / PAPER[1].2);
        [Verdict::at_most(zones, ratio(ZONES), 1.0, "x"), Verdict::at_least(bytes, ratio(INVALIDATED), 1.0, "x")]
    };
    settings(&[LIZA], &LIMITS, &[THRESHOLD]).into_iter().flat_map(of).collect()
}
