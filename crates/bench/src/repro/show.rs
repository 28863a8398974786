//! Results as text: a table of ours, the paper's numbers beside ours, who is missing.

use super::fact::SIMILAR;
use super::{Experiment, Fact, Metric, Results, Said};
use crate::provenance;
use crate::race::Row;
use crate::report::Table;
use crate::subject::MemoryBy;

/// Everything that a person reads of one experiment.
#[must_use]
pub(super) fn text(experiment: &Experiment, results: &Results) -> String {
    let mut text = format!("{}: {} ({})\n", experiment.name, experiment.title, experiment.source);
    let (scale, seed) = (results.scale.name(), results.seed);
    text.push_str(&format!("scale {scale}, seed {seed}, zonda {}\n", results.version));
    let points = results.points.iter().map(|point| (point.race.id.as_str(), point.from.as_ref()));
    text.push_str(&format!("{}\n", provenance::table(points)));
    text.push_str(&table(experiment, results));
    text.push_str(&memory(results));
    for (whose, is_model) in [("the paper", false), ("a model", true)] {
        let facts: Vec<_> = experiment.facts.iter().filter(|fact| fact.paper.is_model() == is_model).collect();
        if !facts.is_empty() {
            text.push_str(&format!("\n{whose} beside ours\n{}", beside(whose, &facts, results)));
        }
    }
    for (who, why) in experiment.absent {
        text.push_str(&format!("not run here: {who}: {why}\n"));
    }
    for trouble in results.troubles() {
        text.push_str(&format!("{trouble}\n"));
    }
    text
}

fn table(experiment: &Experiment, results: &Results) -> String {
    let headings: Vec<_> = experiment.metrics.iter().map(|metric| metric.heading()).collect();
    let mut table = Table::new(&[&["at", "step", "design", "pairs"], headings.as_slice()].concat());
    for row in results.rows() {
        let name = [row.x.clone(), row.report.phase.clone(), series(row), crate::show_count(row.report.records)];
        let numbers = experiment.metrics.iter().map(|metric| number(*metric, row));
        table.row(name.into_iter().chain(numbers));
    }
    table.render()
}

/// With the kind of operations that it is of, where the step has others too.
fn number(metric: Metric, row: &Row) -> String {
    let number = shown(metric.of(row), metric.digits());
    metric.of_kind(row).map_or_else(|| number.clone(), |kind| format!("{number} ({kind})"))
}

/// A contender that ran at a smaller scale says so.
fn series(row: &Row) -> String {
    if row.scale_down == 1 { row.series.clone() } else { format!("{} (1/{})", row.series, row.scale_down) }
}

/// Where memory was when each point ended, in percent of the budget; empty where nobody says.
fn memory(results: &Results) -> String {
    let mut table = Table::new(&[&["memory, % of budget", "after", "design"], MemoryBy::PARTS.as_slice()].concat());
    let mut is_empty = true;
    for point in &results.points {
        let last = point.race.steps.last().map(|step| step.phase.as_str());
        for row in point.outcome.rows.iter().filter(|row| Some(row.report.phase.as_str()) == last) {
            let Some(memory) = row.report.memory_by else { continue };
            is_empty = false;
            let name = [row.x.clone(), row.report.phase.clone(), series(row)];
            table.row(name.into_iter().chain(memory.percents().map(|percent| format!("{percent:.1}"))));
        }
    }
    if is_empty { String::new() } else { format!("\n{}", table.render()) }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// `whose` numbers beside ours.
fn beside(whose: &str, facts: &[&Fact], results: &Results) -> String {
    let mut table = Table::new(&["what", whose, "ours", "unit", "direction"]);
    for fact in facts {
        let ours = fact.ours(results);
        table.row([
            fact.what.to_owned(),
            said(fact.paper),
            shown(ours, 2),
            fact.unit.to_owned(),
            direction(fact, ours).to_owned(),
        ]);
    }
    table.render()
}

fn said(paper: Said) -> String {
    match paper {
        Said::Number(number) | Said::Model(number) => shown(Some(number), 2),
        Said::Formula(formula) => formula.to_owned(),
        Said::More => "> 1".to_owned(),
        Said::Less => "< 1".to_owned(),
        Said::Same => format!("{:.2} to {SIMILAR}", 1.0 / SIMILAR),
    }
}

fn direction(fact: &Fact, ours: Option<f64>) -> &'static str {
    match ours.and_then(|ours| fact.agrees(ours)) {
        None => "",
        Some(true) => "agrees",
        Some(false) => "DIFFERS",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::{Moment, Provenance};
    use crate::race::{Outcome, Race};
    use crate::repro::metric::tests::row;
    use crate::repro::{Point, Scale, zkv_table3};

    #[test]
    fn ours_and_the_papers_stand_in_one_text() {
        let mut results = Results::new("zkv-table3", Scale::Laptop, 1);
        let mut small = row("20M", "B+-Tree", "load");
        small.scale_down = 10;
        small.report.memory_by = None;
        let unavailable = vec![("ZKV".to_owned(), "no such design".to_owned())];
        let outcome = Outcome { rows: vec![row("20M", "zonda", "load"), small], unavailable, ..Outcome::default() };
        results.points.push(Point {
            race: Race::new("20M", 1, 1),
            outcome,
            from: Some(Provenance::since(Moment::now())),
        });
        let text = text(&zkv_table3::EXPERIMENT, &results);
        for part in
            ["B+-Tree (1/10)", "222.27", "6503.99", "not run here: SplinterDB", "not run here: ZKV: no such design"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        let from = results.points[0].from.as_ref().unwrap();
        assert!(
            text.contains(&from.commit) && text.contains(&from.began.utc) && text.contains(&from.machine),
            "{text}"
        );
        let latencies = Experiment { metrics: &[Metric::P99, Metric::Gap], ..zkv_table3::EXPERIMENT };
        let cells = table(&latencies, &results);
        assert!(cells.contains("3.0 (insert) "), "which operations a latency is of: {cells}");
        let memory = text.split("memory, % of budget").nth(1).and_then(|rest| rest.split("\n\n").next());
        let memory = memory.expect("a table of memory");
        assert!(
            memory.contains("50.0") && memory.matches("load").count() == 1,
            "who does not say is left out: {memory}"
        );
    }
}
