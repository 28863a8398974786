//! The CAZA paper's figure 3: bytes that cleaning copies, and amplification, by the free-space threshold.

use zonda_files::replay::ReplayReport;

use super::caza::{
    AMPLIFICATION, CAZA, COPIED, LASTING, LEVEL_KEYS, LEVELS, LIMITS, LIZA, POLICIES, SOURCES, Setting, THRESHOLDS,
    points, settings, with_mean,
};
use super::text::y_axis;
use super::{DriveExperiment, DriveResults, DriveRow};
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// The paper: copies "up to 2 times" fewer, amplification down by up to 7.4 %.
const PAPER_COPIES: f64 = 2.0;
const PAPER_AMPLIFICATION_PERCENT: f64 = 7.4;

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "caza-fig3",
    title: "copies of cleaning and amplification by threshold",
    source: "CAZA figure 3",
    how: "traces replayed",
    points: |scale| {
        Ok(points(scale, settings(&POLICIES, &LIMITS, scale.pick(&[15][..], &THRESHOLDS, &THRESHOLDS)), rows))
    },
    columns: &[COPIED, "copied GB, least", "copied GB, most", AMPLIFICATION],
    charts: |results| vec![("copied", chart(results, COPIED)), ("amplification", chart(results, AMPLIFICATION))],
    judge,
};

fn rows(setting: &Setting, reports: &[ReplayReport]) -> Vec<DriveRow> {
    let row = DriveRow::of(setting.policy, &setting.x());
    let row = with_mean(row, COPIED, reports, |report| report.copied_bytes as f64 / 1e9);
    let row = with_mean(row, "written GB", reports, |report| report.table_bytes as f64 / 1e9);
    vec![with_mean(row, AMPLIFICATION, reports, |report| report.amplification)]
}

fn chart(results: &DriveResults, number: &str) -> Chart {
    let source = SOURCES[0];
    let x = |threshold| Setting { source, policy: LIZA, active: None, threshold }.x();
    let series = POLICIES.map(|name| Series {
        name: name.to_owned(),
        values: THRESHOLDS.map(|threshold| results.number(name, &x(threshold), number)).into(),
    });
    Chart {
        title: format!("{number} by threshold in percent, {} traces, no limit of active zones", source.name()),
        x_label: "threshold of free space, %".to_owned(),
        y_label: y_axis(number),
        kind: Kind::Lines,
        log: false,
        labels: THRESHOLDS.map(|threshold| threshold.to_string()).into(),
        series: series.into(),
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for setting in settings(&[LIZA], &LIMITS, &THRESHOLDS) {
        let x = setting.x();
        let number = |policy: &str, name: &str| results.number(policy, &x, name).unwrap_or(f64::NAN);
        // Who copies nothing has copied no part of it, even of nothing.
        let share = |policy: &str| {
            let (copied, of_liza) = (number(policy, COPIED), number(LIZA, COPIED));
            if copied > 0.0 || of_liza.is_nan() { copied / of_liza } else { copied }
        };
        let bound = if [15, 25].contains(&setting.threshold) { 0.7 } else { 1.0 };
        for policy in [CAZA, LEVELS, LEVEL_KEYS, LASTING] {
            let what = format!("{x}: copies of {policy} over {LIZA}'s (paper: down to 1/{PAPER_COPIES})");
            verdicts.push(Verdict::at_most(what, share(policy), bound, "x"));
        }
        let saved = 100.0 * (1.0 - number(CAZA, AMPLIFICATION) / number(LIZA, AMPLIFICATION));
        let what =
            format!("{x}: amplification of {CAZA} below {LIZA}'s (paper: up to {PAPER_AMPLIFICATION_PERCENT} %)");
        verdicts.push(Verdict::at_least(what, saved, 0.0, "%"));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::Scale;

    #[test]
    fn who_copies_nothing_was_run() {
        let mut results = DriveResults::new(EXPERIMENT.name, Scale::Laptop);
        let x = Setting { source: SOURCES[0], policy: LIZA, active: None, threshold: 5 }.x();
        let outcome = |results: &DriveResults, policy: &str| {
            let of = |verdict: &Verdict| verdict.target.starts_with(&format!("{x}: copies of {policy} over"));
            judge(results).iter().find(|verdict| of(verdict)).map(|verdict| (verdict.outcome(), verdict.measured > 0.0))
        };
        assert_eq!(outcome(&results, CAZA).unwrap().0, "not run");
        let mut alone = results.clone();
        alone.rows.push(DriveRow::of(CAZA, &x).number(COPIED, 0.0));
        assert_eq!(outcome(&alone, CAZA).unwrap().0, "not run", "nobody to compare it with");
        results.rows.extend([LIZA, CAZA].map(|policy| DriveRow::of(policy, &x).number(COPIED, 0.0)));
        results.rows.push(DriveRow::of(LEVELS, &x).number(COPIED, 1.0));
        assert_eq!(outcome(&results, CAZA), Some(("reached", false)));
        assert_eq!(outcome(&results, LEVELS), Some(("missed", true)));
    }
}
