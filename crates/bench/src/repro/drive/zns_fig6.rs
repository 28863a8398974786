//! The ZNS paper's figure 6: writing with RocksDB on the 28 % drive and on zones; and what the drive wrote for it.

use super::zns_rocksdb::{
    AMPLIFICATION, COLUMNS, FILL, HOW, OVERWRITE, RATE, Reads, bars, number, point, ratio, systems,
};
use super::{DriveExperiment, DriveResults};
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-fig6",
    title: "RocksDB writing: models of XFS and f2fs on the 28 % drive, f2fs-like and LIZA on zones",
    source: "ZNS figure 6",
    how: HOW,
    points: |scale| Ok(systems().into_iter().map(|system| point(scale, system, Reads::None)).collect()),
    columns: COLUMNS,
    charts,
    judge,
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let all = systems();
    vec![
        ("throughput", bars(results, &all, &[FILL, OVERWRITE], RATE)),
        ("amplification", bars(results, &all, &[OVERWRITE], AMPLIFICATION)),
    ]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let [xfs, f2fs, f2fs_zones, liza] = ["xfs-like, 28 %", "f2fs-like, 28 %", "f2fs-like, zones", "liza-zns, zones"];
    let faster = |one, other| ratio(results, OVERWRITE, RATE, (one, other));
    let amplification = |system| number(results, system, OVERWRITE, AMPLIFICATION);
    vec![
        Verdict::at_least("overwrite, LIZA over xfs-like (paper: 2.83)", faster(liza, xfs), 1.0, "x"),
        Verdict::at_least(
            "overwrite, f2fs-like on zones over xfs-like (paper: 1.42)",
            faster(f2fs_zones, xfs),
            1.0,
            "x",
        ),
        Verdict::at_least(
            "overwrite, f2fs-like on zones over f2fs-like (paper: 1.33)",
            faster(f2fs_zones, f2fs),
            1.0,
            "x",
        ),
        Verdict::at_least("overwrite, LIZA over f2fs-like on zones (paper: 1.99)", faster(liza, f2fs_zones), 1.0, "x"),
        Verdict::at_least("amplification of the drive, xfs-like (paper: 2.0)", amplification(xfs), 1.1, "x"),
        Verdict::at_least("amplification of the drive, f2fs-like (paper: 2.4)", amplification(f2fs), 1.1, "x"),
        Verdict::at_most("amplification of the drive, zones (paper: 1.0)", amplification(liza), 1.01, "x"),
    ]
}
