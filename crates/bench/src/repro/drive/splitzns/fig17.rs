//! Figure 17: YCSB-A against keys and values kept apart (`RocksDB`'s `BlobDB`), on zones and on a conventional drive of the same flash.
//!
//! A conventional drive is loaded and run in one process, in dilated time, because it forgets its translation when it is closed; zones are
//! loaded untimed.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, Contender, LDP, SPLITZNS, Setting, YCSB_A};
use super::live::{COLUMNS, OPS};
use super::steps::{number, ratio, too_few_in_subzones};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// Every value in a blob file; those with garbage are compacted. Of `RocksDB`'s 256 MiB of a blob file there is the part of the scale.
const BLOBS: &str =
    "enable_blob_files=true;min_blob_size=0;enable_blob_garbage_collection=true;blob_file_size={blob bytes}";
const ON_BLOCKS: Contender = Contender::conventional("BlobDB, conventional", BLOBS);
const ON_ZONES: Contender = LDP.with("BlobDB, zones", BLOBS);
pub(super) const CONTENDERS: [Contender; 3] = [ON_BLOCKS, ON_ZONES, SPLITZNS];
/// The paper's keys.
const KEY_BYTES: u64 = 64;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig17",
    title: "YCSB-A against BlobDB on zones and on a conventional drive, live",
    source: "SplitZNS figure 17",
    how: "dilated time, in the drive's; of the conventional drive all but the throughput includes its load",
    points,
    columns: COLUMNS,
    charts,
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

/// Values of 200 B to 1 KiB.
pub(super) fn settings(scale: Scale) -> Vec<Setting> {
    let lengths = scale.pick(&[1024][..], &[200, 1024], &[200, 400, 600, 800, 1024]);
    lengths.iter().map(|value| driven::half(scale).with_pairs(KEY_BYTES, *value)).collect()
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    let contenders = scale.pick(&CONTENDERS[..2], &CONTENDERS, &CONTENDERS);
    Ok(driven::points(&settings(scale), contenders, &[YCSB_A]))
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels: Vec<String> = settings(results.scale).iter().map(|setting| setting.named("YCSB-A")).collect();
    let values = |system: &str| labels.iter().map(|x| number(results, system, x, OPS)).collect();
    let series = CONTENDERS.iter().map(|system| Series { name: system.name.to_owned(), values: values(system.name) });
    let chart = Chart {
        title: "YCSB-A".to_owned(),
        x_label: String::new(),
        y_label: "operations a second".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: series.collect(),
        labels: labels.clone(),
    };
    vec![("throughput", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for setting in settings(results.scale) {
        let x = setting.named("YCSB-A");
        for (other, paper) in [(ON_BLOCKS, 1.7), (ON_ZONES, 1.3)] {
            let measured = ratio(results, &x, OPS, (SPLITZNS.name, other.name));
            let verdict = Verdict::at_least(format!("{x}, splitzns over {}", other.name), measured, 1.0, "x");
            verdicts.push(verdict.paper(format!("up to {paper}")));
        }
    }
    verdicts
}
