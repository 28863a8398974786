//! The ZNS paper's figure 9: RocksDB writing on drives with 7 and with 28 % over-provisioning, each as full as the other: with the same
//! bytes on both the same flash would be free for collection, because what is deleted is discarded.

use super::zns_rocksdb::{COLUMNS, FILL, HOW, OVERWRITE, RATE, Reads, System, bars, point, ratio};
use super::{DriveExperiment, DriveResults};
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-fig9",
    title: "RocksDB writing on drives with 7 and 28 % over-provisioning",
    source: "ZNS figure 9",
    how: HOW,
    points: |scale| Ok(drives().into_iter().map(|system| point(scale, system, Reads::None)).collect()),
    columns: COLUMNS,
    charts: |results| vec![("throughput", bars(results, &drives(), &[FILL, OVERWRITE], RATE))],
    judge,
};

const PLACEMENTS: [&str; 2] = ["xfs-like", "f2fs-like"];

fn drives() -> Vec<System> {
    let on = |drive| PLACEMENTS.map(|placement| System::conventional(drive, placement, false));
    let less = on("conv:atc21-7op").map(System::equally_full);
    less.into_iter().chain(on("conv:atc21-28op")).collect()
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let gain = |what: &str, placement: &str, x, paper| {
        let (more, less) = (format!("{placement}, 28 %"), format!("{placement}, 7 %, as full"));
        let measured = ratio(results, x, RATE, (&more, &less));
        Verdict::at_least(format!("{what}, {placement}, 28 % over 7 % (paper: {paper})"), measured, 1.0, "x")
    };
    vec![
        gain("fillrandom", "xfs-like", FILL, "1.14 to 1.16"),
        gain("fillrandom", "f2fs-like", FILL, "1.14 to 1.16"),
        gain("overwrite", "xfs-like", OVERWRITE, "1.04"),
        gain("overwrite", "f2fs-like", OVERWRITE, "1.25"),
    ]
}
