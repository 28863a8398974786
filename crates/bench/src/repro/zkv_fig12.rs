//! Latency of inserts and reads, median to 99.99th percentile.

use super::contenders::{BTREE, ZKV, ZONDA, all};
use super::fact::cell;
use super::{Axis, Experiment, F2FS, Fact, Figure, Metric, SPLINTERDB, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig12",
    title: "latency of inserts (YCSB-a) and reads (YCSB-d), p50 to p99.99",
    source: "ZKV figure 12, Exp#2",
    races,
    metrics: &[Metric::P50, Metric::P90, Metric::P99, Metric::P999, Metric::P9999, Metric::Gap, Metric::Kops],
    figures: &[
        Figure {
            name: "write",
            title: "write latency (YCSB-a)",
            phases: &["zkv-a"],
            x: None,
            axis: Axis::Percentile,
            metric: Metric::P99,
            log: true,
        },
        Figure {
            name: "read",
            title: "read latency (YCSB-d)",
            phases: &["zkv-d"],
            x: None,
            axis: Axis::Percentile,
            metric: Metric::P99,
            log: true,
        },
    ],
    facts: &[
        Fact::ratio(
            "write p99: B+-Tree / ZKV, up to",
            100.0,
            cell(BTREE, "", "zkv-a", Metric::P99),
            cell(ZKV, "", "zkv-a", Metric::P99),
        ),
        Fact::absent("write p99.99: SplinterDB / ZKV", 3.48, "x"),
        Fact::ratio(
            "read p99.99: B+-Tree / ZKV, up to",
            3.96,
            cell(BTREE, "", "zkv-d", Metric::P9999),
            cell(ZKV, "", "zkv-d", Metric::P9999),
        ),
        Fact::ratio(
            "write p99: B+-Tree / zonda, beside ZKV's",
            100.0,
            cell(BTREE, "", "zkv-a", Metric::P99),
            cell(ZONDA, "", "zkv-a", Metric::P99),
        ),
    ],
    absent: &[SPLINTERDB, F2FS],
    judge: no_targets,
};

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let mut race = Race::new("", scale.records(), threads)
        .step(Step::new("zkv-a", scale.writes(), threads))
        .step(Step::new("zkv-d", scale.reads(), threads))
        .in_turns(4);
    race.id = "pairs".into();
    race.contenders = all(scale.memory());
    vec![race]
}
