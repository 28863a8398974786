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
mod printed;
mod results;
mod rocksdb_cost;
mod rocksdb_space;
mod splitzns;
mod stock;
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

pub use results::{DriveResults, DriveRow, Window};

use super::Scale;
use super::chart::Chart;
use crate::output::Output;
use crate::process::cpu_time;
use crate::provenance::{self, Moment, Provenance};
use crate::report::Table;
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
        let ours = ["setup", "fig9", "fig10", "fig13", "fig14", "fig15", "fig16", "fig17", "controls", "robust"];
        self.name.strip_prefix("splitzns-").is_some_and(|name| ours.contains(&name))
    }

    /// Options of `RocksDB` at a scale: name, the paper's or the default, ours.
    #[must_use]
    pub fn rocksdb_options(&self, scale: Scale) -> Vec<(&'static str, String, String)> {
        splitzns::rocksdb_options(scale)
    }
}

/// All of them, in the order in which `--list` shows them.
pub const DRIVE_EXPERIMENTS: [&DriveExperiment; 34] = [
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
    &splitzns::FIG16,
    &splitzns::FIG17,
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
    /// Its name: with the seed, all that decides its rows.
    id: String,
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
    /// Seed of everything random.
    pub seed: u64,
}

impl DriveRunner {
    /// Runs an experiment and shows it.
    ///
    /// # Errors
    /// `Io`; `Model` for a profile that the model refuses.
    pub fn run(&self, experiment: &DriveExperiment, output: &mut Output) -> Result<DriveResults> {
        let io = |source| BenchError::io(format!("make {}", self.out.display()), source);
        fs::create_dir_all(&self.out).map_err(io)?;
        let json = self.json.clone().unwrap_or_else(|| self.file(experiment, "", "json"));
        let results = self.points(experiment, &json)?;
        let (shown, withheld) = splitzns::printable(&results);
        let mut text = text(experiment, &shown);
        withheld.iter().for_each(|why| text.push_str(&format!("{why}\n")));
        write(&self.file(experiment, "", "txt"), &text)?;
        output.line(&text)?;
        for (ending, chart) in (experiment.charts)(&shown) {
            write(&self.file(experiment, ending, "svg"), &chart.svg())?;
        }
        if self.scale == Scale::Tiny {
            output.line("scale tiny: it works; its figures mean nothing")?;
        } else {
            (experiment.judge)(&shown).iter().try_for_each(|verdict| output.verdict(verdict))?;
        }
        output.line(format!("results: {}, table and figures: {}", json.display(), self.out.display()))?;
        Ok(results)
    }

    fn points(&self, experiment: &DriveExperiment, json: &Path) -> Result<DriveResults> {
        // Rows of points that are not run now stay; those of points that are run are taken only if a run is to go on.
        let keeps = self.resume || !self.only.is_empty() || !self.points.is_empty();
        let kept = if keeps { DriveResults::load(json, experiment.name, self.scale, self.seed)? } else { None };
        let points = (experiment.points)(self.scale)?;
        self.check_names(&points)?;
        let count = points.len();
        let order: Vec<String> = points.iter().map(|point| point.id.clone()).collect();
        let mut results = kept.clone().unwrap_or_else(|| DriveResults::new(experiment.name, self.scale, self.seed));
        results.rows.retain(|row| order.contains(&row.point));
        for (number, point) in points.into_iter().enumerate() {
            if !self.is_wanted(&point) {
                continue;
            }
            let found = kept
                .as_ref()
                .filter(|_| self.resume)
                .map(|kept| kept.rows_of(&point.id))
                .filter(|rows| !rows.is_empty());
            let rows = match found {
                Some(rows) => rows,
                None if let Some(rows) = self.of_sibling(experiment, &point.id)? => rows,
                None => {
                    eprintln!("{}: {} ({} of {count})", experiment.name, point.id, number + 1);
                    self.measured(&point)?
                }
            };
            results.replace(&point.id, rows, &order);
            results.save(json)?;
        }
        Ok(results)
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
        let expected = format!("one of \"{}\"", names.join("\", \""));
        Err(BenchError::Usage { option, given: given.clone(), expected })
    }

