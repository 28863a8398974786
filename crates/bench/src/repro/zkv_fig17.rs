//! Length of values, with the log on as in the paper: in leaves, and separated as the paper has them.
//!
//! A separated value is a block of the value log of its own here (decision 36), so each insert of one writes 4,096 B whatever the length.

use super::contenders::{ZKV, ZONDA, zkv, zonda};
use super::fact::cell;
use super::{Axis, Cell, Experiment, Fact, Figure, Metric, Said, Scale, no_targets};
use crate::contest::Step;
use crate::race::{Contender, Race};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig17",
    title: "values of 8 to 512 B",
    source: "ZKV figure 17, Exp#8",
    races,
    metrics: &[
        Metric::Kops,
        Metric::Written,
        Metric::Log,
        Metric::Values,
        Metric::WrittenAll,
        Metric::Read,
        Metric::P99,
    ],
    figures: &[
        Figure {
            name: "",
            title: "inserts, reads and scans by the length of values",
            phases: &["zkv-a", "zkv-d", "zkv-e"],
            x: None,
            axis: Axis::Parameter("bytes of a value"),
            metric: Metric::Kops,
            log: true,
        },
        Figure {
            name: "bytes",
            title: "bytes written per insert, log included",
            phases: &["zkv-a"],
            x: None,
            axis: Axis::Parameter("bytes of a value"),
            metric: Metric::WrittenAll,
            log: false,
        },
    ],
    facts: &[
        Fact::ratio(
            "inserts, separated: 512 B / 8 B",
            0.742,
            cell(ZKV_SEPARATED, "512 B", "zkv-a", Metric::Kops),
            cell(ZKV_SEPARATED, "8 B", "zkv-a", Metric::Kops),
        ),
        Fact::ratio(
            "inserts, in leaves: 512 B / 8 B",
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
        Fact::value(
            "8 B, separated: written, a block of 4,096 B of them the value",
            201.73,
            "B/op",
            written(ZKV_SEPARATED, "8 B"),
        ),
        Fact::value(
            "512 B, separated: written, a block of them the value",
            325.66,
            "B/op",
            written(ZKV_SEPARATED, "512 B"),
        ),
        Fact::value("8 B, in leaves: written", 201.73, "B/op", written(ZKV, "8 B")),
        Fact::value("512 B, in leaves: written", 325.66, "B/op", written(ZKV, "512 B")),
        Fact::side(
            "reads, separated: 512 B / 8 B",
            Said::Same,
            cell(ZKV_SEPARATED, "512 B", "zkv-d", Metric::Kops),
            cell(ZKV_SEPARATED, "8 B", "zkv-d", Metric::Kops),
        ),
        Fact::side(
            "scans, separated: 512 B / 8 B",
            Said::Same,
            cell(ZKV_SEPARATED, "512 B", "zkv-e", Metric::Kops),
            cell(ZKV_SEPARATED, "8 B", "zkv-e", Metric::Kops),
        ),
    ],
    absent: &[],
    judge: no_targets,
};

const ZKV_SEPARATED: &str = "ZKV separated";
const ZONDA_SEPARATED: &str = "zonda separated";

/// With the log, as the paper counts here.
const fn written(series: &'static str, x: &'static str) -> Cell {
    cell(series, x, "zkv-a", Metric::WrittenAll)
}

/// How much smaller separated runs are, at the most.
const SEPARATED_SCALE_DOWN: u64 = 4;

const VALUE_BYTES: [usize; 5] = [8, 64, 128, 256, 512];

/// Memory is 12.5 % of the pairs with values of 8 B, as in the paper, where values lie outside of leaves. At the paper's scale a quarter of
/// the pairs: values take a device of their own size.
fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.records() / scale.pick(4, 1, 4), scale.threads());
    let memory_bytes = Scale::memory_for(records);
    // Smaller, as a block for every value takes its time, but not with less than a store works with.
    let by = (memory_bytes / zonda::limits::MEMORY_BYTES_MIN).clamp(1, SEPARATED_SCALE_DOWN);
    let separated = |contender: Contender| contender.with("value-inline", "0").scaled_down(by);
    let race = |value_bytes: usize| {
        let mut race = Race::new(&format!("{value_bytes} B"), records, threads)
            .contender(zonda(memory_bytes).logged())
            .contender(zkv(memory_bytes).logged())
            .contender(separated(zonda(memory_bytes).logged()).called(ZONDA_SEPARATED))
            .contender(separated(zkv(memory_bytes).logged()).called(ZKV_SEPARATED))
            .step(Step::new("zkv-a", scale.writes() / 4, threads))
            .step(Step::new("zkv-d", scale.reads() / 2, threads))
            .step(Step::new("zkv-e", scale.scans() / 5, threads));
        race.data.value_bytes = value_bytes;
        race
    };
    VALUE_BYTES.map(race).into()
}
