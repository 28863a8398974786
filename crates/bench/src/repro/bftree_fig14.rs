//! The share of the circular buffer in which a mini-page that is used moves to the tail.

use super::bftree::{ABSENT, BFTREE, METRICS, bftree, race, step};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig14",
    title: "share of the copy-on-access region",
    source: "Bf-Tree figure 14, section 6.10",
    races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "half reads, half updates by the copy-on-access share",
        phases: &["mix"],
        axis: Axis::Parameter,
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::side("10 % / 0 %", Said::More, mix("10"), mix("0")),
        Fact::side("10 % / 100 %", Said::More, mix("10"), mix("100")),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

const fn mix(x: &'static str) -> super::Cell {
    cell(BFTREE, x, "mix", Metric::Kops)
}

const PERCENTS: [&str; 6] = ["0", "10", "25", "50", "75", "100"];

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let race = |percent: &str| {
        let contender = bftree(scale.bftree_memory()).with("copy-on-access", percent);
        race(percent, scale, threads).step(step("mix", scale, threads)).contender(contender)
    };
    PERCENTS.map(race).into()
}
