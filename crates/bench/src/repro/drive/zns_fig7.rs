//! The ZNS paper's figure 7: reading with RocksDB alone, beside 20 MiB/s of writes, and beside writes without limit. Its rows are those
//! of figure 8 too.

use super::zns_rocksdb::{COLUMNS, HOW, MIXED, RATE, READ, Reads, bars, point, ratio, systems};
use super::{DriveExperiment, DriveResults, Point};
use crate::Result;
use crate::repro::Scale;
use crate::verdict::Verdict;

/// Written beside the reads of the limited run.
const LIMIT: u64 = 20 << 20;
/// Reads beside limited writes.
pub(super) const LIMITED: &str = "readwhilewriting, limited";

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-fig7",
    title: "RocksDB reading, alone and beside writes, on the 28 % drive and on zones",
    source: "ZNS figure 7",
    how: HOW,
    points,
    columns: COLUMNS,
    charts: |results| vec![("throughput", bars(results, &systems(), &[READ, LIMITED, MIXED], RATE))],
    judge,
};

pub(super) fn points(scale: Scale) -> Result<Vec<Point>> {
    let both = |system: super::zns_rocksdb::System| {
        [point(scale, system.clone(), Reads::Limited(LIMIT)), point(scale, system, Reads::Unlimited)]
    };
    Ok(systems().into_iter().flat_map(both).collect())
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let over = |x, one, other| ratio(results, x, RATE, (one, other));
    vec![
        Verdict::at_least(
            "reads beside limited writes, LIZA over xfs-like (paper: more)",
            over(LIMITED, "liza-zns, zones", "xfs-like, 28 %"),
            1.0,
            "x",
        ),
        Verdict::at_least(
            "reads beside limited writes, f2fs-like on zones over f2fs-like (paper: more)",
            over(LIMITED, "f2fs-like, zones", "f2fs-like, 28 %"),
            1.0,
            "x",
        ),
        Verdict::at_least(
            "reads beside writes, f2fs-like on zones over xfs-like (paper: more)",
            over(MIXED, "f2fs-like, zones", "xfs-like, 28 %"),
            1.0,
            "x",
        ),
    ]
}
