//! The chance that a lookup caches what it read, and how fast the cache then follows a change of the hot records.

use super::bftree::{ABSENT, METRICS, bftree, race, step};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig15",
    title: "lookups after the hot records change, by promotion rate",
    source: "Bf-Tree figure 15, section 6.11",
    races,
    metrics: &METRICS,
    figures: &[Figure {
        name: "",
        title: "lookups, first to sixth part after the change",
        phases: &PHASES,
        x: None,
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::side(
            "just after the change: 100 % / 1 %",
            Said::More,
            reads("1 %", "after 1"),
            reads("100 %", "after 1"),
        ),
        Fact::side("at the end: 20 % / 100 %", Said::More, reads("100 %", "after 6"), reads("20 %", "after 6")),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

const PHASES: [&str; 6] = ["after 1", "after 2", "after 3", "after 4", "after 5", "after 6"];
const PERCENTS: [(&str, &str); 5] = [("1", "1 %"), ("5", "5 %"), ("20", "20 %"), ("50", "50 %"), ("100", "100 %")];

/// Lookups that read the device: what time follows, without the machine's noise. The ratios are turned over for that.
const fn reads(series: &'static str, phase: &'static str) -> super::Cell {
    cell(series, "", phase, Metric::LeafReads)
}

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let mut race = race("", scale, threads);
    // Until now scattered records were hot; from here on a range of keys is.
    race.steps.extend(PHASES.map(|phase| {
        let mut part = step("get", scale, threads).named(phase).over("hot-range");
        part.operations = (scale.bftree_operations() / 4).max(1);
        part
    }));
    race.id = "pairs".into();
    let contender =
        |(percent, series): (&str, &str)| bftree(scale.bftree_memory()).called(series).with("promotion", percent);
    race.contenders = PERCENTS.map(contender).into();
    vec![race]
}
