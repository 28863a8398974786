//! What is printed of an experiment: means over its seeds, how far these are apart, where each point is from.

use super::seeds::SEEDS;
use super::{DriveExperiment, DriveResults, DriveRow, caza, splitzns, zns_rocksdb};
use crate::provenance;
use crate::report::Table;
use crate::verdict::{SeedSpread, Verdict, short};

/// Of what is shown, and of all runs.
pub(super) fn of(experiment: &DriveExperiment, shown: &DriveResults, runs: &DriveResults) -> String {
    let mut text = format!("{}: {} ({})\n", experiment.name, experiment.title, experiment.source);
    let seeds: Vec<String> = runs.seeds.iter().map(u64::to_string).collect();
    let (seeds, plural) = (seeds.join(", "), if runs.seeds.len() == 1 { "" } else { "s" });
    let scale = shown.scale.name();
    text.push_str(&format!("scale {scale}, seed{plural} {seeds}, zonda {}, {}\n", shown.version, experiment.how));
    if runs.seeds.len() > 1 {
        text.push_str("means over the seeds; void runs are left out where others are not\n");
    }
    text.push('\n');
    text.push_str(&means(experiment, shown));
    for row in &runs.rows {
        if let Some(why) = row.failure() {
            text.push_str(&format!("FAILED: {} of {}, seed {}: {why}\n", row.series, row.point, row.seed));
        }
    }
    text.push_str(&splitzns::tables(shown));
    if runs.seeds.len() > 1 {
        text.push_str("\nleast to most over the seeds:\n");
        text.push_str(&spreads(experiment, shown, runs));
    }
    text.push_str(&format!("\n{}", from(runs)));
    text
}

fn means(experiment: &DriveExperiment, shown: &DriveResults) -> String {
    let with_fact = |column: &&str| shown.rows.iter().any(|row| row.facts.contains_key(*column));
    let mut headings = vec!["what".to_owned(), "at".to_owned()];
    for column in columns(experiment) {
        headings.push(column.to_owned());
        if with_fact(&column) {
            headings.push("theirs".to_owned());
        }
    }
    let names: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&names);
    for row in &shown.rows {
        let mut cells = vec![row.series.clone(), row.x.clone()];
        for column in columns(experiment) {
            cells.push(number(row.numbers.get(column)));
            if with_fact(&column) {
                cells.push(number(row.facts.get(column)));
            }
        }
        table.row(cells);
    }
    table.render()
}

/// Those of the experiment, and of a live one how many seeds the row is the mean of.
fn columns(experiment: &DriveExperiment) -> impl Iterator<Item = &'static str> {
    let seeds = experiment.is_live().then_some(SEEDS);
    seeds.into_iter().chain(experiment.columns.iter().copied())
}

/// The least and the most of what [`means`] shows.
fn spreads(experiment: &DriveExperiment, shown: &DriveResults, runs: &DriveResults) -> String {
    let mut table = Table::new(&[&["what", "at"], experiment.columns].concat());
    for row in &shown.rows {
        let of = |column: &&str| {
            let numbers = runs.runs_of(row).into_iter().filter_map(|run: &DriveRow| run.numbers.get(*column).copied());
            let SeedSpread { count, least, most } = SeedSpread::of(numbers);
            if count == 0 { "-".to_owned() } else { format!("{}..{}", number(Some(&least)), number(Some(&most))) }
        };
        table.row([row.series.clone(), row.x.clone()].into_iter().chain(experiment.columns.iter().map(of)));
    }
    table.render()
}

/// Each point and seed once, and where it is from.
fn from(runs: &DriveResults) -> String {
    let mut points: Vec<_> = runs.rows.iter().map(|row| (row.point.as_str(), row.seed, row.from.as_ref())).collect();
    points.dedup_by_key(|(point, seed, _)| (*point, *seed));
    let name = |(point, seed, from)| {
        let name = if runs.seeds.len() > 1 { format!("{point}, seed {seed}") } else { String::from(point) };
        (name, from)
    };
    let named: Vec<(String, Option<_>)> = points.into_iter().map(name).collect();
    provenance::table(named.iter().map(|(name, from)| (name.as_str(), *from)))
}

/// Of what a paper has a number, in a table; empty if there is nothing.
pub(super) fn beside_the_paper(verdicts: &[Verdict]) -> String {
    let mut table = Table::new(&["beside the paper", "paper", "ours", "least", "most", "seeds", "to reach", "outcome"]);
    let of_paper = verdicts.iter().filter_map(|verdict| Some((verdict, verdict.paper.clone()?)));
    let mut is_empty = true;
    for (verdict, paper) in of_paper {
        is_empty = false;
        let [least, most] = verdict.seeds.map_or([None; 2], |seeds| [Some(seeds.least), Some(seeds.most)]);
        let text = |value: Option<f64>| value.filter(|value| value.is_finite()).map_or("-".to_owned(), short);
        let seeds = verdict.seeds.map_or("-".to_owned(), |seeds| seeds.count.to_string());
        let (target, ours) = (verdict.target.clone(), text(Some(verdict.measured)));
        let outcome = verdict.outcome().to_owned();
        table.row([target, paper, ours, text(least), text(most), seeds, verdict.to_reach(), outcome]);
    }
    if is_empty { String::new() } else { format!("\n{}", table.render()) }
}

/// What stands beside the y axis for a column: what its heading shortens, with the unit.
pub(super) fn y_axis(column: &str) -> String {
    let known = [
        ("per s", "requests a second"),
        ("mean us", "mean latency, us"),
        ("read us", "mean latency of reads, us"),
        (zns_rocksdb::RATE, "thousands of operations a second"),
        (zns_rocksdb::AMPLIFICATION, "bytes on flash over bytes given (ratio)"),
        (caza::AMPLIFICATION, "written in all over by the user (ratio)"),
        (caza::WITHOUT_COPY, "resets without a copy, %"),
        (caza::ZONES, "zones"),
    ];
    known.iter().find(|(heading, _)| *heading == column).map_or(column, |(_, words)| words).to_owned()
}

fn number(value: Option<&f64>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") },
    )
}
