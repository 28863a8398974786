//! Experiments on models: no store, no contest; each point is a run of a modelled drive in virtual time, or a trace replayed on
//! modelled zones. And stock `db_bench` as a child on the file store: no model, its times are the machine's.
//!
//! Figures depend on profile, options and seed only, not on the machine; what depends on it is said beside them. Points
//! are kept one by one, so that a run that was stopped goes on where it was.

mod caza;
mod caza_fig3;
mod caza_fig4;
mod caza_fig5;
mod caza_fig6;
mod caza_table1;
mod host_ftl;
mod made;
mod printed;
mod results;
mod rocksdb_cost;
mod rocksdb_space;
mod seeds;
mod splitzns;
mod stock;
#[cfg(test)]
mod tests;
mod text;
mod zn540;
mod zns_active;
mod zns_fig1;
mod zns_fig10;
mod zns_fig5;
mod zns_fig6;
mod zns_fig7;
mod zns_fig8;
mod zns_fig9;
mod zns_rocksdb;
mod zns_table2;

use std::fs;
use std::path::{Path, PathBuf};

use zonda_rt::now;

use made::{Maker, Makers};
pub use results::{DriveResults, DriveRow, Window};

use super::Scale;
use super::chart::Chart;
use super::run::with_verdicts;
use crate::output::Output;
use crate::process::cpu_time;
use crate::provenance::{Moment, Provenance};
use crate::verdict::Verdict;
use crate::{BenchError, Result};

/// One figure of a paper, or one part of a drive's data sheet, run on the model.
#[derive(Clone, Copy)]
pub struct DriveExperiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// Whose numbers stand beside ours.
    pub source: &'static str,
    /// How its figures came about, in two words.
    how: &'static str,
    /// The points at a scale.
    points: fn(Scale) -> Result<Vec<Point>>,
    /// Columns of the table: keys of a row's numbers; those that the row has a fact for are followed by it.
    columns: &'static [&'static str],
    /// What is drawn: the ending of the file's name, and the drawing.
    charts: fn(&DriveResults) -> Vec<(&'static str, Chart)>,
    /// Targets.
    judge: fn(&DriveResults) -> Vec<Verdict>,
}

impl std::fmt::Debug for DriveExperiment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriveExperiment").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DriveExperiment {
    /// Whether it runs stock `db_bench`.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.rocksdb_options(Scale::Tiny).is_empty()
    }

    /// Whether a run that fails is a result: what is asked is with how little it ends well.
    fn may_fail(&self) -> bool {
        [zns_active::EXPERIMENT.name, rocksdb_space::EXPERIMENT.name].contains(&self.name)
    }

    /// What its runs are told at a scale: name, the paper's or the default, ours. Of those that are not live nothing.
    #[must_use]
    pub fn rocksdb_options(&self, scale: Scale) -> Vec<[String; 3]> {
        splitzns::rocksdb_options(self.name, scale)
    }
}

/// All of them, in the order in which `--list` shows them.
pub const DRIVE_EXPERIMENTS: [&DriveExperiment; 36] = [
    &zns_fig1::EXPERIMENT,
    &zns_fig5::EXPERIMENT,
    &zns_fig6::EXPERIMENT,
    &zns_fig7::EXPERIMENT,
    &zns_fig8::EXPERIMENT,
    &zns_fig9::EXPERIMENT,
    &zns_fig10::EXPERIMENT,
    &zns_table2::EXPERIMENT,
    &zns_active::EXPERIMENT,
    &zn540::READ,
    &zn540::MIXED,
    &zn540::WRITE,
    &zn540::MANAGE,
    &splitzns::FIG3,
    &splitzns::FIG4,
    &splitzns::FIG11,
    &splitzns::FIG12,
    &splitzns::SETUP,
    &splitzns::FIG9,
    &splitzns::FIG10,
    &splitzns::FIG13,
    &splitzns::FIG14,
    &splitzns::FIG15,
    &splitzns::SUSTAINED,
    &splitzns::FIG16,
    &splitzns::FIG17,
    &splitzns::POINTER,
    &splitzns::CONTROLS,
    &splitzns::ROBUST,
    &caza_fig3::EXPERIMENT,
    &caza_fig4::EXPERIMENT,
    &caza_fig5::EXPERIMENT,
    &caza_fig6::EXPERIMENT,
    &caza_table1::EXPERIMENT,
    &rocksdb_cost::EXPERIMENT,
    &rocksdb_space::EXPERIMENT,
];

