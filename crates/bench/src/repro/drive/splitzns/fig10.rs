//! Figure 10: latency of reads and writes under the workloads of figure 9.

use super::super::{DriveExperiment, DriveResults};
use super::driven::{self, LDP, SPLITZNS};
use super::fig9::{at, by_work, points};
use super::live::{COLUMNS, P99, P999, READ_P99};
use super::steps::{ratio, too_few_in_subzones};
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

/// What the paper's text says of tails: of what, workload, column, and SplitZNS over LDP.
const TAILS: [(&str, &str, &str, f64); 7] = [
    ("overwrite, P99 of writes", OVERWRITE, P99, 0.428),
    ("overwrite, P99.9 of writes", OVERWRITE, P999, 0.472),
    ("readrandom, P99 of reads", READRANDOM, P99, 0.569),
    ("readrandom, P99.9 of reads", READRANDOM, P999, 0.57),
    ("YCSB-C, P99 of reads", "YCSB-C", P99, 0.608),
    ("YCSB-A, P99 of writes", "YCSB-A", P99, 0.604),
    ("YCSB-A, P99 of reads", "YCSB-A", READ_P99, 0.751),
];
/// The four cases are the four workloads of [`TAILS`]: each is down if all of its 99th percentiles are.
const CASES: [&str; 4] = [OVERWRITE, READRANDOM, "YCSB-C", "YCSB-A"];
/// So many of them have to be below one.
const CASES_MIN: f64 = 3.0;
const OVERWRITE: &str = driven::OVERWRITE.name;
const READRANDOM: &str = driven::READRANDOM.name;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig10",
    title: "latency under the workloads of table 2, live",
    source: "SplitZNS figure 10",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let us = "latency, us";
    vec![
        ("p99", by_work(results, P99, us)),
        ("p999", by_work(results, P999, us)),
        ("read-p99", by_work(results, READ_P99, us)),
    ]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |work: &str, column: &str| ratio(results, &at(results, work), column, (SPLITZNS.name, LDP.name));
    let is_p99_of = |case: &str, (_, work, column, _): &(&str, &str, &str, f64)| *work == case && *column != P999;
    // Not a number where one of them is missing or void.
    let worst = |case: &str| {
        let of_case = TAILS.iter().filter(|tail| is_p99_of(case, tail)).map(|(_, work, column, _)| of(work, column));
        of_case.fold(0.0, |worst: f64, one| if one > worst || one.is_nan() { one } else { worst })
    };
    let worst: Vec<f64> = CASES.iter().map(|case| worst(case)).collect();
    let down = worst.iter().filter(|tail| **tail < 1.0).count() as f64;
    let unknown = worst.iter().filter(|tail| tail.is_nan()).count() as f64;
    // What is not known is no case, unless it changes nothing.
    let is_known = down >= CASES_MIN || down + unknown < CASES_MIN;
    let down = if is_known { down } else { f64::NAN };
    let cases = Verdict::at_least("P99 down, of the paper's four cases", down, CASES_MIN, "cases").paper(4);
    let tail = |(what, work, column, paper): (&str, &str, &str, f64)| {
        Verdict::at_most(format!("{what}, splitzns over ldp"), of(work, column), 1.0, "x").paper(paper)
    };
    [cases].into_iter().chain(TAILS.into_iter().map(tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::DriveRow;
    use super::super::live::VOID;
    use super::*;
    use crate::repro::Scale;

    /// Rows in which everything of ours is half of `LDP`'s, but one number.
    fn judged(worse: (&str, &str)) -> Vec<Verdict> {
        let mut results = DriveResults::new(EXPERIMENT.name, Scale::Laptop);
        for work in CASES {
            for (series, tail) in [(LDP.name, 100.0), (SPLITZNS.name, 50.0)] {
                let mut row = DriveRow::of(series, &at(&results, work)).number(VOID, 0.0);
                for column in [P99, P999, READ_P99] {
                    let is_worse = series == SPLITZNS.name && worse == (work, column);
                    row = row.number(column, if is_worse { 200.0 } else { tail });
                }
                results.rows.push(row);
            }
        }
        judge(&results)
    }

    #[test]
    fn cases_are_the_papers() {
        let cases = |worse| judged(worse)[0].measured;
        assert_eq!(cases(("", "")), 4.0);
        assert_eq!(cases(("YCSB-A", READ_P99)), 3.0, "its reads count");
        assert_eq!(cases(("YCSB-A", P999)), 4.0, "the paper has no 99.9th percentile of it");
        let missed = judged(("YCSB-A", READ_P99))
            .into_iter()
            .filter(|verdict| verdict.reached == Some(false))
            .collect::<Vec<_>>();
        assert_eq!((missed.len(), missed[0].paper.as_deref(), missed[0].measured), (1, Some("0.751"), 2.0));
        let nothing = judge(&DriveResults::new(EXPERIMENT.name, Scale::Laptop));
        assert!(nothing.iter().all(|verdict| verdict.outcome() == "not run"), "of no case at all: {nothing:?}");
        assert!(judged((READRANDOM, P999)).iter().any(|verdict| verdict.reached == Some(false)));
    }
}
