//! Several stores do the same work in turns, slice by slice, so that whatever else happens on the machine hits all of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::contest::{ChildContest, Contest, ContestPlan, DataShape, Engines, LocalContest, MemoryGroup, Step};
use crate::experiment::ChildProgram;
use crate::measured::Measured;
use crate::place::Place;
use crate::report::PhaseReport;
use crate::subject::StorePlan;
use crate::{BenchError, Result};

/// One store in a race, under the name of its series in tables and figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Name of the series.
    pub series: String,
    /// The store; its `uri` is filled in when it is made.
    pub store: StorePlan,
    /// Records, operations and memory are divided by this: for stores that would take hours. Per-operation figures depend on
    /// the share of memory, not on the size.
    pub scale_down: u64,
}

impl Contender {
    /// A contender at full size.
    #[must_use]
    pub fn new(series: &str, store: StorePlan) -> Self {
        Self { series: series.to_owned(), store, scale_down: 1 }
    }

    /// The same at a smaller scale.
    #[must_use]
    pub fn scaled_down(mut self, by: u64) -> Self {
        self.scale_down = by.max(1);
        self
    }
}

/// Contenders and what all of them do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Race {
    /// Its name in the experiment.
    pub id: String,
    /// Its place on the x axis of figures.
    pub x: String,
    /// Who runs.
    pub contenders: Vec<Contender>,
    /// Records that the first step loads.
    pub records: u64,
    /// The records; the capacity is what all steps may insert.
    pub data: DataShape,
    /// Live leaves as a share of the usable bytes in percent, where the device is made to fit.
    pub live_percent: Option<u32>,
    /// The fewest zones of such a device.
    #[serde(default)]
    pub zones_min: Option<u32>,
    /// What everybody does, in order.
    pub steps: Vec<Step>,
    /// Turns that each step is divided into.
    pub slices: u32,
}

impl Race {
    /// A race over pairs of 8 B + 8 B that begins with loading `records` of them.
    #[must_use]
    pub fn new(x: &str, records: u64, threads: usize) -> Self {
        Self {
            id: x.to_owned(),
            x: x.to_owned(),
            contenders: Vec::new(),
            records,
            data: DataShape::small(records),
            live_percent: None,
            zones_min: None,
            steps: vec![Step::new("load", records, threads)],
            slices: 1,
        }
    }

    /// Whether this is the same work as another, whoever does it.
    pub(crate) fn is_same_work(&self, other: &Self) -> bool {
        Self { contenders: Vec::new(), ..self.clone() } == Self { contenders: Vec::new(), ..other.clone() }
    }

    /// The same with one more contender.
    #[must_use]
    pub fn contender(mut self, contender: Contender) -> Self {
        self.contenders.push(contender);
        self
    }

    /// The same with one more step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The same in so many turns.
    #[must_use]
    pub fn in_turns(mut self, slices: u32) -> Self {
        self.slices = slices.max(1);
        self
    }

    /// Operations of all steps that may insert; steps that do not exist are reported when they are run.
    fn inserts_max(&self) -> u64 {
        self.steps.iter().filter(|step| step.inserts()).map(|step| step.operations + u64::from(self.slices)).sum()
    }

    fn plan(&self, contender: &Contender, uri: &str, seed: u64) -> ContestPlan {
        let by = contender.scale_down;
        let mut store = contender.store.clone();
        uri.clone_into(&mut store.uri);
        store.seed = seed;
        store.memory_bytes = (store.memory_bytes / by).max(MEMORY_BYTES_MIN);
        let data = DataShape { capacity: self.inserts_max() / by + u64::from(self.slices), ..self.data.clone() };
        let (live_percent, zones_min) = (self.live_percent, self.zones_min);
        ContestPlan { store, data, live_percent, zones_min, records: self.records / by }
    }
}

/// No store works with less.
const MEMORY_BYTES_MIN: u64 = zonda::limits::MEMORY_BYTES_MIN;

/// What one contender did in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The race's place on the x axis.
    pub x: String,
    /// The contender.
    pub series: String,
    /// See [`Contender::scale_down`].
    pub scale_down: u64,
    /// Memory budget.
    pub memory_bytes: u64,
    /// What was measured; its `phase` is the step's.
    pub report: PhaseReport,
}

/// How a race went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One row per contender and step, steps first.
    pub rows: Vec<Row>,
    /// Who could not start here, and why.
    pub unavailable: Vec<(String, String)>,
    /// Who failed, and how.
    pub failed: Vec<(String, String)>,
    /// Whose share of the page cache could not be bounded, and why.
    #[serde(default)]
    pub unbounded: Vec<(String, String)>,
    /// Whose memory group may hold more than its budget allows, and how much.
    #[serde(default)]
    pub wider: Vec<(String, String)>,
}

