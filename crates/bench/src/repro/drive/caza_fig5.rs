//! The CAZA paper's figure 5: what each reset of a zone copied, at thresholds of 5, 15 and 25 %.

use zonda_files::replay::ReplayReport;

use super::caza::{CAZA, LIMITS, LIZA, POLICIES, SOURCES, Setting, WITHOUT_COPY, points, settings, with_mean};
use super::text::y_axis;
use super::{DriveExperiment, DriveResults, DriveRow};
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const THRESHOLDS: [u8; 3] = [5, 15, 25];
const PER_RESET: &str = "copied MB per reset";
/// Resets without a copy, in percent, by policy and threshold.
const PAPER: [(&str, u8, f64); 4] = [(CAZA, 5, 91.0), (LIZA, 5, 76.0), (CAZA, 25, 67.0), (LIZA, 25, 25.0)];

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "caza-fig5",
    title: "what a reset copies, by threshold",
    source: "CAZA figure 5",
    how: "traces replayed",
    points: |scale| Ok(points(scale, settings(&POLICIES, &LIMITS, scale.pick(&[15], &THRESHOLDS, &THRESHOLDS)), rows)),
    columns: &[WITHOUT_COPY, PER_RESET, "median MB", "p90 MB", "resets"],
    charts: |results| vec![("", chart(results))],
    judge,
};

fn rows(setting: &Setting, reports: &[ReplayReport]) -> Vec<DriveRow> {
    let mut row = DriveRow::of(setting.policy, &setting.x());
    row = with_mean(row, WITHOUT_COPY, reports, |report| 100.0 * report.share_without_copy());
    row = with_mean(row, PER_RESET, reports, |report| report.copied_bytes as f64 / 1e6 / report.resets.max(1) as f64);
    row = with_mean(row, "median MB", reports, |report| quantile(report, 50));
    row = with_mean(row, "p90 MB", reports, |report| quantile(report, 90));
    row = with_mean(row, "resets", reports, |report| report.resets as f64);
    let paper =
        PAPER.iter().find(|(policy, threshold, _)| (*policy, *threshold) == (setting.policy, setting.threshold));
    vec![row.fact(WITHOUT_COPY, paper.map(|fact| fact.2))]
}

fn quantile(report: &ReplayReport, percent: usize) -> f64 {
    let mut copied = report.copied_per_reset.clone();
    copied.sort_unstable();
    copied.get(copied.len().saturating_sub(1) * percent / 100).map_or(0.0, |bytes| *bytes as f64 / 1e6)
}

fn chart(results: &DriveResults) -> Chart {
    let x = |threshold| Setting { source: SOURCES[0], policy: LIZA, active: None, threshold }.x();
    let series = POLICIES.map(|name| Series {
        name: name.to_owned(),
        values: THRESHOLDS.map(|threshold| results.number(name, &x(threshold), WITHOUT_COPY)).into(),
    });
    Chart {
        title: "resets without a copy, in percent, by threshold".to_owned(),
        x_label: "threshold of free space, %".to_owned(),
        y_label: y_axis(WITHOUT_COPY),
        kind: Kind::Bars,
        log: false,
        labels: THRESHOLDS.map(|threshold| threshold.to_string()).into(),
        series: series.into(),
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |setting: Setting| {
        let x = setting.x();
        let number = |policy| results.number(policy, &x, WITHOUT_COPY).unwrap_or(f64::NAN);
        Verdict::at_least(
            format!("{x}: resets without a copy, {CAZA} over {LIZA}"),
            number(CAZA) / number(LIZA),
            1.0,
            "x",
        )
    };
    settings(&[LIZA], &LIMITS, &THRESHOLDS).into_iter().map(of).collect()
}
