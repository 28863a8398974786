//! On a block device: ZKV with a conventional LRU pool in place of the flusher, beside the same on zones.

use super::contenders::{ZKV, btree, zkv, zkv_block};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Results, SPLINTERDB, Said, Scale};
use crate::contest::Step;
use crate::race::Race;
use crate::verdict::Verdict;

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
        x: None,
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
        Fact::side(
            "inserts: ZKV-BLK / B+-Tree in place",
            Said::More,
            cell(BLOCK, "", "zkv-a", Metric::Kops),
            cell(IN_PLACE, "", "zkv-a", Metric::Kops),
        ),
    ],
    absent: &[
        SPLINTERDB,
        ("F2FS on the block device", "the store is one file, written past the page cache where the host allows it"),
    ],
    judge,
};

const BLOCK: &str = "ZKV-BLK";
const IN_PLACE: &str = "B+-Tree in place";

fn races(scale: Scale) -> Vec<Race> {
    let (threads, memory_bytes) = (scale.threads(), scale.memory());
    let mut race = Race::new("", scale.records(), threads)
        .contender(zkv(memory_bytes))
        .contender(zkv_block(memory_bytes).called(BLOCK))
        .contender(btree(memory_bytes).called(IN_PLACE).with("store", "in-place"))
        .step(Step::new("zkv-a", scale.writes(), threads))
        .step(Step::new("zkv-d", scale.reads(), threads))
        .in_turns(4);
    race.id = "pairs".into();
    vec![race]
}

/// What buffers gain in place, and zones beyond that.
fn judge(results: &Results) -> Vec<Verdict> {
    let gains = EXPERIMENT.facts.iter().filter_map(|fact| Some((fact, fact.ours(results)?)));
    gains.map(|(fact, gain)| Verdict::at_least(fact.what, gain, 1.0, "x")).collect()
}
