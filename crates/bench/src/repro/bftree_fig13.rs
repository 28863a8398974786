//! Where lookups in memory spend their time.

use super::bftree::{ABSENT, BFTREE, PAIR_BYTES, SKEW, bftree, on_zones};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::contest::{DataShape, Step};
use crate::profile::Component;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bftree-fig13",
    title: "time by component, lookups in memory",
    source: "Bf-Tree figure 13, section 6.9",
    races,
    metrics: &[
        Metric::TimeIn(Component::InnerNodes),
        Metric::TimeIn(Component::MappingTable),
        Metric::TimeIn(Component::Leaf),
        Metric::TimeIn(Component::Device),
        Metric::TimeIn(Component::Rest),
        Metric::Kops,
        Metric::Cpu,
    ],
    figures: &[Figure {
        name: "",
        title: "time by component, percent",
        phases: &["get"],
        x: None,
        axis: Axis::Component,
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::value("mapping table", 12.8, "%", time_in(Component::MappingTable)),
        Fact::side("inner nodes / leaf", Said::Same, time_in(Component::InnerNodes), time_in(Component::Leaf)),
    ],
    absent: &ABSENT,
    judge: no_targets,
};

const fn time_in(component: Component) -> super::Cell {
    cell(BFTREE, "", "get", Metric::TimeIn(component))
}

/// Lookups before the profile for each record: enough for every page to have been promoted.
const WARMING: u64 = 20;

fn races(scale: Scale) -> Vec<Race> {
    let records = scale.bftree_records() / scale.pick(1, 10, 10);
    // Pages are two thirds full, and mirrored whole.
    let memory_bytes = (records * PAIR_BYTES * 3).max(scale.bftree_memory());
    let mut race = Race::new("", records, 1);
    race.data = DataShape { key_bytes: 16, value_bytes: 16, ..DataShape::small(records) };
    race.id = "pairs".into();
    race.contenders = vec![bftree(memory_bytes), on_zones(memory_bytes), super::contenders::zonda(memory_bytes)];
    let lookups = |operations| Step::new("get", operations, 1);
    let profiled = lookups(scale.bftree_operations() * 10).over(SKEW).profiled();
    vec![race.step(lookups(records * WARMING).named("warm")).step(profiled)]
}
