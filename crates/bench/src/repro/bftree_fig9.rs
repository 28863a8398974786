//! Latency of lookups by one thread.

use super::bftree::{ABSENT_BUT_ROCKSDB, BFTREE, BTREE, race, step, with_rocksdb};
use super::contenders::ROCKSDB;
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig9",
    title: "latency of lookups by one thread",
    source: "Bf-Tree figure 9, section 6.5",
    races,
    metrics: &[Metric::P50, Metric::P90, Metric::P99, Metric::P999, Metric::P9999, Metric::LeafReads, Metric::Kops],
    figures: &[Figure {
        name: "",
        title: "latency of lookups",
        phases: &["get"],
        x: None,
        axis: Axis::Percentile,
        metric: Metric::P99,
        log: true,
    }],
    facts: &[
        Fact::value("Bf-Tree: p50", 1.18, "us", get(BFTREE, Metric::P50)),
        Fact::value("Bf-Tree: p99", 70.0, "us", get(BFTREE, Metric::P99)),
        Fact::value("Bf-Tree: share of lookups that read the device", 0.25, "", get(BFTREE, Metric::LeafReads)),
        Fact::value("B-Tree: share of lookups that read the device", 0.5, "", get(BTREE, Metric::LeafReads)),
        Fact::ratio("p50: B-Tree / Bf-Tree", 49.7, get(BTREE, Metric::P50), get(BFTREE, Metric::P50)),
        Fact::value("RocksDB: p50", 1.86, "us", get(ROCKSDB, Metric::P50)),
        Fact::value("RocksDB: p99", 131.0, "us", get(ROCKSDB, Metric::P99)),
        Fact::ratio("p50: RocksDB / Bf-Tree", 1.58, get(ROCKSDB, Metric::P50), get(BFTREE, Metric::P50)),
        Fact::ratio("p99: RocksDB / Bf-Tree", 1.87, get(ROCKSDB, Metric::P99), get(BFTREE, Metric::P99)),
    ],
    absent: &ABSENT_BUT_ROCKSDB,
    judge: no_targets,
};

const fn get(series: &'static str, metric: Metric) -> super::Cell {
    cell(series, "", "get", metric)
}

fn races(scale: Scale) -> Vec<Race> {
    let mut race = race("", scale, 1).step(step("get", scale, 1)).in_turns(4);
    race.id = "pairs".into();
    race.contenders = with_rocksdb(scale.bftree_memory());
    vec![race]
}
