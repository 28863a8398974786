//! Skew, from uniform to Zipf 1.0.

use super::bftree::{ABSENT, BFTREE, BTREE, METRICS, all, race, step};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig10",
    title: "half reads, half updates by skew",
    source: "Bf-Tree figure 10, section 6.6",
    races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "half reads, half updates by skew",
        phases: &["mix"],
        x: None,
        axis: Axis::Parameter("Zipf's constant"),
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::side("uniform: Bf-Tree / B-Tree", Said::More, mix(BFTREE, "uniform"), mix(BTREE, "uniform")),
        Fact::side("Zipf 0.99: Bf-Tree / B-Tree", Said::More, mix(BFTREE, "zipf:0.99"), mix(BTREE, "zipf:0.99")),
        Fact::side("Bf-Tree: Zipf 0.99 / uniform", Said::More, mix(BFTREE, "zipf:0.99"), mix(BFTREE, "uniform")),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

const fn mix(series: &'static str, x: &'static str) -> super::Cell {
    cell(series, x, "mix", Metric::Kops)
}

/// The paper's last one is 1.0, where the generator's formula has a pole.
const SKEWS: [&str; 5] = ["uniform", "zipf:0.5", "zipf:0.7", "zipf:0.9", "zipf:0.99"];

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let race = |skew: &str| {
        let mut race = race(skew, scale, threads).step(step("mix", scale, threads).over(skew));
        race.steps
            .iter_mut()
            .filter(|step| step.phase == "warm")
            .for_each(|step| step.distribution = Some(skew.to_owned()));
        race.contenders = all(scale.bftree_memory());
        race
    };
    SKEWS.map(race).into()
}
