//! What the plugin costs: stock `db_bench` on a memory device through it, in turns with the default file system on tmpfs.
//!
//! All memory of the device is there from the beginning (`populate=on`): a drive has no page faults, while the first write of each
//! 4 KiB of new memory costs more than everything else that the plugin does for a synced write. tmpfs keeps its own: it fills a page
//! many times where a log on zones has one for each sync.
//!
//! Rates and percentiles are those of the benchmark that the row names; CPU is that of the whole process, load and compactions
//! included, but for what making the device took, over all its operations. Ratios compare, absolute figures do not: the machine does other
//! things, and Debian's RocksDB has its assertions on.

use super::made::Maker;
use super::stock::{On, Ran, Stock, in_memory};
use super::{DriveExperiment, DriveResults, DriveRow, FAILED, Point};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const VALUES: [u64; 2] = [100, 1024];
/// What is run, and the benchmark that is looked at: the last.
const WORKS: [(&str, &str); 4] = [
    ("fillrandom", "fillrandom"),
    ("overwrite", "fillrandom,overwrite"),
    ("readrandom", "fillrandom,readrandom"),
    ("synced", "fillrandom"),
];
const ZONES: &str = "zones";
const HOST: &str = "tmpfs";
const RATE: &str = "k per s";
const CPU: &str = "CPU us per operation";
const P99: &str = "p99 us";
const KEY_BYTES: u64 = 16;

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "rocksdb-cost",
    title: "the plugin on a device in populated memory against tmpfs",
    source: "no paper",
    how: "stock db_bench, in turns",
    points: |scale| Ok(VALUES.into_iter().flat_map(|value| WORKS.map(|work| point(scale, value, work))).collect()),
    columns: &[RATE, CPU, P99],
    charts: |results| vec![("", chart(results))],
    judge,
};

fn x(value: u64, work: &str) -> String {
    format!("{work}, {value} B")
}

fn point(scale: Scale, value: u64, work: (&'static str, &'static str)) -> Point {
    Point::new(x(value, work.0), Maker::Plugin(None), move |seed| measure(scale, value, work, seed))
}

fn measure(scale: Scale, value: u64, (work, benchmarks): (&str, &str), seed: u64) -> Result<Vec<DriveRow>> {
    let Some(stock) = Stock::find() else { return Ok(Vec::new()) };
    let bytes: u64 = scale.pick(1 << 20, 512 << 20, 2 << 30);
    let mut pairs = bytes / (KEY_BYTES + value);
    let mut arguments = vec![
        format!("--benchmarks={benchmarks}"),
        format!("--key_size={KEY_BYTES}"),
        format!("--value_size={value}"),
        "--compression_type=none".to_owned(),
        "--histogram=1".to_owned(),
        format!("--seed={seed}"),
    ];
    if work == "synced" {
        pairs /= 20;
        arguments.push("--sync=1".to_owned());
    }
    if work == "readrandom" {
        arguments.push(format!("--reads={}", pairs / 10));
        arguments.push(format!("--cache_size={}", bytes / 20));
    }
    arguments.push(format!("--num={pairs}"));
    let uri = zones_for(bytes, pairs, work);
    let (mut host, mut zones) = (Vec::new(), Vec::new());
    for _ in 0..scale.pick(1, 2, 3) {
        let directory = in_memory()?;
        host.push(stock.run(&On::Host(directory.path().join("db")), &arguments, &mut || {})?);
        drop(directory);
        zones.push(stock.run(&On::Zones(uri.clone()), &arguments, &mut || {})?);
    }
    Ok([row(HOST, value, work, &host), row(ZONES, value, work, &zones)].into())
}

/// A device of four times the data, or with a block for each synced write: no cleaning here, space is another experiment's.
fn zones_for(bytes: u64, pairs: u64, work: &str) -> String {
    let written = if work == "synced" { pairs * 4096 } else { bytes * 4 };
    format!("zonda://mem:?populate=on&create={}&zone_size={}", written + (256 << 20), 16 << 20)
}

/// CPU time without what making the device took, which writing to it would have taken otherwise.
fn cpu_seconds(ran: &Ran) -> f64 {
    let mounting = ran.report.as_ref().and_then(|report| report["mounting_cpu_microseconds"].as_f64());
    ran.cpu_seconds - mounting.unwrap_or(0.0) / 1e6
}

/// The mean over the turns; who failed has no numbers.
fn row(series: &str, value: u64, work: &str, turns: &[Ran]) -> DriveRow {
    let row = DriveRow::of(series, &x(value, work)).option("turns", turns.len());
    if let Some(failed) = turns.iter().find_map(|ran| ran.failed.as_ref()) {
        eprintln!("{series}: {failed}");
        return row.option(FAILED, failed.as_str());
    }
    let mean = |of: &dyn Fn(&Ran) -> Option<f64>| {
        let values: Option<Vec<f64>> = turns.iter().map(of).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len().max(1) as f64)
    };
    let cpu = |ran: &Ran| {
        let operations: f64 = ran.steps.iter().map(|step| step.operations).sum();
        (operations > 0.0).then(|| cpu_seconds(ran) * 1e6 / operations)
    };
    row.number(RATE, mean(&|ran| Some(ran.steps.last()?.per_second / 1e3)))
        .number(CPU, mean(&cpu))
        .number(P99, mean(&|ran| ran.steps.last().and_then(|step| step.writes.or(step.reads)).map(|it| it.p99)))
}

fn chart(results: &DriveResults) -> Chart {
    let all: Vec<String> = VALUES.into_iter().flat_map(|value| WORKS.map(|(work, _)| x(value, work))).collect();
    let ratio = |number: &str| Series {
        name: number.to_owned(),
        values: all
            .iter()
            .map(|x| Some(results.number(ZONES, x, number)? / results.number(HOST, x, number)?))
            .collect(),
    };
    Chart {
        title: "zones over tmpfs".to_owned(),
        x_label: String::new(),
        y_label: "zones over tmpfs (ratio)".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: [RATE, CPU, P99].map(ratio).into(),
        labels: all,
    }
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for value in VALUES {
        for (work, _) in WORKS {
            let x = x(value, work);
            let ratio = |name: &str| {
                let number = |series| results.number(series, &x, name).unwrap_or(f64::NAN);
                number(ZONES) / number(HOST)
            };
            verdicts.push(Verdict::at_least(format!("{x}: throughput over tmpfs's"), ratio(RATE), 0.9, "x"));
            verdicts.push(Verdict::at_most(format!("{x}: CPU per operation over tmpfs's"), ratio(CPU), 1.1, "x"));
            verdicts.push(Verdict::at_most(format!("{x}: P99 over tmpfs's"), ratio(P99), 1.2, "x"));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_making_the_device_took_does_not_count() {
        let report = serde_json::json!({"mounting_cpu_microseconds": 500_000});
        let ran = Ran { cpu_seconds: 2.0, report: Some(report), ..Ran::default() };
        assert!((cpu_seconds(&ran) - 1.5).abs() < 1e-9);
        assert!((cpu_seconds(&Ran { report: None, ..ran }) - 2.0).abs() < 1e-9, "tmpfs has no report");
    }

    #[test]
    fn the_device_is_populated_and_has_a_block_for_each_synced_write() {
        let (blocks_bytes, more_bytes): (u64, u64) = (4 << 30, 256 << 20);
        let uri = zones_for(100 << 20, 1 << 20, "synced");
        assert!(uri.contains(&format!("populate=on&create={}", blocks_bytes + more_bytes)), "{uri}");
    }
}
