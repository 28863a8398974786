//! The share of reads, the rest being updates.

use super::bftree::{ABSENT, BFTREE, BTREE, METRICS, all, race, step};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig11",
    title: "reads and updates by the share of reads",
    source: "Bf-Tree figure 11, section 6.7",
    races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "operations by the share of reads, the rest updates",
        phases: &PHASES,
        x: None,
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::side("Bf-Tree: updates / reads", Said::More, kops(BFTREE, "mix:0"), kops(BFTREE, "mix:100")),
        Fact::side("B-Tree: updates / reads", Said::Less, kops(BTREE, "mix:0"), kops(BTREE, "mix:100")),
        Fact::side("half and half: Bf-Tree / B-Tree", Said::More, kops(BFTREE, "mix:50"), kops(BTREE, "mix:50")),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

/// Percent of reads.
const PHASES: [&str; 5] = ["mix:100", "mix:75", "mix:50", "mix:25", "mix:0"];

const fn kops(series: &'static str, phase: &'static str) -> super::Cell {
    cell(series, "", phase, Metric::Kops)
}

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let mut race = race("", scale, threads).in_turns(2);
    race.steps.extend(PHASES.map(|phase| step(phase, scale, threads)));
    race.id = "pairs".into();
    race.contenders = all(scale.bftree_memory());
    vec![race]
}
