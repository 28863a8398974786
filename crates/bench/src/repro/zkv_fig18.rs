//! Size of the data; memory grows with it, as 12.5 % of its bytes.

use super::contenders::{BDTREE, ZKV, ZONDA, bdtree, zkv, zonda};
use super::fact::cell_by_scale;
use super::{Axis, Experiment, F2FS, Fact, Figure, Metric, SPLINTERDB, Scale, no_targets};
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig18",
    title: "inserts by the size of the data",
    source: "ZKV figure 18, Exp#9",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Cpu, Metric::SlowestSecond, Metric::Gap],
    figures: &[Figure {
        name: "",
        title: "inserts by the size of the data",
        phases: &["load"],
        x: None,
        axis: Axis::Parameter("pairs"),
        metric: Metric::Kops,
        log: false,
    }],
    facts: &[
        Fact::ratio(
            "largest: ZKV / BD-Tree",
            1.09,
            cell_by_scale(ZKV, LARGEST, "load", Metric::Kops),
            cell_by_scale(BDTREE, LARGEST, "load", Metric::Kops),
        ),
        Fact::ratio(
            "largest: zonda / BD-Tree, beside ZKV's",
            1.09,
            cell_by_scale(ZONDA, LARGEST, "load", Metric::Kops),
            cell_by_scale(BDTREE, LARGEST, "load", Metric::Kops),
        ),
        Fact::absent("largest: ZKV / SplinterDB", 2.09, "x"),
    ],
    absent: &[SPLINTERDB, ("F2FS-ZNS under BD-Tree", F2FS.1)],
    judge: no_targets,
};

/// The largest of each scale.
pub(super) const LARGEST: [&str; 3] = ["40,000", "16,000,000", "400,000,000"];

fn races(scale: Scale) -> Vec<Race> {
    let most = scale.pick(40_000, 16_000_000, 400_000_000);
    let race = |share: u64| {
        let records = most / share;
        let memory_bytes = Scale::memory_for(records);
        Race::new(&crate::show_count(records), records, scale.threads())
            .contender(zonda(memory_bytes))
            .contender(zkv(memory_bytes))
            .contender(bdtree(memory_bytes))
            .in_turns(4)
    };
    [8, 4, 2, 1].map(race).into()
}
