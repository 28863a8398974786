//! The ZNS paper's table 2: the size of tables up to a zone's costs little.

use super::zns_rocksdb::{COLUMNS, FILL, HOW, MIXED, RATE, READ_P999, Reads, System, bars, point, ratio};
use super::{DriveExperiment, DriveResults};
use crate::verdict::Verdict;

/// Sizes at the paper's scale, in MiB.
const SIZES: [u64; 5] = [64, 128, 256, 512, 1024];

pub(super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "zns-table2",
    title: "RocksDB on zones with tables of 64 MiB to 1 GiB",
    source: "ZNS table 2",
    how: HOW,
    points: |scale| Ok(sizes().into_iter().map(|system| point(scale, system, Reads::Unlimited)).collect()),
    columns: COLUMNS,
    charts: |results| {
        let all = sizes();
        vec![
            ("throughput", bars(results, &all, &[FILL, MIXED], RATE)),
            ("read-p999", bars(results, &all, &[MIXED], READ_P999)),
        ]
    },
    judge,
};

fn name(mib: u64) -> String {
    format!("{mib} MiB")
}

fn sizes() -> Vec<System> {
    SIZES.map(|mib| System::zones("liza-zns", "").with_tables(mib << 20).called(name(mib))).into()
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let measured = ratio(results, FILL, RATE, (&name(1024), &name(64)));
    vec![Verdict::at_least("fillrandom, tables of 1 GiB over 64 MiB (paper: no significant loss)", measured, 0.9, "x")]
}
