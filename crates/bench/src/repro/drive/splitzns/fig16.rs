//! Figure 16: YCSB-A over `LDP` for values of other lengths, other numbers of chips, other skews and other rules of compaction.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, LDP, SPLITZNS, Setting, YCSB_A};
use super::live::{COLUMNS, OPS};
use super::steps::{number, ratio};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig16",
    title: "YCSB-A for other values, chips, skews and rules of compaction, live",
    source: "SplitZNS figure 16",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

/// A setting, with the paper's gain over `LDP` where its text has one.
type Case = (Setting, Option<f64>);

/// Values: the paper varies 128 to 4,096 B and says 1.13 to 2.03 x.
fn values(usual: &Setting, scale: Scale) -> Vec<Case> {
    let lengths = scale.pick(&[][..], &[128, 4096], &[128, 256, 512, 2048, 4096]);
    lengths.iter().map(|value| (usual.with_pairs(16, *value), None)).collect()
}

/// Chips, with zones of the same size.
fn chips(usual: &Setting, scale: Scale) -> Vec<Case> {
    let chips = [(8, 1.79), (64, 1.20), (32, 1.50)];
    let chips = scale.pick(&chips[..1], &chips[..], &chips);
    chips.iter().map(|(chips, paper)| (usual.with_chips(*chips), Some(*paper))).collect()
}

/// Skews; loading follows them, and there are no more than the paper's text gives: 1.55 to 1.9 x when uniform, up to 1.66 x when skewed.
fn skews(usual: &Setting, scale: Scale) -> Vec<Case> {
    let skews = scale.pick(&[][..], &["0", "0.9", "0.99"], &["0", "0.8", "0.9", "0.95", "0.99"]);
    skews.iter().map(|skew| (usual.with_skew(skew), None)).collect()
}

/// Rules of compaction of `RocksDB`; the usual one is the paper's MOR.
fn rules(usual: &Setting, scale: Scale) -> Vec<Case> {
    let of = |label, options, paper| (usual.with_options(label, options), Some(paper));
    let rules = vec![
        of("CS", "compaction_pri=kByCompensatedSize", 1.50),
        of("OLS", "compaction_pri=kOldestLargestSeqFirst", 1.37),
        of("OSS", "compaction_pri=kOldestSmallestSeqFirst", 1.91),
    ];
    scale.pick(Vec::new(), rules.clone(), rules)
}

/// All, the usual one first: it is the middle of three of the four series.
fn cases(scale: Scale) -> Vec<Case> {
    let usual = driven::half(scale);
    let all = [values(&usual, scale), chips(&usual, scale), skews(&usual, scale), rules(&usual, scale)];
    let first = scale.pick(None, Some(()), Some(()));
    first.map(|()| (usual.clone(), Some(1.75))).into_iter().chain(all.into_iter().flatten()).collect()
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    let settings: Vec<Setting> = cases(scale).into_iter().map(|(setting, _)| setting).collect();
    let both = [LDP, SPLITZNS];
    Ok(driven::points(&settings, scale.pick(&both[1..], &both, &both), &[YCSB_A]))
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels: Vec<String> = cases(results.scale).iter().map(|(setting, _)| setting.named("YCSB-A")).collect();
    let of = |system: &str, x: &String| number(results, system, x, OPS);
    let gain = |x: &String| Some(of(SPLITZNS.name, x)? / of(LDP.name, x)?);
    let values = labels.iter().map(gain).collect();
    let chart = Chart {
        title: "YCSB-A, splitzns over ldp".to_owned(),
        y_label: "times".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: vec![Series { name: SPLITZNS.name.to_owned(), values }],
        labels,
    };
    vec![("gain", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |(setting, paper): (Setting, Option<f64>)| {
        let x = setting.named("YCSB-A");
        let paper = paper.map_or_else(String::new, |paper| format!(" (paper: {paper})"));
        let measured = ratio(results, &x, OPS, (SPLITZNS.name, LDP.name));
        Verdict::at_least(format!("{x}, splitzns over ldp{paper}"), measured, 1.0, "x")
    };
    cases(results.scale).into_iter().map(of).collect()
}
