//! The ZNS paper's figure 8: latency of the reads of figure 7.

use super::zns_fig7::{LIMITED, points};
use super::zns_rocksdb::{COLUMNS, HOW, MIXED, READ, READ_P99, READ_P999, bars, ratio, systems};
use super::{DriveExperiment, DriveResults};
use crate::repro::chart::Chart;
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-fig8",
    title: "latency of RocksDB's reads, alone and beside writes, on the 28 % drive and on zones",
    source: "ZNS figure 8",
    how: HOW,
    points,
    columns: COLUMNS,
    charts,
    judge,
};

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let all = systems();
    let xs = &[READ, LIMITED, MIXED];
    vec![("p99", bars(results, &all, xs, READ_P99)), ("p999", bars(results, &all, xs, READ_P999))]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let over = |x, column, other| ratio(results, x, column, ("liza-zns, zones", other));
    vec![
        Verdict::at_most(
            "reads alone, P99, LIZA over xfs-like (paper: 0.75)",
            over(READ, READ_P99, "xfs-like, 28 %"),
            1.0,
            "x",
        ),
        Verdict::at_most(
            "reads beside limited writes, P99.9, LIZA over xfs-like (paper: 0.5)",
            over(LIMITED, READ_P999, "xfs-like, 28 %"),
            1.0,
            "x",
        ),
        Verdict::at_most(
            "reads beside limited writes, P99.9, LIZA over f2fs-like (paper: 0.25)",
            over(LIMITED, READ_P999, "f2fs-like, 28 %"),
            1.0,
            "x",
        ),
    ]
}
