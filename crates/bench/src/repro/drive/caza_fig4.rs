//! The CAZA paper's figure 4: zones by the share of them that is invalid, in five spans of the time, at a threshold of 15 %.

use zonda_files::replay::{InvalidShares, ReplayReport, SHARES};

use super::caza::{CAZA, LIMITS, LIZA, POLICIES, SOURCES, Setting, points, settings, share_labels};
use super::{DriveExperiment, DriveResults, DriveRow};
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const THRESHOLD: u8 = 15;
const ALL: &str = "zones at 1.0 %";
const NEARLY: &str = "zones from 0.95 %";
const EMPTY: &str = "empty %";
/// How many more zones CAZA has than LIZA, at 1.0 and from 0.95 on.
const PAPER: [(&str, f64); 2] = [(ALL, 3.32), (NEARLY, 4.2)];

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "caza-fig4",
    title: "zones by invalid share over time, threshold 15 %",
    source: "CAZA figure 4",
    how: "traces replayed",
    points: |scale| Ok(points(scale, settings(&POLICIES, &LIMITS, &[THRESHOLD]), rows)),
    columns: &[ALL, NEARLY, EMPTY],
    charts: |results| vec![("", chart(results))],
    judge,
};

/// One row for each span, and one for all.
fn rows(setting: &Setting, reports: &[ReplayReport]) -> Vec<DriveRow> {
    let spans = reports.first().map_or(0, |report| report.invalid.len());
    let of_span = |span: usize| {
        let x = format!("{}, span {}", setting.x(), span + 1);
        row(setting, &x, reports.iter().map(|report| report.invalid[span]).collect())
    };
    let whole = row(setting, &setting.x(), reports.iter().map(ReplayReport::invalid_in_all).collect());
    (0..spans).map(of_span).chain([whole]).collect()
}

/// Shares of all samples of all zones, in percent.
fn row(setting: &Setting, x: &str, shares: Vec<InvalidShares>) -> DriveRow {
    let total: u64 = shares.iter().map(|shares| shares.empty + shares.at_least(0)).sum();
    let percent = |count: u64| 100.0 * count as f64 / total.max(1) as f64;
    let sum = |of: &dyn Fn(&InvalidShares) -> u64| percent(shares.iter().map(of).sum());
    let mut row = DriveRow::of(setting.policy, x)
        .number(ALL, sum(&|shares| shares.at_least(SHARES - 1)))
        .number(NEARLY, sum(&|shares| shares.at_least(SHARES - 2)))
        .number(EMPTY, sum(&|shares| shares.empty));
    for (part, label) in share_labels().iter().enumerate() {
        row = row.number(&bin(label), sum(&|shares| shares.bins[part]));
    }
    row
}

fn bin(label: &str) -> String {
    format!("zones in {label} %")
}

fn chart(results: &DriveResults) -> Chart {
    let x = Setting { source: SOURCES[0], policy: LIZA, active: None, threshold: THRESHOLD }.x();
    let series = POLICIES.map(|name| Series {
        name: name.to_owned(),
        values: share_labels().iter().map(|label| results.number(name, &x, &bin(label))).collect(),
    });
    Chart {
        title: format!("zones by invalid share, percent of all samples, {x}"),
        x_label: "invalid share of a zone".to_owned(),
        y_label: "samples of zones, %".to_owned(),
        kind: Kind::Lines,
        log: true,
        labels: share_labels(),
        series: series.into(),
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for setting in settings(&[LIZA], &LIMITS, &[THRESHOLD]) {
        let x = setting.x();
        for (what, paper) in PAPER {
            let number = |policy| results.number(policy, &x, what).unwrap_or(f64::NAN);
            let ratio = number(CAZA) / number(LIZA);
            verdicts.push(Verdict::at_least(
                format!("{x}: {what}, {CAZA} over {LIZA} (paper {paper})"),
                ratio,
                1.0,
                "x",
            ));
        }
    }
    verdicts
}
