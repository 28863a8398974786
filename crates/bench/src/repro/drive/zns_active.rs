//! RocksDB on zones with 3, 6, 12 and 14 active ones (section 4.2 of the ZNS paper: 6 are enough to work, more than 12 gain nothing).

use super::zns_rocksdb::{COLUMNS, FILL, HOW, OVERWRITE, RATE, Reads, System, bars, point, ratio};
use super::{DriveExperiment, DriveResults, FAILED};
use crate::verdict::Verdict;

const ACTIVE: [u32; 4] = [3, 6, 12, 14];

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-active",
    title: "RocksDB writing on zones of which 3, 6, 12 or 14 may be active",
    source: "ZNS section 4.2",
    how: HOW,
    points: |scale| Ok(limits().into_iter().map(|system| point(scale, system, Reads::None)).collect()),
    columns: COLUMNS,
    charts: |results| vec![("throughput", bars(results, &limits(), &[FILL, OVERWRITE], RATE))],
    judge,
};

fn name(active: u32) -> String {
    format!("{active} active")
}

fn limits() -> Vec<System> {
    ACTIVE.map(|active| System::zones("liza-zns", &format!("&active_zones={active}")).called(name(active))).into()
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let over = |x, more, less| ratio(results, x, RATE, (&name(more), &name(less)));
    let rows_of = |active: u32| results.rows.iter().filter(move |row| row.series == name(active));
    let works = |active: &u32| rows_of(*active).any(|row| row.x == OVERWRITE && !row.options.contains_key(FAILED));
    // Of a limit that was not run nobody knows.
    let all_ran = ACTIVE.into_iter().all(|active| rows_of(active).next().is_some());
    let working = if all_ran { ACTIVE.iter().filter(|active| works(active)).count() as f64 } else { f64::NAN };
    vec![
        Verdict::at_least("limits with which RocksDB works", working, ACTIVE.len() as f64, ""),
        Verdict::at_least("overwrite, 12 over 6 (paper: restricted at 6)", over(OVERWRITE, 12, 6), 1.0, "x"),
        Verdict::at_most("overwrite, 14 over 12 (paper: no significant gain)", over(OVERWRITE, 14, 12), 1.1, "x"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::DriveRow;
    use super::*;
    use crate::repro::Scale;

    #[test]
    fn limits_that_were_not_run_are_not_judged() {
        let mut results = DriveResults::new(EXPERIMENT.name, Scale::Laptop);
        let outcome = |results: &DriveResults| judge(results)[0].outcome();
        assert_eq!(outcome(&results), "not run");
        results.rows.extend([6, 12, 14].map(|active| DriveRow::of(&name(active), OVERWRITE)));
        assert_eq!(outcome(&results), "not run", "of three there is none that says how many work");
        results.rows.push(DriveRow::of(&name(3), FILL).option(FAILED, "no zone"));
        assert_eq!(outcome(&results), "missed", "that one fails is a result");
        results.rows.push(DriveRow::of(&name(3), OVERWRITE));
        assert_eq!(outcome(&results), "reached");
    }
}
