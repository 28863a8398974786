//! YCSB and Skew a to e, all designs in turns.

use super::contenders::{BDTREE, BTREE, ZKV, ZONDA, all};
use super::fact::cell;
use super::{Axis, Cell, Experiment, F2FS, Fact, Figure, Metric, SPLINTERDB, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig11",
    title: "YCSB and Skew a-e, all designs",
    source: "ZKV figure 11, Exp#1",
    races,
    metrics: &[Metric::Kops, Metric::Cpu, Metric::Written, Metric::Read, Metric::P50, Metric::P99, Metric::Rss],
    figures: &[
        Figure {
            name: "ycsb",
            title: "YCSB a-e (uniform)",
            phases: &["zkv-a", "zkv-b", "zkv-c", "zkv-d", "zkv-e"],
            x: None,
            axis: Axis::Phase,
            metric: Metric::Kops,
            log: true,
        },
        Figure {
            name: "skew",
            title: "Skew a-e (80 % of the operations on 20 % of the pairs)",
            phases: &["skew-a", "skew-b", "skew-c", "skew-d", "skew-e"],
            x: None,
            axis: Axis::Phase,
            metric: Metric::Kops,
            log: true,
        },
    ],
    facts: &[
        Fact::ratio("YCSB-a: ZKV / BD-Tree", 1.15, kops(ZKV, "zkv-a"), kops(BDTREE, "zkv-a")),
        Fact::absent("Skew-b: ZKV / SplinterDB", 3.12, "x"),
        Fact::ratio("YCSB-d: ZKV / B+-Tree", 1.35, kops(ZKV, "zkv-d"), kops(BTREE, "zkv-d")),
        Fact::ratio("YCSB-e: ZKV / B+-Tree", 1.69, kops(ZKV, "zkv-e"), kops(BTREE, "zkv-e")),
        Fact::ratio("Skew-d: ZKV / B+-Tree, up to", 2.53, kops(ZKV, "skew-d"), kops(BTREE, "skew-d")),
        Fact::ratio("YCSB-a: zonda / BD-Tree, beside ZKV's", 1.15, kops(ZONDA, "zkv-a"), kops(BDTREE, "zkv-a")),
        Fact::ratio("YCSB-d: zonda / B+-Tree, beside ZKV's", 1.35, kops(ZONDA, "zkv-d"), kops(BTREE, "zkv-d")),
        Fact::ratio("YCSB-e: zonda / B+-Tree, beside ZKV's", 1.69, kops(ZONDA, "zkv-e"), kops(BTREE, "zkv-e")),
    ],
    absent: &[SPLINTERDB, F2FS],
    judge: no_targets,
};

const fn kops(series: &'static str, phase: &'static str) -> Cell {
    cell(series, "", phase, Metric::Kops)
}

/// Turns per step: the machine's moods hit all designs.
const TURNS: u32 = 4;

fn races(scale: Scale) -> Vec<Race> {
    vec![row(scale, "YCSB", "zkv"), row(scale, "Skew", "skew")]
}

fn row(scale: Scale, name: &str, workloads: &str) -> Race {
    let threads = scale.threads();
    let operations = [scale.writes(), scale.writes() / 2, scale.reads(), scale.reads(), scale.scans()];
    let steps = ["a", "b", "c", "d", "e"].into_iter().zip(operations);
    let mut race = Race::new(name, scale.records(), threads).in_turns(TURNS);
    race.steps.extend(steps.map(|(letter, count)| Step::new(&format!("{workloads}-{letter}"), count, threads)));
    race.contenders = all(scale.memory());
    race
}
