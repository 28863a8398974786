//! Bytes per operation: a load from empty, reads, updates, and as many fresh inserts again.
//!
//! With the log on, as stores are used, and its bytes apart, because the paper leaves them out; checkpoints and journal are
//! in.

use super::contenders::{BDTREE, BTREE, ZKV, ZKV_WHOLE, ZONDA, all, zkv_whole};
use super::fact::cell;
use super::{Axis, Cell, Experiment, F2FS, Fact, Figure, Metric, Results, SPLINTERDB, Scale};
use crate::contest::Step;
use crate::race::{Contender, Race};
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-table3",
    title: "bytes written and read per operation",
    source: "ZKV table 3, Exp#3",
    races,
    metrics: &[
        Metric::Kops,
        Metric::Written,
        Metric::Checkpoint,
        Metric::Log,
        Metric::Read,
        Metric::LeafReads,
        Metric::Cpu,
        Metric::Rss,
    ],
    figures: &[Figure {
        name: "",
        title: "bytes written per operation, log apart",
        phases: &[LOAD, UPDATES, INSERTS],
        x: None,
        axis: Axis::Phase,
        metric: Metric::Written,
        log: true,
    }],
    facts: &[
        Fact::value("B+-Tree, load, written", 6503.99, "B/op", written(BTREE)),
        Fact::absent("SplinterDB, load, written", 132.19, "B/op"),
        Fact::value("BD-Tree, load, written", 664.57, "B/op", written(BDTREE)),
        Fact::value("ZKV, load, written", 222.27, "B/op", written(ZKV)),
        Fact::value("ZKV with 15 pairs in a buffer, load, written", 222.27, "B/op", written(ZKV_WHOLE)),
        Fact::value("zonda beside ZKV's", 222.27, "B/op", written(ZONDA)),
        Fact::value("B+-Tree, reads, read", 3686.55, "B/op", read(BTREE)),
        Fact::absent("SplinterDB, reads, read", 5179.91, "B/op"),
        Fact::value("BD-Tree, reads, read", 3729.61, "B/op", read(BDTREE)),
        Fact::value("ZKV, reads, read", 3724.86, "B/op", read(ZKV)),
        Fact::value("zonda beside ZKV's", 3724.86, "B/op", read(ZONDA)),
        Fact::ratio("B+-Tree / ZKV, written", 29.26, written(BTREE), written(ZKV)),
        Fact::ratio("BD-Tree / ZKV, written", 2.99, written(BDTREE), written(ZKV)),
    ],
    absent: &[SPLINTERDB, F2FS],
    judge,
};

const LOAD: &str = "load";
const READS: &str = "reads";
const UPDATES: &str = "updates";
const INSERTS: &str = "inserts";

/// Bytes of a pair.
const PAIR_BYTES: u64 = 16;

const fn written(series: &'static str) -> Cell {
    cell(series, "", LOAD, Metric::Written)
}

const fn read(series: &'static str) -> Cell {
    cell(series, "", READS, Metric::Read)
}

fn races(scale: Scale) -> Vec<Race> {
    let records = scale.pick(30_000, 20_000_000, 200_000_000);
    let threads = scale.threads();
    let mut race = Race::new("", records, threads)
        .step(Step::new("get", scale.reads(), threads).named(READS))
        .step(Step::new("update", records, threads).named(UPDATES))
        .step(Step::new("zkv-a", records, threads).named(INSERTS));
    race.id = "pairs".into();
    let memory_bytes = Scale::memory_for(records);
    race.contenders = all(memory_bytes).into_iter().chain([zkv_whole(memory_bytes)]).map(Contender::logged).collect();
    vec![race]
}

fn judge(results: &Results) -> Vec<Verdict> {
    let targets = [
        ("written per insert of the load", ZONDA, LOAD, 75.0),
        ("written per update", ZONDA, UPDATES, 130.0),
        ("written per fresh insert", ZONDA, INSERTS, 175.0),
        ("written per insert of the load, the paper's classes and shares", ZKV, LOAD, 222.0),
        ("the same with 15 pairs in a buffer", ZKV_WHOLE, LOAD, 222.0),
    ];
    let written = targets.into_iter().filter_map(|(what, series, phase, bound)| {
        let measured = results.value(&cell(series, "", phase, Metric::Written))?;
        Some(Verdict::at_most(what, measured, bound, "B"))
    });
    written.chain(judge_reads(results)).collect()
}

/// Reads after the load, without reopening: buffers must answer nine of ten of the pairs that the budget could hold.
fn judge_reads(results: &Results) -> Option<Verdict> {
    /// Of the pairs that memory could hold, so many must be found there.
    const FOUND_SHARE: f64 = 0.9;
    let row = results.row(ZONDA, "", READS)?;
    let held_share = row.memory_bytes as f64 / (row.report.records * PAIR_BYTES).max(1) as f64;
    let bound = 4_096.0 * (1.0 - FOUND_SHARE * held_share);
    let target = format!("read per get, h = {held_share:.3} of the pairs could be held");
    Some(Verdict::at_most(target, Metric::Read.of(row)?, bound, "B"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::Outcome;
    use crate::repro::Point;
    use crate::repro::metric::tests::row;

    #[test]
    fn targets_are_judged_by_what_was_run() {
        let mut results = Results::new("zkv-table3", Scale::Laptop, 1);
        assert!(judge(&results).is_empty());
        let rows = vec![row("", ZONDA, LOAD), row("", ZONDA, READS)];
        results.points.push(Point {
            race: Race::new("", 1, 1),
            outcome: Outcome { rows, ..Outcome::default() },
            from: None,
        });
        let verdicts = judge(&results);
        assert_eq!((verdicts.len(), verdicts[0].reached, verdicts[0].measured), (2, Some(false), 90.0));
        // 8 MiB for 4,000,000 pairs of 16 B: 13.1 %.
        assert!((verdicts[1].bound - 3_612.8).abs() < 1.0, "{}", verdicts[1].bound);
    }
}
