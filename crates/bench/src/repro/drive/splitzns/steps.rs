//! Numbers and drawings of the live figures: a void row gives neither.

use super::super::DriveResults;
use super::live::{COPIED, LIVE_IN, SYSTEMS, VOID, WRITTEN_IN};
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// A number of a row that is not void.
pub(super) fn number(results: &DriveResults, system: &str, x: &str, column: &str) -> Option<f64> {
    results.number(system, x, VOID).filter(|void| *void == 0.0)?;
    results.number(system, x, column)
}

/// One system over another; not a number where one is missing or void.
pub(super) fn ratio(results: &DriveResults, x: &str, column: &str, (one, other): (&str, &str)) -> f64 {
    let of = |system| number(results, system, x, column).unwrap_or(f64::NAN);
    of(one) / of(other)
}

/// Without half of the live bytes and 15 % of the written ones in subzones a run does not count; and cleaning is to copy a fifth of what
/// it copies without. Of a workload, ours and `LDP`.
pub(super) fn counts(results: &DriveResults, x: &str, (ours, ldp): (&str, &str)) -> [Verdict; 3] {
    let of = |column| number(results, ours, x, column).unwrap_or(f64::NAN);
    [
        Verdict::at_least(format!("{x}: of the live bytes in subzones ({ours}), to count"), of(LIVE_IN), 50.0, "%"),
        Verdict::at_least(
            format!("{x}: of the bytes of tables in subzones ({ours}), to count"),
            of(WRITTEN_IN),
            15.0,
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
        y_label: y_label.to_owned(),
        kind: Kind::Bars,
        log: columns.len() > 1,
        labels: SYSTEMS.iter().map(|system| system.name.to_owned()).collect(),
        series: columns.iter().map(|column| Series { name: (*column).to_owned(), values: values(column) }).collect(),
    }
}
