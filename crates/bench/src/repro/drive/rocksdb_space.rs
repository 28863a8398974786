//! How little space will do: 20 times the live data overwritten on a device that is hardly larger than the peak of what the same
//! run holds on the default file system.

use std::fs;
use std::path::Path;

use super::made::Maker;
use super::stock::{On, Ran, Stock, in_memory};
use super::text::y_axis;
use super::{DriveExperiment, DriveResults, DriveRow, FAILED, Point};
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;
use crate::{BenchError, Result};

/// Device over peak, in percent; the second is the target's.
const FACTORS: [u64; 3] = [115, 130, 200];
const TARGET: u64 = 130;
const WRITTEN_TIMES: u64 = 20;
const DECILES: usize = 10;
const ZONES: &str = "zones";
const FINISHED: &str = "finished";
const SLOWEST: &str = "slowest decile over median";
const DEVICE: &str = "device MiB";
const PEAK: &str = "peak MiB";
const RATE: &str = "k per s";
const AMPLIFICATION: &str = "device writes over file bytes";

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "rocksdb-space",
    title: "20 times the live data written, on 1.15, 1.3 and 2 times its peak",
    source: "no paper",
    how: "stock db_bench",
    points,
    columns: &[FINISHED, RATE, SLOWEST, DEVICE, PEAK, AMPLIFICATION],
    charts: |results| vec![("", chart(results))],
    judge,
};

fn points(scale: Scale) -> Result<Vec<Point>> {
    Ok(vec![Point::new("all", Maker::Plugin(None), move |seed| measure(scale, seed))])
}

fn x(percent: u64) -> String {
    format!("{} x peak", percent as f64 / 100.0)
}

fn measure(scale: Scale, seed: u64) -> Result<Vec<DriveRow>> {
    let Some(stock) = Stock::find() else { return Ok(Vec::new()) };
    let pair_bytes: u64 = 16 + 500;
    let pairs = scale.pick(1 << 20, 128 << 20, 1 << 30) / pair_bytes;
    let table: u64 = scale.pick(32 << 10, 1 << 20, 8 << 20);
    let writes = pairs * WRITTEN_TIMES;
    let arguments = [
        "--benchmarks=overwrite".to_owned(),
        "--key_size=16".to_owned(),
        "--value_size=500".to_owned(),
        "--compression_type=none".to_owned(),
        format!("--num={pairs}"),
        format!("--writes={writes}"),
        format!("--write_buffer_size={table}"),
        format!("--target_file_size_base={table}"),
        format!("--max_bytes_for_level_base={}", table * 4),
        format!("--stats_interval={}", writes / 100),
        format!("--seed={seed}"),
    ];
    let directory = in_memory()?;
    let database = directory.path().join("db");
    let mut peak = 0;
    let host = stock.run(&On::Host(database.clone()), &arguments, &mut || peak = peak.max(bytes_in(&database)))?;
    peak = peak.max(bytes_in(&database));
    drop(directory);
    if let Some(failed) = host.failed {
        return Err(BenchError::Child(format!("the run on tmpfs, whose peak is the measure: {failed}")));
    }
    let mut rows = vec![row("tmpfs", "peak", &host).number(PEAK, mib(peak))];
    for percent in FACTORS {
        let device = peak * percent / 100;
        let zone = (device / 100) >> 12 << 12;
        let uri = format!("zonda://mem:?create={}&zone_size={zone}", device / zone * zone);
        let ran = stock.run(&On::Zones(uri), &arguments, &mut || {})?;
        rows.push(row(ZONES, &x(percent), &ran).number(DEVICE, mib(device)).number(PEAK, mib(peak)));
    }
    Ok(rows)
}

fn row(series: &str, x: &str, ran: &Ran) -> DriveRow {
    let row = DriveRow::of(series, x).number(FINISHED, if ran.failed.is_some() { 0.0 } else { 1.0 });
    let row = match &ran.failed {
        Some(failed) => row.option(FAILED, failed.as_str()),
        None => row,
    };
    let bytes = |name: &str| ran.report.as_ref().and_then(|report| report.get(name)?.as_f64());
    let moved = bytes("written_bytes").zip(bytes("copied_bytes"));
    row.number(RATE, ran.steps.last().map(|step| step.per_second / 1e3))
        .number(SLOWEST, slowest(&ran.intervals))
        .number(AMPLIFICATION, moved.map(|(written, copied)| (written + copied) / written.max(1.0)))
}

/// Throughput of the slowest tenth of the operations over that of the median tenth.
fn slowest(intervals: &[(f64, f64)]) -> Option<f64> {
    let per_decile = intervals.len() / DECILES;
    let rate = |part: &[(f64, f64)]| {
        let (operations, seconds) = part.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        operations / f64::max(seconds, f64::MIN_POSITIVE)
    };
    let mut rates: Vec<f64> = intervals.chunks_exact(per_decile.max(1)).take(DECILES).map(rate).collect();
    rates.sort_by(f64::total_cmp);
    (rates.len() == DECILES).then(|| rates[0] / rates[DECILES / 2])
}

/// Bytes of all files of a directory; what goes meanwhile does not count.
fn bytes_in(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn chart(results: &DriveResults) -> Chart {
    let values = FACTORS.map(|percent| results.number(ZONES, &x(percent), RATE)).into();
    Chart {
        title: "overwrites by the size of the device".to_owned(),
        x_label: "device over peak".to_owned(),
        y_label: y_axis(RATE),
        kind: Kind::Bars,
        log: false,
        labels: FACTORS.map(x).into(),
        series: vec![Series { name: ZONES.to_owned(), values }],
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let number = |name: &str| results.number(ZONES, &x(TARGET), name).unwrap_or(f64::NAN);
    vec![
        Verdict::at_least("1.3 x peak: no NoSpace (1: finished)", number(FINISHED), 1.0, ""),
        Verdict::at_least("1.3 x peak: slowest decile over the median", number(SLOWEST), 0.8, "x"),
    ]
}

#[cfg(test)]
mod tests {
    use super::slowest;

    #[test]
    fn the_slowest_tenth_is_found_however_many_intervals_there_are() {
        let mut intervals = vec![(10.0, 1.0); 100];
        intervals[30..40].fill((10.0, 2.0));
        assert_eq!((slowest(&intervals), slowest(&intervals[..9])), (Some(0.5), None));
    }
}
