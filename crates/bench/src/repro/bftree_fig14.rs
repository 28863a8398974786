//! The share of the circular buffer in which a mini-page that is used moves to the tail: one race in turns, since what is judged are ratios
//! between shares.

use super::bftree::{ABSENT, METRICS, bftree, race, step};
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
        x: None,
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::side("10 % / 0 %", Said::More, mix(TEN), mix(NONE)),
        Fact::side("10 % / 100 %", Said::More, mix(TEN), mix(ALL)),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

const fn mix(series: &'static str) -> super::Cell {
    cell(series, "", "mix", Metric::Kops)
}

const NONE: &str = "0 %";
const TEN: &str = "10 %";
const ALL: &str = "100 %";
/// Percent, and the series of them.
const SHARES: [(&str, &str); 6] =
    [("0", NONE), ("10", TEN), ("25", "25 %"), ("50", "50 %"), ("75", "75 %"), ("100", ALL)];

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let mut race = race("", scale, threads).step(step("mix", scale, threads)).in_turns(4);
    race.id = "pairs".into();
    let contender =
        |(percent, series): (&str, &str)| bftree(scale.bftree_memory()).called(series).with("copy-on-access", percent);
    race.contenders = SHARES.map(contender).into();
    vec![race]
}
