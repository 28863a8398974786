//! Threads.

use super::contenders::{BDTREE, BTREE, ZKV, ZONDA, all};
use super::fact::cell_by_scale;
use super::{Axis, Experiment, F2FS, Fact, Figure, Metric, SPLINTERDB, Said, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig14",
    title: "inserts and reads by threads",
    source: "ZKV figure 14, Exp#5",
    races,
    metrics: &[Metric::Kops, Metric::Cpu, Metric::P50, Metric::P99, Metric::Written],
    figures: &[
        Figure {
            name: "insert",
            title: "inserts (YCSB-a) by threads",
            phases: &["zkv-a"],
            x: None,
            axis: Axis::Parameter("threads"),
            metric: Metric::Kops,
            log: false,
        },
        Figure {
            name: "read",
            title: "reads (YCSB-d) by threads",
            phases: &["zkv-d"],
            x: None,
            axis: Axis::Parameter("threads"),
            metric: Metric::Kops,
            log: false,
        },
    ],
    facts: &[
        Fact::ratio(
            "most threads, inserts: ZKV / B+-Tree, up to",
            11.4,
            cell_by_scale(ZKV, MOST, "zkv-a", Metric::Kops),
            cell_by_scale(BTREE, MOST, "zkv-a", Metric::Kops),
        ),
        Fact::absent("most threads, inserts: ZKV / SplinterDB and BD-Tree, up to", 4.81, "x"),
        Fact::side(
            "most threads, inserts: ZKV / BD-Tree",
            Said::More,
            cell_by_scale(ZKV, MOST, "zkv-a", Metric::Kops),
            cell_by_scale(BDTREE, MOST, "zkv-a", Metric::Kops),
        ),
        Fact::ratio(
            "most threads, reads: ZKV / B+-Tree, up to",
            1.46,
            cell_by_scale(ZKV, MOST, "zkv-d", Metric::Kops),
            cell_by_scale(BTREE, MOST, "zkv-d", Metric::Kops),
        ),
        Fact::ratio(
            "most threads, inserts: zonda / B+-Tree, beside ZKV's",
            11.4,
            cell_by_scale(ZONDA, MOST, "zkv-a", Metric::Kops),
            cell_by_scale(BTREE, MOST, "zkv-a", Metric::Kops),
        ),
    ],
    absent: &[SPLINTERDB, F2FS],
    judge: no_targets,
};

/// The most threads of each scale.
pub(super) const MOST: [&str; 3] = ["2", "16", "56"];

fn races(scale: Scale) -> Vec<Race> {
    let threads: Vec<usize> = scale.pick(vec![1, 2], vec![1, 2, 4, 8, 16], vec![1, 8, 16, 32, 48, 56]);
    let records = scale.records() / 2;
    let race = |threads: usize| {
        let mut race = Race::new(&threads.to_string(), records, threads)
            .step(Step::new("zkv-a", scale.writes() / 2, threads))
            .step(Step::new("zkv-d", scale.reads(), threads));
        race.contenders = all(Scale::memory_for(records));
        race
    };
    threads.into_iter().map(race).collect()
}
