//! Latency against RocksDB and WiredTiger: reads alone, and writes among reads. 4 million pairs of 16 B in the paper.

use super::contenders::{ROCKSDB, WIREDTIGER, ZKV};
use super::fact::cell;
use super::zkv_fig20::{F2FS_WIREDTIGER, MEMORY_BYTES_MIN, ZENFS, contenders};
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig21",
    title: "latency against RocksDB and WiredTiger",
    source: "ZKV figure 21, Exp#12",
    races,
    metrics: &[Metric::P50, Metric::P90, Metric::P99, Metric::P999, Metric::P9999, Metric::Gap, Metric::Kops],
    figures: &[
        Figure {
            name: "read",
            title: "read latency (YCSB-d)",
            phases: &["zkv-d"],
            x: None,
            axis: Axis::Percentile,
            metric: Metric::P99,
            log: true,
        },
        Figure {
            name: "write",
            title: "write latency (YCSB-b)",
            phases: &["zkv-b"],
            x: None,
            axis: Axis::Percentile,
            metric: Metric::P99,
            log: true,
        },
    ],
    facts: &[
        Fact::side(
            "read p99: RocksDB / ZKV",
            Said::More,
            cell(ROCKSDB, "", "zkv-d", Metric::P99),
            cell(ZKV, "", "zkv-d", Metric::P99),
        ),
        Fact::side(
            "write p90: RocksDB / ZKV, one to two orders of magnitude",
            Said::More,
            cell(ROCKSDB, "", "zkv-b", Metric::P90),
            cell(ZKV, "", "zkv-b", Metric::P90),
        ),
        Fact::side(
            "write p99: ZKV / RocksDB, two orders of magnitude",
            Said::More,
            cell(ZKV, "", "zkv-b", Metric::P99),
            cell(ROCKSDB, "", "zkv-b", Metric::P99),
        ),
        Fact::side(
            "write p99.9: WiredTiger / ZKV",
            Said::More,
            cell(WIREDTIGER, "", "zkv-b", Metric::P999),
            cell(ZKV, "", "zkv-b", Metric::P999),
        ),
    ],
    absent: &[ZENFS, F2FS_WIREDTIGER],
    judge: no_targets,
};

fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.pick(30_000, 4_000_000, 4_000_000), scale.threads());
    let mut race = Race::new("", records, threads)
        .step(Step::new("zkv-b", scale.pick(5_000, 500_000, 4_000_000), threads))
        .step(Step::new("zkv-d", scale.pick(2_000, 200_000, 4_000_000), threads))
        .in_turns(4);
    race.id = "pairs".into();
    race.contenders = contenders(Scale::memory_for(records).max(MEMORY_BYTES_MIN));
    vec![race]
}
