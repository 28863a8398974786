//! Threads, with data larger than memory.

use super::bftree::{ABSENT, BFTREE, BTREE, METRICS, all, race, step};
use super::fact::cell_by_scale;
use super::{Axis, Experiment, Fact, Figure, Metric, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig7",
    title: "half reads, half updates by threads",
    source: "Bf-Tree figure 7, section 6.4",
    races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "half reads, half updates by threads",
        phases: &["mix"],
        x: None,
        axis: Axis::Parameter("threads"),
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::ratio("Bf-Tree: most threads / 1 (31 threads in the paper)", 19.2, mix(BFTREE, MOST), mix(BFTREE, ONE)),
        Fact::ratio("B-Tree: most threads / 1 (31 threads in the paper)", 17.0, mix(BTREE, MOST), mix(BTREE, ONE)),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

/// The most threads of each scale.
pub(super) const MOST: [&str; 3] = ["2", "8", "31"];
const ONE: [&str; 3] = ["1"; 3];

const fn mix(series: &'static str, x: [&'static str; 3]) -> super::Cell {
    cell_by_scale(series, x, "mix", Metric::Kops)
}

fn races(scale: Scale) -> Vec<Race> {
    let threads: Vec<usize> = scale.pick(vec![1, 2], vec![1, 2, 4, 8], vec![1, 8, 16, 24, 31]);
    let race = |threads: usize| {
        let mut race = race(&threads.to_string(), scale, threads).step(step("mix", scale, threads));
        race.contenders = all(scale.bftree_memory());
        race
    };
    threads.into_iter().map(race).collect()
}