/// The profile of rows that are replays of a trace on zones, without a drive.
const REPLAY: &str = "replay";

/// The profile of rows that come from a program in dilated time on the drive `splitzns`.
const LIVE: &str = "live";

/// Whether figures have such points in common.
fn is_shared(point: &str) -> bool {
    point.starts_with(LIVE) || zns_rocksdb::is_shared(point)
}

/// One run of the model, which makes one row or several.
struct Point {
    /// Its name: with the seed, options and the model, all that decides its rows.
    id: String,
    /// Options of `RocksDB` that its rows will say (option `rocksdb`), of live runs: rows of other options are not taken for its own.
    rocksdb: Option<String>,
    /// What makes its rows: those of another model are not taken for its own, either.
    maker: Maker,
    run: Box<dyn Fn(u64) -> Result<Vec<DriveRow>>>,
}

/// How drive experiments are run.
#[derive(Clone, Debug)]
pub struct DriveRunner {
    /// How much.
    pub scale: Scale,
    /// Directory of tables and figures, made if missing.
    pub out: PathBuf,
    /// File of the results; without one `NAME-SCALE.json` in `out`.
    pub json: Option<PathBuf>,
    /// Whether points that the file has already are taken from it.
    pub resume: bool,
    /// Only points whose names begin with one of these; empty for all.
    pub only: Vec<String>,
    /// Only points of these names; empty for all. The others are taken from the file, if it has them.
    pub points: Vec<String>,
    /// Seeds of everything random. Several only for experiments that are live: each point is run with each, what is shown is their mean,
    /// and results of other seeds are kept as those of other points are.
    pub seeds: Vec<u64>,
}

impl DriveRunner {
    /// Runs an experiment and shows it. A point that fails is in the results with the reason, and the others are run.
    ///
    /// # Errors
    /// `Io`; `Failed` when points failed, after everything has been written.
    pub fn run(&self, experiment: &DriveExperiment, output: &mut Output) -> Result<DriveResults> {
        let json = self.json.clone().unwrap_or_else(|| self.file(experiment, "", "json"));
        let (results, mut failed) = self.points(experiment, &json)?;
        let means = if experiment.is_live() { results.mean() } else { results.clone() };
        if results.rows.is_empty() {
            output.line(format!("{}: nothing was measured, and nothing written", experiment.name))?;
            return Ok(results);
        }
        let (shown, withheld) = splitzns::printable(&means);
        let mut text = text::of(experiment, &shown, &results);
        // What failed is in the table, and in no picture and no target.
        let (measured, runs) = (shown.without_broken(), results.without_broken());
        let verdicts = if self.scale == Scale::Tiny { Vec::new() } else { seeds::judged(experiment, &measured, &runs) };
        withheld.iter().for_each(|why| text.push_str(&format!("{why}\n")));
        text.push_str(&text::beside_the_paper(&verdicts));
        write(&self.file(experiment, "", "txt"), &with_verdicts(&text, &verdicts))?;
        output.line(&text)?;
        for (ending, chart) in (experiment.charts)(&measured) {
            write(&self.file(experiment, ending, "svg"), &chart.svg())?;
        }
        if self.scale == Scale::Tiny {
            output.line("scale tiny: it works; its figures mean nothing")?;
        }
        verdicts.iter().try_for_each(|verdict| output.verdict(verdict))?;
        output.line(format!("results: {}, table and figures: {}", json.display(), self.out.display()))?;
        failed.extend(failed_points(experiment, &results));
        if failed.is_empty() { Ok(results) } else { Err(BenchError::Failed(failed.join("; "))) }
    }