/// Where and how races are run.
#[derive(Clone, Debug)]
pub struct Track {
    /// What can be made.
    pub engines: Engines,
    /// Each contender in a child started like this; `None`: all in this process, where memory is not told apart.
    pub program: Option<ChildProgram>,
    /// Where stores are made.
    pub directory: PathBuf,
    /// Seed of everything.
    pub seed: u64,
}

/// What a process with a budget of `memory_bytes` may hold in all, its program, records to check against and page cache
/// included: about what those hold that keep the budget themselves.
const fn held_bytes_max(memory_bytes: u64) -> u64 {
    memory_bytes + memory_bytes / 4 + (4 << 20)
}

/// Says that a group may hold so many bytes more than others of its budget.
fn wider(memory_bytes: u64, more_bytes: u64) -> String {
    let usual = held_bytes_max(memory_bytes);
    let (allowed, usual, budget) =
        (crate::show_bytes(usual + more_bytes), crate::show_bytes(usual), crate::show_bytes(memory_bytes));
    format!("{allowed} in all, where a budget of {budget} gives others {usual}")
}

/// A contender at work.
struct Running<'a> {
    contender: &'a Contender,
    contest: Box<dyn Contest>,
    /// Gone when the contest is.
    _place: Place,
    sums: Vec<Option<Measured>>,
}

impl Track {
    /// Runs `race`; `tell` hears of every step.
    ///
    /// A contender that fails is out, and named in the outcome; the others go on.
    ///
    /// # Errors
    /// `Io` when no store can be placed here, and what steps that do not exist answer.
    pub fn run(&self, race: &Race, tell: &mut dyn FnMut(&str)) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut field = Vec::new();
        for contender in &race.contenders {
            self.enter(race, contender, &mut field, &mut outcome)?;
        }
        for (at, step) in race.steps.iter().enumerate() {
            for nth in 0..race.slices {
                tell(&format!("{} {} ({}/{})", race.id, step.phase, nth + 1, race.slices));
                one_turn(&mut field, &mut outcome, |running| running.slice(at, step, nth, race.slices));
            }
        }
        one_turn(&mut field, &mut outcome, |running| running.contest.finish().map(drop));
        outcome.rows = self.rows(race, &field)?;
        Ok(outcome)
    }

    fn enter<'a>(
        &self,
        race: &Race,
        contender: &'a Contender,
        field: &mut Vec<Running<'a>>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let name = contender.series.clone();
        if let Some(why) = (self.engines.unavailable)(&contender.store) {
            outcome.unavailable.push((name, why));
            return Ok(());
        }
        let place = Place::temporary(&self.directory)?;
        let plan = race.plan(contender, place.uri(), self.seed);
        let memory = self.memory_group(&plan).unwrap_or_else(|error| {
            outcome.unbounded.push((name.clone(), error.to_string()));
            None
        });
        let more = if memory.is_some() { (self.engines.held_more_bytes)(&plan.store) } else { 0 };
        if more > 0 {
            outcome.wider.push((name.clone(), wider(plan.store.memory_bytes, more)));
        }
        match self.contest(&plan, memory) {
            Ok(contest) => {
                let sums = vec![None; race.steps.len()];
                field.push(Running { contender, contest, _place: place, sums });
            }
            Err(error) => outcome.failed.push((name, error.to_string())),
        }
        Ok(())
    }

    /// What bounds a child that goes through the page cache; `None` for everybody else.
    fn memory_group(&self, plan: &ContestPlan) -> Result<Option<MemoryGroup>> {
        let wanted = self.program.is_some() && (self.engines.page_cached)(&plan.store);
        let bytes = held_bytes_max(plan.store.memory_bytes) + (self.engines.held_more_bytes)(&plan.store);
        wanted.then(|| MemoryGroup::new(bytes)).transpose()
    }

    fn contest(&self, plan: &ContestPlan, memory: Option<MemoryGroup>) -> Result<Box<dyn Contest>> {
        Ok(match &self.program {
            None => Box::new(LocalContest::new(plan, self.engines)?),
            Some(program) => Box::new(ChildContest::start(plan, program, memory)?),
        })
    }

    fn rows(&self, race: &Race, field: &[Running<'_>]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (at, step) in race.steps.iter().enumerate() {
            let phase = step.slice(0, 1)?;
            for running in field {
                let contender = running.contender;
                let Some(measured) = &running.sums[at] else { continue };
                rows.push(Row {
                    x: race.x.clone(),
                    series: contender.series.clone(),
                    scale_down: contender.scale_down,
                    memory_bytes: (contender.store.memory_bytes / contender.scale_down).max(MEMORY_BYTES_MIN),
                    report: measured.report(&phase, &contender.store.design, self.seed),
                });
            }
        }
        Ok(rows)
    }
}

