//! Controls beside the break-down: whether it is the ring's memory alone that helps, what reading from the ring is worth, and whether
//! cleaning is only slow because it copies as little at a time as `ZenFS`.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, BURST, Contender, LDP, OVERWRITE, READRANDOM, SPLITZNS, Setting};
use super::live::{COLUMNS, OPS, P99};
use super::steps::{number, ratio, too_few_in_subzones};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// `LDP` whose write buffers have the memory that the drive has for its ring.
const LDP_WITH_MEMORY: Contender = LDP.with_ring_memory("ldp, ring as write buffers");
/// `SplitZNS` whose reads of what is in the ring take the time of flash.
const FLASH_READS: Contender = SPLITZNS.on("splitzns, no reads of the ring", "flash-reads");
/// Both with copies eight times as long.
const LDP_LONG_COPIES: Contender = LDP.keyed("ldp, copies of 1 MiB", "policy=ldp&clean_threshold=20&copy_buffer=1MiB");
const LONG_COPIES: Contender =
    SPLITZNS.keyed("splitzns, copies of 1 MiB", "policy=splitzns&clean_threshold=20&copy_buffer=1MiB");
pub(super) const CONTENDERS: [Contender; 6] =
    [LDP, SPLITZNS, LDP_WITH_MEMORY, FLASH_READS, LDP_LONG_COPIES, LONG_COPIES];

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-controls",
    title: "the ring's memory given to RocksDB instead, reads of the ring from flash, and longer copies, live",
    source: "controls of the SplitZNS paper's section 5.4",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

/// The usual one.
pub(super) fn settings(scale: Scale) -> [Setting; 1] {
    [driven::usual(scale)]
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    let contenders = scale.pick(&CONTENDERS[2..], &CONTENDERS, &CONTENDERS);
    Ok(driven::points(&settings(scale), contenders, &[BURST]))
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let works = [OVERWRITE.name, READRANDOM.name];
    let values = |system: &str| works.iter().map(|work| number(results, system, work, OPS)).collect();
    let series = CONTENDERS.iter().map(|system| Series { name: system.name.to_owned(), values: values(system.name) });
    let chart = Chart {
        title: "controls".to_owned(),
        x_label: String::new(),
        y_label: "operations a second".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: series.collect(),
        labels: works.iter().map(|work| (*work).to_owned()).collect(),
    };
    vec![("throughput", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |x, column, pair: (Contender, Contender)| ratio(results, x, column, (pair.0.name, pair.1.name));
    let more = "overwrite, splitzns over ldp with the ring's memory as write buffers";
    let copies = "overwrite, splitzns over ldp, both with copies of 1 MiB";
    let served = "P99 of reads, splitzns over the same without reads of the ring";
    vec![
        Verdict::at_least(more, of(OVERWRITE.name, OPS, (SPLITZNS, LDP_WITH_MEMORY)), 1.0, "x"),
        Verdict::at_least(copies, of(OVERWRITE.name, OPS, (LONG_COPIES, LDP_LONG_COPIES)), 1.0, "x"),
        Verdict::at_most(served, of(READRANDOM.name, P99, (SPLITZNS, FLASH_READS)), 1.0, "x"),
    ]
}
