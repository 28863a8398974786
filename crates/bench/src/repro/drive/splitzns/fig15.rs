//! Figure 15: how long writers are held up, and how fast compactions are, with one technique after the other.

use super::super::{DriveExperiment, DriveResults};
use super::fig13::points;
use super::live::{COLUMNS, COMPACTION, OVERWRITE, STALLED};
use super::steps::{bars, ratio, too_few_in_subzones};
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig15",
    title: "stalls and speed of compactions with one technique after the other; stock db_bench, live",
    source: "SplitZNS figure 15",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let x = OVERWRITE.name;
    vec![("stalls", bars(results, x, &[STALLED], "time, %")), ("compaction", bars(results, x, &[COMPACTION], "MB/s"))]
}

/// The paper's figure, which its text describes without numbers: a step, the one before it, whether writers are held up less, and
/// whether compactions are faster. Of *+RS* it says that stalls are no fewer and that compactions seem slower.
const STEPS: [(&str, &str, bool, bool); 4] = [
    ("+diff", "native", true, true),
    ("+SZR", "+diff", true, true),
    ("+RP", "+SZR", true, true),
    ("+RS", "+RP", false, false),
];

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |column: &str, one: &str, other: &str| ratio(results, OVERWRITE.name, column, (one, other));
    let mut verdicts = Vec::new();
    for (one, other, stalls_less, is_faster) in STEPS {
        let stalled = of(STALLED, one, other);
        let what = format!("time in which writers are held up, {one} over {other}");
        verdicts.extend(stalls_less.then(|| Verdict::at_most(what, stalled, 1.0, "x").paper("less")));
        let what = format!("speed of compactions, {one} over {other}");
        let measured = of(COMPACTION, one, other);
        verdicts.push(match is_faster {
            true => Verdict::at_least(what, measured, 1.0, "x").paper("more"),
            false => Verdict::at_most(what, measured, 1.0, "x").paper("less, it seems"),
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::super::DriveRow;
    use super::super::live::VOID;
    use super::*;
    use crate::repro::Scale;

    #[test]
    fn stalls_that_grow_are_missed() {
        let mut results = DriveResults::new(EXPERIMENT.name, Scale::Laptop);
        // What was measured on 2026-11-23.
        let measured = [("native", 17.5, 74.0), ("+diff", 29.7, 90.0), ("+SZR", 38.6, 126.0)];
        let rest = [("+RP", 37.8, 127.0), ("+RS", 29.7, 175.0)];
        for (series, stalled, speed) in measured.into_iter().chain(rest) {
            let row = DriveRow::of(series, OVERWRITE.name).number(VOID, 0.0);
            results.rows.push(row.number(STALLED, stalled).number(COMPACTION, speed));
        }
        let missed: Vec<String> =
            judge(&results).into_iter().filter(|one| one.reached == Some(false)).map(|one| one.target).collect();
        let stalls = |steps: &str| format!("time in which writers are held up, {steps}");
        let expected =
            [stalls("+diff over native"), stalls("+SZR over +diff"), "speed of compactions, +RS over +RP".to_owned()];
        assert_eq!(missed, expected);
    }
}
