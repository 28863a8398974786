//! The ZNS paper's figure 1: 64 KiB writes into four zone-sized ranges at a time, the usable capacity filled and
//! then overwritten four times, and on until steady. A range is trimmed, or its zone reset, when its writing begins. Ranges come
//! each once in an order that is drawn and then at random, or one behind the other. Beside the three drives of the paper:
//! a host FTL on the zones.

use std::ops::RangeInclusive;

use zonda_flash::experiments::atc21::{Overwrite, PASSES, WINDOWS_PER_PASS, overwrite};
use zonda_flash::experiments::ranges::Order;
use zonda_flash::profile::Profile;

use super::made::Maker;
use super::{DriveExperiment, DriveResults, DriveRow, Point, Window, host_ftl, refused};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// Drives, and what the paper says of their steady state in MiB/s.
const DRIVES: [(&str, f64); 3] = [("atc21-zns", 1010.0), ("atc21-28op", 590.0), ("atc21-7op", 370.0)];
const HOST_FTL: &str = "hftl:atc21-zns";
const ORDERS: [(Order, &str); 2] = [(Order::Random, "any range"), (Order::Sequential, "in order")];
const STEADY: &str = "steady MiB/s";

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-fig1",
    title: "overwriting: zones, 28 %, 7 %, a host FTL",
    source: "ZNS figure 1",
    how: "virtual time",
    points,
    columns: &[STEADY, "first pass MiB/s", "amplification", "usable GB"],
    charts,
    judge,
};

fn points(scale: Scale) -> Result<Vec<Point>> {
    let passes = scale.pick(0.1..=0.1, PASSES, PASSES);
    let mut points = Vec::new();
    for (order, x) in ORDERS {
        for (name, steady) in DRIVES {
            // Zones have no state that would have to grow old, and the smaller they are the more a reset that waits
            // behind programs weighs: so they are kept larger.
            let zoned = name == "atc21-zns";
            let by = if zoned { scale.pick(170, 8, 1) } else { scale.pick(170, 24, 8) };
            let paper = (order == Order::Random).then_some(steady);
            let passes = passes.clone();
            let run = move |seed| drive(name, (order, x), (by, &passes), paper, seed);
            points.push(Point::new(format!("{name} {x}"), Maker::Drive(name), run));
        }
        let by = scale.pick(170, 64, 24);
        let passes = passes.clone();
        let run = move |seed| host_ftl::overwrite(HOST_FTL, (order, x), (by, &passes), seed);
        points.push(Point::new(format!("{HOST_FTL} {x}"), Maker::Drive(DRIVES[0].0), run));
    }
    Ok(points)
}

fn drive(
    name: &str,
    (order, x): (Order, &str),
    (scale, passes): (u64, &RangeInclusive<f64>),
    paper: Option<f64>,
    seed: u64,
) -> Result<Vec<DriveRow>> {
    let profile = Profile::named(name).map_err(refused)?;
    let run = overwrite(&profile, scale, order, passes.clone(), seed).map_err(refused)?;
    let scaled = profile.scaled(scale).map_err(refused)?;
    let row = DriveRow::new(name, x, &scaled).fact(STEADY, paper);
    Ok(vec![filled_in(row, &run, scale)])
}

/// A row with everything that a run of figure 1 gave.
pub(super) fn filled_in(row: DriveRow, run: &Overwrite, scale: u64) -> DriveRow {
    let window = |window: &zonda_flash::experiments::atc21::Window| Window {
        end_s: window.end_ns as f64 / 1e9,
        passes: window.passes,
        mib_s: window.mib_s,
        amplification: window.amplification,
    };
    let mut row = row
        .number(STEADY, run.steady_mib_s())
        .number("first pass MiB/s", run.first_pass_mib_s())
        .number("amplification", run.windows.last().map(|window| window.amplification))
        .number("usable GB", run.capacity_bytes as f64 * scale as f64 / 1e9)
        .option("scale", scale)
        .option("passes", run.windows.last().map_or(0.0, |window| window.passes))
        .option("write bytes", 64 << 10);
    row.steady = Some(run.steady_mib_s().is_some());
    row.windows = run.windows.iter().map(window).collect();
    row.answers_hash = Some(format!("{:016x}", run.answers_hash));
    row
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    vec![("random", chart(results, "any range")), ("in-order", chart(results, "in order"))]
}

/// Speed over the passes, a window at a time.
fn chart(results: &DriveResults, x: &str) -> Chart {
    let per_pass = usize::try_from(WINDOWS_PER_PASS).expect("a few");
    let rows: Vec<_> = results.rows.iter().filter(|row| row.x == x).collect();
    let steps = rows.iter().map(|row| row.windows.len()).max().unwrap_or(0);
    let pass = |step: usize| if step.is_multiple_of(per_pass) { format!("{}", step / per_pass) } else { String::new() };
    let values = |row: &DriveRow| (0..steps).map(|step| row.windows.get(step).map(|window| window.mib_s)).collect();
    let series = rows.iter().map(|row| Series { name: row.series.clone(), values: values(row) });
    Chart {
        title: format!("overwriting, {x}: MiB/s over times the capacity was written"),
        x_label: "times that the capacity was written".to_owned(),
        y_label: "written, MiB/s".to_owned(),
        kind: Kind::Lines,
        log: false,
        labels: (1..=steps).map(pass).collect(),
        series: series.collect(),
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for ((name, paper), percent) in DRIVES.into_iter().zip([5.0, 5.0, 10.0]) {
        let steady = results.number(name, "any range", STEADY).unwrap_or(f64::NAN);
        let away = (steady / paper - 1.0).abs() * 100.0;
        verdicts.push(Verdict::at_most(format!("{name}, steady, away from {paper} MiB/s"), away, percent, "%"));
        let first = results.number(name, "any range", "first pass MiB/s").unwrap_or(f64::NAN);
        if name != "atc21-zns" {
            verdicts.push(Verdict::at_most(format!("{name}, steady over first pass"), steady / first, 0.75, ""));
        }
    }
    verdicts
}
