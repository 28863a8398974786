//! Figure 4: how long tables of each level live, uniform and skewed. Lives are counted in the bytes that users write meanwhile; the
//! paper has seconds, so what is compared is how far apart long and short lives of a level are. Tables that outlive the run count as long
//! as they were seen (`lsm/lives.rs`).

use super::super::made::Maker;
use super::super::{DriveExperiment, DriveResults, DriveRow, Point};
use super::{Setting, gib, row};
use crate::Result;
use crate::lsm::{LOADED, Lives, lives, trace};
use crate::repro::Scale;
use crate::repro::chart::{Chart, Kind, Series};
use crate::verdict::Verdict;

/// Zipf's constants, and the paper's shortest and longest lives of most tables of level 4, in seconds.
const SKEWS: [(&str, f64, f64, f64); 2] = [("uniform", 0.0, 10.0, 800.0), ("zipf 0.99", 0.99, 10.0, 4000.0)];
/// Shares of the tables of a level, and their columns.
const QUANTILES: [(f64, &str); 5] = [(0.05, "5 %"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (0.95, "95 %")];
const SPREAD: &str = "95 % / 5 %";

pub(in super::super) const EXPERIMENT: DriveExperiment = DriveExperiment {
    name: "splitzns-fig4",
    title: "lives of tables by level, in GiB of user writes",
    source: "SplitZNS figure 4",
    how: "a replay: bytes, no time",
    points,
    columns: &["5 %", "25 %", "50 %", "75 %", "95 %", SPREAD, "died", "alive"],
    charts,
    judge,
};

fn points(scale: Scale) -> Result<Vec<Point>> {
    let point = |(name, skew, least, most): (&'static str, f64, f64, f64)| {
        let run = move |seed| Ok(levels(Setting::of(scale), (name, skew, most / least), seed));
        Point::new(name, Maker::Replay, run)
    };
    Ok(SKEWS.into_iter().map(point).collect())
}

/// The tree is overwritten once, so that many tables of its last level die; it is that of section 5, which has enough of them.
fn levels(setting: Setting, (name, skew, paper): (&str, f64, f64), seed: u64) -> Vec<DriveRow> {
    let trace = trace(setting.workload(setting.keys, skew, seed));
    let lives = lives(&trace, LOADED);
    let is_there = |(_, lives): &(usize, &Lives)| lives.died() > 0;
    let row_of = |(level, lives): (usize, &Lives)| {
        let of = |share| lives.quantile(share).map(gib);
        let mut row = row(name, &format!("L{level}")).fact(SPREAD, (level == 4).then_some(paper));
        for (share, column) in QUANTILES {
            row = row.number(column, of(share));
        }
        // Tables of upper levels may die before another byte is written.
        let spread = of(0.95).zip(of(0.05).filter(|least| *least > 0.0)).map(|(most, least)| most / least);
        row.number(SPREAD, spread).number("died", lives.died() as f64).number("alive", lives.alive() as f64)
    };
    lives.iter().enumerate().filter(is_there).map(row_of).collect()
}

fn charts(results: &DriveResults) -> Vec<(&'static str, Chart)> {
    let chart = |name: &'static str| {
        let rows = results.rows.iter().filter(|row| row.series == name);
        let values = |row: &DriveRow| QUANTILES.iter().map(|(_, column)| row.numbers.get(*column).copied()).collect();
        Chart {
            title: format!("lives of tables, {name}"),
            x_label: "tables of the level".to_owned(),
            y_label: "GiB of user writes".to_owned(),
            kind: Kind::Lines,
            log: true,
            labels: QUANTILES.iter().map(|(_, column)| (*column).to_owned()).collect(),
            series: rows.map(|row| Series { name: row.x.clone(), values: values(row) }).collect(),
        }
    };
    vec![("uniform", chart(SKEWS[0].0)), ("skewed", chart(SKEWS[1].0))]
}

fn judge(results: &DriveResults) -> Vec<Verdict> {
    let of = |name, level, column| results.number(name, level, column).unwrap_or(f64::NAN);
    let verdict = |(name, ..): (&'static str, f64, f64, f64)| {
        [
            Verdict::at_least(
                format!("{name}: longest over shortest lives of level 4"),
                of(name, "L4", SPREAD),
                10.0,
                "x",
            ),
            Verdict::at_least(
                format!("{name}: long lives, level 4 over level 1"),
                of(name, "L4", "95 %") / of(name, "L1", "95 %"),
                8.0,
                "x",
            ),
        ]
    };
    SKEWS.into_iter().flat_map(verdict).collect()
}
