//! The tables and figures of the papers, each by one command: `zonda repro NAME`.
//!
//! An experiment is one file here. It says which races are run at which scale, what is drawn, which numbers the paper
//! gives, which of its systems are not run here, and which targets are judged. Everything else is common: races are run
//! ([`crate::race`]), kept as JSON point by point ([`Results`]), shown as a table and drawn as SVG ([`chart`]).

mod bftree;
mod bftree_fig10;
mod bftree_fig11;
mod bftree_fig12;
mod bftree_fig13;
mod bftree_fig14;
mod bftree_fig15;
mod bftree_fig6;
mod bftree_fig7;
mod bftree_fig8;
mod bftree_fig9;
pub mod chart;
pub mod cli;
mod contenders;
pub mod drive;
mod fact;
mod figure;
mod metric;
mod results;
mod run;
mod scale;
mod show;
mod zkv_fig11;
mod zkv_fig12;
mod zkv_fig13;
mod zkv_fig14;
mod zkv_fig15;
mod zkv_fig16;
mod zkv_fig17;
mod zkv_fig18;
mod zkv_fig19;
mod zkv_fig20;
mod zkv_fig21;
mod zkv_memory;
mod zkv_reclaim;
mod zkv_reclaim_values;
mod zkv_table1;
mod zkv_table3;
mod zkv_table4;

pub use fact::{Agreement, Beside, Cell, Fact, Formula, Ours, Predicted, Said, cell};
pub use figure::{Axis, Figure};
pub use metric::Metric;
pub use results::{Point, Results};
pub use run::Runner;
pub use scale::Scale;

use crate::race::Race;
use crate::verdict::Verdict;

/// One table or figure of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// Where in the paper.
    pub source: &'static str,
    /// The races at a scale.
    pub races: fn(Scale) -> Vec<Race>,
    /// Columns of the table.
    pub metrics: &'static [Metric],
    /// What is drawn.
    pub figures: &'static [Figure],
    /// The paper's numbers.
    pub facts: &'static [Fact],
    /// Systems of the paper that are not run here, and why.
    pub absent: &'static [(&'static str, &'static str)],
    /// Targets; judged at the scales whose figures mean something.
    pub judge: fn(&Results) -> Vec<Verdict>,
}

/// Every experiment, in the order of the papers.
pub const EXPERIMENTS: [&Experiment; 28] = [
    &zkv_table1::EXPERIMENT,
    &zkv_fig11::EXPERIMENT,
    &zkv_fig12::EXPERIMENT,
    &zkv_table3::EXPERIMENT,
    &zkv_fig13::EXPERIMENT,
    &zkv_fig14::EXPERIMENT,
    &zkv_fig15::EXPERIMENT,
    &zkv_fig16::EXPERIMENT,
    &zkv_fig17::EXPERIMENT,
    &zkv_fig18::EXPERIMENT,
    &zkv_table4::EXPERIMENT,
    &zkv_fig19::EXPERIMENT,
    &zkv_fig20::EXPERIMENT,
    &zkv_fig21::EXPERIMENT,
    &zkv_memory::EXPERIMENT,
    &zkv_reclaim::EXPERIMENT,
    &zkv_reclaim_values::EXPERIMENT,
    &bftree_fig6::FIGURE_1,
    &bftree_fig6::EXPERIMENT,
    &bftree_fig7::EXPERIMENT,
    &bftree_fig8::EXPERIMENT,
    &bftree_fig9::EXPERIMENT,
    &bftree_fig10::EXPERIMENT,
    &bftree_fig11::EXPERIMENT,
    &bftree_fig12::EXPERIMENT,
    &bftree_fig13::EXPERIMENT,
    &bftree_fig14::EXPERIMENT,
    &bftree_fig15::EXPERIMENT,
];

/// SplinterDB is in most figures of the ZKV paper.
const SPLINTERDB: (&str, &str) = ("SplinterDB", "not packaged; the paper's numbers stand beside");

/// Under everything but ZKV and RocksDB in the ZKV paper (section 4.1).
const F2FS: (&str, &str) =
    ("F2FS-ZNS under B+-Tree and BD-Tree", "here both write zones themselves: what a file system costs is not in them");

/// No targets.
fn no_targets(_: &Results) -> Vec<Verdict> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_races_well_formed() {
        let names: BTreeSet<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for experiment in EXPERIMENTS {
            for scale in Scale::ALL {
                let races = (experiment.races)(scale);
                let ids: BTreeSet<_> = races.iter().map(|race| &race.id).collect();
                assert_eq!((ids.len(), races.is_empty()), (races.len(), false), "{}", experiment.name);
                races.iter().for_each(|race| check_race(experiment, race));
            }
        }
    }

    fn check_race(experiment: &Experiment, race: &Race) {
        let name = format!("{} {}", experiment.name, race.id);
        let series: BTreeSet<_> = race.contenders.iter().map(|contender| &contender.series).collect();
        let phases: BTreeSet<_> = race.steps.iter().map(|step| &step.phase).collect();
        assert_eq!((series.len(), phases.len()), (race.contenders.len(), race.steps.len()), "{name}");
        assert!(race.steps.iter().all(|step| step.slice(0, 1).is_ok()), "{name}");
        assert!(series.iter().all(|series| !series.contains(',')), "{name}: `--only` takes a list");
    }

    /// A fact about a series, place or phase that no race has would never be compared.
    #[test]
    fn facts_and_figures_are_about_something_that_is_run() {
        for experiment in EXPERIMENTS {
            Scale::ALL.into_iter().for_each(|scale| check_facts_and_figures(experiment, scale));
        }
    }

    fn check_facts_and_figures(experiment: &Experiment, scale: Scale) {
        let (name, races) = (experiment.name, (experiment.races)(scale));
        for cell in experiment.facts.iter().flat_map(|fact| fact.ours.cells()) {
            let x = cell.at(scale);
            let found = races.iter().filter(|race| race.x == x || x.is_empty()).any(|race| {
                race.steps.iter().any(|step| step.phase == cell.phase)
                    && race.contenders.iter().any(|contender| contender.series == cell.series)
            });
            assert!(found, "{name} at scale {}: {cell:?}", scale.name());
        }
        for figure in experiment.figures {
            for phase in figure.phases {
                let has =
                    |race: &&Race| figure.shows(&race.x, phase) && race.steps.iter().any(|step| step.phase == *phase);
                let found = races.iter().filter(has).count();
                // Bars of a step that several races have would be of whichever comes first.
                let most = if matches!(figure.axis, Axis::Parameter(_)) { usize::MAX } else { 1 };
                assert!((1..=most).contains(&found), "{name} at scale {}: {found} with phase {phase}", scale.name());
            }
        }
    }

    /// A place that only other scales have too would be compared at none of them.
    #[test]
    fn the_most_of_an_axis_is_its_last_place_at_every_scale() {
        for (experiment, most) in [
            (&zkv_fig14::EXPERIMENT, zkv_fig14::MOST),
            (&zkv_fig18::EXPERIMENT, zkv_fig18::LARGEST),
            (&bftree_fig7::EXPERIMENT, bftree_fig7::MOST),
            (&bftree_fig8::EXPERIMENT, bftree_fig8::MOST),
        ] {
            let last = |scale| (experiment.races)(scale).pop().map(|race| race.x);
            assert_eq!(Scale::ALL.map(last), most.map(|x| Some(x.to_owned())), "{}", experiment.name);
        }
    }
}