impl Running<'_> {
    fn slice(&mut self, at: usize, step: &Step, nth: u32, slices: u32) -> Result<()> {
        let mut step = step.clone();
        step.operations = (step.operations / self.contender.scale_down).max(u64::from(slices));
        let measured = self.contest.run(&step, nth, slices)?;
        match &mut self.sums[at] {
            Some(sum) => sum.add(&measured),
            empty => *empty = Some(measured),
        }
        Ok(())
    }
}

/// Everybody's turn at the same slice; who fails is out.
fn one_turn<'a>(
    field: &mut Vec<Running<'a>>,
    outcome: &mut Outcome,
    mut turn: impl FnMut(&mut Running<'a>) -> Result<()>,
) {
    field.retain_mut(|running| match turn(running) {
        Ok(()) => true,
        Err(error) => {
            outcome.failed.push((running.contender.series.clone(), error.to_string()));
            false
        }
    });
}

impl Outcome {
    /// The first failure as an error, for callers that allow none.
    ///
    /// # Errors
    /// `Child` with the contender and its words.
    pub fn none_failed(&self) -> Result<()> {
        match self.failed.first() {
            None => Ok(()),
            Some((series, why)) => Err(BenchError::Child(format!("{series} failed: {why}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::subject::{MapSubject, Subject};

    fn create(plan: &StorePlan) -> Result<Arc<dyn Subject>> {
        match plan.design.as_str() {
            "broken" => Err(BenchError::Child("cannot".into())),
            _ => Ok(Arc::new(MapSubject::default())),
        }
    }

    fn unavailable(plan: &StorePlan) -> Option<String> {
        (plan.design == "other").then(|| "not here".to_owned())
    }

    fn track(directory: &std::path::Path) -> Track {
        let engines = Engines { create, unavailable, page_cached: |_| false, held_more_bytes: |_| 0 };
        Track { engines, program: None, directory: directory.to_owned(), seed: 1 }
    }

    #[test]
    fn a_wider_group_is_told_with_what_others_have() {
        assert_eq!(wider(8 << 20, 16 << 20), "30.0 MiB in all, where a budget of 8.0 MiB gives others 14.0 MiB");
    }

    fn contender(design: &str) -> Contender {
        let mut store = StorePlan::new(String::new(), 8 << 20, 1);
        design.clone_into(&mut store.design);
        Contender::new(design, store)
    }

    #[test]
    fn everybody_runs_every_step_and_who_cannot_is_named() {
        let race = Race::new("a", 1_000, 2)
            .contender(contender("map"))
            .contender(contender("small").scaled_down(10))
            .contender(contender("broken"))
            .contender(contender("other"))
            .step(Step::new("update", 100, 2))
            .in_turns(3);
        let directory = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let outcome = track(directory.path()).run(&race, &mut |line| told.push(line.to_owned())).unwrap();
        let rows: Vec<_> = outcome.rows.iter().map(|row| (row.series.as_str(), row.report.operations)).collect();
        assert_eq!(rows, [("map", 1_000), ("small", 100), ("map", 100), ("small", 10)]);
        assert_eq!((outcome.unavailable.len(), outcome.failed.len(), told.len()), (1, 1, 6));
        assert!(outcome.none_failed().unwrap_err().to_string().contains("broken failed"));
        let travelled: Outcome = serde_json::from_str(&serde_json::to_string(&outcome).unwrap()).unwrap();
        assert_eq!(travelled, outcome);
    }

    #[test]
    fn who_fails_is_out_and_the_others_go_on() {
        let race = Race::new("a", 100, 1).contender(contender("map")).step(Step::new("zkv-b", 1_000, 0));
        let directory = tempfile::tempdir().unwrap();
        let outcome = track(directory.path()).run(&race, &mut |_| {}).unwrap();
        assert!(outcome.rows.is_empty() && outcome.failed.len() == 1, "a step of no threads");
    }

    #[test]
    fn there_is_room_for_what_all_steps_insert() {
        let race = Race::new("a", 101, 1).step(Step::new("zkv-b", 1_000, 1)).step(Step::new("get", 10, 1)).in_turns(3);
        assert_eq!(race.plan(&contender("map"), "mem:", 1).data.capacity, 101 + 1_000 + 3 * 3);
        assert_eq!(race.plan(&contender("map").scaled_down(10), "mem:", 1).records, 10);
    }
}