    /// Rows that another figure has kept of a point that is its too, if they may be taken.
    fn of_sibling(&self, experiment: &DriveExperiment, point: &str) -> Result<Option<Vec<DriveRow>>> {
        let is_sibling = |other: &&&DriveExperiment| other.name != experiment.name;
        for sibling in DRIVE_EXPERIMENTS.iter().filter(is_sibling).filter(|_| self.resume && is_shared(point)) {
            let kept = DriveResults::load(&self.file(sibling, "", "json"), sibling.name, self.scale, self.seed)?;
            let rows = kept.map(|kept| kept.rows_of(point)).unwrap_or_default();
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// Runs a point and says what it cost; its rows carry that.
    fn measured(&self, point: &Point) -> Result<Vec<DriveRow>> {
        let (start, cpu, began) = (now(), cpu_time(), Moment::now());
        let mut rows = (point.run)(self.seed)?;
        let cpu_seconds = cpu_time().saturating_sub(cpu).as_secs_f64();
        let seconds = now().since(start).as_secs_f64();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let from = Provenance::since(began);
        for row in &mut rows {
            row.from = Some(from.clone());
            row.point.clone_from(&point.id);
            row.seed = self.seed;
            row.cpu_seconds = cpu_seconds;
            row.cpu_share = cpu_seconds / seconds.max(f64::MIN_POSITIVE) / cores;
        }
        Ok(rows)
    }

    fn file(&self, experiment: &DriveExperiment, ending: &str, extension: &str) -> PathBuf {
        let dash = if ending.is_empty() { "" } else { "-" };
        self.out.join(format!("{}-{}{dash}{ending}.{extension}", experiment.name, self.scale.name()))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| BenchError::io(format!("write {}", path.display()), source))
}

fn text(experiment: &DriveExperiment, results: &DriveResults) -> String {
    let mut text = format!("{}: {} ({})\n", experiment.name, experiment.title, experiment.source);
    let (scale, seed) = (results.scale.name(), results.seed);
    text.push_str(&format!("scale {scale}, seed {seed}, zonda {}, {}\n\n", results.version, experiment.how));
    let with_fact = |column: &&str| results.rows.iter().any(|row| row.facts.contains_key(*column));
    let mut headings = vec!["what".to_owned(), "at".to_owned()];
    for column in experiment.columns {
        headings.push((*column).to_owned());
        if with_fact(column) {
            headings.push("theirs".to_owned());
        }
    }
    let names: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&names);
    for row in &results.rows {
        let mut cells = vec![row.series.clone(), row.x.clone()];
        for column in experiment.columns {
            cells.push(shown(row.numbers.get(*column)));
            if with_fact(column) {
                cells.push(shown(row.facts.get(*column)));
            }
        }
        table.row(cells);
    }
    text.push_str(&table.render());
    text.push_str(&format!("\n{}", provenance::table(points(results).into_iter())));
    text
}

/// Each point once, and where it is from.
fn points(results: &DriveResults) -> Vec<(&str, Option<&Provenance>)> {
    let mut points: Vec<_> = results.rows.iter().map(|row| (row.point.as_str(), row.from.as_ref())).collect();
    points.dedup_by_key(|(point, _)| *point);
    points
}

fn shown(value: Option<&f64>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") },
    )
}

/// A profile's or the model's refusal.
fn refused(error: zonda_flash::profile::ProfileError) -> BenchError {
    BenchError::Model { reason: error.0 }
}

