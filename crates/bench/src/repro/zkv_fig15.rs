//! How large the delta buffers are, in one budget: filter 50 MB of 400 MB in the paper, buffers 50 to 200 MB, the flusher
//! the rest.

use super::contenders::{ZKV, zkv};
use super::fact::cell;
use super::{Axis, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::contest::Step;
use crate::race::Race;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig15",
    title: "size of the delta buffers in one budget",
    source: "ZKV figure 15, Exp#6",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Read, Metric::P99],
    figures: &[
        Figure {
            name: "",
            title: "operations by the share of the delta buffers",
            phases: &["zkv-a", "zkv-d"],
            x: None,
            axis: Axis::Parameter("delta buffers' part of the memory"),
            metric: Metric::Kops,
            log: true,
        },
        Figure {
            name: "bytes",
            title: "bytes written per insert",
            phases: &["zkv-a"],
            x: None,
            axis: Axis::Parameter("delta buffers' part of the memory"),
            metric: Metric::Written,
            log: false,
        },
    ],
    facts: &[
        Fact::ratio(
            "inserts: buffers of 200 MB / of 50 MB",
            6.38,
            cell(ZKV, "200/400", "zkv-a", Metric::Kops),
            cell(ZKV, "50/400", "zkv-a", Metric::Kops),
        ),
        Fact::side(
            "reads: buffers of 200 MB / of 50 MB",
            Said::Same,
            cell(ZKV, "200/400", "zkv-d", Metric::Kops),
            cell(ZKV, "50/400", "zkv-d", Metric::Kops),
        ),
        Fact::value("written with 200 MB", 221.32, "B/op", cell(ZKV, "200/400", "zkv-a", Metric::Written)),
    ],
    absent: &[],
    judge: no_targets,
};

/// Parts of 400: delta buffers; the filter has 50 and the flusher what is left.
const BUFFERS: [u32; 4] = [50, 100, 150, 200];

fn races(scale: Scale) -> Vec<Race> {
    let threads = scale.threads();
    let race = |buffers: u32| {
        // The filter's share stays what it is.
        let shares = format!("50:{buffers}:{}", 350 - buffers);
        Race::new(&format!("{buffers}/400"), scale.records(), threads)
            .contender(zkv(scale.memory()).with("memory-shares", &shares))
            .step(Step::new("zkv-a", scale.writes(), threads))
            .step(Step::new("zkv-d", scale.reads(), threads))
    };
    BUFFERS.map(race).into()
}
