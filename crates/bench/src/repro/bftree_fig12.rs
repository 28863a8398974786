//! Memory: 256 MB to 4 GB for 6.4 GB of data in the paper.

use super::bftree::{ABSENT, BDTREE, BFTREE, BTREE, METRICS, PAIR_BYTES, all, race, step};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Scale, no_targets};
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
        axis: Axis::Parameter,
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::ratio("Bf-Tree: most memory / least", 4.1, get(BFTREE, "64 %"), get(BFTREE, "16 %")),
        Fact::ratio("Bd-Tree: most memory / least", 4.7, get(BDTREE, "64 %"), get(BDTREE, "16 %")),
        Fact::ratio("B-Tree: most memory / least", 3.3, get(BTREE, "64 %"), get(BTREE, "16 %")),
        Fact::ratio(
            "little memory: Bf-Tree / B-Tree (greater in the paper)",
            1.5,
            get(BFTREE, "16 %"),
            get(BTREE, "16 %"),
        ),
        Fact::absent("RocksDB: most memory / least", 2.2, "x"),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

const fn get(series: &'static str, x: &'static str) -> super::Cell {
    cell(series, x, "get", Metric::Kops)
}

/// Percent of the data. The paper's least, 4 %, is less than a store of the laptop scale works with.
const PERCENTS: [u64; 5] = [16, 24, 32, 48, 64];

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let race = |percent: u64| {
        let data_bytes = scale.bftree_records() * PAIR_BYTES;
        let memory_bytes = (data_bytes * percent / 100).max(zonda::limits::MEMORY_BYTES_MIN);
        let mut race = race(&format!("{percent} %"), scale, threads).step(step("get", scale, threads));
        race.contenders = all(memory_bytes);
        race
    };
    PERCENTS.map(race).into()
}
