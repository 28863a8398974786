//! Memory: 256 MB to 4 GB for 6.4 GB of data in the paper.

use super::bftree::{ABSENT_BUT_ROCKSDB, BDTREE, BFTREE, BTREE, METRICS, PAIR_BYTES, race, step, with_rocksdb};
use super::contenders::ROCKSDB;
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig12",
    title: "lookups by memory",
    source: "Bf-Tree figure 12, section 6.8",
    races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "lookups by memory as a share of the data",
        phases: &["get"],
        x: None,
        axis: Axis::Parameter("memory over data"),
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::ratio(
            "Bf-Tree: most memory / least (16 x in the paper, 8 x here)",
            4.1,
            get(BFTREE, "64 %"),
            get(BFTREE, "8 %"),
        ),
        Fact::ratio(
            "Bd-Tree: most memory / least (16 x in the paper, 8 x here)",
            4.7,
            get(BDTREE, "64 %"),
            get(BDTREE, "8 %"),
        ),
        Fact::ratio(
            "B-Tree: most memory / least (16 x in the paper, 8 x here)",
            3.3,
            get(BTREE, "64 %"),
            get(BTREE, "8 %"),
        ),
        Fact::side("little memory: Bf-Tree / B-Tree", Said::More, get(BFTREE, "8 %"), get(BTREE, "8 %")),
        Fact::ratio(
            "RocksDB: most memory / least (16 x in the paper, 8 x here)",
            2.2,
            get(ROCKSDB, "64 %"),
            get(ROCKSDB, "8 %"),
        ),
    ],
    absent: &ABSENT_BUT_ROCKSDB,
    judge: no_targets,
};

const fn get(series: &'static str, x: &'static str) -> super::Cell {
    cell(series, x, "get", Metric::Kops)
}

/// Percent of the data. The paper's least, 4 %, is less than a store of the laptop scale works with.
const PERCENTS: [u64; 5] = [8, 16, 32, 48, 64];

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let race = |percent: u64| {
        let data_bytes = scale.bftree_records() * PAIR_BYTES;
        let memory_bytes = (data_bytes * percent / 100).max(zonda::limits::MEMORY_BYTES_MIN);
        let mut race = race(&format!("{percent} %"), scale, threads).step(step("get", scale, threads));
        race.contenders = with_rocksdb(memory_bytes);
        race
    };
    PERCENTS.map(race).into()
}
