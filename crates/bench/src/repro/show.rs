//! Results as text: a table of ours, the paper's numbers beside ours, who is missing.

use super::{Agreement, Beside, Experiment, Fact, Metric, Results};
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
    text.push_str(&formulas(experiment, results));
    for (whose, is_model) in [("the paper", false), ("a model", true)] {
        let is_of_it = |fact: &&Fact| fact.paper.is_model() == is_model && !fact.paper.is_formula();
        let facts: Vec<_> = experiment.facts.iter().filter(is_of_it).collect();
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

/// What the paper's formulas come to for the trees of this run, beside what was counted.
fn formulas(experiment: &Experiment, results: &Results) -> String {
    let mut table =
        Table::new(&["what", "formula", "every node", "leaf alone", "counted", "unit"]).with_text(&["formula"]);
    let facts = experiment.facts.iter().filter(|fact| fact.paper.is_formula());
    let mut is_empty = true;
    for Beside { what, paper, predicted, ours, unit, .. } in facts.map(|fact| Beside::of(fact, results)) {
        is_empty = false;
        let of = |number: Option<f64>| shown(number, 3);
        let (nodes, leaf) = (predicted.map(|it| it.nodes), predicted.and_then(|it| it.leaf));
        table.row([what, paper, of(nodes), of(leaf), of(ours), unit]);
    }
    if is_empty { String::new() } else { format!("\nthe paper's formulas beside what was counted\n{}", table.render()) }
}

/// `whose` numbers beside ours.
fn beside(whose: &str, facts: &[&Fact], results: &Results) -> String {
    let mut table = Table::new(&["what", whose, "ours", "unit", "direction"]);
    for Beside { what, paper, ours, unit, agreement, .. } in facts.iter().map(|fact| Beside::of(fact, results)) {
        let word = agreement.map_or("", Agreement::name).to_owned();
        table.row([what, paper, shown(ours, 2), unit, word]);
    }
    table.render()
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
        // Six times as much as the other one without the log.
        small.report.written_bytes_per_operation = 550.0;
        let mut zkv = row("20M", "ZKV", "load");
        zkv.report.memory_by = None;
        let unavailable = vec![("BD-Tree".to_owned(), "no such design".to_owned())];
        let outcome =
            Outcome { rows: vec![row("20M", "zonda", "load"), small, zkv], unavailable, ..Outcome::default() };
        results.points.push(Point {
            race: Race::new("20M", 1, 1),
            outcome,
            from: Some(Provenance::since(Moment::now())),
        });
        let text = text(&zkv_table3::EXPERIMENT, &results);
        for part in
            ["B+-Tree (1/10)", "222.27", "6503.99", "not run here: SplinterDB", "not run here: BD-Tree: no such design"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        let line = text.lines().find(|line| line.contains("B+-Tree / ZKV, written")).unwrap();
        assert!(line.contains("29.26") && line.contains("6.00") && line.trim_end().ends_with("side only"), "{line}");
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
