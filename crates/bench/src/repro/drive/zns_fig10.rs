//! The ZNS paper's figure 10: RocksDB writing on the 7 % drive with and without streams, and on zones.

use super::zns_rocksdb::{COLUMNS, FILL, HOW, OVERWRITE, RATE, Reads, System, bars, point, ratio};
use super::{DriveExperiment, DriveResults};
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-fig10",
    title: "RocksDB writing on the 7 % drive with and without streams",
    source: "ZNS figure 10",
    how: HOW,
    points: |scale| Ok(with_and_without().into_iter().map(|system| point(scale, system, Reads::None)).collect()),
    columns: COLUMNS,
    charts: |results| vec![("throughput", bars(results, &with_and_without(), &[FILL, OVERWRITE], RATE))],
    judge,
};

fn with_and_without() -> Vec<System> {
    let of = |placement| [false, true].map(|streams| System::conventional("conv:atc21-7op", placement, streams));
    ["xfs-like", "f2fs-like"].into_iter().flat_map(of).chain([System::zones("f2fs-like", "")]).collect()
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let gain = |placement: &str, x: &str, paper| {
        let (with, without) = (format!("{placement}, 7 %, streams"), format!("{placement}, 7 %"));
        let measured = ratio(results, x, RATE, (&with, &without));
        Verdict::at_least(format!("{x}, {placement}, streams over none (paper: {paper})"), measured, 1.0, "x")
    };
    let zones = |x: &str, paper| {
        let measured = ratio(results, x, RATE, ("f2fs-like, zones", "f2fs-like, 7 %, streams"));
        Verdict::at_least(format!("{x}, f2fs-like, zones over streams (paper: {paper})"), measured, 1.0, "x")
    };
    vec![
        gain("xfs-like", FILL, 1.11),
        gain("xfs-like", OVERWRITE, 1.16),
        gain("f2fs-like", FILL, 1.24),
        gain("f2fs-like", OVERWRITE, 1.04),
        zones(FILL, 1.17),
        zones(OVERWRITE, 1.44),
    ]
}