#[cfg(test)]
mod tests {
    use zonda_rt::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn names_are_unique_and_points_too() {
        let names: std::collections::BTreeSet<_> = DRIVE_EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), DRIVE_EXPERIMENTS.len());
        for experiment in DRIVE_EXPERIMENTS {
            for scale in Scale::ALL {
                let points = (experiment.points)(scale).unwrap();
                let ids: std::collections::BTreeSet<_> = points.iter().map(|point| &point.id).collect();
                assert!(!ids.is_empty() && ids.len() == points.len(), "{}", experiment.name);
            }
        }
    }

    /// Three points, each a row that says how often points were run before.
    fn counting(_: Scale) -> Result<Vec<Point>> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let point = |id: &str| {
            let name = id.to_owned();
            let run =
                move |_| Ok(vec![DriveRow::of(&name, "x").number("runs", RUNS.fetch_add(1, Ordering::Relaxed) as f64)]);
            Point { id: id.to_owned(), run: Box::new(run) }
        };
        Ok(["one", "two", "three"].map(point).into())
    }

    #[test]
    fn rows_of_points_that_are_not_run_are_kept() {
        let experiment = DriveExperiment {
            name: "counting",
            title: "",
            source: "",
            how: "",
            points: counting,
            columns: &["runs"],
            charts: |_| Vec::new(),
            judge: |_| Vec::new(),
        };
        let directory = tempfile::tempdir().unwrap();
        let runner = |resume: bool, only: &[&str], points: &[&str]| {
            let [only, points] = [only, points].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let out = directory.path().to_owned();
            let runner = DriveRunner { scale: Scale::Tiny, out, json: None, resume, only, points, seed: 1 };
            runner.run(&experiment, &mut Output::to(Box::new(std::io::sink()), None))
        };
        let run = |resume: bool, only: &[&str]| {
            let results = runner(resume, only, &[]).unwrap();
            results.rows.iter().map(|row| format!("{} {}", row.series, row.numbers["runs"])).collect::<Vec<_>>()
        };
        let rows = |numbers: [u64; 3]| {
            let names = ["one", "two", "three"].into_iter().zip(numbers);
            names.map(|(name, number)| format!("{name} {number}")).collect::<Vec<_>>()
        };
        assert_eq!(run(true, &["one", "three"]).len(), 2, "0 and 1");
        assert_eq!(run(true, &["two"]), rows([0, 2, 1]), "in their order");
        assert_eq!(run(true, &[]), rows([0, 2, 1]));
        assert_eq!(run(false, &["three"]), rows([0, 2, 3]), "that one is run again");
        assert_eq!(run(false, &[]), rows([4, 5, 6]), "nothing is kept");
        let again = runner(false, &[], &["two"]).unwrap();
        assert_eq!(again.rows.iter().map(|row| row.numbers["runs"]).collect::<Vec<_>>(), [4.0, 7.0, 6.0]);
        let refused = |only: &[&str], points: &[&str]| runner(false, only, points).unwrap_err().to_string();
        assert!(refused(&[], &["tw"]).contains("--point"), "{}", refused(&[], &["tw"]));
        assert!(refused(&["four"], &[]).contains("\"one\", \"two\""), "{}", refused(&["four"], &[]));
    }

    /// Every experiment, tiny, twice: the second time from what the first one kept.
    #[test]
    fn tiny_experiments_run_are_kept_and_drawn() {
        let directory = tempfile::tempdir().unwrap();
        for experiment in DRIVE_EXPERIMENTS {
            let out = directory.path().to_owned();
            let runner = DriveRunner {
                scale: Scale::Tiny,
                out,
                json: None,
                resume: true,
                only: Vec::new(),
                points: Vec::new(),
                seed: 1,
            };
            let mut output = Output::to(Box::new(std::io::sink()), None);
            let first = runner.run(experiment, &mut output).unwrap();
            assert_eq!(runner.run(experiment, &mut output).unwrap(), first, "{}", experiment.name);
            assert!(!first.rows.is_empty() || !splitzns::has_tools(experiment), "{}: no rows", experiment.name);
            assert!(first.rows.iter().all(|row| row.numbers.values().all(|number| number.is_finite())));
            for (ending, _) in (experiment.charts)(&first) {
                assert!(runner.file(experiment, ending, "svg").exists());
            }
        }
    }
}
