//! On a block device: ZKV with a conventional LRU pool in place of the flusher, beside the same on zones.

use super::contenders::{ZKV, btree, zkv, zkv_block};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, SPLINTERDB, Said, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig19",
    title: "in place on a block device, beside zones",
    source: "ZKV figure 19, Exp#11",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Read, Metric::Cpu, Metric::P99],
    figures: &[Figure {
        name: "",
        title: "inserts (YCSB-a) and reads (YCSB-d) on a block device and on zones",
        phases: &["zkv-a", "zkv-d"],
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: true,
    }],
    facts: &[
        Fact::absent("reads: ZKV-BLK / SplinterDB", 1.43, "x"),
        Fact::absent("inserts: ZKV-BLK / SplinterDB", 3.40, "x"),
        Fact::side(
            "inserts: ZKV on zones / ZKV-BLK",
            Said::More,
            cell(ZKV, "", "zkv-a", Metric::Kops),
            cell(BLOCK, "", "zkv-a", Metric::Kops),
        ),
    ],
    absent: &[SPLINTERDB],
    judge: no_targets,
};

const BLOCK: &str = "ZKV-BLK";

fn races(scale: Scale) -> Vec<Race> {
    let (threads, memory_bytes) = (scale.threads(), scale.memory());
    let mut race = Race::new("", scale.records(), threads)
        .contender(zkv(memory_bytes))
        .contender(zkv_block(memory_bytes).called(BLOCK))
        .contender(btree(memory_bytes).called("B+-Tree in place").with("store", "in-place"))
        .step(Step::new("zkv-a", scale.writes(), threads))
        .step(Step::new("zkv-d", scale.reads(), threads))
        .in_turns(4);
    race.id = "pairs".into();
    vec![race]
}