    /// What was measured now and before; and why points could not be run whose rows of before stay.
    fn points(&self, experiment: &DriveExperiment, json: &Path) -> Result<(DriveResults, Vec<String>)> {
        let [first, ..] = self.seeds[..] else {
            return Err(BenchError::Usage { option: "--seeds", given: "0".into(), expected: "at least 1".into() });
        };
        if self.seeds.len() > 1 && !experiment.is_live() {
            let expected = format!("1: {} has its own seeds, or needs none", experiment.name);
            return Err(BenchError::Usage { option: "--seeds", given: self.seeds.len().to_string(), expected });
        }
        // Rows of points and seeds that are not run now stay; those that are run are taken only if a run is to go on.
        let keeps = self.resume || !self.only.is_empty() || !self.points.is_empty();
        let of = if experiment.is_live() { None } else { Some(first) };
        let kept = if keeps { DriveResults::load(json, experiment.name, self.scale, of)? } else { None };
        let points = (experiment.points)(self.scale)?;
        self.check_names(&points)?;
        fs::create_dir_all(&self.out)
            .map_err(|source| BenchError::io(format!("make {}", self.out.display()), source))?;
        let order: Vec<String> = points.iter().map(|point| point.id.clone()).collect();
        let mut makers = Makers::default();
        let mut results = kept.unwrap_or_else(|| DriveResults::new(experiment.name, self.scale));
        results.retain(|row| points.iter().any(|point| point.may_have(row)));
        makers.leave_out_others(experiment, &mut results, &points, json)?;
        let wanted: Vec<&Point> = points.iter().filter(|point| self.is_wanted(point)).collect();
        let count = wanted.len() * self.seeds.len();
        // All points of a seed, so that what is loaded for it is loaded once.
        let runs = self.seeds.iter().flat_map(|seed| wanted.iter().map(move |point| (*seed, *point)));
        let mut failed = Vec::new();
        for (number, (seed, point)) in runs.enumerate() {
            let found = Some(results.rows_of(&point.id, seed)).filter(|rows| is_done(experiment, rows));
            let rows = match found.clone().filter(|_| self.resume) {
                Some(rows) => rows,
                None if let Some(rows) = self.of_sibling(experiment, point, seed, &mut makers)? => rows,
                None => {
                    eprintln!("{}: {}, seed {seed} ({} of {count})", experiment.name, point.id, number + 1);
                    measured(experiment, point, seed, &mut makers)
                }
            };
            // Without its programs a point has no rows: what is there stays. As it does when it is whole, and there is a reason only.
            if let Some(broken) = rows.iter().find(|row| row.is_broken()).filter(|_| found.is_some()) {
                let why = broken.failure().unwrap_or_default();
                failed.push(format!("{}, seed {seed}, which keeps its rows of before: {why}", point.id));
            } else if !rows.is_empty() {
                results.replace((&point.id, seed), rows, &order);
                results.save(json)?;
            }
        }
        Ok((results, failed))
    }

    fn is_wanted(&self, point: &Point) -> bool {
        let is_among =
            |names: &[String], is: &dyn Fn(&str) -> bool| names.is_empty() || names.iter().any(|name| is(name));
        is_among(&self.only, &|beginning| point.id.starts_with(beginning))
            && is_among(&self.points, &|name| point.id == name)
    }

    /// Refuses names for which nothing would be run.
    fn check_names(&self, points: &[Point]) -> Result<()> {
        let none_of = |is: &dyn Fn(&Point) -> bool| !points.iter().any(is);
        let unknown = self.points.iter().find(|name| none_of(&|point| point.id == **name));
        let beginning = self.only.iter().find(|name| none_of(&|point| point.id.starts_with(name.as_str())));
        let Some((option, given)) = unknown.map(|name| ("--point", name)).or(beginning.map(|name| ("--only", name)))
        else {
            return Ok(());
        };
        let names: Vec<&str> = points.iter().map(|point| point.id.as_str()).collect();
        let names = format!("one of \"{}\"", names.join("\", \""));
        let expected = match option {
            // A list is divided by commas, and names have some.
            "--only" => format!("the beginning, without a comma, of {names}; --point takes a whole name"),
            _ => names,
        };
        Err(BenchError::Usage { option, given: given.clone(), expected })
    }

