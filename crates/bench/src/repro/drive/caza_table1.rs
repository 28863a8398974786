//! The CAZA paper's table 1: throughput and latency of `db_bench` by threshold. A replay cannot know these: stock `db_bench` runs through
//! the plugin on a memory device, as the paper's did on `null_blk` in DRAM, with every size divided.

use super::caza::{CAZA, LASTING, LEVEL_KEYS, LEVELS, LIMITS, LIZA, THRESHOLDS};
use super::made::Maker;
use super::stock::{On, Stock};
use super::{DriveExperiment, DriveResults, DriveRow, FAILED, Point};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const POLICIES: [&str; 5] = [LIZA, CAZA, LEVELS, LEVEL_KEYS, LASTING];
const RATE: &str = "MB/s";
const LATENCY: &str = "us";
const COPIED: &str = "copied over written %";
const PAIR_BYTES: u64 = 144;
/// What a policy may copy beside `liza-caza`, and at which thresholds.
const COPIES_MOST: f64 = 0.7;
const COPIES_AT: [u8; 2] = [15, 25];
/// MB/s and microseconds of LIZA and of CAZA at each threshold.
const PAPER: [[(f64, f64); 2]; 5] = [
    [(43.4, 12.65), (42.0, 13.03)],
    [(43.1, 12.75), (42.2, 13.00)],
    [(42.4, 12.96), (41.9, 13.12)],
    [(41.2, 13.36), (42.0, 13.01)],
    [(40.0, 13.74), (41.4, 13.27)],
];

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "caza-table1",
    title: "throughput and latency of overwriting by threshold, through the plugin",
    source: "CAZA table 1",
    how: "stock db_bench, in turns",
    points: |scale| {
        let limits = scale.pick(&LIMITS[..1], &LIMITS, &LIMITS);
        let thresholds = scale.pick(&THRESHOLDS[..1], &THRESHOLDS, &THRESHOLDS);
        let at = |limit: &Option<u32>| thresholds.iter().map(|at| point(scale, *limit, *at)).collect::<Vec<_>>();
        Ok(limits.iter().flat_map(at).collect())
    },
    columns: &[RATE, LATENCY, COPIED],
    charts: |results| vec![("", chart(results))],
    judge,
};

fn x(limit: Option<u32>, threshold: u8) -> String {
    limit.map_or(format!("{threshold} %"), |zones| format!("{zones} active, {threshold} %"))
}

fn point(scale: Scale, limit: Option<u32>, threshold: u8) -> Point {
    let run = move |seed| measure(scale, (limit, threshold), seed);
    Point::new(x(limit, threshold), Maker::Plugin(None), run)
}

fn measure(scale: Scale, (limit, threshold): (Option<u32>, u8), seed: u64) -> Result<Vec<DriveRow>> {
    let Some(stock) = Stock::find() else { return Ok(Vec::new()) };
    let by: u64 = scale.pick(4096, 128, 16);
    let pairs = 40_000_000_000 / PAIR_BYTES / by;
    let table = (64 << 20) / by;
    let arguments = [
        "--benchmarks=fillseq,overwrite".to_owned(),
        "--key_size=16".to_owned(),
        "--value_size=128".to_owned(),
        "--compression_type=none".to_owned(),
        format!("--num={pairs}"),
        format!("--write_buffer_size={table}"),
        format!("--target_file_size_base={table}"),
        format!("--max_bytes_for_level_base={}", table * 4),
        format!("--soft_pending_compaction_bytes_limit={}", (64_u64 << 30) / by),
        format!("--hard_pending_compaction_bytes_limit={}", (256_u64 << 30) / by),
        format!("--seed={seed}"),
    ];
    // What RocksDB keeps beside its tables does not grow smaller.
    let zone = (1_u64 << 30) / by * scale.pick(4, 1, 1);
    let paper = THRESHOLDS.iter().position(|at| *at == threshold).map(|at| PAPER[at]);
    let mut rows = Vec::new();
    for policy in POLICIES {
        let uri = format!(
            "zonda://mem:?create={}&zone_size={zone}&policy={policy}&clean_threshold={threshold}&reserve_zones=10&held_bytes={}{}",
            zone * 100,
            (256 << 20) / by,
            limit.map_or("&max_active=0".to_owned(), |zones| format!("&max_active={zones}"))
        );
        let ran = stock.run(&On::Zones(uri), &arguments, &mut || {})?;
        let row = DriveRow::of(policy, &x(limit, threshold)).option("divisor", by);
        if let Some(failed) = ran.failed {
            eprintln!("{policy}: {failed}");
            rows.push(row.option(FAILED, failed));
            continue;
        }
        let theirs = paper.and_then(|paper| [LIZA, CAZA].iter().position(|name| *name == policy).map(|at| paper[at]));
        let bytes = |name: &str| ran.report.as_ref().and_then(|report| report.get(name)?.as_f64());
        let copied = bytes("copied_bytes").zip(bytes("written_bytes"));
        let rate = ran.steps.last().map(|step| step.per_second);
        let row = row
            .number(RATE, rate.map(|rate| rate * PAIR_BYTES as f64 / 1e6))
            .number(LATENCY, rate.map(|rate| 1e6 / rate.max(f64::MIN_POSITIVE)))
            .number(COPIED, copied.map(|(copied, written)| 100.0 * copied / written.max(1.0)));
        rows.push(row.fact(RATE, theirs.map(|theirs| theirs.0)).fact(LATENCY, theirs.map(|theirs| theirs.1)));
    }
    Ok(rows)
}

fn chart(results: &DriveResults) -> Chart {
    let series = POLICIES.map(|name| Series {
        name: name.to_owned(),
        values: THRESHOLDS.map(|threshold| results.number(name, &x(None, threshold), RATE)).into(),
    });
    Chart {
        title: "overwriting by threshold".to_owned(),
        x_label: "threshold of free space".to_owned(),
        y_label: RATE.to_owned(),
        kind: Kind::Lines,
        log: false,
        labels: THRESHOLDS.map(|threshold| x(None, threshold)).into(),
        series: series.into(),
    }
}

/// The paper calls the difference in throughput negligible: within 4 % each way. Copies are judged where its figures are said to gain most.
fn judge(results: &DriveResults) -> Vec<Verdict> {
    let rate = |threshold: u8| {
        let number = |policy| results.number(policy, &x(None, threshold), RATE).unwrap_or(f64::NAN);
        let what = format!("{threshold} %: throughput, {CAZA} over {LIZA} (paper 0.97 to 1.04)");
        Verdict::at_least(what, number(CAZA) / number(LIZA), 0.95, "x")
    };
    let copies = |limit: Option<u32>, threshold: u8| {
        let copied = move |policy| results.number(policy, &x(limit, threshold), COPIED);
        let over = move |policy: &'static str| Some((policy, copied(policy)? / copied(LIZA)?));
        POLICIES.into_iter().filter(|policy| *policy != LIZA).filter_map(over).map(move |(policy, ratio)| {
            let what = format!("{}: copied over written, {policy} over {LIZA}", x(limit, threshold));
            Verdict::at_most(what, ratio, COPIES_MOST, "x")
        })
    };
    let places = LIMITS.into_iter().flat_map(|limit| COPIES_AT.map(|threshold| (limit, threshold)));
    THRESHOLDS.map(rate).into_iter().chain(places.flat_map(|(limit, at)| copies(limit, at))).collect()
}
