//! Length of values, with the log on as in the paper.

use super::contenders::{ZKV, ZONDA, zkv, zonda};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig17",
    title: "values of 8 to 512 B",
    source: "ZKV figure 17, Exp#8",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Log, Metric::WrittenAll, Metric::Read, Metric::P99],
    figures: &[
        Figure {
            name: "",
            title: "inserts, reads and scans by the length of values",
            phases: &["zkv-a", "zkv-d", "zkv-e"],
            axis: Axis::Parameter,
            metric: Metric::Kops,
            log: true,
        },
        Figure {
            name: "bytes",
            title: "bytes written per insert, log included",
            phases: &["zkv-a"],
            axis: Axis::Parameter,
            metric: Metric::WrittenAll,
            log: false,
        },
    ],
    facts: &[
        Fact::ratio(
            "inserts: 512 B / 8 B",
            0.742,
            cell(ZKV, "512 B", "zkv-a", Metric::Kops),
            cell(ZKV, "8 B", "zkv-a", Metric::Kops),
        ),
        Fact::ratio(
            "inserts of zonda: 512 B / 8 B, beside ZKV's",
            0.742,
            cell(ZONDA, "512 B", "zkv-a", Metric::Kops),
            cell(ZONDA, "8 B", "zkv-a", Metric::Kops),
        ),
        Fact::value("8 B: written", 201.73, "B/op", cell(ZKV, "8 B", "zkv-a", Metric::Written)),
        Fact::value("512 B: written", 325.66, "B/op", cell(ZKV, "512 B", "zkv-a", Metric::Written)),
    ],
    absent: &[],
    judge: no_targets,
};

const VALUE_BYTES: [usize; 5] = [8, 64, 128, 256, 512];

/// Memory is what it would be for values of 8 B, as in the paper, where values lie outside of leaves.
fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.records() / 4, scale.threads());
    let memory_bytes = Scale::memory_for(records).max(scale.pick(0, 8 << 20, 0));
    let race = |value_bytes: usize| {
        let mut race = Race::new(&format!("{value_bytes} B"), records, threads)
            .contender(zonda(memory_bytes).logged())
            .contender(zkv(memory_bytes).logged())
            .step(Step::new("zkv-a", records / 2, threads))
            .step(Step::new("zkv-d", scale.reads() / 2, threads))
            .step(Step::new("zkv-e", scale.scans() / 5, threads));
        race.data.value_bytes = value_bytes;
        race
    };
    VALUE_BYTES.map(race).into()
}
