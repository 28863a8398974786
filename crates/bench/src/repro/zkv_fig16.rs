//! The memory budget, as a share of the data: 200 to 1,000 MB for 3,200 MB in the paper.

use super::contenders::{ZKV, ZONDA, zkv, zonda};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig16",
    title: "memory budget",
    source: "ZKV figure 16, Exp#7",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Read, Metric::LeafReads, Metric::Cpu, Metric::Rss],
    figures: &[
        Figure {
            name: "",
            title: "operations by memory as a share of the data",
            phases: &["zkv-a", "zkv-d"],
            x: None,
            axis: Axis::Parameter("memory over data"),
            metric: Metric::Kops,
            log: true,
        },
        Figure {
            name: "bytes",
            title: "bytes written per insert",
            phases: &["zkv-a"],
            x: None,
            axis: Axis::Parameter("memory over data"),
            metric: Metric::Written,
            log: false,
        },
    ],
    facts: &[
        Fact::value("200 MB: written", 491.74, "B/op", cell(ZKV, "6.25 %", "zkv-a", Metric::Written)),
        Fact::value("600 MB: written", 187.26, "B/op", cell(ZKV, "18.75 %", "zkv-a", Metric::Written)),
        Fact::value("200 MB: zonda beside ZKV's", 491.74, "B/op", cell(ZONDA, "6.25 %", "zkv-a", Metric::Written)),
        Fact::value("600 MB: zonda beside ZKV's", 187.26, "B/op", cell(ZONDA, "18.75 %", "zkv-a", Metric::Written)),
        Fact::ratio(
            "reads: 1,000 MB / 200 MB",
            1.122,
            cell(ZKV, "31.25 %", "zkv-d", Metric::Kops),
            cell(ZKV, "6.25 %", "zkv-d", Metric::Kops),
        ),
    ],
    absent: &[],
    judge: no_targets,
};

/// Sixteenths of the data's bytes.
const SIXTEENTHS: [u64; 5] = [1, 2, 3, 4, 5];

fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.records(), scale.threads());
    let race = |sixteenths: u64| {
        let memory_bytes = (records * 16 * sixteenths / 16).max(zonda::limits::MEMORY_BYTES_MIN);
        Race::new(&format!("{} %", 6.25 * sixteenths as f64), records, threads)
            .contender(zonda(memory_bytes))
            .contender(zkv(memory_bytes))
            .step(Step::new("zkv-a", scale.writes(), threads))
            .step(Step::new("zkv-d", scale.reads(), threads))
    };
    SIXTEENTHS.map(race).into()
}
