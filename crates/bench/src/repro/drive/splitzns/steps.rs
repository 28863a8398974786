//! Numbers and drawings of the live figures: a void row gives neither.

use super::super::DriveResults;
use super::live::{COPIED, LIVE_IN, REFUSED, SYSTEMS, WRITTEN_IN};
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// A number of a row that is not void.
pub(super) fn number(results: &DriveResults, system: &str, x: &str, column: &str) -> Option<f64> {
    results.valid(system, x, column)
}

/// One system over another; not a number where one is missing or void.
pub(super) fn ratio(results: &DriveResults, x: &str, column: &str, systems: (&str, &str)) -> f64 {
    results.ratio(x, column, systems)
}

/// Shares of a run that counts, in percent: of the live bytes, and of those that were written to tables, if any were.
const LIVE_IN_MIN: f64 = 50.0;
const WRITTEN_IN_MIN: f64 = 15.0;

/// The runs that asked for subzones and do not count, each with what it lacks.
pub(super) fn too_few_in_subzones(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for row in &results.rows {
        let of = |column| number(results, &row.series, &row.x, column);
        let lacks = |column, least| of(column).filter(|share| *share < least).map(|share| (column, least, share));
        let missing = [lacks(LIVE_IN, LIVE_IN_MIN), lacks(WRITTEN_IN, WRITTEN_IN_MIN)].into_iter().flatten();
        for (column, least, share) in missing.filter(|_| of(REFUSED).is_some()) {
            let what = format!("{}, {}: {}, to count", row.x, row.series, column.trim_end_matches(" %"));
            verdicts.push(Verdict::at_least(what, share, least, "%"));
        }
    }
    verdicts
}

/// Without half of the live bytes and 15 % of the written ones in subzones a run does not count; and cleaning is to copy a fifth of what
/// it copies without. Of a workload, ours and `LDP`.
pub(super) fn counts(results: &DriveResults, x: &str, (ours, ldp): (&str, &str)) -> [Verdict; 3] {
    let of = |column| number(results, ours, x, column).unwrap_or(f64::NAN);
    [
        Verdict::at_least(
            format!("{x}: of the live bytes in subzones ({ours}), to count"),
            of(LIVE_IN),
            LIVE_IN_MIN,
            "%",
        ),
        Verdict::at_least(
            format!("{x}: of the bytes of tables in subzones ({ours}), to count"),
            of(WRITTEN_IN),
            WRITTEN_IN_MIN,
            "%",
        ),
        Verdict::at_most(format!("{x}: copied, {ours} over {ldp}"), ratio(results, x, COPIED, (ours, ldp)), 0.2, "x"),
    ]
}

/// Bars of every system, for some columns of one workload.
pub(super) fn bars(results: &DriveResults, x: &str, columns: &[&str], y_label: &str) -> Chart {
    let values = |column: &str| SYSTEMS.iter().map(|system| number(results, system.name, x, column)).collect();
    Chart {
        title: format!("{x}: {}", columns.join(", ")),
        x_label: String::new(),
        y_label: y_label.to_owned(),
        kind: Kind::Bars,
        log: columns.len() > 1,
        labels: SYSTEMS.iter().map(|system| system.name.to_owned()).collect(),
        series: columns.iter().map(|column| Series { name: (*column).to_owned(), values: values(column) }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::DriveRow;
    use super::super::live::VOID;
    use super::*;
    use crate::repro::Scale;

    #[test]
    fn runs_with_too_little_in_subzones_are_told() {
        let mut results = DriveResults::new("splitzns-fig16", Scale::Laptop);
        let row = |series: &str, void: f64, live: f64, written: Option<f64>| {
            DriveRow::of(series, "YCSB-A").number(VOID, void).number(LIVE_IN, live).number(WRITTEN_IN, written)
        };
        let with_subzones = |series, void, live, written| row(series, void, live, written).number(REFUSED, 0.0);
        results.rows = vec![
            row("ldp", 0.0, 0.0, Some(0.0)),
            with_subzones("enough", 0.0, 50.0, Some(15.0)),
            with_subzones("reads alone", 0.0, 60.0, None),
            with_subzones("void", 1.0, 0.0, Some(0.0)),
            with_subzones("few", 0.0, 49.0, Some(14.0)),
        ];
        let told = too_few_in_subzones(&results);
        let told: Vec<_> = told.iter().map(|verdict| (verdict.target.as_str(), verdict.reached)).collect();
        let of_few = ["YCSB-A, few: live in subzones, to count", "YCSB-A, few: written in subzones, to count"];
        assert_eq!(told, of_few.map(|what| (what, Some(false))));
    }
}
