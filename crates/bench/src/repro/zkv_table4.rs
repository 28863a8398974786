//! Size of leaves. Groups are of 16 KiB whatever the size (`FlusherOptions::group_pages`): leaves of 16 and 32 KiB are written one by one.

use super::contenders::{ZKV, ZONDA, zkv, zonda};
use super::fact::cell;
use super::{Axis, Cell, Experiment, Fact, Figure, Metric, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-table4",
    title: "leaves of 4 to 32 KiB",
    source: "ZKV table 4, Exp#10",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Read, Metric::Cpu, Metric::P99],
    figures: &[
        Figure {
            name: "",
            title: "operations by the size of leaves",
            phases: &["zkv-a", "zkv-d"],
            x: None,
            axis: Axis::Parameter("bytes of a leaf"),
            metric: Metric::Kops,
            log: true,
        },
        Figure {
            name: "bytes",
            title: "bytes written per insert",
            phases: &["zkv-a"],
            x: None,
            axis: Axis::Parameter("bytes of a leaf"),
            metric: Metric::Written,
            log: false,
        },
    ],
    facts: &[
        Fact::value("4 KiB: written", 188.3, "B/op", zkv_at("4 KiB", "zkv-a", Metric::Written)),
        Fact::value("8 KiB: written", 316.16, "B/op", zkv_at("8 KiB", "zkv-a", Metric::Written)),
        Fact::value("16 KiB: written", 639.63, "B/op", zkv_at("16 KiB", "zkv-a", Metric::Written)),
        Fact::value("32 KiB: written", 1269.31, "B/op", zkv_at("32 KiB", "zkv-a", Metric::Written)),
        Fact::value("4 KiB: read", 3681.1, "B/op", zkv_at("4 KiB", "zkv-d", Metric::Read)),
        Fact::value("8 KiB: read", 7119.45, "B/op", zkv_at("8 KiB", "zkv-d", Metric::Read)),
        Fact::value("16 KiB: read", 14474.09, "B/op", zkv_at("16 KiB", "zkv-d", Metric::Read)),
        Fact::value("32 KiB: read", 29168.23, "B/op", zkv_at("32 KiB", "zkv-d", Metric::Read)),
        Fact::ratio(
            "inserts: 32 KiB / 4 KiB",
            0.473,
            zkv_at("32 KiB", "zkv-a", Metric::Kops),
            zkv_at("4 KiB", "zkv-a", Metric::Kops),
        ),
        Fact::ratio(
            "reads: 32 KiB / 4 KiB",
            0.249,
            zkv_at("32 KiB", "zkv-d", Metric::Kops),
            zkv_at("4 KiB", "zkv-d", Metric::Kops),
        ),
        Fact::ratio("reads of zonda: 32 KiB / 4 KiB, beside ZKV's", 0.249, reads("32 KiB"), reads("4 KiB")),
    ],
    absent: &[],
    judge: no_targets,
};

const fn zkv_at(x: &'static str, phase: &'static str, metric: Metric) -> Cell {
    cell(ZKV, x, phase, metric)
}

const fn reads(x: &'static str) -> Cell {
    cell(ZONDA, x, "zkv-d", Metric::Kops)
}

const LEAF_KIB: [u32; 4] = [4, 8, 16, 32];

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let memory_bytes = scale.memory().max(scale.pick(8 << 20, 0, 0));
    let race = |kib: u32| {
        Race::new(&format!("{kib} KiB"), scale.records(), threads)
            .contender(zonda(memory_bytes).with_leaves(kib << 10))
            .contender(zkv(memory_bytes).with_leaves(kib << 10))
            .step(Step::new("zkv-a", scale.writes(), threads))
            .step(Step::new("zkv-d", scale.reads(), threads))
    };
    LEAF_KIB.map(race).into()
}
