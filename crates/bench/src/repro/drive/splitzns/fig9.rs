//! Figure 9: throughput of the workloads of table 2, by `zonda-db-bench`, in which the competitors run.
//!
//! Stock `db_bench` has no Zipf's law; its overwriting and reading are in figures 13 to 15. The competitors of section 5.1.3 run the four
//! workloads of which the paper's text gives their figures. `FillRandom` fills an empty drive; what is uniform, and YCSB-L, runs on a drive
//! that was loaded so; all others of YCSB on one that was loaded by YCSB-L, too.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{
    self, BURST, COMPETITORS, Contender, FILL_RANDOM, GEAR, LDP, LLC, LLC_ROUND_ROBIN, MIN_OVERLAP, Run, SPLITZNS,
    Setting, YCSB_A, YCSB_B, YCSB_C, YCSB_D, YCSB_E, YCSB_F, YCSB_L,
};
use super::live::{COLUMNS, LIVE_OF, OPS};
use super::steps::{counts, number, ratio};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig9",
    title: "throughput under the workloads of table 2, live",
    source: "SplitZNS figure 9",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

/// What a uniform load is followed by; and what the paper has after YCSB-L, with its load. Competitors run [`FIRST`] of both.
const UNIFORM: [Run; 2] = [BURST, YCSB_L];
const SKEWED: [Run; 6] = [YCSB_A, YCSB_C, YCSB_B, YCSB_D, YCSB_F, YCSB_E];
/// So many of each that competitors run: those of which the paper's text has their figures.
const FIRST: [usize; 2] = [1, 2];

/// Half of the usual one, and the same after loading by Zipf's law.
pub(super) fn settings(scale: Scale) -> [Setting; 2] {
    let half = driven::half(scale);
    [half.clone(), half.with_skew("0.99")]
}

/// The same for figures 9 and 10; what matters most first, so that a run that is stopped has it. Drives stay loaded for all runs of a
/// contender.
pub(super) fn points(scale: Scale) -> Result<Vec<Point>> {
    let [uniform, skewed] = settings(scale);
    let both = [LDP, SPLITZNS];
    let of = |setting: &Setting, contenders: &[Contender], runs: &[Run]| {
        let of = |contender: &Contender| runs.iter().map(|run| (setting.clone(), *contender, *run)).collect::<Vec<_>>();
        contenders.iter().flat_map(of).collect::<Vec<_>>()
    };
    let tiny = || [of(&uniform, &[GEAR], &[BURST]), of(&uniform, &[SPLITZNS], &[FILL_RANDOM])].concat();
    let all = || {
        [
            of(&uniform, &both, &UNIFORM),
            of(&uniform, &[MIN_OVERLAP, GEAR, LLC, LLC_ROUND_ROBIN], &UNIFORM[..FIRST[0]]),
            of(&skewed, &both, &SKEWED),
            of(&skewed, &[GEAR, LLC, LLC_ROUND_ROBIN], &SKEWED[..FIRST[1]]),
            of(&uniform, &both, &[FILL_RANDOM]),
        ]
        .concat()
    };
    Ok(driven::points_of(scale.pick(tiny(), all(), all()).into_iter()))
}

/// The place of a workload on the x axis: those after YCSB-L say so.
pub(super) fn at(results: &DriveResults, work: &str) -> String {
    let [uniform, skewed] = settings(results.scale);
    let is_skewed = SKEWED.iter().flat_map(Run::names).any(|name| name == work);
    if is_skewed { skewed.named(work) } else { uniform.named(work) }
}

/// Bars of all over the workloads.
pub(super) fn by_work(results: &DriveResults, column: &str, y_label: &str) -> Chart {
    let works = [FILL_RANDOM].into_iter().chain(UNIFORM).chain(SKEWED);
    let works: Vec<String> =
        works.flat_map(|run| run.names().map(|work| at(results, work)).collect::<Vec<_>>()).collect();
    let values = |system: &str| works.iter().map(|work| number(results, system, work, column)).collect();
    let series = COMPETITORS.iter().map(|system| Series { name: system.name.to_owned(), values: values(system.name) });
    Chart {
        title: column.to_owned(),
        x_label: String::new(),
        y_label: y_label.to_owned(),
        kind: Kind::Bars,
        log: true,
        series: series.collect(),
        labels: works,
    }
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    vec![("throughput", by_work(results, OPS, "operations a second"))]
}

/// The paper's gains: of a workload, over LDP, Gear and LLC; `RocksDB`'s own round robin stands beside LLC.
const GAINS: [(&str, [f64; 3]); 4] = [
    (driven::OVERWRITE.name, [2.77, 3.55, 2.68]),
    ("YCSB-A", [1.79, 1.63, 1.23]),
    (driven::READRANDOM.name, [1.16, 2.05, 1.11]),
    ("YCSB-C", [1.29, 1.21, 1.07]),
];
/// The paper's sizes of trees after YCSB-L over that of LDP: 37.38, 36.41 and 41.97 GiB over 41.95.
const SIZES: [(Contender, f64); 3] = [(GEAR, 0.891), (LLC, 0.868), (SPLITZNS, 1.0)];

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let over = |work: &str, column: &str, one: Contender, other: Contender| {
        ratio(results, &at(results, work), column, (one.name, other.name))
    };
    let gain = over(driven::OVERWRITE.name, OPS, SPLITZNS, LDP);
    let mut verdicts = vec![Verdict::at_least("overwrite, splitzns over ldp, to reach", gain, 2.0, "x").paper(2.77)];
    verdicts.extend(counts(results, driven::OVERWRITE.name, (SPLITZNS.name, LDP.name)));
    verdicts.extend(driven::gate(results));
    for (work, [ldp, gear, llc]) in GAINS {
        for (other, paper) in [(LDP, ldp), (GEAR, gear), (LLC, llc), (LLC_ROUND_ROBIN, llc)] {
            let measured = over(work, OPS, SPLITZNS, other);
            if measured.is_finite() {
                let what = format!("{work}, {} over {}", SPLITZNS.name, other.name);
                verdicts.push(Verdict::at_least(what, measured, 1.0, "x").paper(paper));
            }
        }
    }
    for (contender, paper) in SIZES {
        let measured = over("YCSB-A", LIVE_OF, contender, LDP);
        if measured.is_finite() {
            let what = format!("YCSB-A, live bytes at its end, {} over {}", contender.name, LDP.name);
            verdicts.push(Verdict::at_most(what, measured, 1.05, "x").paper(paper));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ten_workloads_of_table_2_are_run() {
        let points = points(Scale::Laptop).unwrap();
        let of = |contender: &str| points.iter().filter(|point| point.id.contains(contender)).count();
        // Overwriting and reading behind it are one run.
        assert_eq!((of("ldp, native "), of("splitzns, native ")), (9, 9));
        assert_eq!((of("gear "), of("ldp, min-overlap ")), (3, 1));
        let results = DriveResults::new(EXPERIMENT.name, Scale::Laptop);
        let chart = by_work(&results, OPS, "");
        assert_eq!(chart.labels.len(), 10, "{:?}", chart.labels);
        let after_load = chart.labels.iter().filter(|label| label.ends_with(", skew 0.99")).count();
        assert_eq!(after_load, 6, "all of YCSB but its load");
        let images: Vec<bool> = points.iter().map(|point| point.id.contains("[skew")).collect();
        let changes = images.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 2, "no setting is loaded twice: {images:?}");
    }
}