    /// Rows that another figure has kept of a point that is its too, if they may be taken.
    fn of_sibling(
        &self,
        experiment: &DriveExperiment,
        point: &Point,
        seed: u64,
        makers: &mut Makers,
    ) -> Result<Option<Vec<DriveRow>>> {
        let is_sibling = |other: &&&DriveExperiment| other.name != experiment.name;
        for sibling in DRIVE_EXPERIMENTS.iter().filter(is_sibling).filter(|_| self.resume && is_shared(&point.id)) {
            let file = self.file(sibling, "", "json");
            let kept = DriveResults::load_sibling(&file, sibling.name, self.scale)?;
            let mut rows = kept.map(|kept| kept.rows_of(&point.id, seed)).unwrap_or_default();
            let model = makers.model(point.maker);
            rows.retain(|row| point.may_have(row) && made::differs(row, model.as_deref()).is_none());
            if is_done(experiment, &rows) {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    fn file(&self, experiment: &DriveExperiment, ending: &str, extension: &str) -> PathBuf {
        let dash = if ending.is_empty() { "" } else { "-" };
        self.out.join(format!("{}-{}{dash}{ending}.{extension}", experiment.name, self.scale.name()))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| BenchError::io(format!("write {}", path.display()), source))
}

impl Point {
    fn new(id: impl Into<String>, maker: Maker, run: impl Fn(u64) -> Result<Vec<DriveRow>> + 'static) -> Self {
        Self { id: id.into(), rocksdb: None, maker, run: Box::new(run) }
    }

    /// The same of a run of `RocksDB` that is told these options.
    fn told(self, rocksdb: String) -> Self {
        Self { rocksdb: Some(rocksdb), ..self }
    }

    /// Whether a row may be its own: it says the same options of `RocksDB`, if any, or stands for a run that gave no rows to say them.
    fn may_have(&self, row: &DriveRow) -> bool {
        let said = row.options.get(TOLD).and_then(|said| said.as_str());
        let is_told = self.rocksdb.as_deref().is_none_or(|told| said == Some(told));
        row.point == self.id && (row.is_broken() || is_told)
    }
}

/// The option of a row that says what `RocksDB`, and for some experiments the drive, was told.
const TOLD: &str = "rocksdb";
/// The option of a row that says why its run failed.
const FAILED: &str = "failed";
/// The option of the only row of a point that could not be run, or whose outcome could not be read: why.
const BROKEN: &str = "broken";

impl DriveRow {
    /// Why its run failed, or could not be.
    fn failure(&self) -> Option<&str> {
        self.options.get(BROKEN).or_else(|| self.options.get(FAILED))?.as_str()
    }

    /// Whether it stands for a point that gave no rows.
    fn is_broken(&self) -> bool {
        self.options.contains_key(BROKEN)
    }
}

/// Whether rows are all of a point: one that failed is run again, unless that it fails is a result.
fn is_done(experiment: &DriveExperiment, rows: &[DriveRow]) -> bool {
    !rows.is_empty() && !rows.iter().any(|row| is_failure(experiment, row))
}

/// Whether a row is of a run that failed where that is no result.
fn is_failure(experiment: &DriveExperiment, row: &DriveRow) -> bool {
    row.is_broken() || !experiment.may_fail() && row.failure().is_some()
}

/// Points whose runs failed, and why.
fn failed_points(experiment: &DriveExperiment, results: &DriveResults) -> Vec<String> {
    let failed = results.rows.iter().filter(|row| is_failure(experiment, row));
    failed.map(|row| format!("{} of {}: {}", row.series, row.point, row.failure().unwrap_or_default())).collect()
}

/// Runs a point and says what it cost; its rows carry that. One that cannot be run gives a row with the reason.
fn measured(experiment: &DriveExperiment, point: &Point, seed: u64, makers: &mut Makers) -> Vec<DriveRow> {
    let (model, plugin) = (makers.model(point.maker), makers.build(point.maker));
    let (start, cpu, began) = (now(), cpu_time(), Moment::now());
    let mut rows = (point.run)(seed).unwrap_or_else(|error| {
        eprintln!("{}: {}, seed {seed}: FAILED: {error}", experiment.name, point.id);
        vec![DriveRow::of(&point.id, "failed").option(BROKEN, error.to_string())]
    });
    let cpu_seconds = cpu_time().saturating_sub(cpu).as_secs_f64();
    let seconds = now().since(start).as_secs_f64();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let from = Provenance { plugin, ..Provenance::since(began) };
    for row in &mut rows {
        row.from = Some(from.clone());
        row.model.clone_from(&model);
        row.point.clone_from(&point.id);
        row.seed = seed;
        row.cpu_seconds = cpu_seconds;
        row.cpu_share = cpu_seconds / seconds.max(f64::MIN_POSITIVE) / cores;
    }
    rows
}

/// A profile's or the model's refusal.
fn refused(error: zonda_flash::profile::ProfileError) -> BenchError {
    BenchError::Model { reason: error.0 }
}
