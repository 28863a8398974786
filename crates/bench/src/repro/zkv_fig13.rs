//! What each technique adds, one switch at a time.
//!
//! The steps of the paper: a B+-tree in place; on zones through the flusher; with the merged filter in front; with adaptive
//! delta buffers for its pages; with cooperative batch insertion. Memory is in the paper's shares from the filter on; without one, what is
//! the filter's is the buffers'.

use super::contenders::{LOG_RING, SHARES, btree, zkv};
use super::fact::cell;
use super::{Axis, Cell, Experiment, Fact, Figure, Metric, Results, Said, Scale};
use crate::contest::Step;
use crate::race::{Contender, Race};
use crate::verdict::Verdict;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "zkv-fig13",
    title: "ablation: base, +ZFlusher, +MergedFilter, +ADB, +BatchMerge",
    source: "ZKV figure 13, Exp#4",
    races,
    metrics: &[Metric::Kops, Metric::Written, Metric::Read, Metric::Cpu, Metric::P99],
    figures: &[Figure {
        name: "",
        title: "inserts (YCSB-a) and reads (YCSB-d)",
        phases: &["zkv-a", "zkv-d"],
        x: None,
        axis: Axis::Phase,
        metric: Metric::Kops,
        log: true,
    }],
    facts: &[
        Fact::ratio("reads: +ZFlusher / base", 1.55, kops(FLUSHER, "zkv-d"), kops(BASE, "zkv-d")),
        // The paper has it improve writes, too (section 3, D3); a number is in the text for reads only.
        Fact::side("inserts: +ZFlusher / base", Said::More, kops(FLUSHER, "zkv-a"), kops(BASE, "zkv-a")),
        Fact::ratio("inserts: +MergedFilter / +ZFlusher, up to", 3.21, kops(FILTER, "zkv-a"), kops(FLUSHER, "zkv-a")),
        Fact::ratio("inserts: +ADB / +MergedFilter, up to", 3.72, kops(ADB, "zkv-a"), kops(FILTER, "zkv-a")),
        Fact::ratio("inserts: +BatchMerge / +ADB", 1.19, kops(BATCH, "zkv-a"), kops(ADB, "zkv-a")),
        Fact::ratio("reads: +BatchMerge / +ZFlusher", 0.927, kops(BATCH, "zkv-d"), kops(FLUSHER, "zkv-d")),
    ],
    absent: &[("F2FS-ZNS under base", "base is in place in the file; what a file system costs is not in it")],
    judge,
};

/// The paper's shares without a filter.
const SHARES_UNFILTERED: &str = "0:4:4";

const BASE: &str = "base";
const FLUSHER: &str = "+ZFlusher";
const FILTER: &str = "+MergedFilter";
const ADB: &str = "+ADB";
const BATCH: &str = "+BatchMerge";

const fn kops(series: &'static str, phase: &'static str) -> Cell {
    cell(series, "", phase, Metric::Kops)
}

fn ladder(memory_bytes: u64) -> Vec<Contender> {
    // All with the log of the last steps.
    let whole_pages = || btree(memory_bytes).with("log-ring", LOG_RING);
    let paged = || whole_pages().with("memory-shares", SHARES_UNFILTERED);
    let filtered = |contender: Contender| {
        let by_node = contender.with("memory-shares", SHARES).with("filter-by-node", "on");
        by_node.with("batch-insertion", "off")
    };
    vec![
        paged().called(BASE).with("store", "in-place").with("zflusher", "off"),
        paged().called(FLUSHER),
        filtered(whole_pages()).called(FILTER),
        filtered(zkv(memory_bytes)).called(ADB),
        filtered(zkv(memory_bytes)).called(BATCH).with("batch-insertion", "on"),
    ]
}

fn races(scale: Scale) -> Vec<Race> {
    let (records, threads) = (scale.pick(30_000, 2_000_000, 100_000_000), scale.threads());
    let mut race = Race::new("", records, threads)
        .step(Step::new("zkv-a", records / 2, threads))
        .step(Step::new("zkv-d", scale.reads(), threads))
        .in_turns(4);
    race.id = "ladder".into();
    race.contenders = ladder(Scale::memory_for(records));
    vec![race]
}

/// Each step must gain what it is for, and what all buffers together cost reads must be no more than in the paper.
fn judge(results: &Results) -> Vec<Verdict> {
    let verdict = |fact: &Fact| {
        let (bound, paper) = match fact.paper {
            Said::Number(loss) if loss < 1.0 => (loss, Some(loss)),
            Said::Number(gain) => (1.0, Some(gain)),
            _ => (1.0, None),
        };
        let verdict = Verdict::at_least(fact.what, fact.ours(results)?, bound, "x");
        Some(match paper {
            Some(paper) => verdict.paper(paper),
            None => verdict,
        })
    };
    EXPERIMENT.facts.iter().filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::race::Outcome;
    use crate::repro::Point;
    use crate::repro::metric::tests::row;

    /// What two neighbours on the ladder differ in.
    fn differences(low: &Contender, high: &Contender) -> BTreeSet<String> {
        let [of_low, of_high] = [low, high].map(|contender| contender.store.switches.iter().collect::<BTreeSet<_>>());
        let mut names: BTreeSet<String> =
            of_low.symmetric_difference(&of_high).map(|(name, _)| (*name).clone()).collect();
        if low.store.design != high.store.design {
            names.insert("design".into());
        }
        names
    }

    #[test]
    fn each_step_adds_one_technique() {
        let ladder = ladder(4_000_000);
        let steps: Vec<_> = ladder.windows(2).map(|pair| differences(&pair[0], &pair[1])).collect();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        // The filter comes with its share of memory and how it is run.
        let filter = names(&["memory-shares", "filter-by-node", "batch-insertion"]);
        let buffers = names(&["design", "classes", "eviction"]);
        assert_eq!(steps, [names(&["store", "zflusher"]), filter, buffers, names(&["batch-insertion"])]);
    }
    /// A step that only the last one of the ladder makes up for is not to be passed over.
    #[test]
    fn every_step_is_judged_in_the_papers_direction() {
        let mut results = Results::new(EXPERIMENT.name, Scale::Laptop, 1);
        let ladder =
            [(BASE, 10.3, 20.4), (FLUSHER, 7.8, 21.6), (FILTER, 19.6, 20.4), (ADB, 33.4, 21.8), (BATCH, 34.3, 20.0)];
        let rows = ladder.into_iter().flat_map(|(series, inserts, reads)| {
            [("zkv-a", inserts), ("zkv-d", reads)].map(|(phase, kops)| {
                let mut row = row("", series, phase);
                row.report.operations_per_second = kops * 1e3;
                row
            })
        });
        let outcome = Outcome { rows: rows.collect(), ..Outcome::default() };
        results.points.push(Point { race: Race::new("", 1, 1), outcome, from: None });
        let verdicts = judge(&results);
        let reached: Vec<_> = verdicts.iter().map(|verdict| verdict.reached == Some(true)).collect();
        assert_eq!(reached, [true, false, true, true, true, false], "{verdicts:?}");
        assert_eq!(
            (verdicts[1].target.as_str(), verdicts[5].bound),
            ("inserts: +ZFlusher / base", 0.927),
            "reads may lose as much as in the paper"
        );
    }
}
