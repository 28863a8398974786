//! Data that fits in memory: the designs should be alike.

use super::bftree::{ABSENT, BFTREE, METRICS, PAIR_BYTES, all, race_in_memory, step};
use super::fact::cell_by_scale;
use super::{Axis, Experiment, Fact, Figure, Metric, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig8",
    title: "everything in memory, by threads",
    source: "Bf-Tree figure 8, section 6.4",
    races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "half reads, half updates in memory, by threads",
        phases: &["mix"],
        x: None,
        axis: Axis::Parameter("threads"),
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::ratio("Bf-Tree: most threads / 1 (31 threads in the paper)", 23.9, mix(MOST), mix(["1"; 3])),
        Fact::absent("LeanStore: 31 threads / 1", 14.5, "x"),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

/// The most threads of each scale.
pub(super) const MOST: [&str; 3] = ["2", "2", "31"];

const fn mix(x: [&'static str; 3]) -> super::Cell {
    cell_by_scale(BFTREE, x, "mix", Metric::Kops)
}

fn races(scale: Scale) -> Vec<Race> {
    // Pages are two thirds full, and mirrored whole.
    let memory_bytes = (scale.bftree_records() * PAIR_BYTES * 3).max(scale.bftree_memory());
    let threads: Vec<usize> = scale.pick(vec![1, 2], vec![1, 2], vec![1, 8, 16, 24, 31]);
    let race = |threads: usize| {
        let mut race = race_in_memory(&threads.to_string(), scale, threads).step(step("mix", scale, threads));
        race.contenders = all(memory_bytes);
        race
    };
    threads.into_iter().map(race).collect()
}
