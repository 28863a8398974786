//! Whether the gain of overwriting depends on the dilation and the scale of the drive: if it moves by more than a tenth, it is not robust.
//! Overwriting as [`sustained`](super::sustained) has it, on a tree of the paper's size: the claim rests on that, and what a burst gains is
//! partly chance.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, Contender, LDP, OVERWRITE, OVERWRITE_SETTLING, SPLITZNS, Setting};
use super::live::{OPS, SETTLED};
use super::steps::{ratio, too_few_in_subzones};
use super::sustained::{COLUMNS, LOADED_BYTES_OF_PAPER, TIMES};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// So far the gain may be from its mean.
const MOVES_PERCENT_MAX: f64 = 10.0;
/// What is claimed of it.
const GAIN: f64 = 2.0;
const PAPER_GAIN: f64 = 2.77;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-robust",
    title: "the gain of overwriting for long at other dilations and scales, live",
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
    let usual = driven::usual(scale).longer(scale, TIMES, LOADED_BYTES_OF_PAPER);
    let divisors = scale.pick(&[256][..], &[32, 16, 8], &[32, 16, 8]);
    let dilations = scale.pick(&[2][..], &[20, 10, 5], &[20, 10, 5]);
    let at = |divisor: &u64| dilations.iter().map(|k| usual.at(*divisor, *k)).collect::<Vec<_>>();
    divisors.iter().flat_map(at).collect()
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    Ok(driven::points(&settings(scale), &CONTENDERS, &[OVERWRITE_SETTLING]))
}

/// The gain of each setting in a column; not a number where a row is missing or void.
fn gains(results: &DriveResults, column: &str) -> Vec<(String, f64)> {
    let of = |setting: Setting| {
        let x = setting.named(OVERWRITE.name);
        let gain = ratio(results, &x, column, (SPLITZNS.name, LDP.name));
        (x, gain)
    };
    settings(results.scale).into_iter().map(of).collect()
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels = gains(results, OPS).into_iter().map(|(x, _)| x).collect();
    let values = |column: &str| {
        gains(results, column).into_iter().map(|(_, gain)| Some(gain).filter(|gain| gain.is_finite())).collect()
    };
    let series = [("overwriting", OPS), ("with what is due", SETTLED)];
    let chart = Chart {
        title: "overwrite, splitzns over ldp".to_owned(),
        x_label: String::new(),
        y_label: "operations a second (ratio)".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: series.map(|(name, column)| Series { name: name.to_owned(), values: values(column) }).into(),
        labels,
    };
    vec![("gain", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (column, settled) in [(OPS, ""), (SETTLED, ", settled")] {
        let gains = gains(results, column);
        let of = |(x, gain): &(String, f64)| {
            Verdict::at_least(format!("{x}{settled}, splitzns over ldp"), *gain, GAIN, "x").paper(PAPER_GAIN)
        };
        verdicts.extend(gains.iter().map(of));
        let what = format!("overwrite{settled}, splitzns over ldp is robust: farthest from its mean");
        verdicts.push(Verdict::at_most(what, moves_most(&gains), MOVES_PERCENT_MAX, "%"));
    }
    verdicts
}

/// How far the farthest gain is from the mean of all, in percent; not a number if one is none.
fn moves_most(gains: &[(String, f64)]) -> f64 {
    let mean = gains.iter().map(|(_, gain)| gain).sum::<f64>() / gains.len().max(1) as f64;
    // `max` would pass over what is not a number.
    let moves = gains.iter().map(|(_, gain)| 100.0 * (gain / mean - 1.0).abs());
    moves.fold(0.0, |most: f64, one| if one > most || one.is_nan() { one } else { most })
}

#[cfg(test)]
mod tests {
    use super::super::super::DriveRow;
    use super::super::live::VOID;
    use super::*;

    /// Whether the gains, with what is due as large as without, are robust, and whether each is what is claimed.
    fn judged(of: &dyn Fn(usize) -> f64, rows: usize) -> (bool, bool) {
        let mut results = DriveResults::new(EXPERIMENT.name, Scale::Laptop);
        for (at, setting) in settings(Scale::Laptop).iter().enumerate().take(rows) {
            let row = |series: &str, ops| {
                let row = DriveRow::of(series, &setting.named(OVERWRITE.name));
                row.number(OPS, ops).number(SETTLED, ops / 2.0).number(VOID, 0.0)
            };
            results.rows.extend([row(LDP.name, 100.0), row(SPLITZNS.name, of(at))]);
        }
        let (robust, gains): (Vec<Verdict>, Vec<Verdict>) =
            judge(&results).into_iter().partition(|verdict| verdict.target.contains("robust"));
        assert_eq!((robust.len(), gains.len()), (2, 18));
        let are_reached = |verdicts: &[Verdict]| verdicts.iter().all(|verdict| verdict.reached == Some(true));
        (are_reached(&robust), are_reached(&gains))
    }

    #[test]
    fn a_gain_that_moves_is_not_robust() {
        assert_eq!(judged(&|at| 200.0 + at as f64, 9), (true, true), "by four percent at most");
        assert_eq!(judged(&|_| 199.0, 9), (true, false), "less than is claimed");
        assert_eq!(judged(&|at| if at == 3 { 300.0 } else { 200.0 }, 9), (false, true));
        assert_eq!(judged(&|_| 200.0, 8), (false, false), "one is missing");
    }

    #[test]
    fn it_is_the_long_run_of_the_papers_tree_that_is_judged() {
        let [_, long] = super::super::sustained::settings(Scale::Laptop);
        let settings = settings(Scale::Laptop);
        let like_it = settings.iter().find(|setting| setting.label() == "1/16, k = 10").unwrap().lines();
        for line in &long.lines() {
            assert!(like_it.contains(line), "{line:?}: {like_it:?}");
        }
    }
}
