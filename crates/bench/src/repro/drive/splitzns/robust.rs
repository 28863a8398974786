//! Whether the gain of overwriting depends on the dilation and the scale of the drive: if it moves by more than a tenth, it is not robust.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, Contender, LDP, OVERWRITE, OVERWRITE_ALONE, SPLITZNS, Setting};
use super::live::{COLUMNS, OPS};
use super::steps::{ratio, too_few_in_subzones};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// So far the gain may be from its mean.
const MOVES_PERCENT_MAX: f64 = 10.0;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-robust",
    title: "the gain of overwriting at other dilations and scales, live",
    source: "a control",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

pub(super) const CONTENDERS: [Contender; 2] = [LDP, SPLITZNS];

/// Scales, and the dilations at each: drives that are loaded once for a scale serve all of its dilations.
pub(super) fn settings(scale: Scale) -> Vec<Setting> {
    let usual = driven::usual(scale);
    let divisors = scale.pick(&[256][..], &[32, 16, 8], &[32, 16, 8]);
    let dilations = scale.pick(&[2][..], &[20, 10, 5], &[20, 10, 5]);
    let at = |divisor: &u64| dilations.iter().map(|k| usual.at(*divisor, *k)).collect::<Vec<_>>();
    divisors.iter().flat_map(at).collect()
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    Ok(driven::points(&settings(scale), &CONTENDERS, &[OVERWRITE_ALONE]))
}

/// The gain of each setting; not a number where a row is missing or void.
fn gains(results: &DriveResults) -> Vec<(String, f64)> {
    let of = |setting: Setting| {
        let x = setting.named(OVERWRITE.name);
        let gain = ratio(results, &x, OPS, (SPLITZNS.name, LDP.name));
        (x, gain)
    };
    settings(results.scale).into_iter().map(of).collect()
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let (labels, gains): (Vec<String>, Vec<f64>) = gains(results).into_iter().unzip();
    let values = gains.into_iter().map(|gain| Some(gain).filter(|gain| gain.is_finite())).collect();
    let chart = Chart {
        title: "overwrite, splitzns over ldp".to_owned(),
        x_label: String::new(),
        y_label: "operations a second (ratio)".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: vec![Series { name: SPLITZNS.name.to_owned(), values }],
        labels,
    };
    vec![("gain", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let gains = gains(results);
    let mean = gains.iter().map(|(_, gain)| gain).sum::<f64>() / gains.len().max(1) as f64;
    let mut verdicts: Vec<Verdict> =
        gains.iter().map(|(x, gain)| Verdict::at_least(format!("{x}, splitzns over ldp"), *gain, 1.0, "x")).collect();
    // `max` would pass over what is not a number.
    let moves = gains.iter().map(|(_, gain)| 100.0 * (gain / mean - 1.0).abs());
    let most = moves.fold(0.0, |most: f64, one| if one > most || one.is_nan() { one } else { most });
    let what = "overwrite, splitzns over ldp is robust: farthest from its mean";
    verdicts.push(Verdict::at_most(what, most, MOVES_PERCENT_MAX, "%"));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::super::DriveRow;
    use super::super::live::VOID;
    use super::*;

    #[test]
    fn a_gain_that_moves_is_not_robust() {
        let judged = |of: &dyn Fn(usize) -> f64, rows: usize| {
            let mut results = DriveResults::new(EXPERIMENT.name, Scale::Laptop);
            for (at, setting) in settings(Scale::Laptop).iter().enumerate().take(rows) {
                let row = |series: &str, ops| {
                    DriveRow::of(series, &setting.named(OVERWRITE.name)).number(OPS, ops).number(VOID, 0.0)
                };
                results.rows.extend([row(LDP.name, 100.0), row(SPLITZNS.name, of(at))]);
            }
            judge(&results).last().unwrap().reached == Some(true)
        };
        assert!(judged(&|at| 200.0 + at as f64, 9), "by four percent at most");
        assert!(!judged(&|at| if at == 3 { 300.0 } else { 200.0 }, 9));
        assert!(!judged(&|_| 200.0, 8), "one is missing");
    }
}
