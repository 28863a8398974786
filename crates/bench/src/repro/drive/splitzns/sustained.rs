//! Overwriting for four times as long as in figure 13: a burst of the paper's length is partly over before what it makes cleaning copy has
//! to be copied, because a drive with a fifth free bears it. What is left to compact in the end counts, as how much that is is chance.

use super::super::{DriveExperiment, DriveResults, Point};
use super::live::{
    self, COMPACTION, COPIED, CPU, DEEPER, LIVE_IN, LIVE_OF, Live, MACHINE, OPS, OVERWRITE, P50, P99, P999, READRANDOM,
    SETTLED, SETTLING, STALLED, STRICT, VOID, WAITING, WRITTEN, WRITTEN_IN,
};
use super::steps::{counts, number, ratio};
use crate::Result;
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

const LDP: &str = "ldp";
const SPLITZNS: &str = "+RS";
/// Ours insists on subzones for deep tables, the paper's does not. The last two are no systems of the paper's: level 3 is what its policy
/// copies most, because wide zones are nearly full of what lives, and of what `RocksDB` has not deleted yet.
const SYSTEMS: [&str; 5] = [LDP, STRICT.name, SPLITZNS, DEEPER.name, WAITING.name];
/// So many times as many overwrites as in figure 13.
pub(super) const TIMES: u64 = 4;
/// With so much loaded the tree is of the size that the paper says of its own, 42 GiB (figure 11): 1.13 bytes for each that is loaded.
pub(super) const LOADED_BYTES_OF_PAPER: u64 = 37 << 30;
const OF_PAPER: &str = ", the paper's tree";

pub(super) const COLUMNS: &[&str] = &[
    OPS, SETTLED, P50, P99, P999, STALLED, COMPACTION, COPIED, WRITTEN, LIVE_IN, WRITTEN_IN, LIVE_OF, CPU, MACHINE,
    VOID,
];

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-sustained",
    title: "overwriting four times as long as in figure 13; stock db_bench, live",
    source: "beyond SplitZNS figure 13",
    how: "dilated time, in the drive's",
    points,
    columns: COLUMNS,
    charts,
    judge,
};

/// That of figure 13, for longer, and with a tree of the paper's size.
pub(super) fn settings(scale: Scale) -> [Live; 2] {
    let long = Live::of(scale).longer(TIMES);
    [long, long.loaded(LOADED_BYTES_OF_PAPER, OF_PAPER)]
}

fn points(scale: Scale) -> Result<Vec<Point>> {
    Ok(live::points(&settings(scale), &SYSTEMS, &[SETTLING]))
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let settings = settings(results.scale);
    let of = |work, column| settings.iter().map(move |live| (live.named(&work), column));
    let bars: Vec<(String, &str)> =
        of(OVERWRITE, OPS).chain(of(OVERWRITE, SETTLED)).chain(of(READRANDOM, OPS)).collect();
    let values = |system: &str| bars.iter().map(|(x, column)| number(results, system, x, column)).collect();
    let chart = Chart {
        title: "overwriting for long, with what it leaves to compact, and reading".to_owned(),
        x_label: String::new(),
        y_label: "operations a second".to_owned(),
        kind: Kind::Bars,
        log: true,
        series: SYSTEMS.map(|system| Series { name: system.to_owned(), values: values(system) }).into(),
        labels: bars
            .iter()
            .map(|(x, column)| if *column == SETTLED { format!("{x}, settled") } else { x.clone() })
            .collect(),
    };
    vec![("throughput", chart)]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let settings = settings(results.scale);
    let judged = settings.iter().flat_map(|live| SYSTEMS[1..].iter().map(move |ours| (live, *ours)));
    for (live, ours) in judged {
        let (overwrite, readrandom) = (live.named(&OVERWRITE), live.named(&READRANDOM));
        let of = |x: &str, column| ratio(results, x, column, (ours, LDP));
        let name = |what: &str| format!("{what}, {ours} over {LDP}");
        verdicts.push(Verdict::at_least(name(&overwrite), of(&overwrite, OPS), 2.0, "x").paper(2.77));
        let settled = name(&format!("{overwrite}, settled"));
        verdicts.push(Verdict::at_least(settled, of(&overwrite, SETTLED), 2.0, "x").paper(2.77));
        let p99 = |x: &str| name(&format!("{x}, P99"));
        verdicts.push(Verdict::at_most(p99(&overwrite), of(&overwrite, P99), 1.0, "x").paper(0.43));
        verdicts.push(Verdict::at_least(name(&readrandom), of(&readrandom, OPS), 1.0, "x").paper(1.16));
        verdicts.push(Verdict::at_most(p99(&readrandom), of(&readrandom, P99), 1.0, "x").paper(0.57));
        verdicts.extend(counts(results, &overwrite, (ours, LDP)));
    }
    verdicts
}
