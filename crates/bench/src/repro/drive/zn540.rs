//! The ZN540: every measured row beside the model's. Rows of the set `held` were not looked at while parameters were chosen.

use zonda_flash::experiments::zn540::{Compared, Operation, Row, Set, rows, run};
use zonda_flash::profile::Profile;

use super::made::Maker;
use super::text::y_axis;
use super::{DriveExperiment, DriveResults, DriveRow, Point, refused};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const SOURCE: &str = "NVMeBenchmarks, CLUSTER 2023";
const PROFILE: &str = "zn540";
const COLUMNS: &[&str] = &["per s", "mean us", "p99 us", "error %"];

pub(super) const READ: DriveExperiment = DriveExperiment {
    name: "zn540-read",
    title: "random reads by depth and size",
    source: SOURCE,
    how: "virtual time",
    points: |scale| points(scale, &[Operation::Read]),
    columns: COLUMNS,
    charts: |results| vec![("", chart(results, "random reads", "per s"))],
    judge: |results| errors(results, "reads"),
};

pub(super) const MIXED: DriveExperiment = DriveExperiment {
    name: "zn540-mixed",
    title: "random reads of 4 KiB beside writes of 128 KiB at a rate",
    source: SOURCE,
    how: "virtual time",
    points: |scale| points(scale, &[Operation::Mixed]),
    columns: COLUMNS,
    charts: |results| vec![("", chart(results, "mean read latency beside writes", "mean us"))],
    judge: |results| errors(results, "mixed"),
};

pub(super) const WRITE: DriveExperiment = DriveExperiment {
    name: "zn540-write",
    title: "writes by size and zones, appends by depth",
    source: SOURCE,
    how: "virtual time",
    points: |scale| points(scale, &[Operation::Write, Operation::Append]),
    columns: COLUMNS,
    charts: |results| vec![("", chart(results, "writes and appends", "per s"))],
    judge: |results| largest(results, "writes and appends"),
};

pub(super) const MANAGE: DriveExperiment = DriveExperiment {
    name: "zn540-manage",
    title: "reset and finish by occupancy",
    source: SOURCE,
    how: "virtual time",
    points: |scale| points(scale, &[Operation::Reset, Operation::ResetFinished, Operation::Finish]),
    columns: COLUMNS,
    charts: |results| vec![("", chart(results, "reset and finish", "mean us"))],
    judge: |results| largest(results, "reset and finish"),
};

fn points(scale: Scale, operations: &[Operation]) -> Result<Vec<Point>> {
    let seconds = scale.pick(0.02, 1.0, 5.0);
    let chosen = rows().map_err(refused)?.into_iter().filter(|row| operations.contains(&row.operation));
    let point = |row: Row| {
        let id = format!("{} {}", series(&row), x(&row));
        Point::new(id, Maker::Drive(PROFILE), move |seed| measure(&row, seconds, seed))
    };
    Ok(chosen.map(point).collect())
}

fn measure(row: &Row, seconds: f64, seed: u64) -> Result<Vec<DriveRow>> {
    let profile = Profile::named(PROFILE).map_err(refused)?;
    let compared = run(&profile, row, seconds, seed).map_err(refused)?;
    let Compared { row, model } = &compared;
    let found = DriveRow::new(&series(row), &x(row), &profile)
        .number("per s", model.per_second)
        .fact("per s", row.figures.per_second)
        .number("mean us", model.mean_us)
        .fact("mean us", row.figures.mean_us)
        .number("p99 us", model.p99_us)
        .fact("p99 us", row.figures.p99_us)
        .number("error %", compared.error() * 100.0)
        .number("p99 error %", compared.p99_error().map(|error| error * 100.0))
        .option("seconds", seconds)
        .option("set", if row.set == Set::Held { "held" } else { "fit" });
    Ok(vec![found])
}

fn series(row: &Row) -> String {
    let kib = row.bytes >> 10;
    match row.operation {
        Operation::Read => format!("read {kib} KiB"),
        Operation::Mixed => format!("depth {}", row.depth),
        Operation::Write => format!("write {kib} KiB"),
        Operation::Append => format!("append {kib} KiB"),
        Operation::Reset => "reset".to_owned(),
        Operation::ResetFinished => "reset, finished".to_owned(),
        Operation::Finish => "finish".to_owned(),
    }
}

fn x(row: &Row) -> String {
    match row.operation {
        Operation::Read => format!("depth {}", row.depth),
        Operation::Mixed => format!("{} MiB/s", row.write_mib_s),
        Operation::Write | Operation::Append => format!("{} zones, depth {}", row.zones, row.depth),
        _ => format!("{} %", row.occupancy_percent),
    }
}

/// Ours as one line and theirs as another, for each series.
fn chart(results: &DriveResults, title: &str, number: &str) -> Chart {
    let mut labels: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for row in &results.rows {
        if !labels.contains(&row.x) {
            labels.push(row.x.clone());
        }
        if !names.contains(&row.series) {
            names.push(row.series.clone());
        }
    }
    let line = |name: &String, theirs: bool| Series {
        name: if theirs { format!("{name}, drive") } else { format!("{name}, model") },
        values: labels
            .iter()
            .map(|x| {
                let row = results.rows.iter().find(|row| row.series == *name && row.x == *x)?;
                if theirs { &row.facts } else { &row.numbers }.get(number).copied()
            })
            .collect(),
    };
    let series = names.iter().flat_map(|name| [line(name, false), line(name, true)]).collect();
    let (title, x_label, y_label) = (title.to_owned(), String::new(), y_axis(number));
    Chart { title, x_label, y_label, kind: Kind::Lines, log: true, labels, series }
}

/// The targets of rows that were held out: mean error, largest error of the 99th percentile.
fn errors(results: &DriveResults, what: &str) -> Vec<Verdict> {
    let held: Vec<_> =
        results.rows.iter().filter(|row| row.options.get("set").is_some_and(|set| set == "held")).collect();
    let of =
        |name: &str| -> Vec<f64> { held.iter().filter_map(|row| row.numbers.get(name)).map(|e| e.abs()).collect() };
    let (means, p99) = (of("error %"), of("p99 error %"));
    // Of none there is no mean, which says "not run".
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let worst = p99.into_iter().fold(f64::NAN, f64::max);
    vec![
        Verdict::at_most(format!("{what} held out of the fit, mean error"), mean, 5.0, "%"),
        Verdict::at_most(format!("{what} held out of the fit, largest error of p99"), worst, 20.0, "%"),
    ]
}

fn largest(results: &DriveResults, what: &str) -> Vec<Verdict> {
    let errors = results.rows.iter().filter_map(|row| row.numbers.get("error %"));
    let worst = errors.map(|error| error.abs()).fold(f64::NAN, f64::max);
    vec![Verdict::at_most(format!("{what}, largest error"), worst, 5.0, "%")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_reached_of_which_nothing_was_measured() {
        let mut results = DriveResults::new("zn540-read", crate::repro::Scale::Laptop);
        results.rows.push(super::super::DriveRow::of("read 4 KiB", "1").option("set", "fit"));
        let verdicts = errors(&results, "reads").into_iter().chain(largest(&results, "writes"));
        verdicts.for_each(|verdict| assert!(verdict.outcome() == "not run", "{}", verdict.target));
    }
}
