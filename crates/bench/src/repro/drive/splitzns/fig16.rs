//! Figure 16: YCSB-A over `LDP` for values of other lengths, other numbers of chips, other skews and other rules of compaction.

use super::super::{DriveExperiment, DriveResults, Point};
use super::driven::{self, Contender, LDP, SPLITZNS, Setting, YCSB_A};
use super::live::{COLUMNS, OPS};
use super::steps::{number, ratio, too_few_in_subzones};
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
    judge: |results| judge(results).into_iter().chain(too_few_in_subzones(results)).collect(),
};

/// A setting, with the paper's gain over `LDP`, or where its text has the least and the most only, these.
type Case = (Setting, &'static str);

/// Values: the paper varies 128 to 4,096 B, and longer ones gain more.
fn values(usual: &Setting, scale: Scale) -> Vec<Case> {
    let lengths = scale.pick(&[][..], &[128, 4096], &[128, 256, 512, 2048, 4096]);
    lengths.iter().map(|value| (usual.with_pairs(16, *value), "1.13 to 2.03")).collect()
}

/// Chips, with zones of the same size.
fn chips(usual: &Setting, scale: Scale) -> Vec<Case> {
    let chips = [(8, "1.79"), (64, "1.20"), (32, "1.50")];
    let chips = scale.pick(&chips[..1], &chips[..], &chips);
    chips.iter().map(|(chips, paper)| (usual.with_chips(*chips), *paper)).collect()
}

/// Skews; loading follows them. The paper's 1.55 to 1.9 of the uniform one is over all of its competitors.
fn skews(usual: &Setting, scale: Scale) -> Vec<Case> {
    let skews = scale.pick(&[][..], &["0", "0.9", "0.99"], &["0", "0.8", "0.9", "0.95", "0.99"]);
    let paper = |skew: &str| if skew == "0" { "1.55 to 1.9" } else { "up to 1.66" };
    skews.iter().map(|skew| (usual.with_skew(skew), paper(skew))).collect()
}

/// Rules of compaction of `RocksDB`; the usual one is the paper's MOR.
fn rules(usual: &Setting, scale: Scale) -> Vec<Case> {
    let of = |label, options, paper| (usual.with_options(label, options), paper);
    let rules = vec![
        of("CS", "compaction_pri=kByCompensatedSize", "1.50"),
        of("OLS", "compaction_pri=kOldestLargestSeqFirst", "1.37"),
        of("OSS", "compaction_pri=kOldestSmallestSeqFirst", "1.91"),
    ];
    scale.pick(Vec::new(), rules.clone(), rules)
}

/// All, the usual one first: it is the middle of three of the four series.
fn cases(scale: Scale) -> Vec<Case> {
    let usual = driven::half(scale);
    let all = [values(&usual, scale), chips(&usual, scale), skews(&usual, scale), rules(&usual, scale)];
    let first = scale.pick(None, Some(()), Some(()));
    first
        .map(|()| (usual.clone(), "1.75 (16 chips), 1.72 (MOR)"))
        .into_iter()
        .chain(all.into_iter().flatten())
        .collect()
}

pub(super) const CONTENDERS: [Contender; 2] = [LDP, SPLITZNS];

/// Those of all cases.
pub(super) fn settings(scale: Scale) -> Vec<Setting> {
    cases(scale).into_iter().map(|(setting, _)| setting).collect()
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    let contenders = scale.pick(&CONTENDERS[1..], &CONTENDERS, &CONTENDERS);
    Ok(driven::points(&settings(scale), contenders, &[YCSB_A]))
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let labels: Vec<String> = cases(results.scale).iter().map(|(setting, _)| setting.named("YCSB-A")).collect();
    let of = |system: &str, x: &String| number(results, system, x, OPS);
    let gain = |x: &String| Some(of(SPLITZNS.name, x)? / of(LDP.name, x)?);
    let values = labels.iter().map(gain).collect();
    let chart = Chart {
        title: "YCSB-A, splitzns over ldp".to_owned(),
        x_label: String::new(),
        y_label: "operations a second (ratio)".to_owned(),
        kind: Kind::Bars,
        log: false,
        series: vec![Series { name: SPLITZNS.name.to_owned(), values }],
        labels,
    };
    vec![("gain", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let gain = |setting: &Setting| ratio(results, &setting.named("YCSB-A"), OPS, (SPLITZNS.name, LDP.name));
    let of = |(setting, paper): (Setting, &str)| {
        let x = setting.named("YCSB-A");
        Verdict::at_least(format!("{x}, splitzns over ldp"), gain(&setting), 1.0, "x").paper(paper)
    };
    let mut verdicts: Vec<Verdict> = cases(results.scale).into_iter().map(of).collect();
    let usual = driven::half(results.scale);
    let longer = gain(&usual.with_pairs(16, 4096)) / gain(&usual.with_pairs(16, 128));
    let what = "YCSB-A, the gain with values of 4096 B over that with 128 B";
    verdicts.push(Verdict::at_least(what, longer, 1.0, "x").paper("more"));
    let fewer = gain(&usual.with_chips(8)) / gain(&usual.with_chips(64));
    verdicts.push(Verdict::at_least("YCSB-A, the gain with 8 chips over that with 64", fewer, 1.0, "x").paper(1.49));
    verdicts
}
