//! The ZNS paper's figure 5: writes at a rate, random reads of 4 KiB one at a time beside them.

use zonda_flash::experiments::atc21::read_beside_writes;
use zonda_flash::profile::Profile;

use super::made::Maker;
use super::text::y_axis;
use super::{DriveExperiment, DriveResults, DriveRow, Point, refused};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// Write targets in MiB/s.
const TARGETS: [f64; 10] = [0.0, 50.0, 150.0, 300.0, 350.0, 400.0, 500.0, 600.0, 800.0, 1024.0];
const ZONES: &str = "atc21-zns";
/// Conventional drives, the highest target that each sustains, the most that figure 1 and its tolerance let it do (590 and
/// 5 %, 370 and 10 %), and by how many percent zones are faster at 50, 150, 300.
const CONVENTIONAL: [(&str, f64, f64, [f64; 3]); 2] =
    [("atc21-28op", 500.0, 619.5, [5.0, 16.0, 27.0]), ("atc21-7op", 300.0, 407.0, [19.0, 45.0, 64.0])];
const WRITTEN: &str = "written MiB/s";
const READ: &str = "read us";

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-fig5",
    title: "reads beside writes at a rate: zones, 28 %, 7 %",
    source: "ZNS figure 5",
    how: "virtual time",
    points,
    columns: &[READ, "p99 us", WRITTEN, "amplification", "waited for programs us", "for collection us"],
    charts: |results| vec![("read", chart(results, READ)), ("written", chart(results, WRITTEN))],
    judge,
};

fn points(scale: Scale) -> Result<Vec<Point>> {
    let seconds = scale.pick(0.05, 30.0, 30.0);
    let names = [ZONES, CONVENTIONAL[0].0, CONVENTIONAL[1].0];
    let point = |name: &'static str| {
        // Zones are not made smaller: they have nothing to grow old, and a reset waits as long as on the full drive.
        let by = if name == ZONES { 1 } else { scale.pick(170, 24, 8) };
        let run =
            move |seed| measure(name, by, if scale == Scale::Tiny { &TARGETS[..2] } else { &TARGETS }, seconds, seed);
        Point::new(name, Maker::Drive(name), run)
    };
    Ok(names.into_iter().map(point).collect())
}

fn measure(name: &str, scale: u64, targets: &[f64], seconds: f64, seed: u64) -> Result<Vec<DriveRow>> {
    let profile = Profile::named(name).map_err(refused)?;
    let points = read_beside_writes(&profile, scale, targets, seconds, seed).map_err(refused)?;
    let scaled = profile.scaled(scale).map_err(refused)?;
    let row = |point: &zonda_flash::experiments::atc21::Point| {
        DriveRow::new(name, &x(point.target_mib_s), &scaled)
            .number(READ, point.read_us)
            .number("p99 us", point.read_p99_us)
            .number(WRITTEN, point.written_mib_s)
            .number("amplification", point.amplification)
            .number("waited for programs us", (point.parts.suspended_ns + point.parts.die_ns) as f64 / 1e3)
            .number("for collection us", point.parts.collection_ns as f64 / 1e3)
            .option("scale", scale)
            .option("seconds", seconds)
    };
    Ok(points.iter().map(row).collect())
}

fn x(target: f64) -> String {
    format!("{target}")
}

fn chart(results: &DriveResults, number: &str) -> Chart {
    let series = [ZONES, CONVENTIONAL[0].0, CONVENTIONAL[1].0].map(|name| Series {
        name: name.to_owned(),
        values: TARGETS.iter().map(|&target| results.number(name, &x(target), number)).collect(),
    });
    Chart {
        title: format!("{number} at a target of written MiB/s"),
        x_label: "target of writes, MiB/s".to_owned(),
        y_label: y_axis(number),
        kind: Kind::Lines,
        log: number == READ,
        labels: TARGETS.map(x).into(),
        series: series.into(),
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let number = |name: &str, target: f64, what: &str| results.number(name, &x(target), what).unwrap_or(f64::NAN);
    let mut verdicts = Vec::new();
    for (name, sustained, most, lower) in CONVENTIONAL {
        for (target, paper) in [50.0, 150.0, 300.0].into_iter().zip(lower) {
            let ours = (1.0 - number(ZONES, target, READ) / number(name, target, READ)) * 100.0;
            let by = if ours.is_nan() { String::new() } else { format!(" by {ours:.0} %") };
            let what = format!("reads with zones at {target} MiB/s lower than {name}'s{by}, paper {paper} %: away");
            verdicts.push(Verdict::at_most(what, (ours - paper).abs(), 10.0, "points"));
        }
        let reached = number(name, sustained, WRITTEN) / sustained;
        verdicts.push(Verdict::at_least(format!("{name} sustains {sustained} MiB/s"), reached, 0.98, ""));
        let next = TARGETS.into_iter().find(|&target| target > most).unwrap_or(sustained);
        let reached = number(name, next, WRITTEN) / next;
        verdicts.push(Verdict::at_most(format!("{name} does not sustain {next} MiB/s"), reached, 0.98, ""));
    }
    let reached = number(ZONES, 1024.0, WRITTEN) / 1024.0;
    verdicts.push(Verdict::at_least("zones sustain 1 GiB/s", reached, 0.97, ""));
    verdicts
}
